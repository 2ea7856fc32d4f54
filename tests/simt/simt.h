/* tests/simt/simt.h - what kernels/cuda/launch.h includes instead of the CUDA headers: the words of a kernel, with
 * every CUDA thread a fiber of the calling thread.
 *
 * Blocks run one after the other. The threads of a block take turns: each runs until it must meet others (block_sync,
 * a warp collective) or ends. The order of lanes, warps and blocks is chosen by the test (simt_control.h), and a
 * correct kernel gives the same bits in all of them. What a GPU leaves undefined ends the process here, with the
 * kernel, the block, the threads and their lines: a meeting that some never reach, a copy nobody waits for, an address
 * that is not aligned, an access behind the block's shared memory.
 *
 * Only warp_sync and block_sync order memory, as on the device; ThreadSanitizer is told no more than that. */
#ifndef TESTS_SIMT_SIMT_H
#define TESTS_SIMT_SIMT_H
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>
#include "tests/simt/simt_runtime.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

static inline float2 make_float2(float x, float y) { return { x, y }; }
static inline float4 make_float4(float x, float y, float z, float w) { return { x, y, z, w }; }
static inline int2 make_int2(int x, int y) { return { x, y }; }
static inline int4 make_int4(int x, int y, int z, int w) { return { x, y, z, w }; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return { x, y }; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return { x, y, z, w }; }

/* The thread that runs, and its block. */
struct simt_place {
    uint3 index;
    dim3 dim, grid_dim;
    char *shared;
    uint64_t *streamed; /* bytes of the kernel */
};
struct simt_thread {
    uint3 index;
    struct simt_place *place;
};
extern struct simt_thread *simt_now;

#define threadIdx (simt_now->index)
#define blockIdx (simt_now->place->index)
#define blockDim (simt_now->place->dim)
#define gridDim (simt_now->place->grid_dim)

static inline char *simt_shared() { return simt_now->place->shared; }

/* Meeting points (simt_block.cpp). */
void simt_block_sync();
void simt_warp_sync();
uint64_t simt_exchange_xor(uint64_t v, int mask);
uint64_t simt_exchange_from(uint64_t v, int lane);
uint32_t simt_warp_vote(bool v);
void simt_mma_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2]);
void simt_grid_wait();
static inline void simt_grid_release() {}

template <class T> static __forceinline__ uint64_t simt_word_of(T v) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "shuffles carry up to 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &v, sizeof v);
    return word;
}
template <class T> static __forceinline__ T simt_of_word(uint64_t word) {
    T v;
    memcpy(&v, &word, sizeof v);
    return v;
}
template <class T> static __forceinline__ T simt_warp_xor(T v, int mask) {
    return simt_of_word<T>(simt_exchange_xor(simt_word_of(v), mask));
}
template <class T> static __forceinline__ T simt_warp_from(T v, int lane) {
    return simt_of_word<T>(simt_exchange_from(simt_word_of(v), lane));
}

/* Copies that happen at their wait (simt_copy.cpp). */
void simt_copy_async(void *shared, const void *global, uint32_t bytes);
void simt_copy_commit();
void simt_copy_wait(int groups);

[[noreturn]] void simt_misaligned(const void *p, uint32_t bytes);

/* A load that counts. */
template <class T> static __forceinline__ T simt_stream(const void *p) {
    if ((uintptr_t)p % sizeof(T)) simt_misaligned(p, sizeof(T));
#if defined(__SANITIZE_THREAD__) /* which must not take the count for the kernel's */
    __atomic_fetch_add(simt_now->place->streamed, sizeof(T), __ATOMIC_RELAXED);
#else
    *simt_now->place->streamed += sizeof(T);
#endif
    return *(const T *)p;
}

static inline void simt_fence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
static inline int32_t simt_atomic_add(int32_t *p, int32_t v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline uint32_t simt_atomic_or(uint32_t *p, uint32_t v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
static inline void simt_store_release(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
int64_t simt_clock_ns();

/* Byte i of the result is byte (selector >> 4 i) & 7 of a, b. */
static inline uint32_t simt_permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) d |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return d;
}

/* One launch. The argument image holds each parameter at its own alignment and zeros between and inside them, so that
 * equal arguments are equal bytes. */
enum { SIMT_ARGS_MAX = 32764 };
struct simt_launch_args {
    const char *name; /* lives as long as the program */
    void (*call)(const void *kernel, const unsigned char *image);
    const void *kernel;
    const unsigned char *image;
    uint32_t image_bytes;
    uint32_t x, y, threads, shared;
    bool overlap;
};
void simt_launch_image(cudaStream_t stream, const simt_launch_args *a);

template <class... P> struct simt_image {
    static constexpr size_t at(size_t index) {
        size_t align[] = { alignof(P)..., 1 }, size[] = { sizeof(P)..., 0 }, pos = 0;
        for (size_t i = 0;; i++) {
            pos = (pos + align[i] - 1) / align[i] * align[i];
            if (i == index) return pos;
            pos += size[i];
        }
    }
    static constexpr size_t bytes = at(sizeof...(P));
    static_assert(bytes <= SIMT_ARGS_MAX, "a kernel takes at most 32,764 bytes of arguments");
    static_assert((std::is_trivially_copyable<P>::value && ...), "arguments are copied as bytes");

    template <class T> static void put(unsigned char *to, T v) {
        if constexpr (std::is_class<T>::value) __builtin_clear_padding(&v);
        memcpy(to, &v, sizeof v);
    }
    template <size_t... I, class... A> static void fill(unsigned char *image, std::index_sequence<I...>, A... args) {
        (put<P>(image + at(I), static_cast<P>(args)), ...);
        (void)image;
    }
    template <size_t... I>
    static void apply(void (*kernel)(P...), const unsigned char *image, std::index_sequence<I...>) {
        kernel(*(const P *)(image + at(I))...);
        (void)image;
    }
    static void call(const void *kernel, const unsigned char *image) {
        apply((void (*)(P...))kernel, image, std::index_sequence_for<P...>{});
    }
};

template <class... P, class... A>
static void simt_launch(cudaStream_t stream, const char *name, uint32_t x, uint32_t y, uint32_t threads,
                        uint32_t shared, bool overlap, void (*kernel)(P...), A... args) {
    static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
    using form = simt_image<P...>;
    alignas(16) unsigned char image[form::bytes + 1] = {};
    form::fill(image, std::index_sequence_for<P...>{}, args...);
    simt_launch_args a = { name,   form::call, (const void *)kernel, image, (uint32_t)form::bytes, x, y, threads,
                           shared, overlap };
    simt_launch_image(stream, &a);
}
#endif
