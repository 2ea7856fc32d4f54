/* tests/simt/simt_report.cpp - the last words of the process: what is wrong, in which kernel, block and thread, at which
 * line. */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/simt/simt_int.h"

namespace simt {

static const char *const stop_names[] = { "?",         "warp_sync",  "warp_xor",  "warp_from", "warp_vote",
                                          "mma_16x8x16", "block_sync", "grid_wait", "its end" };

/* Prints the line of a call: the innermost one that is not in a header of primitives. addr2line reads it from the debug
 * information; without it there is the offset in the program. */
static void print_line(const void *site) {
    Dl_info info;
    if (!site || !dladdr(site, &info)) return;
    unsigned long offset = (unsigned long)((const char *)site - (const char *)info.dli_fbase);
    char command[1024], line[1024], shown[1024] = "";
    snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%lx 2>/dev/null", info.dli_fname, offset - 1);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, " \n")] = 0;
        if (line[0] != '?') snprintf(shown, sizeof shown, "%s", line);
        if (!strstr(line, "/prims.cuh:") && !strstr(line, "/mma.cuh:") && !strstr(line, "/simt.h:")) break;
    }
    if (f) pclose(f);
    if (shown[0]) fprintf(stderr, " at %s", shown);
    else fprintf(stderr, " at %s+0x%lx", info.dli_fname, offset);
}

static void print_thread(const fiber *f) {
    const block *b = f->b();
    fprintf(stderr, "  in kernel %s, block (%u, %u), thread %u", b->g->a->name, b->index.x, b->index.y, f->index.x);
}

void die(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "simt: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    if (simt_now) {
        print_thread(static_cast<fiber *>(simt_now));
        fprintf(stderr, "\n");
    }
    abort();
}

/* Threads first .. end - 1 stand at the same place. */
static void print_group(const fiber *first, uint32_t n) {
    uint32_t from = first->index.x;
    fprintf(stderr, n == 1 ? "  thread %u" : "  threads %u-%u", from, from + n - 1);
    if (first->at == AT_END) fprintf(stderr, n == 1 ? " has ended" : " have ended");
    else fprintf(stderr, n == 1 ? " waits in %s" : " wait in %s", stop_names[first->at]);
    print_line(first->site);
    fprintf(stderr, "\n");
}

void die_stuck(const block *b) {
    fprintf(stderr, "simt: a meeting that cannot complete, in kernel %s, block (%u, %u)\n", b->g->a->name, b->index.x,
            b->index.y);
    uint32_t threads = b->n * LANES;
    for (uint32_t i = 0, n; i < threads; i += n) {
        const fiber *f = &b->fibers[i];
        for (n = 1; i + n < threads && f[n].at == f->at && f[n].site == f->site;) n++;
        print_group(f, n);
    }
    abort();
}

#if !SIMT_ASAN && !SIMT_TSAN
/* Explains an address that nobody may touch, then lets the process die of it. */
static void crash_explain(int signal, siginfo_t *info, void *) {
    const char *p = (const char *)info->si_addr;
    size_t offset;
    if (device_owns(p, &offset) && !simt_now)
        fprintf(stderr, "simt: host code touches device memory, byte %zu of it\n", offset);
    if (simt_now) {
        fiber *f = static_cast<fiber *>(simt_now);
        long behind = (long)(p - f->b()->shared);
        if (p >= f->b()->shared_end && p < f->b()->shared_end + 4096)
            fprintf(stderr, "simt: byte %ld of %u bytes of shared memory\n", behind, f->b()->shared_bytes);
        else if (p >= stack_end_of(f) && p < stack_end_of(f) + 4096) fprintf(stderr, "simt: a thread's stack is full\n");
        else fprintf(stderr, "simt: an illegal address, %p\n", (const void *)p);
        print_thread(f);
        fprintf(stderr, "\n");
    }
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
}

[[gnu::constructor]] static void crash_reports() {
    static char stack[64 << 10];
    stack_t s = {};
    s.ss_sp = stack;
    s.ss_size = sizeof stack;
    struct sigaction a = {};
    a.sa_sigaction = crash_explain;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaltstack(&s, nullptr);
    sigaction(SIGSEGV, &a, nullptr);
}
#endif

} // namespace simt

void simt_misaligned(const void *p, uint32_t bytes) {
    simt::die("a load or copy of %u bytes from %p, which is not aligned to them", bytes, p);
}
