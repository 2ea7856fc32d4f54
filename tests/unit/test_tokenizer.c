/* tokenizer.json beyond the golden cases: both spellings of the merge list, added tokens, broken files, very long runs.
 */
#include "tests/unit/tok_fixture.h"
#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/tokenizer.h"

#include <unistd.h>

enum { TOY_LIMIT = 400, LONG = 1 << 20 };

static tokenizer *golden;

static int setup(void **state) {
    (void)state;
    buf file = { 0 };
    err e;
    if (file_read(&file, GOLDEN_TOKENIZER, 1 << 24, &e) != OK) return -1;
    if (tokenizer_new(&golden, buf_view(&file), GOLDEN_VOCAB, &e) != OK) return -1;
    buf_free(&file);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tokenizer_free(golden);
    return 0;
}

static void check_ids(const tokenizer *t, str text, bool added, const int32_t *want, size_t n) {
    token_list got = { 0 };
    err e;
    if (tokenizer_encode(t, text, added, &got, &e) != OK) fail_msg("%s", e.text);
    bool same = got.n == n && (n == 0 || memcmp(got.ids, want, n * sizeof *want) == 0);
    if (!same) {
        for (size_t i = 0; i < got.n; i++) print_error("%d ", got.ids[i]);
        fail_msg("are the ids of \"%.*s\"", STR_ARG(text));
    }
    token_list_free(&got);
}

/* The ids of a text are those of its parts around an added token. */
static void test_text_around_added_tokens(void **state) {
    (void)state;
    static const char *const texts[] = { "",       ";\r\n",          "\n \r x",      "x  \n\n y",
                                         "  lead", "I'll GO'S 12.5", "e\xCC\x81 a ", "<",
                                         "th" };
    static const char *const tags[] = { "<think>", "</think>", "〈|EOS|〉", "<tool_call>", "〈|RESERVED_42|〉" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (size_t k = 0; k < sizeof tags / sizeof *tags; k++) {
            token_list want = { 0 };
            buf text = { 0 };
            str tag = str_of(tags[k]);
            int32_t id = tokenizer_find_added(golden, tag)->id;
            static const char order[] = "xtxttx"; /* x the text, t the tag */
            for (size_t at = 0; order[at]; at++) {
                bool is_tag = order[at] == 't';
                buf_str(&text, is_tag ? tag : str_of(texts[i]));
                if (is_tag)
                    token_list_push(&want, id);
                else
                    tokenizer_encode(golden, str_of(texts[i]), true, &want, NULL);
            }
            check_ids(golden, buf_view(&text), true, want.ids, want.n);
            buf_free(&text);
            token_list_free(&want);
        }
    }
}

static void join(void *ctx, str piece) {
    buf_str(ctx, piece);
    buf_byte(ctx, '|');
}

static void test_split(void **state) {
    (void)state;
    static const char *const want[] = { "a|<think|>|  |\n|b|", "a|<think>|  |\n|b|" };
    for (int added = 0; added < 2; added++) {
        buf pieces = { 0 };
        assert_int_equal(tokenizer_split(golden, STR("a<think>  \nb"), added, join, &pieces, NULL), OK);
        assert_str(buf_view(&pieces), str_of(want[added]));
        buf_free(&pieces);
    }
    assert_int_equal(tokenizer_split(golden, STR("\xFF"), true, join, NULL, NULL), ERR_REQUEST);
}

static void test_every_added_token(void **state) {
    (void)state;
    assert_int_equal(tokenizer_count_added(golden), 70);
    for (size_t i = 0; i < 70; i++) {
        const added_token *t = tokenizer_get_added(golden, i);
        check_ids(golden, t->text, true, &t->id, 1);
        assert_ptr_equal(tokenizer_find_added(golden, t->text), t);
        assert_str(tokenizer_get_bytes(golden, t->id), t->text);
        token_list plain = { 0 };
        assert_int_equal(tokenizer_encode(golden, t->text, false, &plain, NULL), OK);
        assert_true(plain.n > 1);
        for (size_t k = 0; k < plain.n; k++) assert_true(plain.ids[k] >= 70);
        token_list_free(&plain);
    }
    assert_null(tokenizer_find_added(golden, STR("<user>")));
    assert_null(tokenizer_find_added(golden, STR("<thin")));
    assert_null(tokenizer_find_added(golden, STR("")));
    assert_str(tokenizer_get_bytes(golden, -1), STR(""));
    assert_str(tokenizer_get_bytes(golden, GOLDEN_VOCAB), STR(""));
}

