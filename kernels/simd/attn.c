/* Contract: kernels/attn.h. One work item is a group of rows and one kv head. Its queries (rows x heads of that kv
 * head) meet the keys block by block: scores as a product with the keys as columns, softmax and value sums per query
 * over the query's own range of positions. Positions below base (and in a chain all positions) lie in the same place
 * for every row of the group and are read once for it; in a tree the positions from base on are gathered per row
 * through its path. */
#include "kernels/kv_map.h"
#include "kernels/simd/input.h"
#include "kernels/simd/simd.h"

enum { QUERIES = 32, SEGMENTS = 8 };

/* E4M3 is widened to BF16 in pieces that stay in the first cache until they are used: keys by the columns of a product,
 * values by this many positions. Once for all queries of an item. */
enum { KEY_PIECE = 16, VALUE_PIECE = 64 };

/* A stretch of positions whose keys and values follow each other in memory. */
typedef struct segment {
    int32_t pos, n;
    const void *k, *v; /* of this type */
    dtype type;
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
    float m, l;   /* of the current block, like the next two */
    float *o;     /* [E] */
    float *score; /* [KV_PAGE] */
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

/* Heads of one row over positions [from, to), whose values start at v; e is indexed by position minus the block's
 * start.
 */
static void row_values(query *q, int32_t heads, float *const *o, const bf16 *v, int32_t start, int32_t from, int32_t to,
                       int32_t size) {
    for (int32_t h = 0; h < heads; h += VALUE_HEADS) {
        int32_t n = heads - h < VALUE_HEADS ? heads - h : VALUE_HEADS;
        const float *e[VALUE_HEADS];
        for (int32_t i = 0; i < n; i++) e[i] = q[h + i].score + (from - start);
        int32_t col = 0;
        for (; col + 16 * VALUE_COLS <= size; col += 16 * VALUE_COLS) VALUES_WIDE(n)(o + h, e, v, to - from, size, col);
        for (; col + 16 <= size; col += 16)
            for (int32_t i = 0; i < n; i++) values_1x1(o + h + i, e + i, v, to - from, size, col);
        for (; col < size; col++)
            for (int32_t i = 0; i < n; i++)
                for (int32_t p = 0; p < to - from; p++)
                    o[h + i][col] = fmaf(e[i][p], f32_of_bf16(v[(int64_t)p * size + col]), o[h + i][col]);
    }
}

/* ---- segments ---- */

/* n elements from `at` on as BF16: where they are, or widened to `to`. */
static const bf16 *widened(const void *rows, dtype type, int64_t at, int64_t n, bf16 *to) {
    if (type == DT_BF16) return (const bf16 *)rows + at;
    vec_of_e4m3(to, (const e4m3 *)rows + at, n);
    return to;
}

/* Positions [from, to) of head g as stretches of memory; all rows agree about them. */
static int shared_segments(const attn_args *a, int32_t g, int32_t from, int32_t to, segment out[SEGMENTS]) {
    int n = 0;
    while (from < to) {
        bool in_block = a->block.k && from >= a->rows->base;
        const kv_store *s = in_block ? &a->block : &a->past;
        int32_t len = kv_contiguous(s, from, a->rows->base);
        if (len > to - from) len = to - from;
        if (a->block.k && !in_block && from + len > a->rows->base) len = a->rows->base - from;
        int64_t at = kv_offset(s, g, from, a->rows->base);
        CHECK(n < SEGMENTS);
        out[n++] = (segment){ from, len, kv_at(s, s->k, at), kv_at(s, s->v, at), s->type };
        from += len;
    }
    return n;
}

/* ---- one item ---- */

typedef struct item {
    const attn_args *a;
    int32_t g, ratio;    /* kv head; query heads that share it */
    int32_t n;           /* queries */
    int32_t shared_to;   /* positions below are in the same place for all rows */
    query *q;            /* by row, then head */
    const bf16 **rows;   /* q[i].q */
    float **o;           /* q[i].o */
    float *dots;         /* [n][16] */
    bf16 *keys, *values; /* [KEY_PIECE][E], [VALUE_PIECE][E]; NULL when all stores are BF16 */
    bf16 *own;           /* [NODES_MAX][E], keys or values along a row's path */
} item;

/* Visible positions of a query in the block; false: none. */
static bool visible(const query *q, int32_t start, int32_t *from, int32_t *to) {
    *from = q->first > start ? q->first : start;
    *to = q->last + 1 < start + KV_PAGE ? q->last + 1 : start + KV_PAGE;
    return *from < *to;
}

/* The first position of [from, to) that lies somewhere else for each row. */
static int32_t own_from(const item *it, int32_t from) { return from > it->shared_to ? from : it->shared_to; }

/* Keys (or values) of positions [from, to) of one row of a tree, gathered along its path to it->own. */
static void gather(const item *it, int32_t row, int32_t from, int32_t to, bool values) {
    const attn_args *a = it->a;
    const kv_store *s = a->block.k ? &a->block : &a->past;
    for (int32_t pos = from; pos < to; pos++) {
        int64_t at = kv_offset(s, it->g, kv_index(a->rows, row, pos), a->rows->base);
        bf16 *put = it->own + (int64_t)(pos - from) * s->size;
        const bf16 *found = widened(values ? s->v : s->k, s->type, at, s->size, put);
        if (found != put) memcpy(put, found, (size_t)s->size * sizeof *put);
    }
}

/* Scores of n queries from number `first` on against the keys of a segment, to score[pos - start]. */
static void segment_scores(item *it, int32_t first, int32_t n, const segment *seg, int32_t start) {
    int32_t size = it->a->past.size;
    for (int32_t at = 0; at < seg->n; at += KEY_PIECE) {
        int32_t cols = seg->n - at < KEY_PIECE ? seg->n - at : KEY_PIECE;
        const bf16 *k = widened(seg->k, seg->type, (int64_t)at * size, (int64_t)cols * size, it->keys);
        panel p = { .data = (const uint8_t *)k, .stride = (int64_t)size * 2, .last = cols - 1, .k = size };
        dot_panel(&p, it->rows + first, n, it->dots, 16);
        for (int32_t i = 0; i < n; i++)
            memcpy(it->q[first + i].score + (seg->pos + at - start), it->dots + (int64_t)i * 16,
                   (size_t)cols * sizeof *it->dots);
    }
}

/* Scores and exponentials of a block for all queries. */
static void item_scores(item *it, int32_t start, const segment *seg, int shared) {
    for (int s = 0; s < shared; s++) segment_scores(it, 0, it->n, &seg[s], start);
    for (int32_t i = 0, from, to; i < it->n; i += it->ratio) {
        query *q = &it->q[i];
        if (!visible(q, start, &from, &to)) continue;
        int32_t own = own_from(it, from);
        if (own < to) {
            gather(it, q->row, own, to, false);
            segment_scores(it, i, it->ratio, &(segment){ own, to - own, it->own, NULL, DT_BF16 }, start);
        }
        for (int32_t h = 0; h < it->ratio; h++)
            q[h].l = block_softmax(q[h].score, from - start, to - start, it->a->scale, &q[h].m);
    }
}

/* The values of shared positions, weighted, for all queries. */
static void segment_values(item *it, const segment *seg, int32_t start) {
    int32_t size = it->a->past.size, piece = seg->type == DT_BF16 ? seg->n : VALUE_PIECE;
    for (int32_t at = 0; at < seg->n; at += piece) {
        int32_t n = seg->n - at < piece ? seg->n - at : piece, pos = seg->pos + at;
        const bf16 *v = widened(seg->v, seg->type, (int64_t)at * size, (int64_t)n * size, it->values);
        for (int32_t i = 0, from, to; i < it->n; i += it->ratio) {
            if (!visible(&it->q[i], start, &from, &to)) continue;
            if (from < pos) from = pos;
            if (to > pos + n) to = pos + n;
            if (from >= to) continue;
            row_values(&it->q[i], it->ratio, it->o + i, v + (int64_t)(from - pos) * size, start, from, to, size);
        }
    }
}

/* Weighted values of a block for all queries, in rising position. */
static void item_values(item *it, int32_t start, const segment *seg, int shared) {
    int32_t size = it->a->past.size;
    for (int32_t i = 0; i < it->n; i++) memset(it->o[i], 0, (size_t)size * sizeof(float));
    for (int s = 0; s < shared; s++) segment_values(it, &seg[s], start);
    for (int32_t i = 0, from, to; i < it->n; i += it->ratio) {
        query *q = &it->q[i];
        if (!visible(q, start, &from, &to) || own_from(it, from) >= to) continue;
        gather(it, q->row, own_from(it, from), to, true);
        row_values(q, it->ratio, it->o + i, it->own, start, own_from(it, from), to, size);
    }
}

/* Joins the block to the query's run, and a run that ends to the total. */
static void query_fold(query *q, int32_t start, int32_t size) {
    int32_t from, to;
    if (!visible(q, start, &from, &to)) return;
    fold_put(&q->run, q->m, q->l, q->o, size);
    if ((start / KV_PAGE + 1) % attn_run(q->last) && to != q->last + 1) return;
    fold_put(&q->total, q->run.m, q->run.l, q->run.o, size);
    q->run.any = false;
}

/* Block b for all queries: scores, softmax, values, merge. */
static void item_block(item *it, int32_t b) {
    int32_t start = b * KV_PAGE, end = start + KV_PAGE, lo = end, hi = start;
    for (int32_t i = 0; i < it->n; i++) {
        if (it->q[i].first < lo) lo = it->q[i].first;
        if (it->q[i].last + 1 > hi) hi = it->q[i].last + 1;
    }
    if (lo < start) lo = start;
    if (hi > end) hi = end;
    segment seg[SEGMENTS];
    int shared = shared_segments(it->a, it->g, lo, hi < it->shared_to ? hi : it->shared_to, seg);
    item_scores(it, start, seg, shared);
    item_values(it, start, seg, shared);
    for (int32_t i = 0; i < it->n; i++) query_fold(&it->q[i], start, it->a->past.size);
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

static bf16 *take_rows(scratch *s, int32_t rows, int32_t size) {
    return scratch_take(s, (size_t)rows * (size_t)size * sizeof(bf16));
}

static void item_run(const attn_args *a, int32_t r0, int32_t r1, int32_t g, const lane *ln) {
    const row_set *rows = a->rows;
    int32_t size = a->past.size, ratio = a->heads / a->past.heads, n = (r1 - r0) * ratio;
    scratch s = scratch_of(ln);
    item it = { .a = a, .g = g, .ratio = ratio, .n = n, .shared_to = rows->chain ? INT32_MAX : rows->base };
    it.q = scratch_take(&s, (size_t)n * sizeof *it.q);
    it.rows = scratch_take(&s, (size_t)n * sizeof *it.rows);
    it.o = scratch_take(&s, (size_t)n * sizeof *it.o);
    it.dots = scratch_take(&s, (size_t)n * 16 * sizeof(float));
    it.own = take_rows(&s, NODES_MAX, size);
    if (a->past.type != DT_BF16 || (a->block.k && a->block.type != DT_BF16)) {
        it.keys = take_rows(&s, KEY_PIECE, size);
        it.values = take_rows(&s, VALUE_PIECE, size);
    }
    float *o = scratch_take(&s, (size_t)n * 3 * (size_t)size * sizeof(float));
    float *score = scratch_take(&s, (size_t)n * KV_PAGE * sizeof(float));
    int32_t lo = INT32_MAX, hi = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t row = r0 + i / ratio, head = g * ratio + i % ratio, pos = rows->pos[row];
        it.q[i] = (query){ .row = row,
                           .head = head,
                           .first = kv_first_seen(a->window, pos),
                           .last = pos,
                           .q = (const bf16 *)view_row(&a->q, row) + (int64_t)head * size,
                           .o = o + (int64_t)i * 3 * size,
                           .run.o = o + ((int64_t)i * 3 + 1) * size,
                           .total.o = o + ((int64_t)i * 3 + 2) * size,
                           .score = score + (int64_t)i * KV_PAGE };
        it.rows[i] = it.q[i].q;
        it.o[i] = it.q[i].o;
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
