/* A mask is found by walking the trie of tokens with the grammar, leaving out what begins with something that is not
 * allowed. Inside of a string nearly everything is allowed and the walk would be through all tokens; but there a token
 * either stays inside, which depends on the token alone and is known from the trie's tables, or closes the string, and
 * only the rest behind the quote has to be walked. Masks of the last states are kept: a string keeps its state.
 *
 * A grammar in which very many readings go on side by side could take seconds for one mask. When the work for it is
 * used up, only first bytes are still tried: such a mask leaves out longer tokens, and is never empty for it. How much
 * work a mask takes depends on its state alone, so masks do.
 *
 * A set of positions allows what any of them allows, so those inside of strings are done one by one from the tables,
 * and the others together by a walk. */
#include "engine/text/token_mask.h"

#include "engine/base/mem.h"
#include "engine/text/grammar_run_int.h"
#include "engine/text/token_trie_int.h"

#include <stdlib.h>

enum {
    MASKS_KEPT = 64,
    WALK_KEEP = 1 << 14, /* states that a walk may leave behind for the next one */
    WALK_MOST = 1 << 17, /* states that a walk may hold */
    WALK_WORK = 1 << 23  /* positions that are tried for one mask */
};

typedef struct kept_mask {
    grammar_state state; /* GRAMMAR_DEAD: unused */
    uint64_t used;
    uint32_t *bits;
} kept_mask;

struct token_mask {
    const token_trie *trie;
    grammar_run *run;
    grammar_state *path; /* [longest + 1] of a walk */
    uint8_t *path_bytes;
    uint32_t *scratch;
    size_t n_words;
    kept_mask kept[MASKS_KEPT];
    uint64_t clock;
    size_t work;      /* for the mask that is being found */
    int32_t *singles; /* tokens that the grammar names */
    int32_t n_singles;
};

static void find_singles(token_mask *m, const grammar *g) {
    for (int32_t i = 0; i < g->n_nodes; i++) {
        int32_t token = g->nodes[i].token;
        if (g->nodes[i].kind != NODE_TOKEN || token < 0 || token >= m->trie->vocab) continue;
        m->singles = xrealloc(m->singles, (size_t)(m->n_singles + 1) * sizeof *m->singles);
        m->singles[m->n_singles++] = token;
    }
}

token_mask *token_mask_new(const token_trie *t, const grammar *g) {
    token_mask *m = xalloc(sizeof *m);
    m->trie = t;
    m->run = grammar_run_new(g);
    m->n_words = token_mask_words(t->vocab);
    m->path = xalloc((t->longest + 1) * sizeof *m->path);
    m->path_bytes = xalloc(t->longest + 1);
    m->scratch = xalloc(m->n_words * sizeof *m->scratch);
    find_singles(m, g);
    return m;
}

void token_mask_free(token_mask *m) {
    if (!m) return;
    for (int i = 0; i < MASKS_KEPT; i++) free(m->kept[i].bits);
    grammar_run_free(m->run);
    free(m->path);
    free(m->path_bytes);
    free(m->scratch);
    free(m->singles);
    free(m);
}

grammar_state token_mask_start(token_mask *m) { return grammar_run_start(m->run); }

bool token_mask_may_end(const token_mask *m, grammar_state s) { return grammar_run_ends(m->run, s); }

static grammar_state step_bytes(token_mask *m, grammar_state s, str bytes) {
    for (size_t i = 0; i < bytes.n && s; i++) s = grammar_run_step(m->run, s, (uint8_t)bytes.p[i]);
    return s;
}

grammar_state token_mask_advance(token_mask *m, grammar_state s, int32_t token) {
    if (token < 0 || token >= m->trie->vocab) return GRAMMAR_DEAD;
    switch (m->trie->uses[token]) {
    case TOKEN_BYTES: return step_bytes(m, s, trie_bytes(m->trie, token));
    case TOKEN_SINGLE: return grammar_run_step(m->run, s, grammar_token(token));
    case TOKEN_END: return grammar_run_ends(m->run, s) ? s : GRAMMAR_DEAD;
    default: return GRAMMAR_DEAD;
    }
}

static void allow_tokens(const token_trie *t, uint32_t node, uint32_t *bits) {
    for (uint32_t k = t->nodes[node].first; k < t->nodes[node + 1].first; k++) bit_set(bits, t->ids[k]);
}

/* Too many states: makes those of the path anew and forgets the others. */
static void walk_again(token_mask *m, run_room room, uint32_t from, uint32_t to) {
    run_release(m->run, room);
    for (uint32_t d = from; d < to; d++) m->path[d + 1] = grammar_run_step(m->run, m->path[d], m->path_bytes[d + 1]);
}

