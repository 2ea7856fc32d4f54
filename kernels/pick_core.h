/* kernels/pick_core.h - the one rule by which a row chooses its token, greedy and sampled. Pure: no memory but `work`.
 *
 * Before all else the logits are adjusted, for the row's own path: a token occurs c times in the prompt, in what was
 * emitted, and on the path from the anchor to the row. Penalties computed once for all rows would make the text depend
 * on how many rows there are. In this order, each operation in FP32:
 * - c > 0: z / repeat if z is positive, else z * repeat; then z - (frequency * c + presence).
 * - z + bias, for every bias of the token in the order of the list.
 * - end tokens become -inf for a row that predicts a position below end_from.
 * - tokens outside the row's mask become -inf.
 *
 * Greedy (temperature below 1e-5): the largest logit, the smallest id on a tie. Else, in this order:
 * - y = z / temperature, one FP32 division.
 * - top_k keeps every y that is not below the k-th largest; ties stay.
 * - top_p weighs by fm_exp(y - max y). The total is an FP64 sum in sixteen accumulators by id mod 16 and the tree of
 *   fmath.h. In falling order of y (ties: smaller id first), and added in that order, the shortest prefix stays
 *   whose sum is at least (double)top_p * total; it is never empty.
 * - min_p keeps y - max y >= fm_log_d(min_p): weights against min_p, without an exponential.
 * - The choice is the largest y + noise, an exact FP64 sum, of what is left; the smallest id on a tie.
 *
 * Every filter keeps a prefix of one order (y falling, then id rising). So the survivors are described by the last of
 * them, nothing has to be sorted or marked, and the choice is one pass over the logits. The largest y survives always.
 *
 * The passes skip what cannot matter, each time by a bound and never by a guess: the noise is at most 16.64 (noise.h),
 * and for one token at most -ln(1 - u), because -ln u >= 1 - u. So a token whose own uniform number is too small to
 * lift it to the best sum so far costs no logarithm: of a whole vocabulary only a handful of noises are evaluated. */
#ifndef KERNELS_PICK_CORE_H
#define KERNELS_PICK_CORE_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "kernels/noise.h"
#include "kernels/rows.h"

#define PICK_GREEDY_BELOW 1e-5f
#define PICK_NOISE_MAX 16.64

typedef struct pick_cand {
    float y;
    int32_t id;
} pick_cand;

/* What survives the filters: everything up to `last` in the order, and not more than -`gap` below `top`. */
typedef struct pick_cut {
    pick_cand last;
    pick_cand top; /* the first of the largest y */
    double gap;    /* 0 or negative */
} pick_cut;

/* A row that chooses. */
typedef struct pick_row {
    const float *z; /* [n] logits */
    int32_t n;
    int64_t q;            /* the position that it predicts */
    const uint32_t *mask; /* tokens it may choose; NULL: all */
    int32_t path[DEPTH_MAX];
    int32_t n_path; /* tokens before that position which the lists do not count */
} pick_row;

/* Tokens in front of the position that row `row` predicts which the lists do not count. Rows up to head_first are
 * counted: they are prompt, or the anchor. The rows of a prompt are a chain with one head at its end, so only the rows
 * of a round have anything behind it. */
HD static inline int32_t pick_path_length(const step_state *st, int32_t row) {
    return st->rows.chain ? row - st->head_first : st->rows.pos[row] - st->rows.base;
}

/* The k-th of them. */
HD static inline int32_t pick_path_token(const step_state *st, int32_t row, int32_t k) {
    const row_set *rows = &st->rows;
    return rows->token[rows->chain ? st->head_first + 1 + k : rows->path[row][k + 1]];
}

/* The mask of head row i; NULL: none. */
HD static inline const uint32_t *pick_mask(const pick_args *a, int32_t i) {
    return a->p->in.masked && a->mask.data ? (const uint32_t *)view_row(&a->mask, i) : NULL;
}

HD static inline bool pick_allows(const uint32_t *mask, int32_t v) { return mask[v / 32] >> v % 32 & 1; }

/* Head row i. */
HD static inline pick_row pick_row_of(const pick_args *a, int32_t i) {
    const step_state *st = &a->p->st;
    int32_t row = st->head_first + i;
    pick_row r = { .z = (const float *)view_row(&a->logits, i), .n = a->logits.cols };
    r.q = (int64_t)st->rows.pos[row] + 1;
    r.mask = pick_mask(a, i);
    r.n_path = pick_path_length(st, row);
    for (int32_t k = 0; k < r.n_path; k++) r.path[k] = pick_path_token(st, row, k);
    return r;
}

