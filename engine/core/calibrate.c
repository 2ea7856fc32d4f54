#include "engine/core/calibrate.h"

#include "engine/base/clock.h"

#include <stdlib.h>

enum { PROMPT = 64, SIZES = 8, TIMES = 9, TIMES_LEAST = 3 };
static const int64_t BUDGET_NS = 100000000; /* of each of the two tables */

typedef struct bench {
    pair *p;
    int64_t start;
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

/* Median ns of a part of a round: `rows` of the target pass, or a draft of `depth`. */
static float measure(bench *b, int32_t rows, int32_t depth) {
    float t[TIMES];
    int n = 0;
    while (n < TIMES && (n < TIMES_LEAST || clock_ns() - b->start < BUDGET_NS)) {
        int32_t given[NODES_MAX];
        for (int32_t i = 0; i < rows; i++) given[i] = any_token(b);
        steps_seek(b->p->steps, PROMPT, any_token(b), PROMPT);
        const step_out *o = steps_speculate(b->p->steps, &(round_shape){ .depth = depth,
                                                                         .branch = 1,
                                                                         .nodes = rows - 1,
                                                                         .given = given,
                                                                         .n_given = depth ? 0 : rows - 1 });
        t[n++] = depth ? (float)(o->stamp[1] - o->stamp[0]) : (float)(o->stamp[3] - o->stamp[1]);
    }
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[n / 2];
}

void calibrate(pair *p, width *w) {
    static const int32_t ROWS[SIZES] = { 1, 2, 3, 4, 6, 8, 12, 16 }, DEPTH[] = { 1, 2, 4, 7, 11, 15 };
    bench b = { .p = p, .start = clock_ns(), .x = 2463534242u };
    float ns[SIZES];
    int32_t n = 0;
    if (p->ctx <= PROMPT + NODES_MAX) return; /* nothing to win in so short a context */
    read_prompt(&b);
    for (; n < SIZES; n++) ns[n] = measure(&b, ROWS[n], 0);
    width_set_verify(w, ROWS, ns, n);
    if (!w->draft_max) return;
    b.start = clock_ns();
    for (n = 0; n < 6 && DEPTH[n] <= w->draft_max; n++) ns[n] = measure(&b, 1, DEPTH[n]);
    steps_seek(p->steps, PROMPT, 0, 0);
    int32_t lag = steps_lag(p->steps);
    int64_t start = clock_ns();
    steps_catch_up(p->steps);
    width_set_draft(w, DEPTH, ns, n, (float)(clock_ns() - start) / (float)(lag ? lag : 1));
}
