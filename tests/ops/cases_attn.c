/* Keys, values, attention: every kind of store, borders of pages and rings, windows, trees, long contexts. */
#include "kernels/kv_map.h"
#include "tests/ops/case.h"

#include <math.h>

enum { STREAM_K = 20, STREAM_V = 21, STREAM_CODE = 22 };

/* --- stores --- */

/* Memory for a store that is described but for it, with indices below `high`; pages lie in a mixed order. Nobody has
 * written it: NaN in both types, which no row may notice. */
static void take_store(tcase *t, block_kind use, kv_store *s, int32_t high) {
    int32_t rows = s->slots;
    if (s->kind == KV_PAGES) {
        int32_t n = (high + KV_PAGE - 1) / KV_PAGE + 1;
        int32_t *pages = t_block(t, BLOCK_INPUT, (size_t)n * sizeof *pages, DT_I32, 0);
        for (int32_t i = 0; i < n; i++) pages[i] = i % 2 ? i - 1 : i + 1 < n ? i + 1 : i;
        s->pages = pages;
        s->slots = 0;
        rows = n * KV_PAGE;
    }
    s->bytes = kv_bytes(s, (int64_t)s->heads * s->size * rows);
    s->k = t_block(t, use, (size_t)s->bytes, s->type, 0);
    s->v = t_block(t, use, (size_t)s->bytes, s->type, 0);
    memset(s->k, 0xFF, (size_t)s->bytes);
    memset(s->v, 0xFF, (size_t)s->bytes);
}

/* Any code, those of NaN in the first column of a few rows only. */
static e4m3 any_code(int64_t row, int64_t col) {
    if (col == 0 && row % 64 == 5) return row % 128 == 5 ? 0x7F : 0xFF;
    e4m3 c = (e4m3)((t_value(STREAM_CODE, row, col) + 1.0f) * 127.99f);
    return c % 128 == 127 ? c - 1 : c;
}

/* Key and value of row `id` of the sequence to the place of `index`. Values of an E4M3 store are of every size. */
static void put_row(const kv_store *s, int32_t index, int32_t base, int32_t id) {
    for (int32_t g = 0; g < s->heads; g++) {
        int64_t at = kv_offset(s, g, index, base);
        void *k = kv_at(s, s->k, at), *v = kv_at(s, s->v, at);
        for (int32_t c = 0; c < s->size; c++) {
            float key = t_value(STREAM_K, id, g * 1000 + c) * 2.0f;
            if (s->type == DT_E4M3) {
                ((e4m3 *)k)[c] = e4m3_of_f32(key);
                ((e4m3 *)v)[c] = any_code(id, g * 1000 + c);
            } else {
                ((bf16 *)k)[c] = bf16_of_f32(key);
                ((bf16 *)v)[c] = bf16_of_f32(t_value(STREAM_V, id, g * 1000 + c));
            }
        }
    }
}

/* --- qkv_store --- */

typedef struct qkv_shape {
    dtype type;
    int32_t heads, groups, size, half, base, slots;
    kv_kind kind;
    int32_t spare;    /* columns behind the heads */
    bool odd_numbers; /* values where rounding and saturation decide */
} qkv_shape;

/* Halfway between two codes, or the number next to that; at the end what has no code. */
static float odd_number(int64_t i) {
    static const float FAR[] = { INFINITY, -INFINITY, NAN, 464.0f, 480.0f, -1e30f, 1e-30f, -1e-30f, -0.0f, 1e-42f };
    enum { CODES = 126, N_FAR = sizeof FAR / sizeof *FAR };
    i %= 6 * CODES + N_FAR;
    if (i >= 6 * CODES) return FAR[i - 6 * CODES];
    e4m3 code = (e4m3)(i / 6);
    float middle = (f32_of_e4m3(code) + f32_of_e4m3(code + 1)) * 0.5f;
    middle = f32_of_bits(bits_of_f32(middle) + (uint32_t)(i / 2 % 3) - 1);
    return i % 2 ? -middle : middle;
}

