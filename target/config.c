/* target/config.c - a published Laguna config, in any of the spellings that are in use, becomes one struct.
 *
 * Everything that later code multiplies or divides by is bounded here, so that sizes computed from a target_config
 * cannot overflow 64 bits and widths cannot overflow 32. Widths are multiples of 16 (the kernels' unit of columns). */
#include "target/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    HIDDEN_MAX = 1 << 16,
    WIDTH_MAX = 1 << 20,
    HEAD_DIM_MAX = 512,
    HEADS_MAX = 1024,
    VOCAB_MAX = 1 << 24,
    EXPERTS_MAX = 4096,
    POSITIONS_MAX = 1 << 30,
    WINDOW_MAX = 1 << 20,
    WIDTH_STEP = 16,
};

/* PATH.INDEX, a string of two that exist. True: it is `yes`. */
static status get_kind(cfg c, const char *path, int32_t index, const char *yes, const char *no, bool *out, err *e) {
    char at[64];
    const char *v;
    snprintf(at, sizeof at, "%s.%d", path, (int)index);
    TRY(cfg_opt_string(c, at, "", &v, e));
    if (strcmp(v, yes) && strcmp(v, no))
        return err_set(e, ERR_MODEL, "%s: %s: expected \"%s\" or \"%s\", found \"%.80s\"", c.file, at, yes, no, v);
    *out = strcmp(v, yes) == 0;
    return OK;
}

/* ---- what is refused ---- */

static status check_architecture(cfg c, err *e) {
    const json_t *list = cfg_find(c, "architectures");
    const char *first = json_string_value(json_array_get(list, 0));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && strcmp(name, "LagunaForCausalLM") == 0) return OK;
        if (name && strcmp(name, "DFlashLagunaForCausalLM") == 0)
            return err_set(e, ERR_MODEL,
                           "%s: architectures: this is a draft (%s), expected a target: LagunaForCausalLM", c.file,
                           name);
    }
    if (!list)
        return cfg_find(c, "model_type")
                   ? cfg_only_string(c, "model_type", "laguna", e)
                   : err_set(e, ERR_MODEL, "%s: neither architectures nor model_type is there", c.file);
    return err_set(e, ERR_MODEL, "%s: architectures: expected LagunaForCausalLM, found %.80s", c.file,
                   first ? first : "no name");
}

/* Fields of the family that change the computation and have no kernels here. */
static status check_offered(cfg c, err *e) {
    TRY(check_architecture(c, e));
    TRY(cfg_only_bool(c, "attention_bias", false, e));
    TRY(cfg_only_bool(c, "qkv_bias", false, e));
    TRY(cfg_only_bool(c, "mlp_bias", false, e));
    TRY(cfg_only_bool(c, "swa_attention_sink_enabled", false, e));
    TRY(cfg_only_bool(c, "moe_apply_router_weight_on_input", false, e));
    TRY(cfg_only_bool(c, "moe_router_use_sigmoid", true, e));
    TRY(cfg_only_string(c, "moe_router_score_func", "sigmoid", e));
    TRY(cfg_only_bool(c, "tie_word_embeddings", false, e));
    return cfg_only_string(c, "hidden_act", "silu", e);
}

/* ---- gates ---- */

static bool gating_name(const char *text, bool *per_element) {
    if (!text) return false;
    *per_element = strcmp(text, "per-element") == 0 || strcmp(text, "per_element") == 0;
    return *per_element || strcmp(text, "per-head") == 0 || strcmp(text, "per_head") == 0;
}

/* true is an older spelling of "per-head", and absent means the same. */
static status read_gating(target_config *t, cfg c, err *e) {
    bool per_element = false;
    const char *name = "per-head";
    if (!json_is_true(cfg_find(c, "gating"))) TRY(cfg_opt_string(c, "gating", name, &name, e));
    if (!gating_name(name, &per_element))
        return err_set(e, ERR_MODEL, "%s: gating: expected true, \"per-head\" or \"per-element\", found \"%.80s\"",
                       c.file, name);
    bool is_there;
    TRY(cfg_opt_array(c, "gating_types", (size_t)t->layers, &is_there, e));
    for (int32_t l = 0; is_there && l < t->layers; l++) {
        bool of_layer;
        if (!gating_name(json_string_value(json_array_get(cfg_find(c, "gating_types"), (size_t)l)), &of_layer) ||
            of_layer != per_element)
            return err_set(e, ERR_MODEL, "%s: gating_types.%d: expected %s as in gating, found another", c.file, l,
                           per_element ? "per_element" : "per_head");
    }
    t->gate_per_element = per_element;
    return OK;
}

