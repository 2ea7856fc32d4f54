#include "engine/base/status.h"
#include "kernels/cuda/launchers_int.h"
#include "kernels/cuda/moe.cuh"

/* The experts as the upload lays them down: one slab. */
static slab slab_of(const weight *w, int32_t n) {
    slab s = {};
    s.first = packed_of(&w[0]);
    if (n == 1) return s;
    s.stride = (const char *)w[1].data - (const char *)w[0].data;
    if (s.first.mxfp4) s.scale_stride = w[1].scale - w[0].scale;
    for (int32_t e = 1; e < n; e++) {
        CHECK(w[e].n == w[0].n && w[e].k == w[0].k && w[e].type == w[0].type);
        CHECK((const char *)w[e].data == s.first.data + e * s.stride);
        CHECK(!s.first.mxfp4 || (const char *)w[e].scale == s.first.scale + e * s.scale_stride);
    }
    return s;
}

/* --- router --- */

void cuda_route(const route_args *a, const cuda_work *w) {
    CHECK(a->w.n <= EXPERTS_MAX && a->id.cols <= CHOSEN_MAX && a->id.cols <= a->w.n && a->norm);
    product_rows in = { a->x, a->norm, a->eps, a->rows };
    route_job job = { normed_first(in, w), packed_of(&a->w), a->bias, a->softcap, a->normalize,
                      a->id.cols,          a->score,         a->id,   a->share,   w->counters };
    launch_shape g = { (uint32_t)pack_tiles(a->w.n), 1, PRODUCT_WARPS * WARP, (uint32_t)sizeof(product_shared<1>) };
    if (a->rows.max > PRODUCT_ROWS)
        launch(w->to, g, route_kernel<8, false>, job);
    else if (a->rows.max > 16)
        launch(w->to, g, route_kernel<4, true>, job);
    else if (a->rows.max > 8)
        launch(w->to, g, route_kernel<2, true>, job);
    else
        launch(w->to, g, route_kernel<1, true>, job);
}

size_t cuda_scratch_route(const route_args *a) { return normed_bytes(a->rows.max, a->x.cols); }

/* --- up --- */

/* Experts that so many rows can choose. */
static int32_t entries_of(const view *id, int32_t rows, int32_t experts) {
    int64_t pairs = (int64_t)rows * id->cols;
    return pairs < experts ? (int32_t)pairs : experts;
}

void cuda_moe_up(const moe_up_args *a, const cuda_work *w) {
    CHECK(a->experts <= EXPERTS_MAX && a->id.cols <= CHOSEN_MAX && a->rows.max <= PREFILL_MAX && a->norm);
    CHECK(a->gate[0].type == a->up[0].type && a->shared_gate.type == a->shared_up.type && !a->rows.first);
    product_rows in = { a->x, a->norm, a->eps, a->rows };
    moe_up_job job = {};
    job.in = normed_first(in, w);
    job.gate = slab_of(a->gate, a->experts), job.up = slab_of(a->up, a->experts);
    job.experts = a->experts;
    job.shared_gate = packed_of(&a->shared_gate), job.shared_up = packed_of(&a->shared_up);
    job.routed = entries_of(&a->id, a->rows.max, a->experts);
    job.id = a->id, job.h = a->h;
    int32_t tiles = pack_tiles(job.gate.first.n), shared = pack_tiles(a->shared_gate.n);
    if (shared > tiles) tiles = shared;
    int per_block = a->rows.max > 16 ? 1 : 2; /* tiles of each; registers are what limits it */
    launch_shape g = { ((uint32_t)tiles + per_block - 1) / per_block, (uint32_t)job.routed + (shared ? 1 : 0),
                       PRODUCT_WARPS * WARP,
                       (uint32_t)(per_block == 2 ? sizeof(moe_up_shared<2>) : sizeof(moe_up_shared<1>)) };
    if (a->rows.max > PRODUCT_ROWS)
        launch(w->to, g, moe_up_kernel<1, 4, false>, job);
    else if (a->rows.max > 16)
        launch(w->to, g, moe_up_kernel<1, 4, true>, job);
    else if (a->rows.max > 8)
        launch(w->to, g, moe_up_kernel<2, 2, true>, job);
    else
        launch(w->to, g, moe_up_kernel<2, 1, true>, job);
}

size_t cuda_scratch_moe_up(const moe_up_args *a) { return normed_bytes(a->rows.max, a->x.cols); }

/* --- down --- */

static size_t down_shared(int32_t rows, int32_t cols) {
    return sizeof(moe_down_shared) + (size_t)rows * (size_t)(cols + SHARED_PARTS) * PACK_ROWS * sizeof(float);
}

void cuda_moe_down(const moe_down_args *a, const tap_args *tap, const cuda_work *w) {
    CHECK(a->experts <= EXPERTS_MAX && a->id.cols <= CHOSEN_MAX && a->rows.max <= PREFILL_MAX);
    moe_down_job job = {};
    job.h = a->h, job.id = a->id, job.share = a->share;
    job.down = slab_of(a->down, a->experts), job.experts = a->experts;
    job.shared_down = packed_of(&a->shared_down);
    job.scale = a->scale, job.x = a->x, job.live = a->rows, job.tap = tap_of(tap);
    uint32_t tiles = (uint32_t)pack_tiles(a->x.cols);
    int32_t rows = a->rows.max;
    if (rows <= PRODUCT_ROWS) {
        launch_shape g = { tiles, 1, DOWN_WARPS * WARP, (uint32_t)down_shared(rows, a->id.cols) };
        if (rows > 16)
            launch(w->to, g, moe_down_kernel<4>, job);
        else if (rows > 8)
            launch(w->to, g, moe_down_kernel<2>, job);
        else
            launch(w->to, g, moe_down_kernel<1>, job);
        return;
    }
    CHECK(w->scratch_bytes >= cuda_scratch_moe_down(a));
    job.partial = (float *)w->scratch;
    int32_t routed = entries_of(&a->id, rows, a->experts);
    launch_shape g = { (tiles + PRODUCT_WARPS - 1) / PRODUCT_WARPS,
                       (uint32_t)(routed + (a->shared_down.n ? SHARED_PARTS : 0)), PRODUCT_WARPS * WARP,
                       (uint32_t)sizeof(moe_up_shared<1>) };
    launch(w->to, g, moe_down_wide_kernel<4>, job, routed);
    launch_shape sum = { ((uint32_t)a->x.cols + 255) / 256, (uint32_t)rows, 256, 0 };
    launch(w->to, sum, moe_sum_kernel, job);
}

size_t cuda_scratch_moe_down(const moe_down_args *a) {
    if (a->rows.max <= PRODUCT_ROWS) return 0;
    return (size_t)a->rows.max * (size_t)(a->id.cols + SHARED_PARTS) * (size_t)a->x.cols * sizeof(float);
}
