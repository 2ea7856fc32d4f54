/* The subset construction. A state of the result is a set of nodes, the number of characters so far (up to where it
 * matters) and how much of a closing tag has been seen; so bounds of the length and the guard cost no work per byte
 * later. At any place either all nodes of a set are within a character or none is. States from which nothing accepts
 * are cut off: what begins like them has no end. */
#include "engine/text/pattern_int.h"

#include "engine/base/buf.h"
#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <stdlib.h>

enum { WORK_MAX = 20 << 20, SLOTS = 2 * PATTERN_STATES_MAX };

struct pattern {
    uint16_t *next; /* by state and class of bytes; 0: dead */
    uint8_t class_of[256];
    uint32_t n_classes;
    bool *accepts;
    uint32_t n; /* states, the dead one included */
    uint32_t start;
};

/* Head of a state's key; its nodes follow, ascending. */
typedef struct key_head {
    int64_t count;
    int32_t guard, n;
} key_head;

typedef struct builder {
    nfa f;
    body_mode mode;
    int64_t min, max;
    pattern *p;
    uint16_t (*next)[256]; /* by state and byte */
    buf keys[PATTERN_STATES_MAX];
    uint16_t slots[SLOTS]; /* states by the hash of their key */
    uint32_t *marks, mark; /* by node: in the set that is being made */
    int32_t *stack, *found, n_found;
    size_t work;
    bool full;
} builder;

/* Adds the nodes that are reached from `from` without a byte. */
static void add_closure(builder *b, int32_t from) {
    int32_t n = 0;
    b->stack[n++] = from;
    while (n) {
        int32_t at = b->stack[--n];
        if (at < 0 || b->marks[at] == b->mark) continue;
        b->marks[at] = b->mark;
        b->work++;
        const nfa_node *node = &b->f.nodes[at];
        if (node->kind == NFA_SPLIT) {
            b->stack[n++] = node->b;
            b->stack[n++] = node->a;
        } else {
            b->found[b->n_found++] = at;
        }
    }
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The state of the nodes found; 0 when there are none or no more fit. */
static uint16_t find_state(builder *b, int64_t count, uint8_t guard) {
    if (!b->n_found || b->full) return 0;
    qsort(b->found, (size_t)b->n_found, sizeof *b->found, by_number);
    key_head head = { count, guard, b->n_found };
    buf key = { 0 };
    buf_put(&key, &head, sizeof head);
    buf_put(&key, b->found, (size_t)b->n_found * sizeof *b->found);
    size_t slot = hash64_of(0, key.data, key.len) % SLOTS;
    for (; b->slots[slot]; slot = (slot + 1) % SLOTS)
        if (str_eq(buf_view(&b->keys[b->slots[slot]]), buf_view(&key))) {
            buf_free(&key);
            return b->slots[slot];
        }
    if (b->p->n == PATTERN_STATES_MAX) {
        b->full = true;
        buf_free(&key);
        return 0;
    }
    uint16_t s = (uint16_t)b->p->n++;
    b->slots[slot] = s;
    b->keys[s] = key;
    return s;
}

static void begin_set(builder *b) {
    b->mark++;
    b->n_found = 0;
}

static uint16_t step_set(builder *b, const key_head *head, const int32_t *nodes, int c, int64_t count) {
    uint8_t guard = body_is_guarded(b->mode) ? body_guard((uint8_t)head->guard, (uint8_t)c) : 0;
    if (guard == BODY_GUARD_FULL) return 0;
    begin_set(b);
    for (int32_t i = 0; i < head->n; i++) {
        const nfa_node *node = &b->f.nodes[nodes[i]];
        b->work++;
        if (node->kind == NFA_BYTES && c >= node->lo && c <= node->hi) add_closure(b, node->a);
    }
    return find_state(b, count, guard);
}

/* Bytes that all nodes of the state treat alike lead to one state. */
static void mark_borders(const builder *b, const key_head *head, const int32_t *nodes, bool border[257]) {
    memset(border, body_is_guarded(b->mode), 257);
    for (int32_t i = 0; i < head->n; i++) {
        border[b->f.nodes[nodes[i]].lo] = true;
        border[b->f.nodes[nodes[i]].hi + 1] = true;
    }
    border[0] = true;
}

static void expand(builder *b, uint32_t s) {
    key_head head;
    memcpy(&head, b->keys[s].data, sizeof head);
    const int32_t *nodes = (const int32_t *)(const void *)(b->keys[s].data + sizeof head);
    bool within = false, accepts = false, border[257];
    for (int32_t i = 0; i < head.n; i++) {
        within |= b->f.nodes[nodes[i]].within;
        accepts |= b->f.nodes[nodes[i]].kind == NFA_ACCEPT;
    }
    b->p->accepts[s] = accepts && head.count >= b->min;
    if (!within && b->max >= 0 && head.count == b->max) return;
    int64_t most = b->max >= 0 ? b->max : b->min;
    int64_t count = within || head.count == most ? head.count : head.count + 1;
    mark_borders(b, &head, nodes, border);
    for (int c = 0; c < 256; c++) b->next[s][c] = border[c] ? step_set(b, &head, nodes, c, count) : b->next[s][c - 1];
}

/* Reverse edges, so that one walk from the accepting states finds all that lead to them. */
static void cut_dead(pattern *p, uint16_t (*next)[256]) {
    uint32_t *from = xalloc((p->n + 2) * sizeof *from), n_edges = 0, n = 0;
    for (uint32_t s = 1; s < p->n; s++)
        for (int c = 0; c < 256; c++) from[next[s][c] + 1]++;
    for (uint32_t s = 0; s <= p->n; s++) n_edges = from[s] += n_edges;
    uint16_t *edges = xalloc((n_edges + 1) * sizeof *edges), *queue = xalloc(p->n * sizeof *queue);
    uint32_t *at = xalloc((p->n + 1) * sizeof *at);
    memcpy(at, from, (p->n + 1) * sizeof *at);
    for (uint32_t s = 1; s < p->n; s++)
        for (int c = 0; c < 256; c++) edges[at[next[s][c]]++] = (uint16_t)s;
    bool *lives = xalloc(p->n);
    for (uint32_t s = 1; s < p->n; s++)
        if (p->accepts[s]) lives[queue[n++] = (uint16_t)s] = true;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = from[queue[i]]; k < at[queue[i]]; k++)
            if (!lives[edges[k]]) lives[queue[n++] = edges[k]] = true;
    for (uint32_t s = 1; s < p->n; s++)
        for (int c = 0; c < 256; c++)
            if (!lives[next[s][c]]) next[s][c] = 0;
    if (!lives[p->start]) p->start = 0;
    free(lives);
    free(at);
    free(queue);
    free(edges);
    free(from);
}

