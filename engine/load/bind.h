/* engine/load/bind.h - tensors of a checkpoint bound to typed places by name.
 *
 * A model walks its table of names and gives each row to the binder: bind_begin, bind_add for every row, bind_end.
 * Nothing fails on the way; bind_end reports everything at once: what is missing, what has a wrong shape or type, what
 * no row asked for. Places are written as rows are added and are valid when bind_end gives OK.
 *
 * A module is MXFP4 if it has NAME.weight_packed and NAME.weight_scale, else it needs NAME.weight. BF16 stays where it
 * is mapped (at an even address; else it is copied); F16 and F32 become BF16 copies, rounded to nearest even. */
#ifndef ENGINE_LOAD_BIND_H
#define ENGINE_LOAD_BIND_H
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/dtype.h"
#include "engine/load/model_dir.h"

enum {
    BIND_NAME_MAX = 192,  /* bytes of a name, NUL included; names are made by the models' tables */
    BIND_GROUP = 32,      /* MXFP4: input columns of one scale byte */
    BIND_SCALE_NAN = 255, /* MXFP4: the scale byte that is no number */
};

/* A matrix [n][k] in the layout of the file, or its BF16 copy. */
typedef struct bind_matrix {
    const void *data;
    const uint8_t *scale; /* MXFP4: k / BIND_GROUP bytes a row; else NULL */
    int32_t n, k;
    dtype type; /* DT_BF16 or DT_MXFP4 */
} bind_matrix;

typedef enum bind_kind {
    BIND_MODULE, /* name is a module's: BF16 or MXFP4 */
    BIND_DENSE,  /* name is a module's: NAME.weight, never MXFP4 */
    BIND_VECTOR, /* name is a tensor's, [n]; the place is a const bf16 * */
    BIND_FLOATS, /* name is a tensor's, [n]; the place is a const float *, always a copy */
} bind_kind;

typedef struct bind_item {
    const char *name, *alias; /* alias: another spelling, or NULL; both borrowed for the call */
    bind_kind kind;
    int32_t n, k; /* expected; k is not used for vectors */
    void *place;
} bind_item;

typedef struct bind_totals {
    int64_t parameters; /* values in all bound tensors, without scales */
    int64_t bytes;      /* of the bound tensors in the files */
    int64_t mxfp4;      /* modules */
} bind_totals;

typedef struct binder binder;

/* `put` stores a matrix in the place of its item, in the type that the forward pass uses. Copies live in `mem`. */
binder *bind_begin(const model_dir *dir, arena *mem, void (*put)(void *place, const bind_matrix *m));

/* Is there a module of this name, in either form? */
bool bind_has(const binder *b, const char *module);

void bind_add(binder *b, const bind_item *item);

/* Ends the binder in any case. Reads every scale byte: a value that is not finite is ERR_MODEL, a code that would be
 * subnormal (and so count as zero) goes to the log. progress (may be NULL) hears the share that is read. */
status bind_end(binder *b, bind_totals *out, void (*progress)(void *arg, float fraction), void *arg, err *e);
#endif
