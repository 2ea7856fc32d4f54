/* Taps and the draft's context rows. */
#include "kernels/kv_map.h"
#include "tests/ops/case.h"

/* --- tap --- */

typedef struct tap_shape {
    int32_t cols, taps, which, slots, base;
} tap_shape;

static void build_tap(tcase *t, const void *shape) {
    const tap_shape *s = shape;
    tap_args *a = (tap_args *)t->args;
    *a = (tap_args){ .x = t_view(t, BLOCK_INPUT, t->n + 1, s->cols, DT_F32, 3),
                     .ring = t_view(t, BLOCK_STATE, s->slots, s->taps * s->cols, DT_BF16, 2),
                     .column = s->which * s->cols,
                     .rows = t_rows(t, s->base, TREE_CHAIN, 10) };
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&a->x, i, 1, t_row(t, i), 3e4f);
        if (i < t->n - s->slots) continue; /* overwritten by a later row */
        bf16 *row = view_row(&a->ring, (a->rows->base + i) % s->slots);
        t_result(t, i, row + a->column, (size_t)s->cols * sizeof *row);
    }
}

/* --- tap_norm --- */

static void build_tap_norm(tcase *t, const void *shape) {
    const tap_shape *s = shape;
    view ring = t_view(t, BLOCK_INPUT, s->slots, s->taps * s->cols, DT_BF16, 2);
    for (int32_t r = 0; r < s->slots; r++) t_fill(&ring, r, 1, r, 50.0f);
    tap_norm_args *a = (tap_norm_args *)t->args;
    *a = (tap_norm_args){ .ring = ring,
                          .taps = s->taps,
                          .eps = 1e-6f,
                          .y = t_output(t, t->n, s->taps * s->cols, DT_BF16),
                          .rows = t_rows(t, s->base, TREE_CHAIN, 10) };
    for (int32_t j = 0; j < s->taps; j++) a->norm[j] = t_norm_weight(t, 30 + (uint32_t)j, s->cols);
    for (int32_t i = 0; i < t->n; i++) t_result_row(t, i, &a->y, i);
}

/* --- ctx_store --- */

typedef struct ctx_shape {
    int32_t groups, size, half, slots, base;
} ctx_shape;

static void build_ctx(tcase *t, const void *shape) {
    const ctx_shape *s = shape;
    size_t head = (size_t)s->size * sizeof(bf16), bytes = head * (size_t)s->groups * (size_t)s->slots;
    ctx_store_args *a = (ctx_store_args *)t->args;
    *a = (ctx_store_args){
        .kv = t_view(t, BLOCK_INPUT, t->n + 1, 2 * s->groups * s->size, DT_F32, 3),
        .cos = t_view(t, BLOCK_INPUT, t->n + 1, s->half, DT_F32, 1),
        .sin = t_view(t, BLOCK_INPUT, t->n + 1, s->half, DT_F32, 1),
        .k_norm = t_norm_weight(t, 4, s->size),
        .eps = 1e-6f,
        .ring = { .slots = s->slots,
                  .heads = s->groups,
                  .size = s->size,
                  .kind = KV_RING,
                  .type = DT_BF16,
                  .bytes = (int64_t)bytes },
        .rows = t_rows(t, s->base, TREE_CHAIN, 10),
    };
    a->ring.k = t_block(t, BLOCK_STATE, bytes, DT_BF16, 0);
    a->ring.v = t_block(t, BLOCK_STATE, bytes, DT_BF16, 0);
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&a->kv, i, 1, t_row(t, i), 3.0f);
        t_fill(&a->cos, i, 2, t_row(t, i), 1.0f);
        t_fill(&a->sin, i, 3, t_row(t, i), 1.0f);
        for (int32_t g = 0; g < s->groups; g++) {
            int64_t at = kv_offset(&a->ring, g, a->rows->pos[i], 0);
            t_result(t, i, kv_at(&a->ring, a->ring.k, at), head);
            t_result(t, i, kv_at(&a->ring, a->ring.v, at), head);
        }
    }
}

static const op_case CASES[] = {
    { .id = OP_TAP, .name = "first tap", .build = build_tap, .shape = &(tap_shape){ 64, 3, 0, 32, 0 } },
    { .id = OP_TAP, .name = "last tap, wraps", .build = build_tap, .shape = &(tap_shape){ 48, 3, 2, 20, 37 } },
    { .id = OP_TAP,
      .name = "more rows than slots",
      .build = build_tap,
      .shape = &(tap_shape){ 37, 2, 1, 5, 11 },
      .wide = true },
    { .id = OP_TAP_NORM,
      .name = "plain",
      .build = build_tap_norm,
      .shape = &(tap_shape){ 64, 3, 0, 300, 0 },
      .wide = true },
    { .id = OP_TAP_NORM,
      .name = "wraps, odd width",
      .build = build_tap_norm,
      .shape = &(tap_shape){ 37, 2, 0, 20, 37 } },
    { .id = OP_TAP_NORM, .name = "one tap", .build = build_tap_norm, .shape = &(tap_shape){ 32, 1, 0, 40, 1000 } },
    { .id = OP_TAP_NORM,
      .name = "most taps",
      .build = build_tap_norm,
      .shape = &(tap_shape){ 16, TAPS_MAX, 0, 40, 3 } },
    { .id = OP_CTX_STORE,
      .name = "plain",
      .build = build_ctx,
      .shape = &(ctx_shape){ 2, 32, 16, 300, 0 },
      .wide = true },
    { .id = OP_CTX_STORE, .name = "wraps", .build = build_ctx, .shape = &(ctx_shape){ 1, 64, 32, 24, 70 } },
    { .id = OP_CTX_STORE, .name = "odd head", .build = build_ctx, .shape = &(ctx_shape){ 3, 21, 7, 30, 5 } },
};

case_list cases_tap(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
