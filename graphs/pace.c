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
    if (p->trial > 0) return !p->alone;
    if (p->n[false] < PACE_TIMES) return false; /* all lanes first */
    if (p->gap == 0) p->gap = PACE_GAP;
    bool never = p->n[!p->alone] == 0; /* the other way was never tried: now */
    if (!never && ++p->since < p->gap) return p->alone;
    p->since = 0;
    if (!never) p->gap = p->gap < PACE_GAP_MAX ? 2 * p->gap : PACE_GAP_MAX;
    p->trial = PACE_TRIAL;
    return !p->alone;
}

void pace_measured(pace *p, bool alone, int64_t ns) {
    bool counts = p->trial != PACE_TRIAL;
    if (p->trial > 0) p->trial--;
    if (counts) {
        p->time[alone][p->n[alone] % PACE_TIMES] = ns;
        p->n[alone] = p->n[alone] < INT32_MAX - PACE_TIMES ? p->n[alone] + 1 : PACE_TIMES;
    }
    if (p->trial > 0 || !known(p, false) || !known(p, true)) return;
    bool faster = median(p->time[true], known(p, true)) < median(p->time[false], known(p, false));
    if (faster != p->alone) p->gap = PACE_GAP, p->since = 0;
    p->alone = faster;
}
