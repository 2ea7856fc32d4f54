/* Faults of a kernel end the process with its name and the place. */
#include "tests/simt/simt_test.h"
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/mma.cuh"

static const launch_shape one_warp = { 1, 1, WARP, 512 };

__global__ void divergent_warp_k(float *out) {
    float v = 1;
    if (lane_id() < 16) v = warp_xor(v, 1); /* line 10 */
    out[threadIdx.x] = v;
}
static void divergent_warp() {
    on_device<float> out(WARP);
    launch(eager, one_warp, divergent_warp_k, out.p);
}
static void test_divergent_warp(void **) {
    std::string text = death(divergent_warp);
    assert_contains(text, "a meeting that cannot complete, in kernel divergent_warp_k, block (0, 0)");
    assert_contains(text, "threads 0-15 wait in warp_xor at ");
    assert_contains(text, "test_simt_deaths.cpp:10\n");
    assert_contains(text, "threads 16-31 have ended");
}

/* Both sides meet, but not one another. */
__global__ void two_meetings_k(uint32_t *out) {
    if (lane_id() == 3)
        warp_sync();
    else
        out[threadIdx.x] = warp_vote(true);
}
static void two_meetings() {
    on_device<uint32_t> out(WARP);
    launch(eager, one_warp, two_meetings_k, out.p);
}
static void test_two_meetings(void **) {
    std::string text = death(two_meetings);
    assert_contains(text, "threads 0-2 wait in warp_vote at ");
    assert_contains(text, "thread 3 waits in warp_sync at ");
    assert_contains(text, "threads 4-31 wait in warp_vote at ");
}

__global__ void early_return_k() {
    if (warp_id() == 1) return;
    block_sync();
}
static void early_return() { launch(eager, (launch_shape{ 2, 3, 3 * WARP, 0 }), early_return_k); }
static void test_early_return(void **) {
    std::string text = death(early_return);
    assert_contains(text, "threads 0-31 wait in block_sync at ");
    assert_contains(text, "threads 32-63 have ended");
    assert_contains(text, "threads 64-95 wait in block_sync at ");
}

__global__ void no_wait_k(const uint32_t *in) {
    copy16(shared_memory() + 16 * threadIdx.x, in + 4 * threadIdx.x);
    copy_commit();
    copy_wait<1>();
}
static void no_wait() {
    on_device<uint32_t> in(4 * WARP);
    launch(eager, one_warp, no_wait_k, in.p);
}
static void test_copy_without_wait(void **) {
    std::string text = death(no_wait);
    assert_contains(text, "1 asynchronous copies were never waited for");
    assert_contains(text, "in kernel no_wait_k, block (0, 0), thread 0");
}

__global__ void copy_too_far_k(const uint32_t *in) { copy16(shared_memory() + 512, in); }
static void copy_too_far() {
    on_device<uint32_t> in(4);
    launch(eager, one_warp, copy_too_far_k, in.p);
}
static void test_copy_too_far(void **) { assert_contains(death(copy_too_far), "to byte 512 of 512 bytes"); }

__global__ void misaligned_k(const char *in, uint4 *out) { out[threadIdx.x] = stream16(in + 8); }
static void misaligned() {
    on_device<char> in(64);
    on_device<uint4> out(WARP);
    launch(eager, one_warp, misaligned_k, in.p, out.p);
}
static void test_misaligned(void **) { assert_contains(death(misaligned), "a load or copy of 16 bytes from"); }

