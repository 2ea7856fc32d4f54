/* kernels/cuda/pick.cuh - candidates of the draft and the choice of the target, one launch each: a block per slice and
 * row; the row's last block does the rest. */
#ifndef KERNELS_CUDA_PICK_CUH
#define KERNELS_CUDA_PICK_CUH
#include "kernels/cuda/filter.cuh"

/* What all blocks share of the launch's scratch. */
struct slice_scratch {
    slice_part *part; /* [rows][slices] */
    float *y;         /* pick: [rows][V], the logits to choose from */
    int32_t *list;    /* pick: [rows][V] */
    int32_t *counter; /* [rows] */
};

struct slice_shared {
    uint64_t stage[SLICE_WARPS * SLICE_TOP];
    uint64_t top[SLICE_TOP];
    int32_t last;
};

/* --- topk --- */

struct topk_shared {
    slice_shared s;
    int32_t taken[1]; /* [slices] */
};

__global__ void topk_kernel(topk_args a, slice_scratch scratch) {
    grid_wait();
    grid_release();
    topk_shared *s = (topk_shared *)shared_memory();
    int32_t r = (int32_t)blockIdx.y, slices = (int32_t)gridDim.x, k = a.id.cols, from = (int32_t)blockIdx.x * SLICE;
    int32_t n = a.logits.cols - from < SLICE ? a.logits.cols - from : SLICE;
    if (r >= *a.rows.n) return;
    const float *z = (const float *)view_row(&a.logits, live_first(&a.rows) + r) + from;
    slice_part *row = scratch.part + (int64_t)r * slices, *part = row + blockIdx.x;
    slice_largest(z, from, n, k, s->s.stage, s->s.top);
    float sum = slice_sum(z, n, s->s.top[0], (float *)s->s.stage);
    if ((int32_t)threadIdx.x < k) part->top[threadIdx.x] = s->s.top[threadIdx.x];
    if (threadIdx.x == 0) part->sum = sum;
    if (!last_block(scratch.counter + r, slices, &s->s.last) || warp_id() != 0) return;
    merge_largest(row, slices, k, s->taken, s->s.top);
    float top = key_value(s->s.top[0]), log_sum = (float)merge_log_sum(row, slices, s->s.top[0]);
    if (lane_id() >= k) return;
    uint64_t mine = s->s.top[lane_id()];
    ((int32_t *)view_row(&a.id, r))[lane_id()] = key_id(mine);
    ((float *)view_row(&a.logp, r))[lane_id()] = (key_value(mine) - top) - log_sum;
}

/* --- pick --- */

struct pick_shared {
    slice_shared s;
    union {
        float y[SLICE];
        filter_shared filter;
    };
    int32_t path[DEPTH_MAX];
    int32_t taken[1]; /* [slices] */
};

/* A row that chooses, and what the block knows of it. */
struct pick_job {
    const float *z;       /* [n] */
    const uint32_t *mask; /* NULL: none */
    int32_t n, row, n_path;
    int64_t q;
    bool penalties, masked, greedy;
    int32_t told; /* alternatives; -1: no log-probabilities */
};

__device__ __forceinline__ pick_job pick_job_of(const pick_args &a, int32_t i) {
    const step_state *st = &a.p->st;
    const step_in *in = &a.p->in;
    pick_job j;
    j.z = (const float *)view_row(&a.logits, i);
    j.mask = pick_mask(&a, i);
    j.n = a.logits.cols;
    j.row = st->head_first + i;
    j.q = (int64_t)st->rows.pos[j.row] + 1;
    j.penalties = pick_penalises(&in->pick);
    j.masked = j.q < in->pick.end_from;
    j.greedy = in->pick.temperature < PICK_GREEDY_BELOW;
    j.told = in->logprobs < PICK_TOP_MAX ? in->logprobs : (int32_t)PICK_TOP_MAX;
    j.n_path = j.penalties ? pick_path_length(st, j.row) : 0;
    j.n_path = j.n_path < 0 ? 0 : j.n_path < DEPTH_MAX ? j.n_path : (int32_t)DEPTH_MAX;
    return j;
}

