#include "kernels/logprob_core.h"
#include "kernels/pick_core.h"
#include "kernels/ref/ref_int.h"

/* The k largest logits, falling, ties by smaller id. */
static void largest(const float *z, int32_t vocab, int32_t k, int32_t *id) {
    for (int32_t i = 0; i < k; i++) {
        int32_t best = -1;
        for (int32_t v = 0; v < vocab; v++) {
            bool taken = false;
            for (int32_t t = 0; t < i; t++) taken |= id[t] == v;
            if (!taken && (best < 0 || z[v] > z[best])) best = v;
        }
        id[i] = best;
    }
}

void ref_topk(const void *args, const lane *ln) {
    const topk_args *a = args;
    int32_t vocab = a->logits.cols, k = a->id.cols;
    int64_t from, to;
    lane_share(ln, ref_live(&a->rows), 1, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *z = view_row(&a->logits, live_first(&a->rows) + r);
        int32_t *id = view_row(&a->id, r);
        float *logp = view_row(&a->logp, r), acc[16] = { 0 };
        largest(z, vocab, k, id);
        float top = z[id[0]];
        for (int32_t v = 0; v < vocab; v++) acc[v & 15] += fm_exp(z[v] - top);
        float log_sum = (float)fm_log_d((double)fm_tree16(acc));
        for (int32_t i = 0; i < k; i++) logp[i] = (z[id[i]] - top) - log_sum;
    }
}

static void logprobs(const pick_row *r, int32_t chosen, int32_t most, pick_logprobs *out) {
    float top = r->z[pick_largest(r->z, r->n, 1.0f).id];
    double acc[16] = { 0 };
    for (int32_t v = 0; v < r->n; v++) acc[v & 15] += (double)fm_exp(r->z[v] - top);
    logprob_fill(out, r->z, r->n, chosen, most, top, logprob_close(acc));
}

void ref_pick(const void *args, const lane *ln) {
    const pick_args *a = args;
    const step_in *in = &a->p->in;
    step_state *st = &a->p->st;
    CHECK(st->head_n >= 0 && st->head_n <= NODES_MAX && st->head_n <= a->logits.rows);
    size_t used = 0;
    void *work = ref_take(ln, &used, pick_work_bytes(a->logits.cols));
    float *copy = ref_take(ln, &used, (size_t)a->logits.cols * sizeof *copy);
    int64_t from, to;
    lane_share(ln, st->head_n, 1, &from, &to);
    for (int64_t i = from; i < to; i++) {
        pick_row r = pick_row_of(a, (int32_t)i);
        st->choice[i] = pick_token(pick_adjust(&r, &in->pick, a->lists, copy), r.n, &in->pick, r.q, work);
        if (in->logprobs >= 0) logprobs(&r, st->choice[i], in->logprobs, &st->logprobs[i]);
    }
}
