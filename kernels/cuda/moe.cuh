/* kernels/cuda/moe.cuh - router and experts.
 *
 * Experts of a layer are one slab: same shape, same type, one after the other. A block of the grid belongs to an entry
 * of the list of experts that some live row chose, in rising order, which every block finds for itself from the chosen
 * ids; there are as many entries as there could be, and blocks of the ones that are not there end at once. */
#ifndef KERNELS_CUDA_MOE_CUH
#define KERNELS_CUDA_MOE_CUH
#include "kernels/cuda/linear.cuh"

constexpr int EXPERTS_MAX = 1024, CHOSEN_MAX = 32; /* experts per token */
/* Ten experts and two halves of the shared one, in the models at hand. */
constexpr int DOWN_WARPS = 12, SHARED_PARTS = 2;

typedef struct slab {
    packed first;                 /* of expert 0 */
    int64_t stride, scale_stride; /* bytes from expert to expert */
} slab;

__device__ __forceinline__ packed slab_at(const slab &s, int32_t expert) {
    packed w = s.first;
    w.data += expert * s.stride;
    if (w.mxfp4) w.scale += expert * s.scale_stride;
    return w;
}

/* --- router --- */

typedef struct route_job {
    product_rows in;
    packed w;
    const float *bias; /* NULL: zeros */
    float softcap;
    int32_t normalize, chosen;
    view score, id, share;
    int32_t *counter;
} route_job;

/* The `chosen` largest of score + bias of one row, falling, ties to the lower expert. For a warp: lane l looks at the
 * experts l, l + 32, ...; `taken` has a bit for each of its own that is chosen already. */
__device__ __forceinline__ void select_row(const route_job &job, int32_t i) {
    const float *score = (const float *)view_row(&job.score, i);
    int32_t *id = (int32_t *)view_row(&job.id, i);
    float *share = (float *)view_row(&job.share, i);
    uint32_t taken = 0;
    float sum = 0.0f, mine = 0.0f; /* lane c keeps the score of choice c */
    for (int c = 0; c < job.chosen; c++) {
        float best = 0.0f;
        int32_t at = EXPERTS_MAX;
        for (int32_t e = lane_id(), bit = 0; e < job.w.n; e += WARP, bit++) {
            float v = job.bias ? score[e] + job.bias[e] : score[e];
            if (!(taken >> bit & 1) && (at == EXPERTS_MAX || v > best)) best = v, at = e;
        }
        for (int m = WARP / 2; m; m /= 2) {
            float v = warp_xor(best, m);
            int32_t e = warp_xor(at, m);
            if (e != EXPERTS_MAX && (at == EXPERTS_MAX || v > best || (v == best && e < at))) best = v, at = e;
        }
        if (at % WARP == lane_id()) taken |= 1u << at / WARP;
        float s = score[at];
        sum = c ? sum + s : s;
        if (lane_id() == c) mine = s;
        if (lane_id() == 0) id[c] = at;
    }
    if (lane_id() < job.chosen) share[lane_id()] = job.normalize ? mine / sum : mine;
}

/* A block has one tile of experts; the block that ends last selects, a warp a row. */
template <int RG, bool NORMED> __global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 1) route_kernel(route_job job) {
    product_shared<1> *s = (product_shared<1> *)shared_memory();
    tile_at tile[1] = { tile_of(job.w, (int32_t)blockIdx.x) };
    prefetch_tile(job.w, tile[0]);
    grid_release();
    grid_wait();
    int32_t n = *job.in.live.n;
    block_product<1, RG, NORMED>(job.in, job.w, tile, 1, 1, s, n, [&](int, int j, int32_t i, auto sum) {
        int32_t e = (int32_t)blockIdx.x * PACK_ROWS + j;
        if (e >= job.w.n) return;
        float r = sum(0);
        if (job.softcap > 0.0f) r = job.softcap * fm_tanh(r / job.softcap);
        ((float *)view_row(&job.score, i))[e] = fm_sigmoid(r);
    });
    if (!last_block(job.counter, (int32_t)gridDim.x, &s->flag)) return;
    for (int32_t i = warp_id(); i < n; i += PRODUCT_WARPS) select_row(job, i);
}

/* --- who goes where --- */

/* The chosen experts of all live rows, in shared memory. */
typedef struct expert_list {
    uint32_t chosen[EXPERTS_MAX / 32]; /* a bit for every expert */
    int32_t rows;                      /* of block_find_pairs */
} expert_list;

