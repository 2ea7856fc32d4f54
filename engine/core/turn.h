/* engine/core/turn.h - one prompt and its answer as steps: what is known of the prompt is taken over, the rest runs in
 * chunks, then come rounds. Keeps steps and remembered conversations in step with each other; counts and tokens only.
 *
 *   steps_set_pick ... turn_begin, turn_prefill until the prompt is done, turn_round or turn_verify ..., turn_end
 *
 * Engine thread. */
#ifndef ENGINE_CORE_TURN_H
#define ENGINE_CORE_TURN_H
#include "engine/core/propose.h"
#include "engine/core/timelines.h"

typedef struct turn {
    steps *steps;
    timelines *timelines;
    const int32_t *prompt; /* the caller's */
    int32_t n, done;       /* its tokens, and how many of them have keys and values */
    int32_t anchor;        /* the last token that was chosen; it has none yet */
} turn;

/* reuse false: nothing known is used, and nothing of this turn will be remembered. Returns the tokens taken over. */
int32_t turn_begin(turn *t, const int32_t *prompt, int32_t n, bool reuse);
/* The next at most `most` prompt tokens; out->n is 1 with the first token of the answer when the prompt is done. */
const step_out *turn_prefill(turn *t, int32_t most);
/* A round, or a plain step, as p decides; no proposal stands behind `wanted` more tokens. */
const step_out *turn_round(turn *t, propose *p, int32_t wanted);
/* The same with a given chain of n proposals, 0: a plain step. */
const step_out *turn_verify(turn *t, const int32_t *proposals, int32_t n);
/* The same with a round of any shape. */
const step_out *turn_speculate(turn *t, const round_shape *shape);
/* Of the tokens that were chosen the first `kept` belong to the answer. */
void turn_end(turn *t, int32_t kept);
#endif
