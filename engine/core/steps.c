#include "engine/core/steps.h"

#include "engine/base/mem.h"
#include "kernels/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What of a round a step does. */
typedef enum part { WHOLE, PROPOSE, VERIFY, CHOOSE } part;

/* One step and what its description needs to know. */
typedef struct slot {
    steps *owner;
    step_kind kind;
    part part;
    int32_t bucket;
    char name[24];
    step *step;
    view residual, logits, draft_logits; /* where they lie once recorded */
} slot;

struct steps {
    const target *t;
    const draft *d;
    op_fn *const *table;
    pool *pool;
    device *on; /* NULL: the host */
    bool eager;
    step_params *params; /* its own cache lines, at a fixed address; the host's side */
    step_params *at;     /* what the ops use: the same, or the device's side */
    pick_lists lists;    /* read by pick, likewise at a fixed address */
    lists_mirror mirror; /* the same on a device */
    mask_fill *fill;     /* NULL: answers are free */
    void *fill_arg;
    uint32_t *mask; /* [NODES_MAX][mask_words], where host and device reach it */
    int32_t mask_words;
    slot slot[STEPS_COUNT];
};

enum {
    SLOT_PLAIN = 0,
    SLOT_PREFILL = 1,
    SLOT_ROUND = SLOT_PREFILL + PREFILL_BUCKETS,
    SLOT_PROPOSE = SLOT_ROUND + ROUND_BUCKETS,
    SLOT_VERIFY = SLOT_PROPOSE + ROUND_BUCKETS,
    SLOT_CHOOSE = SLOT_VERIFY + ROUND_BUCKETS,
    SLOT_CONTEXT = SLOT_CHOOSE + ROUND_BUCKETS
};

/* ---- descriptions ---- */

/* Rows through the target and its head. */
static void describe_rows(slot *sl, op_sink *s, work *w, int32_t head_max) {
    steps *o = sl->owner;
    step_params *p = o->at;
    target_pass pass = target_pass_take(o->t, w, &p->st.rows, sl->bucket);
    view logits = work_take(w, "logits", head_max, o->t->cfg.vocab, DT_F32);
    target_rows(o->t, s, &pass);
    target_head(o->t, s, &pass.x, &logits, (live_rows){ &p->st.head_n, &p->st.head_first, head_max });
    sl->residual = pass.x;
    sl->logits = logits;
}

static void describe_choice(const slot *sl, op_sink *s, view logits) {
    const steps *o = sl->owner;
    view mask = { o->mask, o->mask_words * (int64_t)sizeof *o->mask, logits.rows, o->mask_words, DT_I32 };
    op_pick(s, &(pick_args){ .p = o->at, .lists = o->on ? o->mirror.at : &o->lists, .logits = logits, .mask = mask });
}

static void describe_target(slot *sl, op_sink *s, work *w, int32_t head_max) {
    describe_rows(sl, s, w, head_max);
    describe_choice(sl, s, sl->logits);
}

/* The draft's context rows, its block, and the candidates as nodes. */
static void describe_proposals(slot *sl, op_sink *s, work *w) {
    steps *o = sl->owner;
    step_params *p = o->at;
    int32_t most = sl->bucket - 1;
    view id = work_take(w, "candidates", most, TREE_WIDTH, DT_I32),
         logp = work_take(w, "candidate_logp", most, TREE_WIDTH, DT_F32);
    if (o->d) {
        draft_context(o->d, s, w, &p->st.ctx, sl->bucket);
        live_rows head = { &p->st.draft_head_n, &p->st.draft_head_first, most };
        draft_pass pass = draft_block(o->d, s, w, &p->st.draft, sl->bucket, head);
        op_topk(s, &(topk_args){
                       .logits = pass.logits, .id = id, .logp = logp, .rows = { &p->st.draft_head_n, NULL, most } });
        sl->draft_logits = pass.logits;
    }
    op_stamp(s, &(stamp_args){ .p = p, .which = 1 });
    op_tree(s, &(tree_args){ .p = p, .id = id, .logp = logp, .rows_max = sl->bucket });
}

static void describe_begin(slot *sl, op_sink *s) {
    steps *o = sl->owner;
    op_begin(s, &(begin_args){ .p = o->at,
                               .kind = sl->kind,
                               .rows_max = sl->bucket,
                               .mask_id = o->d ? o->d->cfg.mask_id : 0,
                               .window = o->d ? o->d->cfg.window : 0,
                               .lists = o->on ? o->mirror.at : NULL });
    op_stamp(s, &(stamp_args){ .p = o->at, .which = 0 });
}

static void describe_end(slot *sl, op_sink *s) {
    steps *o = sl->owner;
    op_accept(s, &(accept_args){ .p = o->at, .kind = sl->kind });
    if (sl->kind == STEP_ROUND)
        op_kv_move(s, &(kv_move_args){
                          .p = o->at, .stores = o->t->kv.seen, .n = o->t->cfg.layers, .taps = o->t->tap_ring });
    op_stamp(s, &(stamp_args){ .p = o->at, .which = 3 });
}