static void fill_odd(tcase *t, const qkv_store_args *a) {
    int32_t size = a->kv.size, values = a->kv.heads * size;
    for (int32_t i = 0; i < t->n; i++) {
        float *v = (float *)view_row(&a->qkv, i) + (a->heads + a->kv.heads) * size;
        for (int32_t c = 0; c < values; c++) v[c] = odd_number((int64_t)t_row(t, i) * values + c);
    }
}

static void fill_qkv(tcase *t, qkv_store_args *a) {
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&a->qkv, i, 1, t_row(t, i), 3.0f);
        t_fill(&a->cos, i, 2, t_row(t, i), 1.2f);
        t_fill(&a->sin, i, 3, t_row(t, i), 1.2f);
    }
}

static void name_qkv_results(tcase *t, const qkv_store_args *a) {
    size_t head = (size_t)kv_bytes(&a->kv, a->kv.size);
    for (int32_t i = 0; i < t->n; i++) {
        t_result_row(t, i, &a->q, i);
        for (int32_t g = 0; g < a->kv.heads; g++) {
            int64_t at = kv_offset(&a->kv, g, a->rows->base + i, a->rows->base);
            t_result(t, i, kv_at(&a->kv, a->kv.k, at), head);
            t_result(t, i, kv_at(&a->kv, a->kv.v, at), head);
        }
    }
}

static void build_qkv(tcase *t, const void *shape) {
    const qkv_shape *s = shape;
    kv_store kv = { .kind = s->kind, .type = s->type, .heads = s->groups, .size = s->size };
    kv.slots = s->slots ? s->slots : t->rows + 1;
    qkv_store_args *a = (qkv_store_args *)t->args;
    *a = (qkv_store_args){
        .qkv = t_view(t, BLOCK_INPUT, t->n + 1, (s->heads + 2 * s->groups) * s->size + s->spare, DT_F32, 0),
        .q = t_output(t, t->n, s->heads * s->size, DT_BF16),
        .cos = t_view(t, BLOCK_INPUT, t->n + 1, s->half, DT_F32, 1),
        .sin = t_view(t, BLOCK_INPUT, t->n + 1, s->half, DT_F32, 1),
        .q_norm = t_norm_weight(t, 4, s->size),
        .k_norm = t_norm_weight(t, 5, s->size),
        .eps = 1e-6f,
        .heads = s->heads,
        .kv = kv,
        .rows = t_rows(t, s->base, TREE_CHAIN, 10),
    };
    take_store(t, BLOCK_STATE, &a->kv, s->base + t->rows);
    fill_qkv(t, a);
    if (s->odd_numbers) fill_odd(t, a);
    name_qkv_results(t, a);
}

/* --- attn --- */

typedef struct attn_shape {
    dtype type;
    int32_t heads, groups, size, window, base;
    kv_kind kind;
    tree_kind tree;
    bool block, per_element;
} attn_shape;

/* All keys that the built rows see, found through the rows of the whole call. */
static void fill_keys(tcase *t, const attn_shape *s, const attn_args *a, const row_set *whole) {
    int32_t base = a->rows->base, first = kv_first_seen(s->window, base);
    for (int32_t pos = first; pos < s->base; pos++) put_row(&a->past, pos, base, pos);
    if (t->alone == CASE_ALONE_NONE) {
        for (int32_t r = 0; r < t->rows; r++) put_row(s->block ? &a->block : &a->past, base + r, base, s->base + r);
        return;
    }
    /* Alone, the row's ancestors are committed: they lie at their own positions. */
    for (int32_t pos = s->base > first ? s->base : first; pos <= base; pos++) {
        const kv_store *to = pos == base && s->block ? &a->block : &a->past;
        put_row(to, pos, base, kv_index(whole, t->alone, pos));
    }
}

