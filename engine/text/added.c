/* A trie of a few hundred nodes, children in a list. The first byte is looked up in a table of its own: nearly all
 * bytes of a text begin no token, and a step over them should cost one load. */
#include "engine/text/added.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>

typedef struct node {
    const added_token *token; /* NULL: only on the way to longer ones */
    int32_t child, sibling;   /* 0: none */
    char byte;
} node;

struct added_set {
    node *nodes; /* [0] is unused, so that 0 can mean none */
    int32_t n, cap;
    int32_t first[256];
};

added_set *added_new(void) {
    added_set *s = xalloc(sizeof *s);
    s->n = 1;
    return s;
}

void added_free(added_set *s) {
    if (!s) return;
    free(s->nodes);
    free(s);
}

static int32_t new_node(added_set *s, char byte) {
    if (s->n >= s->cap) {
        s->cap = s->cap ? 2 * s->cap : 256;
        s->nodes = xrealloc(s->nodes, (size_t)s->cap * sizeof *s->nodes);
    }
    s->nodes[s->n] = (node){ .byte = byte };
    return s->n++;
}

/* 0: none. */
static int32_t find_child(const added_set *s, int32_t at, char byte) {
    int32_t c = s->nodes[at].child;
    while (c && s->nodes[c].byte != byte) c = s->nodes[c].sibling;
    return c;
}

static int32_t add_child(added_set *s, int32_t at, char byte) {
    int32_t c = new_node(s, byte);
    s->nodes[c].sibling = s->nodes[at].child;
    s->nodes[at].child = c;
    return c;
}

bool added_put(added_set *s, const added_token *t) {
    CHECK(t->text.n > 0);
    int32_t *first = &s->first[(unsigned char)t->text.p[0]];
    if (!*first) *first = new_node(s, t->text.p[0]);
    int32_t at = *first;
    for (size_t i = 1; i < t->text.n; i++) {
        int32_t child = find_child(s, at, t->text.p[i]);
        at = child ? child : add_child(s, at, t->text.p[i]);
    }
    if (s->nodes[at].token) return false;
    s->nodes[at].token = t;
    return true;
}

/* The longest token at the start of the text; NULL: none. */
static const added_token *match(const added_set *s, str text) {
    const added_token *best = NULL;
    size_t i = 0;
    for (int32_t at = s->first[(unsigned char)text.p[0]]; at; at = find_child(s, at, text.p[i])) {
        if (s->nodes[at].token) best = s->nodes[at].token;
        if (++i == text.n) break;
    }
    return best;
}

const added_token *added_find(const added_set *s, str text) {
    const added_token *t = text.n ? match(s, text) : NULL;
    return t && t->text.n == text.n ? t : NULL;
}

bool added_begins(const added_set *s, str text) { return text.n && match(s, text); }

/* ---- flags ---- */

/* White_Space of Unicode. */
static bool is_white(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

/* Start of the character that ends at `end` > 0. */
static size_t char_before(str s, size_t end) {
    do end--;
    while (end > 0 && (s.p[end] & 0xC0) == 0x80);
    return end;
}

static size_t strip_left(str text, size_t at, size_t least) {
    while (at > least) {
        uint32_t cp = 0;
        size_t before = char_before(text, at);
        utf8_decode(str_from(text, before), &cp);
        if (!is_white(cp)) break;
        at = before;
    }
    return at;
}

static size_t strip_right(str text, size_t at) {
    uint32_t cp = 0;
    for (size_t n; (n = utf8_decode(str_from(text, at), &cp)) > 0 && is_white(cp);) at += n;
    return at;
}

static bool touches_word(const added_scan *scan, size_t at, size_t end) {
    str text = scan->text;
    if (at > 0 && pretok_is_word(scan->words, str_from(text, char_before(text, at)))) return true;
    return pretok_is_word(scan->words, str_from(text, end));
}

bool added_next(added_scan *scan, str *gap, const added_token **t) {
    str text = scan->text;
    for (size_t at = scan->search; at < text.n; at++) {
        if (!scan->set->first[(unsigned char)text.p[at]]) continue;
        const added_token *hit = match(scan->set, str_from(text, at));
        if (!hit) continue;
        size_t end = at + hit->text.n;
        if (hit->single_word && touches_word(scan, at, end)) {
            at = end - 1; /* the reference looks on behind it, not inside */
            continue;
        }
        scan->search = end;
        if (hit->rstrip) end = strip_right(text, end);
        if (hit->lstrip) {
            at = strip_left(text, at, scan->done);
            if (end <= scan->done) { /* white space that the token before it took along: nothing is left of it */
                at = scan->search - 1;
                continue;
            }
        }
        *gap = (str){ text.p + scan->done, at > scan->done ? at - scan->done : 0 };
        *t = hit;
        scan->done = end;
        return true;
    }
    *gap = str_from(text, scan->done);
    return false;
}
