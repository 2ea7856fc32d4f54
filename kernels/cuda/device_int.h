/* kernels/cuda/device_int.h - the device's own state, for the sources that implement kernels/device.h. */
#ifndef KERNELS_CUDA_DEVICE_INT_H
#define KERNELS_CUDA_DEVICE_INT_H
#include "kernels/cuda/work.h"
#include "kernels/device.h"

/* Two buffers a side: one is filled by the host while the other one is copied and packed. */
constexpr int STAGES = 2, RETIRED_MAX = 32;
constexpr size_t STAGE_BYTES = 32 << 20, PUT_ALIGN = 256;

typedef struct staging {
    char *host, *raw;  /* pinned; on the device */
    cudaEvent_t ready; /* what was sent from here has been packed */
} staging;

struct device {
    int32_t index;
    device_info info;
    cudaStream_t stream;
    cudaError_t broken; /* the first failure behind open */
    const char *doing;  /* what failed then */

    char *weights; /* the block of device_reserve_weights */
    size_t weights_bytes, weights_used;
    staging stage[STAGES];
    int32_t at_stage;
    int32_t *flags; /* [2] on the device: what packing found */

    cuda_work work;
    fast_products *fast;        /* NULL: not opened; work.fast is this while it is on */
    char *retired[RETIRED_MAX]; /* scratch that was too small for later steps; graphs still name it */
    int32_t n_retired;
    step_params *at, *host; /* of the step that is being recorded or run op by op */
    bool pending;           /* an op that waits for the next one */
    op_id pending_id;
    alignas(16) char pending_args[2048];
};

/* A failure outside of any status: the device is broken from here on. Returns whether all was well. */
bool device_check(device *d, cudaError_t rc, const char *doing);
/* Of the block of device_reserve_weights; a multiple of PUT_ALIGN is taken. */
size_t device_aligned(size_t bytes);
char *device_take(device *d, size_t bytes);
/* Into a stream; nothing waits. */
cudaError_t device_graph_launch(const device_graph *g, cudaStream_t stream);
status device_error(cudaError_t rc, const char *doing, err *e);
#endif
