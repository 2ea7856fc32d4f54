#include "engine/text/grammar_run_int.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <stdlib.h>

/* Number in a table of this hash: multiply and take the upper bits, as keys are small and alike. */
static uint32_t slot_of(uint64_t hash, uint32_t n_slots) {
    return (uint32_t)((hash * 0x9E3779B97F4A7C15u) >> 32) & (n_slots - 1);
}

static uint64_t cell_hash(const frame *f, uint32_t below) {
    uint64_t h = ((uint64_t)f->node << 32 | f->aux) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 29 ^ f->val) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 31 ^ (uint64_t)below << 7;
}

static bool is_frame(const cell *c, const frame *f, uint32_t below) {
    return c->below == below && c->top.node == f->node && c->top.aux == f->aux && c->top.val == f->val;
}

static uint32_t *cell_slot(const grammar_run *r, const frame *f, uint32_t below) {
    uint32_t i = slot_of(cell_hash(f, below), r->n_cell_slots);
    while (r->cell_slots[i] && !is_frame(&r->cells[r->cell_slots[i]], f, below)) i = (i + 1) & (r->n_cell_slots - 1);
    return &r->cell_slots[i];
}

static uint32_t *set_slot(const grammar_run *r, const uint32_t *cells, uint32_t n) {
    uint64_t h = n == 1 ? cells[0] : hash64_of(n, cells, n * sizeof *cells);
    uint32_t i = slot_of(h, r->n_set_slots);
    for (; r->set_slots[i]; i = (i + 1) & (r->n_set_slots - 1)) {
        const cell_set *s = &r->sets[r->set_slots[i]];
        if (s->n == n && memcmp(r->members + s->at, cells, n * sizeof *cells) == 0) break;
    }
    return &r->set_slots[i];
}

static void fill_cell_slots(grammar_run *r, uint32_t n_slots) {
    free(r->cell_slots);
    r->n_cell_slots = n_slots;
    r->cell_slots = xalloc(n_slots * sizeof *r->cell_slots);
    for (uint32_t i = 1; i < r->n_cells; i++) *cell_slot(r, &r->cells[i].top, r->cells[i].below) = i;
}

static void fill_set_slots(grammar_run *r, uint32_t n_slots) {
    free(r->set_slots);
    r->n_set_slots = n_slots;
    r->set_slots = xalloc(n_slots * sizeof *r->set_slots);
    for (uint32_t i = 1; i < r->n_sets; i++) *set_slot(r, r->members + r->sets[i].at, r->sets[i].n) = i;
}

static void grow(void *list, uint32_t *cap, uint32_t need, size_t bytes) {
    if (need <= *cap) return;
    while (*cap < need) *cap = *cap ? 2 * *cap : 256;
    void **p = list;
    *p = xrealloc(*p, *cap * bytes);
}