static void build_attn(tcase *t, const void *shape) {
    const attn_shape *s = shape;
    const row_set *whole = t_whole_rows(t, s->base, s->tree);
    row_set *rows = t_rows(t, s->base, s->tree, 10);
    int32_t width = s->heads * s->size;
    kv_store past = { .kind = s->kind, .type = s->type, .heads = s->groups, .size = s->size }, block = past;
    past.slots = kv_ring_slots(s->window ? s->window : s->base + 1, t->rows + 1);
    block.kind = KV_BLOCK, block.slots = t->n + 1;
    attn_args *a = (attn_args *)t->args;
    *a = (attn_args){
        .q = t_view(t, BLOCK_INPUT, t->n + 1, width, DT_BF16, 1),
        .gate = t_view(t, BLOCK_INPUT, t->n + 1, s->per_element ? width : s->heads, DT_F32, 3),
        .y = t_output(t, t->n, width, DT_BF16),
        .past = past,
        .heads = s->heads,
        .window = s->window,
        .scale = 1.0f / sqrtf((float)s->size),
        .rows_max = t->n + 1,
        .rows = rows,
    };
    take_store(t, BLOCK_INPUT, &a->past, s->base + t->rows);
    if (s->block) {
        a->block = block;
        take_store(t, BLOCK_INPUT, &a->block, 0);
    }
    fill_keys(t, s, a, whole);
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&a->q, i, 1, t_row(t, i), 2.0f);
        t_fill(&a->gate, i, 2, t_row(t, i), 4.0f);
        t_result_row(t, i, &a->y, i);
    }
}

/* --- kv_move --- */

typedef struct move_shape {
    dtype type;
    int32_t base, n_accepted, accepted[6];
    bool taps;
} move_shape;

static void build_move(tcase *t, const void *shape) {
    const move_shape *s = shape;
    enum { STORES = 3, SLOTS = 24, SIZE = 6 };
    step_params *p = t_block(t, BLOCK_INPUT, sizeof *p, DT_U8, 0);
    p->st.move_base = s->base;
    p->st.n_accepted = s->n_accepted;
    memcpy(p->st.accepted, s->accepted, sizeof s->accepted);
    kv_store *stores = arena_alloc(t->mem, STORES * sizeof *stores);
    for (int i = 0; i < STORES; i++) {
        stores[i] = (kv_store){ .kind = i == 1 ? KV_PAGES : KV_RING, .type = s->type, .heads = i + 1, .size = SIZE };
        stores[i].slots = SLOTS + i;
        take_store(t, BLOCK_STATE, &stores[i], s->base + 16);
        for (int32_t d = -4; d < 16; d++) put_row(&stores[i], s->base + d, s->base, 100 * i + d);
    }
    kv_move_args *a = (kv_move_args *)t->args;
    *a = (kv_move_args){ .p = p, .stores = stores, .n = STORES };
    if (!s->taps) return;
    a->taps = t_view(t, BLOCK_STATE, SLOTS, 12, DT_BF16, 2);
    for (int32_t r = 0; r < SLOTS; r++) t_fill(&a->taps, r, 9, r, 1.0f);
}

/* Every case on both types of store. The second and third argument are the members rows and wide of op_case. */
#define ON_BOTH(op, text, n, chunk, builder, shape_type, ...)                                                          \
    { .id = op,                                                                                                        \
      .name = text,                                                                                                    \
      .build = builder,                                                                                                \
      .shape = &(shape_type){ DT_BF16, __VA_ARGS__ },                                                                  \
      .rows = n,                                                                                                       \
      .wide = chunk },                                                                                                 \
    {                                                                                                                  \
        .id = op, .name = text ", E4M3", .build = builder, .shape = &(shape_type){ DT_E4M3, __VA_ARGS__ }, .rows = n,  \
        .wide = chunk                                                                                                  \
    }
#define QKV(text, n, chunk, ...) ON_BOTH(OP_QKV_STORE, text, n, chunk, build_qkv, qkv_shape, __VA_ARGS__)
#define ATTN(text, n, chunk, ...) ON_BOTH(OP_ATTN, text, n, chunk, build_attn, attn_shape, __VA_ARGS__)
#define MOVE(text, ...) ON_BOTH(OP_KV_MOVE, text, 8, false, build_move, move_shape, __VA_ARGS__)
enum { USUAL = 0 };