/* ---- layers ---- */

static status read_layer_types(target_config *t, cfg c, err *e) {
    bool is_there, any = false;
    TRY(cfg_opt_array(c, "layer_types", (size_t)t->layers, &is_there, e));
    for (int32_t l = 0; is_there && l < t->layers; l++) {
        TRY(get_kind(c, "layer_types", l, "sliding_attention", "full_attention", &t->layer[l].sliding, e));
        any |= t->layer[l].sliding;
    }
    return any ? cfg_get_size(c, "sliding_window", 1, WINDOW_MAX, 1, &t->window, e) : OK;
}

static status read_heads(target_config *t, cfg c, err *e) {
    int64_t heads[TARGET_LAYERS_MAX], all;
    const char *path = "num_attention_heads_per_layer";
    TRY(cfg_get_size(c, "num_key_value_heads", 1, HEADS_MAX, 1, &t->kv_heads, e));
    if (cfg_find(c, path)) {
        TRY(cfg_get_ints(c, path, 1, HEADS_MAX, heads, (size_t)t->layers, e));
    } else {
        path = "num_attention_heads";
        TRY(cfg_get_int(c, path, 1, HEADS_MAX, &all, e));
        for (int32_t l = 0; l < t->layers; l++) heads[l] = all;
    }
    for (int32_t l = 0; l < t->layers; l++) {
        t->layer[l].heads = (int32_t)heads[l];
        if (heads[l] % t->kv_heads)
            return err_set(e, ERR_MODEL,
                           "%s: %s: expected a multiple of num_key_value_heads (%d), found %lld in layer %d", c.file,
                           path, t->kv_heads, (long long)heads[l], l);
    }
    return OK;
}

/* mlp_layer_types, or the older pair: layers of mlp_only_layers are dense, of the others every step-th is sparse. */
static status read_mlp_types(target_config *t, cfg c, err *e) {
    bool is_there;
    int64_t step, experts;
    TRY(cfg_opt_array(c, "mlp_layer_types", (size_t)t->layers, &is_there, e));
    for (int32_t l = 0; is_there && l < t->layers; l++)
        TRY(get_kind(c, "mlp_layer_types", l, "sparse", "dense", &t->layer[l].sparse, e));
    if (is_there) return OK;

    TRY(cfg_opt_int(c, "num_experts", 0, EXPERTS_MAX, 0, &experts, e));
    TRY(cfg_opt_int(c, "decoder_sparse_step", 1, TARGET_LAYERS_MAX, 1, &step, e));
    for (int32_t l = 0; l < t->layers; l++) t->layer[l].sparse = experts > 0 && (l + 1) % step == 0;
    const json_t *dense = cfg_find(c, "mlp_only_layers");
    for (size_t i = 0; i < json_array_size(dense); i++) {
        char at[64];
        int64_t l;
        snprintf(at, sizeof at, "mlp_only_layers.%zu", i);
        TRY(cfg_get_int(c, at, 0, t->layers - 1, &l, e));
        t->layer[l].sparse = false;
    }
    return OK;
}

/* Sizes of a kind of MLP that no layer has are not read: they may be absent, and mean nothing. */
static status read_mlp_sizes(target_config *t, cfg c, err *e) {
    bool any_dense = false, any_sparse = false;
    for (int32_t l = 0; l < t->layers; l++) {
        any_sparse |= t->layer[l].sparse;
        any_dense |= !t->layer[l].sparse;
    }
    if (any_dense) TRY(cfg_get_size(c, "intermediate_size", WIDTH_STEP, WIDTH_MAX, WIDTH_STEP, &t->dense_width, e));
    if (!any_sparse) return OK;
    int64_t shared;
    TRY(cfg_get_size(c, "num_experts", 1, EXPERTS_MAX, 1, &t->experts, e));
    TRY(cfg_get_size(c, "num_experts_per_tok", 1, t->experts, 1, &t->experts_per_token, e));
    TRY(cfg_get_size(c, "moe_intermediate_size", WIDTH_STEP, WIDTH_MAX, WIDTH_STEP, &t->expert_width, e));
    TRY(cfg_opt_int(c, "shared_expert_intermediate_size", 0, WIDTH_MAX, 0, &shared, e));
    if (shared)
        TRY(cfg_get_size(c, "shared_expert_intermediate_size", WIDTH_STEP, WIDTH_MAX, WIDTH_STEP, &t->shared_width, e));
    TRY(cfg_opt_bool(c, "norm_topk_prob", true, &t->normalize, e));
    TRY(cfg_opt_real(c, "moe_routed_scaling_factor", 1e-6, 1e6, 1.0, &t->routed_scale, e));
    return cfg_opt_real(c, "moe_router_logit_softcapping", 0.0, 1e6, 0.0, &t->softcap, e);
}

