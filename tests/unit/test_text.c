/* text_model: what the small files decide. End, hidden and start tokens, the template, defaults. */
#include "tests/unit/json_fixture.h"
#include "tests/unit/tok_fixture.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/text/text_int.h"

#include <stdio.h>

enum { DEMO_VOCAB = 4096 };

static buf demo[5]; /* in the order of text_files */

static int setup(void **state) {
    (void)state;
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                         "generation_config.json", "config.json" };
    log_set_level(LOG_ERROR); /* the warnings about missing files are wanted here */
    for (size_t i = 0; i < 5; i++) {
        char path[80];
        err e;
        snprintf(path, sizeof path, "target/demo/%s", names[i]);
        if (file_read(&demo[i], path, 1 << 24, &e) != OK) return -1;
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (size_t i = 0; i < 5; i++) buf_free(&demo[i]);
    return 0;
}

static text_files demo_files(void) {
    return (text_files){ buf_view(&demo[0]), buf_view(&demo[1]), buf_view(&demo[2]), buf_view(&demo[3]),
                         buf_view(&demo[4]) };
}

static text_model *open_files(text_files files) {
    text_model *tm;
    err e;
    if (text_model_open(&tm, &files, DEMO_VOCAB, &e) != OK) fail_msg("%s", e.text);
    return tm;
}

static void refuse_as(text_files files, status code, const char *why) {
    text_model *tm = NULL;
    err e;
    assert_int_equal(text_model_open(&tm, &files, DEMO_VOCAB, &e), code);
    assert_null(tm);
    if (!strstr(e.text, why)) fail_msg("expected \"%s\" in: %s", why, e.text);
}

static void refuse(text_files files, const char *why) { refuse_as(files, ERR_MODEL, why); }

static void test_demo(void **state) {
    (void)state;
    text_model *tm = open_files(demo_files());
    assert_int_equal(text_vocab(tm), DEMO_VOCAB);
    assert_int_equal(text_start_token(tm), 2);
    assert_true(text_has_template(tm));
    assert_int_equal(text_find_token(tm, STR("</assistant>")), 24);
    assert_int_equal(text_find_token(tm, STR("<user>")), -1);
    assert_str(text_token_bytes(tm, 18), STR("<think>"));
    assert_str(tm->bos, STR("〈|EOS|〉"));
    assert_str(tm->pad, STR("〈|PAD|〉"));
    assert_true(json_is_false(json_object_get(tm->default_kwargs, "enable_thinking")));
    token_list ids = { 0 };
    assert_int_equal(text_encode(tm, STR("〈|EOS|〉<think>"), true, &ids, NULL), OK);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.ids[0], 2);
    token_list_free(&ids);
    text_model_close(tm);
}

static void test_ends_and_hidden(void **state) {
    (void)state;
    text_model *tm = open_files(demo_files());
    for (int32_t id = -2; id < DEMO_VOCAB + 2; id++) assert_int_equal(text_is_end(tm, id), id == 2 || id == 24);
    static const int32_t hidden[] = { 0, 2, 9, 12, 24, 69 }, shown[] = { -1, 18, 19, 23, 25, 26, 70, 4095, 4096 };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) assert_true(text_is_hidden(tm, hidden[i]));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) assert_false(text_is_hidden(tm, shown[i]));
    text_model_close(tm);
}

/* generation_config (NULL: absent), config (NULL: absent), and the ids that end an answer. */
static void check_ends(const char *generation, const char *config, int32_t first, int32_t second) {
    text_files files = { .tokenizer = buf_view(&demo[0]),
                         .generation_config = str_of(generation),
                         .config = str_of(config) };
    text_model *tm = open_files(files);
    for (int32_t id = 0; id < DEMO_VOCAB; id++) assert_int_equal(text_is_end(tm, id), id == first || id == second);
    text_model_close(tm);
}

