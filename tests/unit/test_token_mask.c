/* engine/text/token_mask: a mask is what advancing by each token says, on a vocabulary made to be awkward. */
#include "tests/unit/grammar_fixture.h"

#include "engine/text/token_mask.h"
#include "engine/text/tool_grammar.h"

#include <stdlib.h>

/* 256 bytes, then these. */
static const char *const MORE[] = {
    "\"}",
    "\", \"",
    "\":",
    "\": \"",
    "\"]}",
    "{\"",
    "[[",
    "]]",
    "},",
    " \"",
    "\n  ",
    "ab",
    "abc",
    "abcd",
    "a\"",
    "ab\"}",
    "\\n",
    "\\\"",
    "\\u00",
    "9\"",
    "true",
    "alse",
    "12",
    "123",
    "1,",
    "-1",
    "1.5",
    "e5",
    "\xC3\xA9",
    "\xA9x",
    "\xE6\x97",
    "\xF0\x9F\x98",
    "\x80\"",
    "</",
    "</arg",
    "_value>",
    "</arg_value>",
    "x</arg_value><arg_key>",
    "</tool_call>",
    "<arg_key>",
    "arg_key>",
    "name",
    "nam",
    "name\":",
    "\xC3\xA9\xC3\xA9\xC3\xA9",
    "    ",
    "{\"name\": \"ab",
    "\xE6\x97\xA5\"",
    "\\\\",
    "\\",
    "\"\"",
};
enum { MORE_N = sizeof MORE / sizeof *MORE, OPEN = 256 + MORE_N, CLOSE, END, UNUSED, VOCAB };

static token_trie *trie;

static int setup(void **state) {
    (void)state;
    static char bytes[256];
    str texts[VOCAB] = { 0 };
    uint8_t uses[VOCAB];
    memset(uses, TOKEN_BYTES, sizeof uses);
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        texts[i] = (str){ &bytes[i], 1 };
    }
    for (int i = 0; i < MORE_N; i++) texts[256 + i] = str_of(MORE[i]);
    texts[OPEN] = STR("<tool_call>");
    texts[CLOSE] = STR("</tool_call>");
    texts[END] = STR("</end>");
    uses[OPEN] = uses[CLOSE] = TOKEN_SINGLE;
    uses[END] = TOKEN_END;
    uses[UNUSED] = TOKEN_UNUSED;
    trie = token_trie_new(texts, uses, VOCAB);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    token_trie_free(trie);
    return 0;
}

static bool is_allowed(const uint32_t *bits, int32_t id) { return bits[id >> 5] >> (id & 31) & 1; }

static int check_mask(token_mask *m, grammar_state s, const char *behind) {
    uint32_t bits[(VOCAB + 31) / 32 + 1], again[(VOCAB + 31) / 32];
    int n = 0;
    memset(bits, 0xA5, sizeof bits);
    token_mask_fill(m, s, bits);
    assert_int_equal(bits[(VOCAB + 31) / 32], 0xA5A5A5A5u);
    for (int32_t id = 0; id < VOCAB; id++) {
        bool wanted = token_mask_advance(m, s, id) != GRAMMAR_DEAD;
        n += wanted;
        if (is_allowed(bits, id) != wanted)
            fail_msg("behind %s token %d (%s) should be %d", behind, id, id >= 256 && id < OPEN ? MORE[id - 256] : "",
                     wanted);
    }
    for (int32_t id = VOCAB; id < (VOCAB + 31) / 32 * 32; id++) assert_false(is_allowed(bits, id));
    token_mask_fill(m, s, again);
    assert_memory_equal(bits, again, sizeof again);
    assert_int_equal(is_allowed(bits, END), token_mask_may_end(m, s));
    assert_false(is_allowed(bits, UNUSED));
    return n;
}

/* All masks along the text, whose parts in <> stand for the tokens of calls; and that the text may end. */
static void check_along(const grammar *g, const char *text) {
    token_mask *m = token_mask_new(trie, g);
    grammar_state s = token_mask_start(m);
    for (const char *p = text;;) {
        if (check_mask(m, s, text) == 0) fail_msg("nothing may follow %.*s", (int)(p - text), text);
        if (!*p) break;
        int32_t id = (uint8_t)*p;
        if (str_starts(str_of(p), STR("<tool_call>"))) id = OPEN, p += strlen("<tool_call>") - 1;
        if (str_starts(str_of(p), STR("</tool_call>"))) id = CLOSE, p += strlen("</tool_call>") - 1;
        p++;
        s = token_mask_advance(m, s, id);
        if (!s) fail_msg("not allowed: %.*s", (int)(p - text), text);
    }
    if (!token_mask_may_end(m, s)) fail_msg("may not end: %s", text);
    token_mask_free(m);
}

