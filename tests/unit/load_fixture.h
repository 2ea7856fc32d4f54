/* tests/unit/load_fixture.h - what the tests of loading share: JSON case files, a scratch folder, a writer of
 * safetensors files, and the TINY pair of tests/cases/fixtures/tiny.json as a list of tensors that a test may change.
 */
#ifndef TESTS_UNIT_LOAD_FIXTURE_H
#define TESTS_UNIT_LOAD_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/status.h"
#include "engine/load/cfg.h"

#define FIXTURE __attribute__((unused)) static

/* ---- JSON ---- */

FIXTURE json_t *load_json(const char *path) {
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why);
    if (!root) fail_msg("%s: line %d: %s", path, why.line, why.text);
    return root;
}

FIXTURE const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

FIXTURE json_t *parse_text(const char *text) {
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);
    if (!v) fail_msg("%s: %s", text, why.text);
    return v;
}

/* Sets the member at a path of names joined by '.' to a JSON text; NULL removes it. */
FIXTURE void set_member(json_t *root, const char *path, const char *text) {
    char key[64];
    for (size_t n; path[n = strcspn(path, ".")]; path += n + 1) {
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        if (!json_object_get(root, key)) json_object_set_new(root, key, json_object());
        root = json_object_get(root, key);
    }
    if (text)
        json_object_set_new(root, path, parse_text(text));
    else
        json_object_del(root, path);
}

FIXTURE void assert_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("expected \"%s\" in: %s", part, text);
}

/* ---- one change to a good config ---- */

typedef struct change {
    const char *path, *value; /* value NULL: removed */
    const char *message;      /* NULL: accepted */
} change;

typedef status config_reader(void *out, cfg c, err *e);

/* Each change alone is accepted, or refused with its message and the file's name and without a byte of output. `out`
 * has room for the config, `bytes` of it. */
FIXTURE void check_changes(const json_t *base, const change *changes, size_t n, config_reader *read, void *out,
                           size_t bytes) {
    err e = { 0 };
    assert_int_equal(read(out, (cfg){ base, "f" }, &e), OK);
    for (size_t i = 0; i < n; i++) {
        const change *x = &changes[i];
        json_t *config = json_deep_copy(base);
        set_member(config, x->path, x->value);
        memset(out, 0x5A, bytes);
        status s = read(out, (cfg){ config, "DIR/config.json" }, &e);
        if ((s == OK) != (x->message == NULL))
            fail_msg("%s = %s: status %d: %s", x->path, x->value ? x->value : "(absent)", s, s == OK ? "" : e.text);
        if (s != OK) {
            assert_int_equal(s, ERR_MODEL);
            assert_has(e.text, "DIR/config.json: ");
            assert_has(e.text, x->message);
            for (size_t b = 0; b < bytes; b++) assert_int_equal(((const unsigned char *)out)[b], 0x5A);
        }
        json_decref(config);
    }
}

/* The config with several changes, which must be accepted. */
FIXTURE void read_with(const json_t *base, int n, const char *const (*changes)[2], config_reader *read, void *out) {
    json_t *config = json_deep_copy(base);
    for (int i = 0; i < n; i++) set_member(config, changes[i][0], changes[i][1]);
    err e = { 0 };
    if (read(out, (cfg){ config, "f" }, &e) != OK) fail_msg("%s", e.text);
    json_decref(config);
}

/* ---- the parts of a cases-bytes file ---- */

static void put_le64(buf *b, uint64_t v) {
    for (int i = 0; i < 8; i++) buf_byte(b, (char)(v >> (8 * i)));
}

static void put_hex(buf *b, const char *hex) {
    for (unsigned v; sscanf(hex, "%2x", &v) == 1; hex += 2) buf_byte(b, (char)v);
}

FIXTURE void expand_parts(buf *out, const json_t *parts) {
    size_t i;
    json_t *p;
    json_array_foreach(parts, i, p) {
        const char *text = text_of(p, "text"), *repeat = text_of(p, "repeat"),
                   *header = text_of(p, "safetensors_header");
        const char *repeat_hex = text_of(p, "repeat_hex");
        json_int_t times = json_integer_value(json_object_get(p, "times"));
        buf_str(out, str_of(text));
        put_hex(out, text_of(p, "hex"));
        if (json_object_get(p, "u64le")) put_le64(out, strtoull(text_of(p, "u64le"), NULL, 10));
        if (*header) put_le64(out, strlen(header));
        buf_str(out, str_of(header));
        for (json_int_t t = 0; t < times; t++) {
            buf_str(out, str_of(repeat));
            put_hex(out, repeat_hex);
        }
    }
}