static void test_where_ends_come_from(void **state) {
    (void)state;
    check_ends("{\"eos_token_id\": 5}", "{\"eos_token_id\": 6}", 5, 5);
    check_ends("{\"eos_token_id\": [5, 4095]}", NULL, 5, 4095);
    check_ends("{\"eos_token_id\": null}", "{\"eos_token_id\": [6, 7]}", 6, 7);
    check_ends("{}", "{\"eos_token_id\": 6}", 6, 6);
    check_ends(NULL, "{\"eos_token_id\": 6}", 6, 6);
    check_ends(NULL, NULL, -1, -1);

    text_files files = { .tokenizer = buf_view(&demo[0]) };
    files.generation_config = STR("{\"eos_token_id\": 4096}");
    refuse(files, "generation_config.json: eos_token_id: expected an integer from 0 to 4095");
    files.generation_config = STR("{\"eos_token_id\": [2, \"x\"]}");
    refuse(files, "generation_config.json: eos_token_id.1");
    files.generation_config = STR("{\"eos_token_id\": {}}");
    refuse(files, "generation_config.json: eos_token_id");
}

static bool has_end(const json_t *set, json_int_t id) {
    size_t i;
    json_t *one;
    json_array_foreach(set, i, one) if (json_integer_value(one) == id) return true;
    return false;
}

static bool ends_are(const text_model *tm, const json_t *set) {
    for (int32_t id = 0; id < text_vocab(tm); id++)
        if (text_is_end(tm, id) != has_end(set, id)) return false;
    return true;
}

/* A file of one member, or none. */
static buf eos_file(const json_t *row, const char *file) {
    const json_t *v = json_object_get(row, file);
    buf text = { 0 };
    if (json_is_string(v) && strcmp(json_string_value(v), "absent") == 0) return text;
    char *ids = json_dumps(v, JSON_ENCODE_ANY);
    buf_printf(&text, "{\"eos_token_id\": %s}", ids);
    free(ids);
    return text;
}

static void check_end_set(const json_t *row) {
    buf model = eos_file(row, "config.json"), generation = eos_file(row, "generation_config.json");
    const text_files files = { .tokenizer = buf_view(&demo[0]),
                               .tokenizer_config = STR("{\"eos_token\": \"〈|EOS|〉\"}"),
                               .chat_template = STR("x</assistant>"),
                               .generation_config = generation.len ? buf_view(&generation) : (str){ 0 },
                               .config = model.len ? buf_view(&model) : (str){ 0 } };
    const json_t *want = json_object_get(row, "end_set"), *choices = json_object_get(want, "one_of");
    text_model *tm;
    err e = { 0 };
    status s = text_model_open(&tm, &files, DEMO_VOCAB, &e);
    if (json_is_string(want)) {
        assert_int_equal(s, ERR_MODEL);
        assert_true(str_starts(str_of(e.text), STR("config.json: eos_token_id")));
    } else {
        if (s != OK) fail_msg("%s", e.text);
        bool fine = ends_are(tm, want);
        for (size_t i = 0; i < json_array_size(choices); i++) fine |= ends_are(tm, json_array_get(choices, i));
        if (!fine) fail_msg("end tokens by %s and %s", buf_cstr(&model), buf_cstr(&generation));
        text_model_close(tm);
    }
    buf_free(&model);
    buf_free(&generation);
}

