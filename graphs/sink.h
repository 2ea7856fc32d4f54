/* graphs/sink.h - where the ops of a description go. */
#ifndef GRAPHS_SINK_H
#define GRAPHS_SINK_H
#include "graphs/plan.h"
#include "kernels/dispatch.h"

typedef enum sink_kind {
    SINK_MEASURE, /* nowhere: only the activations are counted */
    SINK_EAGER,   /* each op runs when it is put */
    SINK_RECORD   /* each op becomes an entry of a plan */
} sink_kind;

struct op_sink {
    sink_kind kind;
    op_fn *const *table; /* eager */
    pool *pool;          /* eager */
    plan *plan;          /* record */
    size_t lane_scratch; /* measure: the most that any op needs */
    int lanes;           /* measure */
};
#endif
