/* kernels/cuda/attn.cuh - attention by position (kernels/attn.h) with the preparation of heads in front of it, the join
 * and the gate behind it, in one launch.
 *
 * Positions are cut into units of UNIT, at absolute multiples: a unit never leaves a page. A row's units are cut into
 * runs of attention_run() units, a function of the row's own position and the window; each run gives a partial result
 * (maximum, sum, values) in scratch, and the block that comes last joins a row's runs from left to right.
 *
 * Grid: (run lanes x row groups, kv heads). A block owns some rows and all query heads of its kv head: up to QUERIES
 * queries in the order (row, head), sixteen a tile. PARTS warps share a tile: each works out the scores of its share of
 * a unit's keys, and the values of its share of the head's elements. Few queries, many parts.
 *
 * Bits of a row: every score is one chain of products over the head's elements, every value one chain over a run's
 * positions, in a fixed order; a maximum has no order. Neither the tile a query falls into, nor the parts, nor where a
 * key lies can change them, as a tensor core's element depends on its own row and column alone.
 *
 * A unit that all rows of the block see in full, and that lies in the store, is read once for all of a tile's rows. In
 * any other a tile's rows take turns; each finds its keys by position, sees zeros at positions that it may not see, and
 * keeps the results of its own queries. So what lies at a hidden position cannot reach a row, not even NaN.
 *
 * Order of keys and elements. Column g of eight is key f(g) of eight, f = 0 4 1 5 2 6 3 7, and lane g holds the f(g)-th
 * piece of a row of V: with rows of 16 bytes more than a power of two, loads of 16 bytes meet no bank twice. */
#ifndef KERNELS_CUDA_ATTN_CUH
#define KERNELS_CUDA_ATTN_CUH
#include <math.h>
#include "kernels/cuda/async.cuh"
#include "kernels/cuda/head.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/fmath.h"

constexpr int UNIT = 64, ATTN_WARPS = 8, ATTN_THREADS = ATTN_WARPS * WARP;
constexpr int ATTN_ROWS = NODES_MAX;               /* rows of a launch */
constexpr int RUNS_MAX = 16;                       /* of a row */
constexpr int TILE = 16;                           /* queries */
constexpr int WEIGHT_BYTES = 16 * WARP * UNIT / 8; /* of a tile and unit, as operands */

/* Units a run for a row at position p: the smallest power of two that gives at most RUNS_MAX runs; with a window the
 * same for every position, and at least 2. */
HD static inline int32_t attention_run(int32_t window, int32_t p) {
    int32_t units = window ? (window - 1) / UNIT + 2 : p / UNIT + 1, run = window ? 2 : 1;
    int32_t borders = window ? units - 1 : units, most = window ? RUNS_MAX - 1 : RUNS_MAX;
    while ((borders + run - 1) / run > most) run *= 2;
    return run;
}

typedef struct attention_args {
    qkv_store_args s; /* qkv.data NULL: q and the rows of the call are there already */
    attn_args a;
    int32_t from_row, rows;     /* rows of this launch: from_row .. from_row + rows - 1, as far as they live */
    int32_t group_rows, groups; /* rows of a block, blocks that the rows of the launch take */
    int32_t lanes;              /* blocks that share the runs */
    float *partial;
    int32_t *counters; /* one per kv head and group */
} attention_args;

/* --- what a block works on --- */

typedef struct attn_row {
    int32_t first, last; /* positions that it sees */
    int32_t run;         /* units */
} attn_row;

typedef struct attn_group {
    const row_set *rows;
    int32_t base, from, n; /* rows from .. from + n - 1 */
    int32_t first_min, first_max, last_min, last_max;
    int32_t run;  /* the longest of its rows: the block's lane is dealt spans of so many units */
    int32_t g;    /* kv head */
    int32_t lane; /* of k.lanes */
} attn_group;

/* What is fixed when a kernel is compiled. SIZE: elements of a head, padded; BYTES: of an element of the store; FRESH:
 * the rows of the call are kept in shared memory, where they are made of qkv and stored, or fetched when there is no
 * qkv; else they are read like those before them, and form a chain. */
template <int SIZE_, int BYTES_, int PARTS_, bool FRESH_> struct attn_plan {
    static const int SIZE = SIZE_, BYTES = BYTES_, PARTS = PARTS_;
    static const bool FRESH = FRESH_;
    static const int TILES = ATTN_WARPS / PARTS, QUERIES = TILE * TILES;
    static const int KEYS = UNIT / 8 / PARTS;           /* a part's columns of eight keys */
    static const int COLUMNS = SIZE / 8 / PARTS;        /* and of eight elements */
    static const int PIECE = COLUMNS < 8 ? COLUMNS : 8; /* elements of V that a lane loads together */
    static const int STRIDE = SIZE * BYTES + 16;        /* bytes of a row of keys in shared memory */
    static const int Q_STRIDE = SIZE * (int)sizeof(bf16) + 16;
    /* Registers are scarce: loads are kept from moving far up, by a meeting of the warp. */
    static const bool TIGHT = SIZE == 128 && PARTS == 1;
    static const int PARTIAL = SIZE + 4; /* floats: maximum, sum, two unused, values */
    static const int K_BYTES = UNIT * STRIDE > (PARTS > 1 ? TILES * WEIGHT_BYTES : 0) ? UNIT *STRIDE
                                                                                      : TILES *WEIGHT_BYTES;
};

