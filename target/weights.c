/* target/weights.c - the table of names. Sizes are named, not numbers: each layer has its own values for them. */
#include "target/weights.h"

#include "engine/base/log.h"
#include "engine/load/bind.h"
#include "kernels/mxfp4.h"

#include <stdio.h>

_Static_assert((int)BIND_GROUP == (int)MXFP4_GROUP, "loader and kernels read the same groups");
_Static_assert((int)BIND_SCALE_NAN == (int)MXFP4_SCALE_NAN, "loader and kernels know the same NaN");

typedef enum size_id {
    HIDDEN,
    QUERY,
    KEY,
    GATE,
    HEAD,
    DENSE_WIDTH,
    SHARED_WIDTH,
    EXPERT_WIDTH,
    EXPERTS,
    SIZES
} size_id;

typedef enum layer_kind {
    ANY_LAYER,
    DENSE_LAYER,
    SPARSE_LAYER,
    SHARED_LAYER
} layer_kind; /* SHARED: with a shared expert */

/* The second spellings are those of other engines' module trees. */
typedef struct layer_row {
    const char *name, *alias; /* below "model.layers.L." */
    bind_kind kind;
    size_id n, k;
    layer_kind in;
    size_t place; /* in target_layer_weights */
} layer_row;

#define PLACE(member) offsetof(target_layer_weights, member)

static const layer_row LAYER_ROWS[] = {
    { "input_layernorm.weight", NULL, BIND_VECTOR, HIDDEN, 0, ANY_LAYER, PLACE(input_norm) },
    { "post_attention_layernorm.weight", NULL, BIND_VECTOR, HIDDEN, 0, ANY_LAYER, PLACE(post_norm) },
    { "self_attn.q_norm.weight", NULL, BIND_VECTOR, HEAD, 0, ANY_LAYER, PLACE(q_norm) },
    { "self_attn.k_norm.weight", NULL, BIND_VECTOR, HEAD, 0, ANY_LAYER, PLACE(k_norm) },
    { "self_attn.q_proj", NULL, BIND_MODULE, QUERY, HIDDEN, ANY_LAYER, PLACE(q) },
    { "self_attn.k_proj", NULL, BIND_MODULE, KEY, HIDDEN, ANY_LAYER, PLACE(k) },
    { "self_attn.v_proj", NULL, BIND_MODULE, KEY, HIDDEN, ANY_LAYER, PLACE(v) },
    { "self_attn.g_proj", NULL, BIND_MODULE, GATE, HIDDEN, ANY_LAYER, PLACE(g) },
    { "self_attn.o_proj", NULL, BIND_MODULE, HIDDEN, QUERY, ANY_LAYER, PLACE(o) },
    { "mlp.gate_proj", NULL, BIND_MODULE, DENSE_WIDTH, HIDDEN, DENSE_LAYER, PLACE(gate) },
    { "mlp.up_proj", NULL, BIND_MODULE, DENSE_WIDTH, HIDDEN, DENSE_LAYER, PLACE(up) },
    { "mlp.down_proj", NULL, BIND_MODULE, HIDDEN, DENSE_WIDTH, DENSE_LAYER, PLACE(down) },
    { "mlp.shared_expert.gate_proj", "mlp.shared_experts.gate_proj", BIND_MODULE, SHARED_WIDTH, HIDDEN, SHARED_LAYER,
      PLACE(gate) },
    { "mlp.shared_expert.up_proj", "mlp.shared_experts.up_proj", BIND_MODULE, SHARED_WIDTH, HIDDEN, SHARED_LAYER,
      PLACE(up) },
    { "mlp.shared_expert.down_proj", "mlp.shared_experts.down_proj", BIND_MODULE, HIDDEN, SHARED_WIDTH, SHARED_LAYER,
      PLACE(down) },
    { "mlp.gate", NULL, BIND_DENSE, EXPERTS, HIDDEN, SPARSE_LAYER, PLACE(router) },
    { "mlp.experts.e_score_correction_bias", "mlp.gate.e_score_correction_bias", BIND_FLOATS, EXPERTS, 0, SPARSE_LAYER,
      PLACE(router_bias) },
};

