/* Products: lengths that are no multiple of anything, every mixture of parts, norms and additions. */
#include "tests/ops/case.h"

#include <math.h>

typedef enum addition { ADD_NONE, ADD_OTHER, ADD_SELF } addition;

typedef struct linear_shape {
    int32_t k, n[LINEAR_PARTS];
    dtype type[LINEAR_PARTS];
    bool norm, aligned, odd_numbers; /* zeros of both signs, subnormals, infinities, NaN */
    addition add;
    int32_t first;
} linear_shape;

static float odd_number(int64_t row, int64_t col) {
    static const float ODD[] = { 0.0f, -0.0f, 1e-41f, -3e-39f, 0x1p-126f, 3e38f, -3e38f, 1.0f, -1e-20f };
    uint64_t at = (uint64_t)(row * 31 + col * 7);
    if (row % 4 == 3 && col == 5) return INFINITY;
    if (row % 8 == 6 && col == 2) return NAN;
    return ODD[at % (sizeof ODD / sizeof *ODD)];
}

static view input_of(tcase *t, const linear_shape *s) {
    view x = t_view(t, BLOCK_INPUT, s->first + t->n + 1, s->k, s->norm ? DT_F32 : DT_BF16, 1);
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&x, s->first + i, 1, t_row(t, i), 2.0f);
        for (int32_t c = 0; s->odd_numbers && c < s->k; c++) {
            float v = odd_number(t_row(t, i), c);
            if (s->norm)
                ((float *)view_row(&x, s->first + i))[c] = v;
            else
                ((bf16 *)view_row(&x, s->first + i))[c] = bf16_of_f32(v);
        }
    }
    return x;
}

static void build_linear(tcase *t, const void *shape) {
    const linear_shape *s = shape;
    linear_args *a = (linear_args *)t->args;
    *a = (linear_args){ .x = input_of(t, s), .eps = 1e-5f, .rows = t_live(t, s->first) };
    if (s->norm) a->norm = t_norm_weight(t, 2, s->k);
    int32_t columns = 0;
    for (int i = 0; i < LINEAR_PARTS; i++) {
        if (s->n[i]) a->part[i] = t_weight(t, 10 + (uint32_t)i, s->n[i], s->k, s->type[i], s->aligned);
        columns += s->n[i];
    }
    if (s->add == ADD_SELF)
        a->y = a->add = t_view(t, BLOCK_STATE, t->n + 1, columns, DT_F32, 2);
    else
        a->y = t_output(t, t->n, columns, DT_F32);
    if (s->add == ADD_OTHER) a->add = t_view(t, BLOCK_INPUT, t->n + 1, columns, DT_F32, 7);
    for (int32_t i = 0; i < t->n; i++) {
        if (s->add != ADD_NONE) t_fill(&a->add, i, 3, t_row(t, i), 1.0f);
        t_result_row(t, i, &a->y, i);
    }
}

typedef struct glu_shape {
    int32_t k, width, first;
    dtype type;
    bool aligned;
} glu_shape;

static void build_glu(tcase *t, const void *shape) {
    const glu_shape *s = shape;
    view x = t_view(t, BLOCK_INPUT, s->first + t->n + 1, s->k, DT_F32, 1);
    for (int32_t i = 0; i < t->n; i++) t_fill(&x, s->first + i, 1, t_row(t, i), 2.0f);
    glu_args *a = (glu_args *)t->args;
    *a = (glu_args){ .x = x,
                     .y = t_output(t, t->n, s->width, DT_BF16),
                     .gate = t_weight(t, 10, s->width, s->k, s->type, s->aligned),
                     .up = t_weight(t, 11, s->width, s->k, s->type, s->aligned),
                     .norm = t_norm_weight(t, 2, s->k),
                     .eps = 1e-6f,
                     .rows = t_live(t, s->first) };
    for (int32_t i = 0; i < t->n; i++) t_result_row(t, i, &a->y, i);
}

#define B DT_BF16
#define M DT_MXFP4

static const op_case CASES[] = {
    { .id = OP_LINEAR,
      .name = "plain",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 64, .n = { 48 }, .type = { B }, .aligned = true },
      .wide = true },
    { .id = OP_LINEAR,
      .name = "norm and self",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 96, .n = { 40 }, .type = { B }, .norm = true, .add = ADD_SELF },
      .wide = true },
    { .id = OP_LINEAR,
      .name = "four parts",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 64, .n = { 33, 16, 7, 50 }, .type = { B, B, M, B }, .norm = true } },
    { .id = OP_LINEAR,
      .name = "parts with gaps",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 32, .n = { 1, 0, 20, 0 }, .type = { B, B, M, B } } },
    { .id = OP_LINEAR,
      .name = "one column",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 128, .n = { 1 }, .type = { B }, .add = ADD_OTHER } },
    { .id = OP_LINEAR,
      .name = "odd length",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 101, .n = { 21 }, .type = { B }, .add = ADD_OTHER } },
    { .id = OP_LINEAR,
      .name = "odd length, norm",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 45, .n = { 19 }, .type = { B }, .norm = true, .first = 1 } },
    { .id = OP_LINEAR,
      .name = "length 1",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 1, .n = { 17 }, .type = { B } } },
    { .id = OP_LINEAR,
      .name = "length 16",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 16, .n = { 16 }, .type = { B }, .aligned = true } },
    { .id = OP_LINEAR,
      .name = "length 31",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 31, .n = { 16 }, .type = { B } } },
    { .id = OP_LINEAR,
      .name = "mxfp4",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 96, .n = { 37 }, .type = { M }, .first = 3 },
      .wide = true },
    { .id = OP_LINEAR,
      .name = "mxfp4, one group",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 32, .n = { 18 }, .type = { M }, .aligned = true, .add = ADD_SELF } },
    { .id = OP_LINEAR,
      .name = "long",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 1056, .n = { 24 }, .type = { B }, .norm = true } },
    { .id = OP_LINEAR,
      .name = "odd numbers",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 64, .n = { 20 }, .type = { B }, .odd_numbers = true } },
    { .id = OP_LINEAR,
      .name = "odd numbers, mxfp4",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 64, .n = { 20 }, .type = { M }, .odd_numbers = true } },
    { .id = OP_LINEAR,
      .name = "odd numbers, norm",
      .build = build_linear,
      .shape = &(linear_shape){ .k = 64, .n = { 20 }, .type = { B }, .norm = true, .odd_numbers = true } },
    { .id = OP_GLU, .name = "plain", .build = build_glu, .shape = &(glu_shape){ 64, 48, 0, B, true }, .wide = true },
    { .id = OP_GLU, .name = "odd", .build = build_glu, .shape = &(glu_shape){ 77, 35, 2, B, false } },
    { .id = OP_GLU, .name = "mxfp4", .build = build_glu, .shape = &(glu_shape){ 96, 33, 1, M, false } },
    { .id = OP_GLU, .name = "one column", .build = build_glu, .shape = &(glu_shape){ 32, 1, 0, B, false } },
};

case_list cases_linear(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
