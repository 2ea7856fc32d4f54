#include "engine/core/turn.h"

#include "engine/base/num.h"

#include <string.h>

int32_t turn_begin(turn *t, const int32_t *prompt, int32_t n, bool reuse) {
    t->prompt = prompt, t->n = n;
    t->done = timelines_begin(t->timelines, prompt, n, reuse);
    steps_skip(t->steps, prompt, t->done);
    return t->done;
}

const step_out *turn_prefill(turn *t, int32_t most) {
    CHECK(t->done < t->n);
    int32_t n = timelines_chunk(t->timelines, min_i32(most, t->n - t->done));
    const int32_t *tokens = t->prompt + t->done;
    timelines_reserve(t->timelines, n);
    t->done += n;
    const step_out *out = steps_prefill(t->steps, tokens, n, t->done == t->n);
    timelines_prefilled(t->timelines, tokens, n);
    if (out->n) t->anchor = out->token[0];
    return out;
}

/* The step has committed the old anchor and all its tokens but the last. */
static const step_out *committed(turn *t, const step_out *out) {
    int32_t token[DEPTH_MAX + 1] = { t->anchor };
    memcpy(token + 1, out->token, (size_t)(out->n - 1) * sizeof *token);
    timelines_step(t->timelines, token, out->n, out->rows);
    t->anchor = out->token[out->n - 1];
    return out;
}

const step_out *turn_round(turn *t, propose *p, int32_t wanted) {
    timelines_reserve(t->timelines, NODES_MAX);
    return committed(t, propose_step(p, wanted));
}

const step_out *turn_verify(turn *t, const int32_t *proposals, int32_t n) {
    timelines_reserve(t->timelines, NODES_MAX);
    return committed(t, n ? steps_verify(t->steps, proposals, n) : steps_plain(t->steps));
}

const step_out *turn_speculate(turn *t, const round_shape *shape) {
    timelines_reserve(t->timelines, NODES_MAX);
    return committed(t, steps_speculate(t->steps, shape));
}

void turn_end(turn *t, int32_t kept) { timelines_end(t->timelines, min_i32(timelines_len(t->timelines), t->n + kept)); }