static const struct {
    const char *name; /* of module "model.layers.L.mlp.experts.E.NAME" */
    size_id n, k;
    size_t place; /* of the array of one weight per expert */
} EXPERT_ROWS[] = {
    { "gate_proj", EXPERT_WIDTH, HIDDEN, PLACE(expert_gate) },
    { "up_proj", EXPERT_WIDTH, HIDDEN, PLACE(expert_up) },
    { "down_proj", HIDDEN, EXPERT_WIDTH, PLACE(expert_down) },
};

enum {
    N_LAYER_ROWS = sizeof LAYER_ROWS / sizeof LAYER_ROWS[0],
    N_EXPERT_ROWS = sizeof EXPERT_ROWS / sizeof EXPERT_ROWS[0]
};

static void layer_sizes(const target_config *c, int32_t layer, int32_t out[SIZES]) {
    int32_t heads = c->layer[layer].heads;
    out[HIDDEN] = c->hidden;
    out[QUERY] = heads * c->head_dim;
    out[KEY] = c->kv_heads * c->head_dim;
    out[GATE] = c->gate_per_element ? heads * c->head_dim : heads;
    out[HEAD] = c->head_dim;
    out[DENSE_WIDTH] = c->dense_width;
    out[SHARED_WIDTH] = c->shared_width;
    out[EXPERT_WIDTH] = c->expert_width;
    out[EXPERTS] = c->experts;
}

static bool is_in_layer(layer_kind in, const target_config *c, int32_t layer) {
    bool sparse = c->layer[layer].sparse;
    switch (in) {
    case ANY_LAYER: return true;
    case DENSE_LAYER: return !sparse;
    case SPARSE_LAYER: return sparse;
    case SHARED_LAYER: return sparse && c->shared_width > 0;
    }
    return false;
}

static void put_weight(void *place, const bind_matrix *m) {
    *(weight *)place = (weight){ .data = m->data, .scale = m->scale, .n = m->n, .k = m->k, .type = m->type };
}

static void add_experts(binder *b, const target_config *c, int32_t layer, const int32_t size[SIZES],
                        target_layer_weights *w, arena *mem) {
    char name[BIND_NAME_MAX];
    for (int i = 0; i < N_EXPERT_ROWS; i++) {
        weight *array = arena_alloc(mem, (size_t)c->experts * sizeof *array);
        *(weight **)((char *)w + EXPERT_ROWS[i].place) = array;
        for (int32_t x = 0; x < c->experts; x++) {
            snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s", layer, x, EXPERT_ROWS[i].name);
            bind_add(b, &(bind_item){ name, NULL, BIND_MODULE, size[EXPERT_ROWS[i].n], size[EXPERT_ROWS[i].k],
                                      &array[x] });
        }
    }
}

static void add_layer(binder *b, const target_config *c, int32_t layer, target_layer_weights *w, arena *mem) {
    int32_t size[SIZES];
    char name[BIND_NAME_MAX], alias[BIND_NAME_MAX];
    layer_sizes(c, layer, size);
    for (int i = 0; i < N_LAYER_ROWS; i++) {
        const layer_row *r = &LAYER_ROWS[i];
        if (!is_in_layer(r->in, c, layer)) continue;
        snprintf(name, sizeof name, "model.layers.%d.%s", layer, r->name);
        if (r->alias) snprintf(alias, sizeof alias, "model.layers.%d.%s", layer, r->alias);
        bind_add(b,
                 &(bind_item){ name, r->alias ? alias : NULL, r->kind, size[r->n], size[r->k], (char *)w + r->place });
    }
    if (c->layer[layer].sparse) add_experts(b, c, layer, size, w, mem);
}

