/* engine/core/reply: the stream cases about reasoning, end tokens and stop strings, whatever way a text is cut into
 * tokens. */
#include "tests/unit/reply_fixture.h"

/* ---- stream cases ---- */

/* Text that the deltas up to a step demand must be out by then. */
static void check_deltas(const json_t *deltas, size_t steps, const run *r, const char *name) {
    size_t due[2] = { 0, 0 }, i, k;
    const json_t *step, *delta;
    json_array_foreach(deltas, i, step) {
        if (i >= steps) break;
        json_array_foreach(step, k, delta) {
            due[0] += fixture_str(delta, "reasoning").n;
            due[1] += fixture_str(delta, "content").n;
        }
    }
    if (r->text.reasoning.len < due[0] || r->text.content.len < due[1])
        fail_msg("%s: text of step %zu is late", name, steps);
}

static bool outcome_is(const run *r, const char *finish, const json_t *want) {
    return json_object_get(want, "content") &&
           run_is(r, fixture_str(want, "reasoning"), fixture_str(want, "content")) &&
           str_eq(str_of(finish), fixture_str(want, "finish_reason"));
}

/* The cap of a case counts its own tokens, of which the model's tokenizer may make several. */
static void check_item(const json_t *item, const char *name, cut how) {
    str stops[STOPS_MAX];
    run r = run_new(case_options(item, stops));
    const json_t *cap = json_object_get(json_object_get(item, "request"), "max_tokens"), *step, *token;
    json_int_t left = cap ? json_integer_value(cap) : INT32_MAX;
    size_t i, k;
    json_array_foreach(json_object_get(item, "steps"), i, step) {
        json_array_foreach(step, k, token) {
            token_list ids = { 0 };
            if (left-- > 0) put_case_token(&ids, token, how);
            run_push(&r, &ids);
            token_list_free(&ids);
        }
        check_deltas(json_object_get(item, "deltas"), i + 1, &r, name);
    }
    const char *finish = r.state == REPLY_GOES_ON && left < 0 ? "length" : "stop";
    run_finish(&r, str_eq(str_of(finish), STR("length")));
    const json_t *want = json_object_get(item, "expect"), *choice;
    bool fine = outcome_is(&r, finish, want);
    json_array_foreach(json_object_get(want, "one_of"), i, choice) fine |= outcome_is(&r, finish, choice);
    if (!fine)
        fail_msg("%s: %s, reasoning \"%s\", content \"%s\"", name, finish, buf_cstr(&r.text.reasoning),
                 buf_cstr(&r.text.content));
    run_deinit(&r);
}

/* Entries with tools (test_tool_cases.c) or with a stop string that a server refuses are none of reply's. */
static bool is_ours(const json_t *item) {
    size_t i;
    json_t *stop;
    json_array_foreach(json_object_get(json_object_get(item, "request"), "stop"), i,
                       stop) if (!json_string_length(stop)) return false;
    return json_is_null(json_object_get(item, "tools"));
}

static void check_file(const char *stem, size_t at_least) {
    char path[128], name[128];
    snprintf(path, sizeof path, "tests/cases/streams/%s.json", stem);
    json_t *file = fixture_json(path), *item;
    size_t i, n = 0;
    json_array_foreach(json_object_get(file, "items"), i, item) {
        if (!is_ours(item)) continue;
        snprintf(name, sizeof name, "%.3s/%s", stem, json_string_value(json_object_get(item, "name")));
        for (cut how = 0; how < CUTS; how++) check_item(item, name, how);
        n++;
    }
    json_decref(file);
    assert_true(n >= at_least);
}

static void test_start_state_cases(void **state) {
    (void)state;
    check_file("C05-start-state", 8);
}

static void test_split_character_cases(void **state) {
    (void)state;
    check_file("C11-split-characters", 13);
}

static void test_end_token_cases(void **state) {
    (void)state;
    check_file("C37-end-tokens", 9);
}

static void test_stop_cases(void **state) {
    (void)state;
    check_file("C38-stops-in-a-run", 17);
}

/* ---- what the cases leave open ---- */

/* A reply of bytes, tags and end tokens: "\1" stands for the end token, "\2" for a token that users never see. */
static run run_script(reply_options opt, str script) {
    run r = run_new(opt);
    token_list ids = { 0 };
    for (size_t i = 0; i < script.n; i++) {
        const str tags[] = { STR("<think>"), STR("</think>") };
        size_t k = 0;
        while (k < 2 && !str_starts(str_from(script, i), tags[k])) k++;
        if (k < 2)
            token_list_push(&ids, text_find_token(tm, tags[k]));
        else if (script.p[i] == 1)
            token_list_push(&ids, ID_TURN_END);
        else if (script.p[i] == 2)
            token_list_push(&ids, text_find_token(tm, STR("〈|PAD|〉")));
        else
            token_list_push(&ids, byte_ids[(unsigned char)script.p[i]]);
        if (k < 2) i += tags[k].n - 1;
    }
    run_push(&r, &ids);
    run_finish(&r, false);
    token_list_free(&ids);
    return r;
}

static void expect(reply_options opt, str script, reply_state end, str reasoning, str content) {
    run r = run_script(opt, script);
    assert_int_equal(r.state, end);
    if (!run_is(&r, reasoning, content))
        fail_msg("reasoning \"%s\", content \"%s\"", buf_cstr(&r.text.reasoning), buf_cstr(&r.text.content));
    run_deinit(&r);
}

#define FFFD "\xEF\xBF\xBD"

