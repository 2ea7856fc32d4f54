#include "tests/unit/load_fixture.h"
#include "draft/weights.h"
#include "kernels/mxfp4.h"
#include "target/weights.h"

#include <math.h>

/* ---- loading what a test has made, or a folder ---- */

typedef struct loaded {
    scratch s;
    model_dir *dir;
    target_config tc;
    target_weights tw;
    draft_config dc;
    draft_weights dw;
    char *log;
} loaded;

static float last_fraction;

static void note_progress(void *arg, float fraction) {
    (void)arg;
    assert_true(fraction > last_fraction && fraction <= 1.0f);
    last_fraction = fraction;
}

static status load_dir(loaded *l, source_builtin kind, const char *path, bool draft, err *e) {
    log_capture capture = log_capture_begin();
    status s = model_dir_open(&l->dir, kind, path, e);
    last_fraction = 0;
    if (s == OK && draft)
        s = draft_config_read(&l->dc, model_dir_config(l->dir), e);
    else if (s == OK)
        s = target_config_read(&l->tc, model_dir_config(l->dir), e);
    if (s == OK && draft)
        s = draft_weights_bind(&l->dw, l->dir, &l->dc, e);
    else if (s == OK)
        s = target_weights_bind(&l->tw, l->dir, &l->tc, note_progress, NULL, e);
    l->log = log_capture_end(capture);
    return s;
}

static status load_made(loaded *l, const made_model *m, bool draft, err *e) {
    scratch_init(&l->s);
    write_single(m, l->s.model);
    return load_dir(l, SOURCE_FOLDER, l->s.model, draft, e);
}

static void unload(loaded *l) {
    target_weights_deinit(&l->tw);
    draft_weights_deinit(&l->dw);
    model_dir_close(l->dir);
    free(l->log);
    if (l->s.base[0]) scratch_deinit(&l->s);
    *l = (loaded){ 0 };
}

static void must_load(loaded *l, const made_model *m, bool draft) {
    err e = { 0 };
    if (load_made(l, m, draft, &e) != OK) fail_msg("%s", e.text);
}

/* Refused, and the message has both parts. */
static void must_refuse(const made_model *m, bool draft, const char *part, const char *other) {
    loaded l = { 0 };
    err e = { 0 };
    assert_int_equal(load_made(&l, m, draft, &e), ERR_MODEL);
    assert_has(e.text, part);
    assert_has(e.text, other);
    unload(&l);
}

static bool same_bf16(const weight *w, const made_tensor *t) {
    return w->type == DT_BF16 && w->n == t->dim[0] && w->k == t->dim[1] && memcmp(w->data, t->data, t->bytes) == 0;
}

/* ---- the real folders ---- */

static void demo_and_golden(void **state) {
    (void)state;
    static const struct {
        source_builtin kind;
        const char *dir;
        bool draft;
        int64_t parameters, bytes;
    } DIRS[] = {
        { SOURCE_DEMO_TARGET, NULL, false, 16277984, 16384960 },
        { SOURCE_FOLDER, "target/demo", false, 16277984, 16384960 },
        { SOURCE_DEMO_DRAFT, NULL, true, 1906176, 3812352 },
        { SOURCE_FOLDER, "tests/golden/tiny_target", false, 1063976, 1406032 },
        { SOURCE_FOLDER, "tests/golden/tiny_target_aliases", false, 212812, 371480 },
        { SOURCE_FOLDER, "tests/golden/tiny_target_per_element", false, 211912, 351632 },
        { SOURCE_FOLDER, "tests/golden/tiny_draft", true, 305920, 611840 },
    };
    for (size_t i = 0; i < sizeof DIRS / sizeof DIRS[0]; i++) {
        loaded l = { 0 };
        err e = { 0 };
        if (load_dir(&l, DIRS[i].kind, DIRS[i].dir, DIRS[i].draft, &e) != OK) fail_msg("%s", e.text);
        assert_string_equal(l.log, "");
        assert_int_equal(DIRS[i].draft ? l.dw.parameters : l.tw.parameters, DIRS[i].parameters);
        assert_int_equal(DIRS[i].draft ? l.dw.bytes : l.tw.bytes, DIRS[i].bytes);
        assert_int_equal(model_dir_bytes(l.dir), DIRS[i].bytes); /* nothing was left unread */
        if (!DIRS[i].draft) assert_true(last_fraction == 1.0f);
        unload(&l);
    }
}

