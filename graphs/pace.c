#include "graphs/pace.h"

/* Median of the times that are there. */
static int64_t median(const int64_t *time, int32_t n) {
    int64_t sorted[PACE_TIMES];
    for (int32_t i = 0; i < n; i++) {
        int32_t j = i;
        for (; j > 0 && sorted[j - 1] > time[i]; j--) sorted[j] = sorted[j - 1];
        sorted[j] = time[i];
    }
    return sorted[n / 2];
}

static int32_t known(const pace *p, bool alone) { return p->n[alone] < PACE_TIMES ? p->n[alone] : PACE_TIMES; }

bool pace_choose(pace *p) {
    /* first a few of each, all lanes first */
    if (p->n[false] < PACE_TIMES) return false;
    if (p->n[true] < PACE_TIMES / 2) return true;
    if (p->gap == 0) p->gap = PACE_GAP;
    if (++p->since < p->gap) return p->alone;
    p->since = 0;
    p->gap = p->gap < PACE_GAP_MAX ? 2 * p->gap : PACE_GAP_MAX;
    return !p->alone;
}

void pace_measured(pace *p, bool alone, int64_t ns) {
    p->time[alone][p->n[alone] % PACE_TIMES] = ns;
    p->n[alone] = p->n[alone] < INT32_MAX - PACE_TIMES ? p->n[alone] + 1 : PACE_TIMES;
    if (!known(p, false) || !known(p, true)) return;
    bool faster = median(p->time[true], known(p, true)) < median(p->time[false], known(p, false));
    if (faster != p->alone) p->gap = PACE_GAP, p->since = 0;
    p->alone = faster;
}
