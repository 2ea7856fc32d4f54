/* tests/simt/simt_memory.cpp - device memory: one range of addresses, which only kernels and copies can touch. */
#include <sys/mman.h>
#include <stdlib.h>
#include <map>
#include "tests/simt/simt_int.h"

namespace simt {

static const size_t ALIGN = 256; /* of an allocation; there are as many bytes between two */
static const size_t HUGE_PAGE = 2 << 20;
static const size_t FILL_MAX = 64 << 20; /* of new memory gets 0xFF; the rest is what it was, or 0 */

static char *base;
static size_t range; /* bytes of addresses */
static size_t high;  /* bytes from base that were ever in use */
static size_t in_use;
static std::map<size_t, size_t> used;   /* offset -> bytes */
static std::map<char *, size_t> pinned; /* host memory that the device may touch */
static bool guarded = true;
static int open_count;

static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static void protect(size_t from, size_t to, int how) {
    if (from < to && mprotect(base + from, to - from, how)) die("cannot change the access to device memory");
}

void guard_open(void) {
    if (open_count++ == 0 && guarded) protect(0, high, PROT_READ | PROT_WRITE);
}

void guard_close(void) {
    if (--open_count == 0 && guarded) protect(0, high, PROT_NONE);
}

static bool range_map() {
    if (base && range == device_memory()) return true;
    if (base) munmap(base, range);
    range = device_memory();
    void *p = mmap(nullptr, range + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base = p == MAP_FAILED ? nullptr : (char *)p;
    if (base) madvise(base, range, MADV_HUGEPAGE);
    high = 0;
    return base != nullptr;
}

/* Grows what is in use at all; closed to the host, and for AddressSanitizer until it is allocated. */
static void high_raise(size_t to) {
    to = up(to, HUGE_PAGE);
    if (to <= high) return;
    protect(high, to, open_count || !guarded ? PROT_READ | PROT_WRITE : PROT_NONE);
#if SIMT_ASAN
    ASAN_POISON_MEMORY_REGION(base + high, to - high);
#endif
    high = to;
}

/* The first gap that is large enough. */
static bool place_find(size_t n, size_t *at) {
    size_t pos = 0;
    for (const auto &[offset, bytes] : used) {
        if (offset >= pos + n + ALIGN) break;
        pos = up(offset + bytes, ALIGN) + ALIGN;
    }
    *at = pos;
    return n <= range && pos <= range - n;
}

static cudaError_t allocate(void **p, size_t n) {
    *p = nullptr;
    if (n == 0) return cudaSuccess;
    size_t at;
    if (n > device_memory() - in_use || !range_map() || !place_find(n, &at)) return cudaErrorMemoryAllocation;
    high_raise(at + n);
    used[at] = n;
    in_use += n;
#if SIMT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(base + at, n);
#endif
    guard_open();
    memset(base + at, 0xFF, n < FILL_MAX ? n : FILL_MAX);
    guard_close();
    *p = base + at;
    return cudaSuccess;
}

static cudaError_t release(void *p) {
    if (!p) return cudaSuccess;
    auto it = device_owns(p, nullptr) ? used.find((size_t)((char *)p - base)) : used.end();
    if (it == used.end()) return cudaErrorInvalidValue;
#if SIMT_ASAN
    ASAN_POISON_MEMORY_REGION(p, it->second);
#endif
    in_use -= it->second;
    used.erase(it);
    return cudaSuccess;
}

bool device_owns(const void *p, size_t *offset) {
    if (!base || (char *)p < base || (char *)p >= base + range) return false;
    if (offset) *offset = (size_t)((char *)p - base);
    return true;
}

/* n bytes of one allocation. */
static bool device_has(const void *p, size_t n) {
    size_t at;
    if (!device_owns(p, &at)) return false;
    auto it = used.upper_bound(at);
    if (it == used.begin()) return false;
    --it;
    return at - it->first <= it->second && n <= it->second - (at - it->first);
}

static bool side_fits(const void *p, size_t n, bool device, bool either) {
    bool on_device = device_owns(p, nullptr);
    if (!either && on_device != device) {
        auto it = pinned.upper_bound((char *)p); /* pinned memory is on both sides */
        return device && it != pinned.begin() && (--it, (char *)p + n <= it->first + it->second);
    }
    return on_device ? device_has(p, n) : p != nullptr;
}

cudaError_t copy_check(const void *to, const void *from, size_t n, cudaMemcpyKind kind) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (n == 0) return cudaSuccess;
    bool any = kind == cudaMemcpyDefault;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return side_fits(to, n, to_device, any) && side_fits(from, n, from_device, any) ? cudaSuccess
                                                                                    : cudaErrorInvalidValue;
}

cudaError_t fill_check(const void *to, size_t n) {
    return n == 0 || side_fits(to, n, true, false) ? cudaSuccess : cudaErrorInvalidValue;
}

void device_reset(void) {
#if SIMT_ASAN
    ASAN_POISON_MEMORY_REGION(base, high);
#endif
    used.clear();
    in_use = 0;
}

} // namespace simt

using namespace simt;

extern "C" {

cudaError_t simt_malloc(void **p, size_t n) {
    entry call("cudaMalloc");
    if (call.error) return call.error;
    cudaError_t e = capture_forbids();
    if (!e) e = p ? allocate(p, n) : cudaErrorInvalidValue;
    totals.mallocs += !e;
    return call.done(e);
}

cudaError_t cudaFree(void *p) {
    entry call("cudaFree");
    if (call.error) return call.error;
    cudaError_t e = capture_forbids();
    return call.done(e ? e : release(p));
}

cudaError_t simt_host_alloc(void **p, size_t n, unsigned flags) {
    entry call("cudaHostAlloc");
    if (call.error) return call.error;
    cudaError_t e = capture_forbids();
    if (!e && (!p || flags > 7)) e = cudaErrorInvalidValue;
    if (e) return call.done(e);
    *p = n ? aligned_alloc(4096, up(n, 4096)) : nullptr;
    if (n && !*p) return call.done(cudaErrorMemoryAllocation);
    if (n) pinned[(char *)*p] = n;
    totals.host_allocs++;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p) {
    entry call("cudaFreeHost");
    if (call.error) return call.error;
    cudaError_t e = capture_forbids();
    if (!e && p && !pinned.erase((char *)p)) e = cudaErrorInvalidValue;
    if (!e) free(p);
    return call.done(e);
}

cudaError_t simt_host_device_pointer(void **device, void *host, unsigned flags) {
    entry call("cudaHostGetDevicePointer");
    if (call.error) return call.error;
    bool known = side_fits(host, 1, true, false) && !device_owns(host, nullptr);
    if (flags || !device || !known) return call.done(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    entry call("cudaMemGetInfo");
    if (call.error) return call.error;
    *total = device_memory();
    *free_bytes = device_memory() - in_use;
    return cudaSuccess;
}

void simt_set_guard(bool on) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    guarded = on;
    protect(0, high, on ? PROT_NONE : PROT_READ | PROT_WRITE);
}

size_t simt_device_bytes(void) { return in_use; }
size_t simt_device_allocations(void) { return used.size(); }
size_t simt_host_allocations(void) { return pinned.size(); }

} // extern "C"