static void test_round_trip(void **state) {
    (void)state;
    uint32_t random = 3;
    for (int round = 0; round < 500; round++) {
        buf text = { 0 }, back = { 0 };
        for (int i = 0; i < 40; i++) {
            char utf8[4];
            random = random * 1664525u + 1013904223u;
            uint32_t cp = (random >> 8) % (round % 2 ? 0x110000 : 0x250);
            if (cp >= 0xD800 && cp < 0xE000) cp = '\n';
            buf_put(&text, utf8, utf8_encode(cp, utf8));
        }
        token_list ids = { 0 };
        assert_int_equal(tokenizer_encode(golden, buf_view(&text), true, &ids, NULL), OK);
        for (size_t i = 0; i < ids.n; i++) buf_str(&back, tokenizer_get_bytes(golden, ids.ids[i]));
        assert_str(buf_view(&back), buf_view(&text));
        token_list_free(&ids);
        buf_free(&text);
        buf_free(&back);
    }
}

static void test_bad_text(void **state) {
    (void)state;
    token_list out = { 0 };
    token_list_push(&out, 7);
    err e;
    assert_int_equal(tokenizer_encode(golden, STR("ab\xC3("), true, &out, &e), ERR_REQUEST);
    assert_string_equal(e.text, "the text is not valid UTF-8: byte 0xC3 at offset 2");
    assert_int_equal(tokenizer_encode(golden, STR("\xED\xA0\x80"), true, &out, &e), ERR_REQUEST);
    assert_int_equal(tokenizer_encode(golden, STR("abc\xF0\x9F"), true, &out, &e), ERR_REQUEST);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.ids[0], 7);
    token_list_free(&out);
}

/* ---- toy files ---- */

static status open_toy(tokenizer **out, toy t, err *e) {
    buf json = { 0 };
    put_toy(&json, t);
    status s = tokenizer_new(out, buf_view(&json), TOY_LIMIT, e);
    buf_free(&json);
    return s;
}

static tokenizer *make_toy(toy t) {
    tokenizer *out;
    err e;
    if (open_toy(&out, t, &e) != OK) fail_msg("%s", e.text);
    return out;
}

#define MERGE_VOCAB                                                                                                    \
    ", \"th\": 256, \"the\": 257, \"in\": 258, \"ing\": 259, \"an\": 260, \"er\": 261, \"lo\": 262, \"low\": 263, "    \
    "\"lower\": 264, \"ne\": 265, \"new\": 266, \"_t\": 267, \"_the\": 268, \"a\\u0120\": 269, \"a\\u0120b\": 270"