/* K and V of one unit. When its keys have been used, k takes the weights that the parts of a tile exchange. */
template <class P> struct attn_stage { char k[P::K_BYTES], v[UNIT * P::STRIDE]; };

template <class P> struct attn_shared {
    attn_stage<P> even;
    union {
        attn_stage<P> odd;
        char q[P::QUERIES * P::Q_STRIDE]; /* until every warp has taken its queries */
    };
    char fresh_k[(P::FRESH ? NODES_MAX : 1) * P::STRIDE],
        fresh_v[(P::FRESH ? NODES_MAX : 1) * P::STRIDE]; /* rows of the call, as they are stored */
    char zero[P::STRIDE];
    float high[P::TILES][P::PARTS][TILE];
    attn_group group;
    attn_row see[ATTN_ROWS]; /* of the group's rows */
    int32_t flag;
};

__device__ __forceinline__ int attn_order(int g) { return g / 2 + g % 2 * 4; }

__device__ __forceinline__ attn_row attn_row_of(const attn_args &a, int32_t r) {
    attn_row row;
    row.last = a.rows->pos[r];
    row.first = kv_first_seen(a.window, row.last);
    row.run = attention_run(a.window, row.last);
    return row;
}

/* Into shared memory, where it takes no registers. n is 0 when none of its rows lives. */
template <class P> __device__ __forceinline__ void attn_find(const attention_args &k, attn_shared<P> *sh) {
    attn_group t;
    t.rows = k.a.rows;
    t.base = t.rows->base;
    t.lane = (int32_t)blockIdx.x / k.groups;
    t.g = (int32_t)blockIdx.y;
    int32_t first = (int32_t)blockIdx.x % k.groups * k.group_rows, end = k.from_row + k.rows;
    if (end > t.rows->n) end = t.rows->n;
    t.from = k.from_row + first;
    t.n = end - t.from;
    if (t.n > k.group_rows) t.n = k.group_rows;
    if (t.n < 0) t.n = 0;
    bool mine = lane_id() < t.n;
    attn_row row = attn_row_of(k.a, mine ? t.from + lane_id() : 0);
    t.first_max = warp_max(mine ? row.first : 0);
    t.last_max = warp_max(mine ? row.last : 0);
    t.first_min = -warp_max(mine ? -row.first : -INT32_MAX);
    t.last_min = -warp_max(mine ? -row.last : -INT32_MAX);
    t.run = warp_max(mine ? row.run : 1);
    if (warp_id() == 0 && mine) sh->see[lane_id()] = row;
    if (threadIdx.x == 0) sh->group = t;
    block_sync();
}

/* The unit behind u that the block works on; above last_max / UNIT: none. */
__device__ __forceinline__ int32_t attn_next(const attention_args &k, const attn_group &t, int32_t u) {
    return (u + 1) % t.run ? u + 1 : u + 1 + (k.lanes - 1) * t.run;
}

__device__ __forceinline__ int32_t attn_first(const attn_group &t) {
    int32_t unit = t.first_min / UNIT;
    return t.lane == 0 ? unit : (unit / t.run + t.lane) * t.run;
}

/* Is this unit among the block's? */
__device__ __forceinline__ bool attn_has(const attention_args &k, const attn_group &t, int32_t unit) {
    return (unit / t.run - t.first_min / UNIT / t.run) % k.lanes == t.lane;
}

/* --- tiles of keys and values --- */

/* One row of a store to shared memory, a piece of 16 bytes; zeros behind the row's end. */
__device__ __forceinline__ void attn_copy(char *to, const char *row, int32_t bytes, int32_t piece) {
    int32_t at = 16 * piece;
    if (bytes % 16 == 0 && at < bytes) {
        copy16(to + at, row + at);
        return;
    }
    uint4 none = { 0, 0, 0, 0 };
    *(uint4 *)(to + at) = none;
    for (int32_t i = at; i < at + 16 && i < bytes; i++) to[i] = row[i];
}

