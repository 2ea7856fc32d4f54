/* kernels/logprob_core.h - the log-probabilities that are told beside a choice. Pure.
 *
 * log p(v) = (z_v - max z) - log(sum of exp(z - max z)), over the logits as the target gave them. Each exponential is
 * fm_exp of an FP32 difference; they are added in sixteen FP64 accumulators by id mod 16 and the tree of fmath.h, so a
 * large vocabulary costs no precision; the result is evaluated in FP64 and rounded once. */
#ifndef KERNELS_LOGPROB_CORE_H
#define KERNELS_LOGPROB_CORE_H
#include "kernels/fmath.h"
#include "kernels/params.h"

/* The logarithm of the sum in `acc`, which is used up. */
HD static inline double logprob_close(double acc[16]) {
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; i++) acc[i] += acc[i + h];
    return fm_log_d(acc[0]);
}

/* The k largest of z[n], falling, ties by smaller id; returns how many there are. One pass that holds the best so far:
 * after the first few hundred logits hardly one is better than the last of them. */
HD static inline int32_t logprob_largest(const float *z, int32_t n, int32_t k, int32_t *id) {
    int32_t held = 0;
    for (int32_t v = 0; v < n && k > 0; v++) {
        if (held == k && !(z[v] > z[id[k - 1]])) continue;
        int32_t at = held < k ? held++ : k - 1;
        for (; at > 0 && z[v] > z[id[at - 1]]; at--) id[at] = id[at - 1];
        id[at] = v;
    }
    return held;
}

/* top: the largest logit; log_sum: of exp(z - top). At most `most` alternatives, and never above PICK_TOP_MAX. */
HD static inline void logprob_fill(pick_logprobs *out, const float *z, int32_t n, int32_t chosen, int32_t most,
                                   float top, double log_sum) {
    out->own = (float)((double)z[chosen] - (double)top - log_sum);
    out->n = logprob_largest(z, n, most < PICK_TOP_MAX ? most : PICK_TOP_MAX, out->id);
    for (int32_t i = 0; i < out->n; i++) out->logp[i] = (float)((double)z[out->id[i]] - (double)top - log_sum);
}
#endif
