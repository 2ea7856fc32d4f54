/* engine/core/reply with tools: what the stream cases leave open. */
#include "tests/unit/tool_fixture.h"

static run run_script(reply_options opt, const char *script, cut how, bool cut_off) {
    set_tools(&opt, json_object_get(fixture_tools, "tools"));
    run r = run_new(opt);
    token_list ids = { 0 };
    put_text(&ids, str_of(script), how);
    run_push(&r, &ids);
    run_finish(&r, cut_off);
    token_list_free(&ids);
    return r;
}

/* calls: as of show_calls. */
typedef struct row {
    const char *script, *reasoning, *content, *calls;
    reply_options opt;
    reply_state end;
} row;

static void put_calls(buf *out, const answer *a) {
    for (size_t i = 0; i < a->n_calls; i++)
        buf_printf(out, "%.*s%.*s ", STR_ARG(buf_view(&a->calls[i].name)), STR_ARG(buf_view(&a->calls[i].arguments)));
}

static void expect_rows(const row *rows, size_t n, bool cut_off) {
    for (size_t i = 0; i < n; i++) {
        for (cut how = 0; how < CUTS; how++) {
            run r = run_script(rows[i].opt, rows[i].script, how, cut_off);
            buf calls = { 0 };
            put_calls(&calls, &r.text);
            if (r.state != rows[i].end || !run_is(&r, str_of(rows[i].reasoning), str_of(rows[i].content)) ||
                !str_eq(buf_view(&calls), str_of(rows[i].calls)))
                fail_msg("%s: state %d, reasoning \"%s\", content \"%s\", calls %s", rows[i].script, r.state,
                         buf_cstr(&r.text.reasoning), buf_cstr(&r.text.content), buf_cstr(&calls));
            buf_free(&calls);
            run_deinit(&r);
        }
    }
}

#define CALL "<tool_call>list_boxes</tool_call>"
#define FFFD "\xEF\xBF\xBD"

static void test_end_and_stop(void **state) {
    (void)state;
    const str stops[] = { STR("STOP") };
    const reply_options one = { .one_call = true }, stop = { .stop = stops, .n_stop = 1 };
    const row rows[] = {
        { CALL "a" CALL, "", "a", "list_boxes{} list_boxes{} ", { 0 }, REPLY_GOES_ON },
        { CALL "a" CALL, "", "", "list_boxes{} ", one, REPLY_CALLED },
        { "b" CALL, "", "b", "list_boxes{} ", one, REPLY_CALLED },
        { "<tool_call></tool_call>" CALL "a", "", "", "list_boxes{} ", one, REPLY_CALLED },
        { CALL "</assistant>a", "", "", "list_boxes{} ", { 0 }, REPLY_ENDED },
        { "a<tool_call>list</assistant>b", "", "a<tool_call>list", "", { 0 }, REPLY_ENDED },
        { "a<tool_call>list_boxes\n</assistant>b", "", "a<tool_call>list_boxes\n", "", { 0 }, REPLY_ENDED },
        { " <tool_call>list_boxes\n</assistant>b", "", " <tool_call>list_boxes\n", "", { 0 }, REPLY_ENDED },
        { "aST" CALL "OPb", "", "aSTOPb", "list_boxes{} ", stop, REPLY_GOES_ON },
        { "a" CALL "bSTOPc", "", "ab", "list_boxes{} ", stop, REPLY_STOPPED },
        { "a<tool_call>STOP</tool_call>b", "", "ab", "STOP{} ", stop, REPLY_GOES_ON },
        { "<tool_call><arg_key>x</tool_call>a STOP", "", "<tool_call><arg_key>x</tool_call>a ", "", stop,
          REPLY_STOPPED },
        { "<tool_call>" FFFD "x</tool_call>", "", "", FFFD "x{} ", { 0 }, REPLY_GOES_ON },
    };
    expect_rows(rows, sizeof rows / sizeof *rows, false);
}

#define KEY(k) "<arg_key>" k "</arg_key>"
#define VALUE(v) "<arg_value>" v "</arg_value>"

