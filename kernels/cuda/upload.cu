#include "kernels/cuda/device_int.h"
#include "kernels/cuda/pack.cuh"

#include <string.h>

size_t device_aligned(size_t bytes) { return (bytes + PUT_ALIGN - 1) / PUT_ALIGN * PUT_ALIGN; }

status device_reserve_weights(device *d, size_t bytes, err *e) {
    CHECK(!d->weights);
    void *p = nullptr;
    TRY(device_alloc(d, &p, bytes, "the weights", e));
    d->weights = (char *)p, d->weights_bytes = bytes, d->weights_used = 0;
    return OK;
}

char *device_take(device *d, size_t bytes) {
    char *p = d->weights + d->weights_used;
    d->weights_used += device_aligned(bytes);
    CHECK(d->weights_used <= d->weights_bytes);
    return p;
}

size_t device_matrix_bytes(const weight *w) {
    return device_aligned((size_t)pack_bytes(w->n, w->k, w->type)) +
           device_aligned((size_t)pack_scale_bytes(w->n, w->k, w->type));
}

/* --- staging --- */

static status next_stage(device *d, staging **out, err *e) {
    staging *s = &d->stage[d->at_stage];
    d->at_stage = (d->at_stage + 1) % STAGES;
    cudaError_t rc = cudaEventSynchronize(s->ready);
    if (rc != cudaSuccess) return device_error(rc, "uploading weights", e);
    *out = s;
    return OK;
}

status device_put_bytes(device *d, const void **p, size_t bytes, err *e) {
    const char *from = (const char *)*p;
    if (!from) return OK;
    char *to = device_take(d, bytes);
    for (size_t at = 0; at < bytes; at += STAGE_BYTES) {
        size_t here = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        staging *s = nullptr;
        TRY(next_stage(d, &s, e));
        memcpy(s->host, from + at, here);
        cudaError_t rc = cudaMemcpyAsync(to + at, s->host, here, cudaMemcpyDefault, d->stream);
        if (rc == cudaSuccess) rc = cudaEventRecord(s->ready, d->stream);
        if (rc != cudaSuccess) return device_error(rc, "uploading weights", e);
    }
    *p = to;
    return OK;
}

/* --- matrices --- */

/* Bytes of a row in the file, and of its scales. */
static size_t row_bytes(const weight *w) { return w->type == DT_MXFP4 ? (size_t)w->k / 2 : (size_t)w->k * 2; }
static size_t row_scales(const weight *w) { return w->type == DT_MXFP4 ? (size_t)w->k / MXFP4_GROUP : 0; }

/* Where some tiles of a matrix lie. */
typedef struct chunk {
    const weight *w; /* in the file */
    int32_t from, rows, tiles;
    char *data, *scale; /* packed */
} chunk;

static launch_shape chunk_shape(const chunk *c) {
    launch_shape g = { ((uint32_t)(c->tiles * pack_blocks(c->w->k)) + 7) / 8, 1, 256, 0 };
    return g;
}

static status send_chunk(device *d, const chunk *c, err *e) {
    const weight *w = c->w;
    size_t rows = row_bytes(w) * (size_t)c->rows, scales = row_scales(w) * (size_t)c->rows;
    staging *s = nullptr;
    TRY(next_stage(d, &s, e));
    memcpy(s->host, (const char *)w->data + (size_t)c->from * row_bytes(w), rows);
    if (scales) memcpy(s->host + rows, w->scale + (size_t)c->from * row_scales(w), scales);
    cudaError_t rc = cudaMemcpyAsync(s->raw, s->host, rows + scales, cudaMemcpyDefault, d->stream);
    file_rows in = { (unsigned char *)s->raw, (unsigned char *)s->raw + rows, c->rows, w->k };
    launch_to to = { d->stream, false };
    if (w->type == DT_MXFP4)
        launch(to, chunk_shape(c), pack_mxfp4_kernel, in, c->tiles, c->data, c->scale, d->flags);
    else
        launch(to, chunk_shape(c), pack_bf16_kernel, in, c->tiles, c->data);
    if (rc == cudaSuccess) rc = cudaGetLastError();
    if (rc == cudaSuccess) rc = cudaEventRecord(s->ready, d->stream);
    return rc == cudaSuccess ? OK : device_error(rc, "uploading weights", e);
}

