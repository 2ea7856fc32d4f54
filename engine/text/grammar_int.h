/* engine/text/grammar_int.h - the parts of a grammar and how they are put together; for engine/text only.
 *
 * A grammar is a list of nodes, each a language of its own; nodes name the nodes that they are made of by number, so
 * that a schema may contain itself. A node is added first and may be filled in later, until grammar_finish. */
#ifndef ENGINE_TEXT_GRAMMAR_INT_H
#define ENGINE_TEXT_GRAMMAR_INT_H
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/text/grammar.h"
#include "engine/text/grammar_body.h"
#include "engine/text/pattern.h"

enum {
    GRAMMAR_NODES_MAX = 1 << 16,
    GRAMMAR_LINKS_MAX = 1 << 20, /* words and references of all nodes together */
    GRAMMAR_BYTES_MAX = 4 << 20, /* of all words */
    GRAMMAR_ENDLESS = 1 << 30    /* height of a node in which nothing is valid */
};
#define GRAMMAR_COUNT_MAX ((int64_t)1 << 40) /* stands for "no maximum" */

typedef enum node_kind {
    NODE_EMPTY,   /* nothing is valid; also what is not filled in yet */
    NODE_SPACE,   /* optional white space; node 1 of every grammar */
    NODE_KEY,     /* a key behind its quote, inside of an object or of arguments; node 2 of every grammar */
    NODE_WORDS,   /* one of several texts */
    NODE_STRING,  /* any string with so many code points */
    NODE_PATTERN, /* a string that a pattern accepts */
    NODE_NUMBER,
    NODE_RANGE, /* a number between two bounds, without exponent */
    NODE_ARRAY,
    NODE_OBJECT,
    NODE_ARGS,  /* arguments of a tool call: an object whose keys are whole tags, without commas and brackets */
    NODE_UNION, /* one of several nodes, none of them a union once finished */
    NODE_SEQ,   /* several nodes, one behind the other */
    NODE_LOOP,  /* one node, then any number of times another one */
    NODE_TEXT,  /* a text as it is */
    NODE_TOKEN, /* a single token, not its characters */
} node_kind;

enum { NODE_ID_SPACE = 1, NODE_ID_KEY = 2 };

/* Sorted by text, no text twice. lcp: bytes that it has in common with the word before it. So the words that begin with
 * the same n bytes stand together, and the first of them with n stands for them all. */
typedef struct word {
    str text;
    uint32_t lcp;
    int32_t value; /* words of an object: number of the property */
} word;

typedef struct word_list {
    word *items;
    int32_t n;
} word_list;

/* Properties come in the order of their numbers. needed[i]: the smallest number of a required property that is >= i, n
 * when there is none; n + 1 entries. */
typedef struct node_object {
    word_list keys;
    int32_t *values; /* nodes */
    int32_t *needed;
    int32_t n;
    int32_t rest; /* node of the values of other properties, which come last; 0: there are none */
} node_object;

typedef struct node {
    uint8_t kind;   /* node_kind */
    uint8_t body;   /* body_mode: STRING, PATTERN; of keys: OBJECT */
    bool integer;   /* NUMBER */
    int32_t height; /* levels of arrays and objects that it needs at least, itself included */
    union {
        struct {
            word_list list;
            int32_t *next; /* node that follows a word, by its value; NULL: none */
        } words;
        struct {
            int64_t min, max;
        } string;
        const pattern *pattern;
        struct {
            int64_t lo, hi;   /* times 10^decimals, within +-10^18 */
            int32_t decimals; /* at most so many behind the point */
        } range;
        struct {
            int32_t *prefix; /* nodes of the first items */
            int32_t n_prefix;
            int32_t rest; /* node of the others; 0: there are none */
            int64_t min, max;
        } array;
        node_object object; /* OBJECT, ARGS */
        struct {
            int32_t *nodes;
            int32_t n;
        } list; /* UNION, SEQ, LOOP */
        str text;
        int32_t token;
    };
} node;

struct grammar {
    arena *mem;
    node *nodes;
    int32_t n_nodes, cap_nodes;
    int32_t root;
    size_t links, bytes; /* so far */
    pattern **patterns;
    int32_t n_patterns;
};

grammar *grammar_new(void);
/* A new empty node; -1 when there are too many. */
int32_t grammar_add(grammar *g);
int32_t *grammar_ids(grammar *g, size_t n); /* zeroed */
/* Takes n texts with their values; of equal texts the first stays. Nodes of kind WORDS and objects are filled with it.
 */
word_list grammar_words(grammar *g, const str *texts, const int32_t *values, size_t n);
void grammar_keep_pattern(grammar *g, pattern *p); /* adopts */
/* Adds a node of any JSON value, strings in the given mode. -1: too many nodes. */
int32_t grammar_add_any(grammar *g, body_mode body);
/* Fills in what follows from the rest. ERR_UNSUPPORTED when it is too large. */
status grammar_finish(grammar *g, err *e);
#endif
