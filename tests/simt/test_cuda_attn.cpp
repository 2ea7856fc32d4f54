/* Stores and attention on CUDA kernels: the cases of tests/ops for each op, and for every case of attention the one
 * launch that does qkv_store and attn, which must have the bits of the two. */
#include "tests/simt/cuda_case.h"
#include "kernels/cuda/launchers_attn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
#include "kernels/kv_map.h"
}
#include "kernels/fmath.h"
#include "tests/simt/simt_control.h"

/* --- how close --- */

/* q, k: the norm's sum of squares is added in another order, so its last bits may differ, and a rounding that was near
 * a tie goes the other way: one step of the type. v is rounded from the same number. */
static const char *settle_stored(const block *b, char *got, const char *want) {
    if (b->type == DT_BF16) return cuda_settle_floats(b, got, want, 0, 0);
    for (size_t i = 0; i < b->bytes; i++) {
        if (got[i] - want[i] > 1 || want[i] - got[i] > 1) return "more than one code from the reference";
        got[i] = want[i];
    }
    return nullptr;
}
static const char *settle_qkv(const tcase *t, const block *b, char *got, const char *want) {
    const qkv_store_args *a = (const qkv_store_args *)t->args;
    return b->at == a->q.data || b->at == a->kv.k ? settle_stored(b, got, want) : nullptr;
}
static const char *settle_ctx(const tcase *t, const block *b, char *got, const char *want) {
    return b->at == ((const ctx_store_args *)t->args)->ring.k ? settle_stored(b, got, want) : nullptr;
}

/* One query in double precision, and how far FP32 may be from it.
 *
 * A score of E products added in any order, on hardware that may cut where it should round, is off by at most
 * E 2^-23 of the sum of magnitudes. A weight is off by twice that (its own, and the one of the maximum), by 2^-16 for
 * two BF16 parts, and a sum of n of them by n 2^-23 of itself; merging runs adds some 40 roundings. The quotient has
 * it twice, for the sum of weights and for the values. Then y is rounded to BF16. */
struct exact {
    std::vector<double> y, bound;
};

static double element(const kv_store *s, const void *rows, int64_t at) {
    const void *p = kv_at(s, (void *)rows, at);
    return s->type == DT_E4M3 ? f32_of_e4m3(*(const e4m3 *)p) : f32_of_bf16(*(const bf16 *)p);
}

static exact attend(const attn_args *a, int32_t r, int32_t h) {
    int32_t size = a->past.size, g = h / (a->heads / a->past.heads), p = a->rows->pos[r];
    int32_t first = kv_first_seen(a->window, p), n = p - first + 1;
    const bf16 *q = (const bf16 *)view_row(&a->q, r) + (int64_t)h * size;
    std::vector<double> score(n), magnitude(size), weight(n);
    std::vector<int64_t> at(n);
    double high = -INFINITY, most = 0.0, sum = 0.0;
    auto store = [&](int32_t pos) { return pos >= a->rows->base && a->block.k ? &a->block : &a->past; };
    for (int32_t i = 0; i < n; i++) {
        const kv_store *s = store(first + i);
        at[i] = kv_offset(s, g, kv_index(a->rows, r, first + i), a->rows->base);
        double dot = 0.0, size_of = 0.0;
        for (int32_t c = 0; c < size; c++) {
            double product = f32_of_bf16(q[c]) * element(s, s->k, at[i] + c);
            dot += product, size_of += fabs(product);
        }
        score[i] = dot * a->scale;
        high = fmax(high, score[i]);
        most = fmax(most, size_of * a->scale);
    }
    for (int32_t i = 0; i < n; i++) sum += weight[i] = exp(score[i] - high);
    double off = 2.0 * (2.0 * most * size * 0x1p-23 + 0x1p-16 + (n + 40) * 0x1p-23);
    const float *gate = (const float *)view_row(&a->gate, r);
    exact e;
    for (int32_t c = 0; c < size; c++) {
        double y = 0.0, width = 0.0;
        for (int32_t i = 0; i < n; i++) {
            const kv_store *s = store(first + i);
            double v = weight[i] / sum * element(s, s->v, at[i] + c);
            y += v, width += fabs(v);
        }
        double by = fm_softplus(a->gate.cols == a->heads ? gate[h] : gate[(int64_t)h * size + c]);
        e.y.push_back(y * by);
        e.bound.push_back(width * by * off + fabs(y * by) * 0x1p-8 + 1e-30);
    }
    return e;
}

/* The y of a call; rows lie `y.stride` apart from `at` on. */
static const char *check_values(const attn_args *a, const char *at) {
    int32_t size = a->past.size;
    for (int32_t r = 0; r < a->rows->n; r++)
        for (int32_t h = 0; h < a->heads; h++) {
            exact e = attend(a, r, h);
            const bf16 *y = (const bf16 *)(at + r * a->y.stride) + (int64_t)h * size;
            for (int32_t c = 0; c < size; c++) {
                double got = f32_of_bf16(y[c]);
                if (isnan(e.y[c]) ? !isnan(got) : !(fabs(got - e.y[c]) <= e.bound[c])) return "too far from exact";
            }
        }
    return nullptr;
}

