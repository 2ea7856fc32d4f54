/* kernels/step_core.h - the parameter block's bookkeeping: what begin, tree and accept do to it. Pure.
 *
 * Every function is called by `of` threads with the same arguments, which share the copies among them; on the CPU by
 * one. Values come from functions that only read (begin_plan_of, accept_walk), and go to functions that only write;
 * between the two the threads wait for each other, which is the caller's business.
 *
 * A value that cannot be is brought to the nearest one that can, and `fault` says so: memory beside the block is never
 * touched. */
#ifndef KERNELS_STEP_CORE_H
#define KERNELS_STEP_CORE_H
#include "engine/base/num.h"
#include "kernels/accept_core.h"
#include "kernels/rows.h"
#include "kernels/tree_core.h"

/* One of those who share the work. */
typedef struct step_share {
    int32_t me, of;
} step_share;

/* v within low .. high; *fault is set when it is not. */
HD static inline int32_t step_bound(int32_t v, int32_t low, int32_t high, int32_t *fault, step_fault which) {
    if (v >= low && v <= high) return v;
    *fault = which;
    return v < low ? low : high;
}

HD static inline void step_copy(int32_t *to, const int32_t *from, int32_t n, step_share w) {
    for (int32_t i = w.me; i < n; i += w.of) to[i] = from[i];
}

/* A chain of n rows from base on; tokens are the caller's. */
HD static inline void set_chain(row_set *rows, int32_t base, int32_t n, step_share w) {
    for (int32_t r = w.me; r < n; r += w.of) rows->pos[r] = base + r;
    if (w.me) return;
    rows->n = n;
    rows->base = base;
    rows->chain = 1;
}

/* --- begin --- */

/* The live rows of a step's parts. */
typedef struct begin_plan {
    int32_t base, anchor;
    int32_t rows, draft;        /* rows of both passes */
    int32_t ctx_from, ctx;      /* positions that are projected into the draft's ring */
    int32_t ctx_len;            /* of them and those below, as far as the draft can see them */
    int32_t head_n, head_first; /* of the target */
    int32_t fault;
} begin_plan;

/* The positions whose context rows are missing, oldest first, at most `most`. Those the draft cannot see are skipped.
 */
HD static inline void begin_context(begin_plan *b, int32_t window, int32_t most) {
    b->ctx_len = step_bound(b->ctx_len, 0, b->base, &b->fault, FAULT_BEGIN);
    b->ctx_len = b->ctx_from = max_i32(b->ctx_len, b->base - window);
    b->ctx = step_bound(min_i32(b->base - b->ctx_len, most), 0, PREFILL_MAX, &b->fault, FAULT_BEGIN);
}

HD static inline begin_plan begin_plan_of(const begin_args *a) {
    const step_in *in = &a->p->in;
    const step_state *st = &a->p->st;
    bool here = in->base >= 0;
    begin_plan b = { .base = here ? in->base : st->base, .anchor = here ? in->anchor : st->anchor };
    b.ctx_len = b.ctx_from = here ? in->ctx_len : st->ctx_len;
    switch (a->kind) {
    case STEP_PREFILL:
        b.rows = step_bound(in->rows, 0, min_i32(a->rows_max, PREFILL_MAX), &b.fault, FAULT_BEGIN);
        if (!in->want_head || b.rows == 0) break;
        b.head_n = 1;
        b.head_first = b.rows - 1;
        break;
    case STEP_PLAIN: b.rows = b.head_n = 1; break;
    case STEP_ROUND:
        if (in->draft_rows <= 1) break; /* whoever drafts next projects what is missing then */
        begin_context(&b, a->window, PREFILL_MAX);
        b.draft = step_bound(in->draft_rows, 0, NODES_MAX, &b.fault, FAULT_BEGIN);
        break;
    case STEP_CONTEXT: begin_context(&b, a->window, min_i32(in->rows, PREFILL_MAX)); break;
    case STEP_PART: break; /* begins nothing */
    }
    return b;
}

/* The anchor and the masks behind it. Row 0 predicts nothing. */
HD static inline void begin_draft(step_state *st, const begin_plan *b, int32_t mask_id, step_share w) {
    set_chain(&st->draft, b->base, b->draft, w);
    for (int32_t r = w.me; r < b->draft; r += w.of) st->draft.token[r] = r ? mask_id : b->anchor;
    if (w.me) return;
    st->draft_head_first = b->draft ? 1 : 0;
    st->draft_head_n = b->draft ? b->draft - 1 : 0;
}

HD static inline void begin_out(step_out *out, const begin_plan *b) {
    out->n = out->rows = out->drafted = out->accepted = out->draft_depth = out->ctx_rows = 0;
    out->base = b->base;
    out->fault = b->fault;
    for (int32_t i = 0; i < STAMPS; i++) out->stamp[i] = 0;
}

HD static inline void begin_write(const begin_args *a, const begin_plan *b, step_share w) {
    step_state *st = &a->p->st;
    set_chain(&st->ctx, b->ctx_from, b->ctx, w);
    begin_draft(st, b, a->mask_id, w);
    if (a->kind != STEP_PLAIN) set_chain(&st->rows, b->base, b->rows, w);
    if (a->kind == STEP_PREFILL) step_copy(st->rows.token, a->p->in.tokens, b->rows, w);
    if (w.me) return;
    if (a->kind == STEP_PLAIN) tree_begin(&st->rows, b->base, b->anchor);
    st->base = b->base, st->anchor = b->anchor, st->ctx_len = b->ctx_len;
    st->head_n = b->head_n, st->head_first = b->head_first;
    begin_out(&a->p->out, b);
}

