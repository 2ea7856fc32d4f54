/* Products on CUDA kernels: linear, glu, route, moe_up, moe_down, over weights that went through the upload.
 *
 * Sums are added in another order than the reference's, so both are compared with the exact value of each element, from
 * the case's own inputs (cuda_exact.h). Ids of experts must be those that the scores of the same run choose, and the
 * reference's where its margin is wider than the bound. Rows alone, in company and in a chunk have the same bits: that
 * is the harness's to check. */
#include "tests/simt/cuda_case.h"
#include "tests/simt/cuda_exact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <functional>
#include <string>

extern "C" {
#include <cmocka.h>
}
#include "kernels/cuda/device_int.h"
#include "tests/simt/simt_control.h"

enum { UPLOADS = 16 << 20 };
/* The row counts of the kernels' buckets, from both sides. */
static const int32_t COUNTS[] = { 0, 1, 2, 7, 8, 9, 16, 31, 32, -1 };

static int other_experts; /* rows whose experts differ from the reference's, within the bound */

/* --- weights on their way up --- */

static device *gpu;
static void (*spoil)(std::string *data, std::string *scale,
                     const weight *w); /* before they are sent; nullptr: nothing */

static void open_gpu() {
    err e;
    CHECK(device_open(&gpu, 0, &e) == OK);
    CHECK(device_reserve_weights(gpu, UPLOADS, &e) == OK);
}

/* What went up for the last call is not used any more. */
static void begin_uploads() { gpu->weights_used = 0; }

static void send(weight *w, int32_t n) {
    err e = {};
    std::vector<std::string> kept;
    for (int32_t i = 0; spoil && i < n; i++) {
        size_t elements = (size_t)w[i].n * (size_t)w[i].k;
        bool mxfp4 = w[i].type == DT_MXFP4;
        kept.emplace_back((const char *)w[i].data, mxfp4 ? elements / 2 : elements * 2);
        kept.emplace_back((const char *)w[i].scale, mxfp4 ? elements / MXFP4_GROUP : 0);
        spoil(&kept[kept.size() - 2], &kept.back(), &w[i]);
    }
    for (int32_t i = 0; spoil && i < n; i++)
        w[i].data = kept[(size_t)i * 2].data(), w[i].scale = (const uint8_t *)kept[(size_t)i * 2 + 1].data();
    if (device_put_matrices(gpu, w, n, false, &e) != OK) fail_msg("%s", e.text);
}

static std::vector<weight> sent(const weight *w, int32_t n) {
    std::vector<weight> up(w, w + n);
    send(up.data(), n);
    return up;
}

template <class A> static A copy_of(const void *args) {
    A a;
    memcpy((void *)&a, args, sizeof a);
    begin_uploads();
    return a;
}

/* --- running --- */

static linear_args linear_up(const void *args) {
    linear_args a = copy_of<linear_args>(args);
    for (int p = 0; p < LINEAR_PARTS; p++)
        if (a.part[p].n) send(&a.part[p], 1);
    return a;
}
static void run_linear(const void *args, const cuda_work *w) {
    linear_args a = linear_up(args);
    cuda_linear(&a, nullptr, w);
}
static void run_glu(const void *args, const cuda_work *w) {
    glu_args a = copy_of<glu_args>(args);
    send(&a.gate, 1);
    send(&a.up, 1);
    cuda_glu(&a, w);
}
static void run_route(const void *args, const cuda_work *w) {
    route_args a = copy_of<route_args>(args);
    send(&a.w, 1);
    cuda_route(&a, w);
}
static void run_moe_up(const void *args, const cuda_work *w) {
    moe_up_args a = copy_of<moe_up_args>(args);
    std::vector<weight> gate = sent(a.gate, a.experts), up = sent(a.up, a.experts);
    a.gate = gate.data(), a.up = up.data();
    if (a.shared_gate.n) send(&a.shared_gate, 1);
    if (a.shared_up.n) send(&a.shared_up, 1);
    cuda_moe_up(&a, w);
}
static void moe_down_with(const void *args, const tap_args *tap, const cuda_work *w) {
    moe_down_args a = copy_of<moe_down_args>(args);
    std::vector<weight> down = sent(a.down, a.experts);
    a.down = down.data();
    if (a.shared_down.n) send(&a.shared_down, 1);
    cuda_moe_down(&a, tap, w);
}
static void run_moe_down(const void *args, const cuda_work *w) { moe_down_with(args, nullptr, w); }

/* --- how close --- */

static const char *const FAR = "farther from the exact value than additions in any order can be";
static const char *const REFERENCE_FAR = "the reference is too far from the exact value";