static const char *settle_attn(const tcase *t, const block *b, char *got, const char *want) {
    const attn_args *a = (const attn_args *)t->args;
    if (b->at != a->y.data) return nullptr;
    const char *wrong = check_values(a, got);
    for (int32_t r = 0; r < a->rows->n && !wrong; r++)
        memcpy(got + r * a->y.stride, want + r * a->y.stride, (size_t)a->y.cols * sizeof(bf16));
    return wrong;
}

/* --- the ops one by one --- */

#define ATTN_SCRATCH [](const void *args) { return cuda_scratch_attention((const attn_args *)args); }
static const cuda_op OPS[] = {
    { OP_QKV_STORE, CUDA_RUN(qkv_store), nullptr, settle_qkv },
    { OP_CTX_STORE, CUDA_RUN(ctx_store), nullptr, settle_ctx },
    { OP_KV_MOVE, CUDA_RUN(kv_move), nullptr, nullptr },
    { OP_ATTN, CUDA_RUN(attn), ATTN_SCRATCH, settle_attn },
};
enum { N_OPS = sizeof OPS / sizeof *OPS };

static void test_cases(void **) {
    const case_list list[] = { cases_attn(), cases_tap() };
    assert_int_equal(cuda_check(list, 2, OPS, N_OPS, nullptr, false), 0);
}

/* --- wrong on purpose --- */

template <class A, class F>
static void changed(const void *args, const cuda_work *w, void (*run)(const A *, const cuda_work *), F f) {
    A a;
    memcpy((void *)&a, args, sizeof a);
    f(&a);
    run(&a, w);
}

static void test_wrong(void **) {
    static const cuda_op WRONG[] = {
        { OP_ATTN,
          [](const void *args, const cuda_work *w) {
              changed<attn_args>(args, w, cuda_attn, [](attn_args *a) { a->scale *= 1.02f; });
          },
          ATTN_SCRATCH, settle_attn },
        { OP_ATTN,
          [](const void *args, const cuda_work *w) {
              changed<attn_args>(args, w, cuda_attn, [](attn_args *a) { a->window++; });
          },
          ATTN_SCRATCH, settle_attn },
        { OP_QKV_STORE,
          [](const void *args, const cuda_work *w) {
              changed<qkv_store_args>(args, w, cuda_qkv_store, [](qkv_store_args *a) { a->eps = 0.1f; });
          },
          nullptr, settle_qkv },
        { OP_CTX_STORE,
          [](const void *args, const cuda_work *w) {
              changed<ctx_store_args>(args, w, cuda_ctx_store, [](ctx_store_args *a) { a->cos.cols--; });
          },
          nullptr, settle_ctx },
        { OP_KV_MOVE,
          [](const void *args, const cuda_work *w) {
              changed<kv_move_args>(args, w, cuda_kv_move, [](kv_move_args *a) { a->n--; });
          },
          nullptr, nullptr },
    };
    static const char *const CASE[] = { "two pages", "window", "ring", "plain", "sibling" };
    const case_list list[] = { cases_attn(), cases_tap() };
    for (int i = 0; i < (int)(sizeof WRONG / sizeof *WRONG); i++)
        assert_true(cuda_check(list, 2, &WRONG[i], 1, CASE[i], true) > 0);
}

/* --- both ops in one launch --- */

/* A case of attention with the qkv_store that goes in front of it; keys of the case's own rows are written over. */
struct pair_case {
    tcase t;
    attn_args *a;
    qkv_store_args s;
    std::string past_k, past_v, block_k, block_v; /* before */
    std::vector<char> scratch;
};

static std::string bytes_of(const kv_store *s, const void *rows) {
    return s->k ? std::string((const char *)rows, (size_t)s->bytes) : std::string();
}

static void pair_init(pair_case *p, const op_case *c, int32_t rows) {
    tcase *t = &p->t;
    tcase_init_aligned(t, c, rows, CASE_ALONE_NONE, 64);
    attn_args *a = p->a = (attn_args *)t->args;
    int32_t size = a->past.size, groups = a->past.heads;
    p->s = qkv_store_args{};
    p->s.qkv = t_view(t, BLOCK_INPUT, t->n + 1, (a->heads + 2 * groups) * size, DT_F32, 3);
    p->s.q = a->q;
    p->s.cos = t_view(t, BLOCK_INPUT, t->n + 1, size / 3, DT_F32, 1);
    p->s.sin = t_view(t, BLOCK_INPUT, t->n + 1, size / 3, DT_F32, 1);
    p->s.q_norm = t_norm_weight(t, 4, size);
    p->s.k_norm = t_norm_weight(t, 5, size);
    p->s.eps = 1e-6f;
    p->s.heads = a->heads;
    p->s.kv = a->block.k ? a->block : a->past;
    p->s.rows = a->rows;
    for (int32_t i = 0; i < t->n; i++) {
        t_fill(&p->s.qkv, i, 31, i, 3.0f);
        t_fill(&p->s.cos, i, 32, i, 1.2f);
        t_fill(&p->s.sin, i, 33, i, 1.2f);
    }
    p->past_k = bytes_of(&a->past, a->past.k), p->past_v = bytes_of(&a->past, a->past.v);
    p->block_k = bytes_of(&a->block, a->block.k), p->block_v = bytes_of(&a->block, a->block.v);
}

