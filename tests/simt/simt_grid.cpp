/* tests/simt/simt_grid.cpp - kernels in a row. Of a kernel that may overlap the one before it, the first blocks run up
 * to their grid_wait before that one begins: what they read too early is old, what they write too early is overwritten
 * or seen. */
#include "tests/simt/simt_int.h"

namespace simt {

/* Two kernels are under way at a time: the one that runs and the one whose first blocks have begun. */
struct running : grid {
    uint32_t places;  /* the first of its early blocks */
    uint32_t n_early; /* blocks that have begun */
    bool ended[EARLY_BLOCKS];
};

static void grid_begin(running *r, const simt_launch_args *a) {
    r->a = a;
    r->stats = stats_of(a->name);
    r->stats->launches++;
    totals.launches++;
    r->waited = false;
    r->n_early = 0;
    order_of_blocks(&r->order, a->x * a->y);
}

static void grid_early(running *r) {
    for (uint32_t n = 0; n < EARLY_BLOCKS && n < r->order.size(); n++) {
        block *b = block_get(r->places + n, r->a->threads);
        block_begin(b, r, r->order[n], true);
        r->ended[n] = block_run(b);
        r->n_early++;
    }
}

static void grid_finish(running *r) {
    for (uint32_t n = 0; n < r->n_early; n++) {
        block *b = block_get(r->places + n, r->a->threads);
        if (r->ended[n]) continue;
        block_unpark(b);
        block_run(b);
    }
    block *b = block_get(0, r->a->threads);
    for (size_t n = r->n_early; n < r->order.size(); n++) {
        block_begin(b, r, r->order[n], false);
        block_run(b);
    }
    if (r->a->overlap && !r->waited)
        die("kernel %s was launched to overlap the one before it and never calls grid_wait", r->a->name);
}

void kernels_run(const simt_launch_args *const *list, size_t n) {
    static running two[2];
    for (uint32_t i = 0; i < 2; i++) two[i].places = 1 + i * EARLY_BLOCKS;
    guard_open();
    for (size_t i = 0; i < n; i++) {
        if (i == 0) grid_begin(&two[0], list[0]);
        if (i + 1 < n) {
            running *next = &two[(i + 1) % 2];
            grid_begin(next, list[i + 1]);
            if (next->a->overlap) grid_early(next);
        }
        grid_finish(&two[i % 2]);
    }
    guard_close();
}

cudaError_t launch_check(const simt_launch_args *a) {
    if (a->x == 0 || a->y == 0 || a->y > 65535 || a->threads == 0 || a->threads > MAX_THREADS)
        return cudaErrorInvalidConfiguration;
    if (a->threads % LANES) die("kernel %s is launched with %u threads, no multiple of 32", a->name, a->threads);
    return a->shared > shared_limit(a->kernel) ? cudaErrorInvalidValue : cudaSuccess;
}

} // namespace simt
