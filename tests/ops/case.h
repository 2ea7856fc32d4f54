/* tests/ops/case.h - one op call in memory that tells what was done to it.
 *
 * A case is built for a number of live rows, or for one row of such a call alone: the same builder, the same numbers
 * for the same row. Memory comes in blocks with guard bands. An input must stay as it is; an output is poisoned before
 * a run; a state block is set back to its first contents before a run (it is read and written, or written in places).
 * A builder names the results of each row, so that the row alone can be compared with the row in company. */
#ifndef TESTS_OPS_CASE_H
#define TESTS_OPS_CASE_H
#include <stdalign.h>
#include "engine/base/arena.h"
#include "kernels/dispatch.h"

enum { CASE_BLOCKS = 160, CASE_ARGS = 2048, CASE_GUARD = 128, CASE_ALONE_NONE = -1 };

typedef enum block_kind { BLOCK_INPUT, BLOCK_OUTPUT, BLOCK_STATE } block_kind;

typedef struct block {
    block_kind kind;
    char *mem;   /* guard, payload, guard */
    char *at;    /* the payload */
    char *first; /* its contents after building; outputs: none */
    size_t bytes;
    dtype type;     /* decides how NaN compares; DT_U8: as bytes */
    int64_t stride; /* outputs: only `live` rows of row_bytes may be written */
    int32_t live;
    int64_t row_bytes;
} block;

typedef struct result {
    int32_t row;
    int block;
    size_t at, bytes;
} result;

typedef struct op_case op_case;

typedef struct tcase {
    const op_case *c;
    int32_t rows;  /* of the whole call */
    int32_t alone; /* the one row that is built, or CASE_ALONE_NONE */
    int32_t n;     /* live rows: rows, or 1 */
    int32_t align; /* bytes that rows of views are apart are a multiple of this; above 1 nothing is skewed */
    alignas(64) char args[CASE_ARGS];
    block block[CASE_BLOCKS];
    int n_blocks;
    result *result;
    int n_results, cap_results;
    arena *mem; /* arrays that the arguments name */
} tcase;

struct op_case {
    op_id id;
    const char *name;
    void (*build)(tcase *t, const void *shape);
    const void *shape;
    int32_t rows;             /* 0: all usual counts; else this one */
    bool wide;                /* and a prefill chunk */
    void (*settle)(tcase *t); /* after a run: checks and clears what no two runs have in common */
};

/* The lists of the families. */
typedef struct case_list {
    const op_case *at;
    int n;
} case_list;
case_list cases_rows(void), cases_linear(void), cases_attn(void), cases_moe(void), cases_tap(void), cases_pick(void),
    cases_step(void);

void tcase_init(tcase *t, const op_case *c, int32_t rows, int32_t alone);
void tcase_init_aligned(tcase *t, const op_case *c, int32_t rows, int32_t alone, int32_t align);
void tcase_deinit(tcase *t);

/* The row of the whole call that live row i is. */
static inline int32_t t_row(const tcase *t, int32_t i) { return t->alone == CASE_ALONE_NONE ? i : t->alone; }

/* A block of `bytes`, 64-byte aligned but for `skew`. */
void *t_block(tcase *t, block_kind kind, size_t bytes, dtype type, size_t skew);
void t_mark_live(tcase *t, const view *v, int32_t live); /* the block of an output view: which rows may be written */
void t_result(tcase *t, int32_t i, const void *at, size_t bytes); /* belongs to live row i */

/* Views whose rows are `pad` elements apart in addition to their columns, and then up to the case's alignment. */
view t_view(tcase *t, block_kind kind, int32_t rows, int32_t cols, dtype type, int32_t pad);
view t_output(tcase *t, int32_t live, int32_t cols, dtype type); /* with one more row than live ones, and padding */
void t_result_row(tcase *t, int32_t i, const view *v, int32_t row);

/* live + 1 as the bucket. */
live_rows t_live(tcase *t, int32_t first);

/* Numbers in (-1, 1), a function of their place alone. */
float t_value(uint32_t stream, int64_t row, int64_t col);
void t_fill(const view *v, int32_t at, uint32_t stream, int64_t row, float scale);
bf16 *t_norm_weight(tcase *t, uint32_t stream, int32_t n); /* around 1 */
weight t_weight(tcase *t, uint32_t stream, int32_t n, int32_t k, dtype type, bool aligned);

typedef enum tree_kind { TREE_CHAIN, TREE_BINARY, TREE_COMB, TREE_COUNT } tree_kind;

/* Rows of a step from base on; alone: the row at its own position. token[r] < vocab. */
row_set *t_rows(tcase *t, int32_t base, tree_kind kind, int32_t vocab);
/* The same for the whole call, whatever is built: to find paths. Borrowed until the case ends. */
const row_set *t_whole_rows(tcase *t, int32_t base, tree_kind kind);
step_params *t_params(tcase *t); /* a state block, filled with junk that no op may depend on */
#endif
