#include "kernels/kv_image.h"

#include "kernels/memory.h"

static size_t row_bytes(const kv_store *s) { return (size_t)kv_bytes(s, s->size); }

size_t kv_image_bytes(const kv_store *s, int32_t rows) { return 2 * (size_t)s->heads * (size_t)rows * row_bytes(s); }

/* Stretch by stretch of rows that follow each other in memory. */
static void move(const kv_store *s, void *rows, int32_t from, int32_t to, char *image, bool save) {
    size_t row = row_bytes(s);
    for (int32_t g = 0; g < s->heads; g++)
        for (int32_t pos = from, n; pos < to; pos += n) {
            n = kv_contiguous(s, pos, 0);
            if (n > to - pos) n = to - pos;
            void *there = kv_at(s, rows, kv_offset(s, g, pos, 0));
            memory_copy(s->on, save ? image : there, save ? there : image, (size_t)n * row);
            image += (size_t)n * row;
        }
}

void kv_image_save(const kv_store *s, int32_t from, int32_t to, void *out) {
    move(s, s->k, from, to, out, true);
    move(s, s->v, from, to, (char *)out + kv_image_bytes(s, to - from) / 2, true);
    memory_wait(s->on);
}

void kv_image_load(const kv_store *s, int32_t from, int32_t to, const void *in) {
    char *image = (char *)(uintptr_t)in;
    move(s, s->k, from, to, image, false);
    move(s, s->v, from, to, image + kv_image_bytes(s, to - from) / 2, false);
    memory_wait(s->on);
}
