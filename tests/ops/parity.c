#include "tests/ops/parity.h"

#include "engine/base/mem.h"
#include "kernels/ref/ref.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { POISONS = 2, SCRATCH_GUARD = 256, REPORTS = 20 };

static const uint8_t POISON[POISONS] = { 0xA5, 0x5B };

/* What a run left in the blocks that are not inputs, one after the other. */
typedef struct snapshot {
    char *at;
    size_t bytes;
} snapshot;

/* Who ran what, for messages; ok turns false on the first of them. */
typedef struct trial {
    parity *p;
    const tcase *t;
    const char *impl;
    int lanes;
    bool ok;
} trial;

static void __attribute__((format(printf, 2, 3))) complain(trial *tr, const char *fmt, ...) {
    if (!tr->ok) return; /* one message a trial */
    tr->ok = false;
    if (tr->p->quiet || tr->p->failed >= REPORTS) return;
    const tcase *t = tr->t;
    printf("%s/%s rows %d", op_name(t->c->id), t->c->name, t->rows);
    if (t->alone != CASE_ALONE_NONE) printf(" (row %d alone)", t->alone);
    printf(" %s lanes %d: ", tr->impl, tr->lanes);
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

static void count(trial *tr) { *(tr->ok ? &tr->p->passed : &tr->p->failed) += 1; }

/* --- running --- */

typedef struct job {
    op_fn *fn;
    const void *args;
    size_t scratch;
    bool overrun[PARITY_LANES];
} job;

static void run_lane(void *arg, const lane *ln) {
    job *j = arg;
    lane mine = *ln;
    uint8_t *guard = (uint8_t *)ln->scratch + j->scratch;
    memset(ln->scratch, POISON[0], j->scratch + SCRATCH_GUARD);
    mine.scratch_bytes = j->scratch;
    j->fn(j->args, &mine);
    for (int i = 0; i < SCRATCH_GUARD; i++) j->overrun[ln->id] |= guard[i] != POISON[0];
}

static void prepare(tcase *t, uint8_t poison) {
    for (int b = 0; b < t->n_blocks; b++) {
        block *k = &t->block[b];
        if (k->kind == BLOCK_OUTPUT) memset(k->at, poison, k->bytes);
        if (k->kind == BLOCK_STATE) memcpy(k->at, k->first, k->bytes);
    }
}

static void check_fences(trial *tr) {
    for (int b = 0; b < tr->t->n_blocks; b++) {
        const block *k = &tr->t->block[b];
        if (k->kind == BLOCK_INPUT && memcmp(k->at, k->first, k->bytes) != 0)
            complain(tr, "input block %d was written", b);
        for (const char *c = k->mem; c < k->at; c++)
            if ((uint8_t)*c != 0xC3) complain(tr, "write %td bytes before block %d", k->at - c, b);
        for (int i = 0; i < CASE_GUARD; i++)
            if ((uint8_t)k->at[k->bytes + (size_t)i] != 0xC3) complain(tr, "write %d bytes behind block %d", i, b);
    }
}

static void run(trial *tr, op_fn *fn, uint8_t poison) {
    tcase *t = (tcase *)(uintptr_t)tr->t;
    pool *lanes = tr->p->pool[tr->lanes];
    job j = { .fn = fn, .args = t->args, .scratch = op_lane_scratch(t->c->id, t->args, tr->lanes) };
    CHECK(pool_reserve(lanes, j.scratch + SCRATCH_GUARD, NULL) == OK);
    prepare(t, poison);
    pool_run(lanes, false, run_lane, &j);
    for (int i = 0; i < tr->lanes; i++)
        if (j.overrun[i]) complain(tr, "lane %d left its scratch of %zu bytes", i, j.scratch);
    check_fences(tr);
    if (t->c->settle) t->c->settle(t);
}

/* --- comparing --- */

static snapshot snapshot_take(const tcase *t) {
    snapshot s = { 0 };
    for (int b = 0; b < t->n_blocks; b++)
        if (t->block[b].kind != BLOCK_INPUT) s.bytes += t->block[b].bytes;
    s.at = xalloc(s.bytes);
    char *to = s.at;
    for (int b = 0; b < t->n_blocks; b++) {
        const block *k = &t->block[b];
        if (k->kind == BLOCK_INPUT) continue;
        memcpy(to, k->at, k->bytes);
        to += k->bytes;
    }
    return s;
}

static const char *snapshot_block(const snapshot *s, const tcase *t, int b) {
    const char *at = s->at;
    for (int i = 0; i < b; i++)
        if (t->block[i].kind != BLOCK_INPUT) at += t->block[i].bytes;
    return at;
}

/* Bytes from `at` on that are one element and differ; 0 when they do not. Any NaN equals any other. */
static size_t differs(dtype type, const char *a, const char *b) {
    if (type == DT_F32) {
        float x, y;
        memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
        return memcmp(a, b, sizeof x) == 0 || (x != x && y != y) ? 0 : sizeof x;
    }
    if (type == DT_BF16) {
        bf16 x, y;
        memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
        return x == y || ((x & 0x7FFF) > 0x7F80 && (y & 0x7FFF) > 0x7F80) ? 0 : sizeof x;
    }
    if (type == DT_E4M3) return *a != *b && ((*a & 0x7F) != 0x7F || (*b & 0x7F) != 0x7F);
    return *a != *b;
}

static void compare(trial *tr, dtype type, const char *got, const char *want, size_t bytes, int b) {
    if (memcmp(got, want, bytes) == 0) return;
    size_t step = type == DT_F32 ? sizeof(float) : type == DT_BF16 ? sizeof(bf16) : 1;
    for (size_t i = 0; i + step <= bytes; i += step) {
        if (!differs(type, got + i, want + i)) continue;
        uint32_t g = 0, w = 0;
        memcpy(&g, got + i, step), memcpy(&w, want + i, step);
        complain(tr, "block %d byte %zu: %0*x, expected %0*x", b, i, (int)step * 2, g, (int)step * 2, w);
        return;
    }
}

static void compare_all(trial *tr, const snapshot *want) {
    for (int b = 0; b < tr->t->n_blocks; b++) {
        const block *k = &tr->t->block[b];
        if (k->kind != BLOCK_INPUT) compare(tr, k->type, k->at, snapshot_block(want, tr->t, b), k->bytes, b);
    }
}

/* Results of row `row` of the whole call against those of the same row alone, which is live row 0 there. */
static void compare_row(trial *tr, const tcase *whole, const snapshot *want, int32_t row) {
    int at = 0;
    for (int i = 0; i < whole->n_results; i++) {
        const result *w = &whole->result[i];
        if (w->row != row) continue;
        CHECK(at < tr->t->n_results);
        const result *g = &tr->t->result[at++];
        CHECK(g->bytes == w->bytes && g->row == 0);
        const block *k = &tr->t->block[g->block];
        compare(tr, k->type, k->at + g->at, snapshot_block(want, whole, w->block) + w->at, w->bytes, w->block);
    }
    CHECK(at == 0 || at == tr->t->n_results);
}

/* --- the reference itself --- */

/* Only live rows of outputs are written. */
static void check_live(trial *tr, uint8_t poison) {
    for (int b = 0; b < tr->t->n_blocks; b++) {
        const block *k = &tr->t->block[b];
        if (k->kind != BLOCK_OUTPUT || k->stride == 0) continue;
        for (int64_t i = 0; i < (int64_t)k->bytes; i++) {
            bool open = i / k->stride < k->live && i % k->stride < k->row_bytes;
            if (!open && (uint8_t)k->at[i] != poison)
                complain(tr, "block %d byte %lld is in no live row", b, (long long)i);
        }
    }
}

/* What was written lies in spans that op_spans calls written. */
static void check_spans(trial *tr, uint8_t poison) {
    span spans[SPANS_MAX];
    int n = op_spans(tr->t->c->id, tr->t->args, spans);
    for (int b = 0; b < tr->t->n_blocks; b++) {
        const block *k = &tr->t->block[b];
        for (size_t i = 0; k->kind != BLOCK_INPUT && i < k->bytes; i++) {
            const char *c = k->at + i;
            if (*c == (k->kind == BLOCK_OUTPUT ? (char)poison : k->first[i])) continue;
            bool known = false;
            for (int s = 0; s < n; s++)
                known |= spans[s].write && c >= (const char *)spans[s].data &&
                         c < (const char *)spans[s].data + spans[s].bytes;
            if (!known) complain(tr, "block %d byte %zu is in no written span", b, i);
        }
    }
}

/* The same result on both poisons, or both times the poison. */
static void check_poison(trial *tr, const snapshot s[POISONS]) {
    for (size_t i = 0; i < s[0].bytes; i++) {
        bool untouched = (uint8_t)s[0].at[i] == POISON[0] && (uint8_t)s[1].at[i] == POISON[1];
        if (s[0].at[i] != s[1].at[i] && !untouched) complain(tr, "depends on what was in the output (byte %zu)", i);
    }
}

static void reference(parity *p, tcase *t, snapshot want[POISONS]) {
    trial tr = { p, t, "ref", 1, true };
    for (int i = 0; i < POISONS; i++) {
        run(&tr, ref_table[t->c->id], POISON[i]);
        check_live(&tr, POISON[i]);
        check_spans(&tr, POISON[i]);
        want[i] = snapshot_take(t);
    }
    check_poison(&tr, want);
    count(&tr);
}

/* --- the whole --- */

static void against(parity *p, tcase *t, const snapshot want[POISONS], op_fn *fn, const char *name, int lanes) {
    trial tr = { p, t, name, lanes, true };
    for (int i = 0; i < POISONS; i++) {
        run(&tr, fn, POISON[i]);
        compare_all(&tr, &want[i]);
    }
    count(&tr);
}

/* Row r alone gives the bits of row r in company. A chunk of prefill is sampled. */
static void single_rows(parity *p, const tcase *whole, const snapshot *want) {
    for (int32_t r = 0; r < whole->rows && whole->n_results; r += whole->rows > NODES_MAX ? 85 : 1) {
        tcase t;
        tcase_init(&t, whole->c, whole->rows, r);
        for (int i = 0; i < ISA_COUNT; i++) {
            if (!isa_usable((isa)i)) continue;
            trial tr = { p, &t, isa_name((isa)i), 1, true };
            run(&tr, op_table((isa)i)[whole->c->id], POISON[0]);
            compare_row(&tr, whole, want, r);
            count(&tr);
        }
        tcase_deinit(&t);
    }
}

void parity_case(parity *p, const op_case *c, int32_t rows) {
    tcase t;
    snapshot want[POISONS];
    tcase_init(&t, c, rows, CASE_ALONE_NONE);
    reference(p, &t, want);
    for (int i = 0; i < ISA_COUNT; i++) {
        for (int lanes = 1; lanes <= PARITY_LANES; lanes++) {
            if (isa_usable((isa)i))
                against(p, &t, want, op_table((isa)i)[c->id], isa_name((isa)i), lanes);
            else
                p->skipped++;
        }
    }
    single_rows(p, &t, &want[0]);
    for (int i = 0; i < POISONS; i++) free(want[i].at);
    tcase_deinit(&t);
}

void parity_function(parity *p, const op_case *c, int32_t rows, op_fn *fn, const char *name, int lanes) {
    tcase t;
    snapshot want[POISONS];
    tcase_init(&t, c, rows, CASE_ALONE_NONE);
    reference(p, &t, want);
    against(p, &t, want, fn, name, lanes);
    for (int i = 0; i < POISONS; i++) free(want[i].at);
    tcase_deinit(&t);
}

int parity_rows(const op_case *c, int32_t out[8]) {
    static const int32_t COUNTS[] = { 0, 1, 2, 7, 8, 16 };
    int n = 0;
    if (c->rows) {
        out[0] = c->rows;
        return 1;
    }
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) out[n++] = COUNTS[i];
    if (c->wide) out[n++] = PREFILL_MAX;
    return n;
}

void parity_init(parity *p) {
    *p = (parity){ 0 };
    for (int lanes = 1; lanes <= PARITY_LANES; lanes++) {
        err e;
        if (pool_open(&p->pool[lanes], lanes, &e) != OK) {
            fprintf(stderr, "%s\n", e.text);
            exit(1);
        }
    }
}

void parity_deinit(parity *p) {
    for (int lanes = 1; lanes <= PARITY_LANES; lanes++) pool_close(p->pool[lanes]);
}
