/* engine/text/tool_grammar: which calls may be written, by the format's rules (how values are typed, what is text). */
#include "tests/unit/grammar_fixture.h"

#include "engine/text/tool_grammar.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPEN = 25, CLOSE = 26 };

typedef struct made {
    json_t *parameters[3];
    tool_choice tools[3];
    tool_calls calls;
    grammar *g;
} made;

static status make(made *t, const char *const *names, const char *const *parameters, bool lines, bool several, err *e) {
    size_t n = 0;
    for (; n < 3 && names[n]; n++) {
        t->parameters[n] = parameters[n] ? json_loads(parameters[n], JSON_DECODE_ANY, NULL) : NULL;
        if (parameters[n]) assert_non_null(t->parameters[n]);
        t->tools[n] = (tool_choice){ str_of(names[n]), t->parameters[n] };
    }
    t->calls =
        (tool_calls){ .tools = t->tools, .n = n, .open = OPEN, .close = CLOSE, .lines = lines, .several = several };
    t->g = NULL;
    status s = grammar_of_tools(&t->g, &t->calls, e);
    for (size_t i = 0; i < n; i++) json_decref(t->parameters[i]);
    return s;
}

static made one(const char *parameters) {
    made t = { 0 };
    err e;
    if (make(&t, (const char *const[]){ "f", NULL }, &parameters, false, false, &e) != OK)
        fail_msg("%s: %s", parameters, e.text);
    return t;
}

static bool calls_allow(const grammar *g, const char *text) {
    grammar_run *r = grammar_run_new(g);
    grammar_state s = grammar_run_start(r);
    while (*text && s) {
        bool open = str_starts(str_of(text), STR("<tool_call>")), close = str_starts(str_of(text), STR("</tool_call>"));
        s = grammar_run_step(r, s, open ? grammar_token(OPEN) : close ? grammar_token(CLOSE) : (uint8_t)*text);
        text += open ? strlen("<tool_call>") : close ? strlen("</tool_call>") : 1;
    }
    bool ends = grammar_run_ends(r, s);
    grammar_run_free(r);
    return ends;
}

static void check(const grammar *g, const char *text, bool wanted) {
    if (calls_allow(g, text) != wanted) fail_msg("%s: %s", wanted ? "refused" : "allowed", text);
}

#define ARG(key, value) "<arg_key>" key "</arg_key><arg_value>" value "</arg_value>"
#define CALL(args) "<tool_call>f" args "</tool_call>"

static void test_names(void **state) {
    (void)state;
    made t = { 0 };
    static const char *const names[] = { "get", "get_weather", "größe" }, *const none[3];
    assert_int_equal(make(&t, names, none, false, false, NULL), OK);
    check(t.g, "<tool_call>get</tool_call>", true);
    check(t.g, "<tool_call>get_weather</tool_call>", true);
    check(t.g, "<tool_call>größe</tool_call>", true);
    check(t.g, "<tool_call>get_</tool_call>", false);
    check(t.g, "<tool_call>get</tool_call><tool_call>get</tool_call>", false);
    check(t.g, "<tool_call>get" ARG("a", "1") "</tool_call>", false);
    check(t.g, "get", false);
    check(t.g, "", false);
    grammar_free(t.g);
    assert_int_equal(make(&t, names, none, false, true, NULL), OK);
    check(t.g, "<tool_call>get</tool_call><tool_call>get_weather</tool_call>", true);
    check(t.g, "<tool_call>get</tool_call>\n<tool_call>get</tool_call>", false);
    grammar_free(t.g);
    assert_int_equal(make(&t, names, none, true, true, NULL), OK);
    check(t.g, "<tool_call>get\n</tool_call>\n<tool_call>get_weather\n</tool_call>", true);
    check(t.g, "<tool_call>get</tool_call>", false);
    grammar_free(t.g);
}

