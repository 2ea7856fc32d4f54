/* engine/core/propose.h - one decode step: who proposes, and the step that verifies it. Nothing here changes the text.
 *
 * Two proposers: the draft, and the look-up of the end of the text in what stands before it. A look-up costs no draft
 * pass, so it is used when the tokens it may bring per time are more than what drafted rounds of this request bring;
 * the draft's block is then skipped. Times are those of the request's own rounds. Engine thread. */
#ifndef ENGINE_CORE_PROPOSE_H
#define ENGINE_CORE_PROPOSE_H
#include "engine/core/lookup.h"
#include "engine/core/steps.h"
#include "engine/text/text.h"

typedef struct propose {
    steps *steps;
    const text_model *text;
    bool drafting;                /* there is a draft, and it may propose */
    lookup *lookup;               /* NULL: nothing is looked up */
    int32_t depth_max, tree_max;  /* of this request; tree_max 0: chains */
    lookup_match match;           /* what the running step verifies, n 0: not from a look-up */
    int32_t rounds;               /* drafted ones so far */
    double tokens, ns, draft_ns;  /* their moving means */
    int32_t copied, copied_right; /* looked-up proposals that were verified, and of these accepted */
} propose;

/* A request begins: its prompt becomes the timeline. */
void propose_begin(propose *p, const int32_t *prompt, size_t n);
/* Runs the next step; no proposal stands behind `wanted` more tokens. */
const step_out *propose_step(propose *p, int32_t wanted);
/* Its outcome: ns it took, and how many of its tokens were kept. */
void propose_measured(propose *p, const step_out *out, int32_t kept, int64_t ns);
/* Tokens that entered the text without propose_step: the first one. */
void propose_emitted(propose *p, const int32_t *tokens, int32_t n);
#endif