static void describe(void *ctx, op_sink *s, work *w) {
    slot *sl = ctx;
    steps *o = sl->owner;
    describe_begin(sl, s);
    switch (sl->kind) {
    case STEP_PREFILL:
    case STEP_PLAIN: describe_target(sl, s, w, 1); break;
    case STEP_ROUND:
        describe_proposals(sl, s, w);
        describe_target(sl, s, w, sl->bucket);
        break;
    case STEP_CONTEXT: draft_context(o->d, s, w, &o->at->st.ctx, sl->bucket); break;
    case STEP_PART: break;
    }
    op_stamp(s, &(stamp_args){ .p = o->at, .which = 2 });
    describe_end(sl, s);
}

/* A round in three: between them the host learns the nodes, and says what each may choose. */
static void describe_part(void *ctx, op_sink *s, work *w) {
    slot *sl = ctx;
    steps *o = sl->owner;
    step_kind kind = sl->kind;
    switch (sl->part) {
    case PROPOSE:
        sl->kind = STEP_ROUND;
        describe_begin(sl, s);
        describe_proposals(sl, s, w);
        sl->kind = kind;
        break;
    case VERIFY:
        describe_rows(sl, s, w, sl->bucket);
        op_stamp(s, &(stamp_args){ .p = o->at, .which = 2 });
        break;
    case CHOOSE: describe_choice(sl, s, (sl - ROUND_BUCKETS)->logits); break;
    case WHOLE: break;
    }
    describe_end(sl, s);
}

/* ---- life ---- */

static void plan_slot(steps *s, int at, step_kind kind, part part, const char *name, int32_t bucket) {
    slot *sl = &s->slot[at];
    *sl = (slot){ .owner = s, .kind = kind, .part = part, .bucket = bucket };
    snprintf(sl->name, sizeof sl->name, "%s-%d", name, bucket);
}

/* Only whole chunks of a prompt: short ones, and all that decodes, keep the one order of additions. */
static bool is_fast(const slot *sl) {
    const device *on = sl->owner->on;
    return on && device_has_fast(on) && sl->kind == STEP_PREFILL && sl->bucket == PREFILL_MAX;
}

/* The block, and behind it the masks of constrained answers: a few KiB a row, which a device reads where the host
 * writes them. */
static status take_params(steps *s, err *e) {
    size_t head = (sizeof *s->params + 63) / 64 * 64;
    s->mask_words = (s->t->cfg.vocab + 31) / 32;
    size_t bytes = head + (size_t)NODES_MAX * (size_t)s->mask_words * sizeof *s->mask;
    void *host = NULL, *at = NULL;
    if (s->on)
        TRY(device_alloc_shared(s->on, &host, bytes, "the parameters of a step", e));
    else
        TRY(try_block(&host, bytes, "the parameters of a step", e));
    s->params = s->at = host;
    s->mask = (uint32_t *)(void *)((char *)host + head);
    s->params->in.logprobs = -1;
    if (!s->on) return OK;
    s->at = NULL;
    TRY(memory_alloc(s->on, &at, head, "the parameters of a step", e));
    s->at = at;
    return lists_mirror_open(&s->mirror, s->on, s->t->cfg.vocab, e);
}

status steps_open(steps **out, const target *t, const draft *d, isa i, int lanes, err *e) {
    steps *s = xalloc(sizeof *s);
    s->t = t, s->d = d, s->table = op_table(i);
    s->on = t->on;
    pick_lists_init(&s->lists, t->cfg.vocab);
    plan_slot(s, SLOT_PLAIN, STEP_PLAIN, WHOLE, "plain", 1);
    for (int b = 0; b < PREFILL_BUCKETS; b++)
        plan_slot(s, SLOT_PREFILL + b, STEP_PREFILL, WHOLE, "prefill", prefill_bucket[b]);
    for (int b = 0; b < ROUND_BUCKETS; b++) {
        plan_slot(s, SLOT_ROUND + b, STEP_ROUND, WHOLE, "round", round_bucket[b]);
        plan_slot(s, SLOT_PROPOSE + b, STEP_PART, PROPOSE, "propose", round_bucket[b]);
        plan_slot(s, SLOT_VERIFY + b, STEP_PART, VERIFY, "verify", round_bucket[b]);
        plan_slot(s, SLOT_CHOOSE + b, STEP_ROUND, CHOOSE, "choose", round_bucket[b]);
    }
    for (int b = 0; b < CONTEXT_BUCKETS; b++)
        plan_slot(s, SLOT_CONTEXT + b, STEP_CONTEXT, WHOLE, "context", context_bucket[b]);
    status st = pool_open(&s->pool, lanes, e);
    if (st == OK) st = take_params(s, e);
    step_place where = { s->table, s->pool, s->on, s->at, s->params, false };
    for (int at = 0; at < STEPS_COUNT && st == OK; at++) {
        slot *sl = &s->slot[at];
        if (sl->kind == STEP_CONTEXT && !d) continue;
        where.fast = is_fast(sl);
        st = step_open(&sl->step, sl->name, sl->part == WHOLE ? describe : describe_part, sl, &where, e);
    }
    if (st != OK) {
        steps_close(s);
        return st;
    }
    *out = s;
    return OK;
}

