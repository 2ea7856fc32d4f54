/* The runtime API: memory, streams, capture and graphs, overlap, faults. */
#include "tests/simt/simt_test.h"
#include "kernels/cuda/prims.cuh"

static const launch_shape one_warp = { 1, 1, WARP, 0 };

static cudaStream_t stream_new() {
    cudaStream_t s = nullptr;
    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)) fail_msg("no stream");
    return s;
}

static cudaGraphExec_t graph_of(cudaStream_t s) {
    cudaGraph_t g = nullptr;
    cudaGraphExec_t x = nullptr;
    if (cudaStreamEndCapture(s, &g) || cudaGraphInstantiate(&x, g, 0) || cudaGraphDestroy(g)) fail_msg("no graph");
    return x;
}

__global__ void add_k(uint32_t *p, uint32_t v) {
    grid_wait();
    p[threadIdx.x] += v;
}

static void test_memory(void **) {
    size_t start, rest, total;
    cudaMemGetInfo(&start, &total);
    assert_int_equal(total, (size_t)2 << 30);
    uint32_t *a, *b, *c, *d, words[4] = { 1, 2, 3, 4 };
    assert_int_equal(cudaMalloc(&a, 1000), cudaSuccess);
    assert_int_equal(cudaMalloc(&b, 1000), cudaSuccess);
    assert_true((uintptr_t)a % 256 == 0 && (uintptr_t)b % 256 == 0 && (char *)b >= (char *)a + 1000);
    cudaMemGetInfo(&rest, &total);
    assert_int_equal(start - rest, 2000);
    assert_int_equal(cudaMemcpy(words, a, 16, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(words[0], 0xFFFFFFFFu); /* new memory holds nothing of use */
    assert_int_equal(cudaFree(a), cudaSuccess);
    assert_int_equal(cudaMalloc(&c, 900), cudaSuccess);
    assert_ptr_equal(c, a); /* the gap is used again */
    assert_int_equal(cudaMalloc(&d, (size_t)2 << 30), cudaErrorMemoryAllocation);
    assert_null(d);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaFree((char *)b + 4), cudaErrorInvalidValue);

    /* What a copy must not be. */
    assert_int_equal(cudaMemcpy(b, words, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(words, b, 16, cudaMemcpyHostToHost), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(b + 249, words, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(b + 249, words, 4, cudaMemcpyDefault), cudaSuccess);
    assert_int_equal(cudaMemset(words, 0, 4), cudaErrorInvalidValue);
    assert_int_equal(cudaMemset(b, 0x11, 1000), cudaSuccess);

    /* Two columns of three rows. */
    uint32_t rows[6] = {};
    assert_int_equal(cudaMemcpy2DAsync(rows, 8, b, 20, 8, 3, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
    for (uint32_t r : rows) assert_int_equal(r, 0x11111111);
    assert_int_equal(cudaFree(b), cudaSuccess);
    assert_int_equal(cudaFree(c), cudaSuccess);
    assert_int_equal(simt_device_bytes(), 0);
    cudaGetLastError();
}

static void test_host_memory(void **) {
    uint32_t *host, *device, other[WARP];
    assert_int_equal(cudaHostAlloc(&host, WARP * 4, cudaHostAllocMapped | cudaHostAllocPortable), cudaSuccess);
    assert_int_equal(cudaHostGetDevicePointer(&device, host, 0), cudaSuccess);
    assert_int_equal(cudaHostGetDevicePointer(&device, other, 0), cudaErrorInvalidValue);
    for (uint32_t i = 0; i < WARP; i++) host[i] = i;
    launch(eager, one_warp, add_k, device, 7u);
    for (uint32_t i = 0; i < WARP; i++) assert_int_equal(host[i], i + 7);
    assert_int_equal(cudaFreeHost(other), cudaErrorInvalidValue);
    assert_int_equal(cudaFreeHost(host), cudaSuccess);
    cudaGetLastError();
}

/* A graph holds the arguments of its capture, and the memory of its copies by address. */
static void test_graph(void **) {
    cudaStream_t s = stream_new();
    launch_to to = { s, false };
    on_device<uint32_t> p(WARP);
    uint32_t in[WARP], out[WARP] = {}, v = 5;
    for (uint32_t i = 0; i < WARP; i++) in[i] = i;
    simt_reset_counts();
    assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaMemcpyAsync(p.p, in, sizeof in, cudaMemcpyHostToDevice, s);
    launch(to, one_warp, add_k, p.p, v);
    cudaMemsetAsync(p.p, 0, 4, s);
    launch(to, one_warp, add_k, p.p, v * 2);
    cudaMemcpyAsync(out, p.p, sizeof out, cudaMemcpyDeviceToHost, s);
    v = 0;
    cudaGraph_t g = nullptr;
    assert_int_equal(cudaStreamEndCapture(s, &g), cudaSuccess);
    size_t n = 0;
    assert_int_equal(cudaGraphGetNodes(g, nullptr, &n), cudaSuccess);
    assert_int_equal(n, 5);
    cudaGraphNode_t nodes[5];
    cudaGraphGetNodes(g, nodes, &n);
    enum cudaGraphNodeType type;
    cudaGraphNodeGetType(nodes[2], &type);
    assert_int_equal(type, cudaGraphNodeTypeMemset);
    cudaGraphExec_t x = nullptr;
    assert_int_equal(cudaGraphInstantiate(&x, g, 0), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(g), cudaSuccess);
    assert_int_equal(simt_counts().launches, 0);
    assert_int_equal(out[1], 0);

    for (uint32_t round = 1; round <= 3; round++) {
        in[1] = round * 100;
        assert_int_equal(cudaGraphLaunch(x, s), cudaSuccess);
        assert_int_equal(out[0], 10);
        assert_int_equal(out[1], round * 100 + 15);
        assert_int_equal(out[31], 31 + 15);
    }
    simt_totals t = simt_counts();
    assert_int_equal(t.launches, 6);
    assert_int_equal(t.graph_launches, 3);
    assert_int_equal(t.memcpys, 6);
    assert_int_equal(t.memsets, 3);
    assert_int_equal(simt_count_of("add_k").launches, 6);
    cudaGraphExecDestroy(x);
    cudaStreamDestroy(s);
}

static cudaGraphExec_t record(cudaStream_t s, uint32_t *p, uint32_t v, uint32_t blocks) {
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    launch((launch_to{ s, true }), one_warp, add_k, p, 1u);
    launch((launch_to{ s, true }), (launch_shape{ blocks, 1, WARP, 0 }), add_k, p, v);
    return graph_of(s);
}

static void test_graph_difference(void **) {
    cudaStream_t s = stream_new();
    on_device<uint32_t> p(WARP);
    cudaGraphExec_t a = record(s, p.p, 1, 1), b = record(s, p.p, 1, 1), c = record(s, p.p, 2, 1);
    cudaGraphExec_t d = record(s, p.p, 1, 2), e = record(s, p.p + 1, 1, 1);
    assert_int_equal(simt_graph_difference(a, b), -1);
    assert_int_equal(simt_graph_difference(a, c), 1);
    assert_int_equal(simt_graph_difference(a, d), 1);
    assert_int_equal(simt_graph_difference(a, e), 0);
    const void *list[8];
    assert_int_equal(simt_graph_list(list, 8), 5);
    assert_ptr_equal(list[2], c);
    simt_node_view n = simt_graph_node(d, 1);
    assert_string_equal(n.name, "add_k");
    assert_int_equal(n.x, 2);
    assert_int_equal(n.arg_bytes, 12);
    assert_true(n.overlap);
    for (cudaGraphExec_t x : { a, b, c, d, e }) cudaGraphExecDestroy(x);
    assert_int_equal(simt_graph_list(nullptr, 0), 0);
    cudaStreamDestroy(s);
}

/* What CUDA forbids while a thread captures fails, and so does the capture. */
static void test_capture_forbids(void **) {
    cudaStream_t s = stream_new();
    on_device<uint32_t> p(WARP);
    uint32_t *q, word = 0;
    cudaGraph_t g;
    for (int what = 0; what < 6; what++) {
        cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
        launch((launch_to{ s, false }), one_warp, add_k, p.p, 1u);
        cudaError_t e = what == 0   ? cudaMalloc(&q, 16)
                        : what == 1 ? cudaStreamSynchronize(s)
                        : what == 2 ? cudaMemcpy(&word, p.p, 4, cudaMemcpyDeviceToHost)
                        : what == 3 ? cudaDeviceSynchronize()
                        : what == 4 ? cudaFree(nullptr)
                                    : cudaHostAlloc(&q, 16, 0);
        assert_int_equal(e, cudaErrorStreamCaptureUnsupported);
        assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureUnsupported);
        launch((launch_to{ s, false }), one_warp, add_k, p.p, 1u);
        assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
        assert_null(g);
        cudaGetLastError();
        assert_int_equal(cudaStreamSynchronize(s), cudaSuccess);
    }
    assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorIllegalState);
    cudaGetLastError();
    cudaStreamDestroy(s);
}

/* Reads its input before (early) or after the kernel in front of it is done. */
__global__ void reader_k(const uint32_t *in, uint32_t *out, bool early) {
    uint32_t v = early ? in[threadIdx.x] : 0;
    block_sync();
    if (threadIdx.x < 3) grid_wait(); /* some threads are enough, with a barrier behind */
    block_sync();
    if (!early) v = in[threadIdx.x];
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

static std::vector<uint32_t> overlapped(bool early, bool overlap) {
    cudaStream_t s = stream_new();
    on_device<uint32_t> p(std::vector<uint32_t>(2 * WARP, 10)), out(5 * 2 * WARP);
    launch_to to = { s, overlap };
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    launch(to, (launch_shape{ 1, 1, 2 * WARP, 0 }), add_k, p.p, 1u);
    launch(to, (launch_shape{ 5, 1, 2 * WARP, 0 }), reader_k, p.p, out.p, early);
    launch(to, (launch_shape{ 1, 1, 2 * WARP, 0 }), add_k, p.p, 1u);
    cudaGraphExec_t x = graph_of(s);
    cudaGraphLaunch(x, s);
    for (uint32_t v : p.host()) assert_int_equal(v, 12);
    cudaGraphExecDestroy(x);
    cudaStreamDestroy(s);
    return out.host();
}

static void test_overlap(void **) {
    std::vector<uint32_t> want(5 * 2 * WARP, 11);
    for (simt_order order : { SIMT_FORWARD, SIMT_REVERSED, SIMT_SHUFFLED }) {
        simt_set_order(order, 3);
        assert_true(overlapped(false, true) == want);
        assert_true(overlapped(true, false) == want);
        if (!SIMT_TSAN) assert_false(overlapped(true, true) == want);
    }
    simt_set_order(SIMT_FORWARD, 0);
}

#if SIMT_TSAN
static void read_early() { overlapped(true, true); }
static void test_overlap_race(void **) {
    std::string text = death(read_early);
    assert_contains(text, "data race");
    assert_contains(text, "reader_k");
}
#endif

__global__ void plain_k(uint32_t *p) { p[threadIdx.x]++; }

static void test_launch_errors(void **) {
    on_device<uint32_t> p(WARP);
    launch(eager, (launch_shape{ 0, 1, WARP, 0 }), plain_k, p.p);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    launch(eager, (launch_shape{ 1, 1, 2048, 0 }), plain_k, p.p);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    simt_launch(eager.stream, "plain_k", 1, 1, WARP, 49153, false, plain_k, p.p); /* not asked for by name */
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    launch(eager, (launch_shape{ 1, 1, WARP, 49153 }), plain_k, p.p);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    const auto attr = cudaFuncAttributeMaxDynamicSharedMemorySize;
    assert_int_equal(cudaFuncSetAttribute(plain_k, attr, 300 << 10), cudaErrorInvalidValue);
    assert_int_equal(cudaFuncSetAttribute(plain_k, attr, 200 << 10), cudaSuccess);
    cudaGetLastError();
    launch(eager, (launch_shape{ 1, 1, WARP, 200 << 10 }), plain_k, p.p);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void test_faults(void **) {
    uint32_t *p = nullptr;
    int n;
    simt_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&p, 16), cudaSuccess);
    cudaFree(p);
    assert_int_equal(cudaMalloc(&p, 16), cudaErrorMemoryAllocation);
    assert_int_equal(cudaMalloc(&p, 16), cudaSuccess); /* once */
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    simt_fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    simt_fail("cudaLaunchKernel", 1, cudaErrorIllegalAddress);
    launch(eager, one_warp, plain_k, p);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress); /* for good */
    assert_int_equal(cudaFree(p), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_string_equal(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress");
    simt_reset_faults();
    assert_int_equal(cudaFree(p), cudaSuccess);
}

static void test_device(void **) {
    int n = 7;
    cudaDeviceProp d;
    assert_int_equal(cudaGetDeviceCount(&n), cudaSuccess);
    assert_int_equal(n, 1);
    simt_set_device(nullptr, 0, 0, 0);
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    assert_int_equal(n, 0);
    assert_int_equal(cudaGetDeviceProperties(&d, 0), cudaErrorNoDevice);
    simt_set_device("Old", 7, 5, 1 << 20);
    assert_int_equal(cudaGetDeviceProperties(&d, 0), cudaSuccess);
    assert_string_equal(d.name, "Old");
    assert_int_equal(d.major * 10 + d.minor, 75);
    assert_int_equal(d.totalGlobalMem, 1 << 20);
    assert_int_equal(cudaSetDevice(1), cudaErrorInvalidDevice);
    void *p;
    assert_int_equal(cudaMalloc(&p, (1 << 20) + 1), cudaErrorMemoryAllocation);
    simt_set_device("SIMT shim", 9, 0, (size_t)2 << 30);
    cudaGetLastError();
}

static void test_events(void **) {
    cudaStream_t s = stream_new();
    cudaEvent_t a, b;
    float ms = -1;
    cudaEventCreate(&a);
    cudaEventCreateWithFlags(&b, cudaEventBlockingSync);
    assert_int_equal(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    cudaEventRecord(a, s);
    usleep(2000);
    cudaEventRecord(b, s);
    assert_int_equal(cudaEventQuery(b), cudaSuccess);
    assert_int_equal(cudaEventSynchronize(b), cudaSuccess);
    assert_int_equal(cudaEventElapsedTime(&ms, a, b), cudaSuccess);
    assert_true(ms >= 2 && ms < 10000);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(a, s);
    assert_int_equal(cudaEventSynchronize(a), cudaErrorCapturedEvent);
    cudaGraphExecDestroy(graph_of(s));
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    cudaStreamDestroy(s);
    cudaGetLastError();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_host_memory),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_graph_difference),
        cmocka_unit_test(test_capture_forbids),
        cmocka_unit_test(test_overlap),
#if SIMT_TSAN
        cmocka_unit_test(test_overlap_race),
#endif
        cmocka_unit_test(test_launch_errors),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_device),
        cmocka_unit_test(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
