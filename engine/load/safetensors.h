/* engine/load/safetensors.h - the header of one safetensors file: tensors as named, typed ranges of a mapping.
 *
 * A file is 8 bytes of header length (little endian), the header (a JSON object), then the data. Everything is checked
 * while the header is read, with arithmetic that cannot overflow; memory grows with what was read, never by a number in
 * the file. Refused: headers above 100 MB; names twice or with control characters; more than 8 dimensions; unknown
 * dtypes; ranges that overlap, leave a hole, run past the end or leave bytes over; __metadata__ that is no object of
 * strings. */
#ifndef ENGINE_LOAD_SAFETENSORS_H
#define ENGINE_LOAD_SAFETENSORS_H
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/status.h"
#include "engine/base/str.h"

enum { TENSOR_DIMS = 8 };

/* As the file spells them; F8_E8M0 counts as U8 (the same bytes). Others are TENSOR_OTHER: listed, not usable. */
typedef enum tensor_type {
    TENSOR_F32,
    TENSOR_BF16,
    TENSOR_F16,
    TENSOR_U8,
    TENSOR_I32,
    TENSOR_I64,
    TENSOR_OTHER
} tensor_type;

typedef struct tensor {
    str name;
    tensor_type type;
    char type_name[16]; /* as in the file */
    int32_t n_dims;
    int64_t dim[TENSOR_DIMS];
    const uint8_t *data; /* mapped; no alignment is promised */
    int64_t bytes;
    int32_t shard; /* index into shard names */
} tensor;

typedef struct tensor_list {
    tensor *at;
    size_t count, cap;
} tensor_list;

void tensor_list_free(tensor_list *l);
void tensor_list_sort(tensor_list *l);                          /* by name */
const tensor *tensor_list_find(const tensor_list *l, str name); /* in a sorted list; NULL: absent */

/* "%.*s" of a name in a message: names come from files and may be of any length. */
#define TENSOR_NAME_ARG(s) ((s).n < 200 ? (int)(s).n : 200), (s).p

/* Appends the tensors of the file `bytes`, by name ascending; the list is unchanged on failure. Names and data are
 * borrowed from `bytes`, names with escapes from `mem`. `file` is for messages: "FILE: tensor NAME: what is wrong".
 * ERR_MODEL. */
status safetensors_read(tensor_list *l, str bytes, const char *file, int32_t shard, arena *mem, err *e);
#endif
