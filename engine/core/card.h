/* engine/core/card.h - how long steps would take on a GPU card, by arithmetic alone. Estimates: nothing is measured,
 * and the program has no GPU backend that could be.
 *
 *     time = bytes / (share * bandwidth) + kernels * gap
 *
 * Bytes are those of engine/core/bytes.h. Arithmetic counts as free, which asks for kernels that stay bound by memory
 * at all rows; the host costs nothing. Seconds and bytes. Pure. */
#ifndef ENGINE_CORE_CARD_H
#define ENGINE_CORE_CARD_H
#include "engine/core/shape.h"

typedef struct card {
    const char *name;
    double bandwidth; /* of its memory, bytes per second: the vendor's peak */
    int64_t memory;   /* the vendor's figure; a system that shares it has less */
    double goal;      /* a plain step over its floor, at most; 0: none is set */
} card;

enum { CARDS = 4 };
extern const card card_list[CARDS];

typedef struct card_inputs {
    double share; /* of the bandwidth that kernels reach, above 0, at most 1 */
    double gap;   /* between two kernels of one graph; 1.3 us was measured on an H100 by Hazy Research */
} card_inputs;

/* Kernels of a step, as the CUDA backend captures it; tests/simt/test_cuda_steps.c counts them. Per target layer: norm
 * and projections, attention, output projection, router, experts up, experts down (a dense layer has no router and is
 * counted alike). Around them: the block's bookkeeping, embedding, rotation, head, choice, commit. Per draft layer two
 * for the context rows, then projections, attention, output projection, up and down; around them the context features,
 * candidates, tree and the moves of a commit. */
enum { CARD_LAYER_KERNELS = 6, CARD_STEP_KERNELS = 10, CARD_DRAFT_LAYER_KERNELS = 7, CARD_DRAFT_KERNELS = 12 };

enum { CARD_ROWS_MAX = 16 }; /* no union of experts was measured beyond */

/* Distinct experts per layer of `rows` rows that each choose k of n. With Laguna S 2.1's 10 of 256: measured with its
 * draft's blocks, rejected rows included, at 1 to 5, 7, 9 and 16 rows (patrickbdevaney/laguna-s1-cuda-server, one
 * generation of 96 tokens), straight lines between. Others: that table's ratio to independent choice, applied to
 * theirs. rows: 1 to CARD_ROWS_MAX. */
double card_union(int32_t n, int32_t k, int32_t rows);

/* What the steps behind a context read and start, on any card. */
typedef struct card_work {
    int32_t ctx, rows_max; /* rows_max 1: there is no draft */
    double experts[CARD_ROWS_MAX + 1];
    int64_t pass[CARD_ROWS_MAX + 1]; /* of the target, by rows; [1]: a plain step */
    int64_t draft;
    int32_t pass_kernels, draft_kernels;
    int64_t weights, memory; /* memory: weights, keys and values, taps; no workspaces, nothing remembered */
} card_work;

/* kv: elements of the target's keys and values. */
card_work card_work_of(const model_shape *m, int32_t ctx, dtype kv);
/* Largest context that fits, 0: none. */
int32_t card_ctx_max(const card *c, const model_shape *m, dtype kv);

double card_floor(const card *c, const card_work *w); /* of a plain step: its bytes at the whole bandwidth */
double card_pass(const card *c, const card_inputs *in, const card_work *w, int32_t rows); /* 1: a plain step */
double card_draft(const card *c, const card_inputs *in, const card_work *w);
/* Tokens that a drafted round must bring to be as fast as plain steps: (draft + pass) / plain step. */
double card_break_even(const card *c, const card_inputs *in, const card_work *w, int32_t rows);
/* The gap with which a plain step takes `ratio` times its floor; negative: the share alone takes longer. */
double card_gap_for(const card *c, const card_inputs *in, const card_work *w, double ratio);

/* Tokens of a round when every proposal is right with this chance, if those before it were: 1 + a + ... + a^(rows-1).
 */
double card_tokens(double acceptance, int32_t rows);

typedef struct card_width {
    int32_t rows;        /* 1: plain steps are fastest */
    double tokens, rate; /* per round, per second */
} card_width;
/* The width with most tokens per second, first of equals. */
card_width card_best(const card *c, const card_inputs *in, const card_work *w, double acceptance);
#endif
