/* tests/simt/simt_int.h - the shim's own structures. */
#ifndef TESTS_SIMT_SIMT_INT_H
#define TESTS_SIMT_SIMT_INT_H
#include <mutex>
#include <vector>
#include "tests/simt/simt.h"
#include "tests/simt/simt_control.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define SIMT_ASAN 1
#else
#define SIMT_ASAN 0
#endif
/* The shim itself is compiled without -fsanitize=thread, so the build says so (Makefile). */
#ifndef SIMT_TSAN
#define SIMT_TSAN 0
#endif
#if SIMT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace simt {

enum { LANES = 32, MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / LANES, EARLY_BLOCKS = 2 };
/* One for the blocks that run, and two sets of early ones: of the kernel that runs and of the next. */
enum { PLACES = 1 + 2 * EARLY_BLOCKS, SHARED_MAX = 256 << 10 };

/* Where a thread stands. The meetings of a warp come first, then those of a block, then the rest. */
enum stop_kind { AT_WARP_SYNC = 1, AT_XOR, AT_FROM, AT_VOTE, AT_MMA, AT_BLOCK_SYNC, AT_GRID_WAIT, AT_END };

struct copy {
    void *to;
    const void *from;
    uint32_t bytes;
};

struct block;
struct warp;

struct copies {
    std::vector<copy> list; /* under way, the oldest first */
    std::vector<uint32_t> group_end; /* of each committed group, as an index into list */
};

/* What a switch touches lies in one cache line. */
struct alignas(64) fiber : simt_thread {
    void *sp; /* of a fiber that does not run */
    warp *w;
    const void *site; /* the return address of the call that stopped it */
    uint8_t lane;
    uint8_t at; /* stop_kind */
    /* They flip at each meeting of the warp, and of the block: which half of its words and addresses is used. */
    uint8_t w_turn, b_turn;
    bool has_copies;
    struct copies *copies;
#if SIMT_TSAN
    void *tsan;
#endif
    block *b() const;
};
static_assert(SIMT_TSAN || sizeof(fiber) == 64, "one cache line");

struct warp {
    uint32_t pos;     /* next index into order */
    uint32_t run;     /* lanes that have a turn in this round */
    uint32_t arrived; /* lanes at a meeting of kind `kind` ... */
    uint32_t kind;
    uint32_t mixed;  /* ... unless this is set */
    uint32_t ended;  /* lanes */
    uint32_t parked; /* lanes at grid_wait, as bits */
    const uint8_t *order;
    fiber *lanes;
    uint64_t words[2][LANES];
    struct {
        const uint32_t *a, *b;
        float *d;
    } mma[LANES];
    char sync[2]; /* addresses that ThreadSanitizer's events go to */
};

struct kernel_stats;

/* A kernel that is under way. */
struct grid {
    const simt_launch_args *a;
    kernel_stats *stats;
    bool waited;                /* a thread called grid_wait */
    std::vector<uint32_t> order; /* of blocks */
};

/* A place where a block can run: stacks, shared memory, state. Reused from block to block. */
struct block : simt_place {
    grid *g;
    bool early;   /* runs before the kernel in front of it: grid_wait stops it */
    uint32_t n;   /* warps */
    uint32_t at;  /* index into warp_order */
    uint32_t at_sync, at_grid, ended; /* warps that stopped so in this round */
    uint8_t warp_order[MAX_WARPS];
    warp warps[MAX_WARPS];
    fiber *fibers;
    struct copies *copies; /* of each */
    uint32_t n_fibers;   /* that were made */
    char *stacks;        /* MAX_THREADS of them */
    char *shared_end;
    uint32_t shared_bytes;
    void *host_sp;
    /* Addresses that ThreadSanitizer's events go to: block_sync; from the host to the block, and back. */
    char sync[2], gate_in, gate_out;
};

inline block *fiber::b() const { return static_cast<block *>(place); }

/* simt_fiber.cpp */
block *block_get(uint32_t place, uint32_t threads);
/* Saves what a call preserves, leaves the stack pointer in *from, continues where `to` was left. */
extern "C" void simt_swap(void **from, void *to);
#if SIMT_TSAN
extern void *host_tsan; /* of who called block_enter */
#endif
void block_enter(block *b, fiber *first); /* returns when the block has ended or is parked */
/* All lanes, and the first two again. */
const uint8_t *order_next(void);
void order_of_blocks(std::vector<uint32_t> *order, uint32_t n);
const char *stack_end_of(const fiber *f); /* the page that a stack must not reach */

/* simt_block.cpp */
void block_begin(block *b, grid *g, uint32_t index, bool early);
bool block_run(block *b); /* true when it has ended, false when it is parked at grid_wait */
void block_unpark(block *b);
[[noreturn]] void fiber_main(void); /* where the first switch to a fiber arrives */
void mma_product(warp *w);

/* simt_copy.cpp */
void copies_end(fiber *f);

/* simt_grid.cpp: runs kernels in a row, none of which waits for the host. */
void kernels_run(const simt_launch_args *const *list, size_t n);
cudaError_t launch_check(const simt_launch_args *a);
uint32_t shared_limit(const void *kernel); /* that cudaFuncSetAttribute allowed; 48 KiB at first */

/* simt_memory.cpp */
void guard_open(void); /* device memory may be touched until guard_close(); they nest */
void guard_close(void);
cudaError_t copy_check(const void *to, const void *from, size_t n, cudaMemcpyKind kind);
cudaError_t fill_check(const void *to, size_t n);
void device_reset(void);
/* Whether the address lies in device memory; *offset from its beginning. */
bool device_owns(const void *p, size_t *offset);

/* simt_device.cpp: entry of every runtime function. One at a time; `error` is what it must return at once. */
extern std::recursive_mutex lock;
struct entry {
    std::lock_guard<std::recursive_mutex> hold;
    cudaError_t error;
    explicit entry(const char *api);
    cudaError_t done(cudaError_t e) const; /* keeps the error for cudaGetLastError */
};
/* The error of what must not be called while this thread captures; it also ends the capture. */
cudaError_t capture_forbids(void);
extern simt_totals totals;
size_t device_memory(void);

/* simt_count.cpp */
struct kernel_stats {
    const char *name;
    uint64_t launches, blocks, streamed;
};
kernel_stats *stats_of(const char *name);

/* simt_report.cpp: a message for a person with the kernel, the block, the thread and its line, then abort. */
[[noreturn]] void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void die_stuck(const block *b);

static inline void tsan_acquire([[maybe_unused]] void *p) {
#if SIMT_TSAN
    __tsan_acquire(p);
#endif
}
static inline void tsan_release([[maybe_unused]] void *p) {
#if SIMT_TSAN
    __tsan_release(p);
#endif
}
} // namespace simt
#endif