HD static inline bool pick_penalises(const pick_params *p) {
    return (p->repeat != 0.0f && p->repeat != 1.0f) || p->presence != 0.0f || p->frequency != 0.0f;
}

HD static inline float pick_penalty(float z, const pick_params *p, int32_t count) {
    if (p->repeat != 0.0f) z = z > 0.0f ? z / p->repeat : z * p->repeat;
    return z - (p->frequency * (float)count + p->presence);
}

/* Tokens of the lists first, each with the count that is there; then those of the path anew, with their own added. */
HD static inline void pick_penalise(const pick_row *r, const pick_params *p, const pick_lists *l, float *out) {
    for (int32_t i = 0; i < l->n_seen; i++) out[l->seen[i]] = pick_penalty(r->z[l->seen[i]], p, l->count[l->seen[i]]);
    for (int32_t i = 0; i < r->n_path; i++) {
        int32_t token = r->path[i], count = l->count[token];
        for (int32_t k = 0; k < r->n_path; k++) count += r->path[k] == token;
        out[token] = pick_penalty(r->z[token], p, count);
    }
}

/* The logits to choose from: the row's own when nothing is to be done, else a copy in `copy`, which has n. */
HD static inline const float *pick_adjust(const pick_row *r, const pick_params *p, const pick_lists *l, float *copy) {
    bool penalties = pick_penalises(p), masked = r->q < p->end_from;
    if (!penalties && !masked && !r->mask && l->n_bias == 0) return r->z;
    memcpy(copy, r->z, (size_t)r->n * sizeof *copy);
    if (penalties) pick_penalise(r, p, l, copy);
    for (int32_t i = 0; i < l->n_bias; i++) copy[l->bias[i].id] += l->bias[i].value;
    for (int32_t i = 0; masked && i < l->n_end; i++) copy[l->end[i]] = -INFINITY;
    for (int32_t v = 0; r->mask && v < r->n; v++)
        if (!pick_allows(r->mask, v)) copy[v] = -INFINITY;
    return copy;
}

HD static inline size_t pick_work_bytes(int32_t vocab) { return (size_t)vocab * sizeof(pick_cand); }

HD static inline bool pick_before(pick_cand a, pick_cand b) { return a.y > b.y || (a.y == b.y && a.id < b.id); }

HD static inline bool pick_survives(const pick_cut *c, pick_cand v) {
    return !pick_before(c->last, v) && !((double)v.y - (double)c->top.y < c->gap);
}

/* First largest of z / t; id 0 when nothing compares. */
HD static inline pick_cand pick_largest(const float *z, int32_t n, float t) {
    pick_cand best = { -INFINITY, 0 };
    for (int32_t v = 0; v < n; v++)
        if (z[v] / t > best.y) best = (pick_cand){ z[v] / t, v };
    return best;
}

/* Restores the order of a heap of n below entry i: no entry stands before its parent (least) or behind it (first). */
HD static inline void pick_sift_least(float *heap, int32_t n, int32_t i) {
    for (float moved = heap[i];;) {
        int32_t child = 2 * i + 1;
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (child >= n || !(heap[child] < moved)) {
            heap[i] = moved;
            return;
        }
        heap[i] = heap[child];
        i = child;
    }
}

HD static inline void pick_sift_first(pick_cand *heap, int32_t n, int32_t i) {
    for (pick_cand moved = heap[i];;) {
        int32_t child = 2 * i + 1;
        if (child + 1 < n && pick_before(heap[child + 1], heap[child])) child++;
        if (child >= n || !pick_before(heap[child], moved)) {
            heap[i] = moved;
            return;
        }
        heap[i] = heap[child];
        i = child;
    }
}

/* The k-th largest of n values, 1 <= k <= n: a heap of the k largest so far, least at the root. */
HD static inline float pick_kth_largest(const float *z, int32_t n, int32_t k, float *heap) {
    for (int32_t v = 0; v < k; v++) heap[v] = z[v];
    for (int32_t i = k / 2 - 1; i >= 0; i--) pick_sift_least(heap, k, i);
    for (int32_t v = k; v < n; v++) {
        if (!(z[v] > heap[0])) continue;
        heap[0] = z[v];
        pick_sift_least(heap, k, 0);
    }
    return heap[0];
}

