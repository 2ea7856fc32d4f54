/* Ops on the parameter block. Their meaning is tested in tests/unit/test_tree_accept.c; here that every implementation
 * and every number of lanes does the same to the block. */
#include "engine/base/clock.h"
#include "tests/ops/case.h"

enum { BUCKET = 16 };

typedef struct step_shape {
    step_kind kind;
    int32_t base, rows, draft_rows, n_proposals, nodes_max, branch;
    float row_cost; /* what a row of the verify pass costs; above 0 the draft's word is also calibrated */
} step_shape;

static step_params *params_of(tcase *t, const step_shape *s) {
    step_params *p = t_params(t);
    p->in.seq = 9;
    p->in.base = s->base, p->in.anchor = 5, p->in.ctx_len = s->base > 12 ? s->base - 12 : 0;
    p->in.rows = s->rows;
    p->in.want_head = 1;
    p->in.draft_rows = s->draft_rows;
    p->in.n_proposals = s->n_proposals;
    p->in.nodes_max = s->nodes_max;
    p->in.branch = s->branch ? s->branch : 1;
    for (int32_t i = 0; i < DEPTH_MAX; i++) {
        p->in.proposals[i] = i % 3 == 2 ? 200 + i : 100 + i; /* some stand among the candidates of build_tree */
        p->in.proposal_logp[i] = -0.2f * (float)(i + 1);
    }
    p->in.min_logp = -100.0f;
    p->in.calibrated = s->row_cost > 0.0f;
    for (int32_t i = 0; i <= NODES_MAX; i++) p->in.cost[i] = s->row_cost * (float)i;
    for (int32_t i = 0; i < CONF_CLASSES; i++) p->in.conf[i] = -0.1f * (float)(CONF_CLASSES - i);
    p->st.base = 70, p->st.anchor = 6, p->st.ctx_len = 66;
    p->st.draft_head_n = s->draft_rows > 1 ? s->draft_rows - 1 : 0;
    return p;
}

static void build_begin(tcase *t, const void *shape) {
    const step_shape *s = shape;
    *(begin_args *)t->args =
        (begin_args){ .p = params_of(t, s), .kind = s->kind, .rows_max = BUCKET, .mask_id = 12, .window = 32 };
}

static void build_tree(tcase *t, const void *shape) {
    const step_shape *s = shape;
    view id = t_view(t, BLOCK_INPUT, BUCKET, 2, DT_I32, 0), logp = t_view(t, BLOCK_INPUT, BUCKET, 2, DT_F32, 0);
    for (int32_t r = 0; r < BUCKET; r++) {
        for (int32_t i = 0; i < 2; i++) {
            ((int32_t *)view_row(&id, r))[i] = 200 + 100 * i + r;
            ((float *)view_row(&logp, r))[i] = -0.25f * (float)(1 + r % 3) - 0.5f * (float)i;
        }
    }
    *(tree_args *)t->args = (tree_args){ .p = params_of(t, s), .id = id, .logp = logp, .rows_max = BUCKET };
}

/* A comb of nodes: node i has parent i / 2 * 2 - 2 at most; the choices follow it for a while. */
static void build_accept(tcase *t, const void *shape) {
    const step_shape *s = shape;
    step_params *p = params_of(t, s);
    row_set *rows = &p->st.rows;
    rows->n = s->rows;
    for (int32_t i = 0; i < s->rows; i++) {
        rows->parent[i] = i ? (i - 1) / 2 * 2 : -1;
        rows->token[i] = 300 + i;
        p->st.choice[i] = i < 6 ? 300 + i + 2 : 7;
    }
    p->st.ctx.base = 66, p->st.ctx.n = 4;
    p->st.head_n = 1;
    *(accept_args *)t->args = (accept_args){ .p = p, .kind = s->kind };
}

static void build_stamp(tcase *t, const void *shape) {
    *(stamp_args *)t->args = (stamp_args){ .p = t_params(t), .which = *(const int32_t *)shape };
}

