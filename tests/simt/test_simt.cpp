#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include <cmocka.h>
}

#include "kernels/cuda/async.cuh"
#include "kernels/cuda/mma.cuh"
#include "tests/simt/simt_control.h"

static const launch_to eager = { nullptr, false };

/* Sums a block's numbers through shared memory: out[block] = sum of in[block][thread]. */
__global__ void sum_k(const int32_t *in, int32_t *out) {
    int32_t *part = (int32_t *)shared_memory();
    part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    block_sync();
    for (uint32_t step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        block_sync();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

template <int N> __global__ void mma_speed_k(float *out) {
    float d[4] = {};
    uint32_t a[4] = { 0x3F803F80u + threadIdx.x, 0x3F803F81u, 0x3F803F83u, 0x3F803F81u }, b[2] = { 0x3F803F80u, 0x3F803F80u };
    for (int i = 0; i < N; i++) mma_16x8x16(d, a, b);
    block_sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = d[0];
}

static void test_speed(void **) {
    int32_t *in, *out;
    cudaMalloc(&in, 1000 * 256 * 4);
    cudaMalloc(&out, 1000 * 4);
    cudaMemset(in, 0, 1000 * 256 * 4);
    for (int i = 0; i < 5; i++) {
        int64_t t = simt_clock_ns();
        launch(eager, (launch_shape{ 1000, 1, 256, 1024 }), sum_k, in, out);
        int64_t u = simt_clock_ns();
        launch(eager, (launch_shape{ 1000, 1, 256, 1024 }), mma_speed_k<1>, (float *)in);
        int64_t v = simt_clock_ns();
        launch(eager, (launch_shape{ 1000, 1, 256, 1024 }), mma_speed_k<0>, (float *)in);
        int64_t w = simt_clock_ns();
        printf("sum %ld ns/block, mma1 %ld, mma0 %ld\n", (u - t) / 1000, (v - u) / 1000, (w - v) / 1000);
    }
    cudaFree(in);
    cudaFree(out);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_speed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
