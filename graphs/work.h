/* graphs/work.h - the activations of a step: named views carved from one block. A step describes itself twice: once to
 * measure (the block is absent and views have addresses that nobody may touch), once to be recorded. */
#ifndef GRAPHS_WORK_H
#define GRAPHS_WORK_H
#include "kernels/rows.h"

enum { WORK_NAMES = 128 };

typedef struct work {
    char *base; /* NULL while measuring */
    size_t used;
    int n; /* named views, for the plan's text */
    struct {
        const char *name;
        size_t at, bytes;
    } view[WORK_NAMES];
} work;

/* Rows are 64-byte aligned. `name` is a literal. */
view work_take(work *w, const char *name, int32_t rows, int32_t cols, dtype type);
/* The first cols columns of v, with its stride. */
view view_cols(view v, int32_t cols);
#endif