/* An element of a block; what was found to be near becomes what is wanted. */
static const char *settle_f32(const number &x, char *got, const char *want) {
    float g, w;
    memcpy(&g, got, sizeof g), memcpy(&w, want, sizeof w);
    memcpy(got, want, sizeof g);
    return !is_near(x, w) ? REFERENCE_FAR : !is_near(x, g) ? FAR : nullptr;
}
static const char *settle_bf16(const number &x, char *got, const char *want) {
    bf16 g, w;
    memcpy(&g, got, sizeof g), memcpy(&w, want, sizeof w);
    memcpy(got, want, sizeof g);
    return !is_near_bf16(x, w) ? REFERENCE_FAR : !is_near_bf16(x, g) ? FAR : nullptr;
}

static int64_t place(const view *v, int64_t row, int32_t column) {
    return row * v->stride + (int64_t)column * dtype_bits(v->type) / 8;
}

/* The value that a row of an argument had when the case was built, which the op may have written since. */
static float first_f32(const tcase *t, const view *v, int64_t row, int32_t column) {
    for (int b = 0; b < t->n_blocks; b++) {
        const block *k = &t->block[b];
        if (k->at == v->data && k->first) return *(const float *)(k->first + place(v, row, column));
    }
    CHECK(!"a block with first contents");
    return 0;
}

static const char *settle_linear(const tcase *t, const block *b, char *got, const char *want) {
    const linear_args *a = (const linear_args *)t->args;
    if (b->at != a->y.data) return nullptr;
    for (int32_t i = 0; i < t->n; i++) {
        exact_row row = exact_row_of(&a->x, live_first(&a->rows) + i, a->norm, a->eps);
        int32_t column = 0;
        for (const weight &w : a->part)
            for (int32_t j = 0; j < w.n; j++, column++) {
                number x = exact_dot(row, &w, j);
                if (a->add.data) {
                    double add = first_f32(t, &a->add, i, column);
                    x.v += add, x.off += (fabs(x.v) + x.off) * ROUNDING;
                }
                int64_t at = place(&a->y, i, column);
                const char *wrong = settle_f32(x, got + at, want + at);
                if (wrong) return wrong;
            }
    }
    return nullptr;
}

static const char *settle_glu(const tcase *t, const block *b, char *got, const char *want) {
    const glu_args *a = (const glu_args *)t->args;
    if (b->at != a->y.data) return nullptr;
    for (int32_t i = 0; i < t->n; i++) {
        exact_row row = exact_row_of(&a->x, live_first(&a->rows) + i, a->norm, a->eps);
        for (int32_t j = 0; j < a->gate.n; j++) {
            number x = exact_glu(exact_dot(row, &a->gate, j), exact_dot(row, &a->up, j));
            int64_t at = place(&a->y, i, j);
            const char *wrong = settle_bf16(x, got + at, want + at);
            if (wrong) return wrong;
        }
    }
    return nullptr;
}

static number exact_score(const route_args *a, const exact_row &row, int32_t e) {
    number r = exact_dot(row, &a->w, e);
    if (a->softcap > 0.0f) {
        r.v = a->softcap * tanh(r.v / a->softcap); /* the slope is at most 1 */
        r.off += a->softcap * 16 * ROUNDING;
    }
    double s = sigmoid_d(r.v); /* and here 1/4; below e^-87 there is nothing in FP32 */
    return { s, r.off / 4 + s * 16 * ROUNDING + 0x1p-120, r.any };
}

/* What this run's scores choose, in FP32 as kernels/moe.h says. */
static void choose(const route_args *a, int32_t i, int32_t *id, float *share) {
    const float *score = (const float *)view_row(&a->score, i);
    std::vector<bool> taken(a->w.n);
    float sum = 0.0f;
    for (int32_t c = 0; c < a->id.cols; c++) {
        int32_t best = -1;
        float high = 0.0f;
        for (int32_t e = 0; e < a->w.n; e++) {
            float v = a->bias ? score[e] + a->bias[e] : score[e];
            if (!taken[e] && (best < 0 || v > high)) best = e, high = v;
        }
        taken[best] = true;
        id[c] = best, share[c] = score[best];
        sum = c ? sum + share[c] : share[c];
    }
    for (int32_t c = 0; a->normalize && c < a->id.cols; c++) share[c] /= sum;
}

