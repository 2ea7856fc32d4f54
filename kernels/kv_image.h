/* kernels/kv_image.h - committed rows of a KV store as one plain block: to keep a sliding layer's window while its ring
 * goes on, and to write keys and values to a file.
 *
 * Layout: K then V, each [G][to - from][E] in the store's own type. Positions [from, to) must lie in the store: in a
 * ring at most its slots. The block may be the host's memory or that of the store's device; s->pages is the host's. */
#ifndef KERNELS_KV_IMAGE_H
#define KERNELS_KV_IMAGE_H
#include "kernels/kv_map.h"

size_t kv_image_bytes(const kv_store *s, int32_t rows);
void kv_image_save(const kv_store *s, int32_t from, int32_t to, void *out);
void kv_image_load(const kv_store *s, int32_t from, int32_t to, const void *in);
#endif
