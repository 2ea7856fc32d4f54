/* Router and experts: ties, a single expert, experts that all rows or no rows use, experts of different widths. */
#include "tests/ops/case.h"

#define B DT_BF16
#define M DT_MXFP4

/* --- route --- */

typedef struct route_shape {
    int32_t k, experts, chosen;
    float softcap;
    bool normalize, bias, ties, saturated;
} route_shape;

/* Neighbouring experts with equal rows: every second choice is a tie. */
static void make_ties(weight *w) {
    char *data = (char *)(uintptr_t)w->data;
    size_t row = (size_t)w->k * sizeof(bf16);
    for (int32_t e = 1; e < w->n; e += 2) memcpy(data + (size_t)e * row, data + (size_t)(e - 1) * row, row);
}

static void build_route(tcase *t, const void *shape) {
    const route_shape *s = shape;
    view x = t_view(t, BLOCK_INPUT, t->n + 1, s->k, DT_F32, 3);
    for (int32_t i = 0; i < t->n; i++) t_fill(&x, i, 1, t_row(t, i), 2.0f);
    bf16 *norm = t_norm_weight(t, 2, s->k);
    for (int32_t c = 0; s->saturated && c < s->k; c++) norm[c] = bf16_of_f32(500.0f); /* scores of 0 and 1 */
    route_args *a = (route_args *)t->args;
    *a = (route_args){ .x = x,
                       .norm = norm,
                       .eps = 1e-6f,
                       .w = t_weight(t, 10, s->experts, s->k, B, false),
                       .softcap = s->softcap,
                       .normalize = s->normalize,
                       .score = t_output(t, t->n, s->experts, DT_F32),
                       .id = t_output(t, t->n, s->chosen, DT_I32),
                       .share = t_output(t, t->n, s->chosen, DT_F32),
                       .rows = t_live(t, 0) };
    if (s->ties) make_ties(&a->w);
    if (s->bias) {
        float *bias = t_block(t, BLOCK_INPUT, (size_t)s->experts * sizeof *bias, DT_F32, 0);
        for (int32_t e = 0; e < s->experts; e++) bias[e] = t_value(11, 0, e / (s->ties ? 2 : 1));
        a->bias = bias;
    }
    for (int32_t i = 0; i < t->n; i++) {
        t_result_row(t, i, &a->score, i);
        t_result_row(t, i, &a->id, i);
        t_result_row(t, i, &a->share, i);
    }
}

/* --- experts --- */

typedef struct moe_shape {
    int32_t k, experts, chosen, width, shared;
    dtype type;
    bool same;   /* all rows choose the same experts */
    bool uneven; /* experts of different types and widths */
} moe_shape;

static weight *experts_of(tcase *t, const moe_shape *s, uint32_t stream, bool down) {
    weight *w = arena_alloc(t->mem, (size_t)s->experts * sizeof *w);
    for (int32_t e = 0; e < s->experts; e++) {
        int32_t width = s->uneven && e % 3 == 1 ? s->width - 32 : s->width;
        dtype type = s->uneven && e % 2 ? B : s->type;
        w[e] = t_weight(t, stream + (uint32_t)e, down ? s->k : width, down ? width : s->k, type, false);
    }
    return w;
}

static weight shared_of(tcase *t, const moe_shape *s, uint32_t stream, bool down) {
    if (!s->shared) return (weight){ 0 };
    return t_weight(t, stream, down ? s->k : s->shared, down ? s->shared : s->k, s->uneven ? B : s->type, false);
}

static view ids_of(tcase *t, const moe_shape *s) {
    view id = t_view(t, BLOCK_INPUT, t->n + 1, s->chosen, DT_I32, 1);
    for (int32_t i = 0; i < t->n; i++) {
        int32_t start = s->same ? 1 : 3 * t_row(t, i) + t_row(t, i) / 2;
        for (int32_t j = 0; j < s->chosen; j++) ((int32_t *)view_row(&id, i))[j] = (start + j) % s->experts;
    }
    return id;
}

static int32_t slot_width(const moe_shape *s) { return s->width > s->shared ? s->width : s->shared; }

static void build_moe_up(tcase *t, const void *shape) {
    const moe_shape *s = shape;
    view x = t_view(t, BLOCK_INPUT, t->n + 1, s->k, DT_F32, 1);
    for (int32_t i = 0; i < t->n; i++) t_fill(&x, i, 1, t_row(t, i), 2.0f);
    int32_t slots = s->chosen + 1;
    moe_up_args *a = (moe_up_args *)t->args;
    *a = (moe_up_args){ .x = x,
                        .norm = t_norm_weight(t, 2, s->k),
                        .eps = 1e-6f,
                        .gate = experts_of(t, s, 100, false),
                        .up = experts_of(t, s, 200, false),
                        .experts = s->experts,
                        .shared_gate = shared_of(t, s, 300, false),
                        .shared_up = shared_of(t, s, 301, false),
                        .id = ids_of(t, s),
                        .h = t_view(t, BLOCK_OUTPUT, (t->n + 1) * slots, slot_width(s), DT_BF16, 3),
                        .rows = t_live(t, 0) };
    t_mark_live(t, &a->h, t->n * slots);
    for (int32_t i = 0; i < t->n; i++) {
        for (int32_t j = 0; j < s->chosen; j++) {
            int32_t e = ((const int32_t *)view_row(&a->id, i))[j];
            t_result(t, i, view_row(&a->h, i * slots + j), (size_t)a->gate[e].n * sizeof(bf16));
        }
        if (s->shared) t_result(t, i, view_row(&a->h, i * slots + s->chosen), (size_t)s->shared * sizeof(bf16));
    }
}