static void test_unfinished_characters_come_out(void **state) {
    (void)state;
    const reply_options content = { 0 }, reasoning = { .start = REPLY_REASONING };
    expect(content, STR("a\xE9\x9B"), REPLY_GOES_ON, STR(""), STR("a" FFFD));
    expect(content, STR("a\xE9\x9B\1"), REPLY_ENDED, STR(""), STR("a" FFFD));
    expect(content, STR("a\xE9\2\x9B\xAA"), REPLY_GOES_ON, STR(""), STR("a雪"));
    expect(reasoning, STR("a\xE9\x9B</think>\xAA"), REPLY_GOES_ON, STR("a" FFFD), STR(FFFD));
    expect(reasoning, STR("a\xE9\1"), REPLY_ENDED, STR("a" FFFD), STR(""));
}

static void test_end_tokens(void **state) {
    (void)state;
    assert_true(text_is_end(tm, ID_EOS) && text_is_end(tm, ID_TURN_END));
    expect((reply_options){ 0 }, STR("a\1b"), REPLY_ENDED, STR(""), STR("a"));
    expect((reply_options){ .ignore_end = true }, STR("a\1b"), REPLY_GOES_ON, STR(""), STR("ab"));
    expect((reply_options){ .start = REPLY_RAW }, STR("</think>a\1b"), REPLY_ENDED, STR(""), STR("</think>a"));
    const str stop = STR("abc");
    expect((reply_options){ .stop = &stop, .n_stop = 1 }, STR("xab\1c"), REPLY_ENDED, STR(""), STR("xab"));
}

static void test_stop_strings_look_at_content_only(void **state) {
    (void)state;
    const str stops[] = { STR("x"), STR("STOP"), STR("</think>") };
    const reply_options reasoning = { .start = REPLY_REASONING, .stop = stops, .n_stop = 3 };
    const reply_options raw = { .start = REPLY_RAW, .stop = stops, .n_stop = 3 };
    expect(reasoning, STR("a STOP</think>b STOP c"), REPLY_STOPPED, STR("a STOP"), STR("b "));
    expect(reasoning, STR("ST</think>OP"), REPLY_GOES_ON, STR("ST"), STR("OP"));
    expect(raw, STR("a</think>b"), REPLY_STOPPED, STR(""), STR("a"));
    run r = run_script(reasoning, STR("</think>zSTOP"));
    assert_int_equal(reply_stop_index(r.reply), 1);
    run_deinit(&r);
    r = run_script(reasoning, STR("</think>z"));
    assert_int_equal(reply_stop_index(r.reply), -1);
    run_deinit(&r);
}

static void test_reasoning_tokens_are_counted(void **state) {
    (void)state;
    const struct {
        const char *script;
        reply_start start;
        int32_t tokens;
    } rows[] = {
        { "abc</think>de", REPLY_REASONING, 4 },    { "</think>de", REPLY_REASONING, 1 }, { "abc", REPLY_REASONING, 3 },
        { "<think>a</think>", REPLY_REASONING, 3 }, { "</think>de", REPLY_CONTENT, 0 },   { "a</think>", REPLY_RAW, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = run_script((reply_options){ .start = rows[i].start }, str_of(rows[i].script));
        assert_int_equal(reply_reasoning_tokens(r.reply), rows[i].tokens);
        run_deinit(&r);
    }
}

/* Only what may still become part of a stop string, or of a character, stays behind. */
static void test_text_leaves_at_once(void **state) {
    (void)state;
    const str stop = STR("STOP");
    const struct {
        char byte;
        const char *out; /* all of the content so far */
    } rows[] = { { 'a', "a" },     { 'S', "a" },        { 'T', "a" },        { 'S', "aST" },
                 { 'x', "aSTSx" }, { '\xC3', "aSTSx" }, { '\xA9', "aSTSxé" } };
    run r = run_new((reply_options){ .stop = &stop, .n_stop = 1 });
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(reply_push(r.reply, byte_ids[(unsigned char)rows[i].byte], &r.parts), REPLY_GOES_ON);
        run_gather(&r);
        assert_string_equal(buf_cstr(&r.text.content), rows[i].out);
    }
    run_deinit(&r);
}

/* Which tokens are content: not reasoning, not a tag that splits, not an end token or a hidden one; text that is held
 * back is. */
static void test_was_content(void **state) {
    (void)state;
    static const struct {
        reply_start start;
        const char *text, *want; /* one letter a token: is it content? */
    } CASES[] = { { REPLY_REASONING, "a</think>b</assistant>", "nnyn" },
                  { REPLY_CONTENT, "</think>b</think></assistant>", "nyyn" },
                  { REPLY_RAW, "a</think>b</assistant>", "yyyn" },
                  { REPLY_CONTENT, "\xC3\xA9ST", "yyyy" } };
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        str stop = STR("STOP");
        token_list ids = { 0 };
        run r = run_new((reply_options){ .start = CASES[c].start, .stop = &stop, .n_stop = 1 });
        put_text(&ids, str_of(CASES[c].text), c == 3 ? CUT_BYTES : CUT_TOKENS);
        for (size_t i = 0; i < ids.n; i++) {
            assert_true(i < strlen(CASES[c].want));
            r.state = reply_push(r.reply, ids.ids[i], &r.parts);
            assert_int_equal(reply_was_content(r.reply), CASES[c].want[i] == 'y');
        }
        assert_int_equal(ids.n, strlen(CASES[c].want));
        token_list_free(&ids);
        run_deinit(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_state_cases),
        cmocka_unit_test(test_split_character_cases),
        cmocka_unit_test(test_end_token_cases),
        cmocka_unit_test(test_stop_cases),
        cmocka_unit_test(test_unfinished_characters_come_out),
        cmocka_unit_test(test_end_tokens),
        cmocka_unit_test(test_stop_strings_look_at_content_only),
        cmocka_unit_test(test_reasoning_tokens_are_counted),
        cmocka_unit_test(test_text_leaves_at_once),
        cmocka_unit_test(test_was_content),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