/* ---- rotation ---- */

/* Where the fields of a layer type are; block NULL: nowhere, the rotation is plain. */
typedef struct rope_place {
    cfg c;
    const char *block;
} rope_place;

enum { ROPE_PATH_MAX = 128 };

/* BLOCK.FIELD */
static const char *rope_path(rope_place p, const char *field, char out[ROPE_PATH_MAX]) {
    snprintf(out, ROPE_PATH_MAX, "%s.%s", p.block, field);
    return out;
}

/* The same for a field that may also stand at top level, for all layer types: the block wins. */
static const char *rope_path_or_top(rope_place p, const char *field, char out[ROPE_PATH_MAX]) {
    if (!p.block) return field;
    return cfg_find(p.c, rope_path(p, field, out)) || !cfg_find(p.c, field) ? out : field;
}

static bool is_object(cfg c, const char *path) { return json_is_object(cfg_find(c, path)); }

/* Four layouts are in use: rope_parameters with one object per layer type (other members beside them are stray); one
 * flat rope_parameters for all; the same with swa_rope_parameters for sliding layers; the older rope_scaling with
 * rope_theta at top level. Without any of them the rotation is plain. */
static status find_rope(rope_place *out, cfg c, bool sliding, err *e) {
    const char *of_type = sliding ? "rope_parameters.sliding_attention" : "rope_parameters.full_attention";
    const char *other = sliding ? "rope_parameters.full_attention" : "rope_parameters.sliding_attention";
    *out = (rope_place){ c, NULL };
    for (int i = 0; i < 3; i++) {
        const char *name = ((const char *[]){ "rope_parameters", "swa_rope_parameters", "rope_scaling" })[i];
        if (cfg_find(c, name) && !is_object(c, name))
            return err_set(e, ERR_MODEL, "%s: %s: expected an object", c.file, name);
    }
    if (cfg_find(c, of_type)) {
        if (!is_object(c, of_type)) return err_set(e, ERR_MODEL, "%s: %s: expected an object", c.file, of_type);
        out->block = of_type;
    } else if (sliding && cfg_find(c, "swa_rope_parameters")) {
        out->block = "swa_rope_parameters";
    } else if (cfg_find(c, other)) {
        return err_set(e, ERR_MODEL, "%s: %s: expected an object, since %s is there, but it is absent", c.file, of_type,
                       other);
    } else if (cfg_find(c, "rope_parameters")) {
        out->block = "rope_parameters";
    } else if (cfg_find(c, "rope_scaling")) {
        out->block = "rope_scaling";
    }
    return OK;
}

static double yarn_scale(double factor, double s) { return 0.1 * s * log(factor) + 1.0; }

/* attention_factor is the final scale of cosine and sine: where it is given it is taken as it is. */
static status read_attention_factor(rope_config *r, rope_place p, err *e) {
    char path[ROPE_PATH_MAX];
    double mscale, all_dims;
    TRY(cfg_opt_real(p.c, rope_path(p, "mscale", path), 0.0, 1e3, 0.0, &mscale, e));
    TRY(cfg_opt_real(p.c, rope_path(p, "mscale_all_dim", path), 0.0, 1e3, 0.0, &all_dims, e));
    double derived = mscale > 0 && all_dims > 0 ? yarn_scale(r->factor, mscale) / yarn_scale(r->factor, all_dims)
                                                : yarn_scale(r->factor, 1.0);
    return cfg_opt_real(p.c, rope_path(p, "attention_factor", path), 1e-3, 1e3, derived, &r->attention_factor, e);
}

static status read_yarn(rope_config *r, rope_place p, err *e) {
    char path[ROPE_PATH_MAX];
    TRY(cfg_get_real(p.c, rope_path(p, "factor", path), 1.0, 1e6, &r->factor, e));
    TRY(cfg_get_real(p.c, rope_path_or_top(p, "original_max_position_embeddings", path), 1.0, POSITIONS_MAX,
                     &r->original, e));
    TRY(cfg_opt_real(p.c, rope_path(p, "beta_slow", path), 1e-3, 1e6, 1.0, &r->beta_slow, e));
    TRY(cfg_opt_real(p.c, rope_path(p, "beta_fast", path), r->beta_slow, 1e6, 32.0, &r->beta_fast, e));
    TRY(cfg_opt_bool(p.c, rope_path(p, "truncate", path), true, &r->truncate, e));
    r->yarn = true;
    return read_attention_factor(r, p, e);
}

