/* tests/simt/simt_block.cpp - how the threads of a block take turns and meet.
 *
 * A warp has rounds: in one round each of its lanes runs, in the round's order, up to its next stop. If all 32 then
 * stand at one collective, the next round begins at once; if all stand at block_sync, or have ended, the next warp has
 * its turn. The last lane of a round decides, so nothing but lanes is ever switched to. Words of an exchange lie in one of two halves:
 * a lane can reach the next exchange before its neighbours have read theirs, but not the one after that. */
#include "tests/simt/simt_int.h"

namespace simt {

static void round_begin(warp *w, uint32_t lanes) {
    w->pos = 0;
    w->run = lanes;
    w->order = order_next();
}

static void meeting_begin(warp *w) {
    w->arrived = w->mixed = 0;
    round_begin(w, ~0u);
}

static void warps_arrange(block *b) {
    const uint8_t *order = order_next();
    uint32_t n = 0;
    for (uint32_t i = 0; i < MAX_WARPS; i++)
        if (order[i] < b->n) b->warp_order[n++] = order[i];
    b->at = b->at_sync = b->at_grid = b->ended = 0;
}

/* A round of the warp is over, and it cannot go on alone. False: it never can. */
static bool warp_settle(block *b, const warp *w) {
    if (w->parked) b->at_grid++;
    else if (w->ended == LANES) b->ended++;
    else if (w->arrived == LANES && !w->mixed && w->kind == AT_BLOCK_SYNC) b->at_sync++;
    else return false;
    return true;
}

/* The fiber whose turn it is. NULL: the block has ended, or waits for the grid in front of it. */
static fiber *turn_next(block *b) {
    for (;;) {
        warp *w = &b->warps[b->warp_order[b->at]];
        while (w->pos < LANES) {
            uint32_t lane = w->order[w->pos++];
            if (w->run >> lane & 1) return &w->lanes[lane];
        }
        if (w->arrived == LANES && !w->mixed && w->kind < AT_BLOCK_SYNC) {
            if (w->kind == AT_MMA) mma_product(w);
            meeting_begin(w);
            continue;
        }
        if (!warp_settle(b, w)) die_stuck(b);
        if (++b->at < b->n) continue;
        if (b->ended == b->n || b->at_grid) return nullptr;
        if (b->at_sync != b->n) die_stuck(b);
        for (uint32_t i = 0; i < b->n; i++) meeting_begin(&b->warps[i]);
        warps_arrange(b);
    }
}

/* To NULL: back to who called block_enter. */
static inline void fiber_switch(fiber *from, fiber *to) {
    simt_now = to;
#if SIMT_TSAN
    __tsan_switch_to_fiber(to ? to->tsan : host_tsan, __tsan_switch_to_fiber_no_sync);
#endif
    simt_swap(&from->sp, to ? to->sp : from->b()->host_sp);
}

static inline void stop(fiber *f, stop_kind at, const void *site) {
    f->at = at;
    f->site = site;
    warp *w = f->w;
    fiber *next;
    if (w->pos < LANES && w->run == ~0u) {
        const uint8_t *o = w->order + w->pos++;
        next = &w->lanes[o[0]];
        __builtin_prefetch(w->lanes[o[1]].sp);
        __builtin_prefetch(&w->lanes[o[2]]);
    } else {
        next = turn_next(f->b());
    }
    if (next != f) fiber_switch(f, next);
}

static inline void meet(fiber *f, stop_kind at, const void *site) {
    warp *w = f->w;
    if (w->arrived++ == 0) w->kind = at;
    else w->mixed |= w->kind ^ at;
    stop(f, at, site);
}

static inline fiber *self() { return static_cast<fiber *>(simt_now); }

void fiber_main(void) {
    fiber *f = self();
    for (;;) {
        block *b = f->b();
        const simt_launch_args *a = b->g->a;
        tsan_acquire(&b->gate_in);
        a->call(a->kernel, a->image);
        if (f->has_copies) copies_end(f);
        tsan_release(&b->gate_out);
        f->w->ended++;
        stop(f, AT_END, nullptr);
    }
}

/* Shared memory ends at a page that cannot be touched, apart from the bytes that fill up the last 16. */
static void shared_begin(block *b, uint32_t bytes) {
    b->shared = b->shared_end - (bytes + 15) / 16 * 16;
#if SIMT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(b->shared_end - SHARED_MAX, SHARED_MAX);
#endif
    memset(b->shared, 0xFF, (size_t)(b->shared_end - b->shared));
#if SIMT_ASAN
    ASAN_POISON_MEMORY_REGION(b->shared_end - SHARED_MAX, SHARED_MAX - (size_t)(b->shared_end - b->shared));
    ASAN_POISON_MEMORY_REGION(b->shared + bytes, (size_t)(b->shared_end - b->shared - bytes));
#endif
    b->shared_bytes = bytes;
}

static void shared_check(const block *b) {
#if !SIMT_ASAN
    for (const char *p = b->shared + b->shared_bytes; p < b->shared_end; p++)
        if (*p != (char)0xFF)
            die("kernel %s, block (%u, %u) wrote behind its %u bytes of shared memory, at byte %ld", b->g->a->name,
                b->index.x, b->index.y, b->shared_bytes, (long)(p - b->shared));
#endif
    (void)b;
}

void block_begin(block *b, grid *g, uint32_t index, bool early) {
    const simt_launch_args *a = g->a;
    b->g = g;
    b->index = { index % a->x, index / a->x, 0 };
    b->dim = dim3(a->threads);
    b->grid_dim = dim3(a->x, a->y);
    b->streamed = &g->stats->streamed;
    b->early = early;
    b->n = a->threads / LANES;
    for (uint32_t i = 0; i < b->n; i++) {
        warp *w = &b->warps[i];
        w->ended = w->parked = 0;
        meeting_begin(w);
    }
    warps_arrange(b);
    shared_begin(b, a->shared);
    g->stats->blocks++;
}

bool block_run(block *b) {
    tsan_release(&b->gate_in);
    block_enter(b, turn_next(b));
    tsan_acquire(&b->gate_out);
    if (b->ended != b->n) return false;
    shared_check(b);
    return true;
}

/* The lanes at grid_wait go on; the others stay where they are. */
void block_unpark(block *b) {
    b->early = false;
    warps_arrange(b);
    for (uint32_t i = 0; i < b->n; i++) {
        warp *w = &b->warps[i];
        if (w->parked) round_begin(w, w->parked);
        w->parked = 0;
    }
}

} // namespace simt

