#include "tests/simt/cuda_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <vector>

extern "C" {
#include "kernels/ref/ref.h"
}
#include "tests/simt/simt_control.h"

enum { GUARD = 256, ALIGNED = 64 };
static const uint8_t POISON[2] = { 0xA5, 0x5B };

static const struct {
    simt_order order;
    uint64_t seed;
    int poison;
} RUNS[] = { { SIMT_FORWARD, 0, 0 }, { SIMT_REVERSED, 0, 1 }, { SIMT_SHUFFLED, 17, 0 } };

typedef std::vector<std::string> contents; /* of each block */

struct trial {
    const cuda_op *op;
    const tcase *t;
    bool quiet, ok;
};

static void complain(trial *tr, const char *what, long at) {
    if (!tr->ok) return;
    tr->ok = false;
    if (tr->quiet) return;
    const tcase *t = tr->t;
    printf("%s/%s rows %d alone %d align %d: %s (%ld)\n", op_name(t->c->id), t->c->name, t->rows, t->alone, t->align,
           what, at);
}

/* --- running --- */

static void prepare(tcase *t, int poison) {
    for (int b = 0; b < t->n_blocks; b++) {
        block *k = &t->block[b];
        if (k->kind == BLOCK_OUTPUT) memset(k->at, POISON[poison], k->bytes);
        if (k->kind == BLOCK_STATE) memcpy(k->at, k->first, k->bytes);
    }
}

static contents take(const tcase *t) {
    contents c;
    for (int b = 0; b < t->n_blocks; b++) c.emplace_back(t->block[b].at, t->block[b].bytes);
    return c;
}

static contents run_ref(tcase *t, pool *one) {
    err e;
    prepare(t, 0);
    CHECK(pool_reserve(one, op_lane_scratch(t->c->id, t->args, 1), &e) == OK);
    pool_run(
        one, false, [](void *arg, const lane *ln) { ref_table[((tcase *)arg)->c->id](((tcase *)arg)->args, ln); }, t);
    if (t->c->settle) t->c->settle(t);
    return take(t);
}

static void check_fences(trial *tr) {
    for (int b = 0; b < tr->t->n_blocks; b++) {
        const block *k = &tr->t->block[b];
        if (k->kind == BLOCK_INPUT && memcmp(k->at, k->first, k->bytes) != 0) complain(tr, "an input was written", b);
        for (const char *c = k->mem; c < k->at; c++)
            if ((uint8_t)*c != 0xC3) complain(tr, "a write before a block", b);
        for (int i = 0; i < CASE_GUARD; i++)
            if ((uint8_t)k->at[k->bytes + (size_t)i] != 0xC3) complain(tr, "a write behind a block", b);
    }
}

static contents run_cuda(trial *tr, int how) {
    static int32_t counters[CUDA_COUNTERS];
    tcase *t = (tcase *)tr->t;
    size_t bytes = tr->op->scratch ? tr->op->scratch(t->args) : 0;
    char *scratch = (char *)aligned_alloc(256, (bytes + GUARD + 255) / 256 * 256);
    cuda_work w = {};
    memset(scratch, POISON[RUNS[how].poison], bytes + GUARD);
    memset(counters, 0, sizeof counters);
    w.counters = counters;
    w.scratch = scratch;
    w.scratch_bytes = bytes;
    prepare(t, RUNS[how].poison);
    simt_set_order(RUNS[how].order, RUNS[how].seed);
    tr->op->run(t->args, &w);
    if (cudaGetLastError() != cudaSuccess) complain(tr, "a launch failed", how);
    for (size_t i = 0; i < GUARD; i++)
        if ((uint8_t)scratch[bytes + i] != POISON[RUNS[how].poison])
            complain(tr, "a write behind the scratch", (long)i);
    for (int i = 0; i < CUDA_COUNTERS; i++)
        if (counters[i]) complain(tr, "a counter is not 0", i);
    free(scratch);
    check_fences(tr);
    if (t->c->settle) t->c->settle(t);
    return take(t);
}

/* --- comparing --- */

const char *cuda_settle_floats(const block *b, char *got, const char *want, float rel, float abs) {
    size_t size = b->type == DT_F32 ? sizeof(float) : sizeof(bf16);
    for (size_t at = 0; at + size <= b->bytes; at += size) {
        if (memcmp(got + at, want + at, size) == 0) continue;
        float g, w;
        if (b->type == DT_F32) {
            memcpy(&g, got + at, size), memcpy(&w, want + at, size);
            if (!(fabsf(g - w) <= rel * fabsf(w) + abs)) return "too far from the reference";
        } else {
            int16_t x, y;
            memcpy(&x, got + at, size), memcpy(&y, want + at, size);
            if (x - y > 1 || y - x > 1) return "more than one step from the reference";
        }
        memcpy(got + at, want + at, size);
    }
    return nullptr;
}

static void compare(trial *tr, const contents &got, const contents &want) {
    for (int b = 0; b < tr->t->n_blocks; b++) {
        std::string mine = got[b];
        const char *wrong =
            tr->op->settle ? tr->op->settle(tr->t, &tr->t->block[b], mine.data(), want[b].data()) : nullptr;
        if (wrong) complain(tr, wrong, b);
        for (size_t i = 0; i < mine.size(); i++)
            if (mine[i] != want[b][i]) complain(tr, "differs from the reference: block", b * 100000L + (long)i);
    }
}

