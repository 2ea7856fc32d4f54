/* tests/unit/long_fixture.h - for tests of long contexts: address space of which few pages are touched, ops run one by
 * one, numbers that are a function of their place. */
#ifndef TESTS_UNIT_LONG_FIXTURE_H
#define TESTS_UNIT_LONG_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include "engine/base/status.h"
#include "kernels/dispatch.h"
#include "kernels/fmath.h"

#define FIXTURE __attribute__((unused)) static

enum { MILLION = 1 << 20 };

/* Zeroed, and without memory behind it until it is written; small pages, so that a row takes no more than its own. */
FIXTURE void *reserve(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) fail_msg("%zu bytes of address space are not to be had", bytes);
    (void)madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

/* ---- ops ---- */

typedef struct op_job {
    op_fn *fn;
    const void *args;
} op_job;

static void run_job(void *arg, const lane *ln) {
    const op_job *j = arg;
    j->fn(j->args, ln);
}

FIXTURE void run_op(pool *p, isa i, op_id id, const void *args) {
    op_check(id, args);
    assert_int_equal(pool_reserve(p, op_lane_scratch(id, args, 1), NULL), OK);
    pool_run(p, false, run_job, &(op_job){ op_table(i)[id], args });
}

/* The next instruction set of this processor behind i; ISA_COUNT: there is none. */
FIXTURE isa next_isa(isa i) {
    do i++;
    while (i < ISA_COUNT && !isa_usable(i));
    return i;
}

/* ---- numbers ---- */

/* In (-1, 1). */
FIXTURE float value(uint32_t stream, int64_t row, int64_t col) {
    uint64_t x = ((uint64_t)stream << 56) ^ ((uint64_t)row << 20) ^ (uint64_t)col;
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

/* ---- rows of a step ---- */

/* n rows of a chain, or of a small tree (8 rows at most) with siblings on every level. */
FIXTURE void set_rows(row_set *rows, int32_t base, int32_t n, bool tree) {
    static const int32_t PARENT[] = { -1, 0, 0, 1, 1, 3, 5, 2 };
    *rows = (row_set){ .n = n, .base = base, .chain = !tree, .parent[0] = -1, .pos[0] = base };
    for (int32_t r = 1; r < n; r++) {
        int32_t parent = tree ? PARENT[r] : r - 1, depth = rows->pos[parent] + 1 - base;
        rows->parent[r] = parent;
        rows->pos[r] = base + depth;
        memcpy(rows->path[r], rows->path[parent], (size_t)depth);
        rows->path[r][depth] = (uint8_t)r;
    }
}
#endif