/* What does not keep to the form, and text around calls. */
static void test_untidy_answers(void **state) {
    (void)state;
    const row rows[] = {
        { "<tool_call>f" KEY("a") KEY("b") VALUE("3") "</tool_call>", "", "", "f{\"b\": 3} ", { 0 }, REPLY_GOES_ON },
        { "<tool_call>f" KEY("a") "<arg_keep>" KEY("b") VALUE("3") "</tool_call>",
          "",
          "",
          "f{\"b\": 3} ",
          { 0 },
          REPLY_GOES_ON },
        { "<tool_call>f" KEY("a") VALUE("1") "junk<" KEY(" a ") VALUE("2") KEY("c") "\n" VALUE("3") "</tool_call>",
          "",
          "",
          "f{\"a\": 1, \"c\": 3} ",
          { 0 },
          REPLY_GOES_ON },
        { "<tool_call>save_note" KEY("path") VALUE("1") KEY("path") VALUE("2") "</tool_call>",
          "",
          "",
          "save_note{\"path\": \"1\"} ",
          { 0 },
          REPLY_GOES_ON },
        { "<tool_call>save_note" KEY("path") "<arg_value>a</arg_va</tool_call>",
          "",
          "",
          "save_note{\"path\": \"a</arg_va\"} ",
          { 0 },
          REPLY_GOES_ON },
        { "<tool_call>f" KEY("path") "<arg_value>[1]</tool_call>", "", "", "f{\"path\": [1]} ", { 0 }, REPLY_GOES_ON },
        { "<tool_call>f" KEY("a") VALUE("1") "<arg_key>b</tool_call>", "", "", "f{\"a\": 1} ", { 0 }, REPLY_GOES_ON },
        { "<tool_call>f<b>" KEY("a") VALUE("<") "</tool_call>", "", "", "f{\"a\": \"<\"} ", { 0 }, REPLY_GOES_ON },
        { "<tool_call>f" KEY("") VALUE("") "</tool_call>", "", "", "f{\"\": \"\"} ", { 0 }, REPLY_GOES_ON },
        { "<tool_call>list_boxes<tool_call>list_boxes</tool_call>", "", "", "list_boxes{} ", { 0 }, REPLY_GOES_ON },
        { "\n" CALL "\n " CALL "\n ", "", "", "list_boxes{} list_boxes{} ", { 0 }, REPLY_GOES_ON },
        { "a\n" CALL "\n", "", "a\n\n", "list_boxes{} ", { 0 }, REPLY_GOES_ON },
        { CALL "<tool_call><a></tool_call>b", "", "b", "list_boxes{} ", { 0 }, REPLY_GOES_ON },
        { "a<tool_call><a></tool_call>b", "", "a<tool_call><a></tool_call>b", "", { 0 }, REPLY_GOES_ON },
        { "a<tool_call><a></tool_call>b" CALL "c", "", "abc", "list_boxes{} ", { 0 }, REPLY_GOES_ON },
        { "<tool_call><a></tool_call>\n<tool_call><b></tool_call>",
          "",
          "<tool_call><a></tool_call>\n<tool_call><b></tool_call>",
          "",
          { 0 },
          REPLY_GOES_ON },
        { "<tool_call> \n </tool_call>", "", "", "", { 0 }, REPLY_GOES_ON },
        { "</tool_call>a", "", "</tool_call>a", "", { 0 }, REPLY_GOES_ON },
    };
    expect_rows(rows, sizeof rows / sizeof *rows, false);
}

static void test_cut_answers(void **state) {
    (void)state;
    const row rows[] = {
        { "a<tool_call>list", "", "a", "", { 0 }, REPLY_GOES_ON },
        { "a<tool_call>list_boxes\n", "", "a", "", { 0 }, REPLY_GOES_ON },
        { CALL "<tool_call>find_item<arg_key>item_id</arg_key><arg_value>7",
          "",
          "",
          "list_boxes{} ",
          { 0 },
          REPLY_GOES_ON },
    };
    expect_rows(rows, sizeof rows / sizeof *rows, true);
}

/* In an open think block; and without splitting. */
static void test_reasoning(void **state) {
    (void)state;
    const reply_options think = { .start = REPLY_REASONING }, raw = { .start = REPLY_RAW };
    const row rows[] = {
        { "a<tool_call> b</think>c", "a<tool_call> b", "c", "", think, REPLY_GOES_ON },
        { "a<tool_call> b</assistant>", "a", "<tool_call> b", "", think, REPLY_ENDED },
        { "a<tool_call></think>" CALL, "a<tool_call>", "", "list_boxes{} ", think, REPLY_GOES_ON },
        { "a" CALL "</think>c", "a", "</think>c", "list_boxes{} ", think, REPLY_GOES_ON },
        { "a</think>b" CALL "c", "a", "bc", "list_boxes{} ", think, REPLY_GOES_ON },
        { "<think>a</think>\n" CALL, "a", "", "list_boxes{} ", think, REPLY_GOES_ON },
        { "a</think>" CALL, "", "a</think>", "list_boxes{} ", raw, REPLY_GOES_ON },
    };
    expect_rows(rows, sizeof rows / sizeof *rows, false);
}

