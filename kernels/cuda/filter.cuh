/* kernels/cuda/filter.cuh - the rule of kernels/pick_core.h for a sampled row, by one block.
 *
 * top_k and top_p both ask for the shortest prefix, in falling order of y, whose weight reaches a bound; a token weighs
 * 1 for the one and exp(y - top) for the other. Weights are integers, 2^-45 being one, so sums have no order, and a
 * token 32 below the top weighs nothing. Tokens are first counted into classes of one width below the top; the class in
 * which the bound is reached is then halved until one value is left, and equal values are halved by id.
 *
 * Deviations from the reference: a weight is rounded to a multiple of 2^-45, where the reference adds FP32 numbers in
 * FP64, so another token can be the last of a prefix when a sum comes within V * 2^-45 of the bound. */
#ifndef KERNELS_CUDA_FILTER_CUH
#define KERNELS_CUDA_FILTER_CUH
#include "kernels/cuda/slice.cuh"
#include "kernels/pick_core.h"

enum {
    FILTER_CLASSES = 2048, /* 1/64 wide; the last is everything from there on */
    FILTER_FAR = FILTER_CLASSES - 1,
    FILTER_EACH = 4, /* classes of a thread */
};
#define FILTER_UNIT 0x1p45f

struct filter_shared {
    uint64_t weight[FILTER_CLASSES]; /* for top_k int32_t, in the same place */
    uint64_t stage[SLICE_WARPS];
    uint64_t thread[SLICE_THREADS]; /* weight of each thread's classes */
    uint64_t above;                 /* weight of the classes before the one found */
    int32_t found;
    int32_t listed;
};

/* What is left of a row: ids in a list, in any order, or all of them. */
struct filter_row {
    const float *y; /* [n] */
    int32_t n;
    int32_t *list;  /* room for n */
    int32_t listed; /* -1: no list */
    pick_cut cut;
};

__device__ __forceinline__ int32_t filter_size(const filter_row *r) { return r->listed < 0 ? r->n : r->listed; }
__device__ __forceinline__ pick_cand filter_at(const filter_row *r, int32_t i) {
    int32_t id = r->listed < 0 ? i : r->list[i];
    return pick_cand{ r->y[id], id };
}

/* Falls when y rises: y and top are rounded the same way for all. */
__device__ __forceinline__ int32_t filter_class(float y, float top) {
    float d = (top - y) * 64.0f;
    return d < (float)FILTER_FAR ? (int32_t)d : FILTER_FAR;
}

/* 1, or the weight in the nucleus. */
template <class W> __device__ __forceinline__ W filter_weight(float y, float top);
template <> __device__ __forceinline__ int32_t filter_weight<int32_t>(float, float) { return 1; }
template <> __device__ __forceinline__ uint64_t filter_weight<uint64_t>(float y, float top) {
    return (uint64_t)(fm_exp(y - top) * FILTER_UNIT);
}
/* A far token weighs nothing in the nucleus. */
template <class W> __device__ __forceinline__ bool filter_weighs(int32_t c) {
    return sizeof(W) == sizeof(int32_t) || c != FILTER_FAR;
}

/* Weights by class; returns the sum of all, and leaves those of warps and threads behind. */
template <class W> __device__ __forceinline__ uint64_t filter_classes(const filter_row *r, filter_shared *s) {
    W *weight = (W *)s->weight, far = 0;
    for (int32_t c = (int32_t)threadIdx.x; c < FILTER_CLASSES; c += SLICE_THREADS) weight[c] = 0;
    block_sync();
    for (int32_t i = (int32_t)threadIdx.x; i < filter_size(r); i += SLICE_THREADS) {
        pick_cand v = filter_at(r, i);
        if (pick_before(r->cut.last, v)) continue;
        int32_t c = filter_class(v.y, r->cut.top.y);
        if (c == FILTER_FAR)
            far += filter_weighs<W>(c) ? (W)1 : (W)0;
        else
            atomic_add(&weight[c], filter_weight<W>(v.y, r->cut.top.y));
    }
    if (far) atomic_add(&weight[FILTER_FAR], far);
    block_sync();
    uint64_t mine = 0;
    for (int32_t i = 0; i < FILTER_EACH; i++) mine += (uint64_t)weight[FILTER_EACH * (int32_t)threadIdx.x + i];
    s->thread[threadIdx.x] = mine;
    return block_reduce(mine, join_sum(), s->stage);
}

