/* Keys, values, attention: every kind of store, borders of pages and rings, windows, trees, long contexts. */
#include "kernels/kv_map.h"
#include "tests/ops/case.h"

#include <math.h>

enum { STREAM_K = 20, STREAM_V = 21, NAN_BF16 = 0x7FC0 };

/* --- stores --- */

static int64_t store_elements(const kv_store *s, int32_t rows) { return (int64_t)s->heads * s->size * rows; }

/* A store for indices below `high`; pages lie in a mixed order. Nobody has written it: NaN, which no row may notice. */
static kv_store take_store(tcase *t, block_kind use, kv_kind kind, int32_t heads, int32_t size, int32_t slots,
                           int32_t high) {
    kv_store s = { .heads = heads, .size = size, .kind = kind, .slots = kind == KV_PAGES ? 0 : slots };
    int32_t rows = slots;
    if (kind == KV_PAGES) {
        int32_t n = (high + KV_PAGE - 1) / KV_PAGE + 1;
        int32_t *pages = t_block(t, BLOCK_INPUT, (size_t)n * sizeof *pages, DT_I32, 0);
        for (int32_t i = 0; i < n; i++) pages[i] = i % 2 ? i - 1 : i + 1 < n ? i + 1 : i;
        s.pages = pages;
        rows = n * KV_PAGE;
    }
    int64_t elements = store_elements(&s, rows);
    s.bytes = elements * (int64_t)sizeof(bf16);
    s.k = t_block(t, use, (size_t)s.bytes, DT_BF16, 0);
    s.v = t_block(t, use, (size_t)s.bytes, DT_BF16, 0);
    for (int64_t i = 0; i < elements; i++) s.k[i] = s.v[i] = NAN_BF16;
    return s;
}

/* Key and value of row `id` of the sequence to the place of `index`. */
static void put_row(const kv_store *s, int32_t index, int32_t base, int32_t id) {
    for (int32_t g = 0; g < s->heads; g++) {
        int64_t at = kv_offset(s, g, index, base);
        for (int32_t c = 0; c < s->size; c++) {
            s->k[at + c] = bf16_of_f32(t_value(STREAM_K, id, g * 1000 + c) * 2.0f);
            s->v[at + c] = bf16_of_f32(t_value(STREAM_V, id, g * 1000 + c));
        }
    }
}

/* --- qkv_store --- */

typedef struct qkv_shape {
    int32_t heads, groups, size, half, base, slots;
    kv_kind kind;
    int32_t spare; /* columns behind the heads */
} qkv_shape;

static void fill_qkv(tcase *t, qkv_store_args *a) {
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&a->qkv, i, 1, t_row(t, i), 3.0f);
        t_fill(&a->cos, i, 2, t_row(t, i), 1.2f);
        t_fill(&a->sin, i, 3, t_row(t, i), 1.2f);
    }
}

static void name_qkv_results(tcase *t, const qkv_store_args *a) {
    size_t head = (size_t)a->kv.size * sizeof(bf16);
    for (int32_t i = 0; i < t->n; i++) {
        t_result_row(t, i, &a->q, i);
        for (int32_t g = 0; g < a->kv.heads; g++) {
            int64_t at = kv_offset(&a->kv, g, a->rows->base + i, a->rows->base);
            t_result(t, i, a->kv.k + at, head);
            t_result(t, i, a->kv.v + at, head);
        }
    }
}

static void build_qkv(tcase *t, const void *shape) {
    const qkv_shape *s = shape;
    int32_t slots = s->slots ? s->slots : t->rows + 1;
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
        .kv = take_store(t, BLOCK_STATE, s->kind, s->groups, s->size, slots, s->base + t->rows),
        .rows = t_rows(t, s->base, TREE_CHAIN, 10),
    };
    fill_qkv(t, a);
    name_qkv_results(t, a);
}

/* --- attn --- */

