#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/launchers_attn.h"

extern "C" {
#include "engine/base/status.h"
}

static launch_shape by_vector(int32_t vectors) {
    return launch_shape{ (uint32_t)((vectors + STORE_VECTORS - 1) / STORE_VECTORS), 1, STORE_THREADS, 0 };
}

void cuda_qkv_store(const qkv_store_args *a, const cuda_work *w) {
    launch_shape g = by_vector(a->qkv.rows * (a->heads + 2 * a->kv.heads));
    CHECK(a->kv.size >= 1 && a->kv.size <= 128);
    if (a->kv.size <= 32)
        launch(w->to, g, qkv_store_kernel<32>, *a);
    else if (a->kv.size <= 64)
        launch(w->to, g, qkv_store_kernel<64>, *a);
    else
        launch(w->to, g, qkv_store_kernel<128>, *a);
}

void cuda_ctx_store(const ctx_store_args *a, const cuda_work *w) {
    launch_shape g = by_vector(a->kv.rows * 2 * a->ring.heads);
    CHECK(a->ring.size >= 1 && a->ring.size <= 128 && a->ring.type == DT_BF16);
    if (a->ring.size <= 32)
        launch(w->to, g, ctx_store_kernel<32>, *a);
    else if (a->ring.size <= 64)
        launch(w->to, g, ctx_store_kernel<64>, *a);
    else
        launch(w->to, g, ctx_store_kernel<128>, *a);
}

void cuda_kv_move(const kv_move_args *a, const cuda_work *w) {
    for (int32_t from = 0; from < a->n; from += MOVE_STORES) {
        int32_t n = a->n - from < MOVE_STORES ? a->n - from : MOVE_STORES, heads = 1;
        move_stores some = {};
        for (int32_t i = 0; i < n; i++) {
            some.at[i] = a->stores[from + i];
            if (some.at[i].heads > heads) heads = some.at[i].heads;
        }
        launch_shape g = { (uint32_t)n, (uint32_t)heads, MOVE_THREADS, 0 };
        launch(w->to, g, kv_move_kernel, a->p, some);
    }
    if (!a->taps.data) return;
    int32_t pieces = (a->taps.cols * (int32_t)sizeof(bf16) + 15) / 16;
    launch_shape g = { (uint32_t)((pieces + TAP_THREADS - 1) / TAP_THREADS), 1, TAP_THREADS, 0 };
    launch(w->to, g, tap_move_kernel, a->p, a->taps);
}
