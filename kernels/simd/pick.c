/* Contracts: kernels/rows.h (pick, topk), kernels/pick_core.h, kernels/logprob_core.h. Greedy choice scans with
 * vectors; adjusted logits and sampling go through the one shared definition. */
#include "kernels/logprob_core.h"
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

static void logprobs(const pick_row *r, int32_t chosen, int32_t most, pick_logprobs *out) {
    float top = r->z[argmax(r->z, r->n)], e[16];
    double acc[16] = { 0 };
    int32_t v = 0;
    for (; v + 16 <= r->n; v += 16) {
        vf_store(e, vf_exp(vf_sub(vf_load(r->z + v), vf_set1(top))));
        for (int k = 0; k < 16; k++) acc[k] += (double)e[k];
    }
    for (; v < r->n; v++) acc[v & 15] += (double)fm_exp(r->z[v] - top);
    logprob_fill(out, r->z, r->n, chosen, most, top, logprob_close(acc));
}

void SIMD(pick)(const void *args, const lane *ln) {
    const pick_args *a = args;
    const step_in *in = &a->p->in;
    step_state *st = &a->p->st;
    scratch own = scratch_of(ln);
    void *work = scratch_take(&own, pick_work_bytes(a->logits.cols));
    float *copy = scratch_take(&own, (size_t)a->logits.cols * sizeof *copy);
    int64_t from, to;
    lane_share(ln, st->head_n, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        pick_row r = pick_row_of(a, (int32_t)i);
        const float *z = pick_adjust(&r, &in->pick, a->lists, copy);
        if (in->pick.temperature < PICK_GREEDY_BELOW)
            st->choice[i] = argmax(z, r.n);
        else
            st->choice[i] = pick_token(z, r.n, &in->pick, r.q, work);
        if (in->logprobs >= 0) logprobs(&r, st->choice[i], in->logprobs, &st->logprobs[i]);
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

/* Ids of the k largest values, falling, ties by smaller id. A vector without a value above the k-th best so far is
 * passed over; few are not. */
static void largest(const float *x, int32_t n, int32_t k, int32_t *id) {
    int32_t have = 0;
    vf least = vf_set1(-INFINITY); /* the k-th best, once there are k */
    for (int32_t block = 0; block < n; block += 16) {
        int32_t end = n - block < 16 ? n : block + 16;
        if (have == k && end - block == 16 && !vf_any_above(vf_load(x + block), least)) continue;
        for (int32_t v = block; v < end; v++) {
            if (have == k && !(x[v] > x[id[k - 1]])) continue;
            int32_t at = have < k ? have++ : k - 1;
            for (; at > 0 && x[v] > x[id[at - 1]]; at--) id[at] = id[at - 1];
            id[at] = v;
        }
        least = vf_set1(x[id[have - 1]]);
    }
    for (; have < k; have++) id[have] = 0; /* fewer values than places */
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
        if (k == 1)
            id[0] = argmax(x, n);
        else
            largest(x, n, k, id);
        float top = x[id[0]], lse = log_sum(x, n, top);
        for (int32_t i = 0; i < k; i++) logp[i] = (x[id[i]] - top) - lse;
    }
}
