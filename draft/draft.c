#include "draft/draft.h"

#include "engine/base/mem.h"
#include "kernels/kv_map.h"
#include "kernels/memory.h"
#include "kernels/rope_freq.h"

#include <stdlib.h>

status draft_init(draft *out, const model_dir *dir, err *e) {
    draft d = { 0 };
    TRY(draft_config_read(&d.cfg, model_dir_config(dir), e));
    TRY(draft_weights_bind(&d.w, dir, &d.cfg, e));
    d.inv_freq = xalloc((size_t)(d.cfg.head_dim / 2) * sizeof *d.inv_freq);
    rope_inv_freq(&(rope_freq){ .theta = d.cfg.rope_theta, .dim = d.cfg.head_dim }, d.inv_freq);
    d.freq = d.inv_freq;
    *out = d;
    return OK;
}

static size_t rows_bytes(const draft_config *c, int32_t rows) {
    return (size_t)rows * (size_t)c->kv_heads * (size_t)c->head_dim * sizeof(bf16);
}

/* Slots behind the window buy rewinds by a cut burst without restoring anything. */
static int32_t ring_slots(const draft_config *c) { return kv_ring_slots(c->window, NODES_MAX); }

size_t draft_kv_bytes(const draft_config *c) {
    return (size_t)c->layers * 2 * (rows_bytes(c, ring_slots(c)) + rows_bytes(c, NODES_MAX));
}

static kv_store carve(const draft *d, char **at, int32_t slots, kv_kind kind) {
    const draft_config *c = &d->cfg;
    size_t bytes = rows_bytes(c, slots);
    kv_store s = { .k = *at,
                   .v = *at + bytes,
                   .slots = slots,
                   .heads = c->kv_heads,
                   .size = c->head_dim,
                   .kind = kind,
                   .type = DT_BF16,
                   .bytes = (int64_t)bytes,
                   .on = d->on };
    *at += 2 * bytes;
    return s;
}

status draft_alloc(draft *d, draft_inputs in, err *e) {
    d->bytes = draft_kv_bytes(&d->cfg);
    TRY(memory_alloc(d->on, &d->memory, d->bytes, "the draft's KV", e));
    d->in = in;
    d->ring = xalloc((size_t)d->cfg.layers * sizeof *d->ring);
    d->block = xalloc((size_t)d->cfg.layers * sizeof *d->block);
    char *at = d->memory;
    for (int32_t l = 0; l < d->cfg.layers; l++) {
        d->ring[l] = carve(d, &at, ring_slots(&d->cfg), KV_RING);
        d->block[l] = carve(d, &at, NODES_MAX, KV_BLOCK);
    }
    return OK;
}

void draft_deinit(draft *d) {
    memory_free(d->on, d->memory, d->bytes);
    free(d->ring);
    free(d->block);
    free(d->inv_freq);
    draft_weights_deinit(&d->w);
    *d = (draft){ 0 };
}