using namespace simt;

void simt_block_sync() {
    fiber *f = self();
    char *sync = &f->b()->sync[f->b_turn ^= 1];
    tsan_release(sync);
    meet(f, AT_BLOCK_SYNC, __builtin_return_address(0));
    tsan_acquire(sync);
}

void simt_warp_sync() {
    fiber *f = self();
    char *sync = &f->w->sync[f->w_turn ^= 1];
    tsan_release(sync);
    meet(f, AT_WARP_SYNC, __builtin_return_address(0));
    tsan_acquire(sync);
}

static inline uint64_t exchange(stop_kind at, uint64_t v, uint32_t lane, const void *site) {
    fiber *f = self();
    uint64_t *words = f->w->words[f->w_turn ^= 1];
    words[f->lane] = v;
    meet(f, at, site);
    return words[lane];
}

uint64_t simt_exchange_xor(uint64_t v, int mask) {
    return exchange(AT_XOR, v, (self()->lane ^ (uint32_t)mask) % LANES, __builtin_return_address(0));
}

uint64_t simt_exchange_from(uint64_t v, int lane) {
    return exchange(AT_FROM, v, (uint32_t)lane % LANES, __builtin_return_address(0));
}

uint32_t simt_warp_vote(bool v) {
    fiber *f = self();
    uint64_t *words = f->w->words[f->w_turn ^= 1];
    words[f->lane] = v;
    meet(f, AT_VOTE, __builtin_return_address(0));
    uint32_t bits = 0;
    for (uint32_t i = 0; i < LANES; i++) bits |= (uint32_t)words[i] << i;
    return bits;
}

void simt_mma_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    fiber *f = self();
    f->w->mma[f->lane] = { a, b, d };
    meet(f, AT_MMA, __builtin_return_address(0));
}

void simt_grid_wait() {
    fiber *f = self();
    f->b()->g->waited = true;
    if (!f->b()->early) return;
    f->w->parked |= 1u << f->lane;
    stop(f, AT_GRID_WAIT, __builtin_return_address(0));
    tsan_acquire(&f->b()->gate_in);
}
