#include "kernels/cuda/lt.h"

#ifndef SKIFF_SIMT

#include <cublasLt.h>
#include <dlfcn.h>

#include <new>

/* Half a gigabyte of library that only a fast prefill needs: opened when it is asked for, so that the program also runs
 * where it is not installed. */
#define NAME_OF(major) "libcublasLt.so." TEXT_OF(major)
#define TEXT_OF(x) #x
#define LIBRARY NAME_OF(CUBLAS_VER_MAJOR)

/* The library's functions, cublasLt in front of each name. Once there they stay. */
static struct {
#define F(name) decltype(&cublasLt##name) name;
#include "kernels/cuda/lt.def"
#undef F
} blas;

static const char *find_functions(void *library) {
#define F(name)                                                                                                        \
    if (!(blas.name = (decltype(blas.name))dlsym(library, "cublasLt" #name))) return "cublasLt" #name;
#include "kernels/cuda/lt.def"
#undef F
    return nullptr;
}

static status open_library(err *e) {
    static void *library;
    if (!library) library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(
            e, ERR_DEVICE,
            "--prefill fast needs cuBLASLt of the CUDA toolkit (%s): install it where the loader finds it, or "
            "run with --prefill exact",
            dlerror());
    const char *missing = find_functions(library);
    return missing ? err_set(e, ERR_DEVICE, "%s has no %s; run with --prefill exact", LIBRARY, missing) : OK;
}

struct lt {
    cublasLtHandle_t handle;
};

struct lt_plan {
    lt_shape shape;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t w, x, add, y;
    cublasLtMatmulAlgo_t algorithm;
    lt_choice choice;
};

static status failed(cublasStatus_t rc, const char *doing, const lt_shape *s, err *e) {
    return err_set(e, ERR_DEVICE,
                   "%s of %d x %d x %d (rows, columns, length): cuBLASLt says %s; run with --prefill exact", doing,
                   s->rows, s->n, s->k, blas.GetStatusName(rc));
}

status lt_open(lt **out, err *e) {
    TRY(open_library(e));
    lt *l = new (std::nothrow) lt();
    if (!l) return err_set(e, ERR_MEMORY, "no memory for cuBLASLt");
    cublasStatus_t rc = blas.Create(&l->handle);
    if (rc != CUBLAS_STATUS_SUCCESS) {
        delete l;
        return err_set(e, ERR_DEVICE, "opening cuBLASLt: %s; run with --prefill exact", blas.GetStatusName(rc));
    }
    *out = l;
    return OK;
}

void lt_close(lt *l) {
    if (!l) return;
    blas.Destroy(l->handle);
    delete l;
}

size_t lt_version(const lt *) { return blas.GetVersion(); }

/* --- choosing --- */

/* The library counts columns first: its result is y transposed, n x rows, from w transposed and x as it lies. */
static cublasStatus_t describe(lt_plan *p) {
    const lt_shape *s = &p->shape;
    uint64_t rows = (uint64_t)s->rows, n = (uint64_t)s->n, k = (uint64_t)s->k;
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasStatus_t rc = blas.MatmulDescCreate(&p->how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = blas.MatmulDescSetAttribute(p->how, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = blas.MatrixLayoutCreate(&p->w, CUDA_R_16BF, k, n, s->w_stride);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = blas.MatrixLayoutCreate(&p->x, CUDA_R_16BF, k, rows, s->x_stride);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = blas.MatrixLayoutCreate(&p->y, CUDA_R_32F, n, rows, s->y_stride);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = blas.MatrixLayoutCreate(&p->add, CUDA_R_32F, n, rows, s->add_stride ? s->add_stride : s->y_stride);
    return rc;
}

static cublasStatus_t limit(cublasLtMatmulPreference_t p) {
    size_t workspace = LT_WORKSPACE;
    uint32_t aligned_w = 256, aligned = 16;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } SET[] = { { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace },
                { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums },
                { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned_w, sizeof aligned_w },
                { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &aligned, sizeof aligned },
                { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &aligned, sizeof aligned },
                { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &aligned, sizeof aligned } };
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    for (const auto &s : SET)
        if (rc == CUBLAS_STATUS_SUCCESS) rc = blas.MatmulPreferenceSetAttribute(p, s.what, s.value, s.bytes);
    return rc;
}

static int32_t config(const cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t what) {
    int32_t v = 0;
    size_t written = 0;
    return blas.MatmulAlgoConfigGetAttribute(a, what, &v, sizeof v, &written) == CUBLAS_STATUS_SUCCESS ? v : -1;
}

/* The library's first proposal, an estimate without measuring: the same every time. */
static cublasStatus_t take_first(lt *l, lt_plan *p) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulHeuristicResult_t first = {};
    int found = 0;
    cublasStatus_t rc = blas.MatmulPreferenceCreate(&preference);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = limit(preference);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = blas.MatmulAlgoGetHeuristic(l->handle, p->how, p->w, p->x, p->add, p->y, preference, 1, &first, &found);
    if (preference) blas.MatmulPreferenceDestroy(preference);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = found ? first.state : CUBLAS_STATUS_NOT_SUPPORTED;
    if (rc != CUBLAS_STATUS_SUCCESS) return rc;
    p->algorithm = first.algo;
    p->choice = { config(&first.algo, CUBLASLT_ALGO_CONFIG_ID),
                  config(&first.algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                  config(&first.algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                  config(&first.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                  config(&first.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                  first.workspaceSize };
    return CUBLAS_STATUS_SUCCESS;
}

status lt_choose(lt *l, const lt_shape *s, lt_plan **out, err *e) {
    lt_plan *p = new (std::nothrow) lt_plan();
    if (!p) return err_set(e, ERR_MEMORY, "no memory for a product of cuBLASLt");
    p->shape = *s;
    cublasStatus_t rc = describe(p);
    if (rc == CUBLAS_STATUS_SUCCESS) rc = take_first(l, p);
    if (rc != CUBLAS_STATUS_SUCCESS) {
        lt_free_plan(p);
        return failed(rc, "choosing an algorithm for a product", s, e);
    }
    *out = p;
    return OK;
}

lt_choice lt_get_choice(const lt_plan *p) { return p->choice; }

void lt_free_plan(lt_plan *p) {
    if (!p) return;
    cublasLtMatrixLayout_t layout[] = { p->w, p->x, p->add, p->y };
    for (cublasLtMatrixLayout_t m : layout)
        if (m) blas.MatrixLayoutDestroy(m);
    if (p->how) blas.MatmulDescDestroy(p->how);
    delete p;
}

/* --- multiplying --- */

status lt_multiply(lt *l, const lt_plan *p, const void *x, const void *w, const float *add, float *y, void *workspace,
                   cudaStream_t stream, err *e) {
    float one = 1.0f, rest = p->shape.add_stride ? 1.0f : 0.0f;
    cublasStatus_t rc = blas.Matmul(l->handle, p->how, &one, w, p->w, x, p->x, &rest, add ? add : y, p->add, y, p->y,
                                    &p->algorithm, workspace, LT_WORKSPACE, stream);
    return rc == CUBLAS_STATUS_SUCCESS ? OK : failed(rc, "starting a product", &p->shape, e);
}

#endif