static void test_both_spellings_of_merges(void **state) {
    (void)state;
    static const char *const lists[] = {
        "[\"t h\", \"th e\", \"i n\", \"in g\", \"a n\", \"e r\", \"l o\", \"lo w\", \"low er\", \"n e\", \"ne w\", "
        "\"_ t\", \"_t he\"]",
        "[[\"t\",\"h\"],[\"th\",\"e\"],[\"i\",\"n\"],[\"in\",\"g\"],[\"a\",\"n\"],[\"e\",\"r\"],[\"l\",\"o\"],[\"lo\","
        "\"w\"],"
        "[\"low\",\"er\"],[\"n\",\"e\"],[\"ne\",\"w\"],[\"_\",\"t\"],[\"_t\",\"he\"]]",
        "[\"#version: 0.2\", [\"t\", \"h\"], \"\\u0074h e\", \"i n\", [\"in\",\"\\u0067\"], \"a n\", \"e r\", \"l o\", "
        "\"lo w\", "
        "\"low er\", \"n e\", \"ne w\", \"_ t\", \"_t he\" ]",
    };
    for (size_t i = 0; i < 3; i++) {
        const char *names = MERGE_VOCAB ", \"he\": 271";
        tokenizer *t = make_toy((toy){ .vocab = names, .merges = lists[i] });
        check_ids(t, STR("the"), true, (int32_t[]){ 257 }, 1);
        check_ids(t, STR("lower"), true, (int32_t[]){ 264 }, 1);
        check_ids(t, STR("newer"), true, (int32_t[]){ 266, 261 }, 2);
        check_ids(t, STR("_thering"), true, (int32_t[]){ '_', 257, 'r', 259 }, 4);
        check_ids(t, STR("anothering"), true, (int32_t[]){ 260, 'o', 257, 'r', 259 }, 5);
        check_ids(t, STR("aaaa"), true, (int32_t[]){ 'a', 'a', 'a', 'a' }, 4);
        tokenizer_free(t);
    }
    tokenizer *t = make_toy((toy){ .vocab = MERGE_VOCAB, .merges = "[[\"a\", \"\\u0120\"], [\"a\\u0120\", \"b\"]]" });
    check_ids(t, STR("a b"), true, (int32_t[]){ 270 }, 1);
    assert_str(tokenizer_get_bytes(t, 270), STR("a b"));
    tokenizer_free(t);
}

static void test_ignore_merges(void **state) {
    (void)state;
    const char *names = ", \"ab\": 256, \"aba\": 257, \"<x>\": 258";
    toy t = { .vocab = names, .added = "[{\"id\": 258, \"content\": \"<x>\"}]" };
    tokenizer *taken_apart = make_toy(t);
    check_ids(taken_apart, STR("aba"), true, (int32_t[]){ 256, 'a' }, 2);
    tokenizer_free(taken_apart);
    t.model = ", \"ignore_merges\": true";
    tokenizer *whole = make_toy(t);
    check_ids(whole, STR("aba"), true, (int32_t[]){ 257 }, 1);
    check_ids(whole, STR("abab"), true, (int32_t[]){ 256, 256 }, 2);
    check_ids(whole, STR("<x>"), true, (int32_t[]){ 258 }, 1);
    check_ids(whole, STR("<x>"), false, (int32_t[]){ '<', 'x', '>' }, 3);
    tokenizer_free(whole);
}

static void test_flags_of_added_tokens(void **state) {
    (void)state;
    tokenizer *t = make_toy((toy){ .added = "[{\"id\": 300, \"content\": \"<l>\", \"lstrip\": true},"
                                            " {\"id\": 301, \"content\": \"<r>\", \"rstrip\": true},"
                                            " {\"id\": 302, \"content\": \"wo\", \"single_word\": true},"
                                            " {\"id\": 303, \"content\": \"word\", \"normalized\": true},"
                                            " {\"id\": 304, \"content\": \"<l><l>\"}]" });
    check_ids(t, STR(". \xE3\x80\x80\n<l> ."), true, (int32_t[]){ '.', 300, ' ', '.' }, 4);
    check_ids(t, STR(". <r> \xC2\xA0\n."), true, (int32_t[]){ '.', ' ', 301, '.' }, 4);
    check_ids(t, STR("<r>  <l>"), true, (int32_t[]){ 301, 300 }, 2);
    check_ids(t, STR(" <l>"), true, (int32_t[]){ 300 }, 1);
    check_ids(t, STR("wo wo"), true, (int32_t[]){ 302, ' ', 302 }, 3);
    check_ids(t, STR("wow"), true, (int32_t[]){ 'w', 'o', 'w' }, 3);
    check_ids(t, STR("_wo"), true, (int32_t[]){ '_', 'w', 'o' }, 3);
    check_ids(t, STR("-wo-"), true, (int32_t[]){ '-', 302, '-' }, 3);
    check_ids(t, STR("awordb"), true, (int32_t[]){ 'a', 303, 'b' }, 3);
    check_ids(t, STR("<l><l><l>"), true, (int32_t[]){ 304, 300 }, 2); /* longest */
    tokenizer_free(t);
}

