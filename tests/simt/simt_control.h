/* tests/simt/simt_control.h - what a test asks of the shim, from C or C++. All of it is process-wide; call it while no
 * kernel runs. */
#ifndef TESTS_SIMT_SIMT_CONTROL_H
#define TESTS_SIMT_SIMT_CONTROL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order in which lanes, warps and blocks take turns. SHUFFLED draws new orders at every meeting, from the seed. */
typedef enum simt_order { SIMT_FORWARD, SIMT_REVERSED, SIMT_SHUFFLED } simt_order;
void simt_set_order(simt_order kind, uint64_t seed);

/* The device. At first one of compute capability 9.0 with 4 multiprocessors and 2 GiB. name NULL: there is none.
 * Memory can only be set while nothing is allocated. */
void simt_set_device(const char *name, int major, int minor, size_t memory);
void simt_set_memory(size_t bytes);

/* Whether host code that touches device memory crashes. On at first; off saves two mprotect() per launch. */
void simt_set_guard(bool on);

/* The nth call from now (1: the next) of a runtime function fails with the error (a cudaError_t). Kernel launches are
 * "cudaLaunchKernel". An error that breaks a CUDA context (cudaErrorIllegalAddress ...) is then the answer of every
 * call until simt_reset_faults(). One fault per function. */
void simt_fail(const char *api, uint64_t nth, int error);
void simt_reset_faults(void);

typedef struct simt_totals {
    uint64_t launches; /* kernels, also those of graphs */
    uint64_t streamed; /* bytes of weights: stream16 and its kind, copy16 */
    uint64_t graph_launches;
    uint64_t captures;
    uint64_t mallocs, host_allocs; /* calls that succeeded */
    uint64_t memcpys, memsets;     /* also those of graphs */
    uint64_t syncs;                /* of stream, event or device */
    uint64_t calls;                /* of runtime functions, all of them */
} simt_totals;
typedef struct simt_kernel_count {
    const char *name;
    uint64_t launches, blocks, streamed;
} simt_kernel_count;
simt_totals simt_counts(void);
/* Of one kernel; "name_k" also stands for all "name_k<...>". */
simt_kernel_count simt_count_of(const char *name);
/* Fills up to max entries, in the order of their first launch; returns how many there are. */
size_t simt_count_list(simt_kernel_count *out, size_t max);
void simt_reset_counts(void);

/* Bytes of device memory that are allocated, and allocations; of pinned host memory. */
size_t simt_device_bytes(void);
size_t simt_device_allocations(void);
size_t simt_host_allocations(void);

/* What was recorded. Executable graphs that live, in the order of their making; nodes in launch order. */
typedef enum simt_node_kind { SIMT_NODE_KERNEL, SIMT_NODE_COPY, SIMT_NODE_FILL } simt_node_kind;
typedef struct simt_node_view {
    simt_node_kind kind;
    const char *name; /* of the kernel; else "memcpy", "memset" */
    uint32_t x, y, threads, shared;
    bool overlap;
    const unsigned char *args; /* the kernel's argument bytes; for the others addresses, sizes and value */
    size_t arg_bytes;
} simt_node_view;
size_t simt_graph_list(const void **execs, size_t max);
size_t simt_graph_size(const void *exec);
simt_node_view simt_graph_node(const void *exec, size_t index);
/* The index of the first node that differs, the shorter one's size where one continues the other, or -1. */
long simt_graph_difference(const void *a, const void *b);

#ifdef __cplusplus
}
#endif
#endif