static status compare_chunk(device *d, const chunk *c, err *e) {
    const weight *w = c->w;
    size_t rows = row_bytes(w) * (size_t)c->rows, scales = row_scales(w) * (size_t)c->rows;
    staging *s = nullptr;
    TRY(next_stage(d, &s, e));
    file_rows out = { (unsigned char *)s->raw, (unsigned char *)s->raw + rows, c->rows, w->k };
    launch_to to = { d->stream, false };
    if (w->type == DT_MXFP4)
        launch(to, chunk_shape(c), unpack_mxfp4_kernel, out, c->tiles, (const char *)c->data, (const char *)c->scale);
    else
        launch(to, chunk_shape(c), unpack_bf16_kernel, out, c->tiles, (const char *)c->data);
    cudaError_t rc = cudaMemcpyAsync(s->host, s->raw, rows + scales, cudaMemcpyDefault, d->stream);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(d->stream);
    if (rc != cudaSuccess) return device_error(rc, "reading weights back", e);
    if (memcmp(s->host, (const char *)w->data + (size_t)c->from * row_bytes(w), rows) != 0 ||
        (scales && memcmp(s->host + rows, w->scale + (size_t)c->from * row_scales(w), scales) != 0))
        return err_set(
            e, ERR_DEVICE,
            "a weight matrix of %d x %d came back from the GPU changed (rows %d to %d): its memory or the bus "
            "cannot be trusted",
            w->n, w->k, c->from, c->from + c->rows - 1);
    return OK;
}

static status put_matrix(device *d, weight *w, char *data, char *scale, bool verify, err *e) {
    int32_t most = (int32_t)(STAGE_BYTES / (row_bytes(w) + row_scales(w))) / PACK_ROWS * PACK_ROWS;
    if (most == 0) return err_set(e, ERR_MODEL, "a matrix row of %d columns is longer than the upload's buffer", w->k);
    for (int32_t from = 0; from < w->n; from += most) {
        int32_t rows = w->n - from < most ? w->n - from : most, tile = from / PACK_ROWS;
        chunk c = { w, from, rows, pack_tiles(rows), data + tile * pack_tile_bytes(w->k, w->type), nullptr };
        if (scale) c.scale = scale + tile * pack_tile_scales(w->k);
        TRY(send_chunk(d, &c, e));
        if (verify) TRY(compare_chunk(d, &c, e));
    }
    return OK;
}

static status check_flags(device *d, err *e) {
    int32_t flags[2] = { 0, 0 };
    cudaError_t rc = cudaMemcpyAsync(flags, d->flags, sizeof flags, cudaMemcpyDefault, d->stream);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(d->stream);
    if (rc != cudaSuccess) return device_error(rc, "uploading weights", e);
    if (flags[PACK_FLAG_SCALE])
        return err_set(e, ERR_MODEL,
                       "an MXFP4 scale is larger than 2^1, which the CUDA kernels do not hold: run with --backend cpu");
    return OK;
}

status device_put_matrices(device *d, weight *w, int32_t n, bool verify, err *e) {
    if (n == 0 || w[0].n == 0) return OK;
    size_t bytes = device_aligned((size_t)pack_bytes(w[0].n, w[0].k, w[0].type));
    size_t scale_bytes = device_aligned((size_t)pack_scale_bytes(w[0].n, w[0].k, w[0].type));
    char *data = device_take(d, bytes * (size_t)n),
         *scale = scale_bytes ? device_take(d, scale_bytes * (size_t)n) : nullptr;
    for (int32_t i = 0; i < n; i++) {
        if (w[i].n != w[0].n || w[i].k != w[0].k || w[i].type != w[0].type)
            return err_set(
                e, ERR_MODEL,
                "experts of one layer differ in shape or type, which the CUDA backend does not take: run with "
                "--backend cpu");
        char *to = data + bytes * (size_t)i, *scales = scale ? scale + scale_bytes * (size_t)i : nullptr;
        TRY(put_matrix(d, &w[i], to, scales, verify, e));
        w[i].data = to, w[i].scale = (const uint8_t *)scales;
    }
    return check_flags(d, e);
}