uint32_t run_push(grammar_run *r, uint32_t below, frame f) {
    uint32_t *slot = cell_slot(r, &f, below);
    uint32_t known = *slot;
    if (known) return known;
    if (2 * r->n_cells >= r->n_cell_slots) {
        fill_cell_slots(r, 2 * r->n_cell_slots);
        slot = cell_slot(r, &f, below);
    }
    grow(&r->cells, &r->cap_cells, r->n_cells + 1, sizeof *r->cells);
    uint8_t kind = r->g->nodes[f.node].kind;
    r->cells[r->n_cells] =
        (cell){ f, below, r->cells[below].depth + (f.aux && (kind == NODE_ARRAY || kind == NODE_OBJECT)) };
    return *slot = r->n_cells++;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

grammar_state run_intern(grammar_run *r, uint32_t *cells, uint32_t n) {
    if (!n) return GRAMMAR_DEAD;
    if (n > 1) qsort(cells, n, sizeof *cells, by_number);
    uint32_t *slot = set_slot(r, cells, n);
    grammar_state known = *slot;
    if (known) return known;
    if (2 * r->n_sets >= r->n_set_slots) {
        fill_set_slots(r, 2 * r->n_set_slots);
        slot = set_slot(r, cells, n);
    }
    grow(&r->sets, &r->cap_sets, r->n_sets + 1, sizeof *r->sets);
    grow(&r->members, &r->cap_members, r->n_members + n, sizeof *r->members);
    memcpy(r->members + r->n_members, cells, n * sizeof *cells);
    r->sets[r->n_sets] = (cell_set){ r->n_members, n };
    r->n_members += n;
    return *slot = r->n_sets++;
}

grammar_run *grammar_run_new(const grammar *g) {
    grammar_run *r = xalloc(sizeof *r);
    r->g = g;
    r->n_cells = r->n_sets = 1; /* the complete text, and the dead state */
    grow(&r->cells, &r->cap_cells, 1, sizeof *r->cells);
    grow(&r->sets, &r->cap_sets, 1, sizeof *r->sets);
    r->cells[0] = (cell){ 0 };
    r->sets[0] = (cell_set){ 0 };
    grow(&r->members, &r->cap_members, 1, sizeof *r->members);
    fill_cell_slots(r, 1024);
    fill_set_slots(r, 1024);
    r->memos = xalloc(STEP_MEMOS * sizeof *r->memos);
    return r;
}

void grammar_run_free(grammar_run *r) {
    if (!r) return;
    free(r->cells);
    free(r->sets);
    free(r->members);
    free(r->cell_slots);
    free(r->set_slots);
    free(r->memos);
    free(r);
}

grammar_state grammar_run_start(grammar_run *r) {
    if (r->g->nodes[r->g->root].height > GRAMMAR_DEPTH) return GRAMMAR_DEAD;
    uint32_t root = run_push(r, 0, (frame){ .node = (uint32_t)r->g->root });
    return run_intern(r, &root, 1);
}

static grammar_state step_set(grammar_run *r, grammar_state s, uint32_t symbol) {
    step_out out;
    out.n = 0;
    for (uint32_t i = 0; i < r->sets[s].n; i++) run_step_cell(r, r->members[r->sets[s].at + i], symbol, &out);
    return run_intern(r, out.cells, out.n);
}

/* Bytes next to each other have their memos next to each other: where many are tried, memory is read in order. */
static step_memo *memo_slot(const grammar_run *r, grammar_state s, uint32_t byte) {
    uint32_t group = ((s << 3 | byte / MEMO_GROUP) * 0x9E3779B1u) >> (32 - MEMO_GROUPS_LOG2);
    return &r->memos[group * MEMO_GROUP + byte % MEMO_GROUP];
}

grammar_state grammar_run_step(grammar_run *r, grammar_state s, uint32_t symbol) {
    if (s == GRAMMAR_DEAD) return GRAMMAR_DEAD;
    if (symbol >= GRAMMAR_TOKENS) return step_set(r, s, symbol);
    step_memo *memo = memo_slot(r, s, symbol);
    if (memo->from != s || memo->byte != symbol) *memo = (step_memo){ s, symbol, step_set(r, s, symbol) };
    return memo->to;
}

bool grammar_run_ends(const grammar_run *r, grammar_state s) {
    for (uint32_t i = 0; i < r->sets[s].n; i++)
        if (run_cell_ends(r, r->members[r->sets[s].at + i])) return true;
    return false;
}

bool grammar_run_is_big(const grammar_run *r) {
    return r->n_cells > GRAMMAR_TRIM_AT || r->n_sets > GRAMMAR_TRIM_AT || r->n_members > 4 * GRAMMAR_TRIM_AT;
}

static void forget_memos(grammar_run *r) { memset(r->memos, 0, STEP_MEMOS * sizeof *r->memos); }

/* Every cell is newer than those below it, so one pass downwards finds what is needed and one pass upwards closes the
 * gaps, in place. */
static void trim_cells(grammar_run *r, uint32_t *numbers) {
    for (uint32_t i = r->n_cells; i-- > 1;)
        if (numbers[i]) numbers[r->cells[i].below] = 1;
    uint32_t n = 1;
    numbers[0] = 0;
    for (uint32_t i = 1; i < r->n_cells; i++) {
        if (!numbers[i]) continue;
        cell c = r->cells[i];
        c.below = numbers[c.below];
        r->cells[n] = c;
        numbers[i] = n++;
    }
    r->n_cells = n;
}

void grammar_run_trim(grammar_run *r, grammar_state *states, size_t n) {
    uint32_t *numbers = xalloc(r->n_cells * sizeof *numbers), *sets = xalloc(r->n_sets * sizeof *sets);
    for (size_t i = 0; i < n; i++) sets[states[i]] = 1;
    for (uint32_t s = 1; s < r->n_sets; s++)
        for (uint32_t i = 0; sets[s] && i < r->sets[s].n; i++) numbers[r->members[r->sets[s].at + i]] = 1;
    trim_cells(r, numbers);
    uint32_t kept = 1, used = 0;
    for (uint32_t s = 1; s < r->n_sets; s++) {
        if (!sets[s]) continue;
        cell_set from = r->sets[s];
        r->sets[kept] = (cell_set){ used, from.n };
        for (uint32_t i = 0; i < from.n; i++) r->members[used++] = numbers[r->members[from.at + i]];
        sets[s] = kept++;
    }
    r->n_sets = kept;
    r->n_members = used;
    for (size_t i = 0; i < n; i++)
        if (states[i]) states[i] = sets[states[i]];
    free(numbers);
    free(sets);
    fill_cell_slots(r, r->n_cell_slots);
    fill_set_slots(r, r->n_set_slots);
    forget_memos(r);
}

run_room run_mark(const grammar_run *r) { return (run_room){ r->n_cells, r->n_sets, r->n_members }; }

bool run_is_over(const grammar_run *r, run_room since, uint32_t limit) {
    return r->n_cells - since.cells > limit || r->n_sets - since.sets > limit ||
           r->n_members - since.members > 4 * limit;
}

void run_release(grammar_run *r, run_room room) {
    r->n_cells = room.cells;
    r->n_sets = room.sets;
    r->n_members = room.members;
    fill_cell_slots(r, r->n_cell_slots);
    fill_set_slots(r, r->n_set_slots);
    forget_memos(r);
}
