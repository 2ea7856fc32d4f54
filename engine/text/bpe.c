/* The symbols of a piece are a linked list, and the pairs that can be merged are a heap of (rank, position): a scan for
 * the lowest rank per merge would be quadratic for a megabyte of one letter. For words such a scan over a small array
 * is the faster way, but it saves no more than 8 % of the encoding time (2.5 MB of source code, 100k tokens), which is
 * not worth a second way to the same ids.
 *
 * The heap is never searched for entries that a merge has made wrong. An entry is looked at when it comes up: it still
 * holds if the pair at its position has its rank. Symbols only grow, so a rank that has gone from a position never
 * comes back there, and a stale entry cannot look valid. */
#include "engine/text/bpe.h"

#include "engine/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define NO_RANK UINT32_MAX
#define NO_PAIR UINT64_MAX
#define NONE UINT32_MAX

typedef struct cell {
    uint64_t pair; /* left << 32 | right; NO_PAIR: empty */
    uint32_t rank;
    int32_t result;
} cell;

struct bpe {
    int32_t byte_id[256];
    cell *cells; /* open addressing, linear probing, at most half full */
    uint32_t mask;
    int shift;
};

typedef struct bpe_symbol {
    int32_t id;
    uint32_t prev, next; /* NONE at the ends */
    uint32_t rank;       /* of the pair with next; NO_RANK: not in the list, or no next, or this symbol is gone */
    int32_t result;      /* of that pair */
} bpe_symbol;

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

/* Cell of the pair, or the empty one where it belongs. */
static cell *find_cell(const bpe *b, uint64_t pair) {
    uint64_t at = pair * 0x9E3779B97F4A7C15u >> b->shift;
    for (;; at++) {
        cell *c = &b->cells[at & b->mask];
        if (c->pair == pair || c->pair == NO_PAIR) return c;
    }
}

status bpe_new(bpe **out, const int32_t byte_id[256], const bpe_merge *merges, size_t n, err *e) {
    CHECK(n < (size_t)1 << 28);
    int bits = 4;
    while ((size_t)1 << bits < 2 * n) bits++;
    bpe *b = xalloc(sizeof *b);
    memcpy(b->byte_id, byte_id, sizeof b->byte_id);
    b->cells = xalloc(sizeof(cell) << bits);
    b->mask = ((uint32_t)1 << bits) - 1;
    b->shift = 64 - bits;
    for (size_t i = 0; i <= b->mask; i++) b->cells[i].pair = NO_PAIR;
    for (size_t i = 0; i < n; i++) {
        uint64_t pair = pair_of(merges[i].left, merges[i].right);
        cell *c = find_cell(b, pair);
        if (c->pair == pair) {
            status s = err_set(e, ERR_MODEL, "entry %zu repeats entry %u", i, c->rank);
            bpe_free(b);
            return s;
        }
        *c = (cell){ pair, (uint32_t)i, merges[i].result };
    }
    *out = b;
    return OK;
}

void bpe_free(bpe *b) {
    if (!b) return;
    free(b->cells);
    free(b);
}

void bpe_work_deinit(bpe_work *w) {
    free(w->symbols);
    free(w->heap);
    *w = (bpe_work){ 0 };
}

/* A binary heap of rank << 32 | position, smallest on top: the lowest rank, and the leftmost of those. */
static void heap_push(bpe_work *w, size_t *n, uint64_t entry) {
    size_t i = (*n)++;
    while (i > 0 && w->heap[(i - 1) / 2] > entry) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
        w->steps++;
    }
    w->heap[i] = entry;
}

static uint64_t heap_pop(bpe_work *w, size_t *n) {
    uint64_t top = w->heap[0], last = w->heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= last) break;
        w->heap[i] = w->heap[child];
        w->steps++;
    }
    w->heap[i] = last;
    return top;
}

/* Looks up the pair that begins at symbol `at`, and puts it on the heap when it can be merged. */
static void refresh(const bpe *b, bpe_work *w, size_t *n_heap, uint32_t at) {
    bpe_symbol *s = &w->symbols[at];
    s->rank = NO_RANK;
    if (s->next == NONE) return;
    w->steps++;
    const cell *c = find_cell(b, pair_of(s->id, w->symbols[s->next].id));
    if (c->pair == NO_PAIR) return;
    s->rank = c->rank;
    s->result = c->result;
    heap_push(w, n_heap, (uint64_t)c->rank << 32 | at);
}

static void reserve(bpe_work *w, size_t n) {
    if (w->cap >= n) return;
    w->cap = n;
    w->symbols = xrealloc(w->symbols, n * sizeof *w->symbols);
    /* An entry per pair at the start; each of the less than n merges takes one off and puts at most two on. */
    w->heap = xrealloc(w->heap, 2 * n * sizeof *w->heap);
}

void bpe_encode(const bpe *b, bpe_work *w, str piece, token_list *out) {
    CHECK(piece.n <= INT32_MAX);
    uint32_t n = (uint32_t)piece.n;
    size_t n_heap = 0;
    reserve(w, n);
    bpe_symbol *sym = w->symbols;
    for (uint32_t i = 0; i < n; i++)
        sym[i] = (bpe_symbol){ .id = b->byte_id[(unsigned char)piece.p[i]],
                               .prev = i - 1, /* NONE for the first */
                               .next = i + 1 < n ? i + 1 : NONE };
    for (uint32_t i = 0; i < n; i++) refresh(b, w, &n_heap, i);
    while (n_heap) {
        uint64_t top = heap_pop(w, &n_heap);
        uint32_t at = (uint32_t)top;
        bpe_symbol *s = &sym[at];
        if (s->rank != top >> 32) continue;
        bpe_symbol *gone = &sym[s->next];
        s->id = s->result;
        s->next = gone->next;
        gone->rank = NO_RANK;
        if (s->next != NONE) sym[s->next].prev = at;
        refresh(b, w, &n_heap, at);
        if (s->prev != NONE) refresh(b, w, &n_heap, s->prev);
    }
    for (uint32_t i = 0; i != NONE; i = sym[i].next) token_list_push(out, sym[i].id);
}
