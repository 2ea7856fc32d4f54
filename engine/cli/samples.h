/* engine/cli/samples.h - measured numbers and their order. A zeroed set is empty. */
#ifndef ENGINE_CLI_SAMPLES_H
#define ENGINE_CLI_SAMPLES_H
#include <stddef.h>

typedef struct samples {
    double *at;
    size_t n, cap;
} samples;

void samples_add(samples *s, double v);
void samples_sort(samples *s); /* rising */
double samples_share(const samples *s,
                     double share); /* of a sorted set: share 0 the least, 1 the largest; 0 when empty */
double samples_median(samples *s);  /* sorts; the upper one of two; 0 when empty */
void samples_free(samples *s);
#endif
