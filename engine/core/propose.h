/* engine/core/propose.h - one decode step: who proposes, how much is verified, and the step that does it. Nothing here
 * changes the text.
 *
 * Two proposers: the draft, and the look-up of the end of the text in what stands before it (and in a prediction that
 * came with the request). Their proposals share one tree. How much of it is worth its time, and whether the draft is
 * asked at all, is engine/core/width.h's to say; with a fixed width nothing depends on a clock. Engine thread. */
#ifndef ENGINE_CORE_PROPOSE_H
#define ENGINE_CORE_PROPOSE_H
#include "engine/core/lookup.h"
#include "engine/core/steps.h"
#include "engine/core/width.h"
#include "engine/engine.h"
#include "engine/text/text.h"

/* How the engine opens its look-up, and how many proposals it takes from it where there is no draft. */
enum { LOOKUP_DEPTH = 15, LOOKUP_MIN_MATCH = 2 };

typedef struct propose {
    steps *steps;
    const text_model *text;
    width *width;
    bool drafting;               /* there is a draft, and it may propose */
    lookup *lookup;              /* NULL: nothing is looked up */
    spec_mode mode;              /* AUTO or FIXED */
    int32_t depth_max, tree_max; /* of this request; tree_max 0: chains. depth_max 0: plain steps */
    float min_p;

    lookup_match match; /* what was looked up for the running step */
    float first;        /* probability of its first token, as the look-up thinks */
    width_choice choice;
    float chain[DEPTH_MAX]; /* log-probabilities of the match */
    int64_t caught_up_ns;   /* of the running step: context rows that it had to project first */
    gen_totals totals;      /* only what propose_totals copies */
} propose;

/* A request begins; its whole prompt is the timeline, the prediction (n 0: none) text that may be copied from. */
void propose_begin(propose *p, const int32_t *prompt, int32_t n, const int32_t *prediction, int32_t n_prediction,
                   bool sampled);
/* Runs the next step; no proposal stands behind `wanted` more tokens. */
const step_out *propose_step(propose *p, int32_t wanted);
/* Its outcome: ns from the end of the last step to the end of this one. */
void propose_measured(propose *p, const step_out *out, int64_t ns, int64_t now);
/* Proposals by proposer, steps by reason and by rows. */
void propose_totals(const propose *p, gen_totals *t);
/* Tokens that were emitted and kept: the first one, and after every step. */
void propose_emitted(propose *p, const int32_t *tokens, int32_t n);
#endif
