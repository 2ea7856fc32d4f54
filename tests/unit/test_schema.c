/* engine/text/schema: what each keyword allows, said by hand; refusals with their place; hostile schemas. Random
 * schemas against another implementation: tests/text/test_constrained.py. */
#include "tests/unit/grammar_fixture.h"

#include <stdlib.h>

typedef struct row {
    const char *schema, *yes[8], *no[8];
} row;

static const row ROWS[] = {
    { "true", { "null", "-1.5e3", "[{}]", "{\"a\": {\"b\": []}}", "\"x\"" }, { "", "nul", "[", "1 ", " 1" } },
    { "{}", { "false", "0" }, { "01", "+1", ".5", "1.", "-", "1e", "TRUE" } },
    { "{\"type\": \"integer\"}", { "0", "-7", "123456789012345678" }, { "1.0", "1e2", "00", "1234567890123456789" } },
    { "{\"type\": \"number\"}", { "0", "-7", "1.25", "1e10", "2E-3" }, { "1.e1", "1e100", "\"1\"" } },
    { "{\"type\": [\"integer\", \"null\"]}", { "1", "null" }, { "1.5", "true" } },
    { "{\"type\": \"string\", \"nullable\": true}", { "null", "\"\"" }, { "1" } },
    { "{\"type\": \"integer\", \"minimum\": -12, \"maximum\": 105}",
      { "-12", "-1", "0", "9", "99", "100", "105" },
      { "-13", "-20", "106", "110", "1050", "-0", "007" } },
    { "{\"type\": \"integer\", \"exclusiveMinimum\": 9, \"exclusiveMaximum\": 1e3}",
      { "10", "999" },
      { "9", "1000", "-10" } },
    { "{\"type\": \"integer\", \"minimum\": 1.5, \"maximum\": 2.5}", { "2" }, { "1", "3", "2.0" } },
    { "{\"type\": \"integer\", \"minimum\": 999999999999999999}",
      { "999999999999999999", "1000000000000000000" },
      { "99", "1000000000000000001" } },
    { "{\"type\": \"number\", \"minimum\": 0, \"maximum\": 1}",
      { "0", "0.000001", "0.5", "1", "1.0", "1.000000" },
      { "1.000001", "-0", "2", "0.0000001", "1e0" } },
    { "{\"type\": \"number\", \"exclusiveMinimum\": -0.5, \"maximum\": 0.1}",
      { "-0.499999", "0", "0.1", "0.10" },
      { "-0.5", "0.100001", "-1" } },
    { "{\"type\": \"number\", \"multipleOf\": 1}", { "3" }, { "3.5" } },
    { "{\"type\": \"string\"}",
      { "\"\"", "\"a\\n\\u00e9\\/é\"", "\"\\uD7FF😀\"" },
      { "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\xC3\"", "\"\xED\xA0\x80\"", "\"" } },
    { "{\"type\": \"string\", \"minLength\": 2, \"maxLength\": 3}",
      { "\"ab\"", "\"é😀\\n\"" },
      { "\"a\"", "\"abcd\"", "\"\\u0061\"" } },
    { "{\"pattern\": \"^a+$\"}", { "\"a\"", "\"aa\"" }, { "\"\"", "\"b\"", "1" } },
    { "{\"enum\": [\"a\", \"ab\", 1, 12, null, 1.5]}",
      { "\"a\"", "\"ab\"", "1", "12", "null", "1.5" },
      { "\"b\"", "2", "\"a", "1.0" } },
    { "{\"enum\": [\"a\", 1, null], \"type\": [\"string\", \"null\"]}", { "\"a\"", "null" }, { "1" } },
    { "{\"enum\": [1, 5, 9], \"minimum\": 4}", { "5", "9" }, { "1" } },
    { "{\"enum\": [\"ab\", \"xyz\"], \"maxLength\": 2, \"pattern\": \"b\"}", { "\"ab\"" }, { "\"xyz\"" } },
    { "{\"const\": {\"a\": [1, \"x\"], \"b\": {}}}",
      { "{\"a\":[1,\"x\"],\"b\":{}}", "{ \"a\": [ 1, \"x\" ], \"b\": {} }" },
      { "{\"b\":{},\"a\":[1,\"x\"]}", "{}" } },
    { "{\"const\": \"tab\\t\\u0001\\\"\"}", { "\"tab\\t\\u0001\\\"\"" }, { "\"tab\\u0009\\u0001\\\"\"" } },
    { "{\"type\": \"array\"}", { "[]", "[1, \"a\"]" }, { "[,]", "[1,]", "[1 2]" } },
    { "{\"items\": {\"type\": \"integer\"}, \"minItems\": 1, \"maxItems\": 2}",
      { "[1]", "[1,2]" },
      { "[]", "[1,2,3]", "[\"a\"]", "{}" } },
    { "{\"prefixItems\": [{\"const\": 1}, {\"const\": 2}]}", { "[]", "[1]", "[1,2]" }, { "[2]", "[1,2,3]" } },
    { "{\"prefixItems\": [{\"const\": 1}], \"items\": {\"const\": 3}, \"minItems\": 1}",
      { "[1]", "[1,3,3]" },
      { "[]", "[3]" } },
    { "{\"prefixItems\": [{\"const\": 1}], \"minItems\": 2}", { "[1,\"x\"]" }, { "[1]" } },
    { "{\"items\": [{\"const\": 1}], \"additionalItems\": {\"const\": 2}}", { "[1,2]", "[1]" }, { "[2]", "[1,1]" } },
    { "{\"items\": false}", { "[]", "[ ]" }, { "[1]" } },
    { "{\"type\": \"object\"}", { "{}", "{\"x\": 1, \"y\": {\"z\": []}}" }, { "{\"x\"}", "{\"x\": 1,}", "{x: 1}" } },
    { "{\"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}, \"c\": {\"const\": 3}}, \"required\": [\"b\"]}",
      { "{\"b\":2}", "{\"a\":1,\"b\":2,\"c\":3}", "{\"a\": 1, \"b\": 2}", "{\"b\":2,\"c\":3}" },
      { "{}", "{\"a\":1}", "{\"b\":2,\"a\":1}", "{\"a\":1,\"c\":3}", "{\"b\":2,\"b\":2}", "{\"b\":2,\"d\":4}",
        "{\"b\":2,}" } },
    { "{\"properties\": {\"a\": {\"const\": 1}}, \"additionalProperties\": {\"const\": 2}}",
      { "{}", "{\"a\":1,\"b\":2,\"aa\":2}", "{\"b\":2}", "{\"\":2}" },
      { "{\"b\":2,\"a\":1}", "{\"a\":2}", "{\"a\":1,\"a\":2}", "{\"\\u0061\":2}", "{\"b\":1}" } },
    { "{\"properties\": {\"a\": {\"const\": 1}}, \"required\": [\"z\"]}",
      { "{\"a\":1,\"z\":[]}", "{\"z\":0}" },
      { "{\"a\":1}" } },
    { "{\"properties\": {\"a\\\"b\": {\"const\": 1}, \"a\": {\"const\": 2}}, \"additionalProperties\": true}",
      { "{\"a\\\"b\":1,\"a\":2}", "{\"a\":2}", "{\"ax\":0}" },
      { "{\"a\\\"b\":2}", "{\"a\\\"\":1}" } },
    { "{\"type\": \"object\", \"required\": [\"a\"], \"minProperties\": 1, \"maxProperties\": 1}",
      { "{\"a\":1}" },
      { "{}" } },
    { "{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}}, "
      "\"required\": [\"a\"]}, "
      "{\"properties\": {\"a\": {\"const\": 2}, \"b\": {\"const\": 3}}}]}",
      { "null", "{\"a\":1}", "{\"a\":2,\"b\":3}", "{\"b\":3}", "{}" },
      { "{\"a\":1,\"b\":3}", "1" } },
    { "{\"type\": \"object\", \"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}}, \"anyOf\": "
      "[{\"required\": [\"a\"]}, "
      "{\"required\": [\"b\"]}]}",
      { "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}" },
      { "{}" } },
    { "{\"allOf\": [{\"type\": \"integer\"}, {\"minimum\": 3}, {\"maximum\": 5}]}",
      { "3", "5" },
      { "2", "6", "\"a\"" } },
    { "{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\"}}}, {\"properties\": {\"a\": {\"minimum\": 3}, "
      "\"b\": {\"const\": 0}}, "
      "\"required\": [\"a\"]}]}",
      { "{\"a\":3}", "{\"a\":4,\"b\":0}" },
      { "{\"a\":2}", "{\"a\":3.5}", "{\"b\":0}" } },
    { "{\"allOf\": [{\"properties\": {\"a\": {}}, \"additionalProperties\": false}, {\"properties\": {\"b\": {}}}]}",
      { "{}", "{\"a\":1}" },
      { "{\"b\":1}", "{\"a\":1,\"b\":1}" } },
    { "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"string\"}]}", { "1", "\"x\"" }, { "null" } },
    { "{\"oneOf\": [{\"properties\": {\"k\": {\"const\": \"x\"}, \"v\": {}}, \"required\": [\"k\"]}, {\"properties\": "
      "{\"k\": "
      "{\"enum\": [\"y\", \"z\"]}}, \"required\": [\"k\"]}]}",
      { "{\"k\":\"x\",\"v\":1}", "{\"k\":\"z\"}" },
      { "{\"k\":\"y\",\"v\":1}", "{}" } },
    { "{\"$ref\": \"#/$defs/a~1b\", \"$defs\": {\"a/b\": {\"const\": 7}}}", { "7" }, { "8" } },
    { "{\"$ref\": \"#/definitions/x%20y\", \"definitions\": {\"x y\": {\"type\": \"integer\"}}, \"minimum\": 3}",
      { "3" },
      { "2" } },
    { "{\"properties\": {\"next\": {\"$ref\": \"#\"}}}", { "{}", "{\"next\":{\"next\":{}}}" }, { "{\"next\":1}" } },
    { "{\"anyOf\": [{\"$ref\": \"#\"}, {\"const\": 1}]}", { "1" }, { "2", "null" } },
    { "{\"properties\": {\"r\": {\"$ref\": \"#/$defs/r\"}, \"a\": {\"$ref\": \"#/$defs/a\"}}, \"$defs\": {\"r\": "
      "{\"anyOf\": "
      "[{\"$ref\": \"#/$defs/a\"}, {\"const\": 1}]}, \"a\": {\"anyOf\": [{\"$ref\": \"#/$defs/r\"}, {\"const\": 2}]}}}",
      { "{\"r\":1,\"a\":1}", "{\"r\":2,\"a\":2}" },
      { "{\"r\":3}" } },
    { "{\"type\": \"string\", \"format\": \"email\", \"title\": \"t\", \"x-any\": {\"not\": {}}}",
      { "\"no mail\"" },
      { "1" } },
};

