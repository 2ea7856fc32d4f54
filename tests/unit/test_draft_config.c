#include "tests/unit/load_fixture.h"
#include "draft/config.h"

static json_t *base; /* a good config: that of TINY's draft */

static int setup(void **state) {
    (void)state;
    base = tiny_config("draft", "DFlashLagunaForCausalLM");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    json_decref(base);
    return 0;
}

#define IDS "dflash_config.target_layer_ids"
#define NEXT "eagle_aux_hidden_state_layer_ids"

static const change CHANGES[] = {
    { "hidden_size", "0", "hidden_size" },
    { "hidden_size", "65", "hidden_size: expected a multiple of 16" },
    { "num_hidden_layers", "0", "num_hidden_layers" },
    { "num_hidden_layers", "3", "layer_types: expected 3 elements, found 2" },
    { "num_attention_heads", "7", "expected a multiple of num_key_value_heads (2), found 7" },
    { "num_key_value_heads", "0", "num_key_value_heads" },
    { "head_dim", "8", "head_dim" },
    { "intermediate_size", NULL, "intermediate_size" },
    { "draft_vocab_size", "300", "draft_vocab_size: expected an integer from 326 to 326, found 300" },
    { "draft_vocab_size", NULL, NULL },
    { "rms_norm_eps", "-1", "rms_norm_eps" },
    { "gating", "true", NULL },
    { "gating", "\"none\"", "gating" },
    { "attention_bias", "true", "attention_bias" },
    { "hidden_act", "\"relu\"", "hidden_act" },
    { "architectures", "[\"LagunaForCausalLM\"]", "this is a target" },
    { "architectures", "[\"Other\"]", "expected DFlashLagunaForCausalLM, found Other" },
    { "architectures", NULL, NULL },
    /* windows */
    { "sliding_windows", NULL, NULL },
    { "sliding_window", NULL, NULL },
    { "sliding_windows", "[8, 9]", "sliding_windows.1: expected 8" },
    { "sliding_window", "16", "sliding_windows.0: expected 16" },
    { "sliding_windows", "[8]", "sliding_windows" },
    { "layer_types", "[\"sliding_attention\", \"full_attention\"]",
      "layer_types.1: only \"sliding_attention\" is offered" },
    { "layer_types", NULL, NULL },
    { "dflash_config.causal", "false", "dflash_config.causal: only true is offered" },
    { "dflash_config.causal", NULL, NULL },
    { "is_causal", "false", "is_causal" },
    { "dflash_config.sample_from_anchor", "true", "sample_from_anchor" },
    { "dflash_config.sample_from_anchor", "false", NULL },
    /* rotation */
    { "rope_theta", NULL, "rope_theta" },
    { "rope_theta", "0", "rope_theta" },
    { "rope_parameters", "{\"rope_type\": \"yarn\", \"rope_theta\": 10000}", "rope_parameters.rope_type" },
    { "rope_parameters", "{\"sliding_attention\": {\"rope_type\": \"yarn\"}}",
      "rope_parameters.sliding_attention.rope_type" },
    { "rope_parameters", "{\"partial_rotary_factor\": 0.5}", "partial_rotary_factor" },
    { "partial_rotary_factor", "0.5", "partial_rotary_factor" },
    /* block and taps */
    { "dflash_config", NULL, "dflash_config.block_size" },
    { "dflash_config.block_size", "1", "dflash_config.block_size" },
    { "dflash_config.block_size", "33", "dflash_config.block_size" },
    { "dflash_config.mask_token_id", "326",
      "dflash_config.mask_token_id: expected an integer from 0 to 325, found 326" },
    { "dflash_config.mask_token_id", NULL, "dflash_config.mask_token_id" },
    { "dflash_config.num_target_layers", NULL, NULL },
    { "dflash_config.num_target_layers", "2", IDS ".1: expected an integer from 0 to 1, found 2" },
    { IDS, "[]", IDS },
    { IDS, "[2, 1]", "expected ascending layers, found 1 behind 2" },
    { IDS, "[1, 1]", "ascending" },
    { IDS, "[-1, 1]", IDS ".0" },
    { IDS, "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "1 to 16" },
    { IDS, NULL, IDS },
    { NEXT, "[2, 3]", NULL },
    { NEXT, "[1, 2]", NEXT ".0: expected 2" },
    { NEXT, "[2]", NEXT ": expected 2 elements, found 1" },
};

static status read_any(void *out, cfg c, err *e) { return draft_config_read(out, c, e); }

static void one_change(void **state) {
    (void)state;
    draft_config c;
    check_changes(base, CHANGES, sizeof CHANGES / sizeof CHANGES[0], read_any, &c, sizeof c);
}

static draft_config read_changed(int n, const char *const (*changes)[2]) {
    draft_config c;
    read_with(base, n, changes, read_any, &c);
    return c;
}

static void derives_what_can_be_derived(void **state) {
    (void)state;
    draft_config c = read_changed(2, (const char *const[][2]){ { IDS, NULL }, { NEXT, "[2, 3]" } });
    assert_int_equal(c.taps, 2);
    assert_int_equal(c.tap_layer[0], 1);
    assert_int_equal(c.tap_layer[1], 2);
    c = read_changed(2, (const char *const[][2]){ { "sliding_window", NULL }, { "sliding_windows", "[24, 24]" } });
    assert_int_equal(c.window, 24);
    c = read_changed(1, (const char *const[][2]){ { "dflash_config.num_target_layers", NULL } });
    assert_int_equal(c.target_layers, 0);
}

/* A nested block filled with another layer type's default must not win. */
static void top_level_theta_wins(void **state) {
    (void)state;
    log_capture capture = log_capture_begin();
    draft_config c =
        read_changed(1, (const char *const[][2]){ { "rope_parameters.sliding_attention",
                                                    "{\"rope_type\": \"default\", \"rope_theta\": 10000}" } });
    char *log = log_capture_end(capture);
    assert_true(c.rope_theta == 500000.0);
    assert_has(log, "rope_theta 500000 is used");
    free(log);
    c = read_changed(2, (const char *const[][2]){ { "rope_theta", NULL },
                                                  { "rope_parameters", "{\"rope_theta\": 250000}" } });
    assert_true(c.rope_theta == 250000.0);
}

static void real_folders(void **state) {
    (void)state;
    json_t *config = load_json("draft/demo/config.json");
    draft_config c;
    err e;
    assert_int_equal(draft_config_read(&c, (cfg){ config, "f" }, &e), OK);
    assert_int_equal(c.hidden, 256);
    assert_int_equal(c.width, 768);
    assert_int_equal(c.window, 128);
    assert_int_equal(c.block_size, 16);
    assert_int_equal(c.mask_id, 12);
    assert_int_equal(c.target_layers, 8);
    assert_int_equal(c.taps, 3);
    assert_int_equal(c.tap_layer[2], 7);
    assert_int_equal(draft_config_check(&c, 256, 4096, 8, &e), OK);
    json_decref(config);
    config = load_json("tests/golden/tiny_draft/config.json");
    assert_int_equal(draft_config_read(&c, (cfg){ config, "f" }, &e), OK);
    assert_int_equal(draft_config_check(&c, 128, 448, 6, &e), OK);
    json_decref(config);
}

static void check_lists_all(void **state) {
    (void)state;
    draft_config c = read_changed(0, NULL);
    err e;
    assert_int_equal(draft_config_check(&c, 64, 326, 4, &e), OK);
    assert_int_equal(draft_config_check(&c, 48, 326, 4, &e), ERR_MODEL);
    assert_has(e.text, "hidden size: draft 64, target 48");
    assert_int_equal(draft_config_check(&c, 32, 100, 2, &e), ERR_MODEL);
    assert_has(e.text, "hidden size: draft 64, target 32");
    assert_has(e.text, "vocabulary: draft 326, target 100");
    assert_has(e.text, "4 by the draft's num_target_layers, 2 by the target");
    assert_has(e.text, "the draft reads layer 2, the target's last is 1");
    assert_int_equal(draft_config_check(&c, 64, 326, 5, NULL), ERR_MODEL);
    c.target_layers = 0; /* not stated: the taps must fit all the same */
    assert_int_equal(draft_config_check(&c, 64, 326, 5, &e), OK);
    assert_int_equal(draft_config_check(&c, 64, 326, 2, &e), ERR_MODEL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_change),           cmocka_unit_test(derives_what_can_be_derived),
        cmocka_unit_test(top_level_theta_wins), cmocka_unit_test(real_folders),
        cmocka_unit_test(check_lists_all),
    };
    return cmocka_run_group_tests_name("draft_config", tests, setup, teardown);
}
