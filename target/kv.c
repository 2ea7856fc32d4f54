#include "target/kv.h"

#include "engine/base/mem.h"
#include "kernels/kv_map.h"

#include <stdlib.h>

static int32_t pages_for(int32_t ctx) { return (int32_t)(((int64_t)ctx + NODES_MAX + KV_PAGE - 1) / KV_PAGE); }

static int32_t ring_slots(const target_config *c) { return kv_ring_slots(c->window, PREFILL_MAX); }

/* Bytes of K (and of V) of one layer. */
static size_t layer_bytes(const target_config *c, int32_t layer, int32_t ctx, dtype type) {
    int64_t rows = c->layer[layer].sliding ? ring_slots(c) : (int64_t)pages_for(ctx) * KV_PAGE;
    return (size_t)rows * (size_t)c->kv_heads * (size_t)c->head_dim * (size_t)dtype_bits(type) / 8;
}

size_t target_kv_bytes(const target_config *c, int32_t ctx, dtype type) {
    size_t bytes = 0;
    for (int32_t l = 0; l < c->layers; l++) bytes += 2 * layer_bytes(c, l, ctx, type);
    return bytes;
}

status target_kv_init(target_kv *out, const target_config *c, int32_t ctx, dtype type, err *e) {
    target_kv kv = { .layers = c->layers, .ctx = ctx, .type = type, .n_pages = pages_for(ctx) };
    kv.bytes = target_kv_bytes(c, ctx, type);
    TRY(try_block(&kv.block, kv.bytes, "KV memory", e));
    kv.layer = xalloc((size_t)c->layers * sizeof *kv.layer);
    kv.pages = xalloc((size_t)kv.n_pages * sizeof *kv.pages);
    for (int32_t i = 0; i < kv.n_pages; i++) kv.pages[i] = i;
    char *at = kv.block;
    for (int32_t l = 0; l < c->layers; l++) {
        size_t bytes = layer_bytes(c, l, ctx, type);
        bool ring = c->layer[l].sliding;
        kv.layer[l] = (kv_store){ .k = at,
                                  .v = at + bytes,
                                  .pages = ring ? NULL : kv.pages,
                                  .slots = ring ? ring_slots(c) : 0,
                                  .heads = c->kv_heads,
                                  .size = c->head_dim,
                                  .kind = ring ? KV_RING : KV_PAGES,
                                  .type = type,
                                  .bytes = (int64_t)bytes };
        at += 2 * bytes;
    }
    *out = kv;
    return OK;
}

void target_kv_deinit(target_kv *kv) {
    block_free(kv->block, kv->bytes);
    free(kv->layer);
    free(kv->pages);
    *kv = (target_kv){ 0 };
}