/* The class in which the sum of weights reaches `need`. Threads whose classes it is not in say nothing. */
template <class W> __device__ __forceinline__ void filter_find(filter_shared *s, uint64_t need) {
    const W *weight = (const W *)s->weight;
    uint64_t before = 0, mine = s->thread[threadIdx.x];
    for (int32_t i = 0; i < warp_id(); i++) before += s->stage[i];
    for (int32_t i = warp_id() * WARP; i < (int32_t)threadIdx.x; i++) before += s->thread[i];
    if (before < need && need <= before + mine) {
        int32_t c = FILTER_EACH * (int32_t)threadIdx.x;
        for (; before + (uint64_t)weight[c] < need; c++) before += (uint64_t)weight[c];
        s->found = c;
        s->above = before;
    }
    block_sync();
}

/* Makes a list of what stands in the class found, or before it. */
__device__ __forceinline__ void filter_list(filter_row *r, filter_shared *s) {
    if (threadIdx.x == 0) s->listed = 0;
    block_sync();
    for (int32_t i = (int32_t)threadIdx.x; i < r->n; i += SLICE_THREADS)
        if (filter_class(r->y[i], r->cut.top.y) <= s->found) r->list[atomic_add(&s->listed, 1)] = i;
    block_sync();
    r->listed = s->listed;
}

/* Weight of the entries of the class found that `is` is true of. */
template <class W, class F>
__device__ __forceinline__ uint64_t filter_sum(const filter_row *r, filter_shared *s, const F &is) {
    uint64_t sum = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < r->listed; i += SLICE_THREADS) {
        pick_cand v = filter_at(r, i);
        if (filter_class(v.y, r->cut.top.y) == s->found && !pick_before(r->cut.last, v) && is(v))
            sum += (uint64_t)filter_weight<W>(v.y, r->cut.top.y);
    }
    return block_reduce(sum, join_sum(), s->stage);
}

/* The largest of what `of` makes of these entries. */
template <class F> __device__ __forceinline__ uint64_t filter_max(const filter_row *r, filter_shared *s, const F &of) {
    uint64_t best = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < r->listed; i += SLICE_THREADS) {
        pick_cand v = filter_at(r, i);
        if (filter_class(v.y, r->cut.top.y) != s->found || pick_before(r->cut.last, v)) continue;
        uint64_t value = of(v);
        best = value > best ? value : best;
    }
    return block_reduce(best, join_max(), s->stage);
}

/* The value in the class found at which the sum reaches `need`: the largest for which everything from it on is enough.
 */
