#include "kernels/cuda/launchers.h"
#include "kernels/cuda/pick.cuh"

static size_t up64(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t part_bytes(int32_t rows, int32_t vocab) {
    return up64((size_t)rows * (size_t)slice_count(vocab) * sizeof(slice_part));
}

static size_t row_bytes(int32_t rows, int32_t vocab) { return up64((size_t)rows * (size_t)vocab * sizeof(float)); }

static int32_t pick_most(const pick_args *a) {
    return a->logits.rows < NODES_MAX ? a->logits.rows : (int32_t)NODES_MAX;
}

size_t cuda_scratch_topk(const topk_args *a) { return part_bytes(a->rows.max, a->logits.cols); }

void cuda_topk(const topk_args *a, const cuda_work *w) {
    int32_t slices = slice_count(a->logits.cols);
    slice_scratch scratch = { (slice_part *)w->scratch, nullptr, nullptr, w->counters };
    launch_shape g = { (uint32_t)slices, (uint32_t)a->rows.max, SLICE_THREADS,
                       (uint32_t)(sizeof(topk_shared) + (size_t)slices * sizeof(int32_t)) };
    launch(w->to, g, topk_kernel, *a, scratch);
}

size_t cuda_scratch_pick(const pick_args *a) {
    int32_t rows = pick_most(a), vocab = a->logits.cols;
    return part_bytes(rows, vocab) + 2 * row_bytes(rows, vocab);
}

void cuda_pick(const pick_args *a, const cuda_work *w) {
    int32_t rows = pick_most(a), vocab = a->logits.cols, slices = slice_count(vocab);
    char *y = w->scratch + part_bytes(rows, vocab), *list = y + row_bytes(rows, vocab);
    slice_scratch scratch = { (slice_part *)w->scratch, (float *)y, (int32_t *)list, w->counters };
    launch_shape g = { (uint32_t)slices, (uint32_t)rows, SLICE_THREADS,
                       (uint32_t)(sizeof(pick_shared) + (size_t)slices * sizeof(int32_t)) };
    launch(w->to, g, pick_kernel, *a, scratch);
}
