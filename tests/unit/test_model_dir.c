#include "tests/unit/load_fixture.h"
#include "engine/load/model_dir.h"
#include "target/weights.h"

enum { SHARDS = 3 };

/* ---- a good folder: TINY in three shards ---- */

static void shard_name(char out[64], int shard, int of) {
    snprintf(out, 64, "model-%05d-of-%05d.safetensors", shard + 1, of);
}

static json_t *make_index(const made_model *m) {
    json_t *map = json_object();
    size_t total = 0;
    for (size_t i = 0; i < m->count; i++) {
        char file[64];
        shard_name(file, m->at[i].shard, SHARDS);
        json_object_set_new(map, m->at[i].name, json_string(file));
        total += m->at[i].bytes;
    }
    return json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
}

typedef struct folder {
    scratch s;
    made_model m;
    json_t *index; /* NULL: none is written */
} folder;

static folder make_folder(void) {
    folder f = { .m = make_tiny_target() };
    scratch_init(&f.s);
    for (size_t i = 0; i < f.m.count; i++) f.m.at[i].shard = (int)(i * SHARDS / f.m.count);
    f.index = make_index(&f.m);
    return f;
}

static void write_folder(const folder *f) {
    char file[64];
    write_json(f->s.model, "config.json", f->m.config);
    write_bytes(f->s.model, "tokenizer.json", STR("{}"));
    write_bytes(f->s.model, "chat_template.jinja", STR("{{ messages }}"));
    if (f->index) write_json(f->s.model, "model.safetensors.index.json", f->index);
    for (int i = 0; i < SHARDS && f->index; i++) {
        shard_name(file, i, SHARDS);
        write_shard(&f->m, i, 0, f->s.model, file);
    }
}

static void free_folder(folder *f) {
    scratch_deinit(&f->s);
    made_free(&f->m);
    json_decref(f->index);
}

/* ---- the changes of C35 ---- */

/* Changes to tensors and index, made before anything is written. */
static void change_tensors(folder *f, const json_t *change) {
    const char *name = text_of(change, "copy_tensor");
    if (*name) {
        made_tensor *t = find_made(&f->m, name);
        made_tensor *copy = add_made(&f->m, t->dtype, t->dim[0], t->n_dims == 2 ? t->dim[1] : -1, "%s", name);
        copy->shard = atoi(text_of(change, "into") + strlen("model-")) - 1;
    }
    name = text_of(change, "drop_tensor");
    if (*name) {
        drop_made(&f->m, name);
        json_object_del(json_object_get(f->index, "weight_map"), name);
    }
    name = text_of(change, "index_entry");
    if (*name) json_object_set_new(json_object_get(f->index, "weight_map"), name, json_string(text_of(change, "to")));
    if (json_object_get(change, "index_total_size")) {
        json_t *meta = json_object_get(f->index, "metadata");
        json_int_t now = json_integer_value(json_object_get(meta, "total_size"));
        json_object_set_new(meta, "total_size", json_integer(now + atoi(text_of(change, "index_total_size"))));
    }
    if (json_object_get(change, "merge_all_into")) {
        json_decref(f->index);
        f->index = NULL;
    }
}

static void put_file(const char *dir, const char *name, const json_t *parts, bool in_front) {
    buf b = { 0 };
    expand_parts(&b, parts);
    if (in_front) assert_int_equal(file_read(&b, path_in(dir, name), 1 << 20, NULL), OK);
    write_bytes(dir, name, buf_view(&b));
    buf_free(&b);
}

