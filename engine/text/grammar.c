#include "engine/text/grammar_int.h"

#include "engine/base/mem.h"

#include <stdlib.h>

grammar *grammar_new(void) {
    grammar *g = xalloc(sizeof *g);
    g->mem = arena_new();
    CHECK(grammar_add(g) == NODE_EMPTY);
    g->nodes[grammar_add(g)].kind = NODE_SPACE;
    g->nodes[grammar_add(g)].kind = NODE_KEY;
    return g;
}

void grammar_free(grammar *g) {
    if (!g) return;
    for (int32_t i = 0; i < g->n_patterns; i++) pattern_free(g->patterns[i]);
    free(g->patterns);
    free(g->nodes);
    arena_free(g->mem);
    free(g);
}

int32_t grammar_add(grammar *g) {
    if (g->n_nodes == GRAMMAR_NODES_MAX) return -1;
    if (g->n_nodes == g->cap_nodes) {
        g->cap_nodes = g->cap_nodes * 2 + 16;
        g->nodes = xrealloc(g->nodes, (size_t)g->cap_nodes * sizeof *g->nodes);
    }
    g->nodes[g->n_nodes] = (node){ .kind = NODE_EMPTY };
    return g->n_nodes++;
}

int32_t *grammar_ids(grammar *g, size_t n) {
    g->links += n;
    return arena_alloc(g->mem, (n + 1) * sizeof(int32_t));
}

void grammar_keep_pattern(grammar *g, pattern *p) {
    if (!(g->n_patterns & (g->n_patterns + 1))) /* 0, 1, 3, 7, ... are full */
        g->patterns = xrealloc(g->patterns, (size_t)(2 * g->n_patterns + 1) * sizeof *g->patterns);
    g->patterns[g->n_patterns++] = p;
}

/* By text, then by place: qsort alone keeps no order among equals. */
static int by_text(const void *a, const void *b) {
    const word *x = a, *y = b;
    int order = str_order(x->text, y->text);
    return order ? order : (x->lcp > y->lcp) - (x->lcp < y->lcp);
}

static uint32_t common(str a, str b) {
    uint32_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    return n;
}

word_list grammar_words(grammar *g, const str *texts, const int32_t *values, size_t n) {
    word *items = arena_alloc(g->mem, (n + 1) * sizeof *items);
    g->links += n;
    for (size_t i = 0; i < n; i++) {
        g->bytes += texts[i].n;
        items[i] = (word){ .text = arena_str(g->mem, texts[i]), .lcp = (uint32_t)i, .value = values ? values[i] : 0 };
    }
    qsort(items, n, sizeof *items, by_text);
    int32_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && str_eq(items[kept - 1].text, items[i].text)) continue;
        uint32_t lcp = kept ? common(items[kept - 1].text, items[i].text) : 0;
        items[kept] = items[i];
        items[kept++].lcp = lcp;
    }
    return (word_list){ items, kept };
}

/* Unions of unions become one list, so that a step never goes through a chain of them, and what contains itself without
 * anything in between adds nothing. The room: marks, out and stack have an entry for each node. */
static void flatten_union(grammar *g, int32_t id, int32_t *marks, int32_t *out, int32_t *stack) {
    int32_t n = 0, top = 0;
    stack[top++] = id;
    marks[id] = id;
    while (top) {
        const node *at = &g->nodes[stack[--top]];
        for (int32_t i = 0; i < at->list.n; i++) {
            int32_t child = at->list.nodes[i];
            if (marks[child] == id) continue;
            marks[child] = id;
            if (g->nodes[child].kind == NODE_UNION)
                stack[top++] = child;
            else
                out[n++] = child;
        }
    }
    node *u = &g->nodes[id];
    if (n > u->list.n) u->list.nodes = grammar_ids(g, (size_t)n);
    u->list.n = n;
    if (n) memcpy(u->list.nodes, out, (size_t)n * sizeof *out);
}

static bool flatten_unions(grammar *g) {
    size_t n = (size_t)g->n_nodes;
    int32_t *marks = xalloc(n * sizeof *marks), *out = xalloc(n * sizeof *out), *stack = xalloc(n * sizeof *stack);
    for (int32_t id = 1; id < g->n_nodes && g->links <= GRAMMAR_LINKS_MAX; id++)
        if (g->nodes[id].kind == NODE_UNION) flatten_union(g, id, marks, out, stack);
    free(stack);
    free(out);
    free(marks);
    return g->links <= GRAMMAR_LINKS_MAX;
}

static int32_t highest(const grammar *g, int32_t so_far, int32_t id) {
    return g->nodes[id].height > so_far ? g->nodes[id].height : so_far;
}

static int32_t array_height(const grammar *g, const node *a) {
    int32_t h = 0;
    if (a->array.min > a->array.max) return GRAMMAR_ENDLESS;
    for (int32_t i = 0; i < a->array.n_prefix && i < a->array.min; i++) h = highest(g, h, a->array.prefix[i]);
    if (a->array.min > a->array.n_prefix) h = highest(g, h, a->array.rest);
    return h;
}

static int32_t object_height(const grammar *g, const node_object *o) {
    int32_t h = 0;
    for (int32_t i = o->needed[0]; i < o->n; i = o->needed[i + 1]) h = highest(g, h, o->values[i]);
    return h;
}