/* The same bits, or both times the poison. */
static void compare_runs(trial *tr, const contents &a, int how_a, const contents &b, int how_b) {
    for (size_t k = 0; k < a.size(); k++)
        for (size_t i = 0; i < a[k].size(); i++) {
            bool untouched =
                (uint8_t)a[k][i] == POISON[RUNS[how_a].poison] && (uint8_t)b[k][i] == POISON[RUNS[how_b].poison];
            if (a[k][i] != b[k][i] && !untouched) complain(tr, "depends on the order of threads: run", how_b);
        }
}

/* Results of row `row` of the whole call and of the same row alone. */
static void compare_row(trial *tr, const contents &alone, const tcase *whole, const contents &all, int32_t row) {
    int at = 0;
    for (int i = 0; i < whole->n_results; i++) {
        const result *w = &whole->result[i];
        if (w->row != row) continue;
        CHECK(at < tr->t->n_results);
        const result *g = &tr->t->result[at++];
        if (memcmp(alone[g->block].data() + g->at, all[w->block].data() + w->at, w->bytes) != 0)
            complain(tr, "a row alone has other bits: row", row);
    }
}

/* --- the whole --- */

static int finish(const trial *tr) { return tr->ok ? 0 : 1; }

static int check_rows(const cuda_op *op, const op_case *c, int32_t rows, int32_t align, pool *one, bool quiet,
                      contents *results) {
    tcase t;
    tcase_init_aligned(&t, c, rows, CASE_ALONE_NONE, align);
    trial tr = { op, &t, quiet, true };
    contents want = run_ref(&t, one), first = run_cuda(&tr, 0);
    compare(&tr, first, want);
    for (int how = 1; how < (int)(sizeof RUNS / sizeof *RUNS); how++)
        compare_runs(&tr, first, 0, run_cuda(&tr, how), how);
    int failed = finish(&tr);
    results->clear();
    for (int i = 0; i < t.n_results; i++) /* what does not depend on where rows lie */
        results->push_back(first[t.result[i].block].substr(t.result[i].at, t.result[i].bytes));
    for (int32_t r = 0; r < rows && t.n_results; r += rows > NODES_MAX ? 85 : rows > 8 ? 5 : 1) {
        tcase alone;
        tcase_init_aligned(&alone, c, rows, r, align);
        trial ta = { op, &alone, quiet, true };
        compare_row(&ta, run_cuda(&ta, 0), &t, first, r);
        failed += finish(&ta);
        tcase_deinit(&alone);
    }
    tcase_deinit(&t);
    return failed;
}

/* Told once, for a call with one row. */
static bool is_refused(const cuda_op *op, const op_case *c, bool quiet) {
    if (!op->refuses) return false;
    tcase t;
    tcase_init_aligned(&t, c, 1, CASE_ALONE_NONE, ALIGNED);
    const char *why = op->refuses(&t);
    if (why && !quiet) printf("skip %s/%s: %s\n", op_name(c->id), c->name, why);
    tcase_deinit(&t);
    return why != nullptr;
}

static int check_count(const cuda_op *op, const op_case *c, int32_t rows, pool *one, bool quiet) {
    contents packed, aligned;
    int failed = check_rows(op, c, rows, ALIGNED, one, quiet, &aligned);
    if (op->aligned) return failed;
    failed += check_rows(op, c, rows, 1, one, quiet, &packed);
    if (packed != aligned) {
        if (!quiet) printf("%s/%s rows %d: bits depend on where rows lie\n", op_name(c->id), c->name, rows);
        failed++;
    }
    return failed;
}

static int check_case(const cuda_op *op, const op_case *c, pool *one, bool quiet) {
    static const int32_t COUNTS[] = { 0, 1, 2, 7, 16, -1 };
    if (is_refused(op, c, quiet)) return 0;
    if (c->rows) return check_count(op, c, c->rows, one, quiet);
    int failed = 0;
    for (const int32_t *rows = op->counts ? op->counts : COUNTS; *rows >= 0; rows++)
        failed += check_count(op, c, *rows, one, quiet);
    /* a bucket is one larger than the rows of a case */
    return failed + (c->wide ? check_count(op, c, PREFILL_MAX - 1, one, quiet) : 0);
}

int cuda_check(const case_list *list, int lists, const cuda_op *op, int ops, const char *pattern, bool quiet) {
    pool *one;
    err e;
    int failed = 0, cases = 0;
    CHECK(pool_open(&one, 1, &e) == OK);
    for (int l = 0; l < lists; l++)
        for (int i = 0; i < list[l].n; i++)
            for (int o = 0; o < ops; o++) {
                const op_case *c = &list[l].at[i];
                if (c->id != op[o].id || (pattern && !strstr(c->name, pattern))) continue;
                failed += check_case(&op[o], c, one, quiet);
                cases++;
            }
    pool_close(one);
    CHECK(cases > 0);
    return failed;
}