static void check_schema(const char *schema, const char *text) {
    grammar *g = schema_grammar(schema);
    check_along(g, text);
    grammar_free(g);
}

static void test_masks_along_texts(void **state) {
    (void)state;
    grammar *g = grammar_any_object();
    check_along(g, "{\"name\": [1.5e5, \"ab\\u00e9\\\"é日😀\", {}, [[true]], -12],\n  \"é\": null}");
    grammar_free(g);
    check_schema("{\"type\": \"string\", \"minLength\": 4, \"maxLength\": 6}", "\"é日a\\nb\"");
    check_schema("{\"type\": \"string\", \"minLength\": 7}", "\"abcdefghij\"");
    check_schema("{\"pattern\": \"^[a-dé]+\\\"?$\"}", "\"abé\\\"\"");
    check_schema("{\"properties\": {\"name\": {\"maxLength\": 3}, \"nam\": {}, \"na\\\"me\": {}}, "
                 "\"additionalProperties\": {\"type\": \"integer\"}}",
                 "{\"name\": \"abc\", \"na\\\"me\": {\"x\": 1}, \"nami\": 12, \"n\": 123}");
    check_schema("{\"properties\": {\"name\": {\"maxLength\": 3}, \"other\": {}}, \"required\": [\"other\"], "
                 "\"additionalProperties\": true}",
                 "{\"name\": \"ab\", \"other\": 1, \"x\": \"y\"}");
    check_schema(
        "{\"anyOf\": [{\"maxLength\": 9}, {\"minLength\": 2, \"type\": \"string\"}, {\"enum\": [\"abcd\", 12]}]}",
        "\"abcd\"");
    check_schema("{\"type\": \"integer\", \"minimum\": 10, \"maximum\": 1234}", "123");
}

static void test_masks_of_calls(void **state) {
    (void)state;
    json_t *parameters = json_loads(
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"short\": {\"type\": \"string\", "
        "\"minLength\": 1, \"maxLength\": 2}, \"any\": {}, \"kind\": {\"type\": \"string\", \"enum\": [\"ab\", "
        "\"abcd\", "
        "\"\"]}}, \"required\": [\"any\"]}",
        0, NULL);
    assert_non_null(parameters);
    tool_choice tools[] = { { STR("name"), parameters }, { STR("nam"), NULL } };
    tool_calls calls = { .tools = tools, .n = 2, .open = OPEN, .close = CLOSE, .several = true };
    for (int lines = 0; lines < 2; lines++) {
        calls.lines = lines;
        grammar *g = NULL;
        assert_int_equal(grammar_of_tools(&g, &calls, NULL), OK);
        if (lines)
            check_along(g, "<tool_call>nam\n</tool_call>\n<tool_call>name\n<arg_key>any</arg_key>\n<arg_value>1</"
                           "arg_value>\n</tool_call>");
        else
            check_along(g, "<tool_call>nam</tool_call><tool_call>name<arg_key>name</arg_key><arg_value> "
                           "a\"<</arg\n</arg_value><arg_key>short"
                           "</arg_key><arg_value></</arg_value><arg_key>any</arg_key><arg_value>[\"</arg_valu\", "
                           "{\"</tool_\": 1}]</arg_value>"
                           "<arg_key>kind</arg_key><arg_value>abcd</arg_value></tool_call>");
        grammar_free(g);
    }
    json_decref(parameters);
}