/* The two experts are as good as equal. */
static bool is_tie(const route_args *a, const exact_row &row, int32_t e, int32_t f) {
    number x = exact_score(a, row, e), y = exact_score(a, row, f);
    double apart = x.v - y.v;
    if (a->bias) apart += (double)a->bias[e] - (double)a->bias[f];
    return fabs(apart) <= x.off + y.off + 4 * ROUNDING;
}

static const char *settle_choice(const route_args *a, int32_t i, bool ids, char *got, const char *want) {
    int32_t id[64], theirs[64];
    float share[64], mine[64];
    size_t bytes = (size_t)a->id.cols * sizeof *id;
    CHECK(a->id.cols <= 64);
    choose(a, i, id, share);
    memcpy(mine, got, bytes);
    for (int32_t c = 0; !ids && c < a->id.cols; c++)
        if (fabsf(mine[c] - share[c]) > 0x1p-22f * share[c]) return "a share that does not follow from the scores";
    if (ids && memcmp(got, id, bytes) != 0) return "experts that the scores do not choose";
    if (ids && memcmp(got, want, bytes) != 0) {
        exact_row row = exact_row_of(&a->x, i, a->norm, a->eps);
        memcpy(theirs, want, bytes);
        other_experts++;
        for (int32_t c = 0; c < a->id.cols; c++)
            if (id[c] != theirs[c] && !is_tie(a, row, id[c], theirs[c])) return "another expert, by a clear margin";
    }
    memcpy(got, want, bytes);
    return nullptr;
}

static const char *settle_route(const tcase *t, const block *b, char *got, const char *want) {
    const route_args *a = (const route_args *)t->args;
    const char *wrong = nullptr;
    for (int32_t i = 0; i < t->n && !wrong; i++) {
        if (b->at == a->id.data || b->at == a->share.data) {
            int64_t at = b->at == a->id.data ? place(&a->id, i, 0) : place(&a->share, i, 0);
            wrong = settle_choice(a, i, b->at == a->id.data, got + at, want + at);
        } else if (b->at == a->score.data) {
            exact_row row = exact_row_of(&a->x, i, a->norm, a->eps);
            for (int32_t e = 0; e < a->w.n && !wrong; e++) {
                int64_t at = place(&a->score, i, e);
                wrong = settle_f32(exact_score(a, row, e), got + at, want + at);
            }
        }
    }
    return wrong;
}

static const char *settle_moe_up(const tcase *t, const block *b, char *got, const char *want) {
    const moe_up_args *a = (const moe_up_args *)t->args;
    if (b->at != a->h.data) return nullptr;
    for (int32_t i = 0; i < t->n; i++) {
        exact_row row = exact_row_of(&a->x, i, a->norm, a->eps);
        const int32_t *id = (const int32_t *)view_row(&a->id, i);
        for (int32_t c = 0; c <= a->id.cols; c++) {
            const weight *gate = c < a->id.cols ? &a->gate[id[c]] : &a->shared_gate;
            const weight *up = c < a->id.cols ? &a->up[id[c]] : &a->shared_up;
            for (int32_t j = 0; j < gate->n; j++) {
                number x = exact_glu(exact_dot(row, gate, j), exact_dot(row, up, j));
                int64_t at = place(&a->h, (int64_t)i * (a->id.cols + 1) + c, j);
                const char *wrong = settle_bf16(x, got + at, want + at);
                if (wrong) return wrong;
            }
        }
    }
    return nullptr;
}

static const char *settle_moe_down(const tcase *t, const block *b, char *got, const char *want) {
    const moe_down_args *a = (const moe_down_args *)t->args;
    int32_t cols = a->id.cols;
    if (b->at != a->x.data) return nullptr;
    for (int32_t i = 0; i < t->n; i++) {
        const int32_t *id = (const int32_t *)view_row(&a->id, i);
        const float *share = (const float *)view_row(&a->share, i);
        std::vector<exact_row> h;
        for (int32_t c = 0; c <= cols; c++)
            h.push_back(exact_row_of(&a->h, (int64_t)i * (cols + 1) + c, nullptr, 0.0f));
        for (int32_t j = 0; j < a->x.cols; j++) {
            number x = { first_f32(t, &a->x, i, j), 0.0, false };
            double size = fabs(x.v);
            for (int32_t c = 0; c <= cols; c++) {
                if (c == cols && !a->shared_down.n) break;
                number d = exact_dot(h[c], c < cols ? &a->down[id[c]] : &a->shared_down, j);
                double factor = c < cols ? (double)a->scale * share[c] : 1.0;
                x.v += factor * d.v, x.off += fabs(factor) * d.off;
                size += fabs(factor) * (fabs(d.v) + d.off);
            }
            x.off += (cols + 6) * ROUNDING * size; /* shares, scale, shared part, residual */
            int64_t at = place(&a->x, i, j);
            const char *wrong = settle_f32(x, got + at, want + at);
            if (wrong) return wrong;
        }
    }
    return nullptr;
}

