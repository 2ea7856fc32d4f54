/* Contract: kernels/attn.h. One work item is a group of rows and one kv head. Its queries (rows x heads of that kv
 * head) meet the keys block by block: scores as a product with the keys as columns, softmax and value sums per query
 * over the query's own range of positions. Positions below base (and in a chain all positions) lie in the same place
 * for every row of the group and are read once for it; in a tree the positions from base on are gathered per row
 * through its path. */
#include "kernels/kv_map.h"
#include "kernels/simd/input.h"
#include "kernels/simd/simd.h"

enum { QUERIES = 32, SEGMENTS = 8, RATIO_MAX = 64 };

/* A stretch of positions whose keys and values follow each other in memory, in the store or, widened, in scratch. */
typedef struct segment {
    int32_t pos, n;
    const bf16 *k, *v;
} segment;

/* Running softmax of one query: maximum, sum, weighted values. */
typedef struct fold {
    float m, l;
    float *o; /* [E] */
    bool any;
} fold;

typedef struct query {
    int32_t row, head;
    int32_t first, last; /* visible positions */
    const bf16 *q;
    fold run, total;
    float *score; /* [KV_PAGE] of the current block */
} query;

/* ---- merging (steps 3 of the contract) ---- */

static void fold_put(fold *f, float m, float l, const float *o, int32_t size) {
    if (!f->any) {
        f->any = true, f->m = m, f->l = l;
        memcpy(f->o, o, (size_t)size * sizeof *o);
        return;
    }
    float top = m > f->m ? m : f->m;
    float a = fm_exp(f->m - top), b = fm_exp(m - top);
    f->l = fmaf(f->l, a, l * b);
    for (int32_t c = 0; c < size; c++) f->o[c] = fmaf(f->o[c], a, o[c] * b);
    f->m = top;
}

/* ---- one block for one query ---- */

/* Largest score of positions [a, b) of the block, exponentials in place, their sum. */
static float block_softmax(float *s, int32_t a, int32_t b, float scale, float *max) {
    vf top = vf_set1(-INFINITY), factor = vf_set1(scale), sum = vf_zero();
    for (int32_t i = a & ~15; i < b; i += 16) {
        vf x = vf_mul(vf_load(s + i), factor);
        x = vf_keep(x, a > i ? a - i : 0, b - i < 16 ? b - i : 16, -INFINITY);
        vf_store(s + i, x);
        top = vf_max(x, top);
    }
    *max = vf_max_of(top);
    vf m = vf_set1(*max);
    for (int32_t i = a & ~15; i < b; i += 16) {
        vf e = vf_exp(vf_sub(vf_load(s + i), m));
        e = vf_keep(e, a > i ? a - i : 0, b - i < 16 ? b - i : 16, 0.0f);
        vf_store(s + i, e);
        sum = vf_add(sum, e);
    }
    return vf_tree(sum);
}