static void test_keywords(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        grammar *g = schema_grammar(ROWS[i].schema);
        for (int k = 0; k < 8; k++) {
            if (ROWS[i].yes[k] && !allows(g, str_of(ROWS[i].yes[k])))
                fail_msg("%s refuses %s", ROWS[i].schema, ROWS[i].yes[k]);
            if (ROWS[i].no[k] && allows(g, str_of(ROWS[i].no[k])))
                fail_msg("%s allows %s", ROWS[i].schema, ROWS[i].no[k]);
        }
        grammar_free(g);
    }
}

static void refuse_tree(json_t *tree, status code, const char *why) {
    grammar *g = NULL;
    err e;
    assert_non_null(tree);
    int found = grammar_of_schema(&g, tree, &e);
    if (found != (int)code || g || !strstr(e.text, why))
        fail_msg("expected %d \"%s\", found %d: %s", code, why, found, e.text);
    json_decref(tree);
}

static void refuse(const char *schema, status code, const char *why) {
    refuse_tree(json_loads(schema, JSON_DECODE_ANY, NULL), code, why);
}

static void test_refusals_name_keyword_and_place(void **state) {
    (void)state;
    refuse("{\"not\": {}}", ERR_UNSUPPORTED, "#/not");
    refuse("{\"properties\": {\"a\": {\"items\": {\"patternProperties\": {\"x\": {}}}}}}", ERR_UNSUPPORTED,
           "#/properties/a/items/patternProperties");
    refuse("{\"if\": {}, \"then\": {}}", ERR_UNSUPPORTED, "#/if");
    refuse("{\"prefixItems\": [{}, {\"uniqueItems\": true}]}", ERR_UNSUPPORTED, "#/prefixItems/1/uniqueItems");
    refuse("{\"anyOf\": [{}, {\"contains\": {}}]}", ERR_UNSUPPORTED, "#/anyOf/1/contains");
    refuse("{\"multipleOf\": 3}", ERR_UNSUPPORTED, "#/multipleOf");
    refuse("{\"minProperties\": 2}", ERR_UNSUPPORTED, "minProperties");
    refuse("{\"maxProperties\": 2}", ERR_UNSUPPORTED, "maxProperties");
    refuse("{\"unevaluatedProperties\": false}", ERR_UNSUPPORTED, "unevaluatedProperties");
    refuse("{\"$ref\": \"other.json\"}", ERR_UNSUPPORTED, "#/$ref");
    refuse("{\"$ref\": \"#/$defs/none\"}", ERR_REQUEST, "nothing at the place");
    refuse("{\"pattern\": \"(?=a)\"}", ERR_UNSUPPORTED, "#/pattern: this kind of group");
    refuse("{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", ERR_UNSUPPORTED,
           "both alternatives 0 and 1");
    refuse("{\"oneOf\": [{\"properties\": {\"a\": {}}}, {\"properties\": {\"b\": {}}}]}", ERR_UNSUPPORTED, "#/oneOf");
    refuse("{\"enum\": [[1]], \"items\": {}}", ERR_UNSUPPORTED, "enum");
    refuse("{\"type\": \"number\", \"minimum\": 1e12}", ERR_UNSUPPORTED, "10^9");
    refuse("{\"type\": \"integer\", \"minimum\": 1e19}", ERR_UNSUPPORTED, "10^18");
    refuse("{\"minItems\": 1e15}", ERR_UNSUPPORTED, "too large");
}

