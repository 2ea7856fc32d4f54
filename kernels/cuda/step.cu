#include "kernels/cuda/launchers.h"
#include "kernels/cuda/step.cuh"

static launch_shape one_block(uint32_t threads, size_t shared) {
    return launch_shape{ 1, 1, threads, (uint32_t)shared };
}

void cuda_begin(const begin_args *a, const cuda_work *w) {
    launch(w->to, one_block(STEP_THREADS, sizeof(begin_shared)), begin_kernel, *a);
}

void cuda_tree(const tree_args *a, const cuda_work *w) {
    launch(w->to, one_block(STEP_THREADS, sizeof(tree_shared)), tree_kernel, *a);
}

void cuda_accept(const accept_args *a, const cuda_work *w) {
    launch(w->to, one_block(STEP_THREADS, sizeof(accept_shared)), accept_kernel, *a);
}

void cuda_stamp(const stamp_args *a, const cuda_work *w) { launch(w->to, one_block(WARP, 0), stamp_kernel, *a); }

void cuda_publish(step_params *p, const cuda_work *w) {
    launch(w->to, one_block(2 * STEP_THREADS, 0), publish_kernel, (const step_params *)p, w->host_out);
}