/* --- cases --- */

static bool uneven(const weight *w, int32_t n) {
    for (int32_t e = 1; e < n; e++)
        if (w[e].n != w[0].n || w[e].k != w[0].k || w[e].type != w[0].type) return true;
    return false;
}
static const char *const UNEVEN = "experts of different shapes or types are refused by the upload";
static const char *refuses_up(const tcase *t) {
    const moe_up_args *a = (const moe_up_args *)t->args;
    return uneven(a->gate, a->experts) || uneven(a->up, a->experts) ? UNEVEN : nullptr;
}
static const char *refuses_down(const tcase *t) {
    const moe_down_args *a = (const moe_down_args *)t->args;
    return uneven(a->down, a->experts) ? UNEVEN : nullptr;
}

static const cuda_op OPS[] = {
    { OP_LINEAR, run_linear, CUDA_SCRATCH(linear), settle_linear, nullptr, true, COUNTS },
    { OP_GLU, run_glu, CUDA_SCRATCH(glu), settle_glu, nullptr, true, COUNTS },
    { OP_ROUTE, run_route, CUDA_SCRATCH(route), settle_route, nullptr, true, COUNTS },
    { OP_MOE_UP, run_moe_up, CUDA_SCRATCH(moe_up), settle_moe_up, refuses_up, true, COUNTS },
    { OP_MOE_DOWN, run_moe_down, CUDA_SCRATCH(moe_down), settle_moe_down, refuses_down, true, COUNTS },
};
/* ThreadSanitizer has clocks for 256 threads; the blocks of moe_down, the last op, have 384. */
#if defined(__SANITIZE_THREAD__)
enum { N_OPS = sizeof OPS / sizeof *OPS - 1 };
#else
enum { N_OPS = sizeof OPS / sizeof *OPS };
#endif
enum { HAS_MOE_DOWN = N_OPS == 5 };

static void test_cases(void **) {
    const case_list list[] = { cases_linear(), cases_moe() };
    assert_int_equal(cuda_check(list, 2, OPS, N_OPS, nullptr, false), 0);
    printf("%d rows with other experts than the reference's, all within the bound\n", other_experts);
}

/* --- wrong on purpose --- */

static void next_scale(std::string *, std::string *scale, const weight *w) {
    if (w->type == DT_MXFP4) (*scale)[scale->size() - 1]++;
}
static void swapped_nibbles(std::string *data, std::string *, const weight *w) {
    if (w->type == DT_MXFP4) data->back() = (char)((data->back() & 15) << 4 | (data->back() >> 4 & 15));
}
static void no_last_columns(std::string *data, std::string *, const weight *w) {
    size_t row = (size_t)(w->type == DT_MXFP4 ? w->k / 2 : w->k * 2);
    for (int32_t j = 0; j < w->n; j++) memset(data->data() + ((size_t)j + 1) * row - row / 8, 0, row / 8);
}
static void rows_exchanged(std::string *data, std::string *, const weight *w) {
    size_t row = data->size() / (size_t)w->n;
    if (w->n > 8) data->replace(0, row, data->substr(8 * row, row));
}

/* Tokens behind each other by one. */
static void other_row(const void *args, const cuda_work *w) {
    linear_args a = linear_up(args);
    int32_t first = live_first(&a.rows) - 1;
    a.rows.first = &first;
    cuda_linear(&a, nullptr, w);
}
static void down_other_share(const void *args, const cuda_work *w) {
    moe_down_args a;
    memcpy((void *)&a, args, sizeof a);
    a.scale *= 1.0f + 0x1p-12f;
    run_moe_down(&a, w);
}

