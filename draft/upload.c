/* The weights on their way to a device. */
#include "kernels/upload.h"
#include "draft/draft.h"

static status put_layer(upload *u, const draft_config *c, draft_layer_weights *w) {
    TRY(upload_bf16(u, &w->input_norm, c->hidden));
    TRY(upload_bf16(u, &w->post_norm, c->hidden));
    TRY(upload_bf16(u, &w->q_norm, c->head_dim));
    TRY(upload_bf16(u, &w->k_norm, c->head_dim));
    weight *const ONE[] = { &w->q, &w->k, &w->v, &w->g, &w->o, &w->gate, &w->up, &w->down };
    for (size_t i = 0; i < sizeof ONE / sizeof *ONE; i++) TRY(upload_matrices(u, ONE[i], 1));
    return OK;
}

static status put_all(upload *u, draft *d) {
    const draft_config *c = &d->cfg;
    TRY(upload_matrices(u, &d->w.fc, 1));
    TRY(upload_bf16(u, &d->w.hidden_norm, c->hidden));
    TRY(upload_bf16(u, &d->w.norm, c->hidden));
    for (int32_t j = 0; j < c->taps; j++) TRY(upload_bf16(u, &d->w.tap_norm[j], c->hidden));
    for (int32_t l = 0; l < c->layers; l++) TRY(put_layer(u, c, &d->w.layer[l]));
    return upload_f32(u, &d->freq, c->head_dim / 2);
}

size_t draft_device_bytes(const draft *d) {
    upload count = { 0 };
    draft copy = *d;
    CHECK(put_all(&count, &copy) == OK);
    return count.bytes;
}

status draft_to_device(draft *d, device *on, bool verify, err *e) {
    const draft_config *c = &d->cfg;
    if (!device_supports_heads(c->head_dim, c->heads / c->kv_heads))
        return err_set(e, ERR_UNSUPPORTED,
                       "the draft: the CUDA kernels have no attention for heads of %d elements, %d to a key: run with "
                       "--backend cpu",
                       c->head_dim, c->heads / c->kv_heads);
    upload u = { .on = on, .verify = verify, .e = e };
    d->on = on;
    return put_all(&u, d);
}

status draft_seed(draft *d, device *on, uint32_t seed, size_t *bytes, err *e) {
    upload u = { .on = on, .seed = seed, .e = e };
    draft there = *d;
    TRY(put_all(&u, &there));
    *bytes = u.bytes;
    if (!on) return OK;
    there.on = on;
    *d = there;
    return OK;
}
