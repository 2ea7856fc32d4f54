/* engine/cli/golden.h - reference files as named FP32 / I32 arrays, and the error statistics of a comparison. */
#ifndef ENGINE_CLI_GOLDEN_H
#define ENGINE_CLI_GOLDEN_H
#include "engine/base/file.h"
#include "engine/cli/samples.h"
#include "engine/load/safetensors.h"

typedef struct golden {
    file_map map;
    tensor_list list;
    arena *mem;
} golden;

status golden_open(golden *out, const char *path, err *e);
void golden_close(golden *g);
/* NULL: no tensor of this name; dims (may be NULL) takes the first two dimensions, 1 for missing ones. The name is
 * printf'd. */
const float *golden_f32(const golden *g, int64_t dims[2], const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const int32_t *golden_i32(const golden *g, int64_t dims[2], const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Errors of rows, each in units of the reference row's RMS. */
typedef struct row_errors {
    samples worst; /* per row: its worst element */
    size_t left_out;
} row_errors;

void row_errors_add(row_errors *r, const float *found, const float *expected, int64_t cols);
#endif
