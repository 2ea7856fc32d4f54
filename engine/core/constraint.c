#include "engine/core/constraint.h"

#include "engine/base/clock.h"
#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* In the reasoning in front of the answer; a state that no grammar has. */
#define REASONING UINT32_MAX

struct constraint {
    token_mask *mask;
    grammar_state at; /* behind what was emitted, or REASONING */
    int32_t close;    /* "</think>" */
    size_t words;
    uint32_t *thinking; /* [words] what reasoning may choose: everything that does not end the answer */
    int64_t ns;
};

constraint *constraint_new(const token_trie *trie, const grammar *g, const text_model *tm, reply_start start) {
    constraint *c = xalloc(sizeof *c);
    int32_t vocab = token_trie_vocab(trie);
    c->mask = token_mask_new(trie, g);
    c->close = text_find_token(tm, STR("</think>"));
    c->at = start == REPLY_REASONING && c->close >= 0 ? REASONING : token_mask_start(c->mask);
    c->words = token_mask_words(vocab);
    c->thinking = xalloc(c->words * sizeof *c->thinking);
    for (int32_t v = 0; v < vocab; v++)
        if (!text_is_end(tm, v)) c->thinking[v / 32] |= 1u << v % 32;
    return c;
}

void constraint_free(constraint *c) {
    if (!c) return;
    token_mask_free(c->mask);
    free(c->thinking);
    free(c);
}

static grammar_state follow(constraint *c, grammar_state s, int32_t token) {
    if (s != REASONING) return s == GRAMMAR_DEAD ? s : token_mask_advance(c->mask, s, token);
    return token == c->close ? token_mask_start(c->mask) : s;
}

void constraint_emitted(constraint *c, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++) c->at = follow(c, c->at, tokens[i]);
    if (c->at != REASONING) token_mask_trim(c->mask, &c->at, 1);
}

/* A node whose token is not allowed is never accepted: what may follow it does not matter. */
static void fill_row(constraint *c, grammar_state s, uint32_t *bits) {
    if (s == REASONING)
        memcpy(bits, c->thinking, c->words * sizeof *bits);
    else if (s == GRAMMAR_DEAD)
        memset(bits, 0, c->words * sizeof *bits);
    else
        token_mask_fill(c->mask, s, bits);
}

void constraint_fill(void *arg, const step_out *tree, int32_t rows, uint32_t *bits, int32_t words) {
    constraint *c = arg;
    grammar_state at[NODES_MAX] = { c->at };
    int64_t start = clock_ns();
    CHECK(rows >= 1 && rows <= NODES_MAX && (size_t)words >= c->words);
    for (int32_t i = 0; i < rows; i++) {
        if (i) at[i] = follow(c, at[tree->note[i].parent], tree->proposal[i - 1]);
        fill_row(c, at[i], bits + (int64_t)i * words);
    }
    c->ns += clock_ns() - start;
}

bool constraint_is_complete(const constraint *c) {
    return c->at != REASONING && c->at != GRAMMAR_DEAD && token_mask_may_end(c->mask, c->at);
}

int64_t constraint_ns(const constraint *c) { return c->ns; }
