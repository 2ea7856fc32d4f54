#include "engine/cli/samples.h"

#include "engine/base/mem.h"

#include <stdlib.h>

void samples_add(samples *s, double v) {
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 64;
        s->at = xrealloc(s->at, s->cap * sizeof *s->at);
    }
    s->at[s->n++] = v;
}

static int rising(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(samples *s) {
    if (s->n) qsort(s->at, s->n, sizeof *s->at, rising);
}

double samples_share(const samples *s, double share) {
    return s->n ? s->at[(size_t)((double)(s->n - 1) * share)] : 0.0;
}

double samples_median(samples *s) {
    samples_sort(s);
    return s->n ? s->at[s->n / 2] : 0.0;
}

void samples_free(samples *s) {
    free(s->at);
    *s = (samples){ 0 };
}
