#include "tests/ops/wrong.h"

#include "kernels/fmath.h"
#include "kernels/kv_map.h"
#include "kernels/ref/ref.h"

#include <stdio.h>

/* Columns one after the other, or the even one first: a dot with the right value and the wrong bits. */
static float dot_in_order(const bf16 *x, const bf16 *w, int32_t k) {
    float sum = 0.0f;
    for (int32_t c = 0; c < k; c++) sum = fmaf(f32_of_bf16(x[c]), f32_of_bf16(w[c]), sum);
    return sum;
}

static float dot_even_first(const bf16 *x, const bf16 *w, int32_t k) {
    float acc[16] = { 0 };
    for (int32_t c = 0; c < k; c++) acc[c / 2 % 16] = fmaf(f32_of_bf16(x[c]), f32_of_bf16(w[c]), acc[c / 2 % 16]);
    return fm_tree16(acc);
}

/* The case has one aligned BF16 matrix and neither norm nor addition. */
static void linear_with(const linear_args *a, float (*dot)(const bf16 *, const bf16 *, int32_t)) {
    for (int32_t i = 0; i < *a->rows.n; i++)
        for (int32_t j = 0; j < a->y.cols; j++) {
            const bf16 *w = (const bf16 *)a->part[0].data + (int64_t)j * a->part[0].k;
            ((float *)view_row(&a->y, i))[j] = dot(view_row(&a->x, i), w, a->part[0].k);
        }
}

static void linear_in_order(const void *args, const lane *ln) {
    if (ln->id == 0) linear_with(args, dot_in_order);
}

static void linear_even_first(const void *args, const lane *ln) {
    if (ln->id == 0) linear_with(args, dot_even_first);
}

static void linear_dead_row(const void *args, const lane *ln) {
    const linear_args *a = args;
    ref_linear(args, ln);
    if (ln->id == 0) ((float *)view_row(&a->y, *a->rows.n))[0] = 0.0f;
}

static void linear_past_end(const void *args, const lane *ln) {
    const linear_args *a = args;
    ref_linear(args, ln);
    if (ln->id == 0) ((float *)view_row(&a->y, a->y.rows))[0] = 0.0f;
}

static void linear_padding(const void *args, const lane *ln) {
    const linear_args *a = args;
    ref_linear(args, ln);
    if (ln->id == 0) ((float *)view_row(&a->y, 0))[a->y.cols] = 0.0f;
}

static void linear_missing_column(const void *args, const lane *ln) {
    const linear_args *a = args;
    uint32_t before = ((const uint32_t *)view_row(&a->y, 0))[a->y.cols - 1];
    pool_barrier(ln);
    ref_linear(args, ln);
    pool_barrier(ln);
    if (ln->id == 0) ((uint32_t *)view_row(&a->y, 0))[a->y.cols - 1] = before;
}

static void linear_input_written(const void *args, const lane *ln) {
    const linear_args *a = args;
    ref_linear(args, ln);
    if (ln->id == 0) ((bf16 *)view_row(&a->x, 0))[0] ^= 1;
}

/* Right on one lane. */
static void linear_lost_share(const void *args, const lane *ln) {
    if (ln->id == 0) ref_linear(args, ln);
}

static void linear_scratch(const void *args, const lane *ln) {
    ref_linear(args, ln);
    ((char *)ln->scratch)[ln->scratch_bytes] = 0;
}

/* Slots in place of the path. */
static void attn_path_ignored(const void *args, const lane *ln) {
    static row_set chain[PARITY_LANES]; /* a lane's own */
    attn_args a = *(const attn_args *)args;
    chain[ln->id] = *a.rows;
    chain[ln->id].chain = 1;
    a.rows = &chain[ln->id];
    ref_attn(&a, ln);
}

static void attn_window_short(const void *args, const lane *ln) {
    attn_args a = *(const attn_args *)args;
    a.window--;
    ref_attn(&a, ln);
}

