/* kernels/cuda/launchers_attn.h - starts the kernels of the ops of kernels/attn.h and of the context rows.
 *
 * Views, row sets and what stores point to are device addresses, which are not followed on the host: grids depend on
 * shapes and buckets alone. */
#ifndef KERNELS_CUDA_LAUNCHERS_ATTN_H
#define KERNELS_CUDA_LAUNCHERS_ATTN_H
#include "kernels/cuda/work.h"

/* Heads of `size` elements, `share` query heads per kv head. */
bool cuda_attention_supports(int32_t size, int32_t share);

/* qkv_store and the attn behind it, which belong together: the same rows, and s->kv is where the rows of the call lie,
 * a->block or else a->past. One launch up to NODES_MAX rows; s->q is then not written. For more rows, chains only, the
 * keys are stored by a launch of their own; the bits are the same. */
void cuda_attention(const qkv_store_args *s, const attn_args *a, const cuda_work *w);
/* attn alone, when qkv_store has been done; the same bits. */
void cuda_attn(const attn_args *a, const cuda_work *w);
size_t cuda_scratch_attention(const attn_args *a); /* for both */

void cuda_qkv_store(const qkv_store_args *a, const cuda_work *w);
void cuda_ctx_store(const ctx_store_args *a, const cuda_work *w);
/* a->stores itself is host memory. */
void cuda_kv_move(const kv_move_args *a, const cuda_work *w);
#endif
