/* tests/simt/simt_fiber.cpp - stacks, the switch between them, and the orders in which fibers take turns.
 *
 * A fiber never ends: after a kernel's function has returned it stands at AT_END, and the next block of that place
 * continues it there with the next kernel. So a block needs no stack to be set up. */
#include <sys/mman.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include "tests/simt/simt_int.h"

struct simt_thread *simt_now;

__asm__(".text\n"
        ".p2align 5\n"
        ".globl simt_swap\n"
        ".type simt_swap, @function\n"
        "simt_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size simt_swap, .-simt_swap\n");

namespace simt {

/* Sanitizers make frames several times as large. */
static const size_t STACK = SIMT_ASAN || SIMT_TSAN ? 256 << 10 : 64 << 10;
static const size_t PAGE = 4096;

enum { ORDERS = 64 };
static uint8_t orders[ORDERS][LANES + 2];
static simt_order order_kind;
static uint64_t order_seed, order_count;

#if SIMT_TSAN
void *host_tsan;
#endif

static uint64_t random_next(uint64_t *state) { /* splitmix64, Steele et al. 2014 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

template <class T> static void arrange(T *order, uint32_t n, uint64_t *state) {
    for (uint32_t i = 0; i < n; i++) order[i] = (T)(order_kind == SIMT_REVERSED ? n - 1 - i : i);
    if (order_kind != SIMT_SHUFFLED) return;
    for (uint32_t i = n; i > 1; i--) std::swap(order[i - 1], order[random_next(state) % i]);
}

static void orders_make() {
    uint64_t state = order_seed;
    order_count = 0;
    for (auto &o : orders) {
        arrange(o, LANES, &state);
        memcpy(o + LANES, o, 2);
    }
}

const uint8_t *order_next(void) { return orders[order_count++ % ORDERS]; }

void order_of_blocks(std::vector<uint32_t> *order, uint32_t n) {
    uint64_t state = order_seed ^ ++order_count;
    order->resize(n);
    arrange(order->data(), n, &state);
}

void block_enter(block *b, fiber *first) {
    simt_now = first;
#if SIMT_TSAN
    host_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(first->tsan, __tsan_switch_to_fiber_no_sync);
#endif
    simt_swap(&b->host_sp, first->sp);
}

static char *map_pages(size_t bytes) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) die("no memory for %zu bytes of stacks or shared memory", bytes);
    return (char *)p;
}

/* Stack tops are spread over the sets of the caches; at equal distances they would all share a few. */
static void fiber_make(block *b, uint32_t i) {
    fiber *f = &b->fibers[i];
    char *stack = b->stacks + i * (STACK + PAGE);
    if (mprotect(stack, PAGE, PROT_NONE)) die("cannot protect the end of a stack");
    void **top = (void **)(stack + PAGE + STACK - i * 5 % 64 * 64);
    *--top = nullptr; /* as after a call: 8 below a multiple of 16 */
    *--top = (void *)fiber_main;
    for (int saved = 0; saved < 6; saved++) *--top = nullptr;
    f->sp = top;
    f->index = { i, 0, 0 };
    f->place = b;
    f->w = &b->warps[i / LANES];
    f->lane = (uint8_t)(i % LANES);
    f->copies = &b->copies[i];
    f->at = AT_END;
#if SIMT_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
}

static block *block_make() {
    block *b = new block();
    b->fibers = new fiber[MAX_THREADS]();
    b->copies = new copies[MAX_THREADS]();
    b->stacks = map_pages(MAX_THREADS * (STACK + PAGE));
    b->shared_end = map_pages(SHARED_MAX + PAGE) + SHARED_MAX;
    if (mprotect(b->shared_end, PAGE, PROT_NONE)) die("cannot protect the end of shared memory");
    for (uint32_t i = 0; i < MAX_WARPS; i++) b->warps[i].lanes = b->fibers + i * LANES;
    return b;
}

block *block_get(uint32_t place, uint32_t threads) {
    static block *places[PLACES];
    block *b = places[place];
    if (!b) b = places[place] = block_make();
    for (; b->n_fibers < threads; b->n_fibers++) fiber_make(b, b->n_fibers);
    return b;
}

const char *stack_end_of(const fiber *f) { return f->b()->stacks + (f - f->b()->fibers) * (STACK + PAGE); }

} // namespace simt

extern "C" void simt_set_order(simt_order kind, uint64_t seed) {
    simt::order_kind = kind;
    simt::order_seed = seed;
    simt::orders_make();
}

[[gnu::constructor]] static void order_at_first() { simt_set_order(SIMT_FORWARD, 0); }
