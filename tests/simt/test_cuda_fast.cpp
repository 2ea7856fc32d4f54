/* Fast products (kernels/cuda/fast.h) against sums in double: expanded weights of both types, parts, strides, rows that
 * are not live. lt_model.cpp multiplies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>
#include <memory>
#include <vector>

extern "C" {
#include <cmocka.h>
#include "engine/base/dtype.h"
}
#include "kernels/cuda/fast.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/pack.cuh"
#include "tests/simt/lt_model.h"
#include "tests/simt/simt_control.h"

constexpr int ROWS = 64, LIVE = 37, GUARD = 64;
static const float EPS = 1e-6f;

/* --- data --- */

static uint32_t seed;
static float any(void) {
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)(seed >> 8 & 0xFFFF) / 32768.0f - 1.0f;
}

typedef std::unique_ptr<char, void (*)(void *)> memory;
static memory take(size_t bytes, int fill) {
    char *p = (char *)aligned_alloc(256, (bytes + GUARD + 255) / 256 * 256);
    memset(p, fill, bytes + GUARD);
    return memory(p, free);
}

/* Rows with a gap behind each; all bits set, which is a NaN, but for what is put there. */
struct rows {
    memory at;
    view v;

    rows(int32_t n, int32_t cols, dtype type) : at(nullptr, free) {
        int64_t stride = ((int64_t)cols * dtype_bits(type) / 8 + 63) / 64 * 64 + 64;
        at = take((size_t)(n * stride), 0xFF);
        v = { at.get(), stride, n, cols, type };
    }
    float get(int64_t r, int32_t c) const {
        const void *row = view_row(&v, r);
        return v.type == DT_F32 ? ((const float *)row)[c] : f32_of_bf16(((const bf16 *)row)[c]);
    }
    void put(int64_t r, int32_t c, float x) {
        void *row = view_row(&v, r);
        if (v.type == DT_F32)
            ((float *)row)[c] = x;
        else
            ((bf16 *)row)[c] = bf16_of_f32(x);
    }
    void fill(int64_t from, int64_t to) {
        for (int64_t r = from; r < to; r++)
            for (int32_t c = 0; c < v.cols; c++) put(r, c, any());
    }
};

/* A matrix as the upload packs it, and its values. */
struct matrix {
    memory data, scale;
    weight w;
    std::vector<float> value;

    matrix(int32_t n, int32_t k, dtype type, void *place = nullptr, void *scale_place = nullptr)
        : data(nullptr, free), scale(nullptr, free), w{ nullptr, nullptr, n, k, type } {
        if (!place) data = take((size_t)pack_bytes(n, k, type), 0xFF), place = data.get();
        w.data = place;
        type == DT_MXFP4 ? make_mxfp4(scale_place) : make_bf16();
    }
    launch_shape shape() const { return { (uint32_t)(pack_tiles(w.n) * pack_blocks(w.k) + 7) / 8, 1, 256, 0 }; }
    void make_bf16() {
        std::vector<bf16> file((size_t)w.n * (size_t)w.k);
        for (bf16 &b : file) b = bf16_of_f32(any()), value.push_back(f32_of_bf16(b));
        file_rows in = { (unsigned char *)file.data(), nullptr, w.n, w.k };
        launch_to to = {};
        launch(to, shape(), pack_bf16_kernel, in, pack_tiles(w.n), (char *)w.data);
        std::vector<bf16> back(file.size());
        file_rows out = { (unsigned char *)back.data(), nullptr, w.n, w.k };
        launch(to, shape(), unpack_bf16_kernel, out, pack_tiles(w.n), (const char *)w.data);
        CHECK(back == file);
    }
    void make_mxfp4(void *place) {
        static const float CODE[8] = { 0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f };
        std::vector<unsigned char> file((size_t)w.n * (size_t)w.k / 2), e8m0((size_t)w.n * (size_t)w.k / 32);
        for (unsigned char &b : e8m0) b = (unsigned char)(122 + (int)(4.0f * fabsf(any())));
        for (size_t i = 0; i < file.size(); i++) {
            file[i] = (unsigned char)(int)(127.5f * (any() + 1.0f));
            for (int half = 0; half < 2; half++) {
                int code = file[i] >> 4 * half & 15;
                value.push_back((code & 8 ? -1.0f : 1.0f) * CODE[code & 7] * ldexpf(1.0f, e8m0[i / 16] - 127));
            }
        }
        if (!place) scale = take((size_t)pack_scale_bytes(w.n, w.k, w.type), 0xFF), place = scale.get();
        w.scale = (const uint8_t *)place;
        int32_t flags[2] = { 0, 0 };
        file_rows in = { file.data(), e8m0.data(), w.n, w.k };
        launch_to to = {};
        launch(to, shape(), pack_mxfp4_kernel, in, pack_tiles(w.n), (char *)w.data, (char *)place, flags);
        std::vector<unsigned char> back(file.size()), scales(e8m0.size());
        file_rows out = { back.data(), scales.data(), w.n, w.k };
        launch(to, shape(), unpack_mxfp4_kernel, out, pack_tiles(w.n), (const char *)w.data, (const char *)place);
        CHECK(flags[PACK_FLAG_SCALE] == 0 && back == file && scales == e8m0);
    }
};