static void test_arguments_come_in_order(void **state) {
    (void)state;
    made t = one("{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {}, \"c\": {\"type\": \"boolean\"}}, "
                 "\"required\": [\"b\"]}");
    check(t.g, CALL(ARG("b", "1")), true);
    check(t.g, CALL(ARG("a", "1") ARG("b", "[1, {\"x\": \"y\"}]") ARG("c", "true")), true);
    check(t.g, CALL(ARG("b", "null") ARG("c", "false")), true);
    check(t.g, CALL(ARG("b", "1") ARG("a", "1")), false);
    check(t.g, CALL(ARG("a", "1")), false);
    check(t.g, CALL(), false);
    check(t.g, CALL(ARG("a", "x") ARG("b", "1")), false);
    check(t.g, CALL(ARG("b", " 1")), false);
    check(t.g, CALL(ARG("d", "1")), false);
    check(t.g, CALL(ARG("b", "1") "x"), false);
    grammar_free(t.g);
}

/* Exactly {"type": "string"} is text as it is; all else is JSON, strings among it in quotes. */
static void test_text_and_json(void **state) {
    (void)state;
    made t = one("{\"properties\": {\"s\": {\"type\": \"string\"}}}");
    check(t.g, CALL(ARG("s", "")), true);
    check(t.g, CALL(ARG("s", " any \"text\" \\ \n\t<b> </arg </arg_valu 3")), true);
    check(t.g, CALL(ARG("s", "\xC3")), false);
    grammar_free(t.g);
    t = one("{\"properties\": {\"s\": {\"type\": [\"string\", \"null\"]}}}");
    check(t.g, CALL(ARG("s", "\"x\"")), true);
    check(t.g, CALL(ARG("s", "null")), true);
    check(t.g, CALL(ARG("s", "x")), false);
    check(t.g, CALL(ARG("s", "\"</arg_valu\"")), true);
    grammar_free(t.g);
    t = one("{\"properties\": {\"s\": {\"$ref\": \"#/$defs/s\"}}, \"$defs\": {\"s\": {\"type\": \"string\"}}}");
    check(t.g, CALL(ARG("s", "\"x\"")), true);
    check(t.g, CALL(ARG("s", "x")), false);
    grammar_free(t.g);
}

static void test_rules_of_text(void **state) {
    (void)state;
    made t = one("{\"properties\": {\"e\": {\"type\": \"string\", \"enum\": [\"a b\", \"a\", \"</arg_value>\", 3]}, "
                 "\"l\": {\"type\": \"string\", "
                 "\"minLength\": 2, \"maxLength\": 3}, \"p\": {\"type\": \"string\", \"pattern\": \"^<?\\\"+$\"}, "
                 "\"c\": {\"type\": \"string\", "
                 "\"const\": \"x\\ny\"}}}");
    check(t.g, CALL(ARG("e", "a b") ARG("l", "é日") ARG("p", "<\"\"") ARG("c", "x\ny")), true);
    check(t.g, CALL(ARG("e", "a") ARG("l", "abc")), true);
    check(t.g, CALL(ARG("e", "3")), false);
    check(t.g, CALL(ARG("e", "</arg_value>")), false);
    check(t.g, CALL(ARG("l", "a")), false);
    check(t.g, CALL(ARG("l", "abcd")), false);
    check(t.g, CALL(ARG("l", "</")), true);
    check(t.g, CALL(ARG("p", "<")), false);
    grammar_free(t.g);
}

/* The reader takes the first closing tag, wherever it stands. */
static void test_no_tag_within_a_value(void **state) {
    (void)state;
    made t = one("{\"properties\": {\"j\": {}, \"s\": {\"type\": \"string\"}}}");
    check(t.g, CALL(ARG("j", "\"</arg_value>\"")), false);
    check(t.g, CALL(ARG("j", "{\"</arg_value>\": 1}")), false);
    check(t.g, CALL(ARG("j", "\"<\\/arg_value>\"")), true);
    check(t.g, CALL(ARG("s", "</arg_value>")), false);
    grammar_free(t.g);
}

static void refuse(const char *name, const char *parameters, status code, const char *why) {
    made t = { 0 };
    err e;
    int found = make(&t, (const char *const[]){ name, NULL }, &parameters, false, false, &e);
    if (found != (int)code || t.g || !strstr(e.text, why))
        fail_msg("expected %d \"%s\", found %d: %s", code, why, found, e.text);
}

