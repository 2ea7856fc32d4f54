#include "engine/cli/golden.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

status golden_open(golden *out, const char *path, err *e) {
    golden g = { 0 };
    TRY(file_map_open(&g.map, path, e));
    g.mem = arena_new();
    status s = safetensors_read(&g.list, (str){ (const char *)g.map.data, g.map.bytes }, path, 0, g.mem, e);
    if (s != OK) {
        golden_close(&g);
        return s;
    }
    *out = g;
    return OK;
}

void golden_close(golden *g) {
    tensor_list_free(&g->list);
    arena_free(g->mem);
    file_map_close(&g->map);
    *g = (golden){ 0 };
}

static const void *find(const golden *g, tensor_type type, int64_t dims[2], const char *fmt, va_list ap) {
    char name[128];
    vsnprintf(name, sizeof name, fmt, ap);
    const tensor *t = tensor_list_find(&g->list, str_of(name));
    if (!t || t->type != type || t->n_dims < 1) return NULL;
    if (dims) {
        dims[0] = t->dim[0], dims[1] = 1;
        for (int i = 1; i < t->n_dims; i++) dims[1] *= t->dim[i];
    }
    return t->data;
}

const float *golden_f32(const golden *g, int64_t dims[2], const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const float *p = find(g, TENSOR_F32, dims, fmt, ap);
    va_end(ap);
    return p;
}

const int32_t *golden_i32(const golden *g, int64_t dims[2], const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const int32_t *p = find(g, TENSOR_I32, dims, fmt, ap);
    va_end(ap);
    return p;
}

void row_errors_add(row_errors *r, const float *found, const float *expected, int64_t cols) {
    double squares = 0.0, worst = 0.0;
    for (int64_t c = 0; c < cols; c++) {
        double d = fabs((double)found[c] - (double)expected[c]);
        squares += (double)expected[c] * (double)expected[c];
        worst = d > worst || isnan(d) ? d : worst;
        if (isnan(worst)) worst = INFINITY;
    }
    double rms = sqrt(squares / (double)cols);
    samples_add(&r->worst, worst / (rms > 0.0 ? rms : 1.0));
}