/* Starts the copy of what the block's rows see of a unit. FRESH: rows of the call are not among it. */
template <class P>
__device__ __forceinline__ void attn_fetch(const attention_args &k, const attn_group &t, attn_stage<P> *to, int32_t u) {
    const kv_store &s = k.a.past;
    int32_t start = u * UNIT, from = start > t.first_min ? start : t.first_min;
    int32_t end = start + UNIT < t.last_max + 1 ? start + UNIT : t.last_max + 1;
    if (P::FRESH && end > t.base) end = t.base;
    int32_t rows = end - from, bytes = s.size * P::BYTES;
    if (rows <= 0) return;
    /* Slot of `from`; a ring may wrap behind it, once. */
    int64_t page = s.kind == KV_PAGES ? ((int64_t)s.pages[u / (KV_PAGE / UNIT)] * s.heads + t.g) * KV_PAGE
                                      : (int64_t)t.g * s.slots;
    int32_t slot = s.kind == KV_PAGES ? from % KV_PAGE : from % s.slots;
    const int PIECES = P::SIZE * P::BYTES / 16;
    for (int32_t i = (int32_t)threadIdx.x; i < rows * PIECES; i += ATTN_THREADS) {
        int32_t row = i / PIECES, piece = i % PIECES, at = slot + row;
        if (s.kind != KV_PAGES && at >= s.slots) at -= s.slots;
        int64_t offset = (page + at) * bytes;
        attn_copy(to->k + (from - start + row) * P::STRIDE, (const char *)s.k + offset, bytes, piece);
        attn_copy(to->v + (from - start + row) * P::STRIDE, (const char *)s.v + offset, bytes, piece);
    }
}

/* --- queries, and the rows of the call --- */

/* One vector in shared memory as it is stored, and zeros behind it. */
template <class P> __device__ __forceinline__ void attn_put(char *to, dtype type, const head_values<P::SIZE> &v) {
    UNROLL
    for (int i = 0; i < P::SIZE / WARP; i++) kv_put(to, type, lane_id() + i * WARP, v.at[i]);
}

/* Vectors of the block: its queries, then with `fresh` K and V of every row of the call, which go to the store too when
 * the block is the one that writes. */
template <class P>
__device__ __forceinline__ void attn_prepare(const attention_args &k, const attn_group &t, attn_shared<P> *sh,
                                             bool fresh, bool write) {
    const qkv_store_args &s = k.s;
    const int32_t share = s.heads / s.kv.heads, queries = t.n * share, rows = fresh ? t.rows->n : 0;
    const dtype type = P::BYTES == 1 ? DT_E4M3 : DT_BF16;
    for (int32_t at = warp_id() * HEADS_AT_ONCE; at < queries + 2 * rows; at += ATTN_WARPS * HEADS_AT_ONCE) {
        head_in in[HEADS_AT_ONCE];
        head_values<P::SIZE> x[HEADS_AT_ONCE];
        UNROLL
        for (int j = 0; j < HEADS_AT_ONCE; j++) {
            int32_t i = at + j, c = i - queries;
            if (i >= queries + 2 * rows) continue;
            if (c < 0)
                in[j] = head_of_qkv(s, t.from + i / share, t.g * share + i % share);
            else
                in[j] = head_of_qkv(s, c % rows, s.heads + (c < rows ? 0 : s.kv.heads) + t.g);
            x[j] = head_load<P::SIZE>(in[j]);
        }
        UNROLL
        for (int j = 0; j < HEADS_AT_ONCE; j++) {
            int32_t i = at + j, c = i - queries;
            if (i >= queries + 2 * rows) continue;
            head_values<P::SIZE> y = head_finish<P::SIZE>(in[j], x[j]);
            if (c < 0) {
                attn_put<P>(sh->q + i * P::Q_STRIDE, DT_BF16, y);
                continue;
            }
            attn_put<P>((c < rows ? sh->fresh_k : sh->fresh_v) + c % rows * P::STRIDE, type, y);
            if (!write) continue;
            int64_t to = kv_offset(&s.kv, t.g, t.base + c % rows, t.base);
            kv_put_row<P::SIZE>(kv_at(&s.kv, c < rows ? s.kv.k : s.kv.v, to), type, s.kv.size, y);
        }
    }
}

/* Rows of the call that are stored already. */
template <class P>
__device__ __forceinline__ void attn_stored(const attn_args &a, const attn_group &t, attn_shared<P> *sh) {
    const kv_store &s = a.block.k ? a.block : a.past;
    const int PIECES = P::SIZE * P::BYTES / 16;
    int32_t bytes = s.size * P::BYTES;
    for (int32_t i = (int32_t)threadIdx.x; i < t.rows->n * PIECES; i += ATTN_THREADS) {
        int32_t row = i / PIECES, piece = i % PIECES;
        int64_t at = kv_offset(&s, t.g, t.base + row, t.base);
        attn_copy(sh->fresh_k + row * P::STRIDE, (const char *)kv_at(&s, s.k, at), bytes, piece);
        attn_copy(sh->fresh_v + row * P::STRIDE, (const char *)kv_at(&s, s.v, at), bytes, piece);
    }
}

