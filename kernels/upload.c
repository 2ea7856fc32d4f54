#include "kernels/upload.h"

enum { ALIGN = 256 }; /* of device_put_bytes */

/* Another one for everything that is sent. */
static uint32_t next_seed(const upload *u) { return u->seed + (uint32_t)(u->bytes / ALIGN); }

status upload_bytes(upload *u, const void **p, size_t bytes) {
    if (!*p && !u->seed) return OK;
    u->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!u->on) return OK;
    return *p ? device_put_bytes(u->on, p, bytes, u->e) : device_seed_bytes(u->on, p, bytes, next_seed(u), u->e);
}

status upload_bf16(upload *u, const bf16 **p, int32_t n) {
    const void *there = *p;
    TRY(upload_bytes(u, &there, (size_t)n * sizeof **p));
    *p = there;
    return OK;
}

status upload_f32(upload *u, const float **p, int32_t n) {
    const void *there = *p;
    TRY(upload_bytes(u, &there, (size_t)n * sizeof **p));
    *p = there;
    return OK;
}

status upload_matrices(upload *u, weight *w, int32_t n) {
    if (n == 0 || w[0].n == 0) return OK;
    for (int32_t i = 0; i < n; i++) u->bytes += device_matrix_bytes(&w[i]);
    if (!u->on) return OK;
    if (u->seed) return device_seed_matrices(u->on, w, n, next_seed(u), u->e);
    TRY(device_put_matrices(u->on, w, n, u->verify, u->e));
    if (u->progress) u->progress(u->arg, (float)u->bytes / (float)u->total);
    return OK;
}