static void build_moe_down(tcase *t, const void *shape) {
    const moe_shape *s = shape;
    int32_t slots = s->chosen + 1;
    moe_down_args *a = (moe_down_args *)t->args;
    *a = (moe_down_args){ .h = t_view(t, BLOCK_INPUT, (t->n + 1) * slots, slot_width(s), DT_BF16, 3),
                          .id = ids_of(t, s),
                          .share = t_view(t, BLOCK_INPUT, t->n + 1, s->chosen, DT_F32, 2),
                          .down = experts_of(t, s, 400, true),
                          .experts = s->experts,
                          .shared_down = shared_of(t, s, 500, true),
                          .scale = 2.5f,
                          .x = t_view(t, BLOCK_STATE, t->n + 1, s->k, DT_F32, 1),
                          .rows = t_live(t, 0) };
    for (int32_t i = 0; i < t->n; i++) {
        for (int32_t j = 0; j < slots; j++) t_fill(&a->h, i * slots + j, 1, (int64_t)t_row(t, i) * slots + j, 1.0f);
        t_fill(&a->share, i, 3, t_row(t, i), 0.5f);
        t_fill(&a->x, i, 4, t_row(t, i), 8.0f);
        t_result_row(t, i, &a->x, i);
    }
}

static const moe_shape PLAIN = { 64, 8, 3, 32, 48, M, false, false };
static const moe_shape BF16 = { 96, 5, 2, 40, 40, B, false, false };
static const moe_shape ODD = { 45, 6, 2, 19, 23, B, false, false };
static const moe_shape ONE = { 32, 1, 1, 32, 32, M, false, false };
static const moe_shape NO_SHARED = { 64, 7, 4, 33, 0, B, false, false };
static const moe_shape NO_SHARED_4 = { 64, 7, 4, 64, 0, M, false, false };
static const moe_shape SAME = { 64, 9, 5, 64, 32, M, true, false };
static const moe_shape UNEVEN = { 64, 7, 3, 64, 96, M, false, true };
static const moe_shape ALL = { 32, 4, 4, 32, 32, M, false, false };
/* MXFP4 down projections have lengths of whole groups, so widths of their experts are multiples of 32. */
static const moe_shape DOWN = { 64, 8, 3, 32, 64, M, false, false };

static const op_case CASES[] = {
    { .id = OP_ROUTE,
      .name = "plain",
      .build = build_route,
      .shape = &(route_shape){ 64, 16, 4, 0.0f, true, true, false, false },
      .wide = true },
    { .id = OP_ROUTE,
      .name = "ties",
      .build = build_route,
      .shape = &(route_shape){ 64, 24, 7, 0.0f, true, false, true, false } },
    { .id = OP_ROUTE,
      .name = "ties with bias",
      .build = build_route,
      .shape = &(route_shape){ 64, 20, 5, 0.0f, true, true, true, false } },
    { .id = OP_ROUTE,
      .name = "softcap",
      .build = build_route,
      .shape = &(route_shape){ 50, 33, 3, 2.0f, true, true, false, false } },
    { .id = OP_ROUTE,
      .name = "not normalised",
      .build = build_route,
      .shape = &(route_shape){ 96, 17, 2, 0.0f, false, false, false, false } },
    { .id = OP_ROUTE,
      .name = "one expert",
      .build = build_route,
      .shape = &(route_shape){ 32, 1, 1, 0.0f, true, true, false, false } },
    { .id = OP_ROUTE,
      .name = "all experts",
      .build = build_route,
      .shape = &(route_shape){ 32, 6, 6, 0.0f, true, true, false, false } },
    { .id = OP_ROUTE,
      .name = "saturated",
      .build = build_route,
      .shape = &(route_shape){ 64, 40, 10, 0.0f, true, false, false, true } },
    { .id = OP_MOE_UP, .name = "plain", .build = build_moe_up, .shape = &PLAIN, .wide = true },
    { .id = OP_MOE_UP, .name = "bf16", .build = build_moe_up, .shape = &BF16 },
    { .id = OP_MOE_UP, .name = "odd", .build = build_moe_up, .shape = &ODD },
    { .id = OP_MOE_UP, .name = "one expert", .build = build_moe_up, .shape = &ONE },
    { .id = OP_MOE_UP, .name = "no shared expert", .build = build_moe_up, .shape = &NO_SHARED },
    { .id = OP_MOE_UP, .name = "same experts", .build = build_moe_up, .shape = &SAME },
    { .id = OP_MOE_UP, .name = "uneven experts", .build = build_moe_up, .shape = &UNEVEN },
    { .id = OP_MOE_UP, .name = "all experts", .build = build_moe_up, .shape = &ALL },
    { .id = OP_MOE_DOWN, .name = "plain", .build = build_moe_down, .shape = &DOWN, .wide = true },
    { .id = OP_MOE_DOWN, .name = "bf16", .build = build_moe_down, .shape = &BF16 },
    { .id = OP_MOE_DOWN, .name = "odd", .build = build_moe_down, .shape = &ODD },
    { .id = OP_MOE_DOWN, .name = "one expert", .build = build_moe_down, .shape = &ONE },
    { .id = OP_MOE_DOWN, .name = "no shared expert", .build = build_moe_down, .shape = &NO_SHARED_4 },
    { .id = OP_MOE_DOWN, .name = "same experts", .build = build_moe_down, .shape = &SAME },
    { .id = OP_MOE_DOWN, .name = "uneven experts", .build = build_moe_down, .shape = &UNEVEN },
    { .id = OP_MOE_DOWN, .name = "all experts", .build = build_moe_down, .shape = &ALL },
};

case_list cases_moe(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