static int32_t words_height(const grammar *g, const node *w) {
    int32_t h = w->words.list.n && !w->words.next ? 0 : GRAMMAR_ENDLESS;
    for (int32_t i = 0; w->words.next && i < w->words.list.n; i++) {
        int32_t next = g->nodes[w->words.next[w->words.list.items[i].value]].height;
        if (next < h) h = next;
    }
    return h;
}

static int32_t union_height(const grammar *g, const node *u) {
    int32_t h = GRAMMAR_ENDLESS;
    for (int32_t i = 0; i < u->list.n; i++)
        if (g->nodes[u->list.nodes[i]].height < h) h = g->nodes[u->list.nodes[i]].height;
    return h;
}

static int32_t height_of(const grammar *g, const node *n) {
    int32_t h = 0;
    switch (n->kind) {
    case NODE_EMPTY: return GRAMMAR_ENDLESS;
    case NODE_WORDS: return words_height(g, n);
    case NODE_STRING: return n->string.min > n->string.max ? GRAMMAR_ENDLESS : 0;
    case NODE_PATTERN: return pattern_start(n->pattern) ? 0 : GRAMMAR_ENDLESS;
    case NODE_RANGE: return n->range.lo > n->range.hi ? GRAMMAR_ENDLESS : 0;
    case NODE_ARRAY: h = 1 + array_height(g, n); break;
    case NODE_OBJECT: h = 1 + object_height(g, &n->object); break;
    case NODE_ARGS: h = object_height(g, &n->object); break;
    case NODE_UNION: return union_height(g, n);
    case NODE_SEQ:
    case NODE_LOOP:
        for (int32_t i = 0; i < n->list.n; i++) h = highest(g, h, n->list.nodes[i]);
        break;
    default: break;
    }
    return h > GRAMMAR_DEPTH ? GRAMMAR_ENDLESS : h;
}

/* Heights only fall, and each round settles at least the nodes of the next level: what needs more levels than are
 * allowed is as good as endless, so there are few rounds. Chains without levels (unions are flat, sequences made by us)
 * are short. */
static void find_heights(grammar *g) {
    for (int32_t id = 0; id < g->n_nodes; id++) g->nodes[id].height = GRAMMAR_ENDLESS;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t id = g->n_nodes; id-- > 0;) {
            int32_t h = height_of(g, &g->nodes[id]);
            changed |= h != g->nodes[id].height;
            g->nodes[id].height = h;
        }
    }
}

/* A word that leads to a node in which nothing is valid would be a dead end. */
static void drop_dead_words(const grammar *g, word_list *l, const int32_t *next) {
    int32_t kept = 0;
    uint32_t lcp = UINT32_MAX; /* with the last word that is kept */
    for (int32_t i = 0; i < l->n; i++) {
        word w = l->items[i];
        if (w.lcp < lcp) lcp = w.lcp;
        if (g->nodes[next[w.value]].height > GRAMMAR_DEPTH) continue;
        w.lcp = kept ? lcp : 0;
        lcp = UINT32_MAX;
        l->items[kept++] = w;
    }
    l->n = kept;
}

status grammar_finish(grammar *g, err *e) {
    if (g->links > GRAMMAR_LINKS_MAX || g->bytes > GRAMMAR_BYTES_MAX || !flatten_unions(g))
        return err_set(e, ERR_UNSUPPORTED,
                       "the schema is too large: at most %d references and values, and %d bytes of names and values",
                       GRAMMAR_LINKS_MAX, GRAMMAR_BYTES_MAX);
    find_heights(g);
    for (int32_t id = 1; id < g->n_nodes; id++) {
        node *n = &g->nodes[id];
        if (n->kind == NODE_WORDS && n->words.next) drop_dead_words(g, &n->words.list, n->words.next);
    }
    return OK;
}

static int32_t add_words(grammar *g, const str *texts, size_t n) {
    int32_t id = grammar_add(g);
    if (id >= 0) {
        word_list list = grammar_words(g, texts, NULL, n);
        g->nodes[id].kind = NODE_WORDS;
        g->nodes[id].words.list = list;
    }
    return id;
}

int32_t grammar_add_any(grammar *g, body_mode body) {
    static const str literals[] = { { "null", 4 }, { "true", 4 }, { "false", 5 } };
    int32_t words = add_words(g, literals, 3), string = grammar_add(g), number = grammar_add(g), array = grammar_add(g),
            object = grammar_add(g), any = grammar_add(g);
    if (any < 0) return -1;
    node *n = g->nodes;
    n[string] = (node){ .kind = NODE_STRING, .body = (uint8_t)body, .string = { 0, GRAMMAR_COUNT_MAX } };
    n[number] = (node){ .kind = NODE_NUMBER };
    n[array] = (node){ .kind = NODE_ARRAY, .array = { .rest = any, .max = GRAMMAR_COUNT_MAX } };
    n[object] = (node){ .kind = NODE_OBJECT,
                        .body = (uint8_t)(body_is_guarded(body) ? BODY_KEY_GUARDED : BODY_KEY),
                        .object = { .rest = any } };
    n[object].object.needed = grammar_ids(g, 1);
    n[any] = (node){ .kind = NODE_UNION, .list = { grammar_ids(g, 5), 5 } };
    int32_t *of = n[any].list.nodes;
    of[0] = object, of[1] = array, of[2] = string, of[3] = number, of[4] = words;
    return any;
}

grammar *grammar_any_object(void) {
    grammar *g = grammar_new();
    int32_t any = grammar_add_any(g, BODY_JSON);
    CHECK(any >= 0 && grammar_finish(g, NULL) == OK);
    g->root = g->nodes[any].list.nodes[0];
    return g;
}