/* A reading of the clock between start of the test and now becomes 0; anything else stays and differs. */
static void settle_stamp(tcase *t) {
    const stamp_args *a = (const stamp_args *)t->args;
    int64_t *stamp = &a->p->out.stamp[a->which], now = clock_ns();
    if (*stamp <= now && *stamp > now - 60 * 1000000000LL) *stamp = 0;
}

static const op_case CASES[] = {
    { .id = OP_BEGIN,
      .name = "prefill",
      .build = build_begin,
      .shape = &(step_shape){ STEP_PREFILL, 40, 7, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_BEGIN,
      .name = "prefill goes on",
      .build = build_begin,
      .shape = &(step_shape){ STEP_PREFILL, -1, 16, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_BEGIN,
      .name = "plain",
      .build = build_begin,
      .shape = &(step_shape){ STEP_PLAIN, -1, 0, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_BEGIN,
      .name = "round",
      .build = build_begin,
      .shape = &(step_shape){ STEP_ROUND, 30, 0, 8, 0, 7, 0, 0 },
      .rows = 1 },
    { .id = OP_BEGIN,
      .name = "round with proposals",
      .build = build_begin,
      .shape = &(step_shape){ STEP_ROUND, -1, 0, 8, 3, 7, 0, 0 },
      .rows = 1 },
    { .id = OP_BEGIN,
      .name = "context",
      .build = build_begin,
      .shape = &(step_shape){ STEP_CONTEXT, 200, 50, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_TREE,
      .name = "draft",
      .build = build_tree,
      .shape = &(step_shape){ STEP_ROUND, 70, 0, 8, 0, 31, 0, 0 },
      .rows = 1 },
    { .id = OP_TREE,
      .name = "branches",
      .build = build_tree,
      .shape = &(step_shape){ STEP_ROUND, 70, 0, 8, 0, 15, 2, 0 },
      .rows = 1 },
    { .id = OP_TREE,
      .name = "cut",
      .build = build_tree,
      .shape = &(step_shape){ STEP_ROUND, 70, 0, 16, 0, 5, 0, 0 },
      .rows = 1 },
    { .id = OP_TREE,
      .name = "proposals",
      .build = build_tree,
      .shape = &(step_shape){ STEP_ROUND, 70, 0, 0, 31, 31, 0, 0 },
      .rows = 1 },
    { .id = OP_TREE,
      .name = "both",
      .build = build_tree,
      .shape = &(step_shape){ STEP_ROUND, 70, 0, 8, 9, 15, 2, 0 },
      .rows = 1 },
    { .id = OP_TREE,
      .name = "worth their rows",
      .build = build_tree,
      .shape = &(step_shape){ STEP_ROUND, 70, 0, 8, 9, 15, 2, 0.3f },
      .rows = 1 },
    { .id = OP_ACCEPT,
      .name = "prefill",
      .build = build_accept,
      .shape = &(step_shape){ STEP_PREFILL, 70, 9, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_ACCEPT,
      .name = "plain",
      .build = build_accept,
      .shape = &(step_shape){ STEP_PLAIN, 70, 1, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_ACCEPT,
      .name = "round",
      .build = build_accept,
      .shape = &(step_shape){ STEP_ROUND, 70, 12, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_ACCEPT,
      .name = "context",
      .build = build_accept,
      .shape = &(step_shape){ STEP_CONTEXT, 70, 0, 0, 0, 0, 0, 0 },
      .rows = 1 },
    { .id = OP_STAMP,
      .name = "first",
      .build = build_stamp,
      .shape = &(int32_t){ 0 },
      .rows = 1,
      .settle = settle_stamp },
    { .id = OP_STAMP,
      .name = "last",
      .build = build_stamp,
      .shape = &(int32_t){ STAMPS - 1 },
      .rows = 1,
      .settle = settle_stamp },
};

case_list cases_step(void) { return (case_list){ CASES, sizeof CASES / sizeof *CASES }; }
