#include "draft/config.h"

#include "engine/base/log.h"
#include "engine/load/faults.h"
#include "kernels/params.h"

#include <stdio.h>
#include <string.h>

enum {
    HIDDEN_MAX = 1 << 16,
    WIDTH_MAX = 1 << 20,
    HEAD_DIM_MAX = 512,
    HEADS_MAX = 1024,
    LAYERS_MAX = 64,
    TARGET_LAYERS_LIMIT = 1 << 12,
    VOCAB_MAX = 1 << 24,
    WINDOW_MAX = 1 << 20,
    WIDTH_STEP = 16,
    FAULT_BYTES = 2000,
};

static status check_architecture(cfg c, err *e) {
    const json_t *list = cfg_find(c, "architectures");
    const char *first = json_string_value(json_array_get(list, 0));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && strcmp(name, "DFlashLagunaForCausalLM") == 0) return OK;
        if (name && strcmp(name, "LagunaForCausalLM") == 0)
            return err_set(e, ERR_MODEL,
                           "%s: architectures: this is a target (%s), expected a draft: DFlashLagunaForCausalLM",
                           c.file, name);
    }
    /* A draft without the list is known by its own block of settings. */
    if (!list && json_is_object(cfg_find(c, "dflash_config"))) return OK;
    return err_set(e, ERR_MODEL, "%s: architectures: expected DFlashLagunaForCausalLM, found %.80s", c.file,
                   first ? first : "none");
}

static status check_offered(cfg c, err *e) {
    TRY(check_architecture(c, e));
    TRY(cfg_only_bool(c, "attention_bias", false, e));
    TRY(cfg_only_bool(c, "qkv_bias", false, e));
    TRY(cfg_only_bool(c, "swa_attention_sink_enabled", false, e));
    TRY(cfg_only_string(c, "hidden_act", "silu", e));
    TRY(cfg_only_bool(c, "is_causal", true, e));
    TRY(cfg_only_bool(c, "dflash_config.causal", true, e));
    return cfg_only_bool(c, "dflash_config.sample_from_anchor", false, e);
}

/* true is an older spelling of "per-head", and absent means the same. */
static status read_gating(draft_config *d, cfg c, err *e) {
    const char *name = "per-head";
    if (!json_is_true(cfg_find(c, "gating"))) TRY(cfg_opt_string(c, "gating", name, &name, e));
    d->gate_per_element = strcmp(name, "per-element") == 0 || strcmp(name, "per_element") == 0;
    if (d->gate_per_element || strcmp(name, "per-head") == 0 || strcmp(name, "per_head") == 0) return OK;
    return err_set(e, ERR_MODEL, "%s: gating: expected true, \"per-head\" or \"per-element\", found \"%.80s\"", c.file,
                   name);
}

/* All layers slide over one window. Stated as one number, as one number per layer, or both; absent layer_types say
 * nothing against it. Without any window the draft would need all context rows: refused. */
static status read_window(draft_config *d, cfg c, err *e) {
    bool is_there;
    char at[64];
    TRY(cfg_opt_array(c, "layer_types", (size_t)d->layers, &is_there, e));
    for (int32_t l = 0; is_there && l < d->layers; l++) {
        snprintf(at, sizeof at, "layer_types.%d", l);
        TRY(cfg_only_string(c, at, "sliding_attention", e));
    }
    TRY(cfg_opt_array(c, "sliding_windows", (size_t)d->layers, &is_there, e));
    const char *first = is_there && !cfg_find(c, "sliding_window") ? "sliding_windows.0" : "sliding_window";
    TRY(cfg_get_size(c, first, 1, WINDOW_MAX, 1, &d->window, e));
    for (int32_t l = 0; is_there && l < d->layers; l++) {
        int32_t window;
        snprintf(at, sizeof at, "sliding_windows.%d", l);
        TRY(cfg_get_size(c, at, 1, WINDOW_MAX, 1, &window, e));
        if (window != d->window)
            return err_set(e, ERR_MODEL, "%s: %s: expected %d as in %s, found %d", c.file, at, d->window, first,
                           window);
    }
    return OK;
}

/* Plain rotation of the whole head. The top-level rope_theta wins: a nested block in a draft's config is filled in by
 * libraries with the default of another layer type, and 10000 in place of 500000 costs acceptance without any error. */
static status read_rope(draft_config *d, cfg c, err *e) {
    const char *block =
        cfg_find(c, "rope_parameters.sliding_attention") ? "rope_parameters.sliding_attention" : "rope_parameters";
    char type[80], theta[80], part[80];
    snprintf(type, sizeof type, "%s.rope_type", block);
    snprintf(theta, sizeof theta, "%s.rope_theta", block);
    snprintf(part, sizeof part, "%s.partial_rotary_factor", block);
    double whole, nested;
    TRY(cfg_only_string(c, type, "default", e));
    TRY(cfg_opt_real(c, part, 1.0, 1.0, 1.0, &whole, e));
    TRY(cfg_opt_real(c, "partial_rotary_factor", 1.0, 1.0, 1.0, &whole, e));
    const char *path = cfg_find(c, "rope_theta") || !cfg_find(c, theta) ? "rope_theta" : theta;
    TRY(cfg_get_real(c, path, 1.001, 1e12, &d->rope_theta, e));
    TRY(cfg_opt_real(c, theta, 1.001, 1e12, d->rope_theta, &nested, e));
    if (nested != d->rope_theta)
        log_warn("load", "%s: rope_theta %g is used, %s says %g", c.file, d->rope_theta, theta, nested);
    return OK;
}

