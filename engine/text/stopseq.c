/* The automaton of Aho and Corasick: a trie of all strings, whose nodes stand for "the text so far ends like this". A
 * byte that does not continue the node's path moves to the longest proper suffix of the path that is a path as well
 * (its fall), and the bytes that this suffix leaves out can no longer begin a match: they come out.
 *
 * The bytes held back are always the path of the current node, so no buffer holds them. Children are lists: stop
 * strings are few, and a table of 256 entries for each of their bytes would not stay in the cache. */
#include "engine/text/stopseq.h"

#include "engine/base/mem.h"
#include "engine/base/status.h"

#include <stdlib.h>

typedef struct state {
    int32_t child, sibling; /* states, 0: none, as the root is nobody's child */
    int32_t fall;
    int32_t match;    /* longest string that ends here, -1: none */
    const char *path; /* depth bytes, inside of a string */
    size_t depth;
    char byte; /* last one of the path */
} state;

struct stopseq {
    char *bytes; /* of the strings, one behind the other */
    size_t *lens;
    state *states; /* the root is 0 */
    int32_t n_states;
    int32_t at;
};

static int32_t find_child(const stopseq *s, int32_t from, char byte) {
    int32_t c = s->states[from].child;
    while (c && s->states[c].byte != byte) c = s->states[c].sibling;
    return c;
}

static void add_string(stopseq *s, const char *p, size_t n, int32_t index) {
    int32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t next = find_child(s, at, p[i]);
        if (!next) {
            next = s->n_states++;
            s->states[next] =
                (state){ .sibling = s->states[at].child, .match = -1, .path = p, .depth = i + 1, .byte = p[i] };
            s->states[at].child = next;
        }
        at = next;
    }
    if (s->states[at].match < 0) s->states[at].match = index; /* of equal strings the first */
}

/* Falls of a level need those of the levels above, so breadth first. A state without a string of its own takes the
 * match of its fall, which is the next longest that ends there. */
static void link_states(stopseq *s) {
    int32_t *queue = xalloc((size_t)s->n_states * sizeof *queue), head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        int32_t parent = queue[head++];
        for (int32_t c = s->states[parent].child; c; c = s->states[c].sibling) {
            state *st = &s->states[c];
            for (int32_t up = parent; up && !st->fall;) {
                up = s->states[up].fall;
                st->fall = find_child(s, up, st->byte);
            }
            if (st->match < 0) st->match = s->states[st->fall].match;
            queue[tail++] = c;
        }
    }
    free(queue);
}

stopseq *stopseq_new(const str *strings, size_t n) {
    stopseq *s = xalloc(sizeof *s);
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++) total += strings[i].n;
    CHECK(total < INT32_MAX && n < INT32_MAX);
    s->bytes = xalloc(total + 1);
    s->lens = xalloc((n + 1) * sizeof *s->lens);
    s->states = xalloc((total + 1) * sizeof *s->states);
    s->states[0].match = -1;
    s->n_states = 1;
    for (size_t i = 0; i < n; i++) {
        CHECK(strings[i].n);
        memcpy(s->bytes + at, strings[i].p, strings[i].n);
        s->lens[i] = strings[i].n;
        add_string(s, s->bytes + at, strings[i].n, (int32_t)i);
        at += strings[i].n;
    }
    link_states(s);
    return s;
}

void stopseq_free(stopseq *s) {
    if (!s) return;
    free(s->bytes);
    free(s->lens);
    free(s->states);
    free(s);
}

/* Bytes that no string begins with pass in one piece. */
static size_t pass_plain(const stopseq *s, str text, size_t from, buf *out) {
    size_t to = from;
    while (to < text.n && !find_child(s, 0, text.p[to])) to++;
    buf_put(out, text.p + from, to - from);
    return to;
}

int32_t stopseq_push(stopseq *s, str text, buf *out) {
    for (size_t i = 0; i < text.n; i++) {
        if (!s->at) {
            i = pass_plain(s, text, i, out);
            if (i == text.n) break;
        }
        int32_t next;
        while (!(next = find_child(s, s->at, text.p[i])) && s->at) {
            const state *from = &s->states[s->at];
            buf_put(out, from->path, from->depth - s->states[from->fall].depth);
            s->at = from->fall;
        }
        if (!next) buf_byte(out, text.p[i]);
        s->at = next;
        const state *now = &s->states[next];
        if (now->match >= 0) {
            buf_put(out, now->path, now->depth - s->lens[now->match]);
            s->at = 0;
            return now->match;
        }
    }
    return -1;
}

void stopseq_flush(stopseq *s, buf *out) {
    buf_put(out, s->states[s->at].path, s->states[s->at].depth);
    s->at = 0;
}