/* Rows of a tree: siblings and their children, filled in any order, do not disturb each other. */
static void test_rows_of_a_tree(void **state) {
    (void)state;
    enum { ROWS = 32, WORDS = (VOCAB + 31) / 32 };
    grammar *g = schema_grammar("{\"type\": \"array\", \"items\": {\"anyOf\": [{\"type\": \"integer\", \"minimum\": "
                                "1}, {\"type\": \"string\"}]}}");
    token_mask *m = token_mask_new(trie, g), *alone = token_mask_new(trie, g);
    static const char *const paths[] = { "[", "[1", "[12", "[\"a", "[\"ab", "[\"\xC3", "[1,", "[]" };
    grammar_state states[ROWS];
    uint32_t masks[ROWS][WORDS], wanted[WORDS];
    for (int i = 0; i < ROWS; i++) {
        states[i] = token_mask_start(m);
        for (const char *p = paths[i % 8]; *p; p++) states[i] = token_mask_advance(m, states[i], (uint8_t)*p);
    }
    for (int i = ROWS; i-- > 0;) token_mask_fill(m, states[i], masks[i]);
    for (int i = 0; i < ROWS; i++) {
        grammar_state s = token_mask_start(alone);
        for (const char *p = paths[i % 8]; *p; p++) s = token_mask_advance(alone, s, (uint8_t)*p);
        token_mask_fill(alone, s, wanted);
        assert_memory_equal(masks[i], wanted, sizeof wanted);
        assert_int_equal(states[i], states[i % 8]);
    }
    token_mask_free(alone);
    token_mask_free(m);
    grammar_free(g);
}

/* Numbers make new states without end; trimmed every round they stay few, and masks stay right. */
static void test_long_answers(void **state) {
    (void)state;
    grammar *g = schema_grammar("{\"items\": {\"type\": \"integer\", \"minimum\": 0}}");
    token_mask *m = token_mask_new(trie, g);
    grammar_state s = token_mask_advance(m, token_mask_start(m), '[');
    for (int i = 0; i < 40000; i++) {
        char text[16];
        snprintf(text, sizeof text, i ? ",%d" : "%d", i * 37);
        for (const char *p = text; *p; p++) s = token_mask_advance(m, s, (uint8_t)*p);
        assert_int_not_equal(s, GRAMMAR_DEAD);
        token_mask_trim(m, &s, 1);
    }
    check_mask(m, s, "a long list");
    assert_true(token_mask_may_end(m, token_mask_advance(m, s, ']')));
    token_mask_free(m);
    grammar_free(g);
}

/* A walk through more states than may be held at once gives the same mask: here every token is another number. */
static void test_walks_of_many_states(void **state) {
    (void)state;
    enum { TOKENS = 300000 };
    str *texts = calloc(TOKENS, sizeof *texts);
    uint8_t *uses = malloc(TOKENS);
    char *bytes = malloc(TOKENS * 16);
    memset(uses, TOKEN_BYTES, TOKENS);
    for (int i = 0; i < TOKENS; i++) {
        int n = snprintf(bytes + i * 16, 16, "%d", i * 3);
        texts[i] = (str){ bytes + i * 16, (size_t)n };
    }
    token_trie *numbers = token_trie_new(texts, uses, TOKENS);
    grammar *g = schema_grammar("{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 800000}");
    token_mask *m = token_mask_new(numbers, g);
    grammar_state s = token_mask_start(m);
    uint32_t *bits = calloc(token_mask_words(TOKENS), sizeof *bits);
    token_mask_fill(m, s, bits);
    for (int i = 0; i < TOKENS; i++) /* what begins with the digits must be able to end within the bounds */
        assert_int_equal(is_allowed(bits, i), i * 3 <= 800000 && i > 0);
    grammar_state end = token_mask_advance(m, s, 2);
    assert_true(token_mask_may_end(m, end));
    token_mask_free(m);
    grammar_free(g);
    token_trie_free(numbers);
    free(bits);
    free(bytes);
    free(uses);
    free(texts);
}

static void test_nothing_is_allowed_where_nothing_is(void **state) {
    (void)state;
    grammar *g = grammar_any_object();
    token_mask *m = token_mask_new(trie, g);
    assert_int_equal(check_mask(m, GRAMMAR_DEAD, "nothing"), 0);
    assert_int_equal(token_mask_advance(m, token_mask_start(m), -1), GRAMMAR_DEAD);
    assert_int_equal(token_mask_advance(m, token_mask_start(m), VOCAB), GRAMMAR_DEAD);
    assert_int_equal(token_mask_advance(m, token_mask_start(m), OPEN), GRAMMAR_DEAD);
    token_mask_free(m);
    grammar_free(g);
    token_trie *none = token_trie_new(NULL, NULL, 0);
    assert_int_equal(token_trie_vocab(none), 0);
    token_trie_free(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks_along_texts),    cmocka_unit_test(test_masks_of_calls),
        cmocka_unit_test(test_rows_of_a_tree),       cmocka_unit_test(test_long_answers),
        cmocka_unit_test(test_walks_of_many_states), cmocka_unit_test(test_nothing_is_allowed_where_nothing_is),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