static void test_what_is_no_schema(void **state) {
    (void)state;
    refuse("1", ERR_REQUEST, "object or a boolean");
    refuse("{\"type\": \"text\"}", ERR_REQUEST, "#/type");
    refuse("{\"type\": 3}", ERR_REQUEST, "#/type");
    refuse("{\"items\": 3}", ERR_REQUEST, "#/items");
    refuse("{\"properties\": []}", ERR_REQUEST, "#/properties");
    refuse("{\"properties\": {\"a\": null}}", ERR_REQUEST, "#/properties/a");
    refuse("{\"required\": [1]}", ERR_REQUEST, "#/required");
    refuse("{\"anyOf\": []}", ERR_REQUEST, "#/anyOf");
    refuse("{\"allOf\": {}}", ERR_REQUEST, "#/allOf");
    refuse("{\"enum\": 1}", ERR_REQUEST, "#/enum");
    refuse("{\"minLength\": -1}", ERR_REQUEST, "#/minLength");
    refuse("{\"maxItems\": 1.5}", ERR_REQUEST, "#/maxItems");
    refuse("{\"minimum\": \"a\"}", ERR_REQUEST, "#/minimum");
    refuse("{\"pattern\": \"(\"}", ERR_REQUEST, "not closed");
    refuse("{\"$ref\": 1}", ERR_REQUEST, "#/$ref");
}

