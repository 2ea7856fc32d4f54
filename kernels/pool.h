/* kernels/pool.h - the compute lanes of the CPU backend.
 *
 * Lane 0 is the thread that calls pool_run; the others belong to the pool. During a run lanes meet at barriers by
 * spinning; between runs they spin a little, then sleep on a futex. All lanes compute with flush-to-zero and
 * denormals-are-zero; the caller's own setting is restored when pool_run returns. */
#ifndef KERNELS_POOL_H
#define KERNELS_POOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/status.h"

typedef struct pool pool;

typedef struct lane {
    int id, n;
    struct pool *pool;
    void *scratch; /* private, 64-byte aligned; contents do not survive an op */
    size_t scratch_bytes;
} lane;

status pool_open(pool **out, int lanes, err *e);
void pool_close(pool *p);
int pool_lanes(const pool *p);

/* Makes sure that every lane has this much scratch. Not during a run. */
status pool_reserve(pool *p, size_t scratch_bytes, err *e);

/* Runs fn on every lane and returns when all are done. alone: on the caller only, as in a pool of one lane; the others
 * sleep on. */
void pool_run(pool *p, bool alone, void (*fn)(void *arg, const lane *ln), void *arg);

/* All lanes of a run meet here; what was written before is visible after. */
void pool_barrier(const lane *ln);

/* The share of lane ln of `total` items in units of `unit`: [*from, *to). Depends on total, unit and the lane count
 * alone. */
static inline void lane_share(const lane *ln, int64_t total, int64_t unit, int64_t *from, int64_t *to) {
    int64_t units = (total + unit - 1) / unit;
    int64_t a = units * ln->id / ln->n * unit, b = units * (ln->id + 1) / ln->n * unit;
    *from = a < total ? a : total;
    *to = b < total ? b : total;
}
#endif