static void test_end_sets(void **state) {
    (void)state;
    json_t *table = fixture_json("tests/cases/tables/C37-end-sets.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(table, "rows"), i, row) check_end_set(row);
    assert_int_equal(i, 12);
    json_decref(table);
}

static void check_start(const char *tokenizer_config, const char *config, int32_t want) {
    text_files files = { .tokenizer = buf_view(&demo[0]),
                         .tokenizer_config = str_of(tokenizer_config),
                         .config = str_of(config) };
    text_model *tm = open_files(files);
    assert_int_equal(text_start_token(tm), want);
    text_model_close(tm);
}

static void test_start_token(void **state) {
    (void)state;
    check_start("{\"bos_token\": \"〈|CODE_END|〉\"}", "{\"bos_token_id\": 9}", 3);
    check_start("{\"bos_token\": {\"content\": \"〈|CODE_END|〉\", \"lstrip\": false}}", NULL, 3);
    check_start("{\"bos_token\": \"<s>\"}", "{\"bos_token_id\": 9}", 9);
    check_start("{\"bos_token\": null}", "{\"bos_token_id\": 9}", 9);
    check_start(NULL, "{\"bos_token_id\": null}", -1);
    check_start(NULL, NULL, -1);
    refuse((text_files){ .tokenizer = buf_view(&demo[0]), .config = STR("{\"bos_token_id\": -2}") },
           "config.json: bos_token_id");
}

static void test_where_the_template_comes_from(void **state) {
    (void)state;
    text_files files = { .tokenizer = buf_view(&demo[0]) };
    text_model *tm = open_files(files);
    assert_false(text_has_template(tm));
    text_model_close(tm);

    static const char *const configs[] = {
        "{\"chat_template\": \"{{ bos_token }}\"}",
        "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"{% if\"}, {\"name\": \"default\", \"template\": "
        "\"x\"}]}",
    };
    for (size_t i = 0; i < 2; i++) {
        files.tokenizer_config = str_of(configs[i]);
        tm = open_files(files);
        assert_true(text_has_template(tm));
        text_model_close(tm);
    }
    files.chat_template = STR("{% if"); /* the file wins */
    refuse_as(files, ERR_TEMPLATE, "chat_template.jinja line 1");
}

static void test_bad_files(void **state) {
    (void)state;
    refuse((text_files){ 0 }, "tokenizer.json: the model has no such file");
    text_files files = demo_files();
    files.generation_config = STR("{\"default_chat_template_kwargs\": []}");
    refuse(files, "generation_config.json: default_chat_template_kwargs");
    files.generation_config = STR("{\n\"a\": ");
    refuse(files, "generation_config.json, line 2");
    files = demo_files();
    files.config = STR("[]");
    refuse(files, "config.json: expected a JSON object");
    files.tokenizer_config = STR("");
    refuse(files, "tokenizer_config.json, line 1");
    files = demo_files();
    text_model *tm = NULL;
    err e;
    assert_int_equal(text_model_open(&tm, &files, DEMO_VOCAB - 1, &e), ERR_MODEL);
    assert_non_null(strstr(e.text, "has id 4095; the model has ids from 0 to 4094"));
    text_model_close(NULL);
}

/* What text_model_open was given may go away. */
static void test_files_are_not_kept(void **state) {
    (void)state;
    text_files files = demo_files();
    str *all[] = { &files.tokenizer, &files.tokenizer_config, &files.chat_template, &files.generation_config,
                   &files.config };
    for (size_t i = 0; i < 5; i++) all[i]->p = xstrndup(all[i]->p, all[i]->n);
    text_model *tm = open_files(files);
    for (size_t i = 0; i < 5; i++) free((void *)(uintptr_t)all[i]->p);
    token_list ids = { 0 };
    assert_int_equal(text_encode(tm, STR("x <think>"), true, &ids, NULL), OK);
    assert_int_equal(ids.ids[ids.n - 1], 18);
    assert_str(text_token_bytes(tm, 18), STR("<think>"));
    assert_str(tm->eos, STR("〈|EOS|〉"));
    token_list_free(&ids);
    text_model_close(tm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo),
        cmocka_unit_test(test_ends_and_hidden),
        cmocka_unit_test(test_where_ends_come_from),
        cmocka_unit_test(test_end_sets),
        cmocka_unit_test(test_start_token),
        cmocka_unit_test(test_where_the_template_comes_from),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_files_are_not_kept),
    };
    return cmocka_run_group_tests_name("text", tests, setup, teardown);
}
