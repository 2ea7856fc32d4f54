/* The weights on their way to a device. */
#include "kernels/upload.h"
#include "target/target.h"

static status put_layer(upload *u, const target_config *c, target_layer_weights *w) {
    TRY(upload_bf16(u, &w->input_norm, c->hidden));
    TRY(upload_bf16(u, &w->post_norm, c->hidden));
    TRY(upload_bf16(u, &w->q_norm, c->head_dim));
    TRY(upload_bf16(u, &w->k_norm, c->head_dim));
    weight *const ONE[] = { &w->q, &w->k, &w->v, &w->g, &w->o, &w->gate, &w->up, &w->down, &w->router };
    for (size_t i = 0; i < sizeof ONE / sizeof *ONE; i++) TRY(upload_matrices(u, ONE[i], 1));
    if (!w->expert_gate) return OK;
    TRY(upload_f32(u, &w->router_bias, c->experts));
    TRY(upload_matrices(u, w->expert_gate, c->experts));
    TRY(upload_matrices(u, w->expert_up, c->experts));
    return upload_matrices(u, w->expert_down, c->experts);
}

/* The embedding is read by rows, so it keeps the layout of the file; the head gets its own, also where the file has one
 * matrix for both. */
static status put_all(upload *u, target *t) {
    const target_config *c = &t->cfg;
    TRY(upload_bytes(u, &t->w.embed.data, (size_t)weight_bytes(&t->w.embed)));
    TRY(upload_matrices(u, &t->w.head, 1));
    TRY(upload_bf16(u, &t->w.final_norm, c->hidden));
    for (int32_t l = 0; l < c->layers; l++) TRY(put_layer(u, c, &t->w.layer[l]));
    TRY(upload_f32(u, &t->freq_global, c->rope_global.dim / 2));
    return upload_f32(u, &t->freq_sliding, c->rope_sliding.dim / 2);
}

size_t target_device_bytes(const target *t) {
    upload count = { 0 };
    target copy = *t;
    CHECK(put_all(&count, &copy) == OK);
    return count.bytes;
}

status target_to_device(target *t, device *on, bool verify, void (*progress)(void *arg, float fraction), void *arg,
                        err *e) {
    const target_config *c = &t->cfg;
    for (int32_t l = 0; l < c->layers; l++)
        if (!device_supports_heads(c->head_dim, c->layer[l].heads / c->kv_heads))
            return err_set(
                e, ERR_UNSUPPORTED,
                "layer %d: the CUDA kernels have no attention for heads of %d elements, %d to a key: run with "
                "--backend cpu",
                l, c->head_dim, c->layer[l].heads / c->kv_heads);
    upload u = {
        .on = on, .verify = verify, .total = target_device_bytes(t), .progress = progress, .arg = arg, .e = e
    };
    t->on = on;
    return put_all(&u, t);
}

status target_seed(target *t, device *on, uint32_t seed, size_t *bytes, err *e) {
    upload u = { .on = on, .seed = seed, .e = e };
    target there = *t;
    TRY(put_all(&u, &there));
    *bytes = u.bytes;
    if (!on) return OK;
    there.on = on;
    *t = there;
    return OK;
}
