/* engine/text/grammar_run.h - walks a grammar: states, and steps from one to the next.
 *
 * A state is a number. It stands for everything that the text so far may still be: a set of positions in the grammar,
 * each with the arrays and objects around it. Equal states of one run have equal numbers, so states can be copied,
 * compared and hashed; a step by a byte that was taken before is a look-up. One run, one thread.
 *
 * A run remembers the states that it made. grammar_run_trim forgets all but those that are still needed; who walks a
 * long text calls it now and then. A set of more than GRAMMAR_SET_MAX positions is cut: then some continuations that
 * the grammar would allow are not offered, and those that are offered stay valid. */
#ifndef ENGINE_TEXT_GRAMMAR_RUN_H
#define ENGINE_TEXT_GRAMMAR_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/text/grammar.h"

typedef uint32_t grammar_state;
enum {
    GRAMMAR_DEAD = 0, /* the text so far is no beginning of a valid one */
    GRAMMAR_SET_MAX = 256,
    GRAMMAR_TRIM_AT = 1 << 16 /* states and positions; fewer are not worth the work */
};

/* What a step takes: a byte, or a single token. */
enum { GRAMMAR_TOKENS = 256 };
static inline uint32_t grammar_token(int32_t id) { return GRAMMAR_TOKENS + (uint32_t)id; }

typedef struct grammar_run grammar_run;

grammar_run *grammar_run_new(const grammar *g); /* g must outlive it */
void grammar_run_free(grammar_run *r);          /* NULL is fine */
grammar_state grammar_run_start(grammar_run *r);
grammar_state grammar_run_step(grammar_run *r, grammar_state s, uint32_t symbol);
bool grammar_run_ends(const grammar_run *r, grammar_state s); /* the text may end here */
/* Is it worth trimming? */
bool grammar_run_is_big(const grammar_run *r);
/* Forgets every state but these, which get new numbers in place. */
void grammar_run_trim(grammar_run *r, grammar_state *states, size_t n);
#endif