static const op_case CASES[] = {
    QKV("ring", USUAL, false, 6, 2, 32, 16, 5, 64, KV_RING, 0, false),
    QKV("ring wraps", USUAL, false, 2, 1, 64, 16, 126, 64, KV_RING, 2, false),
    QKV("page border", USUAL, true, 4, 4, 16, 8, 250, 0, KV_PAGES, 5, false),
    QKV("block", USUAL, false, 3, 1, 48, 24, 1000, 0, KV_BLOCK, 0, false),
    QKV("odd head, part rotated", USUAL, false, 2, 1, 21, 7, 0, 40, KV_RING, 1, false),
    QKV("odd numbers", USUAL, false, 1, 2, 32, 8, 3, 64, KV_RING, 0, true),
    ATTN("first rows", USUAL, true, 4, 2, 32, 0, 0, KV_PAGES, TREE_CHAIN, false, false),
    ATTN("page border", USUAL, false, 6, 2, 32, 0, 251, KV_PAGES, TREE_CHAIN, false, true),
    ATTN("two pages", USUAL, false, 2, 2, 64, 0, 517, KV_PAGES, TREE_CHAIN, false, false),
    ATTN("window", USUAL, false, 9, 1, 16, 20, 100, KV_RING, TREE_CHAIN, false, false),
    ATTN("window of 1", USUAL, false, 2, 1, 32, 1, 70, KV_RING, TREE_CHAIN, false, false),
    ATTN("window not yet full", USUAL, false, 2, 1, 32, 64, 58, KV_RING, TREE_CHAIN, false, false),
    ATTN("ring wraps", USUAL, true, 4, 2, 32, 60, 254, KV_RING, TREE_CHAIN, false, true),
    ATTN("draft block", USUAL, false, 4, 2, 32, 48, 250, KV_RING, TREE_CHAIN, true, false),
    ATTN("draft block at 0", USUAL, false, 4, 2, 32, 48, 0, KV_RING, TREE_CHAIN, true, false),
    ATTN("tree on pages", USUAL, false, 4, 2, 32, 0, 252, KV_PAGES, TREE_BINARY, false, false),
    ATTN("tree at 0", USUAL, false, 2, 1, 16, 0, 0, KV_PAGES, TREE_COMB, false, false),
    ATTN("tree in a ring", USUAL, false, 4, 1, 32, 40, 253, KV_RING, TREE_COMB, false, true),
    ATTN("tree deeper than window", USUAL, false, 2, 1, 32, 3, 90, KV_RING, TREE_COMB, false, false),
    ATTN("odd head", USUAL, false, 3, 1, 21, 0, 30, KV_PAGES, TREE_BINARY, false, true),
    ATTN("wide head", 3, false, 2, 1, 128, 0, 300, KV_PAGES, TREE_CHAIN, false, false),
    ATTN("wide heads in a tree", USUAL, false, 18, 2, 128, 0, 125, KV_PAGES, TREE_BINARY, false, false),
    ATTN("wide heads in a ring", 16, false, 6, 1, 128, 100, 190, KV_RING, TREE_COMB, false, true),
    ATTN("heads of 64 in a block", USUAL, false, 12, 2, 64, 70, 300, KV_RING, TREE_CHAIN, true, false),
    ATTN("many heads", USUAL, false, 40, 1, 16, 0, 20, KV_PAGES, TREE_CHAIN, false, false),
    ATTN("runs of 1 and 4", 4, false, 2, 1, 16, 0, 4094, KV_PAGES, TREE_CHAIN, false, false),
    ATTN("runs of 1 and 2", 8, false, 3, 1, 64, 0, 1018, KV_PAGES, TREE_BINARY, false, false),
    ATTN("inside a run", 6, false, 2, 1, 16, 0, 5500, KV_PAGES, TREE_BINARY, false, false),
    ATTN("far window", 4, false, 2, 1, 16, 600, 70000, KV_RING, TREE_CHAIN, false, false),
    MOVE("chain", 30, 4, { 0, 1, 2, 3 }, true),
    MOVE("sibling", 30, 3, { 0, 2, 5 }, true),
    MOVE("wraps", 253, 5, { 0, 1, 4, 6, 9 }, true),
    MOVE("no taps", 254, 3, { 0, 3, 4 }, false),
    MOVE("anchor alone", 40, 1, { 0 }, true),
};

case_list cases_attn(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