/* --- running --- */

/* With scratch of exactly the promised size, in three orders of threads. Returns whether nothing was written behind. */
static bool run(op_id id, const void *args) {
    fast_products *f = nullptr;
    err e = {};
    assert_int_equal(fast_open(&f, &e), OK);
    assert_true(fast_takes(id, args));
    size_t bytes = fast_prepare(f, id, args);
    memory scratch = take(bytes, 0xFF);
    static int32_t counters[CUDA_COUNTERS];
    cuda_work w = {};
    w.counters = counters, w.scratch = scratch.get(), w.scratch_bytes = bytes, w.fast = f;
    fast_put(id, args, &w);
    assert_int_equal(fast_status(f, &e), OK);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    fast_close(f);
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)scratch.get()[bytes + i] != 0xFF) return false;
    return true;
}

/* --- what is right --- */

struct sum {
    double v, off; /* off: what FP32 sums in any order may be away: a rounding per addition and one more */
};

static sum dot(const rows &x, int64_t row, const matrix &m, int32_t j) {
    double v = 0.0, size = 0.0;
    for (int32_t c = 0; c < m.w.k; c++) {
        double p = (double)x.get(row, c) * (double)m.value[(size_t)j * (size_t)m.w.k + (size_t)c];
        v += p, size += fabs(p);
    }
    return { v, (m.w.k + 2) * 0x1p-24 * size };
}

static bool near(float got, const sum &want) { return fabs((double)got - want.v) <= want.off + 0x1p-24 * fabs(want.v); }

/* bf16( silu(g) u ): the slope of silu is below 1.1. */
static bool near_gated(float got, const sum &g, const sum &u) {
    double silu = g.v / (1.0 + exp(-g.v)), v = silu * u.v;
    double off = 1.1 * g.off * fabs(u.v) + (fabs(silu) + g.off) * u.off;
    return fabs((double)got - v) <= off + 0x1p-8 * fabs(v);
}

/* Rows behind the norm as BF16, by the kernel of the norm op. */
static rows normed(const rows &x, const std::vector<bf16> &norm, const int32_t *live) {
    rows y(ROWS, x.v.cols, DT_BF16);
    norm_args a = { x.v, y.v, norm.data(), EPS, { live, nullptr, ROWS } };
    cuda_work w = {};
    cuda_norm(&a, &w);
    return y;
}

static std::vector<bf16> any_norm(int32_t k) {
    std::vector<bf16> n((size_t)k);
    for (bf16 &b : n) b = bf16_of_f32(1.0f + 0.25f * any());
    return n;
}

/* --- linear --- */

