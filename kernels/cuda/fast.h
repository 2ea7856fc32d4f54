/* kernels/cuda/fast.h - dense products of wide steps by cuBLASLt, for a prefill that may round otherwise than decoding.
 *
 * Which ops: linear and glu, and the shared expert of moe_up and moe_down, for more rows than PRODUCT_ROWS. The head
 * has one row in a prefill, and routed experts stay with the kernels of moe.cuh: how many rows an expert has is known
 * on the device alone, and with about ten of them the bytes of the experts, which those kernels read once and packed,
 * are what takes the time.
 *
 * A matrix lies packed (pack.h). It is expanded to rows of BF16 in the scratch right before its product, over what the
 * product before has left there: one matrix of scratch in place of a second copy of all dense weights, for three times
 * the bytes. The products take all rows of the bucket. What they make of rows that are not live is written behind the
 * live ones and read by no one: rows of a product do not influence each other, and every other kernel stops at the live
 * count. */
#ifndef KERNELS_CUDA_FAST_H
#define KERNELS_CUDA_FAST_H
#include "engine/base/status.h"
#include "kernels/cuda/work.h"

status fast_open(fast_products **out, err *e);
void fast_close(fast_products *f); /* NULL is fine */

/* Whether the op's dense products go this way. */
bool fast_takes(op_id id, const void *args);
/* For such an op: chooses the algorithms of its products, and tells them to the log at level info. Returns the bytes of
 * scratch that the op needs. What fails shows in fast_status. */
size_t fast_prepare(fast_products *f, op_id id, const void *args);
/* Starts its kernels by w->fast; it was prepared in this form. A tap is not part of it. */
void fast_put(op_id id, const void *args, const cuda_work *w);

/* OK, or the first failure of the two. */
status fast_status(const fast_products *f, err *e);
#endif