/* Queries that are there already. */
template <class P>
__device__ __forceinline__ void attn_queries(const attention_args &k, const attn_group &t, attn_shared<P> *sh) {
    const attn_args &a = k.a;
    int32_t share = a.heads / a.past.heads, size = a.past.size;
    for (int32_t i = warp_id(); i < t.n * share; i += ATTN_WARPS) {
        const bf16 *q = (const bf16 *)view_row(&a.q, t.from + i / share) + (int64_t)(t.g * share + i % share) * size;
        for (int32_t e = lane_id(); e < P::SIZE; e += WARP)
            ((bf16 *)(sh->q + i * P::Q_STRIDE))[e] = e < size ? q[e] : (bf16)0;
    }
}

/* --- a warp's share of a tile --- */

/* Lane 4g + q has the queries g and g + 8 of the tile: halves 0 and 1. */
template <class P> struct attn_state {
    uint32_t q[P::SIZE / 16][4];
    float high[2];              /* maximum so far in the run */
    float sum[4];               /* a column of ones behind V: sum[0] and sum[2] count */
    float value[P::COLUMNS][4]; /* not yet divided by the sum */
    int32_t row[2];             /* of the group; -1: no query */
    int32_t row_from, row_to;   /* rows of the tile */
};

template <class P> __device__ __forceinline__ int attn_tile() { return warp_id() / P::PARTS; }
template <class P> __device__ __forceinline__ int attn_part() { return warp_id() % P::PARTS; }

template <class P> __device__ __forceinline__ void attn_clear(attn_state<P> *st, int half) {
    st->high[half] = -INFINITY;
    st->sum[2 * half] = st->sum[2 * half + 1] = 0.0f;
    UNROLL
    for (int c = 0; c < P::COLUMNS; c++) st->value[c][2 * half] = st->value[c][2 * half + 1] = 0.0f;
}

/* False when the tile has no query. */
template <class P>
__device__ __forceinline__ bool attn_take(const attention_args &k, const attn_group &t, const attn_shared<P> *sh,
                                          attn_state<P> *st) {
    int32_t share = k.a.heads / k.a.past.heads, queries = t.n * share, g = lane_id() / 4, q = lane_id() % 4;
    int32_t start = attn_tile<P>() * TILE, end = start + TILE < queries ? start + TILE : queries;
    if (start >= queries) return false;
    st->row_from = start / share;
    st->row_to = (end - 1) / share;
    UNROLL
    for (int h = 0; h < 2; h++) {
        int32_t i = start + g + 8 * h;
        st->row[h] = i < queries ? i / share : -1;
        attn_clear<P>(st, h);
    }
    UNROLL
    for (int b = 0; b < P::SIZE / 32; b++) {
        uint4 none = { 0, 0, 0, 0 };
        const char *at = sh->q + (start + g) * P::Q_STRIDE + 64 * b + 16 * q;
        uint4 x = st->row[0] >= 0 ? load16(at) : none, y = st->row[1] >= 0 ? load16(at + 8 * P::Q_STRIDE) : none;
        st->q[2 * b][0] = x.x, st->q[2 * b][1] = y.x, st->q[2 * b][2] = x.y, st->q[2 * b][3] = y.y;
        st->q[2 * b + 1][0] = x.z, st->q[2 * b + 1][1] = y.z, st->q[2 * b + 1][2] = x.w, st->q[2 * b + 1][3] = y.w;
    }
    return true;
}

/* Where a row finds K or V of a position. */
typedef struct attn_source {
    const char *tile, *fresh, *zero;
    const row_set *rows;
    int32_t base, from, r, first, last; /* r: of the group, whose first row is from */
} attn_source;

template <class P, bool TURNS> __device__ __forceinline__ const char *attn_at(const attn_source &s, int32_t pos) {
    const char *tile = s.tile + pos % UNIT * P::STRIDE;
    if (!TURNS) return tile;
    if (pos < s.first || pos > s.last) return s.zero;
    if (!P::FRESH || pos < s.base) return tile;
    int32_t node = s.rows->chain ? pos - s.base : s.rows->path[s.from + s.r][pos - s.base];
    return s.fresh + node * P::STRIDE;
}

/* Four E4M3 codes as BF16, exact: the code's bits in a BF16's place, times 2^120, also for subnormals. NaN, all of the
 * seven bits, gets all exponent bits. */
__device__ __forceinline__ uint32_t attn_widen2(uint32_t codes) { /* in the upper byte of each half */
    uint32_t bits = codes >> 4 & 0x07F007F0u, nan = (bits + 0x00100010u) & 0x08000800u;
    return mul_bf16x2(bits | nan * 15 | (codes & 0x80008000u), 0x7B807B80u);
}

