/* Contract: kernels/moe.h. Experts are weight-stationary: rows are grouped by expert, and every lane takes the same
 * slice of each active expert's columns, so the work is even for any routing. */
#include "kernels/simd/input.h"
#include "kernels/simd/simd.h"

/* The k largest of score + bias, falling, ties by lower expert; biased has room for whole vectors. */
static void select_experts(const route_args *a, int32_t r, float *biased) {
    int32_t experts = a->w.n, k = a->id.cols;
    const float *score = view_row(&a->score, r);
    int32_t *id = view_row(&a->id, r);
    float *share = view_row(&a->share, r), sum = 0.0f;
    for (int32_t e = 0; e < experts; e++) biased[e] = score[e] + (a->bias ? a->bias[e] : 0.0f);
    for (int32_t e = experts; e % 16; e++) biased[e] = -INFINITY;
    for (int32_t i = 0; i < k; i++) {
        vf top = vf_load(biased);
        for (int32_t e = 16; e < experts; e += 16) top = vf_max(top, vf_load(biased + e));
        float most = vf_max_of(top);
        int32_t best = 0;
        while (best < experts - 1 && biased[best] != most) best++;
        biased[best] = -INFINITY;
        id[i] = best;
        share[i] = score[best];
        sum += score[best];
    }
    if (a->normalize)
        for (int32_t i = 0; i < k; i++) share[i] = share[i] / sum;
}

/* Scores of all experts (shared by columns), then selection (shared by rows). */
void SIMD(route)(const void *args, const lane *ln) {
    const route_args *a = args;
    int32_t n = *a->rows.n, experts = a->w.n;
    int64_t from, to;
    scratch s = scratch_of(ln);
    if (n > 0) {
        const bf16 **x = input_rows(&s, &a->x, a->norm, a->eps, &a->rows);
        float *dots = scratch_take(&s, (size_t)n * 16 * sizeof *dots);
        lane_share(ln, experts, 16, &from, &to);
        for (int32_t col = (int32_t)from; col < to; col += 16) {
            panel p = panel_of(&a->w, col);
            dot_panel(&p, x, n, dots, 16);
            for (int32_t r = 0; r < n; r++) {
                float *d = dots + (int64_t)r * 16;
                if (a->softcap > 0.0f)
                    for (int32_t c = 0; c <= p.last; c++) d[c] = a->softcap * fm_tanh(d[c] / a->softcap);
                vf_store(d, vf_sigmoid(vf_load(d)));
                memcpy((float *)view_row(&a->score, r) + col, d, (size_t)(p.last + 1) * sizeof *d);
            }
        }
    }
    pool_barrier(ln);
    s = scratch_of(ln);
    float *biased = scratch_take(&s, ((size_t)experts + 16) * sizeof *biased);
    lane_share(ln, n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) select_experts(a, (int32_t)r, biased);
}

/* Slots (row * (k + 1) + i) of the selected experts, grouped by expert: those of expert e are slot[start[e]] ..
 * slot[start[e + 1] - 1], by row. */
typedef struct groups {
    int32_t *start, *slot;
} groups;

static groups group_rows(scratch *s, const view *id, int32_t n, int32_t experts) {
    int32_t k = id->cols;
    groups g = { scratch_take(s, (size_t)(experts + 2) * sizeof(int32_t)),
                 scratch_take(s, (size_t)n * (size_t)k * sizeof(int32_t)) };
    int32_t *count = g.start + 1; /* shifted by one: after placing, start[e] is right */
    memset(g.start, 0, (size_t)(experts + 2) * sizeof(int32_t));
    for (int32_t r = 0; r < n; r++)
        for (int32_t i = 0; i < k; i++) count[((const int32_t *)view_row(id, r))[i] + 1]++;
    for (int32_t e = 0; e < experts; e++) count[e + 1] += count[e];
    for (int32_t r = 0; r < n; r++)
        for (int32_t i = 0; i < k; i++) g.slot[count[((const int32_t *)view_row(id, r))[i]]++] = r * (k + 1) + i;
    return g;
}

/* One expert's slice of gate and up for n rows; row i of the result goes to h row slot[i]. */
static void up_slice(const weight *gate, const weight *up, const bf16 *const *x, int32_t n, const int32_t *slot,
                     const view *h, float *g, float *u, const lane *ln) {
    int64_t from, to;
    lane_share(ln, gate->n, 16, &from, &to);
    for (int32_t col = (int32_t)from; col < to; col += 16) {
        panel pg = panel_of(gate, col), pu = panel_of(up, col);
        dot_panel(&pg, x, n, g, 16);
        dot_panel(&pu, x, n, u, 16);
        for (int32_t i = 0; i < n; i++) {
            bf16 y[16];
            vf_to_bf16(y, vf_mul(vf_silu(vf_load(g + (int64_t)i * 16)), vf_load(u + (int64_t)i * 16)));
            memcpy((bf16 *)view_row(h, slot[i]) + col, y, (size_t)(pg.last + 1) * sizeof *y);
        }
    }
}