__device__ __forceinline__ void mark_chosen(const view &id, int32_t n, int32_t experts, expert_list *l) {
    for (int32_t i = (int32_t)threadIdx.x; i < EXPERTS_MAX / 32; i += (int32_t)blockDim.x) l->chosen[i] = 0;
    block_sync();
    for (int32_t i = (int32_t)threadIdx.x; i < n * id.cols; i += (int32_t)blockDim.x) {
        int32_t e = ((const int32_t *)view_row(&id, i / id.cols))[i % id.cols];
        if (e >= 0 && e < experts) atomic_or(&l->chosen[e / 32], 1u << e % 32);
    }
    block_sync();
}

constexpr int32_t NO_EXPERT = -1;

/* The expert with `rank` chosen ones before it; NO_EXPERT: there is none. */
__device__ __forceinline__ int32_t expert_of_rank(const expert_list *l, int32_t rank) {
    for (int32_t i = 0; i < EXPERTS_MAX / 32; i++) {
        uint32_t bits = l->chosen[i];
        int32_t here = bit_count(bits);
        if (rank >= here) {
            rank -= here;
            continue;
        }
        while (rank--) bits &= bits - 1;
        return i * 32 + lowest_bit(bits);
    }
    return NO_EXPERT;
}

/* The pairs (row, slot) that chose an expert, rows rising, as row * cols + slot to `pair`; returns their number. For a
 * warp. */
__device__ __forceinline__ int32_t warp_find_rows(const view &id, int32_t from, int32_t to, int32_t expert,
                                                  int16_t *pair) {
    int32_t found = 0;
    for (int32_t at = from; at < to; at += WARP) {
        int32_t row = at + lane_id(), slot = -1;
        for (int32_t i = 0; row < to && i < id.cols; i++)
            if (((const int32_t *)view_row(&id, row))[i] == expert) slot = i;
        uint32_t all = warp_vote(slot >= 0);
        if (slot >= 0) pair[found + bit_count(all & ((1u << lane_id()) - 1))] = (int16_t)(row * id.cols + slot);
        found += bit_count(all);
    }
    warp_sync();
    return found;
}

/* The pairs of an entry to `pair`, their number to l->rows: of the chosen expert with that rank, which is returned, or
 * every row of a shared one. NO_EXPERT: the entry is beyond the chosen ones. For a block. */
__device__ __forceinline__ int32_t block_find_pairs(const view &id, int32_t n, int32_t experts, int32_t entry,
                                                    bool shared, expert_list *l, int16_t *pair) {
    int32_t expert = 0;
    if (shared) {
        for (int32_t i = (int32_t)threadIdx.x; i < n; i += (int32_t)blockDim.x) pair[i] = (int16_t)i;
        if (threadIdx.x == 0) l->rows = n;
    } else {
        mark_chosen(id, n, experts, l);
        expert = expert_of_rank(l, entry);
        if (expert == NO_EXPERT) return NO_EXPERT;
        if (warp_id() == 0) {
            int32_t rows = warp_find_rows(id, 0, n, expert, pair);
            if (lane_id() == 0) l->rows = rows;
        }
    }
    block_sync();
    return expert;
}

/* --- up --- */

typedef struct moe_up_job {
    product_rows in; /* live counts rows; `first` is not used */
    slab gate, up;
    int32_t experts;
    packed shared_gate, shared_up; /* n 0: none */
    int32_t routed;                /* entries of routed experts; the shared one comes behind them */
    view id, h;
} moe_up_job;

template <int T> struct moe_up_shared {
    product_shared<2 * T> product;
    expert_list list;
    int16_t pair[PREFILL_MAX];
};

