#include "kernels/cuda/fast.h"

#include "engine/base/log.h"
#include "kernels/cuda/fast.cuh"
#include "kernels/cuda/launchers_int.h"
#include "kernels/cuda/lt.h"

#include <new>

enum { PLANS_MAX = 64, ALIGN = 256 };

struct fast_products {
    lt *library;
    int32_t n;
    lt_shape shape[PLANS_MAX];
    lt_plan *plan[PLANS_MAX];
    err failure; /* code OK: none */
};

status fast_open(fast_products **out, err *e) {
    fast_products *f = new (std::nothrow) fast_products();
    if (!f) return err_set(e, ERR_MEMORY, "no memory for fast products");
    status s = lt_open(&f->library, e);
    if (s != OK) {
        fast_close(f);
        return s;
    }
    log_info("cuda", "fast prefill: cuBLASLt %zu", lt_version(f->library));
    *out = f;
    return OK;
}

void fast_close(fast_products *f) {
    if (!f) return;
    for (int32_t i = 0; i < f->n; i++) lt_free_plan(f->plan[i]);
    lt_close(f->library);
    delete f;
}

status fast_status(const fast_products *f, err *e) {
    return f->failure.code == OK ? OK : err_set(e, f->failure.code, "%s", f->failure.text);
}

/* --- ops as linear and glu --- */

static view no_view(void) {
    view v = {};
    return v;
}

/* The shared expert's row of every row's slots. */
static view shared_rows(const view *h, int32_t chosen, int32_t rows, int32_t cols) {
    return { (char *)h->data + chosen * h->stride, h->stride * (chosen + 1), rows, cols, DT_BF16 };
}

static glu_args shared_up(const moe_up_args *a) {
    glu_args g = {};
    g.x = a->x, g.y = shared_rows(&a->h, a->id.cols, a->rows.max, a->shared_gate.n);
    g.gate = a->shared_gate, g.up = a->shared_up;
    g.norm = a->norm, g.eps = a->eps, g.rows = a->rows;
    return g;
}

/* x += the shared part, ahead of the routed one. */
static linear_args shared_down(const moe_down_args *a) {
    linear_args l = {};
    l.x = shared_rows(&a->h, a->id.cols, a->rows.max, a->shared_down.k);
    l.y = l.add = a->x;
    l.part[0] = a->shared_down;
    l.rows = a->rows;
    return l;
}

static bool wide(const live_rows *rows) { return rows->max > PRODUCT_ROWS && !rows->first; }

bool fast_takes(op_id id, const void *args) {
    switch (id) {
    case OP_LINEAR: return wide(&((const linear_args *)args)->rows);
    case OP_GLU: return wide(&((const glu_args *)args)->rows);
    case OP_MOE_UP: return wide(&((const moe_up_args *)args)->rows) && ((const moe_up_args *)args)->shared_gate.n;
    case OP_MOE_DOWN: return wide(&((const moe_down_args *)args)->rows) && ((const moe_down_args *)args)->shared_down.n;
    default: return false;
    }
}

/* --- scratch --- */

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }
static int64_t expanded_stride(int32_t k) { return (int64_t)pack_blocks(k) * PACK_COLS; }
static size_t expanded_bytes(int32_t n, int32_t k) { return aligned((size_t)n * (size_t)expanded_stride(k) * 2); }

static int32_t columns_of(const linear_args *a) {
    int32_t n = 0;
    for (int p = 0; p < LINEAR_PARTS; p++) n += a->part[p].n;
    return n;
}

/* Rows of FP32 between the products and the gate. */
static view hidden_view(const glu_args *a, char *at) {
    return { at, ((int64_t)a->gate.n * 4 + 63) / 64 * 64, a->rows.max, a->gate.n, DT_F32 };
}
static size_t hidden_bytes(const glu_args *a) {
    return aligned((size_t)hidden_view(a, nullptr).stride * (size_t)a->rows.max);
}

/* Of the rows behind the norm: the beginning of the scratch (normed_first). */
static size_t rows_bytes(const bf16 *norm, const live_rows *rows, int32_t k) {
    return norm ? aligned(normed_bytes(rows->max, k)) : 0;
}

