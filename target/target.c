#include "target/target.h"

#include "engine/base/mem.h"
#include "kernels/kv_map.h"
#include "kernels/memory.h"
#include "kernels/rope_freq.h"

#include <stdlib.h>

static float *frequencies(const rope_config *r) {
    float *f = xalloc((size_t)(r->dim / 2) * sizeof *f);
    rope_inv_freq(&(rope_freq){ .theta = r->theta,
                                .yarn = r->yarn,
                                .factor = r->factor,
                                .beta_fast = r->beta_fast,
                                .beta_slow = r->beta_slow,
                                .original = r->original,
                                .truncate = r->truncate,
                                .dim = r->dim },
                  f);
    return f;
}

status target_init(target *out, const model_dir *dir, void (*progress)(void *arg, float fraction), void *arg, err *e) {
    target t = { 0 };
    TRY(target_config_read(&t.cfg, model_dir_config(dir), e));
    TRY(target_weights_bind(&t.w, dir, &t.cfg, progress, arg, e));
    t.inv_freq_global = frequencies(&t.cfg.rope_global);
    t.inv_freq_sliding = frequencies(&t.cfg.rope_sliding);
    t.freq_global = t.inv_freq_global, t.freq_sliding = t.inv_freq_sliding;
    *out = t;
    return OK;
}

static int32_t tap_slots(int32_t window) { return window + NODES_MAX; }

size_t target_tap_bytes(const target_config *c, int32_t taps, int32_t window) {
    return (size_t)tap_slots(window) * (size_t)taps * (size_t)c->hidden * sizeof(bf16);
}

status target_alloc(target *t, const target_room *room, err *e) {
    int32_t taps = room->taps;
    TRY(target_kv_init(&t->kv, &t->cfg, room->ctx, room->spare_pages, room->kv, t->on, e));
    if (taps == 0) return OK;
    CHECK(taps <= TAPS_MAX);
    void *ring;
    TRY(memory_alloc(t->on, &ring, target_tap_bytes(&t->cfg, taps, room->window), "the tap ring", e));
    t->taps = taps;
    memcpy(t->tap_layer, room->tap_layer, (size_t)taps * sizeof *room->tap_layer);
    t->tap_ring = (view){ .data = ring,
                          .stride = (int64_t)taps * t->cfg.hidden * (int64_t)sizeof(bf16),
                          .rows = tap_slots(room->window),
                          .cols = taps * t->cfg.hidden,
                          .type = DT_BF16 };
    return OK;
}

void target_deinit(target *t) {
    memory_free(t->on, t->tap_ring.data, (size_t)t->tap_ring.stride * (size_t)t->tap_ring.rows);
    target_kv_deinit(&t->kv);
    target_weights_deinit(&t->w);
    free(t->inv_freq_global);
    free(t->inv_freq_sliding);
    *t = (target){ 0 };
}