/* Changes to files, made behind the writing. */
static void change_files(const folder *f, const json_t *change) {
    const char *dir = f->s.model, *name;
    if (*(name = text_of(change, "merge_all_into"))) write_shard(&f->m, -1, 0, dir, name);
    if (*(name = text_of(change, "remove"))) unlink(path_in(dir, name));
    if (*(name = text_of(change, "truncate"))) {
        struct stat st;
        assert_int_equal(stat(path_in(dir, name), &st), 0);
        assert_int_equal(truncate(path_in(dir, name), st.st_size - number_of(change, "by")), 0);
    }
    if (*(name = text_of(change, "replace"))) put_file(dir, name, json_object_get(change, "parts"), false);
    if (*(name = text_of(change, "prepend"))) put_file(dir, name, json_object_get(change, "parts"), true);
    if (*(name = text_of(change, "rename")))
        assert_int_equal(rename(path_in(dir, name), path_in(dir, text_of(change, "to"))), 0);
    if (*(name = text_of(change, "link"))) {
        unlink(path_in(dir, name));
        assert_int_equal(symlink(text_of(change, "to"), path_in(dir, name)), 0);
    }
    if (*(name = text_of(change, "add"))) {
        buf b = { 0 };
        assert_int_equal(file_read(&b, path_in(dir, text_of(change, "like")), 1 << 24, NULL), OK);
        write_bytes(dir, name, buf_view(&b));
        buf_free(&b);
    }
}

typedef struct verdict {
    const char *name;
    bool accepted;
    const char *says[3]; /* in the message, or, when accepted, on the log */
} verdict;

#define LOST(n) "of 3 shards " n, "tensors: looks like an incomplete download"

static const verdict VERDICTS[] = {
    { "shard absent", false, { LOST("missing"), "model-00002-of-00003.safetensors is missing" } },
    { "shard one byte short",
      false,
      { LOST("damaged"), "model-00003-of-00003.safetensors: tensor model.norm.weight" } },
    { "pointer file in its place", false, { LOST("damaged"), "pointer file" } },
    { "tensor not where the index says",
      false,
      { "tensor model.norm.weight is not in model-00001", "but in model-00003" } },
    { "tensor in two shards", false, { "tensor model.norm.weight is in model-00001", "and in model-00003" } },
    { "extra shard", true, { "model-00004-of-00003.safetensors is ignored" } },
    { "no index, one file", true, { NULL } },
    { "path upwards in the index", false, { "model.norm.weight", "found \"../other.safetensors\"" } },
    { "absolute path in the index", false, { "model.norm.weight", "found \"/other/place.safetensors\"" } },
    { "no tokenizer", true, { NULL } }, /* a draft has none: whoever needs it sees that model_dir_file is absent */
    { "byte order mark in config.json", true, { NULL } },
    { "shard of zero bytes", false, { LOST("damaged"), "model-00002-of-00003.safetensors: has 0 bytes" } },
    { "unfinished file beside it", false, { LOST("missing"), "unfinished model-00002-of-00003.safetensors.part" } },
    { "shard is a link to nowhere", false, { LOST("missing"), "is a link to a file that is not there" } },
    { "shard is a good link", true, { NULL } },
    { "one tensor missing from index and shards",
      false,
      { "model.layers.2.mlp.experts.3.up_proj.weight_scale (its weight_packed is there)", "1 missing, 0 wrong" } },
    { "index is older than the shards",
      false,
      { "1 of 4 shards missing, 1 of", "tensors: looks like an incomplete download",
        "model-00002-of-00002.safetensors is missing" } },
    { "index with an empty map", false, { "weight_map", "empty" } },
    { "total_size wrong", true, { "total_size is" } },
};
enum { N_VERDICTS = sizeof VERDICTS / sizeof VERDICTS[0] };

static const verdict *find_verdict(const char *name) {
    for (int i = 0; i < N_VERDICTS; i++)
        if (strcmp(VERDICTS[i].name, name) == 0) return &VERDICTS[i];
    fail_msg("no verdict for C35/%s", name);
    return NULL;
}

/* Opens and binds, as an engine does before any work on a device. */
static status load_folder(const char *dir, bool *has_tokenizer, err *e) {
    model_dir *m;
    target_config c;
    target_weights w;
    TRY(model_dir_open(&m, SOURCE_FOLDER, dir, e));
    *has_tokenizer = model_dir_file(m, "tokenizer.json").p != NULL;
    status s = target_config_read(&c, model_dir_config(m), e);
    if (s == OK) s = target_weights_bind(&w, m, &c, NULL, NULL, e);
    if (s == OK) target_weights_deinit(&w);
    model_dir_close(m);
    return s;
}

