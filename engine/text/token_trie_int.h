/* engine/text/token_trie_int.h - layout of a token_trie; for engine/text only. */
#ifndef ENGINE_TEXT_TOKEN_TRIE_INT_H
#define ENGINE_TEXT_TOKEN_TRIE_INT_H
#include <stdbool.h>
#include "engine/text/grammar_body.h"
#include "engine/text/token_trie.h"

/* Nodes in the order of a walk that goes down first, children by byte: the nodes below node i are i + 1 to end - 1.
 * Tokens that end at node i are ids[first] to those of node i + 1. */
typedef struct trie_node {
    uint32_t end, first, depth;
    uint8_t byte; /* last one of the path */
} trie_node;

/* What tokens do inside of a string that has no end of its own kind: this needs no grammar. */
typedef struct body_close {
    uint32_t node; /* where the closing quote has just been taken */
    uint32_t chars;
} body_close;

typedef struct body_table {
    uint32_t *stays; /* bits of the tokens that stay inside */
    uint8_t *chars;  /* [vocab] characters that such a token begins, 255: or more */
    body_close *closes;
    uint32_t n_closes;
    uint32_t most; /* of chars */
} body_table;

enum { TABLE_PLAIN, TABLE_ESCAPE, TABLES }; /* between characters, behind a backslash */

struct token_trie {
    int32_t vocab;
    trie_node *nodes; /* the root first; one more behind the last, for its `first` */
    uint32_t n_nodes;
    uint32_t roots[256]; /* the root's child with this byte, 0: none */
    int32_t *ids;        /* of the tokens with bytes, by their bytes */
    int32_t n_ids;
    uint32_t longest; /* bytes of a token */
    char *text;       /* of all tokens */
    uint32_t *at;     /* [vocab + 1] where the bytes of an id begin in text */
    uint8_t *uses;    /* [vocab] */
    uint32_t *end_bits;
    int32_t *tagged; /* tokens that hold a whole closing tag of arguments */
    int32_t n_tagged;
    body_table tables[BODY_MODES][TABLES];
};

static inline void bit_set(uint32_t *bits, int32_t id) { bits[id >> 5] |= (uint32_t)1 << (id & 31); }
static inline bool bit_is_set(const uint32_t *bits, int32_t id) { return bits[id >> 5] >> (id & 31) & 1; }
static inline str trie_bytes(const token_trie *t, int32_t id) {
    return (str){ t->text + t->at[id], t->at[id + 1] - t->at[id] };
}
#endif
