/* The ops that only turn the parameter block: nothing here is worth more than one lane. */
#include "engine/base/clock.h"
#include "kernels/ref/ref_int.h"
#include "kernels/step_core.h"

static const step_share ALONE = { 0, 1 };

void ref_begin(const void *args, const lane *ln) {
    if (ln->id) return;
    const begin_args *a = args;
    begin_plan b = begin_plan_of(a);
    CHECK(b.fault == FAULT_NONE);
    begin_write(a, &b, ALONE);
}

void ref_tree(const void *args, const lane *ln) {
    if (ln->id) return;
    const tree_args *a = args;
    step_state *st = &a->p->st;
    int32_t fault = FAULT_NONE;
    tree_candidates c = tree_candidates_of(a, &a->p->in, st->draft_head_n, &fault);
    tree_begin(&st->rows, st->base, st->anchor);
    tree_rows(&a->p->in, &c, a->rows_max, &st->rows, st->note, &fault);
    CHECK(fault == FAULT_NONE);
    st->head_first = 0;
    st->head_n = st->rows.n;
    tell_nodes(&a->p->out, &st->rows, st->note, &c, st->ctx.n, ALONE);
}

void ref_accept(const void *args, const lane *ln) {
    if (ln->id) return;
    const accept_args *a = args;
    step_params *p = a->p;
    const row_set *rows = &p->st.rows;
    int32_t accepted[DEPTH_MAX + 1] = { 0 }, n = 0;
    if (a->kind == STEP_PLAIN || a->kind == STEP_ROUND) {
        CHECK(rows->n >= 1 && rows->n <= NODES_MAX);
        n = accept_walk(rows->n, rows->parent, rows->token, p->st.choice, accepted);
    }
    accept_write(a, accepted, n, ALONE);
    __atomic_store_n(&p->out.seq, p->in.seq, __ATOMIC_RELEASE); /* last: says that the record is whole */
}

/* --- stamp --- */

void ref_stamp(const void *args, const lane *ln) {
    if (ln->id) return;
    const stamp_args *a = args;
    a->p->out.stamp[a->which] = clock_ns();
}