static void shapes_of_a_layer(void **state) {
    (void)state;
    loaded l = { 0 };
    err e;
    assert_int_equal(load_dir(&l, SOURCE_FOLDER, "tests/golden/tiny_target", false, &e), OK);
    const target_layer_weights *dense = &l.tw.layer[0], *sparse = &l.tw.layer[1];
    assert_true(dense->q.n == 4 * 32 && dense->q.k == 128 && dense->g.n == 4 && dense->o.n == 128 &&
                dense->o.k == 4 * 32);
    assert_true(sparse->q.n == 6 * 32 && sparse->g.n == 6 && sparse->k.n == 2 * 32 && sparse->v.n == 2 * 32);
    assert_true(dense->gate.n == 64 && dense->down.k == 64 && dense->router.n == 0 && !dense->expert_gate &&
                !dense->router_bias);
    assert_true(sparse->gate.n == 32 && sparse->router.n == 8 && sparse->router.type == DT_BF16 &&
                sparse->router_bias != NULL);
    assert_true(sparse->expert_up[7].type == DT_MXFP4 && sparse->expert_up[7].n == 32 && sparse->expert_up[7].k == 128);
    assert_true(sparse->expert_down[0].n == 128 && sparse->expert_down[0].k == 32 &&
                sparse->expert_down[0].scale != NULL);
    const tensor *t = model_dir_find(l.dir, "model.layers.1.mlp.experts.7.up_proj.weight_packed");
    assert_ptr_equal(sparse->expert_up[7].data, t->data); /* mapped, not copied */
    unload(&l);

    /* one layer of BF16 experts, second spellings */
    assert_int_equal(load_dir(&l, SOURCE_FOLDER, "tests/golden/tiny_target_aliases", false, &e), OK);
    assert_true(l.tw.layer[1].expert_gate[0].type == DT_MXFP4 && l.tw.layer[2].expert_gate[0].type == DT_BF16);
    assert_true(l.tw.layer[1].gate.n == 32 && l.tw.layer[1].router_bias != NULL);
    unload(&l);
    assert_int_equal(load_dir(&l, SOURCE_FOLDER, "tests/golden/tiny_target_per_element", false, &e), OK);
    assert_int_equal(l.tw.layer[0].g.n, 4 * 32);
    unload(&l);
}

/* ---- target: names, shapes, types ---- */

static void every_fault_in_one_message(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    drop_made(&m, "model.layers.1.self_attn.g_proj.weight");
    drop_made(&m, "model.norm.weight");
    add_made(&m, "BF16", 4, 4, "model.layers.1.self_attn.k_scale");
    find_made(&m, "model.layers.2.self_attn.q_proj.weight")->dim[0] = 32; /* the same bytes in another shape */
    find_made(&m, "model.layers.2.self_attn.q_proj.weight")->dim[1] = 128;
    snprintf(find_made(&m, "lm_head.weight")->dtype, 16, "I16");
    loaded l = { 0 };
    err e;
    assert_int_equal(load_made(&l, &m, false, &e), ERR_MODEL);
    assert_has(e.text, "2 missing, 2 wrong, 1 unexpected");
    assert_has(e.text, "model.layers.1.self_attn.g_proj.weight");
    assert_has(e.text, "model.norm.weight");
    assert_has(e.text, "model.layers.1.self_attn.k_scale");
    assert_has(e.text, "model.layers.2.self_attn.q_proj.weight: expected shape [64, 64], found [32, 128]");
    assert_has(e.text, "lm_head.weight: expected type BF16, F16 or F32, found I16");
    assert_null(l.tw.mem);
    unload(&l);
    made_free(&m);
}

static void known_auxiliary_tensors_are_left_aside(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    add_made(&m, "F32", 8, -1, "model.layers.0.self_attn.rotary_emb.inv_freq");
    loaded l = { 0 };
    must_load(&l, &m, false);
    unload(&l);
    made_free(&m);
}

