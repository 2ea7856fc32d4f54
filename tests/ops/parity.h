/* tests/ops/parity.h - runs a case on an implementation and compares it with the reference, bit for bit.
 *
 * Each case runs twice, on two different poisons: what differs then was read before it was written. Scratch is poisoned
 * too, cut to what op_lane_scratch promises, and guarded. */
#ifndef TESTS_OPS_PARITY_H
#define TESTS_OPS_PARITY_H
#include "tests/ops/case.h"

enum { PARITY_LANES = 3 };

typedef struct parity {
    pool *pool[PARITY_LANES + 1]; /* by number of lanes, from 1 */
    bool quiet;                   /* count, and say nothing */
    int passed, failed, skipped;  /* runs of one case on one implementation */
} parity;

void parity_init(parity *p);
void parity_deinit(parity *p);

/* All implementations, lane counts and single rows of one case with `rows` rows. */
void parity_case(parity *p, const op_case *c, int32_t rows);

/* One function in place of an implementation; counts like one. */
void parity_function(parity *p, const op_case *c, int32_t rows, op_fn *fn, const char *name, int lanes);

/* Row counts of a case; returns their number. */
int parity_rows(const op_case *c, int32_t out[8]);
#endif