void SIMD(moe_up)(const void *args, const lane *ln) {
    const moe_up_args *a = args;
    int32_t n = *a->rows.n, k = a->id.cols;
    if (n == 0) return;
    scratch s = scratch_of(ln);
    const bf16 **x = input_rows(&s, &a->x, a->norm, a->eps, &a->rows);
    groups g = group_rows(&s, &a->id, n, a->experts);
    const bf16 **rows = scratch_take(&s, (size_t)n * sizeof *rows);
    int32_t *shared_slot = scratch_take(&s, (size_t)n * sizeof *shared_slot);
    float *gate = scratch_take(&s, (size_t)n * 16 * sizeof *gate), *up = scratch_take(&s, (size_t)n * 16 * sizeof *up);
    for (int32_t e = 0; e < a->experts; e++) {
        int32_t count = g.start[e + 1] - g.start[e];
        const int32_t *slot = g.slot + g.start[e];
        if (count == 0) continue;
        for (int32_t i = 0; i < count; i++) rows[i] = x[slot[i] / (k + 1)];
        up_slice(&a->gate[e], &a->up[e], rows, count, slot, &a->h, gate, up, ln);
    }
    if (a->shared_gate.n) {
        for (int32_t r = 0; r < n; r++) shared_slot[r] = r * (k + 1) + k;
        up_slice(&a->shared_gate, &a->shared_up, x, n, shared_slot, &a->h, gate, up, ln);
    }
}

/* Partial results of one slice: d[slot][width], gathered from all experts before they are summed in routing order. */
enum { PARTIALS = 64 * 1024 };

static void down_slice(const weight *w, int32_t col, int32_t width, const view *h, const int32_t *slot, int32_t n,
                       const bf16 **rows, float *dots, float *partial) {
    for (int32_t i = 0; i < n; i++) rows[i] = view_row(h, slot[i]);
    for (int32_t c = 0; c < width; c += 16) {
        panel p = panel_of(w, col + c);
        dot_panel(&p, rows, n, dots, 16);
        for (int32_t i = 0; i < n; i++)
            vf_store(partial + (int64_t)slot[i] * width + c, vf_load(dots + (int64_t)i * 16));
    }
}

void SIMD(moe_down)(const void *args, const lane *ln) {
    const moe_down_args *a = args;
    int32_t n = *a->rows.n, k = a->id.cols, hidden = a->x.cols;
    if (n == 0) return;
    scratch s = scratch_of(ln);
    groups g = group_rows(&s, &a->id, n, a->experts);
    const bf16 **rows = scratch_take(&s, (size_t)n * sizeof *rows);
    int32_t *shared_slot = scratch_take(&s, (size_t)n * sizeof *shared_slot);
    float *dots = scratch_take(&s, (size_t)n * 16 * sizeof *dots);
    int64_t slots = (int64_t)n * (k + 1), from, to;
    int64_t width = PARTIALS / slots / 16 * 16;
    if (width < 16) width = 16;
    float *partial = scratch_take(&s, (size_t)(slots * width) * sizeof *partial);
    for (int32_t r = 0; r < n; r++) shared_slot[r] = r * (k + 1) + k;
    lane_share(ln, hidden, 16, &from, &to);
    for (int64_t col = from; col < to; col += width) {
        int32_t real = (int32_t)(to - col < width ? to - col : width);
        int32_t w = (real + 15) / 16 * 16; /* a partial panel computes its spare columns and drops them */
        for (int32_t e = 0; e < a->experts; e++) {
            int32_t count = g.start[e + 1] - g.start[e];
            if (count) down_slice(&a->down[e], (int32_t)col, w, &a->h, g.slot + g.start[e], count, rows, dots, partial);
        }
        if (a->shared_down.n) down_slice(&a->shared_down, (int32_t)col, w, &a->h, shared_slot, n, rows, dots, partial);
        for (int32_t r = 0; r < n; r++) {
            const float *d = partial + (int64_t)r * (k + 1) * w, *share = view_row(&a->share, r);
            float *x = (float *)view_row(&a->x, r) + col;
            for (int32_t c = 0; c < w; c += 16) {
                vf t = vf_mul(vf_set1(share[0]), vf_load(d + c));
                for (int32_t i = 1; i < k; i++) t = vf_fma(vf_set1(share[i]), vf_load(d + (int64_t)i * w + c), t);
                vf shared = a->shared_down.n ? vf_load(d + (int64_t)k * w + c) : vf_zero();
                float sum[16];
                vf_store(sum, vf_fma(vf_set1(a->scale), t, shared));
                for (int32_t j = 0; j < 16 && c + j < real; j++) x[c + j] += sum[j];
            }
        }
    }
}
