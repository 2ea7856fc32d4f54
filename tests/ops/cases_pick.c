/* Candidates of the draft and the choice of the target. */
#include "tests/ops/case.h"

#include <math.h>

/* Logits of one row; with ties they are multiples of 1/2. */
static void fill_logits(const view *v, int32_t at, int64_t row, bool ties) {
    t_fill(v, at, 1, row, 12.0f);
    float *z = view_row(v, at);
    for (int32_t c = 0; ties && c < v->cols; c++) z[c] = floorf(z[c] * 0.5f);
}

/* --- topk --- */

typedef struct topk_shape {
    int32_t vocab, k, first;
    bool ties;
} topk_shape;

static void build_topk(tcase *t, const void *shape) {
    const topk_shape *s = shape;
    view logits = t_view(t, BLOCK_INPUT, s->first + t->n + 1, s->vocab, DT_F32, 1);
    for (int32_t i = 0; i < t->n; i++) fill_logits(&logits, s->first + i, t_row(t, i), s->ties);
    topk_args *a = (topk_args *)t->args;
    *a = (topk_args){ .logits = logits,
                      .id = t_output(t, t->n, s->k, DT_I32),
                      .logp = t_output(t, t->n, s->k, DT_F32),
                      .rows = t_live(t, s->first) };
    for (int32_t i = 0; i < t->n; i++) {
        t_result_row(t, i, &a->id, i);
        t_result_row(t, i, &a->logp, i);
    }
}

/* --- pick --- */

typedef struct pick_shape {
    int32_t vocab, head_first;
    bool ties;
    pick_params pick;
} pick_shape;

static void build_pick(tcase *t, const void *shape) {
    const pick_shape *s = shape;
    step_params *p = t_params(t);
    view logits = t_view(t, BLOCK_INPUT, t->n + 1, s->vocab, DT_F32, 1);
    pick_args *a = (pick_args *)t->args;
    *a = (pick_args){ .p = p, .logits = logits };
    p->in.pick = s->pick;
    p->st.head_n = t->n;
    p->st.head_first = s->head_first;
    for (int32_t i = 0; i < t->n; i++) {
        p->st.rows.pos[s->head_first + i] = 500 + t_row(t, i);
        fill_logits(&logits, i, t_row(t, i), s->ties);
        t_result(t, i, &p->st.choice[i], sizeof p->st.choice[i]);
    }
}

#define GREEDY                                                                                                         \
    { .temperature = 0.0f, .top_p = 1.0f }

static const op_case CASES[] = {
    { .id = OP_TOPK, .name = "best", .build = build_topk, .shape = &(topk_shape){ 200, 1, 1, false } },
    { .id = OP_TOPK, .name = "eight", .build = build_topk, .shape = &(topk_shape){ 333, 8, 0, false } },
    { .id = OP_TOPK, .name = "ties", .build = build_topk, .shape = &(topk_shape){ 100, 5, 2, true } },
    { .id = OP_TOPK, .name = "whole vocabulary", .build = build_topk, .shape = &(topk_shape){ 7, 7, 0, true } },
    { .id = OP_TOPK, .name = "one token", .build = build_topk, .shape = &(topk_shape){ 1, 1, 0, false } },
    { .id = OP_PICK, .name = "greedy", .build = build_pick, .shape = &(pick_shape){ 333, 0, false, GREEDY } },
    { .id = OP_PICK, .name = "greedy ties", .build = build_pick, .shape = &(pick_shape){ 100, 0, true, GREEDY } },
    { .id = OP_PICK, .name = "greedy, one token", .build = build_pick, .shape = &(pick_shape){ 1, 0, false, GREEDY } },
    { .id = OP_PICK,
      .name = "sampled",
      .build = build_pick,
      .shape = &(pick_shape){ 500, 0, false, { .temperature = 1.0f, .top_p = 1.0f, .seed = 7 } } },
    { .id = OP_PICK,
      .name = "top_k",
      .build = build_pick,
      .shape = &(pick_shape){ 500, 0, true, { .temperature = 0.7f, .top_p = 1.0f, .top_k = 20, .seed = 1ull << 40 } } },
    { .id = OP_PICK,
      .name = "all filters",
      .build = build_pick,
      .shape =
          &(pick_shape){
              301, 3, false, { .temperature = 1.5f, .top_p = 0.9f, .min_p = 0.05f, .top_k = 50, .seed = 99 } } },
    { .id = OP_PICK,
      .name = "top_p alone",
      .build = build_pick,
      .shape = &(pick_shape){ 301, 0, true, { .temperature = 1.0f, .top_p = 0.8f, .seed = 5 } } },
};

case_list cases_pick(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