/* Bytes that no state tells apart share a class; few classes are left of 256 bytes. */
static void find_classes(pattern *p, uint16_t (*next)[256]) {
    uint8_t first[256]; /* byte of each class */
    for (int c = 0; c < 256; c++) {
        uint32_t k = 0;
        for (; k < p->n_classes; k++) {
            uint32_t s = 1;
            while (s < p->n && next[s][c] == next[s][first[k]]) s++;
            if (s == p->n) break;
        }
        if (k == p->n_classes) first[p->n_classes++] = (uint8_t)c;
        p->class_of[c] = (uint8_t)k;
    }
    p->next = xalloc(p->n * p->n_classes * sizeof *p->next);
    for (uint32_t s = 1; s < p->n; s++)
        for (uint32_t k = 0; k < p->n_classes; k++) p->next[s * p->n_classes + k] = next[s][first[k]];
}

static void build(builder *b, int32_t first) {
    pattern *p = b->p;
    b->next = xalloc(PATTERN_STATES_MAX * sizeof *b->next);
    p->accepts = xalloc(PATTERN_STATES_MAX);
    p->n = 1;
    b->marks = xalloc((size_t)b->f.n * sizeof *b->marks);
    b->stack = xalloc((size_t)(2 * b->f.n + 2) * sizeof *b->stack);
    b->found = xalloc((size_t)b->f.n * sizeof *b->found);
    begin_set(b);
    add_closure(b, first);
    p->start = find_state(b, 0, 0);
    for (uint32_t s = 1; s < p->n && !b->full; s++) {
        expand(b, s);
        b->full |= b->work > WORK_MAX;
    }
    if (!b->full) {
        cut_dead(p, b->next);
        find_classes(p, b->next);
    }
    for (uint32_t s = 1; s < p->n; s++) buf_free(&b->keys[s]);
    free(b->next);
    free(b->marks);
    free(b->stack);
    free(b->found);
}

status pattern_new(pattern **out, str regex_text, body_mode mode, int64_t min, int64_t max, err *e) {
    arena *mem = arena_new();
    builder *b = xalloc(sizeof *b);
    b->mode = mode;
    b->min = min;
    b->max = max;
    b->p = xalloc(sizeof *b->p);
    b->f.is_json = mode != BODY_RAW;
    b->f.nodes = xalloc(NFA_NODES_MAX * sizeof *b->f.nodes);
    regex *r = NULL;
    status s = regex_parse(mem, &r, regex_text, e);
    if (s == OK) {
        int32_t first = nfa_emit(&b->f, r, nfa_add(&b->f, (nfa_node){ .kind = NFA_ACCEPT, .lo = 1, .a = -1, .b = -1 }));
        b->full = b->f.full || min > PATTERN_STATES_MAX;
        if (!b->full) build(b, first);
        if (b->full)
            s = err_set(e, ERR_UNSUPPORTED,
                        "the expression, with the bounds of the length, needs an automaton of more than %d states",
                        PATTERN_STATES_MAX - 1);
    }
    if (s == OK)
        *out = b->p;
    else
        pattern_free(b->p);
    free(b->f.nodes);
    free(b);
    arena_free(mem);
    return s;
}

void pattern_free(pattern *p) {
    if (!p) return;
    free(p->next);
    free(p->accepts);
    free(p);
}

uint32_t pattern_states(const pattern *p) { return p->n; }

uint32_t pattern_start(const pattern *p) { return p->start; }

uint32_t pattern_step(const pattern *p, uint32_t state, uint8_t byte) {
    return p->next[state * p->n_classes + p->class_of[byte]];
}

bool pattern_accepts(const pattern *p, uint32_t state) { return state && p->accepts[state]; }
