/* kernels/device.h - a GPU as the rest of the program sees it: memory, copies, weights in its layout, and steps that
 * are captured once and launched as a whole.
 *
 * There is one implementation, kernels/cuda, and a program built without it (kernels/device_none.c) says so when a
 * device is asked for. Memory of the one or the other place: kernels/memory.h. One thread at a time: the one that
 * opened the device, or took it over.
 *
 * What fails while a step is prepared is a status. What fails later (a launch, a lost device) makes the device broken:
 * everything after that is ignored, and device_status tells the first failure. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H
#include <stdbool.h>
#include "engine/base/status.h"
#include "kernels/op.h"

typedef struct device_graph device_graph;

typedef struct device_info {
    char name[256];
    int32_t index, major, minor; /* compute capability */
    int32_t processors;          /* multiprocessors */
    int64_t memory, free;        /* bytes */
    int32_t driver, runtime;     /* CUDA versions, 1000 * major + 10 * minor */
    bool overlap;                /* a kernel may begin while the one before it ends */
    bool fits;                   /* this program has kernels for it */
    bool simulated;              /* no GPU: kernels run on the processor, and times say nothing */
} device_info;

C_BEGIN
/* What there is, at most `max`. ERR_DEVICE: built without, no driver, no device. */
status device_list(device_info *out, int32_t max, int32_t *n, err *e);
/* ERR_DEVICE, too, when the kernels were not compiled for such a device. */
status device_open(device **out, int32_t index, err *e);
void device_close(device *d); /* frees all its memory; NULL is fine */
/* The calling thread goes on with the device; the one that had it is done. */
void device_take_over(device *d);
device_info device_get_info(const device *d);
/* OK, or ERR_DEVICE with the first failure. */
status device_status(const device *d, err *e);

/* --- memory --- */

/* Zeroed. ERR_MEMORY names what it was for and what is free. */
status device_alloc(device *d, void **out, size_t bytes, const char *what, err *e);
void device_free(device *d, void *p); /* NULL is fine */
/* Memory of the host that the device reaches as well. Zeroed. */
status device_alloc_shared(device *d, void **out, size_t bytes, const char *what, err *e);
void device_free_shared(device *d, void *p);
/* kernels/memory.h */
void device_copy(device *d, void *to, const void *from, size_t bytes);
void device_wait(device *d);

/* --- weights --- */

/* How many bytes the next calls will put, for the whole model: taken at once. ERR_MEMORY. */
status device_reserve_weights(device *d, size_t bytes, err *e);
size_t device_matrix_bytes(const weight *w);
/* n matrices of one shape and type, laid down side by side; w[i] names them there afterwards. They are checked by what
 * the device finds: ERR_MODEL for a scale that its kernels cannot hold, ERR_DEVICE for a copy that came out different
 * (`verify`: every matrix is read back and compared). */
status device_put_matrices(device *d, weight *w, int32_t n, bool verify, err *e);
/* Plain bytes, aligned to 256; *p names them there afterwards. A NULL stays. */
status device_put_bytes(device *d, const void **p, size_t bytes, err *e);
/* Whether the kernels can run heads of this size in groups of `share`, such hidden sizes, so many experts. */
bool device_supports_heads(int32_t size, int32_t share);

/* --- steps --- */

/* Scratch that an op needs, and makes sure that there is as much for all ops from now on. */
size_t device_op_scratch(device *d, op_id id, const void *args);
status device_reserve_scratch(device *d, size_t bytes, err *e);

/* Fast products: dense products of many rows by cuBLASLt, whose order of additions is not that of the kernels here, so
 * the results have other bits. Opened once, ERR_DEVICE. While they are on, ops are measured and put in that form, and a
 * step must have been measured like that before it is captured; what cuBLASLt cannot do is an error of the capture. Off
 * at first. */
status device_open_fast(device *d, err *e);
bool device_has_fast(const device *d);
void device_set_fast(device *d, bool on); /* on: opened before */

/* Ops from the first call to the second are captured; the graph begins with a copy of host->in to at->in and ends with
 * the record at->out going to host->out (of shared memory). ERR_DEVICE. Without a capture ops run at once. */
status device_capture(device *d, step_params *at, step_params *host, err *e);
status device_end_capture(device *d, device_graph **out, err *e);
void device_free_graph(device_graph *g);
/* Eager runs of a step in the same form. */
void device_begin_eager(device *d, step_params *at, step_params *host);
void device_end_eager(device *d);
/* Two ops that belong together may become one launch: what is put last may still wait for the next. */
void device_put_op(device *d, op_id id, const void *args);
void device_flush(device *d);
/* One launch; and until host->out.seq is host->in.seq, or the device is broken. */
void device_start(device *d, const device_graph *g);
void device_finish(device *d, const device_graph *g);

/* Kernels of a graph. */
int32_t device_graph_launches(const device_graph *g);

/* --- measuring --- */

/* Milliseconds, by the device's clock, that `times` launches of a graph take behind each other. */
status device_time_graph(device *d, const device_graph *g, int32_t times, double *ms, err *e);
/* Bytes read plus bytes written in a second, when so many bytes are copied from one place of the device's memory to
 * another, `times` times. */
status device_copy_speed(device *d, size_t bytes, int32_t times, double *per_second, err *e);
/* As device_put_matrices and device_put_bytes, with numbers of a seed instead of those of a file: magnitudes between
 * 2^-8 and 2^-4 (MXFP4: up to 6 times that). Plain bytes are BF16 numbers. */
status device_seed_matrices(device *d, weight *w, int32_t n, uint32_t seed, err *e);
status device_seed_bytes(device *d, const void **p, size_t bytes, uint32_t seed, err *e);
C_END
#endif
