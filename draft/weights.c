/* draft/weights.c - the table of names. Each name may have "model." in front of it; queries, keys and values may be one
 * fused matrix or three. */
#include "draft/weights.h"

#include "engine/load/bind.h"
#include "kernels/mxfp4.h"

#include <stdio.h>

_Static_assert((int)BIND_GROUP == (int)MXFP4_GROUP, "loader and kernels read the same groups");

typedef enum size_id { HIDDEN, QUERY, KEY, FUSED, GATE, HEAD, WIDTH, SIZES } size_id;

typedef enum layer_kind { ANY_LAYER, FUSED_LAYER, SPLIT_LAYER } layer_kind;

typedef struct layer_row {
    const char *name; /* below "layers.L." */
    bind_kind kind;
    size_id n, k;
    layer_kind in;
    size_t place; /* in draft_layer_weights */
} layer_row;

#define PLACE(member) offsetof(draft_layer_weights, member)

static const layer_row LAYER_ROWS[] = {
    { "input_layernorm.weight", BIND_VECTOR, HIDDEN, 0, ANY_LAYER, PLACE(input_norm) },
    { "post_attention_layernorm.weight", BIND_VECTOR, HIDDEN, 0, ANY_LAYER, PLACE(post_norm) },
    { "self_attn.q_norm.weight", BIND_VECTOR, HEAD, 0, ANY_LAYER, PLACE(q_norm) },
    { "self_attn.k_norm.weight", BIND_VECTOR, HEAD, 0, ANY_LAYER, PLACE(k_norm) },
    { "self_attn.qkv_proj", BIND_MODULE, FUSED, HIDDEN, FUSED_LAYER, PLACE(q) }, /* cut by split_fused */
    { "self_attn.q_proj", BIND_MODULE, QUERY, HIDDEN, SPLIT_LAYER, PLACE(q) },
    { "self_attn.k_proj", BIND_MODULE, KEY, HIDDEN, SPLIT_LAYER, PLACE(k) },
    { "self_attn.v_proj", BIND_MODULE, KEY, HIDDEN, SPLIT_LAYER, PLACE(v) },
    { "self_attn.g_proj", BIND_MODULE, GATE, HIDDEN, ANY_LAYER, PLACE(g) },
    { "self_attn.o_proj", BIND_MODULE, HIDDEN, QUERY, ANY_LAYER, PLACE(o) },
    { "mlp.gate_proj", BIND_MODULE, WIDTH, HIDDEN, ANY_LAYER, PLACE(gate) },
    { "mlp.up_proj", BIND_MODULE, WIDTH, HIDDEN, ANY_LAYER, PLACE(up) },
    { "mlp.down_proj", BIND_MODULE, HIDDEN, WIDTH, ANY_LAYER, PLACE(down) },
};

enum { N_LAYER_ROWS = sizeof LAYER_ROWS / sizeof LAYER_ROWS[0] };

static void layer_sizes(const draft_config *c, int32_t out[SIZES]) {
    out[HIDDEN] = c->hidden;
    out[QUERY] = c->heads * c->head_dim;
    out[KEY] = c->kv_heads * c->head_dim;
    out[FUSED] = out[QUERY] + 2 * out[KEY];
    out[GATE] = c->gate_per_element ? out[QUERY] : c->heads;
    out[HEAD] = c->head_dim;
    out[WIDTH] = c->width;
}

static void put_weight(void *place, const bind_matrix *m) {
    *(weight *)place = (weight){ .data = m->data, .scale = m->scale, .n = m->n, .k = m->k, .type = m->type };
}

/* `full` starts with "model.": the published name is what follows. */
static void add(binder *b, const char *full, bind_kind kind, int32_t n, int32_t k, void *place) {
    bind_add(b, &(bind_item){ full + strlen("model."), full, kind, n, k, place });
}

static bool has(const binder *b, const char *full) { return bind_has(b, full) || bind_has(b, full + strlen("model.")); }

/* Split only where the fused matrix is absent and one of the three is there: what is missing is then named as it is
 * published. */
static layer_kind find_form(const binder *b, int32_t layer) {
    static const char *const PARTS[] = { "q_proj", "k_proj", "v_proj" };
    char name[BIND_NAME_MAX];
    snprintf(name, sizeof name, "model.layers.%d.self_attn.qkv_proj", layer);
    if (has(b, name)) return FUSED_LAYER;
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attn.%s", layer, PARTS[i]);
        if (has(b, name)) return SPLIT_LAYER;
    }
    return FUSED_LAYER;
}

static void add_layer(binder *b, const draft_config *c, int32_t layer, draft_layer_weights *w) {
    int32_t size[SIZES];
    char name[BIND_NAME_MAX];
    layer_kind form = find_form(b, layer);
    layer_sizes(c, size);
    for (int i = 0; i < N_LAYER_ROWS; i++) {
        const layer_row *r = &LAYER_ROWS[i];
        if (r->in != ANY_LAYER && r->in != form) continue;
        snprintf(name, sizeof name, "model.layers.%d.%s", layer, r->name);
        add(b, name, r->kind, size[r->n], size[r->k], (char *)w + r->place);
    }
}