/* Rounded to BF16 first and from there to E4M3: off where the first rounding ends halfway between two codes. */
static void qkv_store_rounded_twice(const void *args, const lane *ln) {
    static bf16 keys[4096], values[4096];
    const qkv_store_args *right = args;
    qkv_store_args a = *right;
    CHECK(a.kv.bytes <= 4096 && ln->n == 1);
    a.kv.type = DT_BF16, a.kv.k = keys, a.kv.v = values;
    ref_qkv_store(&a, ln);
    for (int32_t r = 0; r < a.rows->n; r++)
        for (int32_t g = 0; g < a.kv.heads; g++) {
            int64_t at = kv_offset(&a.kv, g, a.rows->base + r, a.rows->base);
            for (int32_t c = 0; c < a.kv.size; c++) {
                ((e4m3 *)right->kv.k)[at + c] = e4m3_of_f32(f32_of_bf16(keys[at + c]));
                ((e4m3 *)right->kv.v)[at + c] = e4m3_of_f32(f32_of_bf16(values[at + c]));
            }
        }
}

/* The routed sum and the shared part added to the residual one after the other: right but for a rounding. */
static void moe_down_two_additions(const void *args, const lane *ln) {
    moe_down_args routed = *(const moe_down_args *)args, shared = routed;
    routed.shared_down.n = 0;
    shared.scale = 0.0f;
    ref_moe_down(&routed, ln);
    ref_moe_down(&shared, ln);
}

/* Penalties by slots in place of the path. One lane: the block is shared. */
static void pick_path_ignored(const void *args, const lane *ln) {
    const pick_args *a = args;
    row_set *rows = &a->p->st.rows;
    int32_t chain = rows->chain;
    rows->chain = 1;
    ref_pick(args, ln);
    rows->chain = chain;
}

/* Penalties computed once for all rows. */
static void pick_path_empty(const void *args, const lane *ln) {
    const pick_args *a = args;
    row_set *rows = &a->p->st.rows;
    int32_t base = rows->base;
    rows->base = INT32_MAX / 2; /* as if no row were below the anchor */
    ref_pick(args, ln);
    rows->base = base;
}

static const struct {
    op_fn *fn;
    op_id id;
    const char *name, *what;
    int lanes;
} WRONG[] = {
    { linear_in_order, OP_LINEAR, "plain", "columns added one after the other", 1 },
    { linear_even_first, OP_LINEAR, "plain", "even columns first", 1 },
    { linear_dead_row, OP_LINEAR, "plain", "a row that is not live", 1 },
    { linear_past_end, OP_LINEAR, "plain", "a row behind the view", 1 },
    { linear_padding, OP_LINEAR, "plain", "padding between rows", 1 },
    { linear_missing_column, OP_LINEAR, "plain", "a column left out", 2 },
    { linear_input_written, OP_LINEAR, "plain", "the input changed", 1 },
    { linear_lost_share, OP_LINEAR, "plain", "a lane that does nothing", 2 },
    { linear_scratch, OP_LINEAR, "plain", "scratch behind the end", 1 },
    { attn_path_ignored, OP_ATTN, "tree on pages", "slots in place of the path", 1 },
    { attn_window_short, OP_ATTN, "window", "a window one too short", 1 },
    { attn_path_ignored, OP_ATTN, "tree on pages, E4M3", "slots in place of the path", 1 },
    { attn_window_short, OP_ATTN, "window, E4M3", "a window one too short", 1 },
    { qkv_store_rounded_twice, OP_QKV_STORE, "ring, E4M3", "keys and values rounded twice", 1 },
    { moe_down_two_additions, OP_MOE_DOWN, "plain", "two additions in place of one", 1 },
    { pick_path_ignored, OP_PICK, "penalties on a tree", "slots in place of the path", 1 },
    { pick_path_empty, OP_PICK, "penalties on a tree", "the anchor's penalties for all rows", 1 },
};

static const op_case *find_case(const case_list *all, int n, op_id id, const char *name) {
    for (int l = 0; l < n; l++)
        for (int i = 0; i < all[l].n; i++)
            if (all[l].at[i].id == id && strcmp(all[l].at[i].name, name) == 0) return &all[l].at[i];
    CHECK(!"case of that name");
    return NULL;
}

void wrong_run(parity *p, const case_list *all, int n) {
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        const op_case *c = find_case(all, n, WRONG[i].id, WRONG[i].name);
        parity own = *p;
        own.quiet = true;
        own.failed = 0;
        parity_function(&own, c, 7, WRONG[i].fn, "wrong", WRONG[i].lanes);
        *(own.failed == 1 ? &p->passed : &p->failed) += 1;
        if (own.failed != 1) printf("not caught: %s with %s\n", op_name(WRONG[i].id), WRONG[i].what);
    }
}
