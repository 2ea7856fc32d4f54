/* Bytes that kernels read at the shapes of real models: lengths of 3072, 256 experts of which rows choose ten, heads of
 * 128 elements. A few tiles stand for a matrix of any height. Nothing has to be filled up at these shapes, so for 1 row
 * and for 8 every kernel reads just what the file has of the weights that are needed, and the keys and values that are
 * seen, once. */
#include "tests/simt/simt_test.h"

#include <algorithm>

extern "C" {
#include "kernels/kv_map.h"
#include "kernels/op.h"
}
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/launchers_attn.h"
#include "kernels/cuda/pack.h"

enum { HIDDEN = 3072, TILES_N = 96, WIDTH = 256, EXPERTS = 256, CHOSEN = 10 };

/* Zeroed; only where it lies matters. */
struct matrix {
    std::vector<char> bytes;
    weight w;
};

static matrix matrix_of(int32_t n, int32_t k, dtype type) {
    matrix m;
    size_t data = (size_t)pack_bytes(n, k, type), scale = (size_t)pack_scale_bytes(n, k, type);
    m.bytes.assign(data + scale + 64, 0);
    char *at = (char *)(((uintptr_t)m.bytes.data() + 63) / 64 * 64);
    m.w.data = at, m.w.scale = scale ? (const uint8_t *)at + data : nullptr;
    m.w.n = n, m.w.k = k, m.w.type = type;
    return m;
}

/* All experts are the same bytes of memory: the kernels cannot tell. */
static std::vector<weight> experts_of(const matrix &m) { return std::vector<weight>(EXPERTS, m.w); }

template <class T> struct rows_of {
    std::vector<T> v;
    view at;
    rows_of(int32_t rows, int32_t cols, dtype type) : v((size_t)rows * (size_t)cols + 64) {
        char *p = (char *)(((uintptr_t)v.data() + 63) / 64 * 64);
        at = { p, (int64_t)cols * (int64_t)sizeof(T), rows, cols, type };
    }
};

/* Words of scales are counted once per lane that reads them, four a row. */
static uint64_t once(uint64_t streamed, uint64_t scales) { return streamed - 3 * scales; }

static void expect(const char *kernel, int32_t rows, uint64_t needed, uint64_t scales) {
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    uint64_t read = once(simt_count_of(kernel).streamed, scales);
    printf("%s, %d rows: %llu bytes read of %llu\n", kernel, rows, (unsigned long long)read,
           (unsigned long long)needed);
    if (read != needed)
        fail_msg("%s, %d rows: %llu bytes read, %llu needed", kernel, rows, (unsigned long long)read,
                 (unsigned long long)needed);
}

static cuda_work work_of() {
    static int32_t counters[CUDA_COUNTERS];
    cuda_work w = {};
    w.counters = counters;
    simt_reset_counts();
    return w;
}

static uint64_t scales_of(const weight *w) { return w->type == DT_MXFP4 ? (uint64_t)w->n * (uint64_t)w->k / 32 : 0; }

struct inputs {
    int32_t n, max;
    rows_of<float> x;
    std::vector<bf16> norm;
    explicit inputs(int32_t rows, int32_t bucket) : n(rows), max(bucket), x(bucket, HIDDEN, DT_F32), norm(HIDDEN) {}
    live_rows live() const { return { &n, nullptr, max }; }
};

static const int32_t ROWS[][2] = { { 1, 1 }, { 8, 8 } };

static void test_linear(void **) {
    for (const auto &r : ROWS) {
        inputs in(r[0], r[1]);
        for (dtype type : { DT_BF16, DT_MXFP4 }) {
            matrix a = matrix_of(TILES_N, HIDDEN, type), b = matrix_of(48, HIDDEN, type);
            rows_of<float> y(r[1], TILES_N + 48, DT_F32);
            cuda_work w = work_of();
            linear_args l = {};
            l.x = in.x.at, l.y = y.at, l.part[0] = a.w, l.part[1] = b.w, l.norm = in.norm.data(), l.eps = 1e-6f;
            l.rows = in.live();
            cuda_linear(&l, nullptr, &w);
            expect("linear_kernel", r[0], (uint64_t)(weight_bytes(&a.w) + weight_bytes(&b.w)),
                   scales_of(&a.w) + scales_of(&b.w));
        }
        matrix gate = matrix_of(64, HIDDEN, DT_BF16), up = matrix_of(64, HIDDEN, DT_BF16);
        rows_of<bf16> h(r[1], 64, DT_BF16);
        cuda_work w = work_of();
        glu_args g = { in.x.at, h.at, gate.w, up.w, in.norm.data(), 1e-6f, in.live() };
        cuda_glu(&g, &w);
        expect("glu_kernel", r[0], (uint64_t)(weight_bytes(&gate.w) + weight_bytes(&up.w)), 0);
    }
}

static void test_route(void **) {
    for (const auto &r : ROWS) {
        inputs in(r[0], r[1]);
        matrix m = matrix_of(EXPERTS, HIDDEN, DT_BF16);
        rows_of<float> score(r[1], EXPERTS, DT_F32), share(r[1], CHOSEN, DT_F32);
        rows_of<int32_t> id(r[1], CHOSEN, DT_I32);
        cuda_work w = work_of();
        route_args a = {};
        a.x = in.x.at, a.norm = in.norm.data(), a.eps = 1e-6f, a.w = m.w, a.normalize = true;
        a.score = score.at, a.id = id.at, a.share = share.at, a.rows = in.live();
        cuda_route(&a, &w);
        expect("route_kernel", r[0], (uint64_t)weight_bytes(&m.w), 0);
    }
}