/* Parts that do not fill their tiles, columns that do not fill their blocks. */
static bool check_linear(int32_t k, dtype type, bool with_norm, bool with_add) {
    static const int32_t N[LINEAR_PARTS] = { 40, 24, 0, 6 };
    seed = 1;
    int32_t live = LIVE, columns = 70, column = 0;
    std::vector<bf16> norm = any_norm(k);
    rows x(ROWS, k, with_norm ? DT_F32 : DT_BF16), y(ROWS, columns, DT_F32);
    x.fill(0, LIVE), y.fill(0, LIVE);
    std::vector<matrix> part;
    linear_args a = {};
    for (int p = 0; p < LINEAR_PARTS; p++)
        if (N[p]) part.emplace_back(N[p], k, type), a.part[p] = part.back().w;
    a.x = x.v, a.y = y.v, a.eps = EPS, a.rows = { &live, nullptr, ROWS };
    if (with_norm) a.norm = norm.data();
    if (with_add) a.add = y.v;
    std::vector<float> before;
    for (int32_t r = 0; r < LIVE; r++)
        for (int32_t c = 0; c < columns; c++) before.push_back(with_add ? y.get(r, c) : 0.0f);
    if (!run(OP_LINEAR, &a)) return false;
    rows used = with_norm ? normed(x, norm, &live) : std::move(x);
    for (const matrix &m : part) {
        for (int32_t r = 0; r < LIVE; r++)
            for (int32_t j = 0; j < m.w.n; j++) {
                sum s = dot(used, r, m, j);
                s.v += (double)before[(size_t)(r * columns + column + j)];
                if (!near(y.get(r, column + j), s)) return false;
            }
        column += m.w.n;
    }
    for (int32_t r = 0; r < ROWS; r++) /* nothing beside the columns */
        if (((const uint32_t *)view_row(&y.v, r))[columns] != 0xFFFFFFFFu) return false;
    return true;
}

static bool linear_right(void) {
    return check_linear(128, DT_BF16, true, false) && check_linear(96, DT_BF16, false, true) &&
           check_linear(160, DT_MXFP4, false, true) && check_linear(32, DT_MXFP4, true, false);
}

/* --- glu --- */

static bool check_glu(int32_t k, int32_t n, dtype type) {
    seed = 2;
    int32_t live = LIVE;
    std::vector<bf16> norm = any_norm(k);
    rows x(ROWS, k, DT_F32), y(ROWS, n, DT_BF16);
    x.fill(0, LIVE);
    matrix gate(n, k, type), up(n, k, type);
    glu_args a = { x.v, y.v, gate.w, up.w, norm.data(), EPS, { &live, nullptr, ROWS } };
    if (!run(OP_GLU, &a)) return false;
    rows used = normed(x, norm, &live);
    for (int32_t r = 0; r < ROWS; r++)
        for (int32_t j = 0; j < n; j++)
            if (r < LIVE ? !near_gated(y.get(r, j), dot(used, r, gate, j), dot(used, r, up, j))
                         : ((const bf16 *)view_row(&y.v, r))[j] != 0xFFFF)
                return false;
    return true;
}

static bool glu_right(void) { return check_glu(96, 300, DT_BF16) && check_glu(64, 24, DT_MXFP4); }

/* --- experts --- */

constexpr int EXPERTS = 4, CHOSEN = 2, SLOTS = CHOSEN + 1, HIDDEN = 96, WIDTH = 64, SHARED = 32;

/* Experts as one slab. */
struct experts {
    memory data, scale;
    std::vector<matrix> at;
    std::vector<weight> w;

    experts(int32_t n, int32_t k) : data(nullptr, free), scale(nullptr, free) {
        size_t one = (size_t)pack_bytes(n, k, DT_MXFP4), scales = (size_t)pack_scale_bytes(n, k, DT_MXFP4);
        data = take(EXPERTS * one, 0), scale = take(EXPERTS * scales, 0);
        for (int i = 0; i < EXPERTS; i++) {
            at.emplace_back(n, k, DT_MXFP4, data.get() + (size_t)i * one, scale.get() + (size_t)i * scales);
            w.push_back(at.back().w);
        }
    }
};

