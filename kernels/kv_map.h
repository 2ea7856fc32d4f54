/* kernels/kv_map.h - the arithmetic of KV: where a row lies and who may see it. Touches no memory of keys; compiled
 * from one text for host and device. The words pos, index and slot are three different things: pos    place of a token
 * in the sequence index  pos for committed rows, base + node for rows that are not committed slot   place in memory */
#ifndef KERNELS_KV_MAP_H
#define KERNELS_KV_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include "kernels/attn.h"
#include "kernels/e4m3.h"

/* First position that a row at position p sees. */
HD static inline int32_t kv_first_seen(int32_t window, int32_t p) {
    return window == 0 || p < window ? 0 : p - window + 1;
}

/* Index of the key of position pos for row r. */
HD static inline int32_t kv_index(const row_set *rows, int32_t r, int32_t pos) {
    if (pos < rows->base || rows->chain) return pos;
    return rows->base + rows->path[r][pos - rows->base];
}

/* Elements from the start of k (or v) to head g of the row with this index. base is read by KV_BLOCK only. */
HD static inline int64_t kv_offset(const kv_store *s, int32_t g, int32_t index, int32_t base) {
    if (s->kind == KV_PAGES)
        return (((int64_t)s->pages[index / KV_PAGE] * s->heads + g) * KV_PAGE + index % KV_PAGE) * s->size;
    int32_t slot = s->kind == KV_RING ? index % s->slots : index - base;
    return ((int64_t)g * s->slots + slot) * s->size;
}

/* Bytes of so many elements. */
HD static inline int64_t kv_bytes(const kv_store *s, int64_t elements) {
    return elements * (int64_t)(s->type == DT_E4M3 ? sizeof(e4m3) : sizeof(bf16));
}

/* Address of the element at this offset; rows is the store's k or v. */
HD static inline void *kv_at(const kv_store *s, void *rows, int64_t offset) {
    return (char *)rows + kv_bytes(s, offset);
}

/* Rows from this index on that follow each other in memory. */
HD static inline int32_t kv_contiguous(const kv_store *s, int32_t index, int32_t base) {
    if (s->kind == KV_PAGES) return KV_PAGE - index % KV_PAGE;
    return s->kind == KV_RING ? s->slots - index % s->slots : s->slots - (index - base);
}

/* Slots a ring needs so that a step may write `rows` rows from base on while row 0 still sees its whole window; rounded
 * up to 64. A ring of exactly the window would let rejected rows overwrite keys that the committed prefix still needs.
 */
HD static inline int32_t kv_ring_slots(int32_t window, int32_t rows) { return (window + rows - 1 + 63) / 64 * 64; }

/* May decoding go on at length len, when indices below high have been written into the ring? */
HD static inline bool kv_can_rewind(int32_t slots, int32_t window, int32_t high, int32_t len) {
    return kv_first_seen(window, len) >= high - slots;
}
#endif
