#include "engine/core/constraint.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAMMARS_MAX = 2 };

/* Where a text stands. */
typedef enum part {
    REASONING, /* in front of the answer */
    FREE,      /* in the answer, when nothing is asked of it */
    BEGIN,     /* of the answer, when there are two grammars: the first token says which */
    INSIDE     /* of a grammar */
} part;

typedef struct place {
    part in;
    int which; /* INSIDE: of the masks */
    grammar_state state;
} place;

struct constraint {
    token_mask *mask[GRAMMARS_MAX]; /* of the grammar, and of the calls that may stand in its place */
    int n_masks;
    place at;             /* behind what was emitted */
    int32_t n_emitted;    /* tokens */
    int32_t min_new;      /* before so many no end token is wanted */
    int32_t thinking_max; /* tokens of reasoning */
    int32_t open, close;  /* "<tool_call>", "</think>" */
    size_t words;
    uint32_t *thinking; /* [words] what reasoning may choose: everything that does not end the answer */
    uint32_t *ends;     /* [words] end tokens */
    uint32_t *never;    /* [words] tokens with a bias of -INFINITY */
    uint32_t *scratch;  /* [words] */
    int64_t ns;
};

static void set(uint32_t *bits, int32_t token) { bits[token / 32] |= 1u << token % 32; }

static place begin(constraint *c) {
    if (c->n_masks == 0) return (place){ .in = FREE };
    if (c->n_masks > 1) return (place){ .in = BEGIN };
    return (place){ .in = INSIDE, .state = token_mask_start(c->mask[0]) };
}

static uint32_t *no_bits(const constraint *c) { return xalloc(c->words * sizeof(uint32_t)); }

static void note_tokens(constraint *c, const text_model *tm, const gen_request *rq, int32_t vocab) {
    c->thinking = no_bits(c), c->ends = no_bits(c), c->never = no_bits(c), c->scratch = no_bits(c);
    for (int32_t v = 0; v < vocab; v++) set(text_is_end(tm, v) ? c->ends : c->thinking, v);
    for (int32_t i = 0; i < rq->pick.n_bias; i++)
        if (rq->pick.bias[i].bias == -INFINITY) set(c->never, rq->pick.bias[i].token);
}

constraint *constraint_new(const token_trie *trie, const text_model *tm, const gen_request *rq) {
    constraint *c = xalloc(sizeof *c);
    int32_t vocab = token_trie_vocab(trie);
    if (rq->grammar) c->mask[c->n_masks++] = token_mask_new(trie, rq->grammar);
    if (rq->calls) c->mask[c->n_masks++] = token_mask_new(trie, rq->calls);
    c->open = text_find_token(tm, STR("<tool_call>"));
    c->close = text_find_token(tm, STR("</think>"));
    c->at = begin(c);
    if (rq->thinks && c->close >= 0) c->at = (place){ .in = REASONING };
    c->min_new = rq->reply.ignore_end ? INT32_MAX : rq->pick.min_new;
    c->thinking_max = rq->thinks_at_most ? min_i32(rq->thinking_max, rq->max_new - rq->max_new / 4) : INT32_MAX;
    c->words = token_mask_words(vocab);
    note_tokens(c, tm, rq, vocab);
    return c;
}

void constraint_free(constraint *c) {
    if (!c) return;
    for (int i = 0; i < c->n_masks; i++) token_mask_free(c->mask[i]);
    free(c->thinking);
    free(c->ends);
    free(c->never);
    free(c->scratch);
    free(c);
}

/* The first token of the answer. No two grammars begin with the same one: calls begin with their tag. */
static place enter(constraint *c, int32_t token) {
    for (int i = 0; i < c->n_masks; i++) {
        grammar_state s = token_mask_advance(c->mask[i], token_mask_start(c->mask[i]), token);
        if (s != GRAMMAR_DEAD) return (place){ .in = INSIDE, .which = i, .state = s };
    }
    return (place){ .in = INSIDE, .state = GRAMMAR_DEAD };
}

