/* graphs/sink.h - where the ops of a description go. */
#ifndef GRAPHS_SINK_H
#define GRAPHS_SINK_H
#include "graphs/plan.h"
#include "kernels/device.h"
#include "kernels/dispatch.h"

typedef enum sink_kind {
    SINK_MEASURE, /* nowhere: only the activations, and what ops need to work, are counted */
    SINK_EAGER,   /* each op runs when it is put */
    SINK_RECORD,  /* each op becomes an entry of a plan */
    SINK_DEVICE   /* each op goes to the device: runs, or becomes part of what is captured */
} sink_kind;

struct op_sink {
    sink_kind kind;
    op_fn *const *table; /* eager */
    pool *pool;          /* eager */
    plan *plan;          /* record */
    device *device;      /* device; measure: NULL for the host */
    size_t scratch;      /* measure: the most that any op needs, of each lane or of the device */
    int lanes;           /* measure */
    uint32_t skip;       /* bit of an op_id: leave such ops out; 0 but for measuring some alone */
};
#endif