/* Pieces that were encoded before a pattern gave up are taken back. */
static void test_failed_encoding_leaves_the_list(void **state) {
    (void)state;
    tokenizer *t =
        make_toy((toy){ .cut = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"behavior\": "
                               "\"Isolated\", \"pattern\": {\"Regex\": \"(?:a|aa|aaa)+b\"}}, " BYTE_LEVEL "]}" });
    check_ids(t, STR("xab"), true, (int32_t[]){ 'x', 256 }, 2);
    buf text = { 0 };
    buf_str(&text, STR("xab"));
    for (int i = 0; i < 200; i++) buf_byte(&text, 'a');
    buf_str(&text, STR("cb"));
    token_list out = { 0 };
    token_list_push(&out, 7);
    assert_int_equal(tokenizer_encode(t, buf_view(&text), true, &out, NULL), ERR_REQUEST);
    assert_int_equal(out.n, 1);
    token_list_free(&out);
    buf_free(&text);
    tokenizer_free(t);
}

/* ---- broken files ---- */

static void refuse(toy t, const char *why) {
    tokenizer *out = NULL;
    err e = { 0 };
    assert_int_equal(open_toy(&out, t, &e), ERR_MODEL);
    assert_null(out);
    if (!str_starts(str_of(e.text), STR("tokenizer.json")) || !strstr(e.text, why))
        fail_msg("expected \"%s\" in: %s", why, e.text);
}

static void test_unsupported_members(void **state) {
    (void)state;
    tokenizer_free(
        make_toy((toy){ .model = ", \"dropout\": null, \"unk_token\": null, \"fuse_unk\": false, \"byte_fallback\": "
                                 "false, \"continuing_subword_prefix\": \"\"",
                        .file = ", \"normalizer\": null, \"decoder\": {\"type\": \"ByteLevel\"}, \"padding\": null" }));
    refuse((toy){ .model = ", \"dropout\": 0.1" }, "model.dropout is set");
    refuse((toy){ .model = ", \"byte_fallback\": true" }, "model.byte_fallback is set");
    refuse((toy){ .model = ", \"continuing_subword_prefix\": \"##\"" }, "model.continuing_subword_prefix is set");
    refuse((toy){ .model = ", \"end_of_word_suffix\": \"</w>\"" }, "model.end_of_word_suffix is set");
    refuse((toy){ .file = ", \"normalizer\": {\"type\": \"NFC\"}" }, "normalizer is set");
    refuse((toy){ .file = ", \"decoder\": {\"type\": \"Metaspace\"}" }, "decoder.type");
    refuse((toy){ .cut = "{\"type\": \"Metaspace\"}" }, "\"Metaspace\" is not supported");
    refuse((toy){ .cut = "null" }, "pre_tokenizer");
    refuse((toy){ .model = ", \"type\": \"Unigram\"" }, "duplicate");
}

static void test_bad_merges(void **state) {
    (void)state;
    const char *names = ", \"th\": 256, \"the\": 257";
    refuse((toy){ .vocab = names, .merges = "[\"t h\", \"th q\"]" }, "entry 1: \"thq\" is not in the vocabulary");
    refuse((toy){ .vocab = names, .merges = "[\"t h\", \"tx h\"]" }, "entry 1: \"tx\" is not in the vocabulary");
    refuse((toy){ .vocab = names, .merges = "[]" }, "the list is empty");
    refuse((toy){ .vocab = names, .merges = "[\"#version: 0.2\"]" }, "the list is empty");
    refuse((toy){ .vocab = names, .merges = "[\"t h e\"]" }, "entry 0: expected two parts");
    refuse((toy){ .vocab = names, .merges = "[\"th\"]" }, "entry 0: expected two parts");
    refuse((toy){ .vocab = names, .merges = "[[\"th\"]]" }, "entry 0: expected a pair");
    refuse((toy){ .vocab = names, .merges = "[[\"t\", \"h\", \"e\"]]" }, "entry 0: expected a pair");
    refuse((toy){ .vocab = names, .merges = "[\"t h\", 5]" }, "entry 1: expected \"left right\"");
    refuse((toy){ .vocab = names, .merges = "[\"t h\", [5, \"e\"]]" }, "entry 1: expected a string");
    refuse((toy){ .vocab = names, .merges = "[\"t h\", \"th e\", \"t h\"]" }, "entry 2 repeats entry 0");
    refuse((toy){ .vocab = names, .merges = "[\"t h\" \"th e\"]" }, "entry 0: expected a comma");
    refuse((toy){ .vocab = names, .merges = "[\"t\\qh\"]" }, "entry 0: a string with an invalid escape");
    refuse((toy){ .vocab = names, .merges = "[\"t\\ud800 h\"]" }, "entry 0: a string with an invalid escape");
    refuse((toy){ .vocab = names, .merges = "[\"t\\ud83d\\u0041 h\"]" }, "entry 0: a string with an invalid escape");
    refuse((toy){ .vocab = names, .merges = "[\"t\\ude00 h\"]" }, "entry 0: a string with an invalid escape");
    refuse((toy){ .vocab = names, .merges = "[\"t\\ud83d\\ude00 h\"]" }, "entry 0: \"t\xF0\x9F\x98\x80\" is not in");
    refuse((toy){ .vocab = names, .merges = "null" }, "model.merges: expected a list");
}