/* Rows of the list's pairs instead of neighbouring ones; the norm's factors lie by place in the list. */
template <int RG>
__device__ __forceinline__ plain_rows<RG> pair_rows(const product_rows &in, const int16_t *pair, int32_t cols,
                                                    int32_t n, const float *, const plain_rows<RG> *) {
    plain_rows<RG> rows;
    rows.k = in.x.cols;
#pragma unroll
    for (int r = 0; r < RG; r++) {
        int32_t i = 8 * r + lane_id() / 4;
        rows.row[r] = i < n ? (const bf16 *)view_row(&in.x, pair[i] / cols) : nullptr;
    }
    return rows;
}
template <int RG>
__device__ __forceinline__ normed_rows<RG> pair_rows(const product_rows &in, const int16_t *pair, int32_t cols,
                                                     int32_t n, const float *scale, const normed_rows<RG> *) {
    normed_rows<RG> rows;
    rows.k = in.x.cols;
    rows.norm = in.norm;
#pragma unroll
    for (int r = 0; r < RG; r++) {
        int32_t i = 8 * r + lane_id() / 4;
        rows.row[r] = i < n ? (const float *)view_row(&in.x, pair[i] / cols) : nullptr;
        rows.scale[r] = i < n ? scale[i] : 0.0f;
    }
    return rows;
}

/* Block (slice, entry): T tiles of the entry's gate and up rows, for the rows that chose it. */
template <int T, int RG, bool NORMED>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 1) moe_up_kernel(moe_up_job job) {
    typedef typename std::conditional<NORMED, normed_rows<RG>, plain_rows<RG>>::type rows_type;
    moe_up_shared<T> *s = (moe_up_shared<T> *)shared_memory();
    int32_t entry = (int32_t)blockIdx.y, cols = job.id.cols, slots = cols + 1, at = (int32_t)blockIdx.x * T;
    bool shared = entry == job.routed;
    grid_release();
    grid_wait();
    int32_t n = *job.in.live.n;
    int32_t stride = shared ? 1 : cols; /* what a pair's row is multiplied with */
    packed gate = job.shared_gate, up = job.shared_up;
    int32_t expert = block_find_pairs(job.id, n, job.experts, entry, shared, &s->list, s->pair);
    if (expert == NO_EXPERT) return;
    if (!shared) gate = slab_at(job.gate, expert), up = slab_at(job.up, expert);
    int32_t tiles = pack_tiles(gate.n) - at;
    if (tiles <= 0) return;
    if (tiles > T) tiles = T;
    tile_at tile[2 * T];
#pragma unroll
    for (int m = 0; m < T; m++) {
        int32_t t = at + (m < tiles ? m : 0);
        tile[2 * m] = tile_of(gate, t), tile[2 * m + 1] = tile_of(up, t);
    }
    int32_t blocks = pack_blocks(gate.k), rows_all = s->list.rows;
    int32_t from = warp_id() * blocks / PRODUCT_WARPS, to = (warp_id() + 1) * blocks / PRODUCT_WARPS;
    for (int32_t row0 = 0; row0 < rows_all; row0 += 8 * RG) {
        int32_t here = rows_all - row0 < 8 * RG ? rows_all - row0 : 8 * RG, groups = (here + 7) / 8;
        const int16_t *pair = s->pair + row0;
        if (NORMED) {
            for (int32_t i = warp_id(); i < here; i += PRODUCT_WARPS) {
                const float *x = (const float *)view_row(&job.in.x, pair[i] / stride);
                float scale = warp_norm_scale(x, job.in.x.cols, job.in.eps);
                if (lane_id() == 0) s->product.scale[i] = scale;
            }
            block_sync();
        }
        float acc[2 * T][RG][4];
        clear(acc);
        rows_type rows = pair_rows<RG>(job.in, pair, stride, here, s->product.scale, (const rows_type *)nullptr);
        multiply_by(gate, acc, tile, 2 * tiles, groups, from, to, rows);
#pragma unroll
        for (int r = 0; r < RG; r++) {
            if (r >= groups) break;
#pragma unroll
            for (int m = 0; m < 2 * T; m++)
                if (m < 2 * tiles) spill_tile(s->product.sum[warp_id()][m], acc[m][r]);
            block_sync();
            for (int i = (int)threadIdx.x; i < tiles * SUM_TILE; i += (int)blockDim.x) {
                int row = i / (tiles * PACK_ROWS), m = i / PACK_ROWS % tiles, j = i % PACK_ROWS;
                int32_t column = (at + m) * PACK_ROWS + j;
                if (8 * r + row >= here || column >= gate.n) continue;
                float g = 0.0f, u = 0.0f;
                for (int p = 0; p < PRODUCT_WARPS; p++) {
                    g += s->product.sum[p][2 * m][j * SUM_ROW + row];
                    u += s->product.sum[p][2 * m + 1][j * SUM_ROW + row];
                }
                int32_t which = pair[8 * r + row];
                int32_t slot = shared ? which * slots + cols : which / cols * slots + which % cols;
                ((bf16 *)view_row(&job.h, slot))[column] = bf16_of_f32(fm_silu(g) * u);
            }
            block_sync();
        }
    }
}