static size_t linear_bytes(const linear_args *a) {
    return rows_bytes(a->norm, &a->rows, a->x.cols) + expanded_bytes(columns_of(a), a->x.cols) + LT_WORKSPACE;
}

static size_t glu_bytes(const glu_args *a) {
    return rows_bytes(a->norm, &a->rows, a->x.cols) + expanded_bytes(a->gate.n, a->x.cols) + 2 * hidden_bytes(a) +
           LT_WORKSPACE;
}

/* --- algorithms --- */

static bool same_shape(const lt_shape *a, const lt_shape *b) {
    return a->rows == b->rows && a->n == b->n && a->k == b->k && a->x_stride == b->x_stride &&
           a->w_stride == b->w_stride && a->y_stride == b->y_stride && a->add_stride == b->add_stride;
}

static lt_shape shape_of(int32_t rows, int64_t x_stride, int32_t n, int32_t k, const view *y, const view *add) {
    lt_shape s = {};
    s.rows = rows, s.n = n, s.k = k;
    s.x_stride = x_stride / 2, s.w_stride = expanded_stride(k), s.y_stride = y->stride / 4;
    s.add_stride = add->data ? add->stride / 4 : 0;
    return s;
}

static const lt_plan *find_plan(const fast_products *f, const lt_shape *s) {
    for (int32_t i = 0; i < f->n; i++)
        if (same_shape(&f->shape[i], s)) return f->plan[i];
    return nullptr;
}

static void choose(fast_products *f, const lt_shape *s) {
    if (f->failure.code != OK || find_plan(f, s)) return;
    lt_plan *p = nullptr;
    if (f->n == PLANS_MAX) {
        err_set(&f->failure, ERR_UNSUPPORTED,
                "the dense products of this model have more than %d different shapes, which a fast prefill does not "
                "take: run with --prefill exact",
                (int)PLANS_MAX);
        return;
    }
    err e = {};
    if (lt_choose(f->library, s, &p, &e) != OK) {
        f->failure = e;
        return;
    }
    lt_choice c = lt_get_choice(p);
    log_info(
        "cuda",
        "fast prefill: %d rows, %d columns of length %d: algorithm %d, tile %d, stages %d, split-k %d, reduction %d, "
        "%.1f MiB of workspace",
        s->rows, s->n, s->k, c.algorithm, c.tile, c.stages, c.split_k, c.reduction, (double)c.workspace / 1048576.0);
    f->shape[f->n] = *s, f->plan[f->n] = p;
    f->n++;
}

static size_t prepare_linear(fast_products *f, const linear_args *a) {
    int32_t rows = a->rows.max, k = a->x.cols;
    lt_shape s = shape_of(rows, a->norm ? normed_stride(k) : a->x.stride, columns_of(a), k, &a->y, &a->add);
    choose(f, &s);
    return linear_bytes(a);
}

static size_t prepare_glu(fast_products *f, const glu_args *a) {
    int32_t rows = a->rows.max, k = a->x.cols;
    view y = hidden_view(a, nullptr), none = no_view();
    lt_shape s = shape_of(rows, a->norm ? normed_stride(k) : a->x.stride, a->gate.n, k, &y, &none);
    choose(f, &s);
    return glu_bytes(a);
}

/* The kernels of the routed experts use the same scratch behind the shared expert's. */
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

size_t fast_prepare(fast_products *f, op_id id, const void *args) {
    if (id == OP_LINEAR) return prepare_linear(f, (const linear_args *)args);
    if (id == OP_GLU) return prepare_glu(f, (const glu_args *)args);
    if (id == OP_MOE_UP) {
        glu_args g = shared_up((const moe_up_args *)args);
        return larger(prepare_glu(f, &g), cuda_scratch_moe_up((const moe_up_args *)args));
    }
    CHECK(id == OP_MOE_DOWN);
    linear_args l = shared_down((const moe_down_args *)args);
    return larger(prepare_linear(f, &l), cuda_scratch_moe_down((const moe_down_args *)args));
}

/* --- launches --- */

