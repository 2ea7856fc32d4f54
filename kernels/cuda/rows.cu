#include "kernels/cuda/launchers.h"
#include "kernels/cuda/rows.cuh"

static launch_shape by_row(int32_t x, int32_t rows, int32_t threads) {
    return launch_shape{ (uint32_t)x, (uint32_t)rows, (uint32_t)threads, 0 };
}

/* Threads for n elements, `each` per thread. */
static int32_t threads_for(int32_t n, int32_t each) {
    int32_t threads = (n + each * WARP - 1) / (each * WARP) * WARP;
    return threads < WARP ? (int32_t)WARP : threads < ROW_THREADS ? threads : (int32_t)ROW_THREADS;
}

void cuda_embed(const embed_args *a, const cuda_work *w) {
    launch(w->to, by_row(1, a->y.rows, threads_for(a->y.cols, 4)), embed_kernel, *a);
}

void cuda_rope(const rope_args *a, const cuda_work *w) {
    launch(w->to, by_row(1, a->cos.rows, threads_for(a->cos.cols, 1)), rope_kernel, *a);
}

void cuda_norm(const norm_args *a, const cuda_work *w) {
    launch(w->to, by_row(1, a->rows.max, NORM_THREADS), norm_kernel, *a);
}

void cuda_tap(const tap_args *a, const cuda_work *w) {
    int32_t rows = a->x.rows < a->ring.rows ? a->x.rows : a->ring.rows;
    launch(w->to, by_row(1, rows, threads_for(a->x.cols, 4)), tap_kernel, *a);
}

void cuda_tap_norm(const tap_norm_args *a, const cuda_work *w) {
    launch(w->to, by_row(a->taps, a->y.rows, NORM_THREADS), tap_norm_kernel, *a);
}
