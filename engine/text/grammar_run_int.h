/* engine/text/grammar_run_int.h - positions and sets of a run; for engine/text only. */
#ifndef ENGINE_TEXT_GRAMMAR_RUN_INT_H
#define ENGINE_TEXT_GRAMMAR_RUN_INT_H
#include "engine/text/grammar_int.h"
#include "engine/text/grammar_run.h"

/* Where a text stands within one node; aux and val mean what grammar_step.c says. All zero: in front of it. */
typedef struct frame {
    uint32_t node, aux;
    uint64_t val;
} frame;

/* A position: a frame, and the positions to go on with once its node is done. A frame below others already stands where
 * it will go on. Equal positions have one number; number 0: nothing is left, the text is complete. */
typedef struct cell {
    frame top;
    uint32_t below;
    uint32_t depth; /* arrays and objects, its own included */
} cell;

typedef struct cell_set {
    uint32_t at, n; /* members[at..], ascending */
} cell_set;

typedef struct step_memo {
    grammar_state from;
    uint32_t byte;
    grammar_state to;
} step_memo;

/* Few enough to stay in a cache beside the weights of a small model. */
enum { MEMO_GROUP = 32, MEMO_GROUPS_LOG2 = 8, STEP_MEMOS = MEMO_GROUP << MEMO_GROUPS_LOG2 };

struct grammar_run {
    const grammar *g;
    cell *cells;
    cell_set *sets;
    uint32_t *members;
    uint32_t n_cells, cap_cells, n_sets, cap_sets, n_members, cap_members;
    uint32_t *cell_slots, *set_slots, n_cell_slots, n_set_slots; /* hash tables, numbers, 0: empty */
    step_memo *memos;
};

/* The positions that a step leads to, each once. */
typedef struct step_out {
    uint32_t cells[GRAMMAR_SET_MAX];
    uint32_t n;
} step_out;

uint32_t run_push(grammar_run *r, uint32_t below, frame f);
/* All positions behind `symbol` from one position. */
void run_step_cell(grammar_run *r, uint32_t at, uint32_t symbol, step_out *out);
/* The first word that begins like word `at` does in its first n bytes, and goes on with the byte; -1: none. */
int32_t run_next_word(const word_list *l, int32_t at, uint32_t n, uint32_t c);
bool run_cell_ends(const grammar_run *r, uint32_t at);
grammar_state run_intern(grammar_run *r, uint32_t *cells, uint32_t n); /* sorts them */

/* Room that a search may give back: run_release forgets all states made since run_mark. */
typedef struct run_room {
    uint32_t cells, sets, members;
} run_room;
run_room run_mark(const grammar_run *r);
void run_release(grammar_run *r, run_room room);
bool run_is_over(const grammar_run *r, run_room since, uint32_t limit);

/* Phases and fields that token_mask.c looks at, too. */
enum { STRING_FRONT, STRING_INSIDE };
static inline body string_body(const frame *f) { return (body){ (uint8_t)(f->aux >> 8), (uint8_t)(f->aux >> 16) }; }
static inline uint32_t string_aux(body b) { return STRING_INSIDE | (uint32_t)b.at << 8 | (uint32_t)b.guard << 16; }

#define KEY_FREE UINT32_MAX /* aux of a key that can be none of the words any more */
enum { KEY_NO_BODY = 255 }; /* its spelling is that of a word, and no other key can look like it */
static inline body key_body(const frame *f) { return (body){ (uint8_t)(f->val >> 32), (uint8_t)(f->val >> 40) }; }
#endif