/* Rows that share about half of their experts. */
static int32_t choose(const view *id, int32_t rows) {
    std::vector<bool> seen(EXPERTS);
    int32_t distinct = 0;
    for (int32_t i = 0; i < rows; i++)
        for (int32_t c = 0; c < CHOSEN; c++) {
            int32_t e = c < CHOSEN / 2 ? 7 * c : (i * 31 + c * 11 + 3) % EXPERTS;
            while (std::find((int32_t *)view_row(id, i), (int32_t *)view_row(id, i) + c, e) !=
                   (int32_t *)view_row(id, i) + c)
                e = (e + 1) % EXPERTS;
            ((int32_t *)view_row(id, i))[c] = e;
            distinct += !seen[e];
            seen[e] = true;
        }
    return distinct;
}

static void test_experts(void **) {
    for (const auto &r : ROWS) {
        inputs in(r[0], r[1]);
        matrix up = matrix_of(WIDTH, HIDDEN, DT_MXFP4), down = matrix_of(TILES_N, WIDTH, DT_MXFP4);
        matrix shared_up = matrix_of(WIDTH, HIDDEN, DT_BF16), shared_down = matrix_of(TILES_N, WIDTH, DT_BF16);
        std::vector<weight> ups = experts_of(up), downs = experts_of(down);
        rows_of<int32_t> id(r[1], CHOSEN, DT_I32);
        rows_of<float> share(r[1], CHOSEN, DT_F32), x(r[1], TILES_N, DT_F32);
        rows_of<bf16> h(r[1] * (CHOSEN + 1), WIDTH, DT_BF16);
        uint64_t distinct = (uint64_t)choose(&id.at, r[0]);
        cuda_work w = work_of();
        moe_up_args u = { in.x.at,     in.norm.data(), 1e-6f, ups.data(), ups.data(), EXPERTS,
                          shared_up.w, shared_up.w,    id.at, h.at,       in.live() };
        cuda_moe_up(&u, &w);
        expect("moe_up_kernel", r[0],
               2 * (distinct * (uint64_t)weight_bytes(&up.w) + (uint64_t)weight_bytes(&shared_up.w)),
               2 * distinct * scales_of(&up.w));
        w = work_of();
        moe_down_args d = { h.at, id.at, share.at, downs.data(), EXPERTS, shared_down.w, 1.0f, x.at, in.live() };
        cuda_moe_down(&d, nullptr, &w);
        expect("moe_down_kernel", r[0],
               distinct * (uint64_t)weight_bytes(&down.w) + (uint64_t)weight_bytes(&shared_down.w),
               distinct * scales_of(&down.w));
    }
}

/* --- keys and values --- */

enum { HEAD = 128, GROUPS = 2, SHARE = 6, RING = 640, WINDOW = 512, PAGES = 5 };

static void check_attention(dtype type, bool ring, int32_t rows, int32_t base) {
    int32_t pages[PAGES] = { 3, 0, 4, 1, 2 }, cols = (SHARE + 2) * GROUPS * HEAD, size = type == DT_BF16 ? 2 : 1;
    std::vector<char> k((size_t)PAGES * KV_PAGE * GROUPS * HEAD * (size_t)size + 64), v(k.size());
    kv_store s = {};
    s.k = (char *)(((uintptr_t)k.data() + 63) / 64 * 64), s.v = (char *)(((uintptr_t)v.data() + 63) / 64 * 64);
    s.heads = GROUPS, s.size = HEAD, s.type = type, s.kind = ring ? KV_RING : KV_PAGES;
    if (ring)
        s.slots = RING;
    else
        s.pages = pages;
    static row_set set;
    set.n = rows, set.base = base, set.chain = 1;
    for (int32_t i = 0; i < rows; i++) set.pos[i] = base + i;
    rows_of<float> qkv(rows, cols, DT_F32), gate(rows, SHARE * GROUPS, DT_F32), angle(rows, HEAD / 2, DT_F32);
    rows_of<bf16> q(rows, SHARE * GROUPS * HEAD, DT_BF16), y(rows, SHARE * GROUPS * HEAD, DT_BF16);
    std::vector<bf16> norm(HEAD);
    qkv_store_args st = {};
    st.qkv = qkv.at, st.q = q.at, st.cos = angle.at, st.sin = angle.at, st.q_norm = norm.data(),
    st.k_norm = norm.data();
    st.eps = 1e-6f, st.heads = SHARE * GROUPS, st.kv = s, st.rows = &set;
    attn_args a = {};
    a.q = q.at, a.gate = gate.at, a.y = y.at, a.past = s, a.heads = SHARE * GROUPS, a.window = ring ? WINDOW : 0;
    a.rows_max = rows, a.scale = 0.088f, a.rows = &set;
    std::string scratch(cuda_scratch_attention(&a) + 256, 0);
    cuda_work w = work_of();
    w.scratch = (char *)(((uintptr_t)scratch.data() + 255) / 256 * 256), w.scratch_bytes = scratch.size() - 256;
    cuda_attention(&st, &a, &w);
    uint64_t seen = (uint64_t)(base - kv_first_seen(a.window, base));
    expect("attention_kernel", rows, seen * 2 * GROUPS * HEAD * (uint64_t)size, 0);
}

static void test_attention(void **) {
    for (dtype type : { DT_BF16, DT_E4M3 })
        for (int32_t rows : { 1, 8 }) {
            check_attention(type, true, rows, 900);
            check_attention(type, false, rows, 1000);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_route),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
