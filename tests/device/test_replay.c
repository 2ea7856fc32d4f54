/* What a captured graph does is what its ops do one by one: results, logits and all keys and values, bit for bit. On
 * whatever device there is: a GPU, or the simulation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/base/mem.h"
#include "engine/core/pair.h"
#include "kernels/memory.h"

/* The expression succeeds, or the program ends with its message. */
#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        err must_err_ = { 0 }, *e = &must_err_;                                                                        \
        if ((expr) != OK) {                                                                                            \
            printf("%s: %s\n0 passed, 1 failed, 0 skipped\n", #expr, must_err_.text);                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static void put_device(buf *log, device *on, const void *from, size_t bytes) {
    char *copy = xalloc(bytes);
    memory_copy(on, copy, from, bytes);
    memory_wait(on);
    buf_put(log, copy, bytes);
    free(copy);
}

static void put_out(buf *log, const step_out *out) {
    step_out o = *out;
    memset(o.stamp, 0, sizeof o.stamp);
    o.seq = 0;
    buf_put(log, &o, sizeof o);
}

static void put_logits(buf *log, const pair *p, int step) {
    view v = steps_logits(p->steps, step);
    put_device(log, p->device, view_row(&v, 0), (size_t)v.cols * sizeof(float));
}

/* Sampled, so that every number of the logits counts; a round over looked-up junk, and rounds of the draft. */
static void scenario(pair *p, buf *log) {
    steps *s = p->steps;
    const int32_t junk[] = { 7, 8, 9 };
    int32_t tokens[40];
    for (int32_t i = 0; i < 40; i++) tokens[i] = 11 + 29 * i % 997;
    steps_set_pick(s,
                   &(pick_params){ .temperature = 0.7f, .top_p = 0.9f, .seed = 3, .repeat = 1.1f, .presence = 0.2f });
    steps_seek(s, 0, 0, 0);
    put_out(log, steps_prefill(s, tokens, 29, false));
    put_out(log, steps_prefill(s, tokens + 29, 11, true));
    put_logits(log, p, steps_prefill_index(11));
    for (int i = 0; i < 3; i++) put_out(log, steps_plain(s));
    put_logits(log, p, 0);
    for (int i = 0; i < 2; i++) put_out(log, steps_round(s, 7));
    put_out(log, steps_tree(s, 7, 12, 3));
    put_out(log, steps_verify(s, junk, 3));
    put_logits(log, p, 1 + PREFILL_BUCKETS);
    put_device(log, p->device, p->target.kv.block, p->target.kv.bytes);
    put_device(log, p->device, p->draft.memory, p->draft.bytes);
    MUST(steps_status(s, e));
}

static void run(bool eager, buf *log) {
    pair *p = xalloc(sizeof *p);
    engine_options opt = { .lanes = 1, .ctx = 512, .backend = BACKEND_CUDA };
    MUST(pair_load(p, NULL, NULL, true, NULL, NULL, e));
    MUST(pair_start(p, &opt, e));
    steps_set_eager(p->steps, eager);
    scenario(p, log);
    pair_close(p);
    free(p);
}

/* Says where the first difference is. */
static bool same(const char *what, const buf *got, const buf *want) {
    size_t i = 0;
    while (i < got->len && i < want->len && got->data[i] == want->data[i]) i++;
    if (i == got->len && i == want->len) return true;
    printf("%s: byte %zu of %zu of results and memory differs\n", what, i, want->len);
    return false;
}

int main(void) {
    buf eager = { 0 }, first = { 0 }, second = { 0 };
    run(true, &eager);
    run(false, &first);
    run(false, &second);
    int passed = same("a replay and its ops one by one", &first, &eager);
    passed += same("a replay and the next", &second, &first);
    buf_free(&eager);
    buf_free(&first);
    buf_free(&second);
    printf("%d passed, %d failed, 0 skipped\n", passed, 2 - passed);
    return passed == 2 ? 0 : 1;
}
