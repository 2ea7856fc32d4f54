/* kernels/cuda/work.h - what a launcher gets besides the op's arguments. */
#ifndef KERNELS_CUDA_WORK_H
#define KERNELS_CUDA_WORK_H
#include "kernels/cuda/launch.h"
#include "kernels/op.h"

enum { CUDA_COUNTERS = 1024 };

typedef struct fast_products fast_products; /* fast.h */

/* All addresses are device addresses. */
typedef struct cuda_work {
    launch_to to;
    int32_t *counters; /* [CUDA_COUNTERS]; all 0 before and after every kernel */
    char *scratch;     /* contents do not survive a kernel */
    size_t scratch_bytes;
    step_out *host_out;  /* the host's result record, mapped */
    fast_products *fast; /* NULL: every product by the kernels of decoding */
} cuda_work;
#endif
