/* Candidates of the draft and the choice of the target. */
#include "tests/ops/case.h"

#include <math.h>

/* Logits of one row within +-spread; with ties they are integers. */
static void fill_logits(const view *v, int32_t at, int64_t row, float spread, bool ties) {
    t_fill(v, at, 1, row, spread);
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
    for (int32_t i = 0; i < t->n; i++) fill_logits(&logits, s->first + i, t_row(t, i), 12.0f, s->ties);
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
    tree_kind tree;
    int32_t n_bias, told; /* told: alternatives plus one, 0: no log-probabilities */
    bool close;           /* logits so close to each other that one penalty more decides */
} pick_shape;

enum { PICK_BASE = 500, PICK_TEXT = 20, PICK_ENDS = 40 };

/* Proposed tokens are few, so that they occur several times on a path and in the text before it. */
static int32_t pick_token_of(const pick_shape *s, int32_t node) {
    return (int32_t)((t_value(78, node, 0) + 1.0f) * 4.5f) % s->vocab;
}

static void count_token(pick_lists *l, int32_t token) {
    if (l->count[token]++ == 0) l->seen[l->n_seen++] = token;
}

/* The anchor's text so far, biases, and every PICK_ENDS-th token as an end token. */
static pick_lists *pick_lists_of(tcase *t, const pick_shape *s) {
    pick_lists *l = t_block(t, BLOCK_INPUT, sizeof *l, DT_U8, 0);
    size_t table = (size_t)s->vocab * sizeof(int32_t);
    *l = (pick_lists){ .count = t_block(t, BLOCK_INPUT, table, DT_I32, 0),
                       .seen = t_block(t, BLOCK_INPUT, table, DT_I32, 0),
                       .end = t_block(t, BLOCK_INPUT, table, DT_I32, 0) };
    memset(l->count, 0, table);
    for (int32_t i = 0; i < PICK_TEXT; i++) count_token(l, (int32_t)((t_value(79, i, 0) + 1.0f) * 20.0f) % s->vocab);
    for (int32_t v = 0; v < s->vocab; v += PICK_ENDS) l->end[l->n_end++] = v;
    for (int32_t i = 0; i < s->n_bias; i++)
        l->bias[l->n_bias++] = (pick_bias){ (i * 29 + 3) % s->vocab, 12.0f * t_value(80, i, 0) };
    return l;
}

/* The rows of the step, head_first of them in front of those that choose. A row alone is what plain decoding would see:
 * a chain of one, with the path before it counted. */
static void set_pick_rows(tcase *t, const pick_shape *s, row_set *rows, pick_lists *l) {
    *rows = *t_whole_rows(t, PICK_BASE, s->tree);
    for (int32_t r = rows->n; r < s->head_first + t->rows; r++) rows->pos[r] = PICK_BASE + r;
    rows->n = s->head_first + t->rows;
    for (int32_t r = 0; r < rows->n; r++) rows->token[r] = pick_token_of(s, r);
    if (t->alone == CASE_ALONE_NONE) return;
    int32_t row = s->head_first + t->alone;
    for (int32_t d = s->head_first + 1; d <= rows->pos[row] - rows->base; d++)
        count_token(l, rows->token[rows->chain ? d : rows->path[row][d]]);
    rows->pos[s->head_first] = rows->pos[row];
    rows->n = s->head_first + 1, rows->chain = 1;
}

static void build_pick(tcase *t, const void *shape) {
    const pick_shape *s = shape;
    step_params *p = t_params(t);
    pick_lists *lists = pick_lists_of(t, s);
    view logits = t_view(t, BLOCK_INPUT, t->n + 1, s->vocab, DT_F32, 1);
    pick_args *a = (pick_args *)t->args;
    *a = (pick_args){ .p = p, .lists = lists, .logits = logits };
    p->in.pick = s->pick;
    p->in.logprobs = s->told - 1;
    p->st.head_n = t->n;
    p->st.head_first = s->head_first;
    set_pick_rows(t, s, &p->st.rows, lists);
    for (int32_t i = 0; i < t->n; i++) {
        fill_logits(&logits, i, t_row(t, i), s->close ? 2.0f : 12.0f, s->ties);
        t_result(t, i, &p->st.choice[i], sizeof p->st.choice[i]);
        t_result(t, i, &p->st.logprobs[i], sizeof p->st.logprobs[i]);
    }
}

#define GREEDY                                                                                                         \
    { .temperature = 0.0f, .top_p = 1.0f }

#define PENALTIES .repeat = 1.3f, .presence = 1.5f, .frequency = 0.75f