static void test_contradictions(void **state) {
    (void)state;
    refuse("false", ERR_REQUEST, "nothing is valid");
    refuse("{\"enum\": []}", ERR_REQUEST, "enum leaves no value");
    refuse("{\"enum\": [1], \"type\": \"string\"}", ERR_REQUEST, "none of the values");
    refuse("{\"enum\": [1], \"const\": 2}", ERR_REQUEST, "const");
    refuse("{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 4}", ERR_REQUEST, "no number is within");
    refuse("{\"type\": \"integer\", \"minimum\": 4.2, \"maximum\": 4.8}", ERR_REQUEST, "no integer");
    refuse("{\"type\": \"number\", \"minimum\": 1e-9, \"maximum\": 2e-9}", ERR_REQUEST, "6 decimals");
    refuse("{\"allOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", ERR_REQUEST, "all the types");
    refuse("{\"minLength\": 3, \"maxLength\": 2, \"type\": \"string\"}", ERR_REQUEST, "least count");
    refuse("{\"properties\": {\"a\": false}, \"required\": [\"a\"]}", ERR_REQUEST,
           "#/properties/a: the schema is false");
    refuse("{\"required\": [\"a\"], \"additionalProperties\": false}", ERR_REQUEST, "#/additionalProperties");
    refuse("{\"prefixItems\": [{}], \"items\": false, \"minItems\": 2}", ERR_REQUEST, "#/items: the schema is false");
    refuse("{\"type\": \"string\", \"pattern\": \"^a$\", \"minLength\": 2}", ERR_REQUEST, "pattern and length");
    refuse("{\"properties\": {\"a\": {\"$ref\": \"#\"}}, \"required\": [\"a\"]}", ERR_REQUEST, "without end");
    refuse("{\"$ref\": \"#\"}", ERR_REQUEST, "leads back to itself");
    refuse("{\"allOf\": [{\"$ref\": \"#/$defs/a\"}], \"$defs\": {\"a\": {\"$ref\": \"#/$defs/b\"}, \"b\": {\"$ref\": "
           "\"#/$defs/a\"}}}",
           ERR_REQUEST, "itself");
    refuse("{\"items\": {\"$ref\": \"#\"}, \"minItems\": 1}", ERR_REQUEST, "without end");
}