static void c35_folders(void **state) {
    (void)state;
    json_t *file = load_json("tests/cases/bytes/C35-model-folder.json"), *item, *change;
    size_t i, j;
    json_array_foreach(json_object_get(file, "items"), i, item) {
        const verdict *v = find_verdict(text_of(item, "name"));
        folder f = make_folder();
        json_array_foreach(json_object_get(item, "change"), j, change) { change_tensors(&f, change); }
        write_folder(&f);
        json_array_foreach(json_object_get(item, "change"), j, change) { change_files(&f, change); }

        err e = { 0 };
        bool has_tokenizer = false;
        log_capture capture = log_capture_begin();
        status s = load_folder(f.s.model, &has_tokenizer, &e);
        char *log = log_capture_end(capture);
        print_message("C35/%s: %s\n", v->name, s == OK ? log : e.text);
        if ((s == OK) != v->accepted) fail_msg("C35/%s: status %d: %s", v->name, s, e.text);
        if (s != OK) assert_int_equal(s, ERR_MODEL);
        for (int k = 0; k < 3 && v->says[k]; k++) assert_has(s == OK ? log : e.text, v->says[k]);
        if (strcmp(v->name, "no tokenizer") == 0) assert_false(has_tokenizer);
        free(log);
        free_folder(&f);
    }
    assert_int_equal(i, N_VERDICTS);
    json_decref(file);
}

/* ---- our own ---- */

/* Three faults of three kinds: one message. */
static void faults_are_collected(void **state) {
    (void)state;
    folder f = make_folder();
    write_folder(&f);
    unlink(path_in(f.s.model, "model-00001-of-00003.safetensors"));
    write_bytes(f.s.model, "model-00003-of-00003.safetensors", STR("short"));
    err e;
    model_dir *m = NULL;
    assert_int_equal(model_dir_open(&m, SOURCE_FOLDER, f.s.model, &e), ERR_MODEL);
    assert_null(m);
    assert_has(e.text, "1 of 3 shards missing, 1 damaged");
    assert_has(e.text, "model-00001-of-00003.safetensors is missing");
    assert_has(e.text, "model-00003-of-00003.safetensors: has 5 bytes");
    free_folder(&f);
}

/* Hundreds of faults: the message is cut at a line, and says how many are not shown. */
static void long_messages_are_counted(void **state) {
    (void)state;
    folder f = make_folder();
    char file[64];
    shard_name(file, 1, SHARDS);
    json_t *map = json_object_get(f.index, "weight_map");
    for (size_t i = 0; i < f.m.count; i++) json_object_set_new(map, f.m.at[i].name, json_string(file));
    write_folder(&f);
    err e;
    model_dir *m;
    assert_int_equal(model_dir_open(&m, SOURCE_FOLDER, f.s.model, &e), ERR_MODEL);
    assert_has(e.text, "the shards and their index disagree");
    assert_has(e.text, "\n  ... and ");
    assert_true(strlen(e.text) < ERR_TEXT_MAX - 1);
    free_folder(&f);
}

static void config_must_be_an_object(void **state) {
    (void)state;
    static const char *const TEXTS[] = { "[1]", "5", "", "{", "{\"a\":1,\"a\":2}", "{} x" };
    folder f = make_folder();
    write_folder(&f);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        err e;
        model_dir *m;
        write_bytes(f.s.model, "config.json", str_of(TEXTS[i]));
        assert_int_equal(model_dir_open(&m, SOURCE_FOLDER, f.s.model, &e), ERR_MODEL);
        assert_has(e.text, "config.json");
    }
    free_folder(&f);
}

static void byte_order_marks_are_skipped(void **state) {
    (void)state;
    folder f = make_folder();
    write_folder(&f);
    json_t *mark = parse_text("[{\"hex\": \"efbbbf\"}]");
    put_file(f.s.model, "tokenizer.json", mark, true);
    put_file(f.s.model, "model.safetensors.index.json", mark, true);
    err e;
    model_dir *m;
    assert_int_equal(model_dir_open(&m, SOURCE_FOLDER, f.s.model, &e), OK);
    assert_true(str_eq(model_dir_file(m, "tokenizer.json"), STR("{}")));
    model_dir_close(m);
    json_decref(mark);
    free_folder(&f);
}