static void both_spellings_at_once_are_refused(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    add_made(&m, "BF16", 4, -1, "model.layers.1.mlp.gate.e_score_correction_bias");
    add_made(&m, "BF16", 32, 64, "model.layers.1.mlp.shared_experts.up_proj.weight");
    must_refuse(&m, false, "2 unexpected", "shared_experts.up_proj.weight");
    made_free(&m);
}

static void a_flood_is_counted(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    for (int i = 0; i < 500; i++)
        add_made(&m, "U8", 1, -1, "model.layers.0.some.tensor.of.another.family.number.%d", i);
    drop_made(&m, "lm_head.weight");
    must_refuse(&m, false, "1 missing, 0 wrong, 500 unexpected", "lm_head.weight");
    must_refuse(&m, false, "\n  ... and ", "model.layers.0.some.tensor");
    made_free(&m);
}

/* ---- conversions ---- */

static void f32_and_f16_become_bf16(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    const char *q = "model.layers.0.self_attn.q_proj.weight", *k = "model.layers.0.self_attn.k_proj.weight";
    const char *norm = "model.layers.0.input_layernorm.weight",
               *bias = "model.layers.1.mlp.experts.e_score_correction_bias";
    drop_made(&m, q);
    drop_made(&m, k);
    drop_made(&m, norm);
    drop_made(&m, bias);
    made_tensor *t = add_made(&m, "F32", 64, 64, "%s", q);
    /* ties to even, up and down; the nearest; infinity stays */
    const float values[] = { 1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1.8p-8f, -1.0f - 0x1p-9f, INFINITY };
    const uint16_t halves[] = { 0xC100, 0x3C00 }; /* -2.5, 1 */
    const float rounded[] = { 1.0f, 1.0f + 0x1p-6f, 1.0f + 0x1p-7f, -1.0f, INFINITY };
    for (size_t i = 0; i < 64 * 64; i++) memcpy(t->data + 4 * i, &values[i % 5], 4);
    t = add_made(&m, "F16", 32, 64, "%s", k);
    for (size_t i = 0; i < 32 * 64; i++) memcpy(t->data + 2 * i, &halves[i % 2], 2);
    t = add_made(&m, "F32", 64, -1, "%s", norm);
    for (size_t i = 0; i < 64; i++) memcpy(t->data + 4 * i, &(float){ 1.5f }, 4);
    t = add_made(&m, "F32", 4, -1, "%s", bias);
    for (size_t i = 0; i < 4; i++) memcpy(t->data + 4 * i, &(float){ 0.1f * (float)i }, 4);

    loaded l = { 0 };
    must_load(&l, &m, false);
    const bf16 *got = l.tw.layer[0].q.data;
    assert_int_equal(l.tw.layer[0].q.type, DT_BF16);
    for (size_t i = 0; i < 64 * 64; i++) assert_true(f32_of_bf16(got[i]) == rounded[i % 5]);
    got = l.tw.layer[0].k.data;
    for (size_t i = 0; i < 32 * 64; i++) assert_true(f32_of_bf16(got[i]) == (i % 2 ? 1.0f : -2.5f));
    for (size_t i = 0; i < 64; i++) assert_true(f32_of_bf16(l.tw.layer[0].input_norm[i]) == 1.5f);
    for (size_t i = 0; i < 4; i++) assert_true(l.tw.layer[1].router_bias[i] == 0.1f * (float)i); /* FP32 stays FP32 */
    unload(&l);
    made_free(&m);
}