/* Last survivor of top_p among the survivors of c.
 * Only tokens with at least half of an even share of what may be left out, (1 - top_p) * total / count, can be in the
 * prefix: all smaller ones together are too light to be missed. The half is room for rounding. */
HD static inline pick_cand pick_nucleus(const float *z, int32_t n, const pick_params *p, const pick_cut *c,
                                        pick_cand *heap) {
    double acc[16] = { 0 };
    int32_t count = 0, held = 0;
    for (int32_t v = 0; v < n; v++) {
        pick_cand cand = { z[v] / p->temperature, v };
        if (!pick_survives(c, cand)) continue;
        acc[v & 15] += (double)fm_exp(cand.y - c->top.y);
        count++;
    }
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; i++) acc[i] += acc[i + h];
    double enough = (double)p->top_p * acc[0], sum = 0.0;
    double lightest = fm_log_d(0.5 * (1.0 - (double)p->top_p) * acc[0] / (double)count);
    for (int32_t v = 0; v < n; v++) {
        pick_cand cand = { z[v] / p->temperature, v };
        if ((double)cand.y - (double)c->top.y >= lightest && pick_survives(c, cand)) heap[held++] = cand;
    }
    for (int32_t i = held / 2 - 1; i >= 0; i--) pick_sift_first(heap, held, i);
    for (;;) {
        pick_cand last = heap[0];
        sum += (double)fm_exp(last.y - c->top.y);
        if (sum >= enough || held == 1) return last;
        heap[0] = heap[--held];
        pick_sift_first(heap, held, 0);
    }
}

/* The survivors of all filters. `work` has pick_work_bytes(n); temperature is not greedy. */
HD static inline pick_cut pick_filter(const float *z, int32_t n, const pick_params *p, void *work) {
    pick_cut c = { .last = { -INFINITY, INT32_MAX }, .top = pick_largest(z, n, p->temperature), .gap = -INFINITY };
    if (!isfinite(c.top.y)) return c; /* differences mean nothing: everything survives, and top is the choice */
    if (p->top_k > 0 && p->top_k < n) c.last.y = pick_kth_largest(z, n, p->top_k, (float *)work) / p->temperature;
    if (p->top_p < 1.0f) c.last = pick_nucleus(z, n, p, &c, (pick_cand *)work);
    if (p->min_p > 0.0f) c.gap = fm_log_d((double)p->min_p);
    return c;
}

/* Is the noise of this word certainly below `need`? By the bound -ln(1 - u): 1 - u = (2^23 - h - 0.5) * 2^-23, and
 * LIMIT[i] = floor(2^23 * e^-i * (1 + 1e-5) + 0.5) + 1; the 1e-5 is room for the rounding of the noise. */
HD static inline bool pick_noise_below(uint32_t word, double need) {
    static const int32_t LIMIT[17] = { 8388693, 3086028, 1135287, 417649, 153645, 56524, 20794, 7650, 2815,
                                       1036,    382,     141,     53,     20,     8,     4,     2 };
    if (need < 0.0) return false;
    if (need > PICK_NOISE_MAX) return true;
    return (1 << 23) - (int32_t)(word >> 9) > LIMIT[(int)need];
}

/* The choice of a row with logits z[n] for the token at position q. Always a valid id. */
HD static inline int32_t pick_token(const float *z, int32_t n, const pick_params *p, int64_t q, void *work) {
    if (p->temperature < PICK_GREEDY_BELOW) return pick_largest(z, n, 1.0f).id;
    pick_cut cut = pick_filter(z, n, p, work);
    int32_t best = cut.top.id, block = -1;
    double best_sum = (double)cut.top.y + (double)noise_gumbel(p->seed, q, best);
    uint32_t word[4] = { 0 };
    for (int32_t v = 0; v < n; v++) {
        pick_cand cand = { z[v] / p->temperature, v };
        double need = best_sum - (double)cand.y;
        if (!(need <= PICK_NOISE_MAX) || v == cut.top.id || !pick_survives(&cut, cand)) continue;
        if (v / 4 != block) noise_block(p->seed, q, v, word), block = v / 4;
        if (pick_noise_below(word[v & 3], need)) continue;
        double sum = (double)cand.y + (double)noise_of_word(word[v & 3]);
        if (sum > best_sum || (sum == best_sum && v < best)) best = v, best_sum = sum;
    }
    return best;
}
#endif