static void shards_without_index(void **state) {
    (void)state;
    folder f = make_folder();
    write_folder(&f);
    unlink(path_in(f.s.model, "model.safetensors.index.json"));
    err e;
    model_dir *m;
    assert_int_equal(model_dir_open(&m, SOURCE_FOLDER, f.s.model, &e), ERR_MODEL);
    assert_has(e.text, "3 shards are: looks like an incomplete download");
    free_folder(&f);
}

static void hub_cache_is_followed(void **state) {
    (void)state;
    folder f = make_folder();
    char repo[128], path[192], again[192];
    err e;
    source *s;
    write_folder(&f);
    snprintf(repo, sizeof repo, "%s/models--org--name", f.s.base);
    mkdir(repo, 0700);
    mkdir(path_in(repo, "refs"), 0700);
    mkdir(path_in(repo, "snapshots"), 0700);
    assert_int_equal(source_open(&s, SOURCE_FOLDER, repo, &e), ERR_MODEL);
    assert_has(e.text, "expected one snapshot");
    snprintf(path, sizeof path, "%s/snapshots/abc", repo);
    assert_int_equal(rename(f.s.model, path), 0);

    /* one snapshot, no refs/main */
    assert_int_equal(source_open(&s, SOURCE_FOLDER, repo, &e), OK);
    assert_string_equal(source_name(s), path);
    source_close(s);

    write_bytes(repo, "refs/main", STR("abc\n"));
    snprintf(again, sizeof again, "%s/snapshots/old", repo);
    mkdir(again, 0700);
    model_dir *m;
    assert_int_equal(model_dir_open(&m, SOURCE_FOLDER, repo, &e), OK);
    assert_string_equal(model_dir_name(m), path);
    model_dir_close(m);

    write_bytes(repo, "refs/main", STR("gone"));
    assert_int_equal(source_open(&s, SOURCE_FOLDER, repo, &e), ERR_MODEL);
    assert_has(e.text, "gone");
    write_bytes(repo, "refs/main", STR("../../model"));
    assert_int_equal(source_open(&s, SOURCE_FOLDER, repo, &e), ERR_MODEL);
    free_folder(&f);
}

static void folders_that_are_none(void **state) {
    (void)state;
    scratch s;
    err e;
    source *src;
    scratch_init(&s);
    assert_int_equal(source_open(&src, SOURCE_FOLDER, path_in(s.base, "none"), &e), ERR_MODEL);
    assert_has(e.text, "no such model folder");
    assert_int_equal(source_open(&src, SOURCE_FOLDER, s.model, &e), ERR_MODEL);
    assert_has(e.text, "no config.json here");
    write_bytes(s.model, "config.json", STR("{}"));
    assert_int_equal(source_open(&src, SOURCE_FOLDER, path_in(s.model, "config.json"), &e), ERR_MODEL);
    assert_has(e.text, "is a file");
    assert_int_equal(source_open(&src, SOURCE_FOLDER, "", &e), ERR_MODEL);
    scratch_deinit(&s);
}

