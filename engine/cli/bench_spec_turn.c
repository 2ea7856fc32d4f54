/* The second turn of a conversation: time to its first token, against that of the new tokens alone. */
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/cli/bench_spec.h"
#include "engine/cli/progress.h"
#include "engine/core/turn.h"

#include <stdlib.h>

enum { KNOWN = 3500, ADDED = 60, TURNS = 41, ROOM = 200 };

typedef struct talk {
    spec_bench *b;
    timelines *timelines;
    int32_t *ids; /* what is known, then what is new */
    int32_t known;
} talk;

/* A turn of n tokens up to its first one; ns of that. */
static double run_turn(talk *k, int32_t n) {
    turn t = { .steps = k->b->pair.steps, .timelines = k->timelines };
    int64_t start = clock_ns();
    steps_set_pick(t.steps, &k->b->pick);
    turn_begin(&t, k->ids, n, true);
    while (turn_prefill(&t, PREFILL_MAX)->n == 0) {}
    double ns = (double)(clock_ns() - start);
    timelines_mark(k->timelines); /* as the engine does, behind the first token */
    turn_end(&t, 0);
    return ns;
}

/* Only the new rows, behind keys and values that are there. */
static double run_rows(talk *k) {
    steps *s = k->b->pair.steps;
    int64_t start = clock_ns();
    steps_seek(s, k->known, 0, k->known);
    steps_prefill(s, k->ids + k->known, ADDED, true);
    return (double)(clock_ns() - start);
}

/* Other ones each time, from the first on: prompts begin alike. */
static void new_words(talk *k, int32_t i) {
    bench_text(&k->b->prompts, (size_t)i, k->ids + k->known, ADDED);
    k->ids[k->known] = (1 + 37 * i) % k->b->pair.target.cfg.vocab;
}

/* By turns: the live conversation goes on; one that was left is taken up from a checkpoint; the new rows alone. */
static void run_turns(talk *k, spec_turn *r) {
    for (int32_t i = -1; i < TURNS; i++) { /* -1 warms up */
        new_words(k, i + 1);
        run_turn(k, k->known); /* the conversation as it was, live */
        double extended = run_turn(k, k->known + ADDED);
        new_words(k, i + 2);
        double resumed = run_turn(k, k->known + ADDED);
        run_turn(k, k->known);
        double alone = run_rows(k);
        if (i < 0) continue;
        samples_add(&r->extended, extended);
        samples_add(&r->resumed, resumed);
        samples_add(&r->alone, alone);
        samples_add(&r->ratio_extended, extended / alone);
        samples_add(&r->ratio_resumed, resumed / alone);
    }
}

status spec_run_turns(spec_bench *b, err *e) {
    spec_turn *r = &b->turn;
    int32_t most = b->pair.ctx - ROOM;
    r->known = most < KNOWN ? most : KNOWN, r->added = ADDED;
    if (r->known <= ADDED) {
        r->known = 0;
        return OK;
    }
    talk k = { .b = b, .known = r->known };
    TRY(timelines_open(&k.timelines, &b->pair.target, pair_draft(&b->pair), b->pair.steps, b->pair.checkpoints, e));
    progress_show("second turns", 0.0f);
    k.ids = xalloc((size_t)(k.known + ADDED) * sizeof *k.ids);
    bench_text(&b->prompts, 0, k.ids, k.known);
    r->cold = run_turn(&k, k.known);
    run_turns(&k, r);
    progress_clear();
    timelines_close(k.timelines);
    free(k.ids);
    samples *all[] = { &r->extended, &r->resumed, &r->alone, &r->ratio_extended, &r->ratio_resumed };
    for (int i = 0; i < 5; i++) samples_sort(all[i]);
    return OK;
}

void spec_turn_free(spec_turn *r) {
    samples *all[] = { &r->extended, &r->resumed, &r->alone, &r->ratio_extended, &r->ratio_resumed };
    for (int i = 0; i < 5; i++) samples_free(all[i]);
}
