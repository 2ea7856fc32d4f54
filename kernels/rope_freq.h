/* kernels/rope_freq.h - inverse frequencies of the rotary embedding, plain and YaRN, computed once at open.
 *
 * Pair i of `dim` rotated elements turns by inv_freq[i] per position. Plain: theta^(-2i / dim). YaRN (Peng et al.,
 * "YaRN: efficient context window extension", 2023) stretches the slow pairs: those that turn less than beta_slow times
 * in the original context are divided by `factor`, those that turn more than beta_fast times stay, a ramp joins the
 * two. */
#ifndef KERNELS_ROPE_FREQ_H
#define KERNELS_ROPE_FREQ_H
#include <stdbool.h>
#include <stdint.h>

typedef struct rope_freq {
    double theta;
    int32_t dim; /* rotated elements of a head, even */
    bool yarn;   /* false: the fields below are not read */
    double factor, beta_fast, beta_slow;
    double original; /* positions of the context before stretching */
    bool truncate;   /* the ends of the ramp are whole numbers */
} rope_freq;

void rope_inv_freq(const rope_freq *f, float *inv_freq); /* [dim / 2] */
#endif
