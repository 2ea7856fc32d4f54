/* target/kv.h - the memory of target keys and values: rings for sliding layers, pages for global ones.
 *
 * Invariants: a ring has at least window + PREFILL_MAX - 1 slots, so that rows of a step which are not accepted never
 * overwrite a key that a committed row still sees. Pages hold ctx + NODES_MAX positions: the rows of the last round may
 * stand behind the context's end. All K and V are BF16 or all are E4M3, those of rows that are not committed too; K is
 * rotated at its absolute position. */
#ifndef TARGET_KV_H
#define TARGET_KV_H
#include "kernels/attn.h"
#include "target/config.h"

typedef struct target_kv {
    kv_store *layer; /* [layers] */
    int32_t layers, ctx;
    dtype type;
    int32_t *pages; /* page table of all global layers */
    int32_t n_pages;
    void *block; /* owns every K and V */
    size_t bytes;
} target_kv;

/* type: DT_BF16 or DT_E4M3. */
size_t target_kv_bytes(const target_config *c, int32_t ctx, dtype type); /* what target_kv_init will ask for */
status target_kv_init(target_kv *out, const target_config *c, int32_t ctx, dtype type, err *e);
void target_kv_deinit(target_kv *kv);
#endif
