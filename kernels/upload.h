/* kernels/upload.h - sends the weights of a model to a device, one after the other; the same list first counts them. */
#ifndef KERNELS_UPLOAD_H
#define KERNELS_UPLOAD_H
#include "kernels/device.h"

typedef struct upload {
    device *on;                                  /* NULL: count only, nothing is changed */
    bool verify;                                 /* read every matrix back and compare it */
    uint32_t seed;                               /* not 0: there are no files, what is absent is made up */
    size_t bytes, total;                         /* so far; of all, for progress */
    void (*progress)(void *arg, float fraction); /* NULL: nobody wants to know */
    void *arg;
    err *e;
} upload;

/* Each replaces addresses of the host by those on the device. A matrix with n 0 stays, and so does a NULL vector
 * without a seed. */
status upload_bytes(upload *u, const void **p, size_t bytes);
status upload_bf16(upload *u, const bf16 **p, int32_t n);
status upload_f32(upload *u, const float **p, int32_t n);
status upload_matrices(upload *u, weight *w, int32_t n); /* of one shape and type, side by side */
#endif