static void expand(const weight *m, char *to, const cuda_work *w) {
    packed p = packed_of(m);
    launch_shape g = { ((uint32_t)(pack_tiles(m->n) * pack_blocks(m->k)) + 7) / 8, 1, 256, 0 };
    if (p.mxfp4)
        launch(w->to, g, expand_kernel<true>, p, (bf16 *)to, expanded_stride(m->k));
    else
        launch(w->to, g, expand_kernel<false>, p, (bf16 *)to, expanded_stride(m->k));
}

/* The first n rows of the expanded matrix at `matrix`. */
static void multiply_rows(const product_rows &in, int32_t n, const char *matrix, const view *y, const view *add,
                          char *workspace, const cuda_work *w) {
    fast_products *f = w->fast;
    if (f->failure.code != OK) return;
    CHECK(y->rows >= in.live.max && in.x.rows >= in.live.max);
    lt_shape s = shape_of(in.live.max, in.x.stride, n, in.x.cols, y, add);
    const lt_plan *p = find_plan(f, &s);
    CHECK(p != nullptr);
    err e = {};
    if (lt_multiply(f->library, p, in.x.data, matrix, (const float *)add->data, (float *)y->data, workspace,
                    w->to.stream, &e) != OK)
        f->failure = e;
}

static void put_linear(const linear_args *a, const cuda_work *w) {
    CHECK(w->scratch_bytes >= linear_bytes(a));
    product_rows in = { a->x, a->norm, a->eps, a->rows };
    in = normed_first(in, w);
    int32_t k = a->x.cols, columns = columns_of(a), at = 0;
    char *matrix = w->scratch + rows_bytes(a->norm, &a->rows, k), *workspace = matrix + expanded_bytes(columns, k);
    for (int p = 0; p < LINEAR_PARTS; p++) {
        if (!a->part[p].n) continue;
        CHECK(a->part[p].k == k);
        expand(&a->part[p], matrix + at * expanded_stride(k) * 2, w);
        at += a->part[p].n;
    }
    multiply_rows(in, columns, matrix, &a->y, &a->add, workspace, w);
}

static void put_glu(const glu_args *a, const cuda_work *w) {
    CHECK(w->scratch_bytes >= glu_bytes(a) && a->gate.k == a->x.cols && a->up.k == a->x.cols && a->up.n == a->gate.n);
    product_rows in = { a->x, a->norm, a->eps, a->rows };
    in = normed_first(in, w);
    char *matrix = w->scratch + rows_bytes(a->norm, &a->rows, a->x.cols);
    char *hidden = matrix + expanded_bytes(a->gate.n, a->x.cols), *workspace = hidden + 2 * hidden_bytes(a);
    view gate = hidden_view(a, hidden), up = hidden_view(a, hidden + hidden_bytes(a)), none = no_view();
    expand(&a->gate, matrix, w);
    multiply_rows(in, a->gate.n, matrix, &gate, &none, workspace, w);
    expand(&a->up, matrix, w);
    multiply_rows(in, a->up.n, matrix, &up, &none, workspace, w);
    view y = a->y;
    y.cols = a->gate.n;
    launch_shape g = { ((uint32_t)a->gate.n + 255) / 256, (uint32_t)a->rows.max, 256, 0 };
    launch(w->to, g, gate_kernel, gate, up, y, a->rows);
}

static void put_moe_up(const moe_up_args *a, const cuda_work *w) {
    glu_args shared = shared_up(a);
    put_glu(&shared, w);
    moe_up_args routed = *a;
    routed.shared_gate.n = routed.shared_up.n = 0;
    cuda_moe_up(&routed, w);
}

static void put_moe_down(const moe_down_args *a, const cuda_work *w) {
    linear_args shared = shared_down(a);
    put_linear(&shared, w);
    moe_down_args routed = *a;
    routed.shared_down.n = 0;
    cuda_moe_down(&routed, nullptr, w);
}

void fast_put(op_id id, const void *args, const cuda_work *w) {
    CHECK(fast_takes(id, args));
    if (id == OP_LINEAR) put_linear((const linear_args *)args, w);
    if (id == OP_GLU) put_glu((const glu_args *)args, w);
    if (id == OP_MOE_UP) put_moe_up((const moe_up_args *)args, w);
    if (id == OP_MOE_DOWN) put_moe_down((const moe_down_args *)args, w);
}