/* Allows the tokens below a node whose bytes may follow the state, which is that of the node. */
static void walk(token_mask *m, uint32_t node, grammar_state s, uint32_t *bits) {
    const token_trie *t = m->trie;
    uint32_t base = t->nodes[node].depth;
    run_room room = run_mark(m->run);
    m->path[base] = s;
    for (uint32_t i = node + 1; i < t->nodes[node].end;) {
        const trie_node *n = &t->nodes[i];
        grammar_state from = m->path[n->depth - 1], next = GRAMMAR_DEAD;
        m->work += m->run->sets[from].n;
        if (m->work <= WALK_WORK) next = grammar_run_step(m->run, from, n->byte);
        if (next == GRAMMAR_DEAD) {
            i = n->end;
            continue;
        }
        m->path[n->depth] = next;
        m->path_bytes[n->depth] = n->byte;
        allow_tokens(t, i, bits);
        if (run_is_over(m->run, room, WALK_MOST)) walk_again(m, room, base, n->depth);
        i++;
    }
    if (run_is_over(m->run, room, WALK_KEEP)) run_release(m->run, room);
}

/* The same from the root, whose children are as many as there are bytes, and nearly all of them not allowed: their
 * nodes, far apart in memory, are not looked at. First bytes are always tried. */
static void walk_all(token_mask *m, grammar_state s, uint32_t *bits) {
    const token_trie *t = m->trie;
    run_room room = run_mark(m->run);
    for (uint32_t c = 0; c < 256; c++) {
        if (!t->roots[c]) continue;
        m->work += m->run->sets[s].n;
        grammar_state next = grammar_run_step(m->run, s, c);
        if (next == GRAMMAR_DEAD) continue;
        allow_tokens(t, t->roots[c], bits);
        walk(m, t->roots[c], next, bits);
        if (run_is_over(m->run, room, WALK_KEEP)) run_release(m->run, room);
    }
}

/* A position inside of a string, as far as the tables know it. */
typedef struct inside {
    const body_table *table;
    body_mode mode;
    body at;
    int64_t room, need;         /* characters that it may, must still take */
    grammar_state self, behind; /* behind: the closing quote */
    const word_list *words;     /* of a key that may still be one of them; NULL: none */
    int32_t word;
    uint32_t word_bytes;
} inside;

static bool inside_string(token_mask *m, uint32_t cell_id, const node *n, inside *in) {
    const cell *c = &m->run->cells[cell_id];
    int64_t count = (int64_t)c->top.val;
    in->mode = (body_mode)n->body;
    in->at = string_body(&c->top);
    in->room = n->string.max < GRAMMAR_COUNT_MAX ? n->string.max - count : GRAMMAR_COUNT_MAX;
    in->need = n->string.min - count;
    uint32_t below = c->below;
    if (in->mode == BODY_RAW) return true;
    if ((c->top.aux & 255) != STRING_INSIDE) return false;
    in->behind = run_intern(m->run, &below, 1);
    return true;
}

/* A key that may be any but some words is like any key but where it goes on with a word. */
static bool inside_key(token_mask *m, uint32_t cell_id, inside *in) {
    const cell *c = &m->run->cells[cell_id];
    const node *object = &m->run->g->nodes[m->run->cells[c->below].top.node];
    in->mode = (body_mode)object->body;
    in->at = key_body(&c->top);
    in->room = GRAMMAR_COUNT_MAX;
    if (c->top.aux != KEY_FREE) {
        in->words = &object->object.keys;
        in->word = (int32_t)c->top.aux;
        in->word_bytes = (uint32_t)c->top.val;
    }
    if (in->at.at != BODY_PLAIN) return false;
    uint32_t other = run_push(m->run, c->below, (frame){ .node = NODE_ID_KEY, .aux = KEY_FREE });
    in->behind = grammar_run_step(m->run, run_intern(m->run, &other, 1), '"');
    return true;
}

/* False: the position is none that the tables know. */
static bool is_inside(token_mask *m, uint32_t cell_id, inside *in) {
    const cell *c = &m->run->cells[cell_id];
    const node *n = &m->run->g->nodes[c->top.node];
    *in = (inside){ 0 };
    if (n->kind == NODE_STRING ? !inside_string(m, cell_id, n, in) : n->kind != NODE_KEY || !inside_key(m, cell_id, in))
        return false;
    if (in->at.at != BODY_PLAIN && in->at.at != BODY_ESCAPE) return false;
    in->table = &m->trie->tables[in->mode][in->at.at == BODY_ESCAPE];
    if (in->table->most >= 255 && in->room < GRAMMAR_COUNT_MAX) return false;
    if (in->mode == BODY_RAW && in->room < in->table->most) return false;
    in->self = run_intern(m->run, &cell_id, 1);
    return true;
}

static void allow_stays(const token_mask *m, const inside *in, uint32_t *bits) {
    const body_table *b = in->table;
    if (in->room >= b->most) {
        for (size_t w = 0; w < m->n_words; w++) bits[w] |= b->stays[w];
        return;
    }
    for (int32_t k = 0; k < m->trie->n_ids; k++) {
        int32_t id = m->trie->ids[k];
        if (bit_is_set(b->stays, id) && b->chars[id] <= in->room) bit_set(bits, id);
    }
}

static void allow_closes(token_mask *m, const inside *in, uint32_t *bits) {
    for (uint32_t i = 0; i < in->table->n_closes; i++) {
        body_close c = in->table->closes[i];
        if (c.chars < in->need || c.chars > in->room) continue;
        allow_tokens(m->trie, c.node, bits);
        walk(m, c.node, in->behind, bits);
    }
}