/* ---- a scratch folder BASE with BASE/model and BASE/blobs ---- */

typedef struct scratch {
    char base[64], model[80];
} scratch;

FIXTURE void scratch_init(scratch *s) {
    char blobs[80];
    snprintf(s->base, sizeof s->base, "/tmp/skiff-test-XXXXXX");
    assert_non_null(mkdtemp(s->base));
    snprintf(s->model, sizeof s->model, "%s/model", s->base);
    snprintf(blobs, sizeof blobs, "%s/blobs", s->base);
    assert_int_equal(mkdir(s->model, 0700), 0);
    assert_int_equal(mkdir(blobs, 0700), 0);
}

static void remove_tree(const char *path) {
    DIR *d = opendir(path);
    for (struct dirent *it; d && (it = readdir(d));) {
        char sub[512];
        if (strcmp(it->d_name, ".") == 0 || strcmp(it->d_name, "..") == 0) continue;
        snprintf(sub, sizeof sub, "%.200s/%.255s", path, it->d_name);
        struct stat st;
        if (lstat(sub, &st) == 0 && S_ISDIR(st.st_mode))
            remove_tree(sub);
        else
            unlink(sub);
    }
    if (d) closedir(d);
    rmdir(path);
}

FIXTURE void scratch_deinit(scratch *s) { remove_tree(s->base); }

/* Borrowed until the second next call. */
FIXTURE const char *path_in(const char *dir, const char *name) {
    static char path[2][512];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

FIXTURE void write_bytes(const char *dir, const char *name, str bytes) {
    FILE *f = fopen(path_in(dir, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes.p, 1, bytes.n, f), bytes.n);
    fclose(f);
}

FIXTURE void write_json(const char *dir, const char *name, const json_t *v) {
    assert_int_equal(json_dump_file(v, path_in(dir, name), JSON_INDENT(1)), 0);
}

/* ---- what goes to the log ---- */

typedef struct log_capture {
    int saved, file;
} log_capture;

FIXTURE log_capture log_capture_begin(void) {
    char path[] = "/tmp/skiff-log-XXXXXX";
    log_capture c = { dup(2), mkstemp(path) };
    unlink(path);
    dup2(c.file, 2);
    return c;
}

/* The text, to be freed. */
FIXTURE char *log_capture_end(log_capture c) {
    dup2(c.saved, 2);
    close(c.saved);
    off_t n = lseek(c.file, 0, SEEK_END);
    char *text = xalloc((size_t)n + 1);
    assert_int_equal(pread(c.file, text, (size_t)n, 0), n);
    close(c.file);
    return text;
}

/* ---- tensors ---- */

typedef struct made_tensor {
    char name[128], dtype[16];
    int64_t dim[2];
    int n_dims, shard;
    uint8_t *data;
    size_t bytes;
} made_tensor;

typedef struct made_model {
    json_t *config;
    made_tensor *at;
    size_t count, cap;
} made_model;

FIXTURE made_tensor *find_made(made_model *m, const char *name) {
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->at[i].name, name) == 0) return &m->at[i];
    fail_msg("the fixture has no tensor %s", name);
    abort();
}

/* Bytes from the name, so that no two tensors are alike; scale bytes from 118 to 125, BF16 values of moderate size. */
static void fill_tensor(made_tensor *t) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = t->name; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    bool scale = str_ends(str_of(t->name), STR("weight_scale")), packed = strcmp(t->dtype, "U8") == 0;
    for (size_t i = 0; i < t->bytes; i++) {
        h = h * 6364136223846793005u + 1442695040888963407u;
        uint8_t byte = (uint8_t)(h >> 56);
        t->data[i] = scale ? 118 + byte % 8 : packed || i % 2 == 0 ? byte : (uint8_t)(0x3C + byte % 4);
    }
}