static void test_wrong(void **) {
    const case_list list[] = { cases_linear(), cases_moe() };
    static const struct {
        int op;
        void (*spoil)(std::string *, std::string *, const weight *);
        const char *name;
    } SPOILT[] = {
        { 0, next_scale, "mxfp4" },        { 0, swapped_nibbles, "mxfp4" },  { 0, no_last_columns, "plain" },
        { 0, rows_exchanged, "long" },     { 1, swapped_nibbles, "mxfp4" },  { 1, no_last_columns, "odd" },
        { 2, no_last_columns, "softcap" }, { 2, rows_exchanged, "plain" },   { 3, next_scale, "plain" },
        { 3, swapped_nibbles, "all" },     { 3, no_last_columns, "shared" }, { 4, next_scale, "plain" },
        { 4, rows_exchanged, "bf16" },     { 4, no_last_columns, "odd" },
    };
    for (const auto &x : SPOILT) {
        if (x.op >= N_OPS) continue;
        spoil = x.spoil;
        if (cuda_check(list, 2, &OPS[x.op], 1, x.name, true) == 0)
            fail_msg("%s/%s: spoilt weights are not seen", op_name(OPS[x.op].id), x.name);
    }
    spoil = nullptr;
    cuda_op op = OPS[0];
    op.run = other_row;
    assert_true(cuda_check(list, 2, &op, 1, "odd length, norm", true) > 0); /* its rows begin at 1 */
    if (!HAS_MOE_DOWN) return;
    op = OPS[4];
    op.run = down_other_share;
    assert_true(cuda_check(list, 2, &op, 1, "plain", true) > 0);
}

/* --- taps --- */

enum { TAP_SLOTS = 13 };

static const op_case *case_of(const case_list &l, op_id id, const char *name) {
    for (int i = 0; i < l.n; i++)
        if (l.at[i].id == id && strcmp(l.at[i].name, name) == 0) return &l.at[i];
    fail_msg("there is no case %s", name);
    return nullptr;
}

struct tapped {
    std::string rows, ring;
};

/* The op and its tap, in one launch or in two. */
static tapped run_tapped(tcase *t, const view *x, bool one,
                         const std::function<void(const tap_args *, cuda_work *)> &op, size_t scratch_bytes) {
    static int32_t counters[CUDA_COUNTERS];
    static row_set rows;
    std::vector<bf16> ring((size_t)TAP_SLOTS * 2 * (size_t)x->cols, 0x5A5A);
    std::string scratch(scratch_bytes + 256, (char)0xFF);
    rows.n = t->n, rows.base = 100, rows.chain = 1;
    tap_args tap = { *x, { ring.data(), 4 * x->cols, TAP_SLOTS, 2 * x->cols, DT_BF16 }, x->cols, &rows };
    cuda_work w = {};
    w.counters = counters;
    w.scratch = (char *)(((uintptr_t)scratch.data() + 255) / 256 * 256), w.scratch_bytes = scratch_bytes;
    for (int b = 0; b < t->n_blocks; b++)
        if (t->block[b].kind == BLOCK_STATE) memcpy(t->block[b].at, t->block[b].first, t->block[b].bytes);
    op(one ? &tap : nullptr, &w);
    if (!one) cuda_tap(&tap, &w);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    return { std::string((const char *)x->data, (size_t)(x->stride * t->n)),
             std::string((const char *)ring.data(), ring.size() * sizeof(bf16)) };
}

static void check_tapped(const case_list &l, op_id id, const char *name, int32_t rows) {
    tcase t;
    tcase_init_aligned(&t, case_of(l, id, name), rows, CASE_ALONE_NONE, 64);
    const linear_args *linear = (const linear_args *)t.args;
    const moe_down_args *down = (const moe_down_args *)t.args;
    auto op = [&](const tap_args *tap, cuda_work *w) {
        if (id == OP_MOE_DOWN) {
            moe_down_with(down, tap, w);
        } else {
            linear_args a = linear_up(linear);
            cuda_linear(&a, tap, w);
        }
    };
    const view *x = id == OP_LINEAR ? &linear->y : &down->x;
    size_t scratch = id == OP_LINEAR ? cuda_scratch_linear(linear) : cuda_scratch_moe_down(down);
    tapped two = run_tapped(&t, x, false, op, scratch), one = run_tapped(&t, x, true, op, scratch);
    if (two.rows != one.rows) fail_msg("%s, %d rows: a tap changes the result", op_name(id), rows);
    if (two.ring != one.ring) fail_msg("%s, %d rows: the tap is another one in one launch", op_name(id), rows);
    tcase_deinit(&t);
}

static void test_tapped(void **) {
    static const int32_t ROWS[] = { 1, 7, 8, 16, 31, 32, 70 };
    for (int32_t rows : ROWS) {
        check_tapped(cases_linear(), OP_LINEAR, "norm and self", rows);
        check_tapped(cases_linear(), OP_LINEAR, "mxfp4, one group", rows);
        if (HAS_MOE_DOWN) check_tapped(cases_moe(), OP_MOE_DOWN, "plain", rows);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_tapped),
    };
    open_gpu();
    int failed = cmocka_run_group_tests(tests, nullptr, nullptr);
    device_close(gpu);
    return failed;
}
