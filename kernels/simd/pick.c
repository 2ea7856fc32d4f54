/* Contracts: kernels/rows.h (pick, topk), kernels/pick_core.h. Greedy choice scans with vectors; sampling goes through
 * the one shared definition. */
#include "kernels/pick_core.h"
#include "kernels/simd/input.h"
#include "kernels/simd/simd.h"

/* Largest value and the smallest id that has it. */
static int32_t argmax(const float *x, int32_t n) {
    vf m = vf_set1(-INFINITY);
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) m = vf_max(vf_load(x + i), m);
    float top = vf_max_of(m);
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    for (i = 0; i < n; i++)
        if (x[i] == top) return i;
    return 0; /* nothing but NaN */
}

void SIMD(pick)(const void *args, const lane *ln) {
    const pick_args *a = args;
    step_params *p = a->p;
    int64_t from, to;
    lane_share(ln, p->st.head_n, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *logits = view_row(&a->logits, i);
        if (p->in.pick.temperature < PICK_GREEDY_BELOW)
            p->st.choice[i] = argmax(logits, a->logits.cols);
        else
            p->st.choice[i] = pick_token(logits, a->logits.cols, &p->in.pick,
                                         (int64_t)p->st.rows.pos[p->st.head_first + i] + 1, ln->scratch);
    }
}

/* log(sum exp(x - top)): sixteen accumulators by id mod 16. */
static float log_sum(const float *x, int32_t n, float top) {
    vf acc = vf_zero();
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) acc = vf_add(acc, vf_exp(vf_sub(vf_load(x + i), vf_set1(top))));
    float t[16];
    vf_store(t, acc);
    for (; i < n; i++) t[i & 15] += fm_exp(x[i] - top);
    return (float)fm_log_d((double)fm_tree16(t));
}

void SIMD(topk)(const void *args, const lane *ln) {
    const topk_args *a = args;
    int32_t n = a->logits.cols, k = a->id.cols;
    int64_t from, to;
    lane_share(ln, *a->rows.n, 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = view_row(&a->logits, live_first(&a->rows) + r);
        int32_t *id = view_row(&a->id, r);
        float *logp = view_row(&a->logp, r);
        id[0] = argmax(x, n);
        for (int32_t i = 1; i < k; i++) { /* the next in the order (value falling, id rising) */
            float above = x[id[i - 1]], best = -INFINITY;
            int32_t at = -1;
            for (int32_t v = 0; v < n; v++) {
                bool behind = x[v] < above || (x[v] == above && v > id[i - 1]);
                if (behind && (at < 0 || x[v] > best)) at = v, best = x[v];
            }
            id[i] = at < 0 ? 0 : at;
        }
        float top = x[id[0]], lse = log_sum(x, n, top);
        for (int32_t i = 0; i < k; i++) logp[i] = (x[id[i]] - top) - lse;
    }
}
