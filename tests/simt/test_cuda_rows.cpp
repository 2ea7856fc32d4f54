/* The block's ops and those that take rows one by one, on CUDA kernels, against the reference. */
#include "tests/simt/cuda_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" {
#include <cmocka.h>
#include "engine/core/pick_lists.h"
#include "kernels/ref/ref.h"
}
#include "tests/simt/simt_control.h"

/* Two ways of adding n squares in FP32: each of m operations in a row is off by at most 2^-24, m = n / 16 + 4 for the
 * reference and n / 32 + 5 + 3 here; half of it is left behind the root. Five more roundings each: mean, eps, root,
 * quotient and the two products, of which the mean and eps count half. The last term is the CPU's flush to zero. */
static const char *settle_norm(const block *b, char *got, const char *want, int32_t n) {
    if (b->type != DT_F32 && b->type != DT_BF16) return nullptr;
    float m = (float)(n / 16 + 4 + n / 32 + 9);
    return cuda_settle_floats(b, got, want, (0.5f * m + 10.0f) * 0x1p-24f, 0x1p-126f);
}

static const cuda_op OPS[] = {
    { OP_BEGIN, CUDA_RUN(begin), nullptr, nullptr },
    { OP_TREE, CUDA_RUN(tree), nullptr, nullptr },
    { OP_ACCEPT, CUDA_RUN(accept), nullptr, nullptr },
    { OP_STAMP, CUDA_RUN(stamp), nullptr, nullptr },
    { OP_EMBED, CUDA_RUN(embed), nullptr, nullptr },
    { OP_ROPE, CUDA_RUN(rope), nullptr, nullptr },
    { OP_TAP, CUDA_RUN(tap), nullptr, nullptr },
    { OP_NORM, CUDA_RUN(norm), nullptr,
      [](const tcase *t, const block *b, char *got, const char *want) {
          return b->kind == BLOCK_OUTPUT ? settle_norm(b, got, want, ((const norm_args *)t->args)->x.cols) : nullptr;
      } },
    { OP_TAP_NORM, CUDA_RUN(tap_norm), nullptr,
      [](const tcase *t, const block *b, char *got, const char *want) {
          const tap_norm_args *a = (const tap_norm_args *)t->args;
          return b->kind == BLOCK_OUTPUT ? settle_norm(b, got, want, a->ring.cols / a->taps) : nullptr;
      } },
};
enum { N_OPS = sizeof OPS / sizeof *OPS };

static void test_cases(void **) {
    const case_list list[] = { cases_step(), cases_rows(), cases_tap() };
    assert_int_equal(cuda_check(list, 3, OPS, N_OPS, nullptr, false), 0);
}

/* --- wrong on purpose --- */

template <class A> static A copy_of(const void *args) {
    A a;
    memcpy((void *)&a, args, sizeof a);
    return a;
}

static void norm_other_eps(const void *args, const cuda_work *w) {
    norm_args a = copy_of<norm_args>(args);
    a.eps *= 4.0f;
    cuda_norm(&a, w);
}
static void norm_a_row_too_many(const void *args, const cuda_work *w) {
    norm_args a = copy_of<norm_args>(args);
    int32_t n = *a.rows.n + 1;
    a.rows.n = &n;
    cuda_norm(&a, w);
}
static void embed_not_all_columns(const void *args, const cuda_work *w) {
    embed_args a = copy_of<embed_args>(args);
    a.y.cols--;
    cuda_embed(&a, w);
}
static void rope_no_factor(const void *args, const cuda_work *w) {
    rope_args a = copy_of<rope_args>(args);
    a.factor = 1.0f;
    cuda_rope(&a, w);
}
static void tap_next_column(const void *args, const cuda_work *w) {
    tap_args a = copy_of<tap_args>(args);
    a.column++;
    cuda_tap(&a, w);
}
static void begin_smaller_window(const void *args, const cuda_work *w) {
    begin_args a = copy_of<begin_args>(args);
    a.window = 3;
    cuda_begin(&a, w);
}
static void tree_fewer_rows(const void *args, const cuda_work *w) {
    tree_args a = copy_of<tree_args>(args);
    a.rows_max = 3;
    cuda_tree(&a, w);
}
static void accept_twice(const void *args, const cuda_work *w) {
    cuda_accept((const accept_args *)args, w);
    cuda_accept((const accept_args *)args, w);
}

