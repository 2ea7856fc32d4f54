/* The ops that only turn the parameter block: nothing here is worth more than one lane. */
#include "engine/base/clock.h"
#include "kernels/accept_core.h"
#include "kernels/ref/ref_int.h"
#include "kernels/tree_core.h"

/* A chain of n rows from base on; tokens are the caller's. */
static void set_chain(row_set *rows, int32_t base, int32_t n) {
    CHECK(n >= 0 && n <= PREFILL_MAX);
    rows->n = n;
    rows->base = base;
    rows->chain = 1;
    for (int32_t r = 0; r < n; r++) rows->pos[r] = base + r;
}

static int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }

static int32_t max_i32(int32_t a, int32_t b) { return a > b ? a : b; }

/* --- begin --- */

/* The positions whose context rows are missing, oldest first, at most `most`. Those the draft cannot see are skipped.
 */
static void begin_context(step_state *st, int32_t window, int32_t most) {
    CHECK(st->ctx_len <= st->base);
    st->ctx_len = max_i32(st->ctx_len, st->base - window);
    set_chain(&st->ctx, st->ctx_len, min_i32(st->base - st->ctx_len, most));
}

/* The anchor and the masks behind it. Row 0 predicts nothing. */
static void begin_draft(step_state *st, int32_t n, int32_t mask_id) {
    CHECK(n <= NODES_MAX);
    set_chain(&st->draft, st->base, n);
    st->draft.token[0] = st->anchor;
    for (int32_t r = 1; r < n; r++) st->draft.token[r] = mask_id;
    st->draft_head_first = 1;
    st->draft_head_n = n - 1;
}

static void begin_prefill(step_params *p, int32_t rows_max) {
    CHECK(p->in.rows >= 0 && p->in.rows <= rows_max);
    set_chain(&p->st.rows, p->st.base, p->in.rows);
    memcpy(p->st.rows.token, p->in.tokens, (size_t)p->in.rows * sizeof p->in.tokens[0]);
    if (!p->in.want_head || p->in.rows == 0) return;
    p->st.head_n = 1;
    p->st.head_first = p->in.rows - 1;
}

void ref_begin(const void *args, const lane *ln) {
    if (ln->id) return;
    const begin_args *a = args;
    const step_in *in = &a->p->in;
    step_state *st = &a->p->st;
    step_out *out = &a->p->out;
    if (in->base >= 0) st->base = in->base, st->anchor = in->anchor, st->ctx_len = in->ctx_len;
    set_chain(&st->rows, st->base, 0);
    set_chain(&st->draft, st->base, 0);
    set_chain(&st->ctx, st->ctx_len, 0);
    st->head_n = st->head_first = st->draft_head_n = st->draft_head_first = 0;
    out->n = out->rows = out->drafted = out->accepted = out->draft_depth = out->ctx_rows = 0;
    out->base = st->base;
    memset(out->stamp, 0, sizeof out->stamp);
    switch (a->kind) {
    case STEP_PREFILL: begin_prefill(a->p, a->rows_max); break;
    case STEP_PLAIN:
        tree_begin(&st->rows, st->base, st->anchor);
        st->head_n = 1;
        break;
    case STEP_ROUND:
        if (in->draft_rows <= 1) break; /* whoever drafts next projects what is missing then */
        begin_context(st, a->window, PREFILL_MAX);
        begin_draft(st, in->draft_rows, a->mask_id);
        break;
    case STEP_CONTEXT: begin_context(st, a->window, min_i32(in->rows, PREFILL_MAX)); break;
    }
}

/* --- tree --- */

/* What the host needs to know of the draft's block and of the nodes to judge them afterwards. */
static void tell_nodes(step_params *p, const tree_candidates *c) {
    step_out *out = &p->out;
    const row_set *rows = &p->st.rows;
    memcpy(out->proposal, rows->token + 1, (size_t)(rows->n - 1) * sizeof *out->proposal);
    memcpy(out->note, p->st.note, (size_t)rows->n * sizeof *out->note);
    out->drafted = rows->n - 1;
    out->draft_depth = c->depth;
    for (int32_t d = 1; d <= c->depth; d++) out->draft_conf[d - 1] = (uint8_t)tree_conf(tree_own_logp(c, d, 0));
    out->ctx_rows = p->st.ctx.n;
}

