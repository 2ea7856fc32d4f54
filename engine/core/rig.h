/* engine/core/rig.h - a pair of true shapes on a device without files: weights are numbers of a seed. For measuring
 * what single ops and whole steps take; what it computes means nothing.
 *
 * One thread. A failure of the device ends whatever was measured with ERR_DEVICE. */
#ifndef ENGINE_CORE_RIG_H
#define ENGINE_CORE_RIG_H
#include "engine/core/shape.h"
#include "kernels/device.h"

typedef struct rig rig;

typedef struct rig_options {
    int32_t device, layers; /* layers 0: as many as fit into memory */
    int32_t context;        /* tokens behind every step */
    dtype kv;
} rig_options;

/* Laguna S 2.1 with its draft, or, where no GPU is but a simulation of one, a pair of the same kind that is tiny. */
status rig_open(rig **out, const rig_options *o, err *e);
void rig_close(rig *r); /* NULL is fine */

const model_shape *rig_shape(const rig *r); /* target.layers is what is there, of rig_layers */
int32_t rig_layers(const rig *r);
device_info rig_device(const rig *r);
size_t rig_weight_bytes(const rig *r); /* on the device */

/* Bytes a second that copying within the device's memory reads plus writes. */
status rig_copy_speed(rig *r, double *per_second, err *e);

/* All launches of one kind of op in a pass of the target, with each layer's own weights, so that no cache helps. */
typedef enum rig_op {
    RIG_LINEAR, /* into and out of attention, and down of dense layers */
    RIG_ATTN,
    RIG_GLU,
    RIG_ROUTE,
    RIG_MOE_UP,
    RIG_MOE_DOWN,
    RIG_HEAD,
    RIG_OPS
} rig_op;

typedef struct rig_time {
    const char *name;
    int32_t rows, launches;
    double bytes; /* that they have to read: weights, and keys and values */
    double us;    /* of one such pass, less what an empty one takes */
} rig_time;

/* rows: at most NODES_MAX. Experts are chosen at random, each row on its own. */
status rig_time_op(rig *r, rig_op op, int32_t rows, rig_time *out, err *e);

/* Medians as the host sees them, parameters there and result back. */
typedef struct rig_step {
    int32_t rows;     /* of the target's pass; 1: a plain step */
    int32_t launches; /* kernels */
    double ms, draft_ms;
    double bytes; /* of target and draft, as the byte model counts them */
} rig_step;

status rig_time_plain(rig *r, rig_step *out, err *e);
status rig_time_round(rig *r, int32_t rows, rig_step *out, err *e); /* rows - 1 proposals of the draft, a chain */
status rig_time_prefill(rig *r, double *ms, err *e);                /* PREFILL_MAX rows */
#endif