/* Behind the last byte: a write, a read, and a write into what fills up 16 bytes. */
__global__ void overrun_k(float *out, uint32_t at, bool write) {
    volatile float *s = (volatile float *)shared_memory();
    if (write)
        s[at] = 1;
    else
        out[threadIdx.x] = s[at];
}
static void overrun(uint32_t shared, uint32_t at, bool write) {
    on_device<float> out(WARP);
    launch(eager, (launch_shape{ 1, 1, WARP, shared }), overrun_k, out.p, at, write);
}
static void overrun_write() { overrun(512, 128, true); }
static void overrun_read() { overrun(512, 128, false); }
static void overrun_fill() { overrun(500, 125, true); }
static void test_overrun(void **) {
    std::string text = death(overrun_write);
    if (SIMT_ASAN) assert_contains(text, "use-after-poison");
    assert_contains(text, SIMT_ASAN ? "overrun_k" : SIMT_TSAN ? "SEGV" : "byte 512 of 512 bytes of shared memory");
    text = death(overrun_read);
    assert_contains(text, SIMT_ASAN ? "overrun_k" : SIMT_TSAN ? "SEGV" : "byte 512 of 512 bytes of shared memory");
    text = death(overrun_fill);
    assert_contains(text, SIMT_ASAN ? "overrun_k" : "wrote behind its 500 bytes of shared memory, at byte 500");
}

__global__ void deep_k(char *out, int depth);
static void deeper(char *out, int depth) {
    volatile char page[4096];
    page[0] = (char)depth;
    if (depth) deeper(out, depth - 1);
    out[threadIdx.x] = page[0];
}
__global__ void deep_k(char *out, int depth) { deeper(out, depth); }
static void deep() {
    on_device<char> out(WARP);
    launch(eager, one_warp, deep_k, out.p, 1000);
}
static void test_full_stack(void **) {
    assert_contains(death(deep), SIMT_ASAN || SIMT_TSAN ? "stack-overflow" : "stack is full");
}

static void host_read() {
    on_device<int> p(4);
    printf("%d\n", *(volatile int *)p.p);
}
static void host_write() {
    on_device<int> p(4);
    *(volatile int *)p.p = 1;
}
static void test_host_access(void **) {
    const char *want = SIMT_ASAN || SIMT_TSAN ? "SEGV" : "host code touches device memory, byte 0 of it";
    assert_contains(death(host_read), want);
    assert_contains(death(host_write), want);
    simt_set_guard(false);
    on_device<int> p(1);
    *(volatile int *)p.p = 1;
    simt_set_guard(true);
    assert_int_equal(p.host()[0], 1);
}

#if SIMT_ASAN
/* Device memory behind an allocation. */
__global__ void beyond_k(float *out) { out[threadIdx.x + 1] = 1; }
static void beyond() {
    on_device<float> out(WARP);
    launch(eager, one_warp, beyond_k, out.p);
}
static void use_freed() {
    float *p;
    {
        on_device<float> out(WARP + 1);
        p = out.p;
    }
    launch(eager, one_warp, beyond_k, p);
}
static void test_device_bounds(void **) {
    assert_contains(death(beyond), "beyond_k");
    assert_contains(death(use_freed), "beyond_k");
}
#endif

__global__ void plain_k(uint32_t *p) { p[threadIdx.x]++; }
static void overlap_without_wait() {
    on_device<uint32_t> p(WARP);
    launch((launch_to{ nullptr, true }), one_warp, plain_k, p.p);
}
static void test_overlap_without_wait(void **) {
    assert_contains(death(overlap_without_wait),
                    "kernel plain_k was launched to overlap the one before it and never calls grid_wait");
}

static void odd_threads() { launch(eager, (launch_shape{ 1, 1, 33, 0 }), early_return_k); }
static void test_odd_threads(void **) { assert_contains(death(odd_threads), "33 threads, no multiple of 32"); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divergent_warp),
        cmocka_unit_test(test_two_meetings),
        cmocka_unit_test(test_early_return),
        cmocka_unit_test(test_copy_without_wait),
        cmocka_unit_test(test_copy_too_far),
        cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_overrun),
        cmocka_unit_test(test_full_stack),
        cmocka_unit_test(test_host_access),
#if SIMT_ASAN
        cmocka_unit_test(test_device_bounds),
#endif
        cmocka_unit_test(test_overlap_without_wait),
        cmocka_unit_test(test_odd_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