void ref_tree(const void *args, const lane *ln) {
    if (ln->id) return;
    const tree_args *a = args;
    const step_in *in = &a->p->in;
    step_state *st = &a->p->st;
    CHECK(in->n_proposals >= 0 && in->n_proposals <= DEPTH_MAX);
    tree_candidates c = { .depth = 0 };
    if (st->draft_head_n) {
        CHECK(st->draft_head_n <= a->id.rows && in->branch >= 1);
        c = (tree_candidates){ .token = a->id.data,
                               .logp = a->logp.data,
                               .depth = st->draft_head_n,
                               .width = min_i32(in->branch, a->id.cols),
                               .token_stride = (int32_t)(a->id.stride / (int64_t)sizeof(int32_t)),
                               .logp_stride = (int32_t)(a->logp.stride / (int64_t)sizeof(float)),
                               .conf = in->calibrated ? in->conf : NULL };
    }
    tree_begin(&st->rows, st->base, st->anchor);
    tree_grow(&st->rows, &c, &(tree_given){ in->proposals, in->proposal_logp, in->n_proposals },
              max_i32(min_i32(in->nodes_max, a->rows_max - 1), 0), st->note);
    tree_cut(&st->rows, st->note, in->cost, in->nodes_min, in->min_logp);
    st->head_first = 0;
    st->head_n = st->rows.n;
    tell_nodes(a->p, &c);
}

/* --- accept --- */

/* Log-probabilities of the j-th token emitted, which head row `row` chose. */
static void tell_logprobs(step_params *p, int32_t j, int32_t row) {
    if (p->in.logprobs >= 0) p->out.logprobs[j] = p->st.logprobs[row];
}

/* Commits the accepted path; the last choice becomes the anchor and the last token emitted. */
static void accept_path(step_params *p) {
    step_state *st = &p->st;
    const row_set *rows = &st->rows;
    CHECK(rows->n >= 1 && rows->n <= NODES_MAX);
    st->n_accepted = accept_walk(rows->n, rows->parent, rows->token, st->choice, st->accepted);
    int32_t proposals = st->n_accepted - 1;
    for (int32_t j = 0; j < proposals; j++) p->out.token[j] = rows->token[st->accepted[j + 1]];
    p->out.token[proposals] = st->choice[st->accepted[proposals]];
    for (int32_t j = 0; j <= proposals; j++) {
        tell_logprobs(p, j, st->accepted[j]);
        p->out.path[j] = st->accepted[j];
    }
    p->out.n = st->n_accepted;
    p->out.accepted = proposals;
    st->base += st->n_accepted;
    st->anchor = p->out.token[proposals];
}

/* Commits prompt rows; with a head, the choice of the last one is the first anchor. */
static void accept_prompt(step_params *p) {
    p->st.base += p->st.rows.n;
    if (p->st.head_n == 0) return;
    p->st.anchor = p->out.token[0] = p->st.choice[0];
    tell_logprobs(p, 0, 0);
    p->out.n = 1;
}

void ref_accept(const void *args, const lane *ln) {
    if (ln->id) return;
    const accept_args *a = args;
    step_params *p = a->p;
    step_state *st = &p->st;
    st->move_base = st->base;
    st->n_accepted = 0;
    switch (a->kind) {
    case STEP_PREFILL: accept_prompt(p); break;
    case STEP_PLAIN: accept_path(p); break;
    case STEP_ROUND:
        accept_path(p);
        st->ctx_len = st->ctx.base + st->ctx.n;
        break;
    case STEP_CONTEXT: st->ctx_len = st->ctx.base + st->ctx.n; break;
    }
    p->out.base = st->base;
    p->out.rows = st->rows.n;
    __atomic_store_n(&p->out.seq, p->in.seq, __ATOMIC_RELEASE); /* last: says that the record is whole */
}

/* --- stamp --- */

void ref_stamp(const void *args, const lane *ln) {
    if (ln->id) return;
    const stamp_args *a = args;
    a->p->out.stamp[a->which] = clock_ns();
}