static void test_refusals(void **state) {
    (void)state;
    refuse("f", "{\"properties\": {\"a\": {\"not\": {}}}}", ERR_UNSUPPORTED, "tool \"f\": schema: #/properties/a/not");
    refuse("f", "{\"properties\": {\"a\": {\"type\": \"string\", \"anyOf\": [{}]}}}", ERR_UNSUPPORTED, "anyOf");
    refuse("f", "{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"\\\\b\"}}}", ERR_UNSUPPORTED,
           "#/properties/a/pattern");
    refuse("f", "{\"anyOf\": [{}, {}]}", ERR_UNSUPPORTED, "#/anyOf");
    refuse("f", "{\"type\": \"string\"}", ERR_REQUEST, "must be an object");
    refuse("f", "{\"properties\": {\"a<b\": {}}}", ERR_UNSUPPORTED, "cannot spell");
    refuse("f", "{\"properties\": {\" a\": {}}}", ERR_UNSUPPORTED, "cannot spell");
    refuse("f<", NULL, ERR_UNSUPPORTED, "cannot spell");
    refuse("f\n", NULL, ERR_UNSUPPORTED, "cannot spell");
    refuse("", NULL, ERR_UNSUPPORTED, "cannot spell");
    refuse("f", "{\"properties\": {\"a\": false}, \"required\": [\"a\"]}", ERR_REQUEST,
           "#/properties/a: the schema is false");
    refuse("f", "{\"properties\": {\"a\": {\"type\": \"string\", \"enum\": [3]}}, \"required\": [\"a\"]}", ERR_REQUEST,
           "nothing is valid");
    refuse("f", "[]", ERR_REQUEST, "object or a boolean");
    err e;
    grammar *g = NULL;
    assert_int_equal(grammar_of_tools(&g, &(tool_calls){ .n = 0 }, &e), ERR_REQUEST);
}

/* One tool that cannot be called does not stand in the way of another, and its name does not begin. */
static void test_tools_that_cannot_be_called(void **state) {
    (void)state;
    made t = { 0 };
    static const char *const names[] = { "ab", "abc", "abd" }, *const parameters[] = {
        NULL, "{\"properties\": {\"a\": false}, \"required\": [\"a\"]}", NULL
    };
    assert_int_equal(make(&t, names, parameters, false, false, NULL), OK);
    check(t.g, "<tool_call>ab</tool_call>", true);
    check(t.g, "<tool_call>abd</tool_call>", true);
    grammar_run *r = grammar_run_new(t.g);
    grammar_state s = grammar_run_step(r, grammar_run_start(r), grammar_token(OPEN));
    for (const char *p = "ab"; *p; p++) s = grammar_run_step(r, s, (uint8_t)*p);
    assert_int_equal(grammar_run_step(r, s, 'c'), GRAMMAR_DEAD);
    grammar_run_free(r);
    grammar_free(t.g);
}

static void many_tools(int n) {
    tool_choice *tools = calloc((size_t)n, sizeof *tools);
    char(*names)[32] = calloc((size_t)n, sizeof *names);
    json_t *parameters =
        json_loads("{\"properties\": {\"a\": {\"type\": \"string\"}, \"b\": {\"items\": {\"type\": \"integer\"}}}}", 0,
                   NULL);
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "mcp__tool_%d", i);
        tools[i] = (tool_choice){ str_of(names[i]), parameters };
    }
    grammar *g = NULL;
    assert_int_equal(grammar_of_tools(&g, &(tool_calls){ .tools = tools, .n = (size_t)n, .open = OPEN, .close = CLOSE },
                                      NULL),
                     OK);
    char text[160];
    snprintf(text, sizeof text, "<tool_call>mcp__tool_%d" ARG("a", "x") "</tool_call>", n - 1);
    check(g, text, true);
    grammar_free(g);
    json_decref(parameters);
    free(names);
    free(tools);
}

static void test_time_is_linear(void **state) {
    (void)state;
    assert_linear(many_tools, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_arguments_come_in_order),
        cmocka_unit_test(test_text_and_json),
        cmocka_unit_test(test_rules_of_text),
        cmocka_unit_test(test_no_tag_within_a_value),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tools_that_cannot_be_called),
        cmocka_unit_test(test_time_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
