/* kernels/cuda/async.cuh - copies from global to shared memory that a thread does not wait for (PTX ISA, cp.async).
 * A group is what a thread copied since its last copy_commit(). copy_wait<N>() waits until at most N of the thread's
 * groups are under way; other threads see the data after a block_sync() behind that. */
#ifndef KERNELS_CUDA_ASYNC_CUH
#define KERNELS_CUDA_ASYNC_CUH
#include "kernels/cuda/prims.cuh"

/* 16 bytes, both addresses aligned to 16. The shim counts the bytes with those of stream16(). */
__device__ __forceinline__ void copy16(void *shared, const void *global) {
#ifdef SKIFF_SIMT
    simt_copy_async(shared, global, 16);
#else
    uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
#endif
}
__device__ __forceinline__ void copy_commit() {
#ifdef SKIFF_SIMT
    simt_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> __device__ __forceinline__ void copy_wait() {
#ifdef SKIFF_SIMT
    simt_copy_wait(N);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
#endif
