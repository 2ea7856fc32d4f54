#include "tests/unit/load_fixture.h"
#include "target/config.h"

static json_t *base; /* a good config: that of TINY */

static int setup(void **state) {
    (void)state;
    base = tiny_config("target", "LagunaForCausalLM");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    json_decref(base);
    return 0;
}

static bool close_to(double a, double b) { return a > b - 1e-12 && a < b + 1e-12; }

/* ---- C33: the final scale, and the layouts ---- */

static void check_scale(const json_t *row) {
    json_t *config = json_deep_copy(base), *expected = json_object_get(row, "scale");
    json_t *rope = json_object_get(config, "rope_parameters");
    json_object_set(rope, "full_attention", json_object_get(row, "rope_parameters"));
    err e = { 0 };
    target_config c;
    if (target_config_read(&c, (cfg){ config, "f" }, &e) != OK) fail_msg("C33/%s: %s", text_of(row, "name"), e.text);
    double want = json_is_number(expected) ? json_number_value(expected) : 1.0; /* "1.0, or refused": ours is 1.0 */
    if (!close_to(c.rope_global.attention_factor, want))
        fail_msg("C33/%s: %.17g", text_of(row, "name"), c.rope_global.attention_factor);
    assert_true(c.rope_sliding.attention_factor == 1.0);
    json_decref(config);
}

/* "yarn 32, half", "plain 10000, whole" */
static void check_rope_text(const rope_config *r, const char *text, int head_dim, const char *name) {
    double number = 0;
    char kind[8] = "", part[8] = "";
    assert_int_equal(sscanf(text, "%7s %lf, %7s", kind, &number, part), 3);
    bool yarn = strcmp(kind, "yarn") == 0;
    if (r->yarn != yarn || (yarn ? r->factor : r->theta) != number ||
        r->dim != (strcmp(part, "half") ? head_dim : head_dim / 2))
        fail_msg("C33/%s: expected %s, found yarn %d factor %g theta %g dim %d", name, text, r->yarn, r->factor,
                 r->theta, r->dim);
}

static void check_layout(const json_t *row) {
    json_t *config = json_deep_copy(base);
    err e = { 0 };
    target_config c;
    json_object_del(config, "rope_parameters");
    json_object_update(config, json_object_get(row, "config"));
    if (target_config_read(&c, (cfg){ config, "f" }, &e) != OK) fail_msg("C33/%s: %s", text_of(row, "name"), e.text);
    check_rope_text(&c.rope_global, text_of(row, "global"), c.head_dim, text_of(row, "name"));
    check_rope_text(&c.rope_sliding, text_of(row, "sliding"), c.head_dim, text_of(row, "name"));
    json_decref(config);
}

static void c33_rope(void **state) {
    (void)state;
    json_t *file = load_json("tests/cases/tables/C33-rope.json"), *row;
    size_t i, n = 0;
    json_array_foreach(json_object_get(file, "scale"), i, row) {
        check_scale(row);
        n++;
    }
    json_array_foreach(json_object_get(file, "scale_variations"), i, row) {
        check_scale(row);
        n++;
    }
    json_array_foreach(json_object_get(file, "layouts"), i, row) {
        check_layout(row);
        n++;
    }
    assert_true(n >= 13);
    json_decref(file);
}

/* ---- one change to a good config, and what follows ---- */