static const op_case CASES[] = {
    { .id = OP_TOPK, .name = "best", .build = build_topk, .shape = &(topk_shape){ 200, 1, 1, false } },
    { .id = OP_TOPK, .name = "eight", .build = build_topk, .shape = &(topk_shape){ 333, 8, 0, false } },
    { .id = OP_TOPK, .name = "ties", .build = build_topk, .shape = &(topk_shape){ 100, 5, 2, true } },
    { .id = OP_TOPK, .name = "whole vocabulary", .build = build_topk, .shape = &(topk_shape){ 7, 7, 0, true } },
    { .id = OP_TOPK, .name = "one token", .build = build_topk, .shape = &(topk_shape){ 1, 1, 0, false } },
    { .id = OP_TOPK, .name = "large vocabulary", .build = build_topk, .shape = &(topk_shape){ 9001, 8, 0, false } },
    { .id = OP_TOPK, .name = "large, ties", .build = build_topk, .shape = &(topk_shape){ 8192, 8, 1, true } },
    { .id = OP_PICK,
      .name = "greedy",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 333, .head_first = 0, .ties = false, .pick = GREEDY } },
    { .id = OP_PICK,
      .name = "greedy ties",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 100, .head_first = 0, .ties = true, .pick = GREEDY } },
    { .id = OP_PICK,
      .name = "greedy, one token",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 1, .head_first = 0, .ties = false, .pick = GREEDY } },
    { .id = OP_PICK,
      .name = "sampled",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 500,
                              .head_first = 0,
                              .ties = false,
                              .pick = { .temperature = 1.0f, .top_p = 1.0f, .seed = 7 } } },
    { .id = OP_PICK,
      .name = "top_k",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 500,
                              .head_first = 0,
                              .ties = true,
                              .pick = { .temperature = 0.7f, .top_p = 1.0f, .top_k = 20, .seed = 1ull << 40 } } },
    { .id = OP_PICK,
      .name = "all filters",
      .build = build_pick,
      .shape =
          &(pick_shape){ .vocab = 301,
                         .head_first = 3,
                         .ties = false,
                         .pick = { .temperature = 1.5f, .top_p = 0.9f, .min_p = 0.05f, .top_k = 50, .seed = 99 } } },
    { .id = OP_PICK,
      .name = "top_p alone",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 301,
                              .head_first = 0,
                              .ties = true,
                              .pick = { .temperature = 1.0f, .top_p = 0.8f, .seed = 5 } } },
    { .id = OP_PICK,
      .name = "penalties on a chain",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 9, .close = true, .pick = { .top_p = 1.0f, PENALTIES } } },
    { .id = OP_PICK,
      .name = "penalties behind a prompt",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 9, .close = true, .head_first = 3, .pick = { .top_p = 1.0f, PENALTIES } } },
    { .id = OP_PICK,
      .name = "penalties on a tree",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 9, .close = true, .pick = { .top_p = 1.0f, PENALTIES }, .tree = TREE_BINARY } },
    { .id = OP_PICK,
      .name = "everything on a comb",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 301,
                              .pick = { .temperature = 0.8f,
                                        .top_p = 0.9f,
                                        .min_p = 0.02f,
                                        .top_k = 40,
                                        .seed = 4,
                                        PENALTIES,
                                        .end_from = PICK_BASE + 3 },
                              .tree = TREE_COMB,
                              .n_bias = 60,
                              .told = 21 } },
    { .id = OP_PICK,
      .name = "bias",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 100, .ties = true, .pick = { .top_p = 1.0f }, .n_bias = 50 } },
    { .id = OP_PICK,
      .name = "end tokens masked",
      .build = build_pick,
      .shape =
          &(pick_shape){ .vocab = 100, .pick = { .top_p = 1.0f, .end_from = PICK_BASE + 4 }, .tree = TREE_BINARY } },
    { .id = OP_PICK,
      .name = "log-probabilities",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 333, .pick = { .temperature = 1.0f, .top_p = 1.0f, .seed = 6 }, .told = 4 } },
    { .id = OP_PICK,
      .name = "log-probabilities with ties",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 48, .ties = true, .pick = { .top_p = 1.0f }, .told = 21 } },
    { .id = OP_PICK,
      .name = "log-probability of the chosen token",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 31, .pick = { .top_p = 1.0f }, .told = 1 } },
    { .id = OP_PICK,
      .name = "log-probabilities of fewer tokens",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 5, .pick = { .top_p = 1.0f }, .told = 21 } },
    { .id = OP_PICK,
      .name = "large vocabulary, greedy",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 9001, .ties = true, .pick = GREEDY, .told = 21 } },
    { .id = OP_PICK,
      .name = "large vocabulary, sampled",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 9001, .pick = { .temperature = 1.0f, .top_p = 1.0f, .seed = 8 }, .told = 6 } },
    { .id = OP_PICK,
      .name = "large vocabulary, top_p of equals",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 8192,
                              .ties = true,
                              .close = true,
                              .pick = { .temperature = 2.0f, .top_p = 0.7f, .seed = 9 } } },
    { .id = OP_PICK,
      .name = "large vocabulary, everything",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 9001,
                              .close = true,
                              .pick = { .temperature = 0.9f,
                                        .top_p = 0.95f,
                                        .min_p = 0.01f,
                                        .top_k = 3000,
                                        .seed = 10,
                                        PENALTIES,
                                        .end_from = PICK_BASE + 5 },
                              .tree = TREE_BINARY,
                              .n_bias = PICK_BIAS_MAX,
                              .told = 21 } },
    { .id = OP_PICK,
      .name = "far below the top",
      .build = build_pick,
      .shape = &(pick_shape){ .vocab = 500,
                              .pick = { .temperature = 0.05f, .top_p = 0.9999f, .top_k = 450, .seed = 11 } } },
};

case_list cases_pick(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
