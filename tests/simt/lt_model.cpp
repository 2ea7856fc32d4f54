#include "tests/simt/lt_model.h"

#include "engine/base/dtype.h"
#include "kernels/cuda/lt.h"

struct lt {
    int nothing;
};
struct lt_plan {
    lt_shape shape;
};

static struct {
    lt_model_fault fault;
    int plans, products;
} model;

void lt_model_set(lt_model_fault fault) { model.fault = fault; }
int lt_model_plans(void) { return model.plans; }
int lt_model_products(void) { return model.products; }

status lt_open(lt **out, err *) {
    *out = new lt();
    return OK;
}
void lt_close(lt *l) { delete l; }
size_t lt_version(const lt *) { return 0; }

status lt_choose(lt *, const lt_shape *s, lt_plan **out, err *e) {
    if (model.fault == LT_MODEL_NO_ALGORITHM)
        return err_set(e, ERR_DEVICE, "choosing an algorithm for a product of %d x %d x %d: there is none", s->rows,
                       s->n, s->k);
    /* the library counts on it */
    CHECK(s->rows > 0 && s->n > 0 && s->k > 0 && s->x_stride >= s->k && s->w_stride >= s->k && s->y_stride >= s->n);
    *out = new lt_plan{ *s };
    model.plans++;
    return OK;
}
lt_choice lt_get_choice(const lt_plan *) { return { 1, 2, 3, 1, 0, 0 }; }
void lt_free_plan(lt_plan *p) {
    if (p) model.plans--;
    delete p;
}

typedef struct product {
    lt_shape s;
    const bf16 *x, *w;
    const float *add;
    float *y;
    int fault;
} product;

/* A block has a row, a thread every so many columns. */
static __global__ void lt_model_kernel(product p) {
    int64_t row = blockIdx.x;
    const bf16 *x = p.x + row * p.s.x_stride;
    for (int32_t j = (int32_t)threadIdx.x; j < p.s.n; j += (int32_t)blockDim.x) {
        int32_t column = p.fault == LT_MODEL_SHIFTED && (j ^ 1) < p.s.n ? j ^ 1 : j;
        const bf16 *w = p.w + column * p.s.w_stride;
        float v = 0.0f;
        for (int32_t c = p.s.k - (p.fault == LT_MODEL_SHORT ? 2 : 1); c >= 0; c--)
            v += f32_of_bf16(x[c]) * f32_of_bf16(w[c]);
        if (p.add && p.fault != LT_MODEL_NO_ADD) v += p.add[row * p.s.add_stride + j];
        p.y[row * p.s.y_stride + j] = v;
    }
}

static bool aligned(const void *p, uintptr_t bytes) { return (uintptr_t)p % bytes == 0; }

status lt_multiply(lt *, const lt_plan *p, const void *x, const void *w, const float *add, float *y, void *workspace,
                   cudaStream_t stream, err *e) {
    if (model.fault == LT_MODEL_NO_START) return err_set(e, ERR_DEVICE, "starting a product: not today");
    CHECK(aligned(x, 16) && aligned(w, 256) && aligned(add, 16) && aligned(y, 16) && aligned(workspace, 256));
    CHECK(!add == !p->shape.add_stride);
    launch_to to = { stream, false };
    launch_shape g = { (uint32_t)p->shape.rows, 1, 64, 0 };
    product job = { p->shape, (const bf16 *)x, (const bf16 *)w, add, y, (int)model.fault };
    launch(to, g, lt_model_kernel, job);
    model.products++;
    return OK;
}