/* Tensors decide what is MXFP4; a config that says otherwise is worth a word, since it may belong to other weights. */
static void warn_quantization(const model_dir *dir, const bind_totals *totals) {
    bool said = target_config_says_mxfp4(model_dir_config(dir));
    if (said && !totals->mxfp4)
        log_warn("load", "%s: quantization_config says MXFP4, no tensor is", model_dir_name(dir));
    if (!said && totals->mxfp4)
        log_warn("load", "%s: quantization_config does not say MXFP4, %lld matrices are", model_dir_name(dir),
                 (long long)totals->mxfp4);
}

status target_weights_bind(target_weights *out, const model_dir *dir, const target_config *c,
                           void (*progress)(void *arg, float fraction), void *arg, err *e) {
    target_weights w = { .mem = arena_new() };
    binder *b = bind_begin(dir, w.mem, put_weight);
    w.layer = arena_alloc(w.mem, (size_t)c->layers * sizeof *w.layer);
    bind_add(b, &(bind_item){ "model.embed_tokens", NULL, BIND_DENSE, c->vocab, c->hidden, &w.embed });
    bind_add(b, &(bind_item){ "lm_head", NULL, BIND_DENSE, c->vocab, c->hidden, &w.head });
    bind_add(b, &(bind_item){ "model.norm.weight", NULL, BIND_VECTOR, c->hidden, 0, &w.final_norm });
    for (int32_t l = 0; l < c->layers; l++) add_layer(b, c, l, &w.layer[l], w.mem);

    bind_totals totals;
    status s = bind_end(b, &totals, progress, arg, e);
    if (s != OK) {
        target_weights_deinit(&w);
        return s;
    }
    warn_quantization(dir, &totals);
    w.parameters = totals.parameters;
    w.bytes = totals.bytes;
    *out = w;
    return OK;
}

/* ---- without files ---- */

/* A matrix gets size and type; a vector only counts, with two bytes a value as published files have them. */
static void shape_item(target_weights *w, bind_kind kind, int32_t n, int32_t k, dtype type, void *place) {
    if (kind == BIND_VECTOR || kind == BIND_FLOATS) {
        w->parameters += n;
        w->bytes += n * (int64_t)sizeof(bf16);
        return;
    }
    weight *m = place;
    *m = (weight){ .n = n, .k = k, .type = type };
    w->parameters += (int64_t)n * k;
    w->bytes += weight_bytes(m);
}

static void shape_layer(target_weights *w, const target_config *c, int32_t layer, dtype experts) {
    target_layer_weights *y = &w->layer[layer];
    int32_t size[SIZES];
    layer_sizes(c, layer, size);
    for (int i = 0; i < N_LAYER_ROWS; i++) {
        const layer_row *r = &LAYER_ROWS[i];
        if (is_in_layer(r->in, c, layer)) shape_item(w, r->kind, size[r->n], size[r->k], DT_BF16, (char *)y + r->place);
    }
    for (int i = 0; c->layer[layer].sparse && i < N_EXPERT_ROWS; i++) {
        weight *array = arena_alloc(w->mem, (size_t)c->experts * sizeof *array);
        *(weight **)((char *)y + EXPERT_ROWS[i].place) = array;
        for (int32_t x = 0; x < c->experts; x++)
            shape_item(w, BIND_MODULE, size[EXPERT_ROWS[i].n], size[EXPERT_ROWS[i].k], experts, &array[x]);
    }
}

void target_weights_shape(target_weights *out, const target_config *c, dtype experts) {
    target_weights w = { .mem = arena_new() };
    w.layer = arena_alloc(w.mem, (size_t)c->layers * sizeof *w.layer);
    shape_item(&w, BIND_DENSE, c->vocab, c->hidden, DT_BF16, &w.embed);
    shape_item(&w, BIND_DENSE, c->vocab, c->hidden, DT_BF16, &w.head);
    shape_item(&w, BIND_VECTOR, c->hidden, 0, DT_BF16, NULL);
    for (int32_t l = 0; l < c->layers; l++) shape_layer(&w, c, l, experts);
    *out = w;
}

void target_weights_deinit(target_weights *w) {
    arena_free(w->mem);
    *w = (target_weights){ 0 };
}
