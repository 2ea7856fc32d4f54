/* kernels/cuda/lt.h - products of many rows by cuBLASLt (NVIDIA cuBLAS documentation, "Using the cuBLASLt API").
 *
 * How a shape is computed is chosen once and stays: with the same library on the same GPU a product has the same bits
 * every time. They are other bits than those of product.cuh. Partial sums are kept in FP32.
 *
 * lt.cu is the only place that knows cuBLASLt, and opens the library only when it is asked for; over the shim
 * tests/simt/lt_model.cpp stands behind this header. */
#ifndef KERNELS_CUDA_LT_H
#define KERNELS_CUDA_LT_H
#include "engine/base/status.h"
#include "kernels/cuda/launch.h"

typedef struct lt lt;
typedef struct lt_plan lt_plan; /* a shape and its algorithm */

constexpr size_t LT_WORKSPACE = 32 << 20; /* bytes, aligned to 256: what a product may use besides its operands */

/* y[i][j] = dot(x[i], w[j]) (+ add[i][j]), i < rows, j < n; x and w BF16, y and add F32, columns contiguous. Strides
 * count elements. w is aligned to 256 bytes, all others to 16. add may be y. */
typedef struct lt_shape {
    int32_t rows, n, k;
    int64_t x_stride, w_stride, y_stride, add_stride; /* add_stride 0: nothing is added */
} lt_shape;

/* What was chosen, in the numbers of the library (cublasLtMatmulAlgoConfigAttributes_t). */
typedef struct lt_choice {
    int32_t algorithm, tile, stages, split_k, reduction;
    size_t workspace; /* bytes, at most LT_WORKSPACE */
} lt_choice;

/* ERR_DEVICE: not installed, or it refuses the GPU. */
status lt_open(lt **out, err *e);
void lt_close(lt *l); /* NULL is fine */
size_t lt_version(const lt *l);

/* ERR_DEVICE when the library has no algorithm for the shape. */
status lt_choose(lt *l, const lt_shape *s, lt_plan **out, err *e);
lt_choice lt_get_choice(const lt_plan *p);
void lt_free_plan(lt_plan *p); /* NULL is fine */

/* Puts the product on the stream, which may be captured. All rows are read and written. */
status lt_multiply(lt *l, const lt_plan *p, const void *x, const void *w, const float *add, float *y, void *workspace,
                   cudaStream_t stream, err *e);
#endif