/* Tokens of the lists first, then those of the path anew (pick_penalise). y holds the raw logits of the ids from `from`
 * on, and is adjusted in place; equal tokens of the path are the first one's business. */
__device__ __forceinline__ void penalise_slice(const pick_job *j, const pick_params *p, const pick_lists *l,
                                               int32_t from, int32_t n, const int32_t *path, float *y) {
    for (int32_t i = (int32_t)threadIdx.x; i < l->n_seen; i += SLICE_THREADS) {
        uint32_t at = (uint32_t)(l->seen[i] - from);
        if (at < (uint32_t)n) y[at] = pick_penalty(y[at], p, l->count[l->seen[i]]);
    }
    block_sync();
    int32_t me = (int32_t)threadIdx.x;
    uint32_t at = me < j->n_path ? (uint32_t)(path[me] - from) : (uint32_t)n;
    if (at < (uint32_t)n) {
        int32_t before = 0, count = l->count[path[me]];
        for (int32_t k = 0; k < j->n_path; k++) {
            count += path[k] == path[me];
            before += k < me && path[k] == path[me];
        }
        if (before == 0) y[at] = pick_penalty(j->z[path[me]], p, count);
    }
    block_sync();
}

/* Biases in the order of the list: the first one of a token adds all of them. */
__device__ __forceinline__ void bias_slice(const pick_lists *l, int32_t from, int32_t n, float *y) {
    int32_t n_bias = l->n_bias < PICK_BIAS_MAX ? l->n_bias : (int32_t)PICK_BIAS_MAX;
    for (int32_t i = (int32_t)threadIdx.x; i < n_bias; i += SLICE_THREADS) {
        int32_t id = l->bias[i].id, before = 0;
        uint32_t at = (uint32_t)(id - from);
        if (at >= (uint32_t)n) continue;
        for (int32_t k = 0; k < i; k++) before += l->bias[k].id == id;
        for (int32_t k = i; k < n_bias && before == 0; k++)
            if (l->bias[k].id == id) y[at] += l->bias[k].value;
    }
    block_sync();
}

/* pick_adjust() for a slice: its logits, or a changed copy in `copy`. */
__device__ __forceinline__ const float *adjust_slice(const pick_job *j, const pick_args &a, int32_t from, int32_t n,
                                                     int32_t *path, float *copy) {
    const pick_lists *l = a.lists;
    const float *z = j->z + from;
    if (!j->penalties && !j->masked && !j->mask && l->n_bias <= 0) return z;
    int32_t me = (int32_t)threadIdx.x;
    if (me < j->n_path) path[me] = pick_path_token(&a.p->st, j->row, me);
    for (int32_t v = me; v < n; v += SLICE_THREADS) copy[v] = z[v];
    block_sync();
    if (j->penalties) penalise_slice(j, &a.p->in.pick, l, from, n, path, copy);
    bias_slice(l, from, n, copy);
    for (int32_t i = me; j->masked && i < l->n_end; i += SLICE_THREADS)
        if ((uint32_t)(l->end[i] - from) < (uint32_t)n) copy[l->end[i] - from] = -INFINITY;
    block_sync();
    for (int32_t v = me; j->mask && v < n; v += SLICE_THREADS)
        if (!pick_allows(j->mask, from + v)) copy[v] = -INFINITY;
    block_sync();
    return copy;
}

