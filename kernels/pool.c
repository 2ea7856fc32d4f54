/* Lanes meet twice a run: at its start (a generation counter, slept on through a futex) and at barriers (a counter and
 * a phase, spun on). Static shares make work even, so a barrier is short; a lane whose processor was taken away by
 * another program must not make the rest burn theirs, hence the yield after a bounded spin. */
#include "kernels/pool.h"

#include "engine/base/mem.h"
#include "engine/base/thread.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    LINE = 64,
    SPIN_BARRIER = 4000, /* pauses before yielding, about 50 us */
    SPIN_IDLE = 4000,    /* pauses before sleeping between runs */
    YIELD_IDLE = 20,
};

struct pool {
    int lanes;
    void (*fn)(void *arg, const lane *ln);
    void *arg;
    lane *lane;
    thread **thread;                            /* of lanes 1.. */
    _Alignas(LINE) _Atomic uint32_t generation; /* odd and even alike: one more per run */
    _Atomic uint32_t sleepers;
    _Atomic bool closing;
    _Alignas(LINE) _Atomic uint32_t arrived;
    _Alignas(LINE) _Atomic uint32_t phase;
};

static unsigned flush_subnormals(void) {
#if defined(__SSE2__)
    unsigned old = _mm_getcsr();
    _mm_setcsr(old | 0x8040); /* flush to zero, denormals are zero */
    return old;
#else
    return 0;
#endif
}

static void restore_subnormals(unsigned old) {
#if defined(__SSE2__)
    _mm_setcsr(old);
#else
    (void)old;
#endif
}

void pool_barrier(const lane *ln) {
    pool *p = ln->pool;
    if (ln->n == 1) return;
    uint32_t phase = atomic_load_explicit(&p->phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&p->arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)p->lanes) {
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&p->phase, phase + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&p->phase, memory_order_acquire) == phase; spins++) {
        if (spins < SPIN_BARRIER)
            cpu_relax();
        else
            sched_yield();
    }
}

/* Waits for a generation other than `seen`; returns it. */
static uint32_t wait_for_run(pool *p, uint32_t seen) {
    for (int i = 0; i < SPIN_IDLE; i++) {
        uint32_t g = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (g != seen) return g;
        cpu_relax();
    }
    for (int i = 0; i < YIELD_IDLE; i++) {
        uint32_t g = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (g != seen) return g;
        sched_yield();
    }
    atomic_fetch_add(&p->sleepers, 1);
    uint32_t g;
    while ((g = atomic_load(&p->generation)) == seen) futex_wait(&p->generation, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return g;
}

static void lane_main(void *arg) {
    const lane *ln = arg;
    pool *p = ln->pool;
    flush_subnormals();
    uint32_t seen = 0;
    for (;;) {
        seen = wait_for_run(p, seen);
        if (atomic_load(&p->closing)) return;
        p->fn(p->arg, ln);
        pool_barrier(ln);
    }
}

static void announce(pool *p) {
    atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers)) futex_wake_all(&p->generation);
}

status pool_open(pool **out, int lanes, err *e) {
    CHECK(lanes >= 1);
    pool *p = aligned_alloc(LINE, sizeof *p);
    CHECK(p != NULL);
    *p = (pool){ .lanes = lanes };
    p->lane = xalloc((size_t)lanes * sizeof *p->lane);
    p->thread = xalloc((size_t)lanes * sizeof(thread *));
    for (int i = 0; i < lanes; i++) p->lane[i] = (lane){ .id = i, .n = lanes, .pool = p };
    for (int i = 1; i < lanes; i++) {
        char name[16];
        snprintf(name, sizeof name, "lane-%d", i % 1000);
        status s = thread_start(&p->thread[i], name, lane_main, &p->lane[i], e);
        if (s != OK) {
            pool_close(p);
            return s;
        }
    }
    *out = p;
    return OK;
}

void pool_close(pool *p) {
    if (!p) return;
    atomic_store(&p->closing, true);
    announce(p);
    for (int i = 1; i < p->lanes; i++) thread_join(p->thread[i]);
    for (int i = 0; i < p->lanes; i++) block_free(p->lane[i].scratch, p->lane[i].scratch_bytes);
    free(p->lane);
    free(p->thread);
    free(p);
}

int pool_lanes(const pool *p) { return p->lanes; }

status pool_reserve(pool *p, size_t scratch_bytes, err *e) {
    for (int i = 0; i < p->lanes; i++) {
        lane *ln = &p->lane[i];
        if (ln->scratch_bytes >= scratch_bytes) continue;
        void *fresh;
        TRY(try_block(&fresh, scratch_bytes, "scratch of a compute lane", e));
        block_free(ln->scratch, ln->scratch_bytes);
        ln->scratch = fresh;
        ln->scratch_bytes = scratch_bytes;
    }
    return OK;
}

void pool_run(pool *p, bool alone, void (*fn)(void *arg, const lane *ln), void *arg) {
    unsigned old = flush_subnormals();
    if (alone || p->lanes == 1) {
        lane self = p->lane[0];
        self.n = 1;
        fn(arg, &self);
    } else {
        p->fn = fn;
        p->arg = arg;
        announce(p);
        fn(arg, &p->lane[0]);
        pool_barrier(&p->lane[0]);
    }
    restore_subnormals(old);
}