void steps_close(steps *s) {
    if (!s) return;
    for (int i = 0; i < STEPS_COUNT; i++) step_close(s->slot[i].step);
    pool_close(s->pool);
    pick_lists_deinit(&s->lists);
    if (s->on) {
        lists_mirror_close(&s->mirror);
        memory_free(s->on, s->at, 0);
        device_free_shared(s->on, s->params);
    } else if (s->params) {
        block_free(s->params, (size_t)((char *)(s->mask + (int64_t)NODES_MAX * s->mask_words) - (char *)s->params));
    }
    free(s);
}

/* ---- running ---- */

/* What was emitted or read; a device's lists hear of it with the next step. */
static void count(steps *s, const int32_t *tokens, int32_t n) {
    pick_lists_count(&s->lists, tokens, n);
    if (s->on) lists_mirror_add(&s->mirror, tokens, n);
}

/* A device that failed leaves no record: an end token in place of one lets whatever waits for the end of an answer see
 * one, no context row is missing behind it, so that nobody goes on to ask for them, and steps_status tells why. */
static void finish(steps *s) {
    step_params *p = s->params;
    if (p->out.seq == p->in.seq) return;
    CHECK(steps_status(s, NULL) != OK);
    int32_t base = p->out.base + 1;
    p->out = (step_out){ .n = 1,
                         .token = { s->lists.n_end ? s->lists.end[0] : 0 },
                         .base = base,
                         .rows = 1,
                         .ctx_len = base,
                         .seq = p->in.seq };
}

static void start(steps *s, int at) {
    s->params->in.seq++;
    if (s->on) lists_mirror_send(&s->mirror, &s->lists, &s->params->in);
    if (s->eager)
        step_run_eager(s->slot[at].step);
    else
        step_start(s->slot[at].step);
}

static const step_out *end(steps *s, int at) {
    if (!s->eager) step_finish(s->slot[at].step);
    finish(s);
    count(s, s->params->out.token, s->params->out.n);
    s->params->in.base = -1;
    return &s->params->out;
}

static const step_out *run(steps *s, int at) {
    start(s, at);
    return end(s, at);
}

/* A step that chooses in one row. */
static const step_out *run_row(steps *s, int at) {
    s->params->in.masked = s->fill != NULL;
    if (s->fill) s->fill(s->fill_arg, NULL, 1, s->mask, s->mask_words);
    return run(s, at);
}

/* The masks are made while the device verifies; the host's own lanes come behind. */
static const step_out *run_round(steps *s, int b) {
    s->params->in.masked = s->fill != NULL;
    if (!s->fill) return run(s, SLOT_ROUND + b);
    const step_out *tree = run(s, SLOT_PROPOSE + b);
    if (steps_status(s, NULL) != OK) return tree;
    start(s, SLOT_VERIFY + b);
    s->fill(s->fill_arg, tree, tree->drafted + 1, s->mask, s->mask_words);
    end(s, SLOT_VERIFY + b);
    return run(s, SLOT_CHOOSE + b);
}

void steps_seek(steps *s, int32_t base, int32_t anchor, int32_t ctx_len) {
    step_in *in = &s->params->in;
    in->base = base, in->anchor = anchor, in->ctx_len = ctx_len;
}

void steps_set_pick(steps *s, const pick_params *pick) {
    s->params->in.pick = *pick;
    s->params->in.logprobs = -1;
    pick_lists_clear(steps_lists(s));
}

void steps_set_mask(steps *s, mask_fill *fill, void *arg) { s->fill = fill, s->fill_arg = arg; }

void steps_set_logprobs(steps *s, int32_t n) { s->params->in.logprobs = n; }

pick_lists *steps_lists(steps *s) {
    s->mirror.stale = true;
    return &s->lists;
}

status steps_status(const steps *s, err *e) { return s->on ? device_status(s->on, e) : OK; }

int steps_prefill_index(int32_t n) { return SLOT_PREFILL + bucket_find(prefill_bucket, PREFILL_BUCKETS, n); }