/* An optional part that nothing satisfies is left out, and no key begins that cannot be ended. */
static void test_no_dead_ends(void **state) {
    (void)state;
    bool ends;
    grammar *g = schema_grammar("{\"properties\": {\"ab\": false, \"ac\": {\"const\": 1}}}");
    assert_allows(g, "{\"ac\":1}");
    assert_int_equal(walk_text(g, STR("{\"ab"), &ends), 3);
    grammar_free(g);
    g = schema_grammar("{\"items\": {\"allOf\": [{\"type\": \"null\"}, {\"type\": \"string\"}]}}");
    assert_int_equal(walk_text(g, STR("[n"), &ends), 1);
    assert_allows(g, "[]");
    grammar_free(g);
}

static buf repeat(const char *head, const char *middle, const char *tail, int n) {
    buf b = { 0 };
    for (int i = 0; i < n; i++) buf_str(&b, str_of(head));
    buf_str(&b, str_of(middle));
    for (int i = 0; i < n; i++) buf_str(&b, str_of(tail));
    return b;
}

/* Where the schema allows no end, the way out must stay open down to the deepest level. */
static void test_depth_is_bounded(void **state) {
    (void)state;
    grammar *g = schema_grammar("true");
    bool ends;
    buf deep = repeat("[", "", "]", GRAMMAR_DEPTH), deeper = repeat("[", "", "]", GRAMMAR_DEPTH + 1);
    assert_true(allows(g, buf_view(&deep)));
    assert_int_equal(walk_text(g, buf_view(&deeper), &ends), GRAMMAR_DEPTH);
    buf_free(&deep);
    buf_free(&deeper);
    grammar_free(g);
    /* Each level needs two: the last that may begin is one above the end. */
    g = schema_grammar(
        "{\"properties\": {\"v\": {\"type\": \"array\"}, \"n\": {\"$ref\": \"#\"}}, \"required\": [\"v\"]}");
    deep = repeat("{\"v\":[],\"n\":", "", "", GRAMMAR_DEPTH);
    size_t level = strlen("{\"v\":[],\"n\":");
    size_t n = walk_text(g, buf_view(&deep), &ends);
    assert_int_equal(n / level, GRAMMAR_DEPTH - 2);
    deep.len = n;
    buf_str(&deep, STR("}")); /* the comma is what was refused */
    assert_int_equal(walk_text(g, buf_view(&deep), &ends), deep.len);
    buf_free(&deep);
    grammar_free(g);
}

static void refuse_deep(int n, bool loads) {
    buf deep = repeat("{\"items\":", "{}", "}", n);
    json_t *tree = json_loadb(deep.data, deep.len, 0, NULL);
    assert_int_equal(tree != NULL, loads);
    if (tree) {
        grammar *g = NULL;
        assert_int_equal(grammar_of_schema(&g, tree, NULL), OK);
        grammar_free(g);
    }
    json_decref(tree);
    buf_free(&deep);
}

/* The same without the reader's limit, and with every level needed. */
static json_t *nested(int n, bool needed) {
    json_t *tree = json_object();
    for (int i = 0; i < n; i++) {
        json_t *up = json_object();
        json_object_set_new(up, "items", tree);
        if (needed) json_object_set_new(up, "minItems", json_integer(1));
        tree = up;
    }
    return tree;
}