/* o[h][c] = fma(e[h][i], v[i][c], o[h][c]) for i in rising order; H heads that share the range, N * 16 columns. */
#define VALUES(H, N)                                                                                                   \
    static void values_##H##x##N(float *const *o, const float *const *e, const bf16 *v, int32_t n, int32_t size,       \
                                 int32_t col) {                                                                        \
        vf acc[H * N];                                                                                                 \
        _Pragma("GCC unroll 4") for (int h = 0; h < H; h++) _Pragma("GCC unroll 8") for (int c = 0; c < N; c++)        \
            acc[h * N + c] = vf_load(o[h] + col + 16 * c);                                                             \
        for (int32_t i = 0; i < n; i++) {                                                                              \
            const bf16 *row = v + (int64_t)i * size + col;                                                             \
            vf x[N];                                                                                                   \
            _Pragma("GCC unroll 8") for (int c = 0; c < N; c++) x[c] = vf_of_bf16(row + 16 * c);                       \
            _Pragma("GCC unroll 4") for (int h = 0; h < H; h++) {                                                      \
                vf w = vf_set1(e[h][i]);                                                                               \
                _Pragma("GCC unroll 8") for (int c = 0; c < N; c++) acc[h * N + c] = vf_fma(w, x[c], acc[h * N + c]);  \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 4") for (int h = 0; h < H; h++) _Pragma("GCC unroll 8") for (int c = 0; c < N; c++)        \
            vf_store(o[h] + col + 16 * c, acc[h * N + c]);                                                             \
    }
#if VEC_512
#define VALUE_COLS 4
VALUES(1, 4)
VALUES(2, 4)
VALUES(3, 4)
VALUES(4, 4)
VALUES(1, 1)
#define VALUES_WIDE(h) ((h) == 1 ? values_1x4 : (h) == 2 ? values_2x4 : (h) == 3 ? values_3x4 : values_4x4)
#define VALUE_HEADS 4
#else
#define VALUE_COLS 2
VALUES(1, 2)
VALUES(2, 2)
VALUES(1, 1)
#define VALUES_WIDE(h) ((h) == 1 ? values_1x2 : values_2x2)
#define VALUE_HEADS 2
#endif

/* Heads of one row over positions [a, b) of one segment; e is indexed by position minus the block's start. */
static void segment_values(query *q, int32_t heads, float *const *block_o, const segment *seg, int32_t start, int32_t a,
                           int32_t b, int32_t size) {
    int32_t from = seg->pos > a ? seg->pos : a, to = seg->pos + seg->n < b ? seg->pos + seg->n : b;
    if (from >= to) return;
    const bf16 *v = seg->v + (int64_t)(from - seg->pos) * size;
    for (int32_t h = 0; h < heads; h += VALUE_HEADS) {
        int32_t n = heads - h < VALUE_HEADS ? heads - h : VALUE_HEADS;
        const float *e[VALUE_HEADS];
        for (int32_t i = 0; i < n; i++) e[i] = q[h + i].score + (from - start);
        int32_t col = 0;
        for (; col + 16 * VALUE_COLS <= size; col += 16 * VALUE_COLS)
            VALUES_WIDE(n)(block_o + h, e, v, to - from, size, col);
        for (; col + 16 <= size; col += 16)
            for (int32_t i = 0; i < n; i++) values_1x1(block_o + h + i, e + i, v, to - from, size, col);
        for (; col < size; col++)
            for (int32_t i = 0; i < n; i++)
                for (int32_t p = 0; p < to - from; p++)
                    block_o[h + i][col] = fmaf(e[i][p], f32_of_bf16(v[(int64_t)p * size + col]), block_o[h + i][col]);
    }
}

/* ---- segments ---- */

/* Where keys and values go that do not lie in memory as products need them. */
typedef struct copies {
    bf16 *k, *v;
} copies;

/* n positions from pos on, which lie at this offset; E4M3 is widened to element `put` of the copies. */
static segment segment_of(const kv_store *s, int64_t at, int32_t pos, int32_t n, copies wide, int64_t put) {
    const void *k = kv_at(s, s->k, at), *v = kv_at(s, s->v, at);
    if (s->type == DT_BF16) return (segment){ pos, n, k, v };
    vec_of_e4m3(wide.k + put, k, (int64_t)n * s->size);
    vec_of_e4m3(wide.v + put, v, (int64_t)n * s->size);
    return (segment){ pos, n, wide.k + put, wide.v + put };
}

/* Positions [first, to) of head g as stretches of memory; all rows agree about them. wide: [KV_PAGE][E]. */
static int shared_segments(const attn_args *a, int32_t g, int32_t first, int32_t to, copies wide,
                           segment out[SEGMENTS]) {
    int n = 0;
    for (int32_t from = first, len; from < to; from += len) {
        bool in_block = a->block.k && from >= a->rows->base;
        const kv_store *s = in_block ? &a->block : &a->past;
        len = kv_contiguous(s, from, a->rows->base);
        if (len > to - from) len = to - from;
        if (a->block.k && !in_block && from + len > a->rows->base) len = a->rows->base - from;
        int64_t at = kv_offset(s, g, from, a->rows->base);
        CHECK(n < SEGMENTS);
        out[n++] = segment_of(s, at, from, len, wide, (int64_t)(from - first) * s->size);
    }
    return n;
}

static void gather_row(const kv_store *s, bf16 *to, const void *row) {
    if (s->type == DT_BF16)
        memcpy(to, row, (size_t)s->size * sizeof *to);
    else
        vec_of_e4m3(to, row, s->size);
}

/* Positions [from, to), all at or above base, of one row of a tree: gathered along its path. */
static segment gathered_segment(const attn_args *a, int32_t g, int32_t row, int32_t from, int32_t to, copies own) {
    const kv_store *s = a->block.k ? &a->block : &a->past;
    for (int32_t pos = from; pos < to; pos++) {
        int64_t at = kv_offset(s, g, kv_index(a->rows, row, pos), a->rows->base), put = (int64_t)(pos - from) * s->size;
        gather_row(s, own.k + put, kv_at(s, s->k, at));
        gather_row(s, own.v + put, kv_at(s, s->v, at));
    }
    return (segment){ from, to - from, own.k, own.v };
}

/* Scores of n queries against the keys of a segment, to score[pos - block]. */
static void segment_scores(query *const *q, const bf16 *const *rows, int32_t n, const segment *seg, int32_t start,
                           int32_t size, float *dots) {
    for (int32_t at = 0; at < seg->n; at += 16) {
        int32_t cols = seg->n - at < 16 ? seg->n - at : 16;
        panel p = { .data = (const uint8_t *)(seg->k + (int64_t)at * size),
                    .stride = (int64_t)size * 2,
                    .last = cols - 1,
                    .k = size };
        dot_panel(&p, rows, n, dots, 16);
        for (int32_t i = 0; i < n; i++)
            memcpy(q[i]->score + (seg->pos + at - start), dots + (int64_t)i * 16, (size_t)cols * sizeof *dots);
    }
}

/* ---- one item ---- */

typedef struct item {
    const attn_args *a;
    int32_t g, ratio;           /* kv head; query heads that share it */
    int32_t n;                  /* queries */
    int32_t shared_to;          /* positions below are in the same place for all rows */
    query *q;                   /* by row, then head */
    const bf16 **rows;          /* q[i].q */
    query **ptr;                /* &q[i] */
    float *dots, **block_o, *o; /* [n][16], [ratio] pointers into o [ratio][E] */
    copies wide;                /* [KV_PAGE][E], positions of a block in a store that is not BF16; else NULL */
    copies own;                 /* [NODES_MAX][E], a row's path */
} item;

/* Block b for all queries: scores, softmax, values, merge. */
static void item_block(item *it, int32_t b) {
    const attn_args *a = it->a;
    int32_t start = b * KV_PAGE, end = start + KV_PAGE, size = a->past.size, lo = end, hi = start;
    for (int32_t i = 0; i < it->n; i++) {
        if (it->q[i].first < lo) lo = it->q[i].first;
        if (it->q[i].last + 1 > hi) hi = it->q[i].last + 1;
    }
    if (lo < start) lo = start;
    if (hi > end) hi = end;
    segment seg[SEGMENTS];
    int shared = shared_segments(a, it->g, lo, hi < it->shared_to ? hi : it->shared_to, it->wide, seg);
    for (int i = 0; i < shared; i++) segment_scores(it->ptr, it->rows, it->n, &seg[i], start, size, it->dots);
    for (int32_t i = 0; i < it->n; i += it->ratio) {
        query *q = &it->q[i];
        int32_t from = q->first > start ? q->first : start, to = q->last + 1 < end ? q->last + 1 : end;
        if (from >= to) continue;
        int segments = shared;
        int32_t own = from > it->shared_to ? from : it->shared_to;
        if (own < to) {
            seg[segments] = gathered_segment(a, it->g, q->row, own, to, it->own);
            segment_scores(it->ptr + i, it->rows + i, it->ratio, &seg[segments++], start, size, it->dots);
        }
        float m[RATIO_MAX], l[RATIO_MAX];
        memset(it->o, 0, (size_t)it->ratio * (size_t)size * sizeof(float));
        for (int32_t h = 0; h < it->ratio; h++)
            l[h] = block_softmax(q[h].score, from - start, to - start, a->scale, &m[h]);
        for (int s = 0; s < segments; s++) segment_values(q, it->ratio, it->block_o, &seg[s], start, from, to, size);
        int32_t run = attn_run(q->last);
        bool run_ends = (b + 1) % run == 0 || to == q->last + 1;
        for (int32_t h = 0; h < it->ratio; h++) {
            fold_put(&q[h].run, m[h], l[h], it->block_o[h], size);
            if (!run_ends) continue;
            fold_put(&q[h].total, q[h].run.m, q[h].run.l, q[h].run.o, size);
            q[h].run.any = false;
        }
    }
}

static void item_finish(const item *it) {
    const attn_args *a = it->a;
    int32_t size = a->past.size;
    bool per_element = a->gate.cols == a->heads * size;
    for (int32_t i = 0; i < it->n; i++) {
        const query *q = &it->q[i];
        const float *gate = view_row(&a->gate, q->row);
        bf16 *y = (bf16 *)view_row(&a->y, q->row) + (int64_t)q->head * size;
        float inv = 1.0f / q->total.l, g = per_element ? 0.0f : fm_softplus(gate[q->head]);
        for (int32_t c = 0; c < size; c++) {
            if (per_element) g = fm_softplus(gate[q->head * size + c]);
            y[c] = bf16_of_f32((q->total.o[c] * inv) * g);
        }
    }
}

static copies take_copies(scratch *s, int32_t rows, int32_t size) {
    size_t bytes = (size_t)rows * (size_t)size * sizeof(bf16);
    return (copies){ scratch_take(s, bytes), scratch_take(s, bytes) };
}

static void item_run(const attn_args *a, int32_t r0, int32_t r1, int32_t g, const lane *ln) {
    const row_set *rows = a->rows;
    int32_t size = a->past.size, ratio = a->heads / a->past.heads, n = (r1 - r0) * ratio;
    scratch s = scratch_of(ln);
    item it = { .a = a, .g = g, .ratio = ratio, .n = n, .shared_to = rows->chain ? INT32_MAX : rows->base };
    it.q = scratch_take(&s, (size_t)n * sizeof *it.q);
    it.rows = scratch_take(&s, (size_t)n * sizeof *it.rows);
    it.ptr = scratch_take(&s, (size_t)n * sizeof *it.ptr);
    it.dots = scratch_take(&s, (size_t)n * 16 * sizeof(float));
    it.block_o = scratch_take(&s, (size_t)ratio * sizeof *it.block_o);
    it.o = scratch_take(&s, (size_t)ratio * (size_t)size * sizeof(float));
    it.own = take_copies(&s, NODES_MAX, size);
    if (a->past.type != DT_BF16 || (a->block.k && a->block.type != DT_BF16)) it.wide = take_copies(&s, KV_PAGE, size);
    float *o = scratch_take(&s, (size_t)n * 2 * (size_t)size * sizeof(float));
    float *score = scratch_take(&s, (size_t)n * KV_PAGE * sizeof(float));
    for (int32_t h = 0; h < ratio; h++) it.block_o[h] = it.o + (int64_t)h * size;
    int32_t lo = INT32_MAX, hi = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t row = r0 + i / ratio, head = g * ratio + i % ratio, pos = rows->pos[row];
        it.q[i] = (query){ .row = row,
                           .head = head,
                           .first = kv_first_seen(a->window, pos),
                           .last = pos,
                           .q = (const bf16 *)view_row(&a->q, row) + (int64_t)head * size,
                           .run.o = o + (int64_t)i * 2 * size,
                           .total.o = o + ((int64_t)i * 2 + 1) * size,
                           .score = score + (int64_t)i * KV_PAGE };
        it.rows[i] = it.q[i].q;
        it.ptr[i] = &it.q[i];
        if (it.q[i].first < lo) lo = it.q[i].first;
        if (pos > hi) hi = pos;
    }
    for (int32_t b = lo / KV_PAGE; b <= hi / KV_PAGE; b++) item_block(&it, b);
    item_finish(&it);
}

/* Groups of rows that fill about 32 queries; neighbouring items go to different lanes, so that later rows, which see
 * more, are spread evenly. */
void SIMD(attn)(const void *args, const lane *ln) {
    const attn_args *a = args;
    int32_t ratio = a->heads / a->past.heads, group = QUERIES / ratio < 1 ? 1 : QUERIES / ratio;
    int32_t groups = (a->rows->n + group - 1) / group, items = groups * a->past.heads;
    for (int32_t i = ln->id; i < items; i += ln->n) {
        int32_t r0 = i / a->past.heads * group, r1 = r0 + group < a->rows->n ? r0 + group : a->rows->n;
        item_run(a, r0, r1, i % a->past.heads, ln);
    }
}