static const change CHANGES[] = {
    { "hidden_size", "100", "hidden_size: expected a multiple of 16, found 100" },
    { "hidden_size", "0", "hidden_size: expected an integer from 16" },
    { "hidden_size", "\"x\"", "found \"x\"" },
    { "hidden_size", "1048576", "hidden_size" },
    { "hidden_size", NULL, "hidden_size: expected an integer from 16 to 65536, but it is absent" },
    { "num_hidden_layers", "0", "num_hidden_layers" },
    { "num_hidden_layers", "257", "num_hidden_layers" },
    { "num_hidden_layers", "5", "layer_types: expected 5 elements, found 4" },
    { "head_dim", "0", "head_dim" },
    { "head_dim", "24", "head_dim: expected a multiple of 16" },
    { "vocab_size", "0", "vocab_size" },
    { "vocab_size", "4294967296", "vocab_size" },
    { "vocab_size", "327", NULL },
    { "num_key_value_heads", "0", "num_key_value_heads" },
    { "num_key_value_heads", "4", "expected a multiple of num_key_value_heads (4), found 6 in layer 1" },
    { "num_attention_heads_per_layer", "[4, 6, 4]", "expected 4 elements, found 3" },
    { "num_attention_heads_per_layer", "[4, 6, 4, 0]", "num_attention_heads_per_layer.3" },
    { "num_attention_heads_per_layer", NULL, "num_attention_heads" },
    { "layer_types", "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"chunked\"]", "layer_types.3" },
    { "layer_types", NULL, NULL },
    { "sliding_window", NULL, "sliding_window" },
    { "sliding_window", "0", "sliding_window" },
    { "mlp_layer_types", "[\"dense\", \"sparse\", \"sparse\", 1]", "mlp_layer_types.3" },
    { "num_experts", "0", "num_experts" },
    { "num_experts", "1", "num_experts_per_tok: expected an integer from 1 to 1, found 2" },
    { "num_experts_per_tok", "0", "num_experts_per_tok" },
    { "moe_intermediate_size", "8", "moe_intermediate_size" },
    { "intermediate_size", NULL, "intermediate_size" },
    { "shared_expert_intermediate_size", "0", NULL },
    { "shared_expert_intermediate_size", NULL, NULL },
    { "shared_expert_intermediate_size", "17", "shared_expert_intermediate_size: expected a multiple" },
    { "moe_routed_scaling_factor", "-1", "moe_routed_scaling_factor" },
    { "moe_router_logit_softcapping", "-1", "moe_router_logit_softcapping" },
    { "moe_router_logit_softcapping", "30", NULL },
    { "rms_norm_eps", "0", "rms_norm_eps" },
    { "max_position_embeddings", "0", "max_position_embeddings" },
    { "max_position_embeddings", "2147483648", "max_position_embeddings" },
    { "gating", "true", NULL },
    { "gating", "\"per_head\"", NULL },
    { "gating", NULL, NULL },
    { "gating", "false", "gating" },
    { "gating", "\"per-layer\"", "gating" },
    { "gating_types", "[\"per_head\", \"per_head\", \"per_head\", \"per_head\"]", NULL },
    { "gating_types", "[\"per_head\", \"per_head\", \"per_head\", \"per_element\"]", "gating_types.3" },
    { "gating_types", "[\"per_head\"]", "gating_types" },
    /* known, and not offered */
    { "swa_attention_sink_enabled", "true", "swa_attention_sink_enabled: only false is offered, found true" },
    { "swa_attention_sink_enabled", "false", NULL },
    { "moe_router_score_func", "\"sqrtsoftplus\"",
      "moe_router_score_func: only \"sigmoid\" is offered, found \"sqrtsoftplus\"" },
    { "moe_router_score_func", "\"sigmoid\"", NULL },
    { "moe_router_use_sigmoid", "false", "moe_router_use_sigmoid" },
    { "moe_router_use_sigmoid", "true", NULL },
    { "attention_bias", "true", "attention_bias" },
    { "qkv_bias", "true", "qkv_bias" },
    { "moe_apply_router_weight_on_input", "true", "moe_apply_router_weight_on_input" },
    { "tie_word_embeddings", "true", "tie_word_embeddings" },
    { "hidden_act", "\"gelu\"", "hidden_act" },
    { "architectures", "[\"LlamaForCausalLM\"]", "expected LagunaForCausalLM, found LlamaForCausalLM" },
    { "architectures", "[\"DFlashLagunaForCausalLM\"]", "this is a draft" },
    { "architectures", "[]", "architectures" },
    { "architectures", NULL, "neither architectures nor model_type" },
    /* rotation */
    { "rope_parameters", "5", "rope_parameters: expected an object" },
    { "rope_parameters", NULL, "rope_theta" },
    { "rope_parameters.full_attention", "500000", "rope_parameters.full_attention: expected an object" },
    { "rope_parameters.sliding_attention", NULL, "rope_parameters.sliding_attention" },
    { "rope_parameters.full_attention.rope_type", "\"llama3\"", "expected \"default\" or \"yarn\", found \"llama3\"" },
    { "rope_parameters.full_attention.factor", NULL, "rope_parameters.full_attention.factor" },
    { "rope_parameters.full_attention.factor", "0.5", "rope_parameters.full_attention.factor" },
    { "rope_parameters.full_attention.rope_theta", "0", "rope_theta" },
    { "rope_parameters.full_attention.rope_theta", "1", "rope_theta" },
    { "rope_parameters.full_attention.attention_factor", "0", "attention_factor" },
    { "rope_parameters.full_attention.attention_factor", "\"1\"", "attention_factor" },
    { "rope_parameters.full_attention.original_max_position_embeddings", NULL, "original_max_position_embeddings" },
    { "rope_parameters.full_attention.beta_fast", "0.5", "beta_fast" },
    { "rope_parameters.full_attention.partial_rotary_factor", "0.07", "even number of rotated elements" },
    { "rope_parameters.full_attention.partial_rotary_factor", "0", "even number" },
    { "rope_parameters.full_attention.partial_rotary_factor", "1.5", "partial_rotary_factor" },
    { "rope_parameters.full_attention.partial_rotary_factor", "0.25", NULL },
    { "rope_scaling", "null", NULL },
};

static status read_any(void *out, cfg c, err *e) { return target_config_read(out, c, e); }

static void one_change(void **state) {
    (void)state;
    target_config c;
    check_changes(base, CHANGES, sizeof CHANGES / sizeof CHANGES[0], read_any, &c, sizeof c);
}

/* ---- older spellings ---- */

static target_config read_changed(int n, const char *const (*changes)[2]) {
    target_config c;
    read_with(base, n, changes, read_any, &c);
    return c;
}