static status read_rope_dim(rope_config *r, rope_place p, int32_t head_dim, err *e) {
    char buffer[ROPE_PATH_MAX];
    double part;
    const char *path = rope_path_or_top(p, "partial_rotary_factor", buffer);
    TRY(cfg_opt_real(p.c, path, 0.0, 1.0, 1.0, &part, e));
    r->dim = (int32_t)(head_dim * part);
    if (r->dim < 2 || r->dim % 2)
        return err_set(e, ERR_MODEL, "%s: %s: expected an even number of rotated elements, found %g of head_dim %d: %d",
                       p.c.file, path, part, head_dim, r->dim);
    return OK;
}

static status read_rope_type(rope_config *r, rope_place p, err *e) {
    char path[ROPE_PATH_MAX];
    const char *type = "default";
    if (!p.block) return OK;
    TRY(cfg_opt_string(p.c, rope_path(p, "type", path), type, &type, e)); /* older spelling */
    TRY(cfg_opt_string(p.c, rope_path(p, "rope_type", path), type, &type, e));
    if (strcmp(type, "yarn") == 0) return read_yarn(r, p, e);
    if (strcmp(type, "default") == 0) return OK;
    return err_set(e, ERR_MODEL, "%s: %s: expected \"default\" or \"yarn\", found \"%.80s\"", p.c.file, path, type);
}

static status read_rope(rope_config *out, cfg c, bool sliding, int32_t head_dim, err *e) {
    rope_config r = { .factor = 1.0, .attention_factor = 1.0 };
    rope_place p;
    char path[ROPE_PATH_MAX];
    TRY(find_rope(&p, c, sliding, e));
    TRY(read_rope_dim(&r, p, head_dim, e));
    TRY(cfg_get_real(c, rope_path_or_top(p, "rope_theta", path), 1.001, 1e12, &r.theta, e));
    TRY(read_rope_type(&r, p, e));
    *out = r;
    return OK;
}

/* A layer type that does not occur keeps a plain rotation of the whole head, so that nothing divides by zero. */
static status read_ropes(target_config *t, cfg c, err *e) {
    bool any[2] = { false, false };
    rope_config *rope[2] = { &t->rope_global, &t->rope_sliding };
    for (int32_t l = 0; l < t->layers; l++) any[t->layer[l].sliding] = true;
    for (int sliding = 0; sliding < 2; sliding++) {
        *rope[sliding] = (rope_config){ .theta = 10000.0, .factor = 1.0, .attention_factor = 1.0, .dim = t->head_dim };
        if (any[sliding]) TRY(read_rope(rope[sliding], c, sliding, t->head_dim, e));
    }
    return OK;
}

status target_config_read(target_config *out, cfg c, err *e) {
    target_config t = { .routed_scale = 1.0 };
    TRY(check_offered(c, e));
    TRY(cfg_get_size(c, "hidden_size", WIDTH_STEP, HIDDEN_MAX, WIDTH_STEP, &t.hidden, e));
    TRY(cfg_get_size(c, "num_hidden_layers", 1, TARGET_LAYERS_MAX, 1, &t.layers, e));
    TRY(cfg_get_size(c, "vocab_size", 1, VOCAB_MAX, 1, &t.vocab, e));
    TRY(cfg_get_size(c, "head_dim", WIDTH_STEP, HEAD_DIM_MAX, WIDTH_STEP, &t.head_dim, e));
    TRY(cfg_get_size(c, "max_position_embeddings", 1, POSITIONS_MAX, 1, &t.positions_max, e));
    TRY(cfg_opt_real(c, "rms_norm_eps", 1e-12, 1.0, 1e-6, &t.norm_eps, e));
    TRY(read_layer_types(&t, c, e));
    TRY(read_heads(&t, c, e));
    TRY(read_gating(&t, c, e));
    TRY(read_mlp_types(&t, c, e));
    TRY(read_mlp_sizes(&t, c, e));
    TRY(read_ropes(&t, c, e));
    *out = t;
    return OK;
}

bool target_config_says_mxfp4(cfg c) {
    static const char *const AT[] = { "quantization_config.quant_method", "quantization_config.format",
                                      "quantization_config.config_groups.group_0.format" };
    for (size_t i = 0; i < sizeof AT / sizeof *AT; i++) {
        const char *said = json_string_value(cfg_find(c, AT[i]));
        if (said && strstr(said, "mxfp4")) return true;
    }
    return false;
}
