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

constexpr int WARP = 32;

/* The grid of one launch. */
typedef struct launch_shape {
    uint32_t x, y;    /* blocks */
    uint32_t threads; /* of a block, a multiple of WARP */
    uint32_t shared;  /* bytes of a block */
} launch_shape;

/* Where launches go. overlap: a kernel may start while the one before it still runs; it then waits with grid_wait()
 * before it touches anything that the step writes (programmatic dependent launch, from compute capability 9.0 on). */
typedef struct launch_to {
    cudaStream_t stream;
    bool overlap;
} launch_to;

/* launch(to, shape, kernel, arguments ...): by value, as many as the kernel has parameters. The kernel's text up to the
 * first comma is its name where launches are counted. A failed launch stays in the runtime's error state, where the
 * step's end looks. */
#define launch(to, shape, kernel, ...) launch_named(to, shape, #kernel, kernel, ##__VA_ARGS__)

constexpr uint32_t SHARED_USUAL = 48 * 1024; /* more than this has to be asked for by name */

template <class... P, class... A>
static void launch_named(const launch_to &to, const launch_shape &g, const char *name, void (*kernel)(P...),
                         A... args) {
    if (g.shared > SHARED_USUAL)
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)g.shared);
#ifdef SKIFF_SIMT
    simt_launch(to.stream, name, g.x, g.y, g.threads, g.shared, to.overlap, kernel, args...);
#else
    (void)name;
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
    cudaLaunchKernelEx(&c, kernel, static_cast<P>(args)...);
#endif
}
#endif