static void older_spellings(void **state) {
    (void)state;
    target_config c = read_changed(2, (const char *const[][2]){ { "num_attention_heads_per_layer", NULL },
                                                                { "num_attention_heads", "6" } });
    for (int l = 0; l < c.layers; l++) assert_int_equal(c.layer[l].heads, 6);

    c = read_changed(2, (const char *const[][2]){ { "layer_types", NULL }, { "sliding_window", NULL } });
    for (int l = 0; l < c.layers; l++) assert_false(c.layer[l].sliding);
    assert_int_equal(c.window, 0);

    c = read_changed(3, (const char *const[][2]){ { "mlp_layer_types", NULL },
                                                  { "mlp_only_layers", "[0, 3]" },
                                                  { "decoder_sparse_step", "1" } });
    assert_true(!c.layer[0].sparse && c.layer[1].sparse && c.layer[2].sparse && !c.layer[3].sparse);
    c = read_changed(2, (const char *const[][2]){ { "mlp_layer_types", NULL }, { "decoder_sparse_step", "2" } });
    assert_true(!c.layer[0].sparse && c.layer[1].sparse && !c.layer[2].sparse && c.layer[3].sparse);

    c = read_changed(3, (const char *const[][2]){
                            { "mlp_layer_types", NULL }, { "num_experts", "0" }, { "num_experts_per_tok", NULL } });
    assert_int_equal(c.experts, 0);
    for (int l = 0; l < c.layers; l++) assert_false(c.layer[l].sparse);
    c = read_changed(2, (const char *const[][2]){
                            { "mlp_layer_types", "[\"sparse\", \"sparse\", \"sparse\", \"sparse\"]" },
                            { "intermediate_size", NULL } });
    assert_int_equal(c.dense_width, 0);

    c = read_changed(3, (const char *const[][2]){
                            { "rope_parameters", NULL },
                            { "rope_theta", "500000" },
                            { "rope_scaling",
                              "{\"type\": \"yarn\", \"factor\": 32, \"original_max_position_embeddings\": 4096}" } });
    assert_true(c.rope_global.yarn && c.rope_global.theta == 500000.0 &&
                close_to(c.rope_global.attention_factor, 1.3465735902799727));
    assert_true(c.rope_global.beta_fast == 32.0 && c.rope_global.beta_slow == 1.0 && c.rope_global.truncate);

    /* a part at top level holds only where the block has none */
    c = read_changed(2,
                     (const char *const[][2]){ { "partial_rotary_factor", "0.25" },
                                               { "rope_parameters.sliding_attention.partial_rotary_factor", NULL } });
    assert_int_equal(c.rope_sliding.dim, c.head_dim / 4);
    assert_int_equal(c.rope_global.dim, c.head_dim / 2);

    c = read_changed(3, (const char *const[][2]){ { "rope_parameters.full_attention.attention_factor", NULL },
                                                  { "rope_parameters.full_attention.mscale", "2.0" },
                                                  { "rope_parameters.full_attention.mscale_all_dim", "1.0" } });
    assert_true(close_to(c.rope_global.attention_factor, (0.2 * 4.852030263919617 + 1) / 1.4852030263919618));
}

/* ---- real folders ---- */

static target_config read_folder(const char *dir) {
    json_t *config = load_json(path_in(dir, "config.json"));
    target_config c;
    err e = { 0 };
    if (target_config_read(&c, (cfg){ config, dir }, &e) != OK) fail_msg("%s", e.text);
    json_decref(config);
    return c;
}

static void real_folders(void **state) {
    (void)state;
    target_config c = read_folder("target/demo");
    assert_int_equal(c.hidden, 256);
    assert_int_equal(c.layers, 8);
    assert_int_equal(c.vocab, 4096);
    assert_int_equal(c.window, 128);
    assert_int_equal(c.layer[3].heads, 6);
    assert_true(c.layer[3].sliding && c.layer[3].sparse && !c.layer[4].sliding && !c.layer[0].sparse);
    assert_int_equal(c.experts, 32);
    assert_int_equal(c.experts_per_token, 4);
    assert_true(c.normalize && !c.gate_per_element && c.routed_scale == 2.5 && c.softcap == 0.0 && c.norm_eps == 1e-6);
    assert_true(c.rope_global.yarn && !c.rope_sliding.yarn && c.rope_global.dim == 32 && c.rope_sliding.dim == 64);
    assert_true(c.rope_global.original == 512.0 && c.rope_global.factor == 8.0);

    c = read_folder("tests/golden/tiny_target");
    assert_int_equal(c.window, 16);
    assert_int_equal(c.shared_width, 32);

    c = read_folder("tests/golden/tiny_target_per_element");
    assert_true(c.gate_per_element && c.softcap == 2.0 && c.window == 0 && c.routed_scale == 1.5);
    assert_true(c.rope_global.dim == c.head_dim && close_to(c.rope_global.attention_factor, 1.3465735902799727));

    c = read_folder("tests/golden/tiny_target_aliases");
    assert_true(!c.gate_per_element && c.rope_global.attention_factor == 1.0 && c.rope_global.beta_fast == 64.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c33_rope),
        cmocka_unit_test(one_change),
        cmocka_unit_test(older_spellings),
        cmocka_unit_test(real_folders),
    };
    return cmocka_run_group_tests_name("target_config", tests, setup, teardown);
}
