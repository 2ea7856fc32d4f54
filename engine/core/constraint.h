/* engine/core/constraint.h - a constrained answer while it is written: which tokens may come next behind what was
 * emitted, and behind every node of a verify tree. Engine thread.
 *
 * Reasoning is free but for end tokens; the grammar begins behind "</think>", or with a call inside of the reasoning. A
 * node's mask depends on the tokens of its own path alone, so the answer is the one of plain steps.
 *
 * The grammar comes first: a state allows one token at least, and one of those is chosen. End tokens before their time
 * and tokens that are never to be chosen are left out where anything else is allowed, and only there.
 *
 * In a round nothing allocates but the memory of the masks (token_mask.h): what was made for a state is kept for the
 * next time, within fixed bounds. */
#ifndef ENGINE_CORE_CONSTRAINT_H
#define ENGINE_CORE_CONSTRAINT_H
#include "engine/core/steps.h"
#include "engine/engine.h"
#include "engine/text/token_mask.h"

typedef struct constraint constraint;

/* Of the request: grammar and calls (NULL: the answer itself is free), thinks, thinks_at_most with max_new, and of its
 * pick options min_new and biases of -INFINITY; ignore_end means that no end token is wanted at all. trie, grammars and
 * text model must outlive the constraint. */
constraint *constraint_new(const token_trie *trie, const text_model *tm, const gen_request *rq);
/* Whether a request has anything that needs one. */
static inline bool constraint_is_wanted(const gen_request *rq) {
    return rq->grammar || (rq->thinks && rq->thinks_at_most);
}
void constraint_free(constraint *c); /* NULL is fine */
/* The next tokens of the answer, in order. */
void constraint_emitted(constraint *c, const int32_t *tokens, int32_t n);
mask_fill constraint_fill; /* arg: the constraint */
/* The grammar has been followed to an end: what was emitted is complete. */
bool constraint_is_complete(const constraint *c);
int64_t constraint_ns(const constraint *c); /* spent on masks so far */
#endif