/* What is no call after a while is text again, where it began. */
static void test_long_names(void **state) {
    (void)state;
    buf script = { 0 }, want = { 0 };
    for (int start = 0; start < 2; start++) {
        buf_clear(&script);
        buf_clear(&want);
        buf_str(&want, STR("a<tool_call>"));
        for (int i = 0; i < 300; i++) buf_str(&want, STR("name "));
        buf_str(&script, buf_view(&want));
        if (start) buf_str(&script, STR("</think>"));
        buf_str(&script, STR(CALL));
        reply_options opt = { .start = start ? REPLY_REASONING : REPLY_CONTENT };
        str nothing = STR(""), text = buf_view(&want);
        for (cut how = 0; how < CUTS; how++) {
            run r = run_script(opt, buf_cstr(&script), how, false);
            assert_true(run_is(&r, start ? text : nothing, start ? nothing : text));
            assert_int_equal(r.text.n_calls, 1);
            run_deinit(&r);
        }
    }
    buf_free(&script);
    buf_free(&want);
}

/* Half a character stands in front of a tag: it belongs to what was before. */
static void test_half_characters(void **state) {
    (void)state;
    reply_options opt = { 0 };
    set_tools(&opt, json_object_get(fixture_tools, "tools"));
    const int32_t open = text_find_token(tm, STR("<tool_call>")), close = text_find_token(tm, STR("</tool_call>"));
    const int32_t script[] = {
        byte_ids['a'], byte_ids[0xE9], open, byte_ids['n'], byte_ids[0xE9], close, byte_ids[0xE9]
    };
    run r = run_new(opt);
    token_list ids = { 0 };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) token_list_push(&ids, script[i]);
    run_push(&r, &ids);
    run_finish(&r, false);
    assert_true(run_is(&r, STR(""), STR("a" FFFD FFFD)));
    assert_int_equal(r.text.n_calls, 1);
    assert_true(str_eq(buf_view(&r.text.calls[0].name), STR("n" FFFD)));
    token_list_free(&ids);
    run_deinit(&r);
}

/* Calls are no content, nor is their tag reasoning. */
static void test_token_kinds(void **state) {
    (void)state;
    reply_options opt = { .start = REPLY_REASONING };
    set_tools(&opt, json_object_get(fixture_tools, "tools"));
    run r = run_new(opt);
    token_list ids = { 0 };
    put_text(&ids, STR("ab" CALL "c"), CUT_BYTES);
    for (size_t i = 0; i < ids.n; i++) {
        r.state = reply_push(r.reply, ids.ids[i], &r.parts);
        assert_int_equal(reply_was_content(r.reply), i == ids.n - 1);
    }
    assert_int_equal(reply_reasoning_tokens(r.reply), 2);
    token_list_free(&ids);
    run_deinit(&r);
}

/* However the answer ends, the arguments that a stream was told are an object. */
static void test_cut_anywhere(void **state) {
    (void)state;
    const char *script =
        "a<tool_call>find_item<arg_key>item_id</arg_key><arg_value>x\"\\ \xC3\xA9</b></arg_value><arg_key>limit"
        "</arg_key>\n<arg_value>[1, 2]</arg_value><arg_key>extra</arg_key><arg_value>{'a': (1, 2)}"
        "</arg_value></tool_call>b" CALL;
    token_list ids = { 0 };
    put_text(&ids, str_of(script), CUT_BYTES);
    for (size_t n = 0; n <= ids.n; n++) {
        for (int cut_off = 0; cut_off < 2; cut_off++) {
            reply_options opt = { 0 };
            set_tools(&opt, json_object_get(fixture_tools, "tools"));
            run r = run_new(opt);
            token_list head = { .ids = ids.ids, .n = n };
            run_push(&r, &head);
            run_finish(&r, cut_off);
            stream s = stream_of(&r);
            assert_int_equal(s.n_calls, s.text.n_calls);
            for (size_t i = 0; i < s.n_calls; i++) expect_object(buf_view(&s.text.calls[i].arguments), "a cut answer");
            assert_true(r.text.n_calls <= s.n_calls);
            answer_free(&s.text);
            run_deinit(&r);
        }
    }
    token_list_free(&ids);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end_and_stop), cmocka_unit_test(test_untidy_answers),
        cmocka_unit_test(test_cut_answers),  cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_long_names),   cmocka_unit_test(test_half_characters),
        cmocka_unit_test(test_token_kinds),  cmocka_unit_test(test_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, setup_tools, teardown_tools);
}