static void test_wrong(void **) {
    const case_list list[] = { cases_step(), cases_rows(), cases_tap() };
    static const struct {
        int op;
        void (*run)(const void *, const cuda_work *);
        const char *name;
    } WRONG[] = {
        { 7, norm_other_eps, "eps decides" },  { 7, norm_a_row_too_many, "to FP32" },
        { 4, embed_not_all_columns, nullptr }, { 5, rope_no_factor, "far, scaled" },
        { 6, tap_next_column, "first tap" },   { 0, begin_smaller_window, "context" },
        { 1, tree_fewer_rows, "branches" },    { 2, accept_twice, "round" },
    };
    for (const auto &x : WRONG) {
        cuda_op op = OPS[x.op];
        op.run = x.run;
        assert_true(cuda_check(list, 3, &op, 1, x.name, true) > 0);
    }
}

/* --- what the CPU does not have --- */

static cuda_work no_work() {
    cuda_work w = {};
    return w;
}

/* Counting on the device leaves the lists as pick_lists_count does. */
static void test_counted(void **) {
    enum { V = 40 };
    step_params *p = (step_params *)calloc(1, sizeof *p);
    pick_lists host, mine;
    cuda_work w = no_work();
    pick_lists_init(&host, V), pick_lists_init(&mine, V);
    uint32_t x = 1;
    for (int round = 0; round < 200; round++) {
        static const int32_t COUNTS[] = { 0, 1, 2, 8, 31, 256 };
        int32_t n = p->in.n_counted = COUNTS[round % 6];
        for (int32_t i = 0; i < n; i++) p->in.counted[i] = (int32_t)((x = x * 1664525u + 1013904223u) >> 16) % V;
        begin_args a = { p, STEP_PLAIN, 1, 0, 0, &mine };
        simt_set_order((simt_order)(round % 3), (uint64_t)round);
        cuda_begin(&a, &w);
        pick_lists_count(&host, p->in.counted, n);
        assert_int_equal(mine.n_seen, host.n_seen);
        assert_memory_equal(mine.seen, host.seen, (size_t)host.n_seen * sizeof *host.seen);
        assert_memory_equal(mine.count, host.count, V * sizeof *host.count);
        assert_int_equal(p->out.fault, FAULT_NONE);
        if (round % 50 == 49) pick_lists_clear(&host), pick_lists_clear(&mine);
    }
    pick_lists_deinit(&host), pick_lists_deinit(&mine);
    free(p);
}

static void test_publish(void **) {
    step_params *p = (step_params *)calloc(1, sizeof *p);
    step_out *host = (step_out *)calloc(1, sizeof *host);
    cuda_work w = no_work();
    w.host_out = host;
    for (size_t i = 0; i < sizeof p->out; i++) ((uint8_t *)&p->out)[i] = (uint8_t)(i * 7 + 1);
    cuda_publish(p, &w);
    assert_memory_equal(host, &p->out, offsetof(step_out, seq));
    assert_int_equal(host->seq, p->out.seq);
    free(host);
    free(p);
}

/* Values that cannot be are told, and nothing beside the block is touched (the sanitizers look). */
static void test_faults(void **) {
    step_params *p = (step_params *)malloc(sizeof *p);
    cuda_work w = no_work();
    for (int v = 0; v < 4; v++) {
        static const int32_t BAD[] = { -1, 1000000, INT32_MAX, INT32_MIN };
        memset(p, 0, sizeof *p);
        p->in.rows = BAD[v];
        begin_args begin = { p, STEP_PREFILL, 16, 0, 0, nullptr };
        cuda_begin(&begin, &w);
        assert_int_equal(p->out.fault, FAULT_BEGIN);

        int32_t id[8] = { 0 };
        float logp[8] = { 0 };
        p->out.fault = FAULT_NONE;
        p->in.branch = 1, p->in.nodes_max = 31, p->in.n_proposals = BAD[v], p->st.draft_head_n = BAD[v];
        tree_args tree = { p, { id, 4, 8, 1, DT_I32 }, { logp, 4, 8, 1, DT_F32 }, NODES_MAX };
        cuda_tree(&tree, &w);
        assert_int_equal(p->out.fault, FAULT_TREE);

        p->out.fault = FAULT_NONE;
        p->st.rows.n = BAD[v];
        accept_args accept = { p, STEP_ROUND };
        cuda_accept(&accept, &w);
        assert_int_equal(p->out.fault, FAULT_ACCEPT);
    }
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),   cmocka_unit_test(test_wrong),  cmocka_unit_test(test_counted),
        cmocka_unit_test(test_publish), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