/* The tables hold for text that is neither in the middle of a tag nor of a word. Tokens that go on with one are looked
 * at anew. */
static bool needs_mending(const inside *in, uint8_t c) {
    if (in->at.guard && body_guard(in->at.guard, c) > 1) return true;
    return in->words && (c == '"' || run_next_word(in->words, in->word, in->word_bytes, c) >= 0);
}

static void mend(token_mask *m, const inside *in, uint8_t byte, uint32_t *bits) {
    const token_trie *t = m->trie;
    uint32_t node = t->roots[byte];
    if (!node) return;
    uint32_t last = t->nodes[t->nodes[node].end].first;
    for (uint32_t k = t->nodes[node].first; k < last; k++) bits[t->ids[k] >> 5] &= ~((uint32_t)1 << (t->ids[k] & 31));
    grammar_state s = grammar_run_step(m->run, in->self, byte);
    if (!s) return;
    allow_tokens(t, node, bits);
    walk(m, node, s, bits);
}

/* Into bits that are empty. */
static void fill_inside(token_mask *m, const inside *in, uint32_t *bits) {
    allow_stays(m, in, bits);
    allow_closes(m, in, bits);
    for (int c = 0; c < 256; c++)
        if (needs_mending(in, (uint8_t)c)) mend(m, in, (uint8_t)c, bits);
    for (int32_t i = 0; i < m->trie->n_tagged && in->mode == BODY_RAW; i++)
        if (step_bytes(m, in->self, trie_bytes(m->trie, m->trie->tagged[i]))) bit_set(bits, m->trie->tagged[i]);
}

/* A string with a pattern is walked by the pattern's own states: a step is one look-up. */
static bool fill_pattern(token_mask *m, uint32_t cell_id, uint32_t *bits) {
    const token_trie *t = m->trie;
    const cell *c = &m->run->cells[cell_id];
    const node *n = &m->run->g->nodes[c->top.node];
    uint32_t below = c->below;
    if (n->kind != NODE_PATTERN || n->body == BODY_RAW || !c->top.aux) return false;
    m->path[0] = c->top.aux;
    grammar_state behind = run_intern(m->run, &below, 1);
    for (uint32_t i = 1; i < t->n_nodes;) {
        const trie_node *at = &t->nodes[i];
        uint32_t from = m->path[at->depth - 1], next = pattern_step(n->pattern, from, at->byte);
        bool closes = !next && at->byte == '"' && pattern_accepts(n->pattern, from);
        if (next || closes) allow_tokens(t, i, bits);
        if (closes) walk(m, i, behind, bits); /* leaves the path above this node as it is */
        m->path[at->depth] = next;
        i = next ? i + 1 : at->end;
    }
    return true;
}

static void find_mask(token_mask *m, grammar_state s, uint32_t *bits) {
    memset(bits, 0, m->n_words * sizeof *bits);
    uint32_t others[GRAMMAR_SET_MAX], n_others = 0, n = m->run->sets[s].n, at = m->run->sets[s].at;
    run_room room = run_mark(m->run);
    m->work = 0;
    for (uint32_t i = 0; i < n; i++) {
        inside in;
        uint32_t c = m->run->members[at + i];
        if (fill_pattern(m, c, bits)) continue;
        if (!is_inside(m, c, &in)) {
            others[n_others++] = c;
            continue;
        }
        memset(m->scratch, 0, m->n_words * sizeof *m->scratch);
        fill_inside(m, &in, m->scratch);
        for (size_t w = 0; w < m->n_words; w++) bits[w] |= m->scratch[w];
    }
    if (n_others) walk_all(m, run_intern(m->run, others, n_others), bits);
    for (int32_t i = 0; i < m->n_singles; i++)
        if (grammar_run_step(m->run, s, grammar_token(m->singles[i]))) bit_set(bits, m->singles[i]);
    if (run_is_over(m->run, room, WALK_KEEP)) run_release(m->run, room);
    for (size_t w = 0; w < m->n_words && grammar_run_ends(m->run, s); w++) bits[w] |= m->trie->end_bits[w];
}

void token_mask_fill(token_mask *m, grammar_state s, uint32_t *bits) {
    kept_mask *oldest = &m->kept[0];
    for (int i = 0; i < MASKS_KEPT && s; i++) {
        kept_mask *k = &m->kept[i];
        if (k->state == s) {
            k->used = ++m->clock;
            memcpy(bits, k->bits, m->n_words * sizeof *bits);
            return;
        }
        if (k->used < oldest->used) oldest = k;
    }
    find_mask(m, s, bits);
    if (!oldest->bits) oldest->bits = xalloc(m->n_words * sizeof *bits);
    memcpy(oldest->bits, bits, m->n_words * sizeof *bits);
    oldest->state = s;
    oldest->used = ++m->clock;
}

void token_mask_trim(token_mask *m, grammar_state *states, size_t n) {
    if (!grammar_run_is_big(m->run)) return;
    grammar_run_trim(m->run, states, n);
    for (int i = 0; i < MASKS_KEPT; i++) m->kept[i].state = GRAMMAR_DEAD;
}