/* k < 0: a vector. */
FIXTURE made_tensor *add_made(made_model *m, const char *type, int64_t n, int64_t k, const char *fmt, ...) {
    if (m->count == m->cap) m->at = xrealloc(m->at, (m->cap = m->cap ? 2 * m->cap : 64) * sizeof *m->at);
    made_tensor *t = &m->at[m->count++];
    *t = (made_tensor){ .dim = { n, k }, .n_dims = k < 0 ? 1 : 2 };
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->name, sizeof t->name, fmt, ap);
    va_end(ap);
    snprintf(t->dtype, sizeof t->dtype, "%s", type);
    size_t size = strcmp(type, "F32") == 0 ? 4 : type[0] == 'U' || type[0] == 'I' || strstr(type, "F8") ? 1 : 2;
    t->bytes = size * (size_t)(n * (k < 0 ? 1 : k));
    t->data = xalloc(t->bytes);
    fill_tensor(t);
    return t;
}

FIXTURE void add_mxfp4(made_model *m, int64_t n, int64_t k, const char *module) {
    add_made(m, "U8", n, k / 2, "%s.weight_packed", module);
    add_made(m, "U8", n, k / 32, "%s.weight_scale", module);
}

FIXTURE void drop_made(made_model *m, const char *name) {
    made_tensor *t = find_made(m, name);
    free(t->data);
    size_t i = (size_t)(t - m->at);
    memmove(t, t + 1, (--m->count - i) * sizeof *t);
}

FIXTURE void made_free(made_model *m) {
    for (size_t i = 0; i < m->count; i++) free(m->at[i].data);
    free(m->at);
    json_decref(m->config);
    *m = (made_model){ 0 };
}

/* Writes the tensors of a shard (-1: of all) as one file. `pad` bytes of spaces behind the header move the data. */
FIXTURE void write_shard(const made_model *m, int shard, size_t pad, const char *dir, const char *file) {
    buf header = { 0 }, out = { 0 };
    size_t at = 0;
    for (size_t i = 0; i < m->count; i++) {
        const made_tensor *t = &m->at[i];
        if (shard >= 0 && t->shard != shard) continue;
        buf_printf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", at || header.len ? "," : "{", t->name,
                   t->dtype, (long long)t->dim[0]);
        if (t->n_dims == 2) buf_printf(&header, ",%lld", (long long)t->dim[1]);
        buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
        at += t->bytes;
    }
    if (!header.len) buf_byte(&header, '{');
    buf_byte(&header, '}');
    while (header.len % 8) buf_byte(&header, ' ');
    for (size_t i = 0; i < pad; i++) buf_byte(&header, ' ');
    put_le64(&out, header.len);
    buf_str(&out, buf_view(&header));
    for (size_t i = 0; i < m->count; i++)
        if (shard < 0 || m->at[i].shard == shard) buf_put(&out, m->at[i].data, m->at[i].bytes);
    write_bytes(dir, file, buf_view(&out));
    buf_free(&header);
    buf_free(&out);
}

FIXTURE void write_single(const made_model *m, const char *dir) {
    write_json(dir, "config.json", m->config);
    write_shard(m, -1, 0, dir, "model.safetensors");
}

/* ---- TINY ---- */

static int64_t number_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void add_mlp(made_model *m, int64_t width, int64_t hidden, const char *prefix) {
    add_made(m, "BF16", width, hidden, "%s.gate_proj.weight", prefix);
    add_made(m, "BF16", width, hidden, "%s.up_proj.weight", prefix);
    add_made(m, "BF16", hidden, width, "%s.down_proj.weight", prefix);
}

static void add_sparse(made_model *m, int layer) {
    int64_t hidden = number_of(m->config, "hidden_size"), width = number_of(m->config, "moe_intermediate_size");
    int64_t experts = number_of(m->config, "num_experts");
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.mlp.shared_expert", layer);
    add_mlp(m, number_of(m->config, "shared_expert_intermediate_size"), hidden, name);
    add_made(m, "BF16", experts, hidden, "model.layers.%d.mlp.gate.weight", layer);
    add_made(m, "BF16", experts, -1, "model.layers.%d.mlp.experts.e_score_correction_bias", layer);
    for (int x = 0; x < experts; x++) {
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.gate_proj", layer, x);
        add_mxfp4(m, width, hidden, name);
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.up_proj", layer, x);
        add_mxfp4(m, width, hidden, name);
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.down_proj", layer, x);
        add_mxfp4(m, hidden, width, name);
    }
}

