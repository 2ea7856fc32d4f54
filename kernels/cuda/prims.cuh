/* kernels/cuda/prims.cuh - what a kernel may ask of its block, its warp and the memory system. Every function has two
 * bodies: the instruction, and for the shim a model of it. Collectives are called by all threads of a warp, or of a
 * block where the name says so. */
#ifndef KERNELS_CUDA_PRIMS_CUH
#define KERNELS_CUDA_PRIMS_CUH
#include "kernels/cuda/launch.h"

__device__ __forceinline__ int lane_id() { return (int)(threadIdx.x % WARP); }
__device__ __forceinline__ int warp_id() { return (int)(threadIdx.x / WARP); }

/* In front of a loop over an array that shall lie in registers. */
#ifdef SKIFF_SIMT
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif

#ifdef SKIFF_SIMT

static inline char *shared_memory() { return simt_shared(); }
static inline void block_sync() { simt_block_sync(); }
static inline void warp_sync() { simt_warp_sync(); }
template <class T> static inline T warp_xor(T v, int mask) { return simt_warp_xor(v, mask); }
template <class T> static inline T warp_from(T v, int lane) { return simt_warp_from(v, lane); }
static inline uint32_t warp_vote(bool v) { return simt_warp_vote(v); }
static inline uint4 stream16(const void *p) { return simt_stream<uint4>(p); }
static inline uint2 stream8(const void *p) { return simt_stream<uint2>(p); }
static inline uint32_t stream4(const void *p) { return simt_stream<uint32_t>(p); }
static inline void prefetch_l2(const void *) {}
static inline void grid_wait() { simt_grid_wait(); }
static inline void grid_release() { simt_grid_release(); }
static inline void fence_device() { simt_fence(); }
static inline void fence_system() { simt_fence(); }
static inline int32_t atomic_add(int32_t *p, int32_t v) { return simt_atomic_add(p, v); }
static inline uint64_t atomic_add(uint64_t *p, uint64_t v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline uint32_t atomic_or(uint32_t *p, uint32_t v) { return simt_atomic_or(p, v); }
static inline void store_system(uint32_t *p, uint32_t v) { simt_store_release(p, v); }
static inline int64_t clock_device_ns() { return simt_clock_ns(); }
static inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) { return simt_permute(a, b, selector); }

#else

/* The block's shared memory: launch_shape.shared bytes, 16-byte aligned. */
__device__ __forceinline__ char *shared_memory() {
    extern __shared__ __align__(16) char skiff_shared[];
    return skiff_shared;
}

__device__ __forceinline__ void block_sync() { __syncthreads(); }
__device__ __forceinline__ void warp_sync() { __syncwarp(); }
/* v of the lane whose number differs in the bits of mask. */
template <class T> __device__ __forceinline__ T warp_xor(T v, int mask) {
    return __shfl_xor_sync(0xFFFFFFFFu, v, mask);
}
template <class T> __device__ __forceinline__ T warp_from(T v, int lane) { return __shfl_sync(0xFFFFFFFFu, v, lane); }
__device__ __forceinline__ uint32_t warp_vote(bool v) { return __ballot_sync(0xFFFFFFFFu, v); }

/* Loads of what is constant during the step and used once: weights. They pass by the first-level cache, and the shim
 * counts their bytes. Aligned to their size. */
__device__ __forceinline__ uint4 stream16(const void *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
__device__ __forceinline__ uint2 stream8(const void *p) {
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
__device__ __forceinline__ uint32_t stream4(const void *p) {
    uint32_t v;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
__device__ __forceinline__ void prefetch_l2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/* Programmatic dependent launch. grid_wait: everything that earlier kernels wrote is there. grid_release: the next
 * kernel may start its blocks as soon as all blocks of this one have said so. */
__device__ __forceinline__ void grid_wait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void grid_release() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void fence_device() { __threadfence(); }
__device__ __forceinline__ void fence_system() { __threadfence_system(); }
__device__ __forceinline__ int32_t atomic_add(int32_t *p, int32_t v) { return atomicAdd(p, v); }
__device__ __forceinline__ uint64_t atomic_add(uint64_t *p, uint64_t v) {
    return atomicAdd((unsigned long long *)p, (unsigned long long)v);
}
__device__ __forceinline__ uint32_t atomic_or(uint32_t *p, uint32_t v) { return atomicOr(p, v); }
/* Host memory: what was written before is there when the host sees v. */
__device__ __forceinline__ void store_system(uint32_t *p, uint32_t v) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ int64_t clock_device_ns() {
    int64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
__device__ __forceinline__ uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector) {
    return __byte_perm(a, b, selector);
}

#endif

__device__ __forceinline__ int bit_count(uint32_t v) {
#ifdef SKIFF_SIMT
    return __builtin_popcount(v);
#else
    return __popc(v);
#endif
}
/* Number of the lowest set bit; v is not 0. */
__device__ __forceinline__ int lowest_bit(uint32_t v) {
#ifdef SKIFF_SIMT
    return __builtin_ctz(v);
#else
    return __ffs((int)v) - 1;
#endif
}

/* Ordinary loads of 16 and 8 bytes, aligned to that: activations, and whatever a kernel before wrote. */
__device__ __forceinline__ uint4 load16(const void *p) { return *(const uint4 *)p; }
__device__ __forceinline__ uint2 load8(const void *p) { return *(const uint2 *)p; }

/* Sums and maxima over a warp in one fixed order; every lane gets the result. */
__device__ __forceinline__ float warp_sum(float v) {
    for (int m = WARP / 2; m; m /= 2) v += warp_xor(v, m);
    return v;
}
template <class T> __device__ __forceinline__ T warp_max(T v) {
    for (int m = WARP / 2; m; m /= 2) {
        T w = warp_xor(v, m);
        v = w > v ? w : v;
    }
    return v;
}

/* True in all threads of the block that comes last of `blocks` blocks, and everything the others wrote before is
 * visible to it. The counter is 0 before and after. `flag` is one int of shared memory. */
__device__ __forceinline__ bool last_block(int32_t *counter, int32_t blocks, int32_t *flag) {
    fence_device();
    block_sync();
    if (threadIdx.x == 0) *flag = atomic_add(counter, 1) == blocks - 1;
    block_sync();
    bool last = *flag != 0;
    if (last) {
        fence_device();
        if (threadIdx.x == 0) *counter = 0;
    }
    return last;
}
#endif