static void test_bad_vocab(void **state) {
    (void)state;
    refuse((toy){ .vocab = ", \"ab\": 400" }, "\"ab\" has id 400; the model has ids from 0 to 399");
    refuse((toy){ .vocab = ", \"ab\": -1" }, "\"ab\" has id -1");
    refuse((toy){ .vocab = ", \"ab\": 97" }, "\"a\" and \"ab\" both have id 97");
    refuse((toy){ .vocab = ", \"ab\": 256, \"ab\": 257" }, "\"ab\" stands there twice");
    refuse((toy){ .vocab = ", \"ab\": 99999999999" }, "too large");
    refuse((toy){ .vocab = ", \"ab\": 1.5" }, "expected an id");
    refuse((toy){ .vocab = ", \"ab\": \"x\"" }, "expected an id");
    refuse((toy){ .vocab = ", \"ab\"" }, "expected \":\" and an id");
    refuse((toy){ .vocab = ", \"ab\": 256," }, "expected a string");
}

static void test_bad_added_tokens(void **state) {
    (void)state;
    refuse((toy){ .added = "{}" }, "added_tokens: expected a list");
    refuse((toy){ .added = "[{\"id\": 300}]" }, "added_tokens[0].content");
    refuse((toy){ .added = "[{\"id\": 300, \"content\": \"\"}]" }, "added_tokens[0].content");
    refuse((toy){ .added = "[{\"content\": \"<x>\"}]" }, "added_tokens[0].id");
    refuse((toy){ .added = "[{\"id\": 400, \"content\": \"<x>\"}]" },
           "added_tokens[0].id: expected a number from 0 to 399");
    refuse((toy){ .added = "[{\"id\": 300, \"content\": \"<x>\", \"lstrip\": 1}]" }, "added_tokens[0].lstrip");
    refuse((toy){ .added = "[{\"id\": 97, \"content\": \"<x>\"}]" }, "model.vocab disagrees");
    refuse((toy){ .added = "[{\"id\": 300, \"content\": \"ab\"}]" }, "model.vocab disagrees");
    refuse((toy){ .added = "[{\"id\": 300, \"content\": \"<x>\"}, {\"id\": 300, \"content\": \"<y>\"}]" },
           "added_tokens[1]");
    refuse((toy){ .added = "[{\"id\": 300, \"content\": \"<x>\"}, {\"id\": 301, \"content\": \"<x>\"}]" },
           "added_tokens[1]");
    refuse(
        (toy){ .added =
                   "[{\"id\": 300, \"content\": \"<x>\"}, {\"id\": 301, \"content\": \"<x>\", \"normalized\": true}]" },
        "added_tokens[1]");
}

