/* Grammars in tests: made from JSON text, asked for whole texts. */
#ifndef TESTS_UNIT_GRAMMAR_FIXTURE_H
#define TESTS_UNIT_GRAMMAR_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <time.h>

#include "engine/base/buf.h"
#include "engine/text/grammar_run.h"
#include "engine/text/schema.h"

static inline grammar *schema_grammar(const char *schema) {
    json_error_t why;
    json_t *tree = json_loads(schema, JSON_DECODE_ANY, &why);
    if (!tree) fail_msg("%s: %s", schema, why.text);
    grammar *g = NULL;
    err e;
    if (grammar_of_schema(&g, tree, &e) != OK) fail_msg("%s: %s", schema, e.text);
    json_decref(tree);
    return g;
}

/* How many bytes of the text may stand at the beginning; *ends: and the whole may be a text. */
static inline size_t walk_text(const grammar *g, str text, bool *ends) {
    grammar_run *r = grammar_run_new(g);
    grammar_state s = grammar_run_start(r);
    size_t n = 0;
    for (; n < text.n; n++) {
        grammar_state next = grammar_run_step(r, s, (uint8_t)text.p[n]);
        if (!next) break;
        s = next;
    }
    *ends = n == text.n && grammar_run_ends(r, s);
    grammar_run_free(r);
    return n;
}

static inline bool allows(const grammar *g, str text) {
    bool ends;
    walk_text(g, text, &ends);
    return ends;
}

static inline void assert_allows(const grammar *g, const char *text) {
    bool ends;
    size_t n = walk_text(g, str_of(text), &ends);
    if (!ends) fail_msg("not allowed behind %zu bytes: %s", n, text);
}

static inline void assert_refuses(const grammar *g, const char *text) {
    if (allows(g, str_of(text))) fail_msg("allowed: %s", text);
}

/* What this thread has computed so far; other programs do not count. */
static inline int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 16 times the input may take 64 times the time: between linear, with caches that get too small, and quadratic. */
static inline void assert_linear(void (*f)(int n), int small) {
    int64_t times[2];
    for (int k = 0; k < 2; k++) {
        times[k] = INT64_MAX;
        for (int round = 0; round < 3; round++) {
            int64_t start = cpu_ns();
            f(k ? 16 * small : small);
            int64_t ns = cpu_ns() - start;
            if (ns < times[k]) times[k] = ns;
        }
    }
    if (times[1] > 64 * times[0] + 5000000)
        fail_msg("16 times the input takes %.1f ms instead of %.1f", (double)times[1] / 1e6, (double)times[0] / 1e6);
}
#endif