/* --- down --- */

typedef struct moe_down_job {
    view h, id, share;
    slab down;
    int32_t experts;
    packed shared_down;
    float scale;
    view x;
    live_rows live;
    float *partial; /* prefill: [row][slot][D] */
    tap_also tap;
} moe_down_job;

/* h rows of an expert's pairs; `part` of the columns is the caller's business. */
template <int RG>
__device__ __forceinline__ plain_rows<RG> hidden_rows(const view &h, const int16_t *pair, int32_t cols, int32_t n,
                                                      bool shared, int32_t k) {
    plain_rows<RG> rows;
    rows.k = k;
#pragma unroll
    for (int r = 0; r < RG; r++) {
        int32_t i = 8 * r + lane_id() / 4, p = i < n ? pair[i] : 0;
        int32_t slot = shared ? p * (cols + 1) + cols : p / cols * (cols + 1) + p % cols;
        rows.row[r] = i < n ? (const bf16 *)view_row(&h, slot) : nullptr;
    }
    return rows;
}

/* The sum in routing order, the shared part, the residual; d[i] is the product of slot i, parts of the shared one
 * behind the last. */
template <class Product>
__device__ __forceinline__ void combine(const moe_down_job &job, int32_t i, int32_t n, int32_t column,
                                        const Product &d) {
    const float *share = (const float *)view_row(&job.share, i);
    int32_t cols = job.id.cols;
    float t = share[0] * d(0), s = 0.0f;
    for (int32_t c = 1; c < cols; c++) t = fmaf(share[c], d(c), t);
    if (job.shared_down.n)
        for (int32_t p = 0; p < SHARED_PARTS; p++) s += d(cols + p);
    float *x = (float *)view_row(&job.x, live_first(&job.live) + i);
    float v = x[column] + fmaf(job.scale, t, s);
    x[column] = v;
    tap_store(job.tap, i, n, column, v);
}

/* Blocks [from, to) of part p of the shared expert's columns. */
__device__ __forceinline__ void shared_part(int32_t blocks, int32_t p, int32_t *from, int32_t *to) {
    *from = p * blocks / SHARED_PARTS, *to = (p + 1) * blocks / SHARED_PARTS;
}

/* Up to PRODUCT_ROWS rows. A block has one tile of columns; its warps take turns with the experts. */
typedef struct moe_down_shared {
    expert_list list;
    int32_t experts;
    int16_t expert[PRODUCT_ROWS * CHOSEN_MAX];
    int16_t pair[DOWN_WARPS][PRODUCT_ROWS];
    float d[1]; /* [row][cols + SHARED_PARTS][PACK_ROWS] */
} moe_down_shared;

