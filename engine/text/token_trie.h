/* engine/text/token_trie.h - the tokens of a model by their bytes, in the order in which token_mask.h looks at them.
 *
 * Made once for a model and constant afterwards; any thread may read it. Added tokens ("<think>") are no part of it: an
 * answer takes their characters from ordinary tokens, and the tokens themselves only where a grammar names them. About
 * 8 MB and 50 ms for 100,000 tokens. */
#ifndef ENGINE_TEXT_TOKEN_TRIE_H
#define ENGINE_TEXT_TOKEN_TRIE_H
#include <stddef.h>
#include <stdint.h>
#include "engine/base/str.h"
#include "engine/text/text.h"

typedef struct token_trie token_trie;

/* What an id is good for. */
typedef enum token_use {
    TOKEN_UNUSED, /* never allowed */
    TOKEN_BYTES,  /* stands for its bytes */
    TOKEN_SINGLE, /* allowed where a grammar names it */
    TOKEN_END     /* ends the answer; allowed where the text is complete */
} token_use;

/* bytes[id], uses[id] for all ids below n. The bytes may go away afterwards. */
token_trie *token_trie_new(const str *bytes, const uint8_t *uses, int32_t n);
token_trie *token_trie_of_model(const text_model *tm);
void token_trie_free(token_trie *t); /* NULL is fine */

int32_t token_trie_vocab(const token_trie *t);
static inline size_t token_mask_words(int32_t vocab) { return ((size_t)vocab + 31) / 32; }
#endif
