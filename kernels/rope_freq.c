#include "kernels/rope_freq.h"

#include "engine/base/status.h"
#include "kernels/fmath.h"

#include <math.h>

static const double TWO_PI = 6.283185307179586477;

typedef struct ramp {
    double low, high;
} ramp;

/* The (fractional) pair that turns `turns` times in the original context: theta^(2i / dim) = original / (2 pi turns).
 */
static double pair_of_turns(const rope_freq *f, double turns) {
    return f->dim * fm_log_d(f->original / (TWO_PI * turns)) / (2.0 * fm_log_d(f->theta));
}

static ramp find_ramp(const rope_freq *f) {
    double low = pair_of_turns(f, f->beta_fast), high = pair_of_turns(f, f->beta_slow);
    if (f->truncate) low = floor(low), high = ceil(high);
    low = fmax(low, 0.0);
    high = fmin(high, f->dim - 1.0);
    if (low == high) high += 0.001; /* a step, without a division by zero */
    return (ramp){ low, high };
}

/* Logarithm and exponential are those of fmath.h, so that a C library cannot change a bit of any angle. */
void rope_inv_freq(const rope_freq *f, float *inv_freq) {
    CHECK(f->dim > 0 && f->dim % 2 == 0);
    CHECK(f->theta > 1.0);
    CHECK(!f->yarn || (f->factor > 0.0 && f->original > 0.0 && f->beta_fast > 0.0 && f->beta_slow > 0.0));
    ramp r = f->yarn ? find_ramp(f) : (ramp){ 0.0, 1.0 };
    double log_theta = fm_log_d(f->theta);
    for (int32_t i = 0; i < f->dim / 2; i++) {
        double plain = fm_exp_d(-2.0 * i / f->dim * log_theta);
        double slow = f->yarn ? fmin(fmax((i - r.low) / (r.high - r.low), 0.0), 1.0) : 0.0;
        inv_freq[i] = (float)(f->yarn ? slow * plain / f->factor + (1.0 - slow) * plain : plain);
    }
}
