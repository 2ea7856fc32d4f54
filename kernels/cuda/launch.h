/* kernels/cuda/launch.h - how kernels are declared, launched and counted. The only product file that knows that there
 * is another place to run than a GPU: with SKIFF_SIMT set to the header of a shim, the same sources are compiled as C++
 * and their threads run as fibers (tests/simt).
 *
 * A kernel is a __global__ function that takes its arguments by value and finds shared memory through
 * shared_memory(); nothing else of it is declared per launch. launch() is the only way to start one. */
#ifndef KERNELS_CUDA_LAUNCH_H
#define KERNELS_CUDA_LAUNCH_H
#include <stdint.h>

#ifdef SKIFF_SIMT
#include SKIFF_SIMT
#else
#include <cuda_runtime.h>
#endif

enum { WARP = 32 };

/* The grid of one launch. */
typedef struct launch_shape {
    uint32_t x, y;   /* blocks */
    uint32_t threads; /* of a block, a multiple of WARP */
    uint32_t shared; /* bytes of a block */
} launch_shape;

/* Where launches go. overlap: a kernel may start while the one before it still runs; it then waits with grid_wait()
 * before it touches anything that the step writes (programmatic dependent launch, from compute capability 9.0 on). */
typedef struct launch_to {
    cudaStream_t stream;
    bool overlap;
} launch_to;

#ifdef SKIFF_SIMT

#define launch(to, shape, kernel, ...)                                                                                 \
    simt_launch((to).stream, #kernel, (shape).x, (shape).y, (shape).threads, (shape).shared, (to).overlap, kernel,      \
                ##__VA_ARGS__)

#else

template <class... P, class... A>
static void launch(const launch_to &to, const launch_shape &g, void (*kernel)(P...), A... args) {
    cudaLaunchAttribute attr = {};
    attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = dim3(g.x, g.y);
    c.blockDim = dim3(g.threads);
    c.dynamicSmemBytes = g.shared;
    c.stream = to.stream;
    c.attrs = &attr;
    c.numAttrs = to.overlap ? 1 : 0;
    /* A failed launch stays in the runtime's error state, where the step's end looks (device.cu). */
    cudaLaunchKernelEx(&c, kernel, static_cast<P>(args)...);
}

#endif

/* Blocks of a kernel may have more than 48 KiB of shared memory when it was asked for by name before the launch. */
template <class... P> static void launch_allow_shared(void (*kernel)(P...), uint32_t bytes) {
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}
#endif