/* The slice's part: raw logits for the log-probabilities, adjusted ones, divided, for the choice. */
__device__ __forceinline__ void pick_slice(const pick_job *j, const pick_args &a, pick_shared *s, slice_part *part,
                                           float *y) {
    int32_t from = (int32_t)blockIdx.x * SLICE, n = j->n - from < SLICE ? j->n - from : SLICE;
    if (j->told >= 0) {
        int32_t k = j->told > 0 ? j->told : 1;
        slice_largest(j->z + from, from, n, k, s->s.stage, s->s.top);
        float sum = slice_sum(j->z + from, n, s->s.top[0], (float *)s->s.stage);
        if ((int32_t)threadIdx.x < k) part->top[threadIdx.x] = s->s.top[threadIdx.x];
        if (threadIdx.x == 0) part->sum = sum;
    }
    const float *z = adjust_slice(j, a, from, n, s->path, s->y);
    float temperature = j->greedy ? 1.0f : a.p->in.pick.temperature;
    uint64_t best = 0;
    for (int32_t v = (int32_t)threadIdx.x; v < n; v += SLICE_THREADS) {
        float scaled = z[v] / temperature;
        uint64_t key = key_of(scaled, from + v);
        best = key > best ? key : best;
        if (!j->greedy) y[from + v] = scaled;
    }
    best = block_reduce(best, join_max(), s->s.stage);
    if (threadIdx.x == 0) part->best = best;
}

/* pick_token() over what the slices left. */
__device__ __forceinline__ int32_t pick_choice(const pick_job *j, const pick_params *p, pick_shared *s,
                                               const slice_part *part, int32_t slices, float *y, int32_t *list) {
    uint64_t best = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < slices; i += SLICE_THREADS)
        best = part[i].best > best ? part[i].best : best;
    best = block_reduce(best, join_max(), s->s.stage);
    float top = key_value(best);
    int32_t id = top > -INFINITY ? key_id(best) : 0;
    if (j->greedy || !isfinite(top)) return id;
    filter_row r = { y, j->n, list, -1, { { -INFINITY, INT32_MAX }, { top, id }, -INFINITY } };
    filter_all(&r, &s->filter, p);
    return noise_choice(&r, &s->filter, p, j->q);
}

/* Log-probabilities beside the choice, by one warp. */
__device__ __forceinline__ void pick_tell(const pick_job *j, pick_shared *s, const slice_part *part, int32_t slices,
                                          int32_t chosen, pick_logprobs *out) {
    int32_t k = j->told > 0 ? j->told : 1;
    merge_largest(part, slices, k, s->taken, s->s.top);
    double top = (double)key_value(s->s.top[0]), log_sum = merge_log_sum(part, slices, s->s.top[0]);
    int32_t n = j->told < j->n ? j->told : j->n;
    if (lane_id() == 0) {
        out->own = (float)((double)j->z[chosen] - top - log_sum);
        out->n = n;
    }
    if (lane_id() >= n) return;
    uint64_t mine = s->s.top[lane_id()];
    out->id[lane_id()] = key_id(mine);
    out->logp[lane_id()] = (float)((double)key_value(mine) - top - log_sum);
}

/* Rows that choose; what is in the block may be anything. */
__device__ __forceinline__ int32_t pick_rows(const pick_args &a) {
    const step_state *st = &a.p->st;
    int32_t n = st->head_n, room = a.logits.rows < NODES_MAX ? a.logits.rows : (int32_t)NODES_MAX;
    bool right = n >= 0 && n <= room && st->head_first >= 0 && st->head_first + n <= PREFILL_MAX;
    if (!right && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) a.p->out.fault = FAULT_PICK;
    return right ? n : 0;
}

__global__ void pick_kernel(pick_args a, slice_scratch scratch) {
    grid_wait();
    grid_release();
    pick_shared *s = (pick_shared *)shared_memory();
    int32_t i = (int32_t)blockIdx.y, slices = (int32_t)gridDim.x;
    if (i >= pick_rows(a)) return;
    pick_job j = pick_job_of(a, i);
    slice_part *row = scratch.part + (int64_t)i * slices;
    float *y = scratch.y + (int64_t)i * j.n;
    pick_slice(&j, a, s, row + blockIdx.x, y);
    if (!last_block(scratch.counter + i, slices, &s->s.last)) return;
    step_state *st = &a.p->st;
    int32_t chosen = pick_choice(&j, &a.p->in.pick, s, row, slices, y, scratch.list + (int64_t)i * j.n);
    if (threadIdx.x == 0) st->choice[i] = chosen;
    if (j.told >= 0 && warp_id() == 0) pick_tell(&j, s, row, slices, chosen, &st->logprobs[i]);
}
#endif
