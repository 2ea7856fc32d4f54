/* The words of a kernel: what they compute, and that a correct kernel gives the same bits in every order. */
#include "tests/simt/simt_test.h"
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/mma.cuh"

static const struct {
    simt_order kind;
    uint64_t seed;
} orders[] = { { SIMT_FORWARD, 0 }, { SIMT_REVERSED, 0 }, { SIMT_SHUFFLED, 1 }, { SIMT_SHUFFLED, 2 } };

static int in_forward_order(void **) {
    simt_set_order(SIMT_FORWARD, 0);
    return 0;
}

/* out[block] = sum of in[block][thread], in a tree over shared memory. */
__global__ void sum_k(const float *in, float *out) {
    float *part = (float *)shared_memory();
    part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    block_sync();
    for (uint32_t step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        block_sync();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

static void test_block_sync(void **) {
    enum { BLOCKS = 7, THREADS = 256 };
    float in[BLOCKS * THREADS], want[BLOCKS];
    for (int i = 0; i < BLOCKS * THREADS; i++) in[i] = 1.0f / (float)(i + 3);
    for (int b = 0; b < BLOCKS; b++) {
        float part[THREADS];
        memcpy(part, in + b * THREADS, sizeof part);
        for (int step = THREADS / 2; step; step /= 2)
            for (int i = 0; i < step; i++) part[i] += part[i + step];
        want[b] = part[0];
    }
    on_device<float> d_in(in), d_out(BLOCKS);
    for (const auto &o : orders) {
        simt_set_order(o.kind, o.seed);
        launch(eager, (launch_shape{ BLOCKS, 1, THREADS, THREADS * 4 }), sum_k, d_in.p, d_out.p);
        assert_memory_equal(d_out.host().data(), want, sizeof want);
    }
}

struct both_halves {
    uint16_t low, high;
};
struct warp_results {
    float xored, sum, max;
    int64_t from;
    both_halves half;
    uint32_t vote;
};

__global__ void warp_k(warp_results *out) {
    int lane = lane_id();
    warp_results r = {};
    r.xored = warp_xor((float)lane, 5);
    r.from = warp_from((int64_t)lane << 40, (lane + 3) % WARP);
    r.half = warp_xor(both_halves{ (uint16_t)lane, (uint16_t)(lane * 3) }, 1);
    r.vote = warp_vote(lane % 3 == warp_id());
    warp_sync();
    r.sum = warp_sum(1.0f / (float)(1 + lane));
    r.max = warp_max((float)(lane * 7 % 32));
    out[threadIdx.x] = r;
}

static void test_warp_collectives(void **) {
    float tree[WARP];
    for (int i = 0; i < WARP; i++) tree[i] = 1.0f / (float)(1 + i);
    for (int m = WARP / 2; m; m /= 2)
        for (int i = 0; i < m; i++) tree[i] += tree[i + m];
    on_device<warp_results> out(3 * WARP);
    for (const auto &o : orders) {
        simt_set_order(o.kind, o.seed);
        launch(eager, (launch_shape{ 1, 1, 3 * WARP, 0 }), warp_k, out.p);
        auto got = out.host();
        for (int t = 0; t < 3 * WARP; t++) {
            const warp_results &r = got[(size_t)t];
            int lane = t % WARP;
            uint32_t vote = 0;
            for (int i = 0; i < WARP; i++) vote |= (uint32_t)(i % 3 == t / WARP) << i;
            assert_true(r.xored == (float)(lane ^ 5));
            assert_true(r.from == (int64_t)((lane + 3) % WARP) << 40);
            assert_int_equal(r.half.low, lane ^ 1);
            assert_int_equal(r.half.high, (lane ^ 1) * 3);
            assert_int_equal(r.vote, vote);
            assert_true(r.max == 31.0f);
            assert_true(fabsf(r.sum - tree[0]) < 1e-6f);
            assert_true(r.sum == got[0].sum);
        }
    }
}

/* Operands as the PTX ISA lays them out, from plain matrices. */
__global__ void mma_k(const float *a, const float *b, float *d) {
    int g = lane_id() / 4, q = lane_id() % 4 * 2;
    uint32_t fa[4], fb[2];
    for (int i = 0; i < 4; i++) {
        const float *row = a + (g + i % 2 * 8) * 16 + q + i / 2 * 8;
        fa[i] = pack_bf16x2(row[0], row[1]);
    }
    for (int i = 0; i < 2; i++) fb[i] = pack_bf16x2(b[(q + i * 8) * 8 + g], b[(q + i * 8 + 1) * 8 + g]);
    float fd[4];
    for (int i = 0; i < 4; i++) fd[i] = d[(g + i / 2 * 8) * 8 + q + i % 2];
    mma_16x8x16(fd, fa, fb);
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + q + i % 2] = fd[i];
}

static void test_mma(void **) {
    float a[256], b[128], d[128], want[128];
    for (int i = 0; i < 256; i++) a[i] = (float)(i * 37 % 101 - 50) / 8;
    for (int i = 0; i < 128; i++) b[i] = (float)(i * 53 % 89 - 44) / 16;
    for (int i = 0; i < 128; i++) d[i] = (float)(i * 11 % 17);
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++) {
            want[r * 8 + c] = d[r * 8 + c];
            for (int k = 0; k < 16; k++) want[r * 8 + c] += a[r * 16 + k] * b[k * 8 + c];
        }
    on_device<float> da(a), db(b);
    for (const auto &o : orders) {
        simt_set_order(o.kind, o.seed);
        on_device<float> dd(d);
        launch(eager, (launch_shape{ 1, 1, WARP, 0 }), mma_k, da.p, db.p, dd.p);
        assert_memory_equal(dd.host().data(), want, sizeof want); /* exact: all sums are multiples of 1/128 */
    }
}