static void test_deep_schemas(void **state) {
    (void)state;
    refuse_deep(1000, true);
    refuse_deep(100000, false); /* the reader of JSON has a limit of its own */
    json_t *tree = nested(20000, false);
    grammar *g = NULL;
    assert_int_equal(grammar_of_schema(&g, tree, NULL), OK);
    assert_allows(g, "[[[[]]]]");
    grammar_free(g);
    json_decref(tree);
    refuse_tree(nested(1000, true), ERR_REQUEST, "more than 128 deep");
    refuse_tree(json_pack("{s:o}", "const", nested(500, false)), ERR_UNSUPPORTED, "more than 100 deep");
}

static void test_large_schemas(void **state) {
    (void)state;
    enum { MEGABYTE = 1 << 20 };
    char *key = malloc(MEGABYTE + 1);
    memset(key, 'k', MEGABYTE);
    key[MEGABYTE] = 0;
    json_t *tree = json_pack("{s:{s:{}}, s:[s]}", "properties", key, "required", key);
    grammar *g = NULL;
    assert_int_equal(grammar_of_schema(&g, tree, NULL), OK);
    buf text = { 0 };
    buf_printf(&text, "{\"%s\":1}", key);
    assert_true(allows(g, buf_view(&text)));
    buf_free(&text);
    grammar_free(g);
    json_t *list = json_array();
    for (int i = 0; i < 6; i++) {
        key[0] = (char)('0' + i);
        json_array_append_new(list, json_string(key));
    }
    json_decref(tree);
    refuse_tree(json_pack("{s:o}", "enum", list), ERR_UNSUPPORTED, "too large");
    free(key);
    /* each of these alone is fine */
    json_t *props = json_object();
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        json_object_set_new(props, name, json_pack("{s:s,s:i}", "pattern", "a.*b.*c", "maxLength", 20 + i));
    }
    refuse_tree(json_pack("{s:o}", "properties", props), ERR_UNSUPPORTED, "too large");
    /* 12 choices of 8 each would be 8^12 combinations */
    json_t *all = json_array();
    for (int i = 0; i < 12; i++) {
        json_t *any = json_array();
        for (int k = 0; k < 8; k++) json_array_append_new(any, json_pack("{s:i}", "minLength", i * 8 + k));
        json_array_append_new(all, json_pack("{s:o}", "anyOf", any));
    }
    refuse_tree(json_pack("{s:o}", "allOf", all), ERR_UNSUPPORTED, "too large");
}

static grammar *of_tree(json_t *tree) {
    grammar *g = NULL;
    err e;
    if (grammar_of_schema(&g, tree, &e) != OK) fail_msg("%s", e.text);
    json_decref(tree);
    return g;
}

static void many_properties(int n) {
    json_t *props = json_object(), *required = json_array();
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "some_property_%d", i);
        json_object_set_new(props, name, json_pack("{s:s,s:i}", "type", "string", "maxLength", i));
        if (i % 2) json_array_append_new(required, json_string(name));
    }
    grammar_free(of_tree(json_pack("{s:o,s:o}", "properties", props, "required", required)));
}

static void many_values(int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(i * 7));
    grammar_free(of_tree(json_pack("{s:o}", "enum", list)));
}

static void many_alternatives(int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:{s:{s:i}},s:[s]}", "properties", "k", "const", i, "required", "k"));
    grammar_free(of_tree(json_pack("{s:o}", "anyOf", list)));
}

static void many_references(int n) {
    json_t *defs = json_object();
    for (int i = 0; i < n; i++) {
        char name[16], next[32];
        snprintf(name, sizeof name, "d%d", i);
        snprintf(next, sizeof next, "#/$defs/d%d", (i + 1) % n);
        json_object_set_new(defs, name, json_pack("{s:{s:{s:s}}}", "properties", "next", "$ref", next));
    }
    grammar_free(of_tree(json_pack("{s:s,s:o}", "$ref", "#/$defs/d0", "$defs", defs)));
}

static void test_time_is_linear(void **state) {
    (void)state;
    assert_linear(many_properties, 500);
    assert_linear(many_values, 2000);
    assert_linear(many_alternatives, 500);
    assert_linear(many_references, 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keywords),          cmocka_unit_test(test_refusals_name_keyword_and_place),
        cmocka_unit_test(test_what_is_no_schema), cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_no_dead_ends),      cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_deep_schemas),      cmocka_unit_test(test_large_schemas),
        cmocka_unit_test(test_time_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
