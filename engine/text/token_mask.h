/* engine/text/token_mask.h - which tokens a grammar allows, and where they lead.
 *
 * For the rows of a verify tree: the state of a row is token_mask_advance() of its parent's state by its token, and its
 * mask depends on the state alone, so rows may be filled in any order, and rejected rows leave nothing behind.
 *
 *     token_mask *m = token_mask_new(trie, grammar);         per request; trie per model
 *     grammar_state s = token_mask_start(m);                 in front of the answer (behind its reasoning)
 *     token_mask_fill(m, s, bits);                           per row
 *     s = token_mask_advance(m, s, token);                   per token
 *     token_mask_trim(m, &s, 1);                             per round, with all states that are still needed
 *
 * Every state that is not GRAMMAR_DEAD allows at least one token, provided that each byte is a token of its own, as in
 * all vocabularies of this family. One thread at a time. */
#ifndef ENGINE_TEXT_TOKEN_MASK_H
#define ENGINE_TEXT_TOKEN_MASK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/text/grammar.h"
#include "engine/text/grammar_run.h"
#include "engine/text/token_trie.h"

typedef struct token_mask token_mask;

token_mask *token_mask_new(const token_trie *t, const grammar *g); /* both must outlive it */
void token_mask_free(token_mask *m);                               /* NULL is fine */

grammar_state token_mask_start(token_mask *m); /* GRAMMAR_DEAD: the grammar allows nothing at all */
/* GRAMMAR_DEAD when the token is not allowed. An end token where it is allowed changes nothing. */
grammar_state token_mask_advance(token_mask *m, grammar_state s, int32_t token);
/* Writes token_mask_words(vocab) words; bit id & 31 of word id >> 5 says whether the token is allowed. End tokens are
 * allowed exactly when the text is complete. */
void token_mask_fill(token_mask *m, grammar_state s, uint32_t *bits);
bool token_mask_may_end(const token_mask *m, grammar_state s);
/* Bounds what is remembered: states that are not given may be forgotten, and those given get new numbers. */
void token_mask_trim(token_mask *m, grammar_state *states, size_t n);
#endif