/* Adds up pieces of 16 bytes that come through two stages of shared memory. */
template <int N> __global__ void pipeline_k(const uint32_t *in, uint32_t *out) {
    uint4 *stage = (uint4 *)shared_memory();
    uint32_t sum = 0, t = threadIdx.x;
    copy16(stage + t, in + t * 4);
    copy_commit();
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t next = (i + 1) % 2 * blockDim.x;
        if (i + 1 < 5) copy16(stage + next + t, in + ((i + 1) * blockDim.x + t) * 4);
        copy_commit();
        copy_wait<N>();
        block_sync();
        uint4 v = stage[i % 2 * blockDim.x + (t + 1) % blockDim.x];
        sum += v.x + v.y * 3 + v.z * 5 + v.w * 7;
        block_sync();
    }
    copy_wait<0>();
    out[t] = sum;
}

template <int N> static std::vector<uint32_t> pipeline(const std::vector<uint32_t> &in) {
    on_device<uint32_t> d_in(in), d_out(64);
    launch(eager, (launch_shape{ 1, 1, 64, 2 * 64 * 16 }), pipeline_k<N>, d_in.p, d_out.p);
    return d_out.host();
}

static void test_copies(void **) {
    std::vector<uint32_t> in(5 * 64 * 4), want(64);
    for (uint32_t i = 0; i < in.size(); i++) in[i] = i * 2654435761u;
    for (uint32_t t = 0; t < 64; t++)
        for (uint32_t i = 0; i < 5; i++)
            for (uint32_t k = 0; k < 4; k++) want[t] += in[(i * 64 + (t + 1) % 64) * 4 + k] * (2 * k + 1);
    simt_reset_counts();
    for (const auto &o : orders) {
        simt_set_order(o.kind, o.seed);
        assert_true(pipeline<1>(in) == want);
    }
    assert_int_equal(simt_count_of("pipeline_k").streamed, 4 * 5 * 64 * 16);
    assert_false(pipeline<2>(in) == want); /* waits for too little */
}

/* The last block adds up what the others left. */
__global__ void last_k(int32_t *counter, int32_t *part, int32_t *out) {
    int32_t *flag = (int32_t *)shared_memory();
    if (threadIdx.x == 0) part[blockIdx.x] = (int32_t)(blockIdx.x + 10 * blockIdx.y);
    if (!last_block(counter, (int32_t)gridDim.x, flag)) return;
    if (threadIdx.x == 0)
        for (uint32_t i = 0; i < gridDim.x; i++) *out += part[i];
}

