#include "kernels/cuda/device_int.h"
#include "kernels/cuda/fast.h"

#include <stdio.h>
#include <string.h>

#include <new>

/* The oldest architecture that `make cuda` compiles for. */
enum { MAJOR_MIN = 8 };

status device_error(cudaError_t rc, const char *doing, err *e) {
    cudaGetLastError(); /* told here: what asks after later launches must not find it again */
    return err_set(e, rc == cudaErrorMemoryAllocation ? ERR_MEMORY : ERR_DEVICE, "%s: %s (%s)", doing,
                   cudaGetErrorString(rc), cudaGetErrorName(rc));
}

bool device_check(device *d, cudaError_t rc, const char *doing) {
    if (rc == cudaSuccess) return true;
    if (d->broken == cudaSuccess) d->broken = rc, d->doing = doing;
    return false;
}

status device_status(const device *d, err *e) {
    if (d->broken == cudaSuccess) return OK;
    return err_set(e, ERR_DEVICE, "%s failed while %s: %s (%s)", d->info.name, d->doing, cudaGetErrorString(d->broken),
                   cudaGetErrorName(d->broken));
}

/* --- what there is --- */

static status count_devices(int *n, err *e) {
    cudaError_t rc = cudaGetDeviceCount(n);
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    if (rc == cudaErrorInsufficientDriver)
        return err_set(e, ERR_DEVICE,
                       "no NVIDIA driver that this program can use: install one for CUDA %d.%d or later, or run with "
                       "--backend cpu",
                       runtime / 1000, runtime / 10 % 100);
    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && *n == 0))
        return err_set(e, ERR_DEVICE,
                       "no NVIDIA GPU was found: is one visible to this process? Run with --backend cpu");
    if (rc != cudaSuccess) return device_error(rc, "looking for NVIDIA GPUs", e);
    return OK;
}

/* Whether the current device can run what this program was compiled for. */
#ifdef SKIFF_SIMT
enum { SIMULATED = 1 };
static bool kernels_fit(void) { return true; }
#else
enum { SIMULATED = 0 };
static __global__ void probe_kernel(void) {}

static bool kernels_fit(void) {
    cudaFuncAttributes a;
    bool fit = cudaFuncGetAttributes(&a, (const void *)probe_kernel) == cudaSuccess;
    if (!fit) cudaGetLastError();
    return fit;
}
#endif

static status read_info(int index, device_info *out, err *e) {
    cudaDeviceProp p;
    cudaError_t rc = cudaGetDeviceProperties(&p, index);
    if (rc != cudaSuccess) return device_error(rc, "reading the properties of a GPU", e);
    device_info i = {};
    snprintf(i.name, sizeof i.name, "%s", p.name);
    i.index = index, i.major = p.major, i.minor = p.minor;
    i.processors = p.multiProcessorCount;
    i.memory = (int64_t)p.totalGlobalMem;
    i.overlap = p.major >= 9;
    i.simulated = SIMULATED;
    cudaDriverGetVersion(&i.driver);
    cudaRuntimeGetVersion(&i.runtime);
    *out = i;
    return OK;
}

static int64_t free_bytes(void) {
    size_t free = 0, all = 0;
    return cudaMemGetInfo(&free, &all) == cudaSuccess ? (int64_t)free : 0;
}

status device_list(device_info *out, int32_t max, int32_t *n, err *e) {
    int found = 0;
    TRY(count_devices(&found, e));
    *n = 0;
    for (int i = 0; i < found && i < max; i++) {
        TRY(read_info(i, &out[i], e));
        if (cudaSetDevice(i) == cudaSuccess)
            out[i].free = free_bytes(), out[i].fits = kernels_fit();
        else
            cudaGetLastError(); /* used by someone else alone, say: no matter for the others */
        ++*n;
    }
    return OK;
}

device_info device_get_info(const device *d) {
    device_info i = d->info;
    i.free = free_bytes();
    return i;
}

/* --- life --- */

static cudaError_t open_stages(device *d) {
    cudaError_t rc = cudaSuccess;
    for (int i = 0; i < STAGES && rc == cudaSuccess; i++) {
        rc = cudaHostAlloc((void **)&d->stage[i].host, STAGE_BYTES, cudaHostAllocDefault);
        if (rc == cudaSuccess) rc = cudaMalloc((void **)&d->stage[i].raw, STAGE_BYTES);
        if (rc == cudaSuccess) rc = cudaEventCreateWithFlags(&d->stage[i].ready, cudaEventDisableTiming);
    }
    return rc;
}

