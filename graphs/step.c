#include "graphs/step.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "graphs/pace.h"
#include "kernels/memory.h"

#include <stdlib.h>

const int32_t prefill_bucket[PREFILL_BUCKETS] = { 32, PREFILL_MAX };
const int32_t round_bucket[ROUND_BUCKETS] = { 8, 16, NODES_MAX };
const int32_t context_bucket[CONTEXT_BUCKETS] = { 32, PREFILL_MAX };

struct step {
    const char *name;
    step_describe *describe;
    void *ctx;
    step_place where;
    plan *plan;          /* of the host */
    device_graph *graph; /* of a device */
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

static status record(step *s, err *e) {
    device *d = s->where.device;
    if (!d) {
        s->plan = plan_new();
        s->describe(s->ctx, &(op_sink){ .kind = SINK_RECORD, .plan = s->plan }, &s->work);
        return OK;
    }
    TRY(device_capture(d, s->where.at, s->where.host, e));
    s->describe(s->ctx, &(op_sink){ .kind = SINK_DEVICE, .device = d }, &s->work);
    return device_end_capture(d, &s->graph, e);
}

static status open_here(step **out, const char *name, step_describe *describe, void *ctx, const step_place *where,
                        err *e) {
    op_sink measure = { .kind = SINK_MEASURE,
                        .lanes = where->device ? 1 : pool_lanes(where->lanes),
                        .device = where->device };
    work empty = { 0 };
    describe(ctx, &measure, &empty);
    if (where->device)
        TRY(device_reserve_scratch(where->device, measure.scratch, e));
    else
        TRY(pool_reserve(where->lanes, measure.scratch, e));
    void *block;
    TRY(memory_alloc(where->device, &block, empty.used, "activations of a step", e));
    step *s = xalloc(sizeof *s);
    *s = (step){ .name = name, .describe = describe, .ctx = ctx, .where = *where, .bytes = empty.used };
    s->work.base = block;
    status st = record(s, e);
    if (st != OK) {
        step_close(s);
        return st;
    }
    CHECK(s->work.used == s->bytes);
    *out = s;
    return OK;
}

status step_open(step **out, const char *name, step_describe *describe, void *ctx, const step_place *where, err *e) {
    if (!where->fast) return open_here(out, name, describe, ctx, where, e);
    device_set_fast(where->device, true);
    status s = open_here(out, name, describe, ctx, where, e);
    device_set_fast(where->device, false);
    return s;
}

void step_close(step *s) {
    if (!s) return;
    plan_free(s->plan);
    if (s->graph) device_free_graph(s->graph);
    memory_free(s->where.device, s->work.base, s->bytes);
    free(s);
}

/* Trying one lane costs about lanes times a replay: with many lanes that is more than a stalled one is worth. */
enum { BEST_LANES_MAX = 4 };

void step_set_lanes(step *s, step_lanes mode) {
    int lanes = pool_lanes(s->where.lanes);
    s->best = mode == LANES_BEST && lanes > 1 && lanes <= BEST_LANES_MAX;
}

void step_replay(step *s) {
    step_start(s);
    step_finish(s);
}

void step_finish(step *s) {
    if (s->graph) device_finish(s->where.device, s->graph);
}

void step_start(step *s) {
    const step_place *w = &s->where;
    if (w->device) {
        device_start(w->device, s->graph);
        return;
    }
    if (!s->best) {
        plan_replay(s->plan, w->table, w->lanes, false);
        return;
    }
    bool alone = pace_choose(&s->pace);
    int64_t start = clock_ns();
    plan_replay(s->plan, w->table, w->lanes, alone);
    pace_measured(&s->pace, alone, clock_ns() - start);
}

void step_run_eager(step *s) {
    const step_place *to = &s->where;
    op_sink eager = { .kind = SINK_EAGER, .table = to->table, .pool = to->lanes };
    work w = { .base = s->work.base };
    if (!to->device) {
        s->describe(s->ctx, &eager, &w);
        return;
    }
    if (to->fast) device_set_fast(to->device, true);
    device_begin_eager(to->device, to->at, to->host);
    s->describe(s->ctx, &(op_sink){ .kind = SINK_DEVICE, .device = to->device }, &w);
    device_end_eager(to->device);
    if (to->fast) device_set_fast(to->device, false);
}

const char *step_name(const step *s) { return s->name; }
const plan *step_plan(const step *s) { return s->plan; }
int32_t step_launches(const step *s) { return s->graph ? device_graph_launches(s->graph) : 0; }
status step_time(const step *s, int32_t times, double *ms, err *e) {
    CHECK(s->graph);
    return device_time_graph(s->where.device, s->graph, times, ms, e);
}
const work *step_work(const step *s) { return &s->work; }