/* Number of elements of a list of layers; 0: absent. */
static status count_layers(cfg c, const char *path, int32_t *n, err *e) {
    const json_t *v = cfg_find(c, path);
    size_t size = json_array_size(v);
    if (v && (size < 1 || size > TAPS_MAX))
        return err_set(e, ERR_MODEL, "%s: %s: expected an array of 1 to %d layers, found %zu", c.file, path, TAPS_MAX,
                       size);
    *n = (int32_t)size;
    return OK;
}

/* The same points in two countings: target_layer_ids names the layer behind which a tap lies, the other list the layer
 * in front of which it lies, which is one more. */
static status read_taps(draft_config *d, cfg c, err *e) {
    static const char IDS[] = "dflash_config.target_layer_ids", NEXT[] = "eagle_aux_hidden_state_layer_ids";
    int64_t id[TAPS_MAX], next[TAPS_MAX];
    int32_t n_ids, n_next;
    int64_t layers;
    TRY(cfg_opt_int(c, "dflash_config.num_target_layers", 1, TARGET_LAYERS_LIMIT, 0, &layers, e));
    TRY(count_layers(c, IDS, &n_ids, e));
    TRY(count_layers(c, NEXT, &n_next, e));
    if (!n_ids && !n_next)
        return err_set(e, ERR_MODEL, "%s: %s: expected an array of layers, but it is absent", c.file, IDS);
    d->target_layers = (int32_t)layers;
    d->taps = n_ids ? n_ids : n_next;
    int64_t top = layers ? layers - 1 : TARGET_LAYERS_LIMIT;
    if (n_ids) TRY(cfg_get_ints(c, IDS, 0, top, id, (size_t)d->taps, e));
    if (n_next) TRY(cfg_get_ints(c, NEXT, 1, top + 1, next, (size_t)d->taps, e));
    for (int32_t i = 0; i < d->taps; i++) {
        if (!n_ids) id[i] = next[i] - 1;
        if (n_next && next[i] != id[i] + 1)
            return err_set(e, ERR_MODEL, "%s: %s.%d: expected %lld, one more than in %s, found %lld", c.file, NEXT, i,
                           (long long)id[i] + 1, IDS, (long long)next[i]);
        if (i && id[i] <= id[i - 1])
            return err_set(e, ERR_MODEL, "%s: %s: expected ascending layers, found %lld behind %lld", c.file,
                           n_ids ? IDS : NEXT, (long long)id[i], (long long)id[i - 1]);
        d->tap_layer[i] = (int32_t)id[i];
    }
    return OK;
}

static status read_sizes(draft_config *d, cfg c, err *e) {
    int64_t draft_vocab;
    TRY(cfg_get_size(c, "hidden_size", WIDTH_STEP, HIDDEN_MAX, WIDTH_STEP, &d->hidden, e));
    TRY(cfg_get_size(c, "num_hidden_layers", 1, LAYERS_MAX, 1, &d->layers, e));
    TRY(cfg_get_size(c, "vocab_size", 1, VOCAB_MAX, 1, &d->vocab, e));
    TRY(cfg_get_size(c, "head_dim", WIDTH_STEP, HEAD_DIM_MAX, WIDTH_STEP, &d->head_dim, e));
    TRY(cfg_get_size(c, "num_attention_heads", 1, HEADS_MAX, 1, &d->heads, e));
    TRY(cfg_get_size(c, "num_key_value_heads", 1, HEADS_MAX, 1, &d->kv_heads, e));
    if (d->heads % d->kv_heads)
        return err_set(e, ERR_MODEL,
                       "%s: num_attention_heads: expected a multiple of num_key_value_heads (%d), found %d", c.file,
                       d->kv_heads, d->heads);
    TRY(cfg_get_size(c, "intermediate_size", WIDTH_STEP, WIDTH_MAX, WIDTH_STEP, &d->width, e));
    /* A smaller vocabulary of the draft would need a map of tokens, which no published draft has. */
    TRY(cfg_opt_int(c, "draft_vocab_size", d->vocab, d->vocab, d->vocab, &draft_vocab, e));
    return cfg_opt_real(c, "rms_norm_eps", 1e-12, 1.0, 1e-6, &d->norm_eps, e);
}

status draft_config_read(draft_config *out, cfg c, err *e) {
    draft_config d = { 0 };
    TRY(check_offered(c, e));
    TRY(read_sizes(&d, c, e));
    TRY(read_gating(&d, c, e));
    TRY(read_window(&d, c, e));
    TRY(read_rope(&d, c, e));
    TRY(cfg_get_size(c, "dflash_config.block_size", 2, NODES_MAX, 1, &d.block_size, e));
    TRY(cfg_get_size(c, "dflash_config.mask_token_id", 0, d.vocab - 1, 1, &d.mask_id, e));
    TRY(read_taps(&d, c, e));
    *out = d;
    return OK;
}

status draft_config_check(const draft_config *c, int32_t hidden, int32_t vocab, int32_t layers, err *e) {
    faults f = { .max = FAULT_BYTES };
    if (c->hidden != hidden) faults_add(&f, "hidden size: draft %d, target %d", c->hidden, hidden);
    if (c->vocab != vocab) faults_add(&f, "vocabulary: draft %d, target %d", c->vocab, vocab);
    if (c->target_layers && c->target_layers != layers)
        faults_add(&f, "layers of the target: %d by the draft's num_target_layers, %d by the target", c->target_layers,
                   layers);
    for (int32_t i = 0; i < c->taps; i++)
        if (c->tap_layer[i] >= layers)
            faults_add(&f, "the draft reads layer %d, the target's last is %d", c->tap_layer[i], layers - 1);
    status s = OK;
    if (f.count) {
        buf text = { 0 };
        faults_write(&f, &text);
        s = err_set(e, ERR_MODEL, "the draft does not belong to this target:%s", buf_cstr(&text));
        buf_free(&text);
    }
    faults_free(&f);
    return s;
}
