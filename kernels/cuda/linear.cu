#include "engine/base/status.h"
#include "kernels/cuda/launchers_int.h"
#include "kernels/cuda/linear.cuh"

packed packed_of(const weight *w) {
    packed p;
    p.data = (const char *)w->data, p.scale = (const char *)w->scale;
    p.n = w->n, p.k = w->k, p.mxfp4 = w->type == DT_MXFP4;
    return p;
}

tap_also tap_of(const tap_args *t) {
    tap_also tap = {};
    if (t) tap.ring = t->ring, tap.column = t->column, tap.rows = t->rows;
    return tap;
}

/* --- rows through a norm, for buckets that are too large to do it in front of every block --- */

static __global__ void __launch_bounds__(256) norm_rows_kernel(product_rows in, view y) {
    grid_release();
    grid_wait();
    int32_t i = (int32_t)blockIdx.x * (256 / WARP) + warp_id();
    if (i >= *in.live.n) return;
    const float *x = (const float *)view_row(&in.x, live_first(&in.live) + i);
    bf16 *to = (bf16 *)view_row(&y, i);
    float scale = warp_norm_scale(x, in.x.cols, in.eps);
    for (int32_t c = lane_id(); c < in.x.cols; c += WARP) to[c] = bf16_of_f32((x[c] * scale) * f32_of_bf16(in.norm[c]));
}

int64_t normed_stride(int32_t k) { return ((int64_t)k * 2 + 63) / 64 * 64; }

size_t normed_bytes(int32_t rows, int32_t k) {
    return rows > PRODUCT_ROWS ? (size_t)rows * (size_t)normed_stride(k) : 0;
}

product_rows normed_first(const product_rows &in, const cuda_work *w) {
    if (!in.norm || in.live.max <= PRODUCT_ROWS) return in;
    CHECK(w->scratch_bytes >= normed_bytes(in.live.max, in.x.cols));
    view y = { w->scratch, normed_stride(in.x.cols), in.live.max, in.x.cols, DT_BF16 };
    launch_shape g = { ((uint32_t)in.live.max + 7) / 8, 1, 256, 0 };
    launch(w->to, g, norm_rows_kernel, in, y);
    product_rows out = in;
    out.x = y, out.norm = nullptr, out.live.first = nullptr;
    return out;
}

/* --- linear --- */

/* Tiles of a block: as many as leave a few blocks to every multiprocessor. A matter of speed alone. */
static int tiles_per_block(int32_t tiles, int32_t rows) {
    if (rows > PRODUCT_ROWS || tiles < 384) return 1;
    return tiles >= 4096 && rows <= 8 ? 4 : 2;
}

template <int TM, int RG> static void start_linear(const linear_job &job, uint32_t blocks, const cuda_work *w) {
    launch_shape g = { blocks, 1, PRODUCT_WARPS * WARP, (uint32_t)sizeof(product_shared<TM>) };
    if (job.in.norm)
        launch(w->to, g, linear_kernel<TM, RG, true>, job);
    else
        launch(w->to, g, linear_kernel<TM, RG, false>, job);
}

void cuda_linear(const linear_args *a, const tap_args *tap, const cuda_work *w) {
    product_rows in = { a->x, a->norm, a->eps, a->rows };
    linear_job job = {};
    job.in = normed_first(in, w);
    job.y = a->y, job.add = a->add, job.tap = tap_of(tap);
    int32_t tiles = 0, column = 0, blocks = 0, rows = a->rows.max;
    for (int p = 0; p < LINEAR_PARTS; p++) tiles += pack_tiles(a->part[p].n);
    int tm = tiles_per_block(tiles, rows), n = 0;
    for (int p = 0; p < LINEAR_PARTS; p++) {
        if (!a->part[p].n) continue;
        job.part[n++] = { packed_of(&a->part[p]), column, blocks };
        column += a->part[p].n;
        blocks += (pack_tiles(a->part[p].n) + tm - 1) / tm;
    }
    for (; n < LINEAR_PARTS; n++) job.part[n].block = INT32_MAX;
    if (rows > PRODUCT_ROWS) {
        launch_shape g = { (uint32_t)blocks, 1, PRODUCT_WARPS * WARP, (uint32_t)sizeof(product_shared<1>) };
        launch(w->to, g, linear_kernel<1, 8, false>, job);
    } else if (rows > 16) {
        tm == 1 ? start_linear<1, 4>(job, (uint32_t)blocks, w) : start_linear<2, 4>(job, (uint32_t)blocks, w);
    } else if (rows > 8) {
        tm == 1 ? start_linear<1, 2>(job, (uint32_t)blocks, w) : start_linear<2, 2>(job, (uint32_t)blocks, w);
    } else {
        tm == 1   ? start_linear<1, 1>(job, (uint32_t)blocks, w)
        : tm == 2 ? start_linear<2, 1>(job, (uint32_t)blocks, w)
                  : start_linear<4, 1>(job, (uint32_t)blocks, w);
    }
}

size_t cuda_scratch_linear(const linear_args *a) { return a->norm ? normed_bytes(a->rows.max, a->x.cols) : 0; }

/* --- glu --- */

void cuda_glu(const glu_args *a, const cuda_work *w) {
    CHECK(a->gate.type == a->up.type && a->norm);
    product_rows in = { a->x, a->norm, a->eps, a->rows };
    glu_job job = { normed_first(in, w), a->y, packed_of(&a->gate), packed_of(&a->up) };
    launch_shape g = { (uint32_t)pack_tiles(a->gate.n), 1, PRODUCT_WARPS * WARP, (uint32_t)sizeof(product_shared<2>) };
    if (a->rows.max > PRODUCT_ROWS)
        launch(w->to, g, glu_kernel<1, 8, false>, job);
    else if (a->rows.max > 16)
        launch(w->to, g, glu_kernel<1, 4, true>, job);
    else if (a->rows.max > 8)
        launch(w->to, g, glu_kernel<1, 2, true>, job);
    else
        launch(w->to, g, glu_kernel<1, 1, true>, job);
}

size_t cuda_scratch_glu(const glu_args *a) { return normed_bytes(a->rows.max, a->x.cols); }
