/* kernels/cuda/launchers_int.h - what the launchers of products share. */
#ifndef KERNELS_CUDA_LAUNCHERS_INT_H
#define KERNELS_CUDA_LAUNCHERS_INT_H
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/linear.cuh"

packed packed_of(const weight *w);
tap_also tap_of(const tap_args *t);

/* Input of a product: as it is for up to PRODUCT_ROWS rows, else the normed rows, which a kernel writes to the scratch.
 */
product_rows normed_first(const product_rows &in, const cuda_work *w);
size_t normed_bytes(int32_t rows, int32_t k);
int64_t normed_stride(int32_t k); /* bytes */
#endif
