/* engine/text/pattern_int.h - between the two halves of pattern: reading an expression, and the automaton without
 * determinism that it becomes. */
#ifndef ENGINE_TEXT_PATTERN_INT_H
#define ENGINE_TEXT_PATTERN_INT_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/status.h"
#include "engine/text/pattern.h"

typedef struct code_range {
    uint32_t lo, hi;
} code_range;

/* Sorted and disjoint once read. */
typedef struct code_set {
    code_range *ranges;
    int32_t n, cap;
} code_set;

typedef enum regex_kind { REGEX_SET, REGEX_ROW, REGEX_CHOICE, REGEX_REPEAT } regex_kind;

typedef struct regex {
    regex_kind kind;
    code_set set;
    struct regex *child, *sibling; /* ROW: from the last to the first; CHOICE; REPEAT: one */
    int32_t min, max;              /* REPEAT; max < 0: without end */
} regex;

/* A tree in mem. Searching is part of it: alternatives that are not anchored begin or end with any characters. */
status regex_parse(arena *mem, regex **out, str text, err *e);

enum { NFA_NODES_MAX = 1 << 16, NFA_CALLS_MAX = 1 << 20, CODE_POINT_MAX = 0x10FFFF };

typedef enum nfa_kind { NFA_BYTES, NFA_SPLIT, NFA_ACCEPT } nfa_kind;

typedef struct nfa_node {
    uint8_t kind; /* nfa_kind */
    uint8_t lo, hi;
    bool within;  /* BYTES: not the first byte of a character */
    int32_t a, b; /* where to; SPLIT: both, without a byte; b < 0: a alone */
} nfa_node;

typedef struct nfa {
    nfa_node *nodes; /* NFA_NODES_MAX at most */
    int32_t n;
    int32_t calls; /* of nfa_emit: counts of what is empty add no nodes, but time */
    bool full;     /* there would have been more */
    bool is_json;  /* how characters are spelled */
} nfa;

int32_t nfa_emit(nfa *f, const regex *r, int32_t next); /* its first node */
int32_t nfa_add(nfa *f, nfa_node n);
#endif