static void put_back(const kv_store *s, const std::string &k, const std::string &v) {
    memcpy(s->k, k.data(), k.size());
    memcpy(s->v, v.data(), v.size());
}

/* What a call leaves in y and in the stores. */
static std::string pair_run(pair_case *p, bool one_launch, int32_t rows_max, simt_order order) {
    static int32_t counters[CUDA_COUNTERS];
    attn_args a = *p->a;
    a.rows_max = rows_max;
    put_back(&a.past, p->past_k, p->past_v);
    if (a.block.k) put_back(&a.block, p->block_k, p->block_v);
    memset(a.y.data, 0xA5, (size_t)(a.y.stride * p->t.n));
    p->scratch.assign(cuda_scratch_attention(&a), (char)0xFF);
    cuda_work w = {};
    w.counters = counters;
    w.scratch = p->scratch.data();
    w.scratch_bytes = p->scratch.size();
    w.to.overlap = true;
    simt_set_order(order, 5);
    if (one_launch) {
        cuda_attention(&p->s, &a, &w);
    } else {
        cuda_qkv_store(&p->s, &w);
        cuda_attn(&a, &w);
    }
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    for (int i = 0; i < CUDA_COUNTERS; i++) assert_int_equal(counters[i], 0);
    return std::string((const char *)a.y.data, (size_t)(a.y.stride * p->t.n)) + bytes_of(&a.past, a.past.k) +
           bytes_of(&a.past, a.past.v) + bytes_of(&a.block, a.block.k) + bytes_of(&a.block, a.block.v);
}

/* Bytes of keys and values that some row sees and that were there before the call. */
static uint64_t past_bytes(const attn_args *a) {
    int32_t n = a->rows->base - kv_first_seen(a->window, a->rows->base);
    return (uint64_t)n * 2 * (uint64_t)a->past.heads * (uint64_t)kv_bytes(&a->past, a->past.size);
}

/* For a pass of one block a kv head and run. */
static void check_streamed(const pair_case *p) {
    const attn_args *a = p->a;
    if (a->rows->n == 0 || kv_bytes(&a->past, a->past.size) % 16) return;
    uint64_t streamed = simt_count_of("attention_kernel").streamed;
    if (streamed != past_bytes(a))
        fail_msg("%s: %llu bytes of keys and values read, %llu expected", p->t.c->name, (unsigned long long)streamed,
                 (unsigned long long)past_bytes(a));
}

static void check_pair(const op_case *c, int32_t rows) {
    pair_case p = {};
    pair_init(&p, c, rows);
    const attn_args *a = p.a;
    int32_t near = rows <= NODES_MAX ? NODES_MAX : rows + 1, share = a->heads / a->past.heads;
    std::string two = pair_run(&p, false, near, SIMT_FORWARD);
    const char *wrong = check_values(a, (const char *)a->y.data);
    if (wrong) fail_msg("%s, %d rows: %s", c->name, rows, wrong);
    for (int order = SIMT_FORWARD; order <= SIMT_SHUFFLED; order++) {
        simt_reset_counts();
        if (pair_run(&p, true, near, (simt_order)order) != two)
            fail_msg("%s, %d rows, order %d: one launch has other bits than two", c->name, rows, order);
        if (rows <= NODES_MAX && rows * share <= 128) check_streamed(&p);
    }
    /* Whatever the bucket: other tiles, other parts of a tile, rows of the call in shared memory or in the store. */
    if (rows && rows < NODES_MAX && pair_run(&p, true, rows, SIMT_FORWARD) != two)
        fail_msg("%s, %d rows: bits depend on the bucket", c->name, rows);
    if (a->rows->chain && !a->block.k && pair_run(&p, true, rows + NODES_MAX + 3, SIMT_REVERSED) != two)
        fail_msg("%s, %d rows: a chunk has other bits", c->name, rows);
    tcase_deinit(&p.t);
}

static void test_pairs(void **) {
    static const int32_t COUNTS[] = { 0, 1, 2, 7, 16, 32 };
    case_list list = cases_attn();
    for (int i = 0; i < list.n; i++) {
        const op_case *c = &list.at[i];
        if (c->id != OP_ATTN) continue;
        for (int32_t rows : COUNTS) check_pair(c, c->rows ? c->rows : rows);
        if (c->wide) check_pair(c, 70);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