typedef struct attn_shape {
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
    int32_t width = s->heads * s->size, slots = kv_ring_slots(s->window ? s->window : s->base + 1, t->rows + 1);
    attn_args *a = (attn_args *)t->args;
    *a = (attn_args){
        .q = t_view(t, BLOCK_INPUT, t->n + 1, width, DT_BF16, 1),
        .gate = t_view(t, BLOCK_INPUT, t->n + 1, s->per_element ? width : s->heads, DT_F32, 3),
        .y = t_output(t, t->n, width, DT_BF16),
        .past = take_store(t, BLOCK_INPUT, s->kind, s->groups, s->size, slots, s->base + t->rows),
        .heads = s->heads,
        .window = s->window,
        .scale = 1.0f / sqrtf((float)s->size),
        .rows_max = t->n + 1,
        .rows = rows,
    };
    if (s->block) a->block = take_store(t, BLOCK_INPUT, KV_BLOCK, s->groups, s->size, t->n + 1, 0);
    fill_keys(t, s, a, whole);
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&a->q, i, 1, t_row(t, i), 2.0f);
        t_fill(&a->gate, i, 2, t_row(t, i), 4.0f);
        t_result_row(t, i, &a->y, i);
    }
}

/* --- kv_move --- */

typedef struct move_shape {
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
        stores[i] = take_store(t, BLOCK_STATE, i == 1 ? KV_PAGES : KV_RING, i + 1, SIZE, SLOTS + i, s->base + 16);
        for (int32_t d = -4; d < 16; d++) put_row(&stores[i], s->base + d, s->base, 100 * i + d);
    }
    kv_move_args *a = (kv_move_args *)t->args;
    *a = (kv_move_args){ .p = p, .stores = stores, .n = STORES };
    if (!s->taps) return;
    a->taps = t_view(t, BLOCK_STATE, SLOTS, 12, DT_BF16, 2);
    for (int32_t r = 0; r < SLOTS; r++) t_fill(&a->taps, r, 9, r, 1.0f);
}