/* --- tree --- */

/* The draft's candidates as they lie in `id` and `logp`; none when nothing was drafted. */
HD static inline tree_candidates tree_candidates_of(const tree_args *a, const step_in *in, int32_t depth,
                                                    int32_t *fault) {
    tree_candidates c = { .depth = 0 };
    if (depth == 0) return c;
    c.token = (const int32_t *)a->id.data;
    c.logp = (const float *)a->logp.data;
    c.depth = step_bound(depth, 0, min_i32(a->id.rows, DEPTH_MAX), fault, FAULT_TREE);
    c.width = min_i32(step_bound(in->branch, 1, INT32_MAX, fault, FAULT_TREE), a->id.cols);
    c.token_stride = (int32_t)(a->id.stride / (int64_t)sizeof(int32_t));
    c.logp_stride = (int32_t)(a->logp.stride / (int64_t)sizeof(float));
    c.conf = in->calibrated ? in->conf : NULL;
    return c;
}

/* The rows to verify, from c and the given proposals. One thread: the nodes follow from one another. */
HD static inline void tree_rows(const step_in *in, const tree_candidates *c, int32_t rows_max, row_set *rows,
                                node_note *note, int32_t *fault) {
    tree_given given = { in->proposals, in->proposal_logp, 0 };
    given.n = step_bound(in->n_proposals, 0, DEPTH_MAX, fault, FAULT_TREE);
    tree_grow(rows, c, &given, max_i32(min_i32(in->nodes_max, rows_max - 1), 0), note);
    tree_cut(rows, note, in->cost, in->nodes_min, in->min_logp);
}

/* What the host needs to know of the draft's block and of the nodes to judge them afterwards. */
HD static inline void tell_nodes(step_out *out, const row_set *rows, const node_note *note, const tree_candidates *c,
                                 int32_t ctx_rows, step_share w) {
    step_copy(out->proposal, rows->token + 1, rows->n - 1, w);
    for (int32_t i = w.me; i < rows->n; i += w.of) out->note[i] = note[i];
    for (int32_t d = w.me + 1; d <= c->depth; d += w.of)
        out->draft_conf[d - 1] = (uint8_t)tree_conf(tree_own_logp(c, d, 0));
    if (w.me) return;
    out->drafted = rows->n - 1;
    out->draft_depth = c->depth;
    out->ctx_rows = ctx_rows;
}

/* --- accept --- */

/* Log-probabilities of the j-th token emitted, which head row `row` chose. */
HD static inline void tell_logprobs(step_params *p, int32_t j, int32_t row, step_share w) {
    if (p->in.logprobs < 0) return;
    step_copy((int32_t *)&p->out.logprobs[j], (const int32_t *)&p->st.logprobs[row],
              (int32_t)(sizeof(pick_logprobs) / sizeof(int32_t)), w);
}

/* Commits n accepted nodes; the last choice becomes the anchor and the last token emitted. */
HD static inline void accept_path(step_params *p, const int32_t *accepted, int32_t n, step_share w) {
    step_state *st = &p->st;
    const row_set *rows = &st->rows;
    for (int32_t j = w.me; j < n; j += w.of) {
        p->out.token[j] = j + 1 < n ? rows->token[accepted[j + 1]] : st->choice[accepted[j]];
        p->out.path[j] = st->accepted[j] = accepted[j];
    }
    for (int32_t j = 0; j < n; j++) tell_logprobs(p, j, accepted[j], w);
    if (w.me) return;
    st->n_accepted = n;
    p->out.n = n;
    p->out.accepted = n - 1;
    st->base += n;
    st->anchor = st->choice[accepted[n - 1]];
}

/* Commits prompt rows; with a head, the choice of the last one is the first anchor. */
HD static inline void accept_prompt(step_params *p, step_share w) {
    bool head = p->st.head_n != 0;
    if (head) tell_logprobs(p, 0, 0, w);
    if (w.me) return;
    p->st.base += p->st.rows.n;
    if (!head) return;
    p->st.anchor = p->out.token[0] = p->st.choice[0];
    p->out.n = 1;
}

/* n nodes of the tree were accepted, where it is verified. Everything but the number of the step. */
HD static inline void accept_write(const accept_args *a, const int32_t *accepted, int32_t n, step_share w) {
    step_params *p = a->p;
    step_state *st = &p->st;
    if (w.me == 0) {
        st->move_base = st->base;
        st->n_accepted = 0;
    }
    if (a->kind == STEP_PREFILL) accept_prompt(p, w);
    if (a->kind == STEP_PLAIN || a->kind == STEP_ROUND) accept_path(p, accepted, n, w);
    if (w.me) return;
    if (a->kind == STEP_ROUND || a->kind == STEP_CONTEXT) st->ctx_len = st->ctx.base + st->ctx.n;
    p->out.base = st->base;
    p->out.ctx_len = st->ctx_len;
    p->out.rows = st->rows.n;
}
#endif