const step_out *steps_prefill(steps *s, const int32_t *tokens, int32_t n, bool want_head) {
    step_in *in = &s->params->in;
    in->rows = n;
    in->want_head = want_head;
    memcpy(in->tokens, tokens, (size_t)n * sizeof *tokens);
    count(s, tokens, n);
    return want_head ? run_row(s, steps_prefill_index(n)) : run(s, steps_prefill_index(n));
}

const step_out *steps_prompt(steps *s, const pick_params *pick, const int32_t *tokens, size_t n) {
    CHECK(n >= 1);
    steps_seek(s, 0, 0, 0);
    steps_set_pick(s, pick);
    for (; n > PREFILL_MAX; tokens += PREFILL_MAX, n -= PREFILL_MAX) steps_prefill(s, tokens, PREFILL_MAX, false);
    return steps_prefill(s, tokens, (int32_t)n, true);
}

const step_out *steps_plain(steps *s) { return run_row(s, SLOT_PLAIN); }

int32_t steps_len(const steps *s) {
    const step_params *p = s->params;
    return p->in.base >= 0 ? p->in.base : p->out.base;
}

int32_t steps_ctx_len(const steps *s) {
    const step_params *p = s->params;
    return p->in.base >= 0 ? p->in.ctx_len : p->out.ctx_len;
}

void steps_skip(steps *s, const int32_t *tokens, int32_t n) { count(s, tokens, n); }

int32_t steps_lag(const steps *s) {
    if (!s->d) return 0;
    int32_t base = steps_len(s), have = steps_ctx_len(s);
    int32_t oldest = base - s->d->cfg.window;
    return base - (have > oldest ? have : oldest);
}

void steps_catch_up(steps *s) {
    for (int32_t n; (n = steps_lag(s)) > 0;) {
        if (n > PREFILL_MAX) n = PREFILL_MAX;
        s->params->in.rows = n;
        run(s, SLOT_CONTEXT + bucket_find(context_bucket, CONTEXT_BUCKETS, n));
    }
}

const step_out *steps_speculate(steps *s, const round_shape *r) {
    static const float FREE[NODES_MAX + 1];
    step_in *in = &s->params->in;
    CHECK(r->nodes >= 0 && r->nodes < NODES_MAX && r->n_given <= DEPTH_MAX && (r->depth == 0 || s->d));
    int b = bucket_find(round_bucket, ROUND_BUCKETS, (r->nodes > r->depth ? r->nodes : r->depth) + 1);
    if (r->depth && steps_lag(s) > round_bucket[b]) steps_catch_up(s);
    in->draft_rows = r->depth + 1;
    in->branch = r->branch;
    in->nodes_max = r->nodes, in->nodes_min = r->nodes_min;
    in->n_proposals = r->n_given;
    for (int32_t i = 0; i < r->n_given; i++) {
        in->proposals[i] = r->given[i];
        in->proposal_logp[i] = r->given_logp ? r->given_logp[i] : 0.0f;
    }
    memcpy(in->cost, r->cost ? r->cost : FREE, sizeof in->cost);
    in->calibrated = r->conf != NULL;
    if (r->conf) memcpy(in->conf, r->conf, sizeof in->conf);
    in->min_logp = r->min_p > 0.0f ? logf(r->min_p) : -INFINITY;
    return run_round(s, b);
}

const step_out *steps_tree(steps *s, int32_t depth, int32_t nodes, int32_t branch) {
    return steps_speculate(s, &(round_shape){ .depth = depth, .branch = branch, .nodes = nodes });
}

const step_out *steps_round(steps *s, int32_t k) { return steps_tree(s, k, k, 1); }

const step_out *steps_verify(steps *s, const int32_t *proposals, int32_t n) {
    return steps_speculate(s, &(round_shape){ .branch = 1, .nodes = n, .given = proposals, .n_given = n });
}

/* ---- doors for tests ---- */

step_params *steps_params(steps *s) { return s->params; }
step *steps_get(steps *s, int i) { return s->slot[i].step; }
const draft *steps_draft(const steps *s) { return s->d; }
pool *steps_pool(steps *s) { return s->pool; }
op_sink steps_eager(const steps *s) {
    if (s->on) return (op_sink){ .kind = SINK_DEVICE, .device = s->on };
    return (op_sink){ .kind = SINK_EAGER, .table = s->table, .pool = s->pool };
}
view steps_logits(const steps *s, int i) { return s->slot[i].logits; }
view steps_prefilled(const steps *s, int32_t n) { return s->slot[steps_prefill_index(n)].residual; }
view steps_draft_logits(const steps *s, int i) { return s->slot[i].draft_logits; }
void steps_set_lanes(steps *s, step_lanes mode) {
    for (int i = 0; i < STEPS_COUNT; i++)
        if (s->slot[i].kind == STEP_PLAIN || s->slot[i].kind == STEP_ROUND) step_set_lanes(s->slot[i].step, mode);
}
void steps_set_eager(steps *s, bool eager) { s->eager = eager; }