static bool experts_right(void) {
    seed = 3;
    int32_t live = LIVE;
    std::vector<bf16> norm = any_norm(HIDDEN);
    rows x(ROWS, HIDDEN, DT_F32), h(ROWS * SLOTS, WIDTH, DT_BF16), id(ROWS, CHOSEN, DT_I32),
        share(ROWS, CHOSEN, DT_F32);
    x.fill(0, LIVE), share.fill(0, LIVE);
    for (int32_t r = 0; r < LIVE; r++)
        for (int32_t c = 0; c < CHOSEN; c++) ((int32_t *)view_row(&id.v, r))[c] = (r + c * (1 + r % 3)) % EXPERTS;
    experts gate(WIDTH, HIDDEN), up(WIDTH, HIDDEN), down(HIDDEN, WIDTH);
    matrix shared_gate(SHARED, HIDDEN, DT_BF16), shared_up(SHARED, HIDDEN, DT_BF16),
        shared_down(HIDDEN, SHARED, DT_BF16);
    moe_up_args a = {};
    a.x = x.v, a.norm = norm.data(), a.eps = EPS, a.gate = gate.w.data(), a.up = up.w.data(), a.experts = EXPERTS;
    a.shared_gate = shared_gate.w, a.shared_up = shared_up.w, a.id = id.v, a.h = h.v, a.rows = { &live, nullptr, ROWS };
    moe_down_args b = {};
    b.h = h.v, b.id = id.v, b.share = share.v, b.down = down.w.data(), b.experts = EXPERTS;
    b.shared_down = shared_down.w, b.scale = 1.5f, b.x = x.v, b.rows = a.rows;
    rows used = normed(x, norm, &live);
    if (!run(OP_MOE_UP, &a)) return false;
    std::vector<float> before;
    for (int32_t r = 0; r < LIVE; r++) {
        for (int32_t c = 0; c < HIDDEN; c++) before.push_back(x.get(r, c));
        for (int32_t s = 0; s < SLOTS; s++) {
            int32_t e = s < CHOSEN ? ((int32_t *)view_row(&id.v, r))[s] : 0;
            const matrix &g = s < CHOSEN ? gate.at[(size_t)e] : shared_gate,
                         &u = s < CHOSEN ? up.at[(size_t)e] : shared_up;
            for (int32_t j = 0; j < g.w.n; j++)
                if (!near_gated(h.get((int64_t)r * SLOTS + s, j), dot(used, r, g, j), dot(used, r, u, j))) return false;
        }
    }
    if (!run(OP_MOE_DOWN, &b)) return false;
    for (int32_t r = 0; r < LIVE; r++)
        for (int32_t j = 0; j < HIDDEN; j++) {
            sum all = dot(h, (int64_t)r * SLOTS + CHOSEN, shared_down, j);
            double size = fabs(all.v);
            for (int32_t c = 0; c < CHOSEN; c++) {
                int32_t e = ((int32_t *)view_row(&id.v, r))[c];
                sum d = dot(h, (int64_t)r * SLOTS + c, down.at[(size_t)e], j);
                double f = 1.5 * (double)share.get(r, c);
                all.v += f * d.v, all.off += fabs(f) * d.off, size += fabs(f * d.v);
            }
            all.v += (double)before[(size_t)(r * HIDDEN + j)];
            all.off += 4 * 0x1p-24 * (size + fabs((double)before[(size_t)(r * HIDDEN + j)])); /* sums of the parts */
            if (!near(x.get(r, j), all)) return false;
        }
    return true;
}

/* --- tests --- */

static void test_right(void **) {
    static const simt_order ORDER[] = { SIMT_FORWARD, SIMT_REVERSED, SIMT_SHUFFLED };
    for (simt_order order : ORDER) {
        simt_set_order(order, 17);
        assert_true(linear_right());
        assert_true(glu_right());
        assert_true(experts_right());
    }
    simt_set_order(SIMT_FORWARD, 0);
}

static void test_wrong(void **) {
    static const lt_model_fault BOTH[] = { LT_MODEL_SHORT, LT_MODEL_SHIFTED };
    for (lt_model_fault fault : BOTH) {
        lt_model_set(fault);
        assert_false(linear_right());
        assert_false(glu_right());
        assert_false(experts_right());
    }
    lt_model_set(LT_MODEL_NO_ADD);
    assert_false(linear_right());
    assert_false(experts_right());
    lt_model_set(LT_MODEL_RIGHT);
}

/* What stays with the kernels of decoding. */
static void test_not_taken(void **) {
    int32_t n = 1;
    linear_args head = {}, narrow = {};
    head.rows = { &n, &n, ROWS }, narrow.rows = { &n, nullptr, 32 };
    moe_up_args routed = {};
    routed.rows = { &n, nullptr, ROWS };
    assert_false(fast_takes(OP_LINEAR, &head));
    assert_false(fast_takes(OP_LINEAR, &narrow));
    assert_false(fast_takes(OP_MOE_UP, &routed));
    assert_false(fast_takes(OP_ROUTE, &routed));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_right), cmocka_unit_test(test_wrong),
                                        cmocka_unit_test(test_not_taken) };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