template <class W>
__device__ __forceinline__ uint32_t filter_value(const filter_row *r, filter_shared *s, uint64_t need) {
    uint32_t high = (uint32_t)filter_max(r, s, [](pick_cand v) { return (uint64_t)order_of(v.y); });
    uint32_t low = ~(uint32_t)filter_max(r, s, [](pick_cand v) { return (uint64_t)~order_of(v.y); });
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        bool enough = s->above + filter_sum<W>(r, s, [=](pick_cand v) { return order_of(v.y) >= middle; }) >= need;
        if (enough)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Among equal values the smallest id at which the sum reaches `need`. */
__device__ __forceinline__ int32_t filter_id(const filter_row *r, filter_shared *s, uint32_t order, uint64_t need) {
    uint64_t each = filter_weight<uint64_t>(value_of_order(order), r->cut.top.y);
    uint64_t sum = s->above + filter_sum<uint64_t>(r, s, [=](pick_cand v) { return order_of(v.y) > order; });
    uint64_t wanted = each && need > sum ? (need - sum + each - 1) / each : 1;
    int32_t low = (int32_t)~filter_max(r, s, [=](pick_cand v) {
        return order_of(v.y) == order ? (uint64_t) ~(uint32_t)v.id : 0;
    });
    int32_t high = (int32_t)filter_max(r, s, [=](pick_cand v) { return order_of(v.y) == order ? (uint64_t)v.id : 0; });
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        uint64_t n = filter_sum<int32_t>(r, s, [=](pick_cand v) { return order_of(v.y) == order && v.id <= middle; });
        if (n >= wanted)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

__device__ __forceinline__ void filter_top_k(filter_row *r, filter_shared *s, int32_t k) {
    filter_classes<int32_t>(r, s);
    filter_find<int32_t>(s, (uint64_t)k);
    filter_list(r, s);
    r->cut.last.y = value_of_order(filter_value<int32_t>(r, s, (uint64_t)k));
}

__device__ __forceinline__ void filter_top_p(filter_row *r, filter_shared *s, float top_p) {
    uint64_t total = filter_classes<uint64_t>(r, s);
    double enough = (double)top_p * (double)total;
    uint64_t need = (uint64_t)enough;
    if ((double)need < enough || need == 0) need++;
    filter_find<uint64_t>(s, need);
    if (r->listed < 0) filter_list(r, s);
    uint32_t order = filter_value<uint64_t>(r, s, need);
    int32_t id = filter_id(r, s, order, need);
    r->cut.last = pick_cand{ value_of_order(order), id };
}

/* pick_filter() of what is left in r; top is finite. */
__device__ __forceinline__ void filter_all(filter_row *r, filter_shared *s, const pick_params *p) {
    if (p->top_k > 0 && p->top_k < r->n) filter_top_k(r, s, p->top_k);
    if (p->top_p < 1.0f) filter_top_p(r, s, p->top_p);
    if (p->min_p > 0.0f) r->cut.gap = fm_log_d((double)p->min_p);
}

/* --- noise --- */

/* The best sum so far of a thread. `reach` is below every y that could still win. */
struct noise_best {
    double sum;
    int32_t id;
    float reach;
};

__device__ __forceinline__ void noise_take(noise_best *b, double sum, int32_t id) {
    float reach = (float)(sum - PICK_NOISE_MAX);
    b->sum = sum;
    b->id = id;
    b->reach = reach - fabsf(reach) * 0x1p-22f;
}

/* One token; `word` holds the words of block `held`. The reach spares nearly all tokens the FP64 operations, of which
 * some devices have few. */
__device__ __forceinline__ void noise_try(noise_best *b, const pick_cut *cut, const pick_params *p, int64_t q,
                                          pick_cand v, uint32_t word[4], int32_t *held) {
    if (!(v.y >= b->reach) || v.id == cut->top.id || !pick_survives(cut, v)) return;
    double need = b->sum - (double)v.y;
    if (v.id / 4 != *held) noise_block(p->seed, q, v.id, word), *held = v.id / 4;
    uint32_t mine = v.id & 2 ? v.id & 1 ? word[3] : word[2] : v.id & 1 ? word[1] : word[0];
    if (pick_noise_below(mine, need)) return;
    double sum = (double)v.y + (double)noise_of_word(mine);
    if (sum > b->sum || (sum == b->sum && v.id < b->id)) noise_take(b, sum, v.id);
}

/* The largest y + noise of what is left, the smallest id on a tie. All threads get it. */
__device__ __forceinline__ int32_t noise_choice(const filter_row *r, filter_shared *s, const pick_params *p,
                                                int64_t q) {
    noise_best b;
    uint32_t word[4] = { 0 };
    int32_t held = -1, all = filter_size(r), each = r->listed < 0 ? 4 : 1;
    noise_take(&b, (double)r->cut.top.y + (double)noise_gumbel(p->seed, q, r->cut.top.id), r->cut.top.id);
    for (int32_t at = each * (int32_t)threadIdx.x; at < all; at += each * SLICE_THREADS)
        for (int32_t i = at; i < at + each && i < all; i++) noise_try(&b, &r->cut, p, q, filter_at(r, i), word, &held);
    double best = block_reduce(b.sum, join_max(), s->stage);
    uint64_t first = block_reduce(b.sum == best ? (uint64_t) ~(uint32_t)b.id : 0, join_max(), s->stage);
    return (int32_t) ~(uint32_t)first;
}
#endif