static void add_attention(made_model *m, int64_t heads, int64_t hidden, bool fused, const char *prefix) {
    int64_t head = number_of(m->config, "head_dim"), kv = head * number_of(m->config, "num_key_value_heads");
    add_made(m, "BF16", hidden, -1, "%s.input_layernorm.weight", prefix);
    add_made(m, "BF16", hidden, -1, "%s.post_attention_layernorm.weight", prefix);
    add_made(m, "BF16", head, -1, "%s.self_attn.q_norm.weight", prefix);
    add_made(m, "BF16", head, -1, "%s.self_attn.k_norm.weight", prefix);
    if (fused) {
        add_made(m, "BF16", heads * head + 2 * kv, hidden, "%s.self_attn.qkv_proj.weight", prefix);
    } else {
        add_made(m, "BF16", heads * head, hidden, "%s.self_attn.q_proj.weight", prefix);
        add_made(m, "BF16", kv, hidden, "%s.self_attn.k_proj.weight", prefix);
        add_made(m, "BF16", kv, hidden, "%s.self_attn.v_proj.weight", prefix);
    }
    add_made(m, "BF16", heads, hidden, "%s.self_attn.g_proj.weight", prefix);
    add_made(m, "BF16", hidden, heads * head, "%s.self_attn.o_proj.weight", prefix);
}

static json_t *tiny_config(const char *which, const char *architecture) {
    json_t *file = load_json("tests/cases/fixtures/tiny.json");
    json_t *config = json_deep_copy(json_object_get(file, which));
    json_object_set_new(config, "architectures", json_pack("[s]", architecture));
    json_decref(file);
    return config;
}

FIXTURE made_model make_tiny_target(void) {
    made_model m = { .config = tiny_config("target", "LagunaForCausalLM") };
    int64_t hidden = number_of(m.config, "hidden_size"), vocab = number_of(m.config, "vocab_size");
    add_made(&m, "BF16", vocab, hidden, "model.embed_tokens.weight");
    add_made(&m, "BF16", vocab, hidden, "lm_head.weight");
    for (int l = 0; l < number_of(m.config, "num_hidden_layers"); l++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "model.layers.%d", l);
        add_attention(&m,
                      json_integer_value(
                          json_array_get(json_object_get(m.config, "num_attention_heads_per_layer"), (size_t)l)),
                      hidden, false, prefix);
        if (l) {
            add_sparse(&m, l);
            continue;
        }
        add_mlp(&m, number_of(m.config, "intermediate_size"), hidden, "model.layers.0.mlp");
    }
    add_made(&m, "BF16", hidden, -1, "model.norm.weight");
    return m;
}

FIXTURE made_model make_tiny_draft(void) {
    made_model m = { .config = tiny_config("draft", "DFlashLagunaForCausalLM") };
    int64_t hidden = number_of(m.config, "hidden_size");
    int64_t taps =
        (int64_t)json_array_size(json_object_get(json_object_get(m.config, "dflash_config"), "target_layer_ids"));
    add_made(&m, "BF16", hidden, taps * hidden, "fc.weight");
    add_made(&m, "BF16", hidden, -1, "hidden_norm.weight");
    add_made(&m, "BF16", hidden, -1, "norm.weight");
    for (int i = 0; i < taps; i++) add_made(&m, "BF16", hidden, -1, "aux_hidden_norms.%d.weight", i);
    for (int l = 0; l < number_of(m.config, "num_hidden_layers"); l++) {
        char prefix[64], mlp[80];
        snprintf(prefix, sizeof prefix, "layers.%d", l);
        snprintf(mlp, sizeof mlp, "%s.mlp", prefix);
        add_attention(&m, number_of(m.config, "num_attention_heads"), hidden, true, prefix);
        add_mlp(&m, number_of(m.config, "intermediate_size"), hidden, mlp);
    }
    return m;
}
#endif