static place follow(constraint *c, place p, int32_t token) {
    switch (p.in) {
    case REASONING:
        if (token == c->close) return begin(c);
        if (token == c->open && c->n_masks == 0) return begin(c);
        if (token == c->open) {
            place called = enter(c, token);
            if (called.state != GRAMMAR_DEAD) return called;
        }
        return p;
    case FREE: return p;
    case BEGIN: return enter(c, token);
    case INSIDE:
        if (p.state != GRAMMAR_DEAD) p.state = token_mask_advance(c->mask[p.which], p.state, token);
        return p;
    }
    return p;
}

void constraint_emitted(constraint *c, const int32_t *tokens, int32_t n) {
    int64_t start = clock_ns();
    for (int32_t i = 0; i < n; i++) c->at = follow(c, c->at, tokens[i]);
    c->n_emitted += n;
    if (c->at.in == INSIDE) token_mask_trim(c->mask[c->at.which], &c->at.state, 1);
    c->ns += clock_ns() - start;
}

/* Leaves out tokens, unless nothing would remain. */
static void leave_out(const constraint *c, uint32_t *bits, const uint32_t *tokens) {
    uint32_t rest = 0;
    for (size_t w = 0; w < c->words; w++) rest |= bits[w] & ~tokens[w];
    for (size_t w = 0; w < c->words && rest; w++) bits[w] &= ~tokens[w];
}

static void only(const constraint *c, uint32_t *bits, int32_t token) {
    memset(bits, 0, c->words * sizeof *bits);
    set(bits, token);
}

static void fill_begin(constraint *c, uint32_t *bits) {
    token_mask_fill(c->mask[0], token_mask_start(c->mask[0]), bits);
    for (int i = 1; i < c->n_masks; i++) {
        token_mask_fill(c->mask[i], token_mask_start(c->mask[i]), c->scratch);
        for (size_t w = 0; w < c->words; w++) bits[w] |= c->scratch[w];
    }
}

/* n: tokens of the answer in front of the one that the row chooses. A node whose token is not allowed is never
 * accepted: what may follow it does not matter. */
static void fill_row(constraint *c, place p, int32_t n, uint32_t *bits) {
    if (p.in == FREE || (p.in == REASONING && c->n_masks == 0))
        memset(bits, 0xFF, c->words * sizeof *bits);
    else if (p.in == REASONING)
        memcpy(bits, c->thinking, c->words * sizeof *bits);
    else if (p.in == BEGIN)
        fill_begin(c, bits);
    else if (p.state == GRAMMAR_DEAD)
        memset(bits, 0, c->words * sizeof *bits);
    else
        token_mask_fill(c->mask[p.which], p.state, bits);
    if (p.in == REASONING && n >= c->thinking_max) only(c, bits, c->close);
    if (c->n_masks == 0) return; /* what else is asked of tokens is not the mask's business */
    if (n < c->min_new) leave_out(c, bits, c->ends);
    leave_out(c, bits, c->never);
}

void constraint_fill(void *arg, const step_out *tree, int32_t rows, uint32_t *bits, int32_t words) {
    constraint *c = arg;
    place at[NODES_MAX] = { c->at };
    int32_t n[NODES_MAX] = { c->n_emitted };
    int64_t start = clock_ns();
    CHECK(rows >= 1 && rows <= NODES_MAX && (size_t)words >= c->words);
    for (int32_t i = 0; i < rows; i++) {
        int32_t parent = i ? tree->note[i].parent : 0;
        if (i) at[i] = follow(c, at[parent], tree->proposal[i - 1]), n[i] = n[parent] + 1;
        fill_row(c, at[i], n[i], bits + (int64_t)i * words);
    }
    c->ns += clock_ns() - start;
}

bool constraint_is_complete(const constraint *c) {
    return c->at.in == INSIDE && c->at.state != GRAMMAR_DEAD && token_mask_may_end(c->mask[c->at.which], c->at.state);
}

int64_t constraint_ns(const constraint *c) { return c->ns; }
