/* tests/simt/simt_copy.cpp - copies that are asked for now and happen at the wait that covers them, which is as late as
 * a device may be. */
#include <time.h>
#include "tests/simt/simt_int.h"

using namespace simt;

namespace simt {

static inline fiber *self() { return static_cast<fiber *>(simt_now); }

/* For ThreadSanitizer it is the waiting thread that reads and writes. */
static void copy_now(const copy &c) {
#if SIMT_TSAN
    __tsan_read_range((void *)c.from, c.bytes);
    __tsan_write_range(c.to, c.bytes);
#endif
    memcpy(c.to, c.from, c.bytes);
}

void copies_end(fiber *f) {
    f->has_copies = false;
    f->copies->group_end.clear();
    if (!f->copies->list.empty())
        die("%zu asynchronous copies were never waited for; the first goes to byte %ld of shared memory",
            f->copies->list.size(), (long)((char *)f->copies->list[0].to - f->b()->shared));
}

} // namespace simt

void simt_copy_async(void *shared, const void *global, uint32_t bytes) {
    fiber *f = self();
    if ((uintptr_t)global % bytes) simt_misaligned(global, bytes);
    if ((uintptr_t)shared % bytes) simt_misaligned(shared, bytes);
    long at = (char *)shared - f->b()->shared;
    if (at < 0 || at + (long)bytes > (long)f->b()->shared_bytes)
        die("an asynchronous copy of %u bytes goes to byte %ld of %u bytes of shared memory", bytes, at,
            f->b()->shared_bytes);
    *f->b()->streamed += bytes;
    f->has_copies = true;
    f->copies->list.push_back({ shared, global, bytes });
}

void simt_copy_commit() {
    fiber *f = self();
    f->has_copies = true;
    f->copies->group_end.push_back((uint32_t)f->copies->list.size());
}

void simt_copy_wait(int groups) {
    copies *c = self()->copies;
    size_t n = c->group_end.size();
    if (n <= (size_t)groups) return;
    size_t done = n - (size_t)groups;
    uint32_t end = c->group_end[done - 1];
    for (uint32_t i = 0; i < end; i++) copy_now(c->list[i]);
    c->list.erase(c->list.begin(), c->list.begin() + end);
    c->group_end.erase(c->group_end.begin(), c->group_end.begin() + (long)done);
    for (uint32_t &e : c->group_end) e -= end;
}

int64_t simt_clock_ns() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}
