/* Times of graphs and copies by the device's clock, and weights without files to measure with. */
#include "kernels/cuda/device_int.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/prims.cuh"

/* --- times --- */

typedef struct stopwatch {
    cudaEvent_t from, to;
} stopwatch;

static cudaError_t stopwatch_start(stopwatch *s, cudaStream_t stream) {
    *s = {};
    cudaError_t rc = cudaEventCreate(&s->from);
    if (rc == cudaSuccess) rc = cudaEventCreate(&s->to);
    return rc == cudaSuccess ? cudaEventRecord(s->from, stream) : rc;
}

/* rc: of what was measured. */
static cudaError_t stopwatch_stop(stopwatch *s, cudaStream_t stream, cudaError_t rc, double *ms) {
    float passed = 0.0f;
    if (rc == cudaSuccess) rc = cudaEventRecord(s->to, stream);
    if (rc == cudaSuccess) rc = cudaEventSynchronize(s->to);
    if (rc == cudaSuccess) rc = cudaEventElapsedTime(&passed, s->from, s->to);
    if (s->from) cudaEventDestroy(s->from);
    if (s->to) cudaEventDestroy(s->to);
    if (rc == cudaSuccess) *ms = (double)passed;
    return rc;
}

status device_time_graph(device *d, const device_graph *g, int32_t times, double *ms, err *e) {
    TRY(device_status(d, e));
    stopwatch s;
    cudaError_t rc = stopwatch_start(&s, d->stream);
    for (int32_t i = 0; i < times && rc == cudaSuccess; i++) rc = device_graph_launch(g, d->stream);
    rc = stopwatch_stop(&s, d->stream, rc, ms);
    device_check(d, rc, "timing a step");
    return device_status(d, e);
}

status device_copy_speed(device *d, size_t bytes, int32_t times, double *per_second, err *e) {
    void *from = nullptr, *to = nullptr;
    status st = device_alloc(d, &from, bytes, "memory to copy", e);
    if (st == OK) st = device_alloc(d, &to, bytes, "memory to copy to", e);
    if (st == OK) {
        stopwatch s;
        double ms = 0.0;
        device_copy(d, to, from, bytes); /* the first one is slower */
        cudaError_t rc = stopwatch_start(&s, d->stream);
        for (int32_t i = 0; i < times && rc == cudaSuccess; i++)
            rc = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, d->stream);
        device_check(d, stopwatch_stop(&s, d->stream, rc, &ms), "timing a copy");
        st = device_status(d, e);
        if (st == OK) *per_second = ms > 0.0 ? 2.0 * (double)bytes * times / (ms * 1e-3) : 0.0;
    }
    device_free(d, from);
    device_free(d, to);
    return st;
}

/* --- weights --- */

/* Any bits are MXFP4 numbers. Of BF16 numbers and of E8M0 scales exponents are chosen from four. */
typedef enum fill_kind { FILL_BF16, FILL_MXFP4, FILL_SCALE } fill_kind;

static __device__ __forceinline__ uint32_t fill_word(uint32_t seed, int64_t i, fill_kind kind) {
    uint32_t h = (seed ^ (uint32_t)(i >> 32) * 0x9E3779B9u) + (uint32_t)i * 0x85EBCA6Bu;
    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    h ^= h >> 16;
    if (kind == FILL_MXFP4) return h;
    if (kind == FILL_SCALE) return (h & 0x03030303u) + 0x77777777u; /* 2^-8 .. 2^-5 */
    return (h & 0x807F807Fu) | ((h >> 1 & 0x01800180u) + 0x3B803B80u);
}

/* Four words a thread. */
static __global__ void __launch_bounds__(256) fill_kernel(uint4 *to, int64_t n, uint32_t seed, fill_kind kind) {
    int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x, step = (int64_t)gridDim.x * 256;
    for (; i < n; i += step) {
        uint4 v;
        v.x = fill_word(seed, 4 * i, kind), v.y = fill_word(seed, 4 * i + 1, kind);
        v.z = fill_word(seed, 4 * i + 2, kind), v.w = fill_word(seed, 4 * i + 3, kind);
        to[i] = v;
    }
}

static status fill(device *d, void *to, size_t bytes, uint32_t seed, fill_kind kind, err *e) {
    int64_t pieces = (int64_t)(bytes / sizeof(uint4)), blocks = (pieces + 255) / 256;
    launch_shape g = { (uint32_t)(blocks < 8192 ? blocks : 8192), 1, 256, 0 };
    launch_to at = { d->stream, false };
    launch(at, g, fill_kernel, (uint4 *)to, pieces, seed, kind);
    cudaError_t rc = cudaGetLastError();
    return rc == cudaSuccess ? OK : device_error(rc, "making up weights", e);
}

status device_seed_bytes(device *d, const void **p, size_t bytes, uint32_t seed, err *e) {
    char *to = device_take(d, bytes);
    TRY(fill(d, to, device_aligned(bytes), seed, FILL_BF16, e));
    *p = to;
    return OK;
}

status device_seed_matrices(device *d, weight *w, int32_t n, uint32_t seed, err *e) {
    if (n == 0 || w[0].n == 0) return OK;
    bool narrow = w[0].type == DT_MXFP4;
    size_t bytes = device_aligned((size_t)pack_bytes(w[0].n, w[0].k, w[0].type)) * (size_t)n;
    size_t scales = device_aligned((size_t)pack_scale_bytes(w[0].n, w[0].k, w[0].type)) * (size_t)n;
    char *data = device_take(d, bytes), *scale = scales ? device_take(d, scales) : nullptr;
    TRY(fill(d, data, bytes, seed, narrow ? FILL_MXFP4 : FILL_BF16, e));
    if (scale) TRY(fill(d, scale, scales, seed + 1, FILL_SCALE, e));
    for (int32_t i = 0; i < n; i++) {
        CHECK(w[i].n == w[0].n && w[i].k == w[0].k && w[i].type == w[0].type);
        w[i].data = data + bytes / (size_t)n * (size_t)i;
        w[i].scale = scale ? (const uint8_t *)scale + scales / (size_t)n * (size_t)i : nullptr;
    }
    return OK;
}