/* Rows first .. first + n of a matrix. */
static weight rows_of(const weight *w, int32_t first, int32_t n) {
    int64_t bits = dtype_bits(w->type);
    weight part = *w;
    part.data = (const uint8_t *)w->data + (int64_t)first * w->k * bits / 8;
    if (w->scale) part.scale = w->scale + (int64_t)first * w->k / MXFP4_GROUP;
    part.n = n;
    return part;
}

static void split_fused(const draft_config *c, draft_layer_weights *w) {
    int32_t size[SIZES];
    layer_sizes(c, size);
    if (w->q.n != size[FUSED]) return;
    const weight fused = w->q;
    w->q = rows_of(&fused, 0, size[QUERY]);
    w->k = rows_of(&fused, size[QUERY], size[KEY]);
    w->v = rows_of(&fused, size[QUERY] + size[KEY], size[KEY]);
}

static bool is_unit(const bf16 *norm, int32_t n) {
    static const bf16 ONE = 0x3F80;
    for (int32_t i = 0; i < n; i++)
        if (norm[i] != ONE) return false;
    return true;
}

static bool has_unit_norms(const draft_config *c, const draft_weights *w) {
    bool unit = is_unit(w->hidden_norm, c->hidden) && is_unit(w->norm, c->hidden);
    for (int32_t i = 0; i < c->taps; i++) unit = unit && is_unit(w->tap_norm[i], c->hidden);
    for (int32_t l = 0; l < c->layers; l++) {
        const draft_layer_weights *y = &w->layer[l];
        unit = unit && is_unit(y->input_norm, c->hidden) && is_unit(y->post_norm, c->hidden);
        unit = unit && is_unit(y->q_norm, c->head_dim) && is_unit(y->k_norm, c->head_dim);
    }
    return unit;
}

status draft_weights_bind(draft_weights *out, const model_dir *dir, const draft_config *c, err *e) {
    draft_weights w = { .mem = arena_new() };
    binder *b = bind_begin(dir, w.mem, put_weight);
    char name[BIND_NAME_MAX];
    w.layer = arena_alloc(w.mem, (size_t)c->layers * sizeof *w.layer);
    add(b, "model.fc", BIND_MODULE, c->hidden, c->taps * c->hidden, &w.fc);
    add(b, "model.hidden_norm.weight", BIND_VECTOR, c->hidden, 0, &w.hidden_norm);
    add(b, "model.norm.weight", BIND_VECTOR, c->hidden, 0, &w.norm);
    for (int32_t i = 0; i < c->taps; i++) {
        snprintf(name, sizeof name, "model.aux_hidden_norms.%d.weight", i);
        add(b, name, BIND_VECTOR, c->hidden, 0, &w.tap_norm[i]);
    }
    for (int32_t l = 0; l < c->layers; l++) add_layer(b, c, l, &w.layer[l]);

    bind_totals totals;
    status s = bind_end(b, &totals, NULL, NULL, e);
    if (s != OK) {
        draft_weights_deinit(&w);
        return s;
    }
    for (int32_t l = 0; l < c->layers; l++) split_fused(c, &w.layer[l]);
    w.parameters = totals.parameters;
    w.bytes = totals.bytes;
    w.unit_norms = has_unit_norms(c, &w);
    *out = w;
    return OK;
}

/* ---- without files ---- */

static void shape_vector(draft_weights *w, int32_t n) {
    w->parameters += n;
    w->bytes += n * (int64_t)sizeof(bf16);
}

static void shape_matrix(draft_weights *w, int32_t n, int32_t k, weight *place) {
    *place = (weight){ .n = n, .k = k, .type = DT_BF16 };
    w->parameters += (int64_t)n * k;
    w->bytes += weight_bytes(place);
}

static void shape_layer(draft_weights *w, const draft_config *c, draft_layer_weights *y) {
    int32_t size[SIZES];
    layer_sizes(c, size);
    for (int i = 0; i < N_LAYER_ROWS; i++) {
        const layer_row *r = &LAYER_ROWS[i];
        if (r->in == FUSED_LAYER) continue;
        if (r->kind == BIND_VECTOR)
            shape_vector(w, size[r->n]);
        else
            shape_matrix(w, size[r->n], size[r->k], (weight *)((char *)y + r->place));
    }
}

void draft_weights_shape(draft_weights *out, const draft_config *c) {
    draft_weights w = { .mem = arena_new() };
    w.layer = arena_alloc(w.mem, (size_t)c->layers * sizeof *w.layer);
    shape_matrix(&w, c->hidden, c->taps * c->hidden, &w.fc);
    for (int32_t i = 0; i < 2 + c->taps; i++) shape_vector(&w, c->hidden); /* hidden_norm, norm, one for each tap */
    for (int32_t l = 0; l < c->layers; l++) shape_layer(&w, c, &w.layer[l]);
    *out = w;
}

void draft_weights_deinit(draft_weights *w) {
    arena_free(w->mem);
    *w = (draft_weights){ 0 };
}