static void test_last_block(void **) {
    for (const auto &o : orders) {
        simt_set_order(o.kind, o.seed);
        on_device<int32_t> counter(std::vector<int32_t>{ 0 }), part(9), out(std::vector<int32_t>{ 100 });
        launch(eager, (launch_shape{ 9, 1, 64, 4 }), last_k, counter.p, part.p, out.p);
        assert_int_equal(out.host()[0], 136);
        assert_int_equal(counter.host()[0], 0);
    }
}

struct mixed {
    uint8_t byte;
    uint64_t word;
};
__global__ void args_k(uint8_t a, double b, mixed c, const uint32_t *in, uint32_t *out) {
    if (threadIdx.x) return;
    uint4 v = stream16(in);
    uint2 w = stream8(in + 4);
    out[0] = a + (uint32_t)b + c.byte + (uint32_t)c.word;
    out[1] = v.w + w.y + stream4(in + 6);
    out[2] = permute_bytes(0x33221100u, 0x77665544u, 0x7250);
    out[3] = (uint32_t)atomic_add((int32_t *)&out[0], 5);
    atomic_or(&out[1], 1u << 31);
    store_system(&out[4], gridDim.y * 100 + blockDim.x);
}

static void test_arguments(void **) {
    on_device<uint32_t> in(std::vector<uint32_t>{ 1, 2, 3, 4, 5, 6, 7 }), out(5);
    simt_reset_counts();
    launch(eager, (launch_shape{ 1, 1, WARP, 0 }), args_k, 200, 1000.5f, (mixed{ 3, 4000 }), in.p, out.p);
    auto got = out.host();
    assert_int_equal(got[0], 5208);
    assert_int_equal(got[1], 17 | 1u << 31);
    assert_int_equal(got[2], 0x77225500);
    assert_int_equal(got[3], 5203);
    assert_int_equal(got[4], 132);
    assert_int_equal(simt_count_of("args_k").streamed, 16 + 8 + 4);
    assert_int_equal(simt_counts().launches, 1);
}

/* Not a correct kernel: each thread reads its neighbour's number without waiting for it. */
__global__ void race_k(uint32_t *out) {
    uint32_t *s = (uint32_t *)shared_memory();
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}

/* Waits for its own copy, but not for its neighbour. */
__global__ void copy_race_k(const uint32_t *in, uint32_t *out) {
    copy16(shared_memory() + 16 * threadIdx.x, in + 4 * threadIdx.x);
    copy_commit();
    copy_wait<0>();
    out[threadIdx.x] = ((uint32_t *)shared_memory())[(threadIdx.x * 4 + 4) % (4 * blockDim.x)];
}
static void copy_race() {
    on_device<uint32_t> in(4 * 64), out(64);
    launch(eager, (launch_shape{ 1, 1, 64, 1024 }), copy_race_k, in.p, out.p);
}

static void race() {
    on_device<uint32_t> out(64);
    launch(eager, (launch_shape{ 1, 1, 64, 256 }), race_k, out.p);
}

static void test_race(void **) {
    if (SIMT_TSAN) {
        for (const auto &o : orders) {
            simt_set_order(o.kind, o.seed);
            std::string text = death(race);
            assert_contains(text, "data race");
            assert_contains(text, "race_k");
            text = death(copy_race);
            assert_contains(text, "data race");
            assert_contains(text, "copy_race_k");
        }
        return;
    }
    std::vector<std::vector<uint32_t>> results;
    for (const auto &o : orders) {
        simt_set_order(o.kind, o.seed);
        on_device<uint32_t> out(64);
        launch(eager, (launch_shape{ 1, 1, 64, 256 }), race_k, out.p);
        results.push_back(out.host());
    }
    assert_false(results[0] == results[1]);
    assert_false(results[2] == results[3]);
    assert_int_equal(results[0][0], 0xFFFFFFFFu); /* what nobody wrote yet */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_block_sync, in_forward_order),
        cmocka_unit_test_teardown(test_warp_collectives, in_forward_order),
        cmocka_unit_test_teardown(test_mma, in_forward_order),
        cmocka_unit_test_teardown(test_copies, in_forward_order),
        cmocka_unit_test_teardown(test_last_block, in_forward_order),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test_teardown(test_race, in_forward_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
