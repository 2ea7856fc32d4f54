/* kernels/attn.h - keys, values, and attention by position.
 *
 * K is stored rotated at its absolute position, so nothing is ever rotated again. A row's result does not depend on
 * where its keys lie (ring slot, page, node), only on the keys in position order. */
#ifndef KERNELS_ATTN_H
#define KERNELS_ATTN_H
#include "kernels/rows.h"

enum { KV_PAGE = 256 }; /* rows of a page, and positions of an attention block */

/* Where the K and V rows of one layer lie, elements of `type`, BF16 or E4M3 (kernels/e4m3.h); kernels/kv_map.h turns an
 * index into a slot.
 * ring:  k, v are [G][slots][E], slot = index mod slots.
 * pages: [page][G][KV_PAGE][E], page = pages[index / KV_PAGE]; slots is 0.
 * block: [G][slots][E], slot = index - base; only rows that are not committed (the draft's block). */
typedef enum kv_kind { KV_RING, KV_PAGES, KV_BLOCK } kv_kind;

typedef struct device device;

typedef struct kv_store {
    void *k, *v;
    const int32_t *pages;
    int32_t slots;
    int32_t heads; /* G */
    int32_t size;  /* E */
    kv_kind kind;
    dtype type;
    int64_t bytes; /* of k, and of v: the extent of the memory, for the recorder */
    device *on;    /* whose memory k and v are; NULL: the host's */
} kv_store;

/* Per live row: q heads and k heads through RMSNorm over E (one weight vector for all heads), then rotation; then q to
 * BF16, k to the store's type, each rounded once; v straight to the store's type. Row r's key and value go to index
 * base + r.
 * Rotation (rotate-half on the first 2 * cos.cols elements, the rest passes):
 *   y[i]        = fma(x[i],        cos[i], -(x[i + half] * sin[i]))
 *   y[i + half] = fma(x[i + half], cos[i],   x[i]        * sin[i])        half = cos.cols
 * Lanes share (row, head) pairs. */
typedef struct qkv_store_args {
    view qkv;                    /* F32 [R][(H + 2 G) E + ...]: q heads, k heads, v heads */
    view q;                      /* BF16 [R][H E] */
    view cos, sin;               /* F32 [R][half] */
    const bf16 *q_norm, *k_norm; /* [E] */
    float eps;
    int32_t heads; /* H */
    kv_store kv;
    const row_set *rows;
} qkv_store_args;

/* Row r at position p sees positions max(0, p - window + 1) .. p (window 0: from 0), each through its one key.
 * For query head h with kv head h / (H / G):
 *   1. Positions are cut at multiples of KV_PAGE into blocks. A block without a visible position does not exist.
 *   2. In a block: s = dot(q, k) * scale (canonical dot, then one product); m = max; e = fm_exp(s - m);
 *      l: sixteen accumulators, acc[pos % 16] += e in rising position, then the tree of fmath.h;
 *      o[c]: from 0, fma(e, v[c], o[c]) in rising position.
 *   3. Blocks are merged from left to right: m' = max(M, m), a = fm_exp(M - m'), b = fm_exp(m - m'),
 *      L = fma(L, a, l * b), O[c] = fma(O[c], a, o[c] * b), M = m'. The first block is taken as it is.
 *      Blocks are first merged within runs of attn_run(p) blocks (cut at multiples of the run length from position 0),
 *      then the runs are merged the same way.
 *   4. y = bf16( (O[c] * (1 / L)) * g ), g = fm_softplus(gate).
 * Positions below rows->base come from `past`. Positions from base on come from `block` when it is there, else from
 * `past`, at index base + path[r][pos - base].
 * Keys and values of an E4M3 store are those numbers as BF16, which is exact.
 * Lanes share (row group, kv head) pairs. */
typedef struct attn_args {
    view q;    /* BF16 [R][H E] */
    view gate; /* F32 [R][H] or, per element, [R][H E] */
    view y;    /* BF16 [R][H E] */
    kv_store past;
    kv_store block; /* k NULL: none */
    int32_t heads;  /* H */
    int32_t window; /* 0: all positions */
    float scale;
    int32_t rows_max;
    const row_set *rows;
} attn_args;

/* Blocks per run for a row at position p: short contexts have one block a run, so that work can be spread; long
 * contexts have few runs, so that partial results stay small. A function of the row's own position alone. */
HD static inline int32_t attn_run(int32_t p) { return p < 4096 ? 1 : p < 32768 ? 4 : p < 262144 ? 16 : 64; }

/* Moves the accepted rows of the last accept from index base + node to index base + j, K and V of every store and the
 * rows of the tap ring, ascending and in place. Nothing to do when the path is contiguous, as in a chain. */
typedef struct kv_move_args {
    const step_params *p;
    const kv_store *stores; /* n of them; constant after open */
    int32_t n;
    view taps;
} kv_move_args;
#endif
