/* kernels/cuda/launchers.h - starts the kernels of an op. Arguments hold device addresses, which are not followed on the
 * host: grids depend on shapes and buckets alone, live counts are read on the device. Where an op wants scratch,
 * cuda_scratch_<op> says how many bytes. Only launches: nothing waits, allocates or copies. */
#ifndef KERNELS_CUDA_LAUNCHERS_H
#define KERNELS_CUDA_LAUNCHERS_H
#include "kernels/cuda/work.h"

void cuda_begin(const begin_args *a, const cuda_work *w);
void cuda_tree(const tree_args *a, const cuda_work *w);
void cuda_accept(const accept_args *a, const cuda_work *w);
void cuda_stamp(const stamp_args *a, const cuda_work *w);
/* The last kernel of a step: the result record to the host, seq behind everything else. */
void cuda_publish(step_params *p, const cuda_work *w);

void cuda_embed(const embed_args *a, const cuda_work *w);
void cuda_rope(const rope_args *a, const cuda_work *w);
void cuda_norm(const norm_args *a, const cuda_work *w);
void cuda_tap(const tap_args *a, const cuda_work *w);
void cuda_tap_norm(const tap_norm_args *a, const cuda_work *w);

void cuda_topk(const topk_args *a, const cuda_work *w);
size_t cuda_scratch_topk(const topk_args *a);
void cuda_pick(const pick_args *a, const cuda_work *w);
size_t cuda_scratch_pick(const pick_args *a);
#endif