/* A header of odd length: no tensor is aligned, and the values are the same. */
static void odd_addresses_are_copied(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    loaded l = { 0 };
    err e = { 0 };
    scratch_init(&l.s);
    write_json(l.s.model, "config.json", m.config);
    write_shard(&m, -1, 1, l.s.model, "model.safetensors");
    if (load_dir(&l, SOURCE_FOLDER, l.s.model, false, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal((uintptr_t)model_dir_find(l.dir, "lm_head.weight")->data % 2, 1);
    assert_int_equal((uintptr_t)l.tw.head.data % 2, 0);
    assert_true(same_bf16(&l.tw.head, find_made(&m, "lm_head.weight")));
    assert_memory_equal(l.tw.final_norm, find_made(&m, "model.norm.weight")->data, 128);
    unload(&l);
    made_free(&m);
}

/* Any linear module may be MXFP4; embedding, head and router may not. */
static void which_modules_may_be_mxfp4(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    drop_made(&m, "model.layers.0.self_attn.q_proj.weight");
    add_mxfp4(&m, 64, 64, "model.layers.0.self_attn.q_proj");
    loaded l = { 0 };
    must_load(&l, &m, false);
    assert_int_equal(l.tw.layer[0].q.type, DT_MXFP4);
    assert_true(l.tw.layer[0].q.n == 64 && l.tw.layer[0].q.k == 64);
    unload(&l);
    static const char *const DENSE[] = { "model.embed_tokens", "lm_head", "model.layers.1.mlp.gate" };
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.weight", DENSE[i]);
        made_model other = make_tiny_target();
        int64_t n = find_made(&other, name)->dim[0];
        drop_made(&other, name);
        add_mxfp4(&other, n, 64, DENSE[i]);
        must_refuse(&other, false, DENSE[i], "MXFP4 is not read for this matrix");
        made_free(&other);
    }
    made_free(&m);

    m = make_tiny_target(); /* rows of 48 columns are no whole groups */
    set_member(m.config, "intermediate_size", "48");
    drop_made(&m, "model.layers.0.mlp.gate_proj.weight");
    drop_made(&m, "model.layers.0.mlp.up_proj.weight");
    drop_made(&m, "model.layers.0.mlp.down_proj.weight");
    add_mxfp4(&m, 48, 64, "model.layers.0.mlp.gate_proj");
    add_mxfp4(&m, 48, 64, "model.layers.0.mlp.up_proj");
    add_mxfp4(&m, 64, 48, "model.layers.0.mlp.down_proj");
    must_refuse(&m, false, "1 wrong",
                "mlp.down_proj.weight_packed: MXFP4 is read for rows of a multiple of 32 columns only");
    made_free(&m);
}

/* ---- C32: the draft's file ---- */

static void c32_row(const char *name, bool *is_ours) {
    made_model m = make_tiny_draft();
    loaded l = { 0 };
    *is_ours = true;
    if (strcmp(name, "extra tensor") == 0) {
        add_made(&m, "BF16", 64, -1, "aux_hidden_norms.9.weight");
        must_refuse(&m, true, "1 unexpected", "aux_hidden_norms.9.weight");
    } else if (strcmp(name, "missing tensor") == 0) {
        drop_made(&m, "layers.1.self_attn.g_proj.weight");
        must_refuse(&m, true, "1 missing", "layers.1.self_attn.g_proj.weight");
    } else if (strcmp(name, "no plural window field") == 0) {
        set_member(m.config, "sliding_windows", NULL);
        must_load(&l, &m, true);
        assert_int_equal(l.dc.window, 8);
    } else if (strcmp(name, "no window at all") == 0) {
        set_member(m.config, "sliding_windows", NULL);
        set_member(m.config, "sliding_window", NULL);
        must_refuse(&m, true, "sliding_window", "absent");
    } else if (strcmp(name, "layer count and file disagree") == 0) {
        set_member(m.config, "num_hidden_layers", "3");
        set_member(m.config, "layer_types", NULL);
        set_member(m.config, "sliding_windows", NULL);
        must_refuse(&m, true, "10 missing", "layers.2.input_layernorm.weight");
    } else if (strcmp(name, "other hidden size") == 0) {
        err e;
        set_member(m.config, "hidden_size", "48");
        draft_config c;
        assert_int_equal(draft_config_read(&c, (cfg){ m.config, "f" }, &e), OK);
        assert_int_equal(draft_config_check(&c, 64, 326, 4, &e), ERR_MODEL);
        assert_has(e.text, "draft 48, target 64");
    } else if (strcmp(name, "prefix model. on every name") == 0) {
        for (size_t i = 0; i < m.count; i++) {
            char published[128];
            snprintf(published, sizeof published, "%s", m.at[i].name);
            snprintf(m.at[i].name, sizeof m.at[i].name, "model.%.100s", published);
        }
        must_load(&l, &m, true);
        assert_int_equal(l.dw.bytes, model_dir_bytes(l.dir));
    } else {
        *is_ours = false;
    }
    unload(&l);
    made_free(&m);
}

static void c32_draft_file(void **state) {
    (void)state;
    /* These compare logits: tests of the forward pass. */
    static const char *const FORWARD[] = { "parity", "norm per captured layer set to zero",
                                           "output gate set to a constant", "one norm replaced" };
    json_t *file = load_json("tests/cases/tables/C32-draft-file.json"), *row;
    size_t i;
    int n_forward = 0;
    json_array_foreach(json_object_get(file, "rows"), i, row) {
        bool is_ours, is_forward = false;
        c32_row(text_of(row, "name"), &is_ours);
        for (int j = 0; j < 4; j++) is_forward |= strcmp(text_of(row, "name"), FORWARD[j]) == 0;
        n_forward += is_forward;
        if (is_ours == is_forward) fail_msg("C32/%s is not tested", text_of(row, "name"));
    }
    assert_int_equal(n_forward, 4);
    assert_int_equal(i, 11);
    json_decref(file);
}

static void split_and_fused_are_the_same(void **state) {
    (void)state;
    made_model m = make_tiny_draft();
    loaded l = { 0 };
    must_load(&l, &m, true);
    const made_tensor *fused = find_made(&m, "layers.1.self_attn.qkv_proj.weight");
    const draft_layer_weights *w = &l.dw.layer[1];
    assert_true(w->q.n == 96 && w->k.n == 32 && w->v.n == 32 && w->q.k == 64 && w->v.type == DT_BF16);
    assert_memory_equal(w->q.data, fused->data, 96 * 64 * 2);
    assert_memory_equal(w->k.data, fused->data + 96 * 64 * 2, 32 * 64 * 2);
    assert_memory_equal(w->v.data, fused->data + 128 * 64 * 2, 32 * 64 * 2);
    unload(&l);

    drop_made(&m, "layers.1.self_attn.qkv_proj.weight");
    add_made(&m, "BF16", 96, 64, "layers.1.self_attn.q_proj.weight");
    add_made(&m, "BF16", 32, 64, "layers.1.self_attn.k_proj.weight");
    add_made(&m, "BF16", 32, 64, "layers.1.self_attn.v_proj.weight");
    must_load(&l, &m, true);
    assert_true(same_bf16(&l.dw.layer[1].k, find_made(&m, "layers.1.self_attn.k_proj.weight")));
    assert_int_equal(l.dw.layer[0].k.n, 32); /* forms may differ by layer */
    unload(&l);
    drop_made(&m, "layers.1.self_attn.v_proj.weight");
    must_refuse(&m, true, "1 missing", "layers.1.self_attn.v_proj.weight");

    /* a quantised fused matrix is cut at whole rows of codes and scales */
    drop_made(&m, "layers.0.self_attn.qkv_proj.weight");
    add_made(&m, "BF16", 32, 64, "layers.1.self_attn.v_proj.weight");
    add_mxfp4(&m, 160, 64, "layers.0.self_attn.qkv_proj");
    must_load(&l, &m, true);
    w = &l.dw.layer[0];
    assert_true(w->v.type == DT_MXFP4 && w->v.n == 32);
    assert_memory_equal(w->v.data, find_made(&m, "layers.0.self_attn.qkv_proj.weight_packed")->data + 128 * 32,
                        32 * 32);
    assert_memory_equal(w->v.scale, find_made(&m, "layers.0.self_attn.qkv_proj.weight_scale")->data + 128 * 2, 32 * 2);
    unload(&l);
    made_free(&m);
}

static void unit_norms_are_seen(void **state) {
    (void)state;
    made_model m = make_tiny_draft();
    for (size_t i = 0; i < m.count; i++)
        for (size_t j = 0; m.at[i].n_dims == 1 && j < m.at[i].bytes; j += 2)
            memcpy(m.at[i].data + j, &(bf16){ 0x3F80 }, 2);
    loaded l = { 0 };
    must_load(&l, &m, true);
    assert_true(l.dw.unit_norms);
    unload(&l);
    find_made(&m, "layers.1.self_attn.k_norm.weight")->data[30] = 0x81;
    must_load(&l, &m, true);
    assert_false(l.dw.unit_norms);
    unload(&l);
    made_free(&m);
}

/* ---- C36: faults of scales (their values: test_mxfp4.c) ---- */

#define EXPERT "model.layers.1.mlp.experts.0.gate_proj" /* [32, 64] */
#define PACKED EXPERT ".weight_packed"
#define SCALE EXPERT ".weight_scale"

static void set_code(made_model *m, int row, int column, unsigned code) {
    uint8_t *b = &find_made(m, PACKED)->data[row * 32 + column / 2];
    *b = (uint8_t)(column % 2 ? (*b & 0x0F) | code << 4 : (*b & 0xF0) | code);
}

static void set_group(made_model *m, int row, int group, unsigned code, uint8_t scale) {
    for (int c = 0; c < 32; c++) set_code(m, row, group * 32 + c, code);
    find_made(m, SCALE)->data[row * 2 + group] = scale;
}

static void reshape(made_model *m, const char *name, const char *type, int64_t n, int64_t k) {
    drop_made(m, name);
    add_made(m, type, n, k, "%s", name);
}

static void c36_fault(const char *name) {
    made_model m = make_tiny_target();
    loaded l = { 0 };
    if (strcmp(name, "scale byte 255") == 0) {
        set_group(&m, 3, 1, 0, 255); /* zero codes do not help: 0 * NaN */
        must_refuse(&m, false, SCALE ": row 3, group 1", "NaN");
    } else if (strcmp(name, "scales as U8 and as F8_E8M0") == 0) {
        snprintf(find_made(&m, SCALE)->dtype, 16, "F8_E8M0");
        must_load(&l, &m, false);
        assert_int_equal(l.tw.layer[1].expert_gate[0].type, DT_MXFP4);
        assert_memory_equal(l.tw.layer[1].expert_gate[0].scale, find_made(&m, SCALE)->data, 64);
    } else if (strcmp(name, "scales as I8") == 0) {
        snprintf(find_made(&m, SCALE)->dtype, 16, "I8");
        must_refuse(&m, false, SCALE, "expected type U8 or F8_E8M0, found I8");
    } else if (strcmp(name, "scales as F32") == 0) {
        reshape(&m, SCALE, "F32", 32, 2);
        must_refuse(&m, false, SCALE, "found F32");
    } else if (strcmp(name, "scale tensor transposed") == 0) {
        reshape(&m, SCALE, "U8", 2, 32);
        must_refuse(&m, false, SCALE, "expected shape [32, 2], found [2, 32]");
    } else if (strcmp(name, "one block short") == 0) {
        reshape(&m, SCALE, "U8", 32, 1);
        reshape(&m, PACKED, "U8", 32, 31);
        must_refuse(&m, false, "expected shape [32, 2], found [32, 1]", "expected shape [32, 32], found [32, 31]");
    } else if (strcmp(name, "blocks of 16") == 0) {
        reshape(&m, SCALE, "U8", 32, 4);
        must_refuse(&m, false, SCALE, "expected shape [32, 2], found [32, 4]");
    } else if (strcmp(name, "six times the highest scale") == 0) {
        set_group(&m, 31, 0, 7, 254);
        must_refuse(&m, false, SCALE ": row 31, group 0: scale byte 254", "beyond FP32");
    } else if (strcmp(name, "smallest product") == 0) {
        set_group(&m, 0, 0, 1, 0);
        must_load(&l, &m, false);
        assert_has(l.log, "count as zero, the first in " SCALE);
        assert_true(mxfp4_value(1, 0) == 0x1p-128f);
    } else if (strcmp(name, "minus zero") == 0) {
        set_group(&m, 0, 0, 8, 0);
        must_load(&l, &m, false);
        assert_null(strstr(l.log, "count as zero"));
        assert_true(mxfp4_value(8, 0) == 0.0f);
    } else if (strcmp(name, "packed tensor without scales") == 0) {
        drop_made(&m, SCALE);
        must_refuse(&m, false, SCALE " (its weight_packed is there)", "1 missing");
    } else {
        fail_msg("C36/%s is not tested", name);
    }
    unload(&l);
    made_free(&m);
}

static void c36_faults(void **state) {
    (void)state;
    json_t *file = load_json("tests/cases/tables/C36-mxfp4.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(file, "faults"), i, row) { c36_fault(text_of(row, "name")); }
    assert_int_equal(i, 11);
    json_decref(file);
}

/* Every scale byte with every code: accepted exactly where all values are finite, and reported exactly where one is
 * subnormal, by the arithmetic of kernels/mxfp4.h. */
static void scale_scan_agrees_with_the_values(void **state) {
    (void)state;
    static const uint8_t SCALES[] = { 0, 1, 2, 3, 127, 251, 252, 253, 254, 255 };
    for (size_t i = 0; i < sizeof SCALES; i++)
        for (unsigned code = 0; code < 9; code++) {
            made_model m = make_tiny_target();
            loaded l = { 0 };
            err e = { 0 };
            set_group(&m, 1, 1, code, SCALES[i]);
            float v = mxfp4_value(code, SCALES[i]);
            bool finite = isfinite(v) && SCALES[i] != MXFP4_SCALE_NAN;
            assert_int_equal(load_made(&l, &m, false, &e), finite ? OK : ERR_MODEL);
            bool subnormal = fpclassify(v) == FP_SUBNORMAL;
            assert_int_equal(strstr(l.log, "count as zero") != NULL, subnormal);
            unload(&l);
            made_free(&m);
        }
}

/* A matrix with fewer scales than the scan takes at once. */
static void short_scales_are_scanned(void **state) {
    (void)state;
    const char *module = "model.layers.0.self_attn.g_proj", *scale = "model.layers.0.self_attn.g_proj.weight_scale";
    made_model m = make_tiny_target();
    loaded l = { 0 };
    drop_made(&m, "model.layers.0.self_attn.g_proj.weight");
    add_mxfp4(&m, 4, 64, module);
    must_load(&l, &m, false);
    assert_null(strstr(l.log, "count as zero"));
    unload(&l);
    memset(find_made(&m, "model.layers.0.self_attn.g_proj.weight_packed")->data, 0x11, 128);
    find_made(&m, scale)->data[7] = 1;
    must_load(&l, &m, false);
    assert_has(l.log, "1 groups have scale bytes 0 or 1");
    unload(&l);
    find_made(&m, scale)->data[7] = 255;
    must_refuse(&m, false, scale, "row 3, group 1: scale byte 255 gives NaN");
    made_free(&m);
}

static void packed_without_partner(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    drop_made(&m, PACKED);
    must_refuse(&m, false, PACKED " (its weight_scale is there)", "1 missing, 0 wrong, 0 unexpected");
    made_free(&m);
}

/* Tensors decide; the config is only compared. */
static void config_and_tensors_are_compared(void **state) {
    (void)state;
    made_model m = make_tiny_target();
    loaded l = { 0 };
    must_load(&l, &m, false);
    assert_has(l.log, "quantization_config does not say MXFP4");
    unload(&l);
    set_member(m.config, "quantization_config.quant_method", "\"mxfp4\"");
    must_load(&l, &m, false);
    assert_string_equal(l.log, "");
    unload(&l);
    made_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_and_golden),
        cmocka_unit_test(shapes_of_a_layer),
        cmocka_unit_test(every_fault_in_one_message),
        cmocka_unit_test(known_auxiliary_tensors_are_left_aside),
        cmocka_unit_test(both_spellings_at_once_are_refused),
        cmocka_unit_test(a_flood_is_counted),
        cmocka_unit_test(f32_and_f16_become_bf16),
        cmocka_unit_test(odd_addresses_are_copied),
        cmocka_unit_test(which_modules_may_be_mxfp4),
        cmocka_unit_test(c32_draft_file),
        cmocka_unit_test(split_and_fused_are_the_same),
        cmocka_unit_test(unit_norms_are_seen),
        cmocka_unit_test(c36_faults),
        cmocka_unit_test(scale_scan_agrees_with_the_values),
        cmocka_unit_test(short_scales_are_scanned),
        cmocka_unit_test(packed_without_partner),
        cmocka_unit_test(config_and_tensors_are_compared),
    };
    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
