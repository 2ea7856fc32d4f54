/* Ops that take rows one by one: embedding, angles, norm. */
#include "tests/ops/case.h"

/* --- embed --- */

typedef struct embed_shape {
    int32_t vocab, cols;
} embed_shape;

static void build_embed(tcase *t, const void *shape) {
    const embed_shape *s = shape;
    int64_t stride = s->cols * (int64_t)sizeof(bf16);
    void *table = t_block(t, BLOCK_INPUT, (size_t)(s->vocab * stride), DT_BF16, sizeof(bf16));
    embed_args *a = (embed_args *)t->args;
    *a = (embed_args){ .table = { table, stride, s->vocab, s->cols, DT_BF16 },
                       .y = t_output(t, t->n, s->cols, DT_F32),
                       .rows = t_rows(t, 40, TREE_CHAIN, s->vocab) };
    for (int32_t v = 0; v < s->vocab; v++) t_fill(&a->table, v, 1, v, 1.0f);
    for (int32_t i = 0; i < t->n; i++) t_result_row(t, i, &a->y, i);
}

/* --- rope --- */

typedef struct rope_shape {
    int32_t half, base;
    float factor;
} rope_shape;

static void build_rope(tcase *t, const void *shape) {
    const rope_shape *s = shape;
    float *inv_freq = t_block(t, BLOCK_INPUT, (size_t)s->half * sizeof *inv_freq, DT_F32, 0);
    for (int32_t i = 0; i < s->half; i++) inv_freq[i] = 1.0f / (1.0f + (float)(i * i));
    rope_args *a = (rope_args *)t->args;
    *a = (rope_args){ .inv_freq = inv_freq,
                      .factor = s->factor,
                      .cos = t_output(t, t->n, s->half, DT_F32),
                      .sin = t_output(t, t->n, s->half, DT_F32),
                      .rows = t_rows(t, s->base, TREE_CHAIN, 10) };
    for (int32_t i = 0; i < t->n; i++) {
        t_result_row(t, i, &a->cos, i);
        t_result_row(t, i, &a->sin, i);
    }
}

/* --- norm --- */

typedef struct norm_shape {
    int32_t cols, first;
    dtype type;
    float size;
} norm_shape;

static void build_norm(tcase *t, const void *shape) {
    const norm_shape *s = shape;
    view x = t_view(t, BLOCK_INPUT, s->first + t->n + 1, s->cols, DT_F32, 3);
    for (int32_t i = 0; i < t->n; i++) t_fill(&x, s->first + i, 1, t_row(t, i), s->size);
    norm_args *a = (norm_args *)t->args;
    *a = (norm_args){ .x = x,
                      .y = t_output(t, t->n, s->cols, s->type),
                      .w = t_norm_weight(t, 2, s->cols),
                      .eps = 1e-6f,
                      .rows = t_live(t, s->first) };
    for (int32_t i = 0; i < t->n; i++) t_result_row(t, i, &a->y, i);
}

static const op_case CASES[] = {
    { .id = OP_EMBED, .name = "plain", .build = build_embed, .shape = &(embed_shape){ 50, 64 }, .wide = true },
    { .id = OP_EMBED, .name = "odd width", .build = build_embed, .shape = &(embed_shape){ 7, 37 } },
    { .id = OP_EMBED, .name = "one token", .build = build_embed, .shape = &(embed_shape){ 1, 16 } },
    { .id = OP_ROPE, .name = "near", .build = build_rope, .shape = &(rope_shape){ 32, 0, 1.0f }, .wide = true },
    { .id = OP_ROPE, .name = "far, scaled", .build = build_rope, .shape = &(rope_shape){ 17, 1048000, 1.4852030f } },
    { .id = OP_NORM,
      .name = "to FP32",
      .build = build_norm,
      .shape = &(norm_shape){ 64, 0, DT_F32, 4.0f },
      .wide = true },
    { .id = OP_NORM, .name = "to BF16", .build = build_norm, .shape = &(norm_shape){ 96, 2, DT_BF16, 1.0f } },
    { .id = OP_NORM, .name = "odd width", .build = build_norm, .shape = &(norm_shape){ 45, 1, DT_BF16, 100.0f } },
    { .id = OP_NORM, .name = "narrow", .build = build_norm, .shape = &(norm_shape){ 3, 0, DT_F32, 1.0f } },
    { .id = OP_NORM, .name = "eps decides", .build = build_norm, .shape = &(norm_shape){ 48, 0, DT_F32, 1e-6f } },
    { .id = OP_NORM, .name = "overflow", .build = build_norm, .shape = &(norm_shape){ 48, 0, DT_F32, 1e30f } },
};

case_list cases_rows(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
