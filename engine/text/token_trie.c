#include "engine/text/token_trie_int.h"

#include "engine/base/mem.h"
#include "engine/text/text_int.h"

#include <stdlib.h>

static int by_bytes(const void *a, const void *b, void *ctx) {
    const token_trie *t = ctx;
    return str_order(trie_bytes(t, *(const int32_t *)a), trie_bytes(t, *(const int32_t *)b));
}

static void keep_bytes(token_trie *t, const str *bytes) {
    size_t total = 0;
    for (int32_t id = 0; id < t->vocab; id++) total += bytes[id].n;
    CHECK(total < UINT32_MAX / 2);
    t->text = xalloc(total + 1);
    t->at = xalloc(((size_t)t->vocab + 1) * sizeof *t->at);
    for (int32_t id = 0; id < t->vocab; id++) {
        if (bytes[id].n) memcpy(t->text + t->at[id], bytes[id].p, bytes[id].n);
        t->at[id + 1] = t->at[id] + (uint32_t)bytes[id].n;
    }
}

static bool holds(str s, str part) { return s.n >= part.n && memmem(s.p, s.n, part.p, part.n) != NULL; }

static void sort_tokens(token_trie *t) {
    t->ids = xalloc((size_t)t->vocab * sizeof *t->ids + 1);
    t->tagged = xalloc((size_t)t->vocab * sizeof *t->tagged + 1);
    t->end_bits = xalloc(token_mask_words(t->vocab) * sizeof *t->end_bits);
    for (int32_t id = 0; id < t->vocab; id++) {
        str bytes = trie_bytes(t, id);
        if (t->uses[id] == TOKEN_END) bit_set(t->end_bits, id);
        if (t->uses[id] != TOKEN_BYTES || !bytes.n) continue;
        t->ids[t->n_ids++] = id;
        if (bytes.n > t->longest) t->longest = (uint32_t)bytes.n;
        if (holds(bytes, STR(BODY_TAG_ARG))) t->tagged[t->n_tagged++] = id;
    }
    qsort_r(t->ids, (size_t)t->n_ids, sizeof *t->ids, by_bytes, t);
}

/* open[d]: the node of depth d on the path to the token that came last. */
static void build_nodes(token_trie *t) {
    t->nodes = xalloc((t->at[t->vocab] + 2) * sizeof *t->nodes);
    uint32_t *open = xalloc((t->longest + 1) * sizeof *open), depth = 0;
    t->nodes[0] = (trie_node){ 0 };
    t->n_nodes = 1;
    str last = { "", 0 };
    for (int32_t i = 0; i < t->n_ids; i++) {
        str now = trie_bytes(t, t->ids[i]);
        uint32_t same = 0;
        while (same < last.n && same < now.n && last.p[same] == now.p[same]) same++;
        for (; depth > same; depth--) t->nodes[open[depth]].end = t->n_nodes;
        while (depth < now.n) {
            open[++depth] = t->n_nodes;
            t->nodes[t->n_nodes++] =
                (trie_node){ .first = (uint32_t)i, .depth = depth, .byte = (uint8_t)now.p[depth - 1] };
        }
        last = now;
    }
    for (; depth > 0; depth--) t->nodes[open[depth]].end = t->n_nodes;
    t->nodes[0].end = t->n_nodes;
    t->nodes[t->n_nodes].first = (uint32_t)t->n_ids;
    t->nodes = xrealloc(t->nodes, (t->n_nodes + 1) * sizeof *t->nodes);
    for (uint32_t i = 1; i < t->n_nodes; i = t->nodes[i].end) t->roots[t->nodes[i].byte] = i;
    free(open);
}

static void put_close(body_table *b, uint32_t node, uint32_t chars) {
    if (!(b->n_closes & (b->n_closes + 1)))
        b->closes = xrealloc(b->closes, (2 * (size_t)b->n_closes + 1) * sizeof *b->closes);
    b->closes[b->n_closes++] = (body_close){ node, chars };
}

typedef struct walked {
    body at;
    uint32_t chars;
} walked;

static void build_table(token_trie *t, body_mode mode, body_at from) {
    body_table *b = &t->tables[mode][from == BODY_ESCAPE];
    b->stays = xalloc(token_mask_words(t->vocab) * sizeof *b->stays);
    b->chars = xalloc((size_t)t->vocab + 1);
    walked *path = xalloc((t->longest + 1) * sizeof *path);
    path[0].at.at = (uint8_t)from;
    for (uint32_t i = 1; i < t->n_nodes;) {
        const trie_node *n = &t->nodes[i];
        walked w = path[n->depth - 1];
        body_result r = body_step(&w.at, mode, n->byte);
        if (r == BODY_CLOSE) put_close(b, i, w.chars);
        if (r == BODY_CLOSE || r == BODY_DEAD) {
            i = n->end;
            continue;
        }
        w.chars += r == BODY_BEGUN;
        path[n->depth] = w;
        for (uint32_t k = n->first; k < n[1].first; k++) {
            bit_set(b->stays, t->ids[k]);
            b->chars[t->ids[k]] = (uint8_t)(w.chars < 255 ? w.chars : 255);
            if (w.chars > b->most) b->most = w.chars;
        }
        i++;
    }
    free(path);
}

token_trie *token_trie_new(const str *bytes, const uint8_t *uses, int32_t n) {
    token_trie *t = xalloc(sizeof *t);
    t->vocab = n;
    t->uses = xalloc((size_t)n + 1);
    if (n) memcpy(t->uses, uses, (size_t)n);
    keep_bytes(t, bytes);
    sort_tokens(t);
    build_nodes(t);
    for (int mode = 0; mode < BODY_MODES; mode++) {
        build_table(t, (body_mode)mode, BODY_PLAIN);
        if (mode <= BODY_JSON_GUARDED) build_table(t, (body_mode)mode, BODY_ESCAPE);
    }
    return t;
}

token_trie *token_trie_of_model(const text_model *tm) {
    int32_t n = text_vocab(tm);
    str *bytes = xalloc((size_t)n * sizeof *bytes + 1);
    uint8_t *uses = xalloc((size_t)n + 1);
    for (int32_t id = 0; id < n; id++) {
        bytes[id] = text_token_bytes(tm, id);
        uses[id] = bytes[id].n ? TOKEN_BYTES : TOKEN_UNUSED;
    }
    for (size_t i = 0; i < tokenizer_count_added(tm->tokens); i++)
        uses[tokenizer_get_added(tm->tokens, i)->id] = TOKEN_SINGLE;
    for (int32_t id = 0; id < n; id++)
        if (text_is_end(tm, id)) uses[id] = TOKEN_END;
    token_trie *t = token_trie_new(bytes, uses, n);
    free(bytes);
    free(uses);
    return t;
}

void token_trie_free(token_trie *t) {
    if (!t) return;
    for (int mode = 0; mode < BODY_MODES; mode++)
        for (int k = 0; k < TABLES; k++) {
            free(t->tables[mode][k].stays);
            free(t->tables[mode][k].chars);
            free(t->tables[mode][k].closes);
        }
    free(t->nodes);
    free(t->ids);
    free(t->text);
    free(t->at);
    free(t->uses);
    free(t->end_bits);
    free(t->tagged);
    free(t);
}

int32_t token_trie_vocab(const token_trie *t) { return t->vocab; }
