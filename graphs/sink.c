#include "graphs/sink.h"

typedef struct one_op {
    op_fn *fn;
    const void *args;
} one_op;

static void run_one(void *arg, const lane *ln) {
    const one_op *o = arg;
    o->fn(o->args, ln);
}

void op_put(op_sink *s, op_id id, const void *args, size_t bytes) {
    CHECK(bytes == op_args_bytes(id));
    op_check(id, args);
    if (s->skip >> id & 1) return;
    switch (s->kind) {
    case SINK_MEASURE: {
        size_t need = s->device ? device_op_scratch(s->device, id, args) : op_lane_scratch(id, args, s->lanes);
        if (need > s->scratch) s->scratch = need;
        break;
    }
    case SINK_EAGER: pool_run(s->pool, false, run_one, &(one_op){ s->table[id], args }); break;
    case SINK_RECORD: plan_add(s->plan, id, args); break;
    case SINK_DEVICE: device_put_op(s->device, id, args); break;
    }
}
