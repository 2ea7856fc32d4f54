/* engine/core/constraint.h - a constrained answer while it is written: which tokens may come next behind what was
 * emitted, and behind every node of a verify tree. Engine thread.
 *
 * Reasoning is free but for end tokens; the grammar begins behind "</think>". A node's mask depends on the tokens of
 * its own path alone, so the answer is the one of plain steps. */
#ifndef ENGINE_CORE_CONSTRAINT_H
#define ENGINE_CORE_CONSTRAINT_H
#include "engine/core/steps.h"
#include "engine/engine.h"
#include "engine/text/token_mask.h"

typedef struct constraint constraint;

/* trie, grammar and text model must outlive it. start: of the reply. */
constraint *constraint_new(const token_trie *trie, const grammar *g, const text_model *tm, reply_start start);
void constraint_free(constraint *c); /* NULL is fine */
/* The next tokens of the answer, in order. */
void constraint_emitted(constraint *c, const int32_t *tokens, int32_t n);
mask_fill constraint_fill; /* arg: the constraint */
/* The grammar has been followed to an end: what was emitted is complete. */
bool constraint_is_complete(const constraint *c);
int64_t constraint_ns(const constraint *c); /* spent on masks so far */
#endif