static cudaError_t open_work(device *d) {
    cudaError_t rc = cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
    if (rc == cudaSuccess) rc = cudaMalloc((void **)&d->flags, 2 * sizeof *d->flags);
    if (rc == cudaSuccess) rc = cudaMalloc((void **)&d->work.counters, CUDA_COUNTERS * sizeof *d->work.counters);
    if (rc == cudaSuccess)
        rc = cudaMemsetAsync(d->work.counters, 0, CUDA_COUNTERS * sizeof *d->work.counters, d->stream);
    if (rc == cudaSuccess) rc = cudaMemsetAsync(d->flags, 0, 2 * sizeof *d->flags, d->stream);
    d->work.to.stream = d->stream;
    d->work.to.overlap = d->info.overlap;
    return rc;
}

status device_open(device **out, int32_t index, err *e) {
    int found = 0;
    device_info info;
    TRY(count_devices(&found, e));
    if (index < 0 || index >= found)
        return err_set(e, ERR_USAGE, "device %d: there %s %d, numbered from 0", index, found == 1 ? "is" : "are",
                       found);
    TRY(read_info(index, &info, e));
    if (info.major < MAJOR_MIN)
        return err_set(e, ERR_DEVICE, "%s has compute capability %d.%d; this program needs %d.0 or later", info.name,
                       info.major, info.minor, (int)MAJOR_MIN);
    cudaError_t rc = cudaSetDevice(index);
    if (rc != cudaSuccess) return device_error(rc, "opening the GPU", e);
    info.fits = kernels_fit();
    if (!info.fits)
        return err_set(e, ERR_DEVICE,
                       "this program has no kernels for %s with compute capability %d.%d: build it with "
                       "`make cuda CUDA_ARCH=sm_%d%d`",
                       info.name, info.major, info.minor, info.major, info.minor);
    device *d = new (std::nothrow) device();
    if (!d) return err_set(e, ERR_MEMORY, "no memory for a device");
    d->index = index, d->info = info;
    rc = open_work(d);
    if (rc == cudaSuccess) rc = open_stages(d);
    if (rc != cudaSuccess) {
        device_close(d);
        return device_error(rc, "preparing the GPU", e);
    }
    *out = d;
    return OK;
}

/* Which GPU is meant is a matter of the thread: without this it would be number 0. */
void device_take_over(device *d) { device_check(d, cudaSetDevice(d->index), "changing to another thread"); }

void device_close(device *d) {
    if (!d) return;
    if (d->stream) cudaStreamSynchronize(d->stream);
    for (int i = 0; i < STAGES; i++) {
        cudaFreeHost(d->stage[i].host);
        cudaFree(d->stage[i].raw);
        if (d->stage[i].ready) cudaEventDestroy(d->stage[i].ready);
    }
    fast_close(d->fast);
    cudaFree(d->weights);
    cudaFree(d->flags);
    cudaFree(d->work.counters);
    cudaFree(d->work.scratch);
    for (int32_t i = 0; i < d->n_retired; i++) cudaFree(d->retired[i]);
    if (d->stream) cudaStreamDestroy(d->stream);
    delete d;
}

/* --- memory --- */

static status no_room(cudaError_t rc, size_t bytes, const char *what, err *e) {
    int64_t free = free_bytes();
    cudaGetLastError(); /* not sticky: what follows may well succeed */
    if (rc != cudaErrorMemoryAllocation) return device_error(rc, what, e);
    return err_set(e, ERR_MEMORY, "%s needs %.1f MiB of the GPU's memory; %.1f MiB are free", what,
                   (double)bytes / 1048576.0, (double)free / 1048576.0);
}

status device_alloc(device *d, void **out, size_t bytes, const char *what, err *e) {
    void *p = nullptr;
    cudaError_t rc = cudaMalloc(&p, bytes ? bytes : 1);
    if (rc != cudaSuccess) return no_room(rc, bytes, what, e);
    rc = cudaMemsetAsync(p, 0, bytes, d->stream);
    if (rc != cudaSuccess) {
        cudaFree(p);
        return device_error(rc, what, e);
    }
    *out = p;
    return OK;
}

void device_free(device *d, void *p) {
    if (!p) return;
    device_wait(d);
    cudaFree(p);
}

status device_alloc_shared(device *, void **out, size_t bytes, const char *what, err *e) {
    void *p = nullptr;
    cudaError_t rc = cudaHostAlloc(&p, bytes, cudaHostAllocMapped);
    if (rc != cudaSuccess) return device_error(rc, what, e);
    memset(p, 0, bytes);
    *out = p;
    return OK;
}

void device_free_shared(device *d, void *p) {
    if (!p) return;
    device_wait(d);
    cudaFreeHost(p);
}

void device_copy(device *d, void *to, const void *from, size_t bytes) {
    device_check(d, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, d->stream), "copying memory");
}

void device_wait(device *d) { device_check(d, cudaStreamSynchronize(d->stream), "waiting for the GPU"); }