/* N neighbouring elements of a row as pairs. */
template <int N, int BYTES> __device__ __forceinline__ void attn_load(const char *at, uint32_t w[N / 2]) {
    if constexpr (BYTES == 2 && N == 8) {
        uint4 v = load16(at);
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if constexpr (BYTES == 2 && N == 4) {
        uint2 v = load8(at);
        w[0] = v.x, w[1] = v.y;
    } else if constexpr (BYTES == 2) {
        w[0] = *(const uint32_t *)at;
    } else if constexpr (N == 2) {
        w[0] = attn_widen2(permute_bytes(*(const uint16_t *)at, 0, 0x1404));
    } else {
        uint32_t codes[N / 4];
        if constexpr (N == 8) {
            uint2 v = load8(at);
            codes[0] = v.x, codes[1] = v.y;
        } else {
            codes[0] = *(const uint32_t *)at;
        }
        UNROLL
        for (int i = 0; i < N / 4; i++) {
            w[2 * i] = attn_widen2(permute_bytes(codes[i], 0, 0x1404));
            w[2 * i + 1] = attn_widen2(permute_bytes(codes[i], 0, 0x3424));
        }
    }
}

/* Scores of the part's keys, not scaled. TURNS: the tile's rows one after the other. */
template <class P, bool TURNS>
__device__ __forceinline__ void attn_scores(const attn_state<P> &st, const attn_shared<P> *sh, attn_source s,
                                            int32_t start, float score[P::KEYS][4]) {
    int32_t g = lane_id() / 4, q = lane_id() % 4;
    for (int32_t r = st.row_from; r <= (TURNS ? st.row_to : st.row_from); r++) {
        if (TURNS) s.r = r, s.first = sh->see[r].first, s.last = sh->see[r].last;
        UNROLL
        for (int j = 0; j < P::KEYS; j++) {
            if constexpr (P::TIGHT) warp_sync();
            const char *key = attn_at<P, TURNS>(s, start + 8 * (attn_part<P>() * P::KEYS + j) + attn_order(g));
            float d[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
            UNROLL
            for (int b = 0; b < P::SIZE / 32; b++) {
                uint32_t w[4];
                attn_load<8, P::BYTES>(key + (32 * b + 8 * q) * P::BYTES, w);
                mma_16x8x16(d, st.q[2 * b], w);
                mma_16x8x16(d, st.q[2 * b + 1], w + 2);
            }
            if (!TURNS || r == st.row[0]) score[j][0] = d[0], score[j][1] = d[1];
            if (!TURNS || r == st.row[1]) score[j][2] = d[2], score[j][3] = d[3];
        }
    }
}

/* Weights of eight keys as operands: the sum of two BF16 numbers, whose error is below 2^-16 of the weight. */
typedef struct attn_weight {
    uint32_t high[2], low[2]; /* by half: the lane's two keys */
} attn_weight;

__device__ __forceinline__ attn_weight attn_split(const float e[4]) {
    attn_weight w;
    UNROLL
    for (int h = 0; h < 2; h++) {
        w.high[h] = pack_bf16x2(e[2 * h], e[2 * h + 1]);
        w.low[h] = pack_bf16x2(e[2 * h] - low_f32(w.high[h]), e[2 * h + 1] - high_f32(w.high[h]));
    }
    return w;
}

/* Weights of the unit's positions 16 i .. 16 i + 15: the warp's own, or what the parts have put into shared memory. */
template <class P>
__device__ __forceinline__ void attn_weights_at(const attn_weight own[P::KEYS], const char *shared, int i,
                                                uint32_t high[4], uint32_t low[4]) {
    UNROLL
    for (int j = 0; j < 2; j++) {
        if constexpr (P::PARTS == 1) {
            const attn_weight &w = own[2 * i + j];
            high[2 * j] = w.high[0], high[2 * j + 1] = w.high[1], low[2 * j] = w.low[0], low[2 * j + 1] = w.low[1];
        } else {
            uint4 w = load16(shared + ((2 * i + j) * WARP + lane_id()) * 16);
            high[2 * j] = w.x, high[2 * j + 1] = w.y, low[2 * j] = w.z, low[2 * j + 1] = w.w;
        }
    }
}

/* First element that a lane with column g holds of the part's c-th piece. */
template <class P> __device__ __forceinline__ int attn_element(int part, int c, int g) {
    return (part * P::COLUMNS + c * P::PIECE) * 8 + attn_order(g) * P::PIECE;
}

/* value += weights x V, in rising position but for the order within 16. */
template <class P, bool TURNS>
__device__ __forceinline__ void attn_values(attn_state<P> *st, const attn_shared<P> *sh, attn_source s, int32_t start,
                                            const attn_weight own[P::KEYS], const char *shared) {
    const int WIDE = !TURNS                  ? P::PIECE
                     : P::TIGHT && !P::FRESH ? 2
                     : P::PIECE == 8         ? 4
                                             : P::PIECE; /* turns need registers twice */
    int32_t g = lane_id() / 4, q = lane_id() % 4;
    for (int32_t r = st->row_from; r <= (TURNS ? st->row_to : st->row_from); r++) {
        if (TURNS) s.r = r, s.first = sh->see[r].first, s.last = sh->see[r].last;
        UNROLL
        for (int c = 0; c < P::COLUMNS; c += WIDE) {
            float d[WIDE][4];
            UNROLL
            for (int e = 0; e < WIDE; e++) memcpy(d[e], st->value[c + e], sizeof d[e]);
            int32_t offset = (attn_element<P>(attn_part<P>(), c / P::PIECE, g) + c % P::PIECE) * P::BYTES;
            UNROLL
            for (int i = 0; i < UNIT / 16; i++) {
                uint32_t high[4], low[4], v[4][WIDE / 2];
                if constexpr (P::TIGHT) warp_sync();
                attn_weights_at<P>(own, shared, i, high, low);
                UNROLL
                for (int n = 0; n < 4; n++)
                    attn_load<WIDE, P::BYTES>(attn_at<P, TURNS>(s, start + 16 * i + 4 * n + q) + offset, v[n]);
                UNROLL
                for (int e = 0; e < WIDE; e++) {
                    uint32_t pick = e % 2 ? 0x7632 : 0x5410;
                    uint32_t b[2] = { permute_bytes(v[0][e / 2], v[1][e / 2], pick),
                                      permute_bytes(v[2][e / 2], v[3][e / 2], pick) };
                    mma_16x8x16(d[e], high, b);
                    mma_16x8x16(d[e], low, b);
                }
            }
            UNROLL
            for (int e = 0; e < WIDE; e++) {
                float *to = st->value[c + e];
                if (!TURNS || r == st->row[0]) to[0] = d[e][0], to[1] = d[e][1];
                if (!TURNS || r == st->row[1]) to[2] = d[e][2], to[3] = d[e][3];
            }
        }
    }
    UNROLL
    for (int i = 0; i < UNIT / 16; i++) {
        const uint32_t ones[2] = { 0x3F803F80u, 0x3F803F80u };
        uint32_t high[4], low[4];
        attn_weights_at<P>(own, shared, i, high, low);
        mma_16x8x16(st->sum, high, ones);
        mma_16x8x16(st->sum, low, ones);
    }
}

/* Hidden positions to -inf, the others times the scale. */
template <class P, bool TURNS>
__device__ __forceinline__ void attn_scale(const attn_state<P> &st, const attn_shared<P> *sh, float scale,
                                           int32_t start, float score[P::KEYS][4]) {
    int32_t first[2] = {}, last[2] = { -1, -1 }; /* nothing, without a query */
    UNROLL
    for (int h = 0; TURNS && h < 2; h++)
        if (st.row[h] >= 0) first[h] = sh->see[st.row[h]].first, last[h] = sh->see[st.row[h]].last;
    UNROLL
    for (int j = 0; j < P::KEYS; j++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            int32_t pos = start + 8 * (attn_part<P>() * P::KEYS + j) + lane_id() % 4 + i % 2 * 4;
            bool hidden = TURNS && (pos < first[i / 2] || pos > last[i / 2]);
            score[j][i] = hidden ? -INFINITY : score[j][i] * scale;
        }
    }
}

/* The largest score of each half among the warp's keys. */
template <class P> __device__ __forceinline__ void attn_high(const float score[P::KEYS][4], float high[2]) {
    UNROLL
    for (int h = 0; h < 2; h++) {
        high[h] = -INFINITY;
        UNROLL
        for (int j = 0; j < P::KEYS; j++) {
            high[h] = score[j][2 * h] > high[h] ? score[j][2 * h] : high[h];
            high[h] = score[j][2 * h + 1] > high[h] ? score[j][2 * h + 1] : high[h];
        }
        UNROLL
        for (int m = 1; m < 4; m *= 2) {
            float other = warp_xor(high[h], m);
            high[h] = other > high[h] ? other : high[h];
        }
    }
}

/* The run goes on with a new maximum: what is there shrinks. */
template <class P> __device__ __forceinline__ void attn_raise(attn_state<P> *st, const float high[2]) {
    UNROLL
    for (int h = 0; h < 2; h++) {
        float to = high[h] > st->high[h] ? high[h] : st->high[h], shrink = fm_exp(st->high[h] - to);
        st->high[h] = to;
        st->sum[2 * h] *= shrink;
        UNROLL
        for (int c = 0; c < P::COLUMNS; c++) st->value[c][2 * h] *= shrink, st->value[c][2 * h + 1] *= shrink;
    }
}

/* One unit. Warps without a tile come along for the meetings of the block. */
template <class P, bool TURNS>
__device__ __forceinline__ void attn_unit(const attention_args &k, const attn_group &t, attn_shared<P> *sh,
                                          attn_stage<P> *stage, attn_state<P> *st, bool busy, int32_t u) {
    const int32_t start = u * UNIT, g = lane_id() / 4;
    attn_source s = { stage->k, sh->fresh_k, sh->zero, t.rows, t.base, t.from, 0, 0, 0 };
    char *shared = stage->k + attn_tile<P>() * WEIGHT_BYTES;
    float score[P::KEYS][4] = {}, high[2];
    if (busy) {
        attn_scores<P, TURNS>(*st, sh, s, start, score);
        attn_scale<P, TURNS>(*st, sh, k.a.scale, start, score);
        attn_high<P>(score, high);
    }
    if constexpr (P::PARTS > 1) {
        if (busy && lane_id() % 4 == 0)
            sh->high[attn_tile<P>()][attn_part<P>()][g] = high[0],
            sh->high[attn_tile<P>()][attn_part<P>()][g + 8] = high[1];
        block_sync();
        UNROLL
        for (int i = 0; i < P::PARTS && busy; i++) {
            UNROLL
            for (int h = 0; h < 2; h++) {
                float other = sh->high[attn_tile<P>()][i][g + 8 * h];
                high[h] = other > high[h] ? other : high[h];
            }
        }
    }
    attn_weight weight[P::KEYS];
    if (busy) {
        attn_raise<P>(st, high);
        UNROLL
        for (int j = 0; j < P::KEYS; j++) {
            UNROLL
            for (int i = 0; i < 4; i++) {
                float e = fm_exp(score[j][i] - st->high[i / 2]);
                score[j][i] = TURNS && score[j][i] == -INFINITY ? 0.0f : e;
            }
            weight[j] = attn_split(score[j]);
            if constexpr (P::PARTS > 1) {
                uint4 w = { weight[j].high[0], weight[j].high[1], weight[j].low[0], weight[j].low[1] };
                *(uint4 *)(shared + ((attn_part<P>() * P::KEYS + j) * WARP + lane_id()) * 16) = w;
            }
        }
    }
    if constexpr (P::PARTS > 1) block_sync();
    s.tile = stage->v;
    s.fresh = sh->fresh_v;
    if (busy) attn_values<P, TURNS>(st, sh, s, start, weight, shared);
}

/* --- partial results --- */

template <class P>
__device__ __forceinline__ float *attn_partial(const attention_args &k, const attn_group &t, int32_t query,
                                               int32_t run) {
    int32_t share = k.a.heads / k.a.past.heads;
    int64_t row = (int64_t)t.g * k.rows + (t.from - k.from_row) + query / share;
    return k.partial + ((row * RUNS_MAX + run) * share + query % share) * P::PARTIAL;
}

/* N neighbouring floats. */
template <int N> __device__ __forceinline__ void attn_store(float *to, const float v[N]) {
    if constexpr (N >= 4) {
        UNROLL
        for (int i = 0; i < N; i += 4) {
            uint4 w = { bits_of_f32(v[i]), bits_of_f32(v[i + 1]), bits_of_f32(v[i + 2]), bits_of_f32(v[i + 3]) };
            *(uint4 *)(to + i) = w;
        }
    } else {
        UNROLL
        for (int i = 0; i < N; i++) to[i] = v[i];
    }
}

/* At the end of a row's run its state goes to scratch, and the next run begins with nothing. */
template <class P>
__device__ __forceinline__ void attn_flush(const attention_args &k, const attn_group &t, const attn_shared<P> *sh,
                                           attn_state<P> *st, int32_t u) {
    int32_t q = lane_id() % 4;
    UNROLL
    for (int h = 0; h < 2; h++) {
        if (st->row[h] < 0) continue;
        const attn_row &see = sh->see[st->row[h]];
        int32_t first = see.first / UNIT, last = see.last / UNIT;
        if (u < first || u > last || ((u + 1) % see.run && u != last)) continue;
        float *to = attn_partial<P>(k, t, attn_tile<P>() * TILE + lane_id() / 4 + 8 * h, u / see.run - first / see.run);
        if (attn_part<P>() == 0 && q == 0) to[0] = st->high[h], to[1] = st->sum[2 * h];
        UNROLL
        for (int c = 0; c < P::COLUMNS / P::PIECE; c++) {
            UNROLL
            for (int i = 0; i < 2; i++) {
                float v[P::PIECE];
                UNROLL
                for (int e = 0; e < P::PIECE; e++) v[e] = st->value[c * P::PIECE + e][2 * h + i];
                attn_store<P::PIECE>(to + 4 + attn_element<P>(attn_part<P>(), c, 2 * q + i), v);
            }
        }
        attn_clear<P>(st, h);
    }
}

constexpr int JOIN_AT_ONCE = 8; /* runs whose loads are under way together */

template <class P>
__device__ __forceinline__ void attn_gate(const attention_args &k, int32_t r, int32_t head, float sum,
                                          const float value[P::SIZE / WARP]) {
    const attn_args &a = k.a;
    int32_t size = a.past.size;
    const float *gate = (const float *)view_row(&a.gate, r);
    bf16 *y = (bf16 *)view_row(&a.y, r) + (int64_t)head * size;
    bool per_head = a.gate.cols == a.heads;
    float inverse = 1.0f / sum, one = per_head ? fm_softplus(gate[head]) : 0.0f;
    UNROLL
    for (int i = 0; i < P::SIZE / WARP; i++) {
        int32_t e = lane_id() + i * WARP;
        if (e >= size) continue;
        float by = per_head ? one : fm_softplus(gate[(int64_t)head * size + e]);
        y[e] = bf16_of_f32((value[i] * inverse) * by);
    }
}

/* Joins the runs of each query from left to right (kernels/attn.h, 3), a warp a query. */
template <class P> __device__ __forceinline__ void attn_join(const attention_args &k, const attn_group &t) {
    int32_t share = k.a.heads / k.a.past.heads;
    for (int32_t query = warp_id(); query < t.n * share; query += ATTN_WARPS) {
        int32_t r = t.from + query / share;
        attn_row see = attn_row_of(k.a, r);
        int32_t runs = see.last / UNIT / see.run - see.first / UNIT / see.run + 1;
        float high = 0.0f, sum = 0.0f, value[P::SIZE / WARP] = {};
        for (int32_t at = 0; at < runs; at += JOIN_AT_ONCE) {
            float m[JOIN_AT_ONCE], l[JOIN_AT_ONCE], o[JOIN_AT_ONCE][P::SIZE / WARP];
            UNROLL
            for (int i = 0; i < JOIN_AT_ONCE; i++) {
                const float *from = attn_partial<P>(k, t, query, at + i < runs ? at + i : at);
                m[i] = from[0], l[i] = from[1];
                UNROLL
                for (int c = 0; c < P::SIZE / WARP; c++) o[i][c] = from[4 + lane_id() + c * WARP];
            }
            UNROLL
            for (int i = 0; i < JOIN_AT_ONCE; i++) {
                if (at + i >= runs) continue;
                float to = at + i == 0 || m[i] > high ? m[i] : high;
                float left = fm_exp(high - to), right = fm_exp(m[i] - to);
                sum = at + i == 0 ? l[i] : fmaf(sum, left, l[i] * right);
                UNROLL
                for (int c = 0; c < P::SIZE / WARP; c++)
                    value[c] = at + i == 0 ? o[i][c] : fmaf(value[c], left, o[i][c] * right);
                high = to;
            }
        }
        attn_gate<P>(k, r, t.g * share + query % share, sum, value);
    }
}

/* --- the kernel --- */

template <class P> __global__ void __launch_bounds__(ATTN_THREADS, 1) attention_kernel(attention_args k) {
    attn_shared<P> *sh = (attn_shared<P> *)shared_memory();
    for (int32_t i = (int32_t)threadIdx.x; i < P::STRIDE; i += ATTN_THREADS) sh->zero[i] = 0;
    grid_wait();
    grid_release();
    attn_find<P>(k, sh);
    const attn_group &t = sh->group;
    if (t.n == 0) return;
    const int32_t end = t.last_max / UNIT, first_unit = attn_first(t);
    if (first_unit <= end) {
        attn_fetch<P>(k, t, &sh->even, first_unit);
        bool fresh = false;
        for (int32_t u = t.base / UNIT; P::FRESH && u <= end; u++) fresh |= attn_has(k, t, u);
        if (P::FRESH && k.s.qkv.data) {
            bool write = t.from == 0 && attn_has(k, t, t.base / UNIT);
            attn_prepare<P>(k, t, sh, fresh, write);
        } else {
            attn_queries<P>(k, t, sh);
            if (fresh) attn_stored<P>(k.a, t, sh);
        }
        copy_commit();
        block_sync();
        attn_state<P> st;
        bool busy = attn_take<P>(k, t, sh, &st);
        attn_stage<P> *stage = &sh->even, *other = &sh->odd;
        for (int32_t u = first_unit, next; u <= end; u = next) {
            next = attn_next(k, t, u);
            copy_wait<0>();
            block_sync(); /* the unit is there, and nobody works on the one before it, or takes queries */
            if (next <= end) attn_fetch<P>(k, t, other, next);
            copy_commit();
            int32_t from = u * UNIT, to = from + UNIT - 1;
            if (from >= t.first_max && to <= t.last_min && (!P::FRESH || to < t.base))
                attn_unit<P, false>(k, t, sh, stage, &st, busy, u);
            else
                attn_unit<P, true>(k, t, sh, stage, &st, busy, u);
            if (busy) attn_flush<P>(k, t, sh, &st, u);
            attn_stage<P> *swap = stage;
            stage = other;
            other = swap;
        }
    }
    if (last_block(&k.counters[t.g * k.groups + (int32_t)blockIdx.x % k.groups], k.lanes, &sh->flag))
        attn_join<P>(k, t);
}
#endif
