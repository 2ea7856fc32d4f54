/* tests/simt/simt_device.cpp - the device, the errors of the runtime, and the faults that tests ask for. */
#include <map>
#include <string>
#include "tests/simt/simt_int.h"

namespace simt {

std::recursive_mutex lock;
simt_totals totals;

static struct {
    bool here;
    char name[256];
    int major, minor;
    size_t memory;
} device = { true, "SIMT shim", 9, 0, (size_t)2 << 30 };

enum { SHARED_DEFAULT = 48 << 10, SHARED_OPTIN = 227 << 10, PROCESSORS = 4, L2_BYTES = 50 << 20, VERSION = 13000 };

struct fault {
    uint64_t calls_left;
    cudaError_t error;
};
static std::map<std::string, fault> faults;
static cudaError_t broken; /* the context, for good */
static thread_local cudaError_t last;

static bool breaks_context(cudaError_t e) {
    return e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure || e == cudaErrorLaunchTimeout ||
           e == cudaErrorAssert || e == cudaErrorHardwareStackError || e == cudaErrorIllegalInstruction ||
           e == cudaErrorMisalignedAddress || e == cudaErrorInvalidPc || e == cudaErrorECCUncorrectable;
}

static cudaError_t fault_of(const char *api) {
    auto it = faults.find(api);
    if (it == faults.end() || --it->second.calls_left) return cudaSuccess;
    cudaError_t e = it->second.error;
    faults.erase(it);
    if (breaks_context(e)) broken = e;
    return e;
}

entry::entry(const char *api) : hold(lock), error(cudaSuccess) {
    totals.calls++;
    if (!faults.empty()) error = fault_of(api);
    if (broken) error = broken;
    if (!error && !device.here) error = cudaErrorNoDevice;
    done(error);
}

cudaError_t entry::done(cudaError_t e) const {
    if (e) last = e;
    return e;
}

size_t device_memory(void) { return device.memory; }

/* Dynamic shared memory that a kernel may be launched with. */
static std::map<const void *, int> shared_limits;

uint32_t shared_limit(const void *kernel) {
    auto it = shared_limits.find(kernel);
    return it == shared_limits.end() ? (uint32_t)SHARED_DEFAULT : (uint32_t)it->second;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} names[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "driver too old for this runtime" },
    { cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable", "devices busy or unavailable" },
    { cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice", "no kernel image for this device" },
    { cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable memory error" },
    { cudaErrorUnsupportedPtxVersion, "cudaErrorUnsupportedPtxVersion", "PTX of an unsupported version" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorIllegalState, "cudaErrorIllegalState", "not permitted in this state" },
    { cudaErrorNotReady, "cudaErrorNotReady", "not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "illegal memory access" },
    { cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources for a launch" },
    { cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "a launch timed out" },
    { cudaErrorAssert, "cudaErrorAssert", "device-side assert" },
    { cudaErrorHardwareStackError, "cudaErrorHardwareStackError", "hardware stack error" },
    { cudaErrorIllegalInstruction, "cudaErrorIllegalInstruction", "illegal instruction" },
    { cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address" },
    { cudaErrorInvalidPc, "cudaErrorInvalidPc", "invalid program counter" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "not supported" },
    { cudaErrorSystemDriverMismatch, "cudaErrorSystemDriverMismatch", "driver and system libraries differ" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "not permitted during capture" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "the capture failed before" },
    { cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the stream did not begin the capture" },
    { cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit", "capture of the default stream" },
    { cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "not permitted on a captured event" },
    { cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread", "capture ended by another thread" },
    { cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};

} // namespace simt

using namespace simt;

extern "C" {

const char *cudaGetErrorName(cudaError_t e) {
    for (const auto &n : names)
        if (n.error == e) return n.name;
    return "unrecognized error code";
}
const char *cudaGetErrorString(cudaError_t e) {
    for (const auto &n : names)
        if (n.error == e) return n.text;
    return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError(void) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    return broken ? broken : last;
}
cudaError_t cudaGetLastError(void) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    cudaError_t e = broken ? broken : last;
    last = cudaSuccess;
    return e;
}

/* Both answer without a device. */
cudaError_t cudaDriverGetVersion(int *version) {
    entry call("cudaDriverGetVersion");
    if (call.error && call.error != cudaErrorNoDevice) return call.error;
    *version = device.here ? VERSION : 0;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n) {
    entry call("cudaGetDeviceCount");
    *n = call.error ? 0 : 1;
    return call.error;
}
cudaError_t cudaGetDevice(int *index) {
    entry call("cudaGetDevice");
    *index = 0;
    return call.error;
}
cudaError_t cudaSetDevice(int index) {
    entry call("cudaSetDevice");
    if (call.error) return call.error;
    return call.done(index == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int index) {
    entry call("cudaGetDeviceProperties");
    if (call.error) return call.error;
    if (index) return call.done(cudaErrorInvalidDevice);
    *p = {};
    memcpy(p->name, device.name, sizeof p->name);
    p->totalGlobalMem = device.memory;
    p->sharedMemPerBlock = SHARED_DEFAULT;
    p->sharedMemPerBlockOptin = SHARED_OPTIN;
    p->sharedMemPerMultiprocessor = SHARED_OPTIN + 1024;
    p->warpSize = LANES;
    p->maxThreadsPerBlock = MAX_THREADS;
    p->major = device.major;
    p->minor = device.minor;
    p->multiProcessorCount = PROCESSORS;
    p->l2CacheSize = L2_BYTES;
    p->canMapHostMemory = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int index) {
    entry call("cudaDeviceGetAttribute");
    if (call.error) return call.error;
    if (index) return call.done(cudaErrorInvalidDevice);
    switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock: *value = MAX_THREADS; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = SHARED_DEFAULT; break;
    case cudaDevAttrWarpSize: *value = LANES; break;
    case cudaDevAttrMultiProcessorCount: *value = PROCESSORS; break;
    case cudaDevAttrIntegrated: *value = 0; break;
    case cudaDevAttrCanMapHostMemory: *value = 1; break;
    case cudaDevAttrL2CacheSize: *value = L2_BYTES; break;
    case cudaDevAttrComputeCapabilityMajor: *value = device.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = device.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = SHARED_OPTIN + 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SHARED_OPTIN; break;
    default: return call.done(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
    entry call("cudaDeviceSynchronize");
    if (call.error) return call.error;
    totals.syncs++;
    return call.done(capture_forbids());
}
cudaError_t cudaDeviceReset(void) {
    entry call("cudaDeviceReset");
    device_reset();
    broken = cudaSuccess;
    return cudaSuccess;
}

cudaError_t simt_func_attribute(const void *kernel, enum cudaFuncAttribute attr, int value) {
    entry call("cudaFuncSetAttribute");
    if (call.error || attr != cudaFuncAttributeMaxDynamicSharedMemorySize) return call.error;
    if (value < 0 || value > SHARED_OPTIN) return call.done(cudaErrorInvalidValue);
    shared_limits[kernel] = value;
    return cudaSuccess;
}

void simt_set_device(const char *name, int major, int minor, size_t memory) {
    device.here = name != nullptr;
    if (!name) return;
    snprintf(device.name, sizeof device.name, "%s", name);
    device.major = major;
    device.minor = minor;
    simt_set_memory(memory);
}

void simt_set_memory(size_t bytes) {
    if (simt_device_allocations()) die("simt_set_memory: device memory is in use");
    device.memory = bytes;
}

void simt_fail(const char *api, uint64_t nth, int error) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    faults[api] = { nth ? nth : 1, (cudaError_t)error };
}

void simt_reset_faults(void) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    faults.clear();
    broken = last = cudaSuccess;
}

} // extern "C"
