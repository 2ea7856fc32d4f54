/* tests/simt/cuda_exact.h - products in double precision, each with how far FP32 may be from it.
 *
 *   - A sum of K products in FP32, in whatever order, is off by at most (K + 8) 2^-24 of the sum of magnitudes.
 *   - Behind a norm the factor's last bits depend on the order of additions, and an input near a tie of BF16 is rounded
 *     to either side: half the distance of the two, times the weight.
 *   - The CPU takes subnormal operands for zeros. */
#ifndef TESTS_SIMT_CUDA_EXACT_H
#define TESTS_SIMT_CUDA_EXACT_H
#include <float.h>
#include <math.h>
#include <vector>

extern "C" {
#include "kernels/mxfp4.h"
#include "kernels/op.h"
}

struct number {
    double v, off;
    bool any; /* FP32 may overflow on the way: nothing is promised */
};

static const double ROUNDING = 0x1p-24;

static inline number plus(const number &a, const number &b) { return { a.v + b.v, a.off + b.off, a.any || b.any }; }

static inline bool is_near(const number &x, double got) {
    if (x.v != x.v) return got != got;
    return x.any || got == x.v || fabs(got - x.v) <= x.off;
}

/* Rounded to BF16 from some value that is near. */
static inline bool is_near_bf16(const number &x, bf16 got) {
    double wide = x.off + fabs(x.v) * ROUNDING;
    float low = f32_of_bf16(bf16_of_f32((float)(x.v - wide))), high = f32_of_bf16(bf16_of_f32((float)(x.v + wide)));
    return x.any || (f32_of_bf16(got) >= low && f32_of_bf16(got) <= high);
}

/* An input row as the product sees it; `slack` is how far an element may be from it. */
struct exact_row {
    std::vector<double> v, slack;
};

static inline void exact_norm(exact_row *r, const float *x, int32_t n, const bf16 *norm, float eps) {
    double sum = 0.0;
    for (int32_t k = 0; k < n; k++) sum += (double)x[k] * x[k];
    /* Squares that FP32 cannot hold make the factor 0. See settle_norm of test_cuda_rows.cpp for the bound. */
    double factor = sum > FLT_MAX ? 0.0 : 1.0 / sqrt(sum / n + eps);
    double rel = (0.5 * (n / 16 + 4 + n / 32 + 9) + 10.0) * ROUNDING;
    for (int32_t k = 0; k < n; k++) {
        double v = (double)x[k] * factor * f32_of_bf16(norm[k]), off = fabs(v) * rel + 0x1p-126;
        double low = f32_of_bf16(bf16_of_f32((float)(v - off))), high = f32_of_bf16(bf16_of_f32((float)(v + off)));
        r->v.push_back((low + high) / 2), r->slack.push_back((high - low) / 2);
    }
}

/* norm NULL: x is BF16. */
static inline exact_row exact_row_of(const view *x, int64_t row, const bf16 *norm, float eps) {
    exact_row r;
    if (norm) {
        exact_norm(&r, (const float *)view_row(x, row), x->cols, norm, eps);
    } else {
        for (int32_t k = 0; k < x->cols; k++) r.v.push_back(f32_of_bf16(((const bf16 *)view_row(x, row))[k]));
        r.slack.assign(r.v.size(), 0.0);
    }
    return r;
}

static inline double weight_value(const weight *w, int32_t j, int32_t k) {
    if (w->type == DT_MXFP4) {
        const uint8_t *row = (const uint8_t *)w->data + (int64_t)j * w->k / 2;
        return mxfp4_value(mxfp4_code(row, k), w->scale[((int64_t)j * w->k + k) / MXFP4_GROUP]);
    }
    bf16 v;
    memcpy(&v, (const char *)w->data + ((int64_t)j * w->k + k) * 2, sizeof v);
    return f32_of_bf16(v);
}

/* Row j of w with the row. */
static inline number exact_dot(const exact_row &r, const weight *w, int32_t j) {
    double v = 0.0, size = 0.0, finite = 0.0, off = w->k * 0x1p-126;
    for (int32_t k = 0; k < w->k; k++) {
        double x = weight_value(w, j, k);
        v += r.v[k] * x;
        double most = (fabs(r.v[k]) + r.slack[k]) * fabs(x);
        size += most;
        if (most < INFINITY) finite += most;
        off += r.slack[k] * fabs(x);
        if (fabs(r.v[k]) < FLT_MIN) off += fabs(r.v[k] * x);
    }
    return { v, off + (w->k + 8) * ROUNDING * size, finite > FLT_MAX };
}

/* Functions whose FP32 form (kernels/fmath.h) is off by a few units itself. */
static inline double sigmoid_d(double x) { return 1.0 / (1.0 + exp(-x)); }

/* silu(g) * u: the slope of silu is below 1.1. */
static inline number exact_glu(const number &g, const number &u) {
    double s = g.v * sigmoid_d(g.v), ds = 1.1 * g.off + fabs(s) * 16 * ROUNDING;
    return { s * u.v, ds * fabs(u.v) + fabs(s) * u.off + ds * u.off + fabs(s * u.v) * 2 * ROUNDING, g.any || u.any };
}
#endif