static const op_case CASES[] = {
    { .id = OP_QKV_STORE,
      .name = "ring",
      .build = build_qkv,
      .shape = &(qkv_shape){ 6, 2, 32, 16, 5, 64, KV_RING, 0 } },
    { .id = OP_QKV_STORE,
      .name = "ring wraps",
      .build = build_qkv,
      .shape = &(qkv_shape){ 2, 1, 64, 16, 126, 64, KV_RING, 2 } },
    { .id = OP_QKV_STORE,
      .name = "page border",
      .build = build_qkv,
      .shape = &(qkv_shape){ 4, 4, 16, 8, 250, 0, KV_PAGES, 5 },
      .wide = true },
    { .id = OP_QKV_STORE,
      .name = "block",
      .build = build_qkv,
      .shape = &(qkv_shape){ 3, 1, 48, 24, 1000, 0, KV_BLOCK, 0 } },
    { .id = OP_QKV_STORE,
      .name = "odd head, part rotated",
      .build = build_qkv,
      .shape = &(qkv_shape){ 2, 1, 21, 7, 0, 40, KV_RING, 1 } },
    { .id = OP_ATTN,
      .name = "first rows",
      .build = build_attn,
      .shape = &(attn_shape){ 4, 2, 32, 0, 0, KV_PAGES, TREE_CHAIN, false, false },
      .wide = true },
    { .id = OP_ATTN,
      .name = "page border",
      .build = build_attn,
      .shape = &(attn_shape){ 6, 2, 32, 0, 251, KV_PAGES, TREE_CHAIN, false, true } },
    { .id = OP_ATTN,
      .name = "two pages",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 2, 64, 0, 517, KV_PAGES, TREE_CHAIN, false, false } },
    { .id = OP_ATTN,
      .name = "window",
      .build = build_attn,
      .shape = &(attn_shape){ 9, 1, 16, 20, 100, KV_RING, TREE_CHAIN, false, false } },
    { .id = OP_ATTN,
      .name = "window of 1",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 32, 1, 70, KV_RING, TREE_CHAIN, false, false } },
    { .id = OP_ATTN,
      .name = "window not yet full",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 32, 64, 58, KV_RING, TREE_CHAIN, false, false } },
    { .id = OP_ATTN,
      .name = "ring wraps",
      .build = build_attn,
      .shape = &(attn_shape){ 4, 2, 32, 60, 254, KV_RING, TREE_CHAIN, false, true },
      .wide = true },
    { .id = OP_ATTN,
      .name = "draft block",
      .build = build_attn,
      .shape = &(attn_shape){ 4, 2, 32, 48, 250, KV_RING, TREE_CHAIN, true, false } },
    { .id = OP_ATTN,
      .name = "draft block at 0",
      .build = build_attn,
      .shape = &(attn_shape){ 4, 2, 32, 48, 0, KV_RING, TREE_CHAIN, true, false } },
    { .id = OP_ATTN,
      .name = "tree on pages",
      .build = build_attn,
      .shape = &(attn_shape){ 4, 2, 32, 0, 252, KV_PAGES, TREE_BINARY, false, false } },
    { .id = OP_ATTN,
      .name = "tree at 0",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 16, 0, 0, KV_PAGES, TREE_COMB, false, false } },
    { .id = OP_ATTN,
      .name = "tree in a ring",
      .build = build_attn,
      .shape = &(attn_shape){ 4, 1, 32, 40, 253, KV_RING, TREE_COMB, false, true } },
    { .id = OP_ATTN,
      .name = "tree deeper than window",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 32, 3, 90, KV_RING, TREE_COMB, false, false } },
    { .id = OP_ATTN,
      .name = "odd head",
      .build = build_attn,
      .shape = &(attn_shape){ 3, 1, 21, 0, 30, KV_PAGES, TREE_BINARY, false, true } },
    { .id = OP_ATTN,
      .name = "wide head",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 128, 0, 300, KV_PAGES, TREE_CHAIN, false, false },
      .rows = 3 },
    { .id = OP_ATTN,
      .name = "many heads",
      .build = build_attn,
      .shape = &(attn_shape){ 40, 1, 16, 0, 20, KV_PAGES, TREE_CHAIN, false, false } },
    { .id = OP_ATTN,
      .name = "runs of 1 and 4",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 16, 0, 4094, KV_PAGES, TREE_CHAIN, false, false },
      .rows = 4 },
    { .id = OP_ATTN,
      .name = "inside a run",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 16, 0, 5500, KV_PAGES, TREE_BINARY, false, false },
      .rows = 6 },
    { .id = OP_ATTN,
      .name = "far window",
      .build = build_attn,
      .shape = &(attn_shape){ 2, 1, 16, 600, 70000, KV_RING, TREE_CHAIN, false, false },
      .rows = 4 },
    { .id = OP_KV_MOVE,
      .name = "chain",
      .build = build_move,
      .shape = &(move_shape){ 30, 4, { 0, 1, 2, 3 }, true },
      .rows = 8 },
    { .id = OP_KV_MOVE,
      .name = "sibling",
      .build = build_move,
      .shape = &(move_shape){ 30, 3, { 0, 2, 5 }, true },
      .rows = 8 },
    { .id = OP_KV_MOVE,
      .name = "wraps",
      .build = build_move,
      .shape = &(move_shape){ 253, 5, { 0, 1, 4, 6, 9 }, true },
      .rows = 8 },
    { .id = OP_KV_MOVE,
      .name = "no taps",
      .build = build_move,
      .shape = &(move_shape){ 254, 3, { 0, 3, 4 }, false },
      .rows = 8 },
    { .id = OP_KV_MOVE,
      .name = "anchor alone",
      .build = build_move,
      .shape = &(move_shape){ 40, 1, { 0 }, true },
      .rows = 8 },
};

case_list cases_attn(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