/* A byte without a token: some text would have no ids. */
static void test_missing_byte_symbol(void **state) {
    (void)state;
    buf json = { 0 };
    put_toy(&json, (toy){ .vocab = ", \"ab\": 256" });
    char *z = strstr(buf_cstr(&json), "\"z\"");
    assert_non_null(z);
    z[1] = 0x7F; /* a name that spells no byte */
    tokenizer *t;
    err e;
    assert_int_equal(tokenizer_new(&t, buf_view(&json), TOY_LIMIT, &e), ERR_MODEL);
    assert_non_null(strstr(e.text, "byte 0x7A (\"z\") has no token"));
    buf_free(&json);
}

/* Every way to cut a file short is refused, and none of them reads past the end. */
static void test_cut_files(void **state) {
    (void)state;
    buf json = { 0 };
    put_toy(&json, (toy){ .added = "[{\"id\": 300, \"content\": \"<\\u0078>\"}]" });
    for (size_t n = 0; n < json.len; n++) {
        char *copy = malloc(n + 1); /* exactly as long, for the sanitizer */
        memcpy(copy, json.data, n);
        tokenizer *t = NULL;
        err e;
        if (tokenizer_new(&t, (str){ copy, n }, TOY_LIMIT, &e) != ERR_MODEL) fail_msg("cut at %zu: accepted", n);
        assert_true(str_starts(str_of(e.text), STR("tokenizer.json")));
        free(copy);
    }
    buf_free(&json);
}

static void test_line_in_messages(void **state) {
    (void)state;
    tokenizer *t;
    err e;
    str file = STR(
        "{\"model\": {\n\"vocab\": {\n\"a\": 1,\n\"b\": 2,\n\"c\": 3,\n\"d\": 4\n},\n\"merges\": [\n\n],\n oops}\n}");
    assert_int_equal(tokenizer_new(&t, file, TOY_LIMIT, &e), ERR_MODEL);
    assert_true(str_starts(str_of(e.text), STR("tokenizer.json, line 11: not valid JSON")));
    file = STR("{\"model\": {\"type\": \"BPE\",\n\"merges\": [],\n\"vocab\": {\n\"a\": 1,\n\"b\": x\n}}}");
    assert_int_equal(tokenizer_new(&t, file, TOY_LIMIT, &e), ERR_MODEL);
    assert_true(str_starts(str_of(e.text), STR("tokenizer.json, line 5: model.vocab, entry 1: expected an id")));
}

/* ---- very long runs: right, and over in a moment. One that took quadratic time would run into the alarm. ---- */

static void test_long_runs(void **state) {
    (void)state;
    static const char *const units[] = { "a",     "\n",  " ",   "\r\n", "\r", "\t",       "-", "é",   "\xE3\x80\x80",
                                         " \n",   "\n ", ";\n", "1",    "'",  "\xCC\x81", "<", "〈|", "<think>",
                                         "\n\n\r" };
    alarm(300);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        buf text = { 0 };
        while (text.len < LONG) buf_str(&text, str_of(units[i]));
        buf_str(&text, STR("x"));
        token_list ids = { 0 };
        err e;
        if (tokenizer_encode(golden, buf_view(&text), true, &ids, &e) != OK) fail_msg("%s: %s", units[i], e.text);
        size_t at = 0;
        for (size_t k = 0; k < ids.n; k++) {
            str bytes = tokenizer_get_bytes(golden, ids.ids[k]);
            assert_true(text.len - at >= bytes.n && memcmp(text.data + at, bytes.p, bytes.n) == 0);
            at += bytes.n;
        }
        assert_int_equal(at, text.len);
        token_list_free(&ids);
        buf_free(&text);
    }
    alarm(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_around_added_tokens),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_every_added_token),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_both_spellings_of_merges),
        cmocka_unit_test(test_ignore_merges),
        cmocka_unit_test(test_flags_of_added_tokens),
        cmocka_unit_test(test_failed_encoding_leaves_the_list),
        cmocka_unit_test(test_unsupported_members),
        cmocka_unit_test(test_bad_merges),
        cmocka_unit_test(test_bad_vocab),
        cmocka_unit_test(test_bad_added_tokens),
        cmocka_unit_test(test_missing_byte_symbol),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_line_in_messages),
        cmocka_unit_test(test_long_runs),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, setup, teardown);
}
