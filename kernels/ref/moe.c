#include "kernels/ref/ref_int.h"

enum { COLUMN_UNIT = 16 }; /* lanes share an expert's columns in these units */

/* The k largest of score + bias, falling; ties: lower expert first. */
static void select_experts(const route_args *a, const float *score, int32_t *id) {
    for (int32_t i = 0; i < a->id.cols; i++) {
        int32_t best = -1;
        float best_value = 0.0f;
        for (int32_t e = 0; e < a->w.n; e++) {
            bool taken = false;
            for (int32_t t = 0; t < i; t++) taken |= id[t] == e;
            float value = a->bias ? score[e] + a->bias[e] : score[e];
            if (taken || (best >= 0 && !(value > best_value))) continue;
            best = e;
            best_value = value;
        }
        id[i] = best;
    }
}

static void weigh_experts(const route_args *a, const float *score, const int32_t *id, float *share) {
    int32_t k = a->id.cols;
    float sum = score[id[0]];
    for (int32_t i = 1; i < k; i++) sum += score[id[i]];
    for (int32_t i = 0; i < k; i++) share[i] = a->normalize ? score[id[i]] / sum : score[id[i]];
}

void ref_route(const void *args, const lane *ln) {
    const route_args *a = args;
    size_t used = 0;
    view in = ref_input(&a->x, a->norm, a->eps, &a->rows, ln, &used);
    bf16 *buf = ref_take(ln, &used, (size_t)a->x.cols * sizeof *buf);
    int64_t from, to;
    lane_share(ln, a->w.n, COLUMN_UNIT, &from, &to);
    for (int64_t e = from; e < to; e++) {
        const bf16 *w = ref_weight_row(&a->w, e, buf);
        for (int32_t i = 0; i < in.rows; i++) {
            float r = fm_dot(view_row(&in, i), w, in.cols);
            if (a->softcap > 0.0f) r = a->softcap * fm_tanh(r / a->softcap);
            ((float *)view_row(&a->score, i))[e] = fm_sigmoid(r);
        }
    }
    pool_barrier(ln); /* a row's selection needs the scores of every lane */
    lane_share(ln, in.rows, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *score = view_row(&a->score, i);
        int32_t *id = view_row(&a->id, i);
        select_experts(a, score, id);
        weigh_experts(a, score, id, view_row(&a->share, i));
    }
}

static int32_t expert_of(const view *id, int32_t row, int32_t i, int32_t experts) {
    int32_t e = ((const int32_t *)view_row(id, row))[i];
    CHECK(e >= 0 && e < experts);
    return e;
}

void ref_moe_up(const void *args, const lane *ln) {
    const moe_up_args *a = args;
    size_t used = 0;
    view in = ref_input(&a->x, a->norm, a->eps, &a->rows, ln, &used);
    bf16 *gate_buf = ref_take(ln, &used, (size_t)a->x.cols * sizeof(bf16));
    bf16 *up_buf = ref_take(ln, &used, (size_t)a->x.cols * sizeof(bf16));
    int32_t k = a->id.cols;
    for (int32_t r = 0; r < in.rows; r++) {
        const bf16 *x = view_row(&in, r);
        for (int32_t i = 0; i <= k; i++) {
            int32_t e = i < k ? expert_of(&a->id, r, i, a->experts) : -1;
            const weight *gate = e < 0 ? &a->shared_gate : &a->gate[e], *up = e < 0 ? &a->shared_up : &a->up[e];
            bf16 *h = view_row(&a->h, (int64_t)r * (k + 1) + i);
            int64_t from, to;
            lane_share(ln, gate->n, COLUMN_UNIT, &from, &to);
            for (int64_t j = from; j < to; j++) {
                float g = fm_dot(x, ref_weight_row(gate, j, gate_buf), in.cols);
                float u = fm_dot(x, ref_weight_row(up, j, up_buf), in.cols);
                h[j] = bf16_of_f32(fm_silu(g) * u);
            }
        }
    }
}

void ref_moe_down(const void *args, const lane *ln) {
    const moe_down_args *a = args;
    size_t used = 0;
    bf16 *buf = ref_take(ln, &used, (size_t)a->h.cols * sizeof *buf);
    int32_t k = a->id.cols, n = ref_live(&a->rows);
    int64_t from, to;
    lane_share(ln, a->x.cols, COLUMN_UNIT, &from, &to);
    for (int32_t r = 0; r < n; r++) {
        const float *share = view_row(&a->share, r);
        float *x = view_row(&a->x, live_first(&a->rows) + r);
        for (int64_t j = from; j < to; j++) {
            float t = 0.0f, s = 0.0f;
            for (int32_t i = 0; i < k; i++) {
                const weight *down = &a->down[expert_of(&a->id, r, i, a->experts)];
                float d = fm_dot(view_row(&a->h, (int64_t)r * (k + 1) + i), ref_weight_row(down, j, buf), down->k);
                t = i == 0 ? share[0] * d : fmaf(share[i], d, t);
            }
            if (a->shared_down.n) {
                const bf16 *w = ref_weight_row(&a->shared_down, j, buf);
                s = fm_dot(view_row(&a->h, (int64_t)r * (k + 1) + k), w, a->shared_down.k);
            }
            x[j] += fmaf(a->scale, t, s);
        }
    }
}
