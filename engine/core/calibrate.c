#include "engine/core/calibrate.h"

#include "engine/base/clock.h"

#include <stdlib.h>

enum { PROMPT = 64, SIZES = 8, TIMES = 9, TIMES_LEAST = 3 };
static const int64_t BUDGET_NS = 100000000; /* of each of the two tables */

typedef struct bench {
    pair *p;
    uint32_t x;
} bench;

static int32_t any_token(bench *b) {
    b->x ^= b->x << 13, b->x ^= b->x >> 17, b->x ^= b->x << 5;
    return (int32_t)(b->x % (uint32_t)b->p->target.cfg.vocab);
}

static void read_prompt(bench *b) {
    int32_t prompt[PROMPT];
    for (int32_t i = 0; i < PROMPT; i++) prompt[i] = any_token(b);
    steps_prompt(b->p->steps, &(pick_params){ .top_p = 1.0f }, prompt, PROMPT);
    steps_catch_up(b->p->steps);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* One time: of the target pass of `rows` rows, or of drafting `depth` rows. */
static float measure(bench *b, int32_t rows, int32_t depth) {
    int32_t given[NODES_MAX];
    for (int32_t i = 0; i < rows; i++) given[i] = any_token(b);
    steps_seek(b->p->steps, PROMPT, any_token(b), PROMPT);
    const step_out *o = steps_speculate(b->p->steps, &(round_shape){ .depth = depth,
                                                                     .branch = 1,
                                                                     .nodes = rows - 1,
                                                                     .given = given,
                                                                     .n_given = depth ? 0 : rows - 1 });
    return (float)(depth ? step_draft_ns(o) : o->stamp[3] - o->stamp[1]);
}

/* Median times of n sizes, by turns: a busy moment hits all alike. */
static void measure_all(bench *b, const int32_t *size, int32_t n, bool drafts, float *ns) {
    float t[SIZES][TIMES];
    int64_t start = clock_ns();
    int32_t times = 0;
    for (; times < TIMES && (times < TIMES_LEAST || clock_ns() - start < BUDGET_NS); times++)
        for (int32_t i = 0; i < n; i++) t[i][times] = drafts ? measure(b, 1, size[i]) : measure(b, size[i], 0);
    for (int32_t i = 0; i < n; i++) {
        qsort(t[i], (size_t)times, sizeof t[i][0], by_size);
        ns[i] = t[i][times / 2];
    }
}

void calibrate(pair *p, width *w) {
    static const int32_t ROWS[SIZES] = { 1, 2, 3, 4, 6, 8, 12, 16 }, DEPTH[] = { 1, 2, 4, 7, 11, 15 };
    bench b = { .p = p, .x = 2463534242u };
    float ns[SIZES];
    int32_t n = 0;
    if (p->ctx <= PROMPT + NODES_MAX) return; /* nothing to win in so short a context */
    read_prompt(&b);
    measure_all(&b, ROWS, SIZES, false, ns);
    width_set_verify(w, ROWS, ns, SIZES);
    if (!w->draft_max) return;
    while (n < (int32_t)(sizeof DEPTH / sizeof *DEPTH) && DEPTH[n] <= w->draft_max) n++;
    measure_all(&b, DEPTH, n, true, ns);
    steps_seek(p->steps, PROMPT, 0, 0);
    int32_t lag = steps_lag(p->steps);
    int64_t start = clock_ns();
    steps_catch_up(p->steps);
    width_set_draft(w, DEPTH, ns, n, (float)(clock_ns() - start) / (float)(lag ? lag : 1));
}
