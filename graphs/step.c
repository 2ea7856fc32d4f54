#include "graphs/step.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "graphs/pace.h"

#include <stdlib.h>

const int32_t prefill_bucket[PREFILL_BUCKETS] = { 32, PREFILL_MAX };
const int32_t round_bucket[ROUND_BUCKETS] = { 8, 16, NODES_MAX };
const int32_t context_bucket[CONTEXT_BUCKETS] = { 32, PREFILL_MAX };

struct step {
    const char *name;
    step_describe *describe;
    void *ctx;
    op_fn *const *table;
    pool *pool;
    plan *plan;
    work work;
    size_t bytes;
    bool best; /* LANES_BEST, and there is a choice */
    pace pace;
};

int bucket_find(const int32_t *list, int n_list, int32_t rows) {
    int i = 0;
    while (i < n_list && list[i] < rows) i++;
    CHECK(i < n_list);
    return i;
}

status step_open(step **out, const char *name, step_describe *describe, void *ctx, op_fn *const *table, pool *lanes,
                 err *e) {
    op_sink measure = { .kind = SINK_MEASURE, .lanes = pool_lanes(lanes) };
    work empty = { 0 };
    describe(ctx, &measure, &empty);
    TRY(pool_reserve(lanes, measure.lane_scratch, e));
    step *s = xalloc(sizeof *s);
    *s = (step){ .name = name, .describe = describe, .ctx = ctx, .table = table, .pool = lanes, .bytes = empty.used };
    void *block;
    status st = try_block(&block, s->bytes, "activations of a step", e);
    if (st != OK) {
        free(s);
        return st;
    }
    s->plan = plan_new();
    s->work.base = block;
    op_sink record = { .kind = SINK_RECORD, .plan = s->plan };
    describe(ctx, &record, &s->work);
    CHECK(s->work.used == s->bytes);
    *out = s;
    return OK;
}

void step_close(step *s) {
    if (!s) return;
    plan_free(s->plan);
    block_free(s->work.base, s->bytes);
    free(s);
}

/* Trying one lane costs about lanes times a replay: with many lanes that is more than a stalled one is worth. */
enum { BEST_LANES_MAX = 4 };

void step_set_lanes(step *s, step_lanes mode) {
    int lanes = pool_lanes(s->pool);
    s->best = mode == LANES_BEST && lanes > 1 && lanes <= BEST_LANES_MAX;
}

void step_replay(step *s) {
    if (!s->best) {
        plan_replay(s->plan, s->table, s->pool, false);
        return;
    }
    bool alone = pace_choose(&s->pace);
    int64_t start = clock_ns();
    plan_replay(s->plan, s->table, s->pool, alone);
    pace_measured(&s->pace, alone, clock_ns() - start);
}

void step_run_eager(step *s) {
    op_sink eager = { .kind = SINK_EAGER, .table = s->table, .pool = s->pool };
    work w = { .base = s->work.base };
    s->describe(s->ctx, &eager, &w);
}

const char *step_name(const step *s) { return s->name; }
const plan *step_plan(const step *s) { return s->plan; }
const work *step_work(const step *s) { return &s->work; }