template <int RG> __global__ void __launch_bounds__(DOWN_WARPS *WARP, 1) moe_down_kernel(moe_down_job job) {
    moe_down_shared *s = (moe_down_shared *)shared_memory();
    int32_t cols = job.id.cols, slots = cols + SHARED_PARTS, tile_number = (int32_t)blockIdx.x;
    grid_release();
    grid_wait();
    int32_t n = *job.live.n;
    mark_chosen(job.id, n, job.experts, &s->list);
    if (threadIdx.x == 0) {
        int32_t count = 0;
        for (int32_t i = 0; i < EXPERTS_MAX / 32; i++)
            for (uint32_t bits = s->list.chosen[i]; bits; bits &= bits - 1)
                s->expert[count++] = (int16_t)(i * 32 + lowest_bit(bits));
        s->experts = count;
    }
    block_sync();
    int32_t routed = s->experts, items = routed + (job.shared_down.n ? SHARED_PARTS : 0);
    int16_t *pair = s->pair[warp_id()];
    /* the shared expert's parts are the longest: first */
    for (int32_t item = warp_id(); item < items; item += DOWN_WARPS) {
        int32_t part = item - (items - routed), expert = part < 0 ? -1 : s->expert[part];
        packed w = part < 0 ? job.shared_down : slab_at(job.down, expert);
        int32_t from = 0, to = pack_blocks(w.k), rows = n, slot = cols + item;
        if (part < 0) {
            shared_part(to, item, &from, &to);
            for (int32_t i = lane_id(); i < n; i += WARP) pair[i] = (int16_t)i;
            warp_sync();
        } else {
            rows = warp_find_rows(job.id, 0, n, expert, pair);
        }
        tile_at tile[1] = { tile_of(w, tile_number) };
        float acc[1][RG][4];
        clear(acc);
        plain_rows<RG> in = hidden_rows<RG>(job.h, pair, cols, rows, part < 0, w.k);
        multiply_by(w, acc, tile, 1, (rows + 7) / 8, from, to, in);
        int g = lane_id() / 4, q = lane_id() % 4;
#pragma unroll
        for (int r = 0; r < RG; r++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int32_t place = 8 * r + 2 * q + i % 2, j = g + i / 2 * 8;
                if (place >= rows) continue;
                int32_t p = pair[place], row = part < 0 ? p : p / cols;
                s->d[(row * slots + (part < 0 ? slot : p % cols)) * PACK_ROWS + j] = acc[0][r][i];
            }
        }
        warp_sync();
    }
    block_sync();
    for (int32_t i = (int32_t)threadIdx.x; i < n * PACK_ROWS; i += (int32_t)blockDim.x) {
        int32_t row = i / PACK_ROWS, j = i % PACK_ROWS, column = tile_number * PACK_ROWS + j;
        if (column >= job.x.cols) continue;
        combine(job, row, n, column, [&](int32_t slot) { return s->d[(row * slots + slot) * PACK_ROWS + j]; });
    }
}

/* Prefill: block (tile group, entry), a warp a tile, for all rows that chose the entry; then the sums. The products are
 * those of moe_down_kernel to the bit: one warp takes an expert's whole length. */
template <int RG>
__global__ void __launch_bounds__(PRODUCT_WARPS *WARP, 1) moe_down_wide_kernel(moe_down_job job, int32_t routed) {
    moe_up_shared<1> *s = (moe_up_shared<1> *)shared_memory();
    int32_t cols = job.id.cols, slots = cols + SHARED_PARTS, entry = (int32_t)blockIdx.y;
    int32_t tile_number = (int32_t)blockIdx.x * PRODUCT_WARPS + warp_id();
    bool shared = entry >= routed;
    grid_release();
    grid_wait();
    int32_t n = *job.live.n;
    packed w = job.shared_down;
    int32_t expert = block_find_pairs(job.id, n, job.experts, entry, shared, &s->list, s->pair);
    if (expert == NO_EXPERT) return;
    if (!shared) w = slab_at(job.down, expert);
    if (tile_number >= pack_tiles(job.x.cols)) return;
    int32_t from = 0, to = pack_blocks(w.k), rows = s->list.rows;
    if (shared) shared_part(to, entry - routed, &from, &to);
    tile_at tile[1] = { tile_of(w, tile_number) };
    for (int32_t row0 = 0; row0 < rows; row0 += 8 * RG) {
        int32_t here = rows - row0 < 8 * RG ? rows - row0 : 8 * RG;
        const int16_t *pair = s->pair + row0;
        float acc[1][RG][4];
        clear(acc);
        plain_rows<RG> in = hidden_rows<RG>(job.h, pair, cols, here, shared, w.k);
        multiply_by(w, acc, tile, 1, (here + 7) / 8, from, to, in);
        int g = lane_id() / 4, q = lane_id() % 4;
#pragma unroll
        for (int r = 0; r < RG; r++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int32_t place = 8 * r + 2 * q + i % 2, column = tile_number * PACK_ROWS + g + i / 2 * 8;
                if (place >= here || column >= job.x.cols) continue;
                int32_t p = pair[place], row = shared ? p : p / cols, slot = shared ? cols + entry - routed : p % cols;
                job.partial[((int64_t)row * slots + slot) * job.x.cols + column] = acc[0][r][i];
            }
        }
    }
}

static __global__ void __launch_bounds__(256) moe_sum_kernel(moe_down_job job) {
    grid_release();
    grid_wait();
    int32_t n = *job.live.n, slots = job.id.cols + SHARED_PARTS, row = (int32_t)blockIdx.y;
    int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= n || column >= job.x.cols) return;
    const float *d = job.partial + (int64_t)row * slots * job.x.cols + column;
    combine(job, row, n, column, [&](int32_t slot) { return d[(int64_t)slot * job.x.cols]; });
}
#endif