static void names_are_plain(void **state) {
    (void)state;
    static const char *const BAD[] = { "", ".", "..", ".hidden", "a/b", "/a", "../a" };
    scratch s;
    err e;
    source *src;
    str bytes;
    scratch_init(&s);
    write_bytes(s.model, "config.json", STR("{}"));
    write_bytes(s.model, "empty", STR(""));
    write_bytes(s.model, ".hidden", STR("x"));
    mkdir(path_in(s.model, "sub"), 0700);
    assert_int_equal(source_open(&src, SOURCE_FOLDER, s.model, &e), OK);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        assert_false(source_has(src, BAD[i]));
        assert_int_equal(source_map(src, BAD[i], &bytes, &e), ERR_MODEL);
        assert_has(e.text, "plain file name");
    }
    assert_false(source_has(src, "sub"));
    assert_int_equal(source_count(src), 2);
    assert_string_equal(source_file(src, 1), "empty");
    assert_int_equal(source_map(src, "empty", &bytes, &e), OK);
    assert_int_equal(bytes.n, 0);
    str again;
    assert_int_equal(source_map(src, "config.json", &bytes, &e), OK);
    assert_int_equal(source_map(src, "config.json", &again, &e), OK);
    assert_ptr_equal(bytes.p, again.p);
    assert_int_equal(source_map(src, "none", &bytes, &e), ERR_MODEL);
    assert_has(e.text, "none is missing");
    source_close(src);
    source_close(NULL);
    scratch_deinit(&s);
}

/* The pair inside the binary is the pair in the tree, file by file; only the description stays outside. */
static void builtin_is_the_demo(void **state) {
    (void)state;
    static const struct {
        source_builtin kind;
        const char *dir;
        size_t files;
    } PAIR[] = { { SOURCE_DEMO_TARGET, "target/demo", 8 }, { SOURCE_DEMO_DRAFT, "draft/demo", 2 } };
    for (int i = 0; i < 2; i++) {
        source *builtin, *tree;
        err e;
        assert_int_equal(source_open(&builtin, PAIR[i].kind, NULL, &e), OK);
        assert_int_equal(source_open(&tree, SOURCE_FOLDER, PAIR[i].dir, &e), OK);
        assert_int_equal(source_count(builtin), PAIR[i].files);
        for (size_t j = 0; j < source_count(tree); j++) {
            const char *name = source_file(tree, j);
            str x, y;
            if (strcmp(name, "README.md") == 0) continue;
            if (source_map(builtin, name, &x, &e) != OK) fail_msg("%s", e.text);
            assert_int_equal(source_map(tree, name, &y, &e), OK);
            assert_true(str_eq(x, y));
            assert_int_equal((uintptr_t)x.p % 64, 0);
        }
        source_close(builtin);
        source_close(tree);
    }
}

static void queries(void **state) {
    (void)state;
    err e;
    model_dir *m;
    assert_int_equal(model_dir_open(&m, SOURCE_DEMO_TARGET, NULL, &e), OK);
    assert_int_equal(model_dir_count(m), 1457);
    assert_int_equal(model_dir_bytes(m), 16384960);
    assert_string_equal(model_dir_name(m), "built-in demo target");
    assert_string_equal(model_dir_config(m).file, "built-in demo target/config.json");
    assert_non_null(model_dir_file(m, "chat_template.jinja").p);
    assert_null(model_dir_file(m, "special_tokens_map.json").p);
    assert_null(model_dir_file(m, "other").p);
    for (size_t i = 1; i < model_dir_count(m); i++) {
        str a = model_dir_tensor(m, i - 1)->name, b = model_dir_tensor(m, i)->name;
        assert_true(memcmp(a.p, b.p, a.n < b.n ? a.n : b.n) <= 0);
    }
    const tensor *t = model_dir_find(m, "model.norm.weight");
    assert_non_null(t);
    assert_int_equal(t->dim[0], 256);
    assert_string_equal(model_dir_shard(m, t->shard), "model-00001-of-00002.safetensors");
    assert_null(model_dir_find(m, "model.norm"));
    model_dir_close(m);
    model_dir_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c35_folders),
        cmocka_unit_test(faults_are_collected),
        cmocka_unit_test(long_messages_are_counted),
        cmocka_unit_test(config_must_be_an_object),
        cmocka_unit_test(byte_order_marks_are_skipped),
        cmocka_unit_test(shards_without_index),
        cmocka_unit_test(hub_cache_is_followed),
        cmocka_unit_test(folders_that_are_none),
        cmocka_unit_test(names_are_plain),
        cmocka_unit_test(builtin_is_the_demo),
        cmocka_unit_test(queries),
    };
    return cmocka_run_group_tests_name("model_dir", tests, NULL, NULL);
}
