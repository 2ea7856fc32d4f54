#include "kernels/upload.h"

enum { ALIGN = 256 }; /* of device_put_bytes */

status upload_bytes(upload *u, const void **p, size_t bytes) {
    if (!*p) return OK;
    u->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return u->on ? device_put_bytes(u->on, p, bytes, u->e) : OK;
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
    TRY(device_put_matrices(u->on, w, n, u->verify, u->e));
    if (u->progress) u->progress(u->arg, (float)u->bytes / (float)u->total);
    return OK;
}
