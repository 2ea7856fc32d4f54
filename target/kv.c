#include "target/kv.h"

#include "engine/base/mem.h"
#include "kernels/kv_map.h"
#include "kernels/memory.h"

#include <stdlib.h>
#include <string.h>

int32_t target_kv_pages(int64_t tokens) { return (int32_t)((tokens + NODES_MAX + KV_PAGE - 1) / KV_PAGE); }

static int32_t ring_slots(const target_config *c) { return kv_ring_slots(c->window, PREFILL_MAX); }

/* Bytes of K (and of V) of one layer. */
static size_t layer_bytes(const target_config *c, int32_t layer, int64_t pages, dtype type) {
    int64_t rows = c->layer[layer].sliding ? ring_slots(c) : pages * KV_PAGE;
    return (size_t)rows * (size_t)c->kv_heads * (size_t)c->head_dim * (size_t)dtype_bits(type) / 8;
}

size_t target_kv_bytes(const target_config *c, int32_t ctx, int32_t spare, dtype type) {
    size_t bytes = 0;
    int64_t pages = (int64_t)target_kv_pages(ctx) + spare;
    for (int32_t l = 0; l < c->layers; l++) bytes += 2 * layer_bytes(c, l, pages, type);
    return bytes;
}

/* Page i is the i-th, to begin with. */
static status take_pages(target_kv *kv, err *e) {
    size_t bytes = (size_t)kv->n_table * sizeof *kv->pages;
    kv->pages = xalloc(bytes);
    for (int32_t i = 0; i < kv->n_table; i++) kv->pages[i] = i;
    kv->pages_on = kv->pages;
    if (!kv->on) return OK;
    void *there;
    status s = memory_alloc(kv->on, &there, bytes, "the page table", e);
    if (s != OK) {
        free(kv->pages);
        return s;
    }
    kv->pages_on = there;
    memory_copy(kv->on, kv->pages_on, kv->pages, bytes);
    return OK;
}

void target_kv_set_pages(target_kv *kv, int32_t from, const int32_t *page, int32_t n) {
    memcpy(kv->pages + from, page, (size_t)n * sizeof *page);
    if (kv->on) memory_copy(kv->on, kv->pages_on + from, page, (size_t)n * sizeof *page);
}

status target_kv_init(target_kv *out, const target_config *c, int32_t ctx, int32_t spare, dtype type, device *on,
                      err *e) {
    target_kv kv = { .on = on,
                     .layers = c->layers,
                     .ctx = ctx,
                     .type = type,
                     .n_table = target_kv_pages(ctx),
                     .n_pages = target_kv_pages(ctx) + spare,
                     .bytes = target_kv_bytes(c, ctx, spare, type) };
    TRY(memory_alloc(on, &kv.block, kv.bytes, "KV memory", e));
    status s = take_pages(&kv, e);
    if (s != OK) {
        memory_free(on, kv.block, kv.bytes);
        return s;
    }
    kv.layer = xalloc((size_t)c->layers * sizeof *kv.layer);
    kv.seen = xalloc((size_t)c->layers * sizeof *kv.seen);
    char *at = kv.block;
    for (int32_t l = 0; l < c->layers; l++) {
        size_t bytes = layer_bytes(c, l, kv.n_pages, type);
        bool ring = c->layer[l].sliding;
        kv.layer[l] = (kv_store){ .k = at,
                                  .v = at + bytes,
                                  .pages = ring ? NULL : kv.pages,
                                  .slots = ring ? ring_slots(c) : 0,
                                  .heads = c->kv_heads,
                                  .size = c->head_dim,
                                  .kind = ring ? KV_RING : KV_PAGES,
                                  .type = type,
                                  .bytes = (int64_t)bytes,
                                  .on = on };
        kv.seen[l] = kv.layer[l];
        if (!ring) kv.seen[l].pages = kv.pages_on;
        at += 2 * bytes;
    }
    *out = kv;
    return OK;
}

static void copy_rows(void *rows, const kv_store *s, int32_t from, int32_t to, int32_t n) {
    size_t row = (size_t)kv_bytes(s, s->size), head = KV_PAGE * row, heads = (size_t)s->heads;
    for (size_t g = 0; g < heads; g++)
        memory_copy(s->on, (char *)rows + ((size_t)to * heads + g) * head,
                    (char *)rows + ((size_t)from * heads + g) * head, (size_t)n * row);
}

void target_kv_copy_page(const target_kv *kv, int32_t from, int32_t to, int32_t rows) {
    for (int32_t l = 0; l < kv->layers; l++) {
        const kv_store *s = &kv->layer[l];
        if (s->kind != KV_PAGES) continue;
        copy_rows(s->k, s, from, to, rows);
        copy_rows(s->v, s, from, to, rows);
    }
}

void target_kv_deinit(target_kv *kv) {
    if (kv->on) memory_free(kv->on, kv->pages_on, (size_t)kv->n_table * sizeof *kv->pages);
    memory_free(kv->on, kv->block, kv->bytes);
    free(kv->layer);
    free(kv->seen);
    free(kv->pages);
    *kv = (target_kv){ 0 };
}
