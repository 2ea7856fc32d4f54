#include "graphs/work.h"

#include "engine/base/status.h"

enum { ALIGN = 64 };

/* Addresses handed out while measuring: not NULL (absent), never dereferenced. */
static char *const NOWHERE = (char *)(uintptr_t)ALIGN;

view work_take(work *w, const char *name, int32_t rows, int32_t cols, dtype type) {
    int64_t stride = ((int64_t)cols * dtype_bits(type) / 8 + ALIGN - 1) / ALIGN * ALIGN;
    size_t bytes = (size_t)stride * (size_t)rows;
    view v = { (w->base ? w->base : NOWHERE) + w->used, stride, rows, cols, type };
    CHECK(w->n < WORK_NAMES);
    w->view[w->n].name = name, w->view[w->n].at = w->used, w->view[w->n].bytes = bytes;
    w->n++;
    w->used += bytes;
    return v;
}

view view_cols(view v, int32_t cols) {
    CHECK(cols <= v.cols);
    v.cols = cols;
    return v;
}
