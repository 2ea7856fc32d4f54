/* engine/text/tmpl: what the golden cases cannot show: limits, messages, spelling of numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/base/mem.h"
#include "engine/text/tmpl.h"
#include "tests/unit/json_fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* A render without variables. parsed tells at which stage it failed. */
typedef struct outcome {
    status code;
    bool parsed;
    buf text;
    err e;
} outcome;

static outcome render(str source, const tmpl_limits *limits) {
    outcome o = { 0 };
    tmpl *t = NULL;
    arena *mem = arena_new();
    o.code = tmpl_parse(&t, source, "t.jinja", &o.e);
    o.parsed = o.code == OK;
    if (o.parsed) o.code = tmpl_render(t, mem, NULL, 0, limits, &o.text, &o.e);
    tmpl_free(t);
    arena_free(mem);
    return o;
}

static outcome render_text(const char *source) { return render(str_of(source), NULL); }

static void expect_text(const char *source, const char *want) {
    outcome o = render_text(source);
    if (o.code != OK) fail_msg("%s: %s", source, o.e.text);
    assert_string_equal(buf_cstr(&o.text), want);
    buf_free(&o.text);
}

/* Failing with this text in the message, before or during the render. */
static void expect_failure(const char *source, bool parsed, const char *message) {
    outcome o = render_text(source);
    assert_int_equal(o.code, ERR_TEMPLATE);
    assert_int_equal(o.parsed, parsed);
    assert_int_equal(o.text.len, 0);
    if (!strstr(o.e.text, message)) fail_msg("%s: got \"%s\", wanted \"%s\"", source, o.e.text, message);
    buf_free(&o.text);
}

/* What Python 3 says. */
static void test_strings_of_python(void **state) {
    (void)state;
    expect_text("{{ 'straße ŉ ﬁ ǅ' | upper }}", "STRASSE ʼN FI Ǆ");
    expect_text("{{ 'İΑΣ ΣΑΣ'.lower() }}", "i̇ας σας");
    expect_text("{{ 'ǆabc ßx'.title() }}", "ǅabc Ssx");
    expect_text("{{ 'ßETA'.capitalize() }}", "Sseta");
    expect_text("{{ 'ß'.isupper() }}{{ 'ß'.islower() }}{{ 'ǅ'.isupper() }}", "FalseTrueFalse");
    expect_text("{{ 'aBß'.swapcase() }}", "AbSS");
    expect_text("{{ 'a,b,c'.partition(',') }}{{ 'abc'.partition('-') }}", "('a', ',', 'b,c')('abc', '', '')");
    expect_text("{{ 'a.b.c'.rpartition('.') }}{{ 'abc'.rpartition('-') }}", "('a.b', '.', 'c')('', '', 'abc')");
    expect_text("{{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '*') }}|{{ 'ab'.center(5) }}|{{ 'abc'.center(6, 'é') }}|",
                "x  |**x|  ab |éabcéé|");
    expect_text("{{ '-7'.zfill(4) }}{{ 'abc'.zfill(2) }}", "-007abc");
    expect_text("{{ '{}-{}'.format(1, 'b') }}{{ '{1}{0}{{{k}}}'.format(1, 2, k=none) }}", "1-b21{None}");
    expect_text("{{ 'abab'.index('b') }}{{ 'abab'.rindex('b') }}{{ 'é😀b'.rfind('b') }}{{ 'a'.rfind('b') }}", "132-1");
    expect_text("{{ 'aXbXc'.rsplit('X', 1) }}{{ 'aaa'.rsplit('aa') }}", "['aXb', 'c']['a', '']");
    expect_text("{{ 'a1'.isalnum() }}{{ 'a1'.isalpha() }}{{ '12'.isnumeric() }}{{ ''.isdecimal() }}",
                "TrueFalseTrueFalse");
    expect_text("{{ [1].copy() }}", "[1]");
    expect_text("{{ -0.0 // 1 }}{{ 7.5 // -2 }}", "-0.0-4.0");
    expect_text("{{ range(true) | list }}", "[0]");
    expect_text("{{ [{'a': 2, 'b': 1}, {'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') | "
                "map(attribute='b') | join }}",
                "121");
    expect_text("{{ [none, none, none] | sort }}{{ [[1], {}] | sort | length if false }}", "[None, None, None]");
    expect_failure("{{ {'a': none, 'b': none} | dictsort(by='value') }}", true, "not supported between");
    expect_failure("{{ 1 is odd is odd }}", false, "cannot be chained");
    expect_failure("{% filter length %}a{% endfilter %}", true, "must give a str");
    expect_failure("{{ dict()[1:] }}", true, "'dict' object has no slices");
    expect_failure("{{ 'a'.index('b') }}", true, "substring not found");
    expect_failure("{{ '{}{0}'.format(1) }}", true, "numbered fields");
    expect_failure("{{ '{'.format(1) }}", true, "a single '{'");
    expect_failure("{{ '{:>3}'.format(1) }}", true, "more than a name");
    expect_failure("{{ '{}'.format() }}", true, "no argument 0");
    expect_failure("{{ 'a'.partition('') }}", true, "empty separator");
    expect_failure("{{ 'a'.rjust(3, 'ab') }}", true, "exactly one character");
    expect_failure("{{ 'a'.ljust(10 ** 12) }}", true, "a text of more than");
    expect_failure("{{ 'a'.strip('b' * 2000) }}", true, "at most 1024 bytes");
}

static void test_common_idioms(void **state) {
    (void)state;
    expect_text("{{ 'a,b' .split(',') | map('upper') | join('+') }}", "A+B");
    expect_text("{% set ns = namespace() %}{% set ns.x = 3 %}{{ ns.x }}{{ ns.y is defined }}", "3False");
    expect_text("{% macro m(a) %}{{ a }}{{ varargs | length }}{{ kwargs.k }}{% endmacro %}{{ m(1, 2, 3, k='v') }}",
                "12v");
    expect_text("{% macro m() %}{{ caller('x') }}{% endmacro %}{% call(v) m() %}<{{ v }}>{% endcall %}", "<x>");
    expect_text("{% for x in [1, 2, 2] %}{{ loop.changed(x) }} {% endfor %}", "True True False ");
    expect_text("{{ 'a-b-c'.rsplit('-', 1) }}{{ ' x  y '.split(none, 1) }}{{ ' x  y '.rsplit(none, 1) }}",
                "['a-b', 'c']['x', 'y '][' x', 'y']");
    expect_text("{{ 'a'.replace('', '-') }} {{ 'prefix-x'.removeprefix('prefix-') }} {{ 'é' * 2 }}", "-a- x éé");
    expect_text("{{ '%5.1f|%-4s|%03d|%x|%%' % (1.25, 'é', 7, 255) }}", "  1.2|é   |007|ff|%");
    expect_text("{{ [{'n': 2}, {'n': 1}] | sort(attribute='n') | map(attribute='n') | list }}", "[1, 2]");
    expect_text("{{ 2.5 | round }} {{ 3.14159 | round(2) }} {{ 1.2 | round(method='ceil') }} {{ '0x1f' | int(0, 16) }}",
                "2.0 3.14 2.0 31");
    expect_text("{{ none | selectattr('a') | list }}{{ 2.5 is odd }}{{ '' % x }}", "[]False");
    expect_text("{{ (x.y is defined) if x is defined else 'no' }}", "no");
    expect_text("{{ 1 if 0 }}{{ (none).a is defined }}{{ 'x' if 'a' is string and 1 is not string }}", "Falsex");
    expect_text("{{ strftime_now('%Y') | length }}", "4");
    expect_text("{{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {'a': 1} == {'a': 1.0} }}", "{1: 'c'} True");
    expect_text("{{ 10 ** 2 }} {{ 2 ** -1 }} {{ -7 // 2.0 }} {{ 7 % -3 }} {{ -0.0 }} {{ 1_000 }}",
                "100 0.5 -4.0 -2 -0.0 1000");
}

static void test_scopes(void **state) {
    (void)state;
    expect_text("{% for i in [1, 2] %}[{{ y }}]{% set y = i %}{% endfor %}[{{ y }}]", "[][][]");
    expect_text("{% set ns = namespace() %}{% for i in [1, 2] %}{% if loop.first %}{% macro m() %}{{ i }}{% endmacro %}"
                "{% set ns.m = m %}{% endif %}{% endfor %}{{ ns.m() }}",
                "1");
    expect_text("{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}", "211");
    expect_text("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}", "21");
    expect_text("{% macro m(a, b=a) %}{{ a }}{{ b }}{% set a = 3 %}{% endmacro %}{{ m(1) }}{{ a }}", "11");
    expect_text("{% for i in [1] %}{% break %}{% else %}no turn ended{% endfor %}", "no turn ended");
    expect_text("{% for i in [1, 2] if i > 1 %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}", "21");
}

static void test_messages_name_the_line(void **state) {
    (void)state;
    expect_failure("line one\n{% if x %}yes", false, "t.jinja line 2: 'if' without its end tag");
    expect_failure("a\nb\n{% frobnicate %}", false, "t.jinja line 3: unknown tag 'frobnicate'");
    expect_failure("{{ x | shuffle }}", false, "t.jinja line 1: unknown filter 'shuffle'");
    expect_failure("{{ messages[0", false, "t.jinja line 1: expected ']', found end of template");
    expect_failure("\n\n{{ 'a' +\n 1 }}", true, "t.jinja line 3: can only concatenate str (not \"int\") to str");
    expect_failure("{% include 'x' %}", false, "line 1: unknown tag 'include'");
    expect_failure("{% for x in y recursive %}{% endfor %}", false, "recursive loops are not supported");
    expect_failure("{{ f(*x) }}", false, "unpacking of arguments");
    expect_failure("{{ 'a'.frob() }}", true, "'str object' has no attribute 'frob'");
    expect_failure("{{ d.items() }}", true, "'d' is undefined");
    expect_failure("{% break %}", false, "'break' outside of a loop");
    expect_failure("{% set true = 1 %}", false, "'true' cannot be assigned to");
    expect_failure("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", true,
                   "macro 'm' takes not more than 1 arguments (2 given)");
    expect_failure("{{ [1].append(2) }}", true, "a template may not change a list");
    expect_failure("{{ {[1]: 2} }}", true, "a dict key cannot be of type 'list'");
    expect_failure("{{ '\\ud800' }}", false, "names no character");
    expect_failure("\xff", false, "not UTF-8");
}

typedef struct nest {
    const char *start, *head, *middle, *tail, *end;
} nest;

/* start, n times head, middle, n times tail, end. */
static outcome render_nest(nest of, int n) {
    buf source = { 0 };
    buf_str(&source, str_of(of.start));
    for (int i = 0; i < n; i++) buf_str(&source, str_of(of.head));
    buf_str(&source, str_of(of.middle));
    for (int i = 0; i < n; i++) buf_str(&source, str_of(of.tail));
    buf_str(&source, str_of(of.end));
    outcome o = render(buf_view(&source), NULL);
    buf_free(&source);
    return o;
}

static void test_nesting_is_limited(void **state) {
    (void)state;
    static const nest shapes[] = {
        { "{{ ", "(", "1", ")", " }}" },
        { "{{ ", "(", "1", "", " }}" },
        { "{{ ", "[", "1", "]", " }}" },
        { "{{ ", "{1: ", "1", "}", " }}" },
        { "{{ ", "not ", "1", "", " }}" },
        { "{{ ", "-", "1", "", " }}" },
        { "{{ ", "[0][", "0", "]", " }}" },
        { "{{ ", "dict(", "", ")", " }}" },
        { "{{ ", "1 if 0 else ", "1", "", " }}" },
        { "{{ 1", "", "", " + 1", " }}" },
        { "{{ 1", "", "", " | abs", " }}" },
        { "{{ [[]]", "", "", "[0:]", " }}" },
        { "{{ 0", "", "", " or 0", " }}" },
        { "", "{% if 1 %}", "", "{% endif %}", "" },
        { "", "{% for x in y %}", "", "{% endfor %}", "" },
        { "", "{% set x %}", "", "{% endset %}", "" },
        { "", "{% macro m() %}", "", "{% endmacro %}", "" },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        outcome o = render_nest(shapes[i], 100000);
        if (o.code != ERR_TEMPLATE || !strstr(o.e.text, "nested more than"))
            fail_msg("%s%s: %s", shapes[i].head, shapes[i].tail, o.code == OK ? "accepted" : o.e.text);
        buf_free(&o.text);
        o = render_nest(shapes[i], 30);
        if (shapes[i].tail[0] != '\0' && o.code != OK) fail_msg("%s: %s", shapes[i].head, o.e.text);
        buf_free(&o.text);
    }
    expect_failure("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", true, "nested more than");
}

static void test_work_is_limited(void **state) {
    (void)state;
    expect_failure("{% for a in range(9999) %}{% for b in range(9999) %}{{ 1 }}{% endfor %}{% endfor %}", true,
                   "gave up after");
    expect_failure("{{ 'x' * 9999999999 }}", true, "a text of more than");
    expect_failure("{{ [1] * 9999999999 }}", true, "gave up after");
    expect_failure("{{ range(2000000000) }}", true, "gave up after");
    expect_failure("{{ '%999999999d' % 1 }}", true, "width beyond reason");
    expect_failure("{{ 9223372036854775807 + 1 }}", true, "beyond 64 bits");
    /* 2^60 elements that share one list: the walk must end, not the machine. */
    expect_failure(
        "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        true, "gave up after");
    expect_failure(
        "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", true,
        "a value is nested more than");

    const tmpl_limits small = { .steps = 1000, .output = 100, .memory = (size_t)1 << 20 };
    outcome o = render(STR("{% for i in range(60) %}ab{% endfor %}"), &small);
    assert_int_equal(o.code, ERR_TEMPLATE);
    assert_non_null(strstr(o.e.text, "a text of more than 100 bytes"));
    buf_free(&o.text);
    o = render(STR("{% for i in range(40) %}ab{% endfor %}"), &small);
    assert_int_equal(o.code, OK);
    buf_free(&o.text);
}

static void test_one_template_renders_many_times(void **state) {
    (void)state;
    tmpl *t;
    assert_int_equal(tmpl_parse(&t, STR("{% set n = n + 1 %}{{ n }}{% for i in l %}{{ i }}{% endfor %}"), "t", NULL),
                     OK);
    for (int i = 0; i < 3; i++) {
        arena *mem = arena_new();
        value_list *l = value_list_new(mem, 0);
        value_list_push(mem, l, value_int(7));
        const tmpl_var vars[] = { { "n", value_int(i) }, { "l", value_of_list(l) }, { "unused", value_none() } };
        buf out = { 0 };
        char want[8];
        buf_str(&out, STR("kept "));
        assert_int_equal(tmpl_render(t, mem, vars, 3, NULL, &out, NULL), OK);
        snprintf(want, sizeof want, "kept %d7", i + 1);
        assert_string_equal(buf_cstr(&out), want);
        buf_free(&out);
        arena_free(mem);
    }
    tmpl_free(t);
}

/* ---- values ---- */

static void expect_json(const char *source, const char *want) {
    arena *mem = arena_new();
    const value_json plain = { .comma = STR(", "), .colon = STR(": ") };
    value_work work = { .left = 1000000 };
    buf out = { 0 };
    value v;
    err e;
    if (value_from_text(mem, &v, str_of(source), &e) != OK) fail_msg("%s: %s", source, e.text);
    assert_int_equal(value_to_json(&out, v, &plain, &work, NULL), OK);
    assert_string_equal(buf_cstr(&out), want);
    buf_free(&out);
    arena_free(mem);
}

static void test_numbers_keep_their_spelling(void **state) {
    (void)state;
    json_t *table = fixture_json("tests/cases/tables/C01-template.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(table, "values"), i, row)
        expect_json(json_string_value(json_object_get(row, "json_in_request")),
                    json_string_value(json_object_get(row, "text_in_prompt")));
    expect_json(json_string_value(json_object_get(table, "tool_in_request")),
                json_string_value(json_object_get(table, "tool_line")));
    json_decref(table);
}

static void test_json_reader_is_strict(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",    "{",     "[1,]",    "{\"a\":1,}", "{a:1}",  "01",      "1.",          "1e",
        "+1",  "nul",   "'a'",     "\"a",        "\"\n\"", "\"\\x\"", "\"\\ud800\"", "\"\\udc00\"",
        "1 2", "[1 2]", "{\"a\"}", "\"\xff\"",   "NaN",    "--1",     "[",           "{\"a\":}",
    };
    arena *mem = arena_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        value v;
        if (value_from_text(mem, &v, str_of(bad[i]), NULL) != ERR_REQUEST) fail_msg("accepted: %s", bad[i]);
    }
    buf deep = { 0 };
    value v;
    for (int i = 0; i < 100000; i++) buf_byte(&deep, '[');
    assert_int_equal(value_from_text(mem, &v, buf_view(&deep), NULL), ERR_REQUEST);
    buf_free(&deep);
    arena_free(mem);
    expect_json(" {\"a\" : 1 , \"b\":2, \"a\":3} ", "{\"a\": 3, \"b\": 2}");
}

static void test_floats_print_as_in_python(void **state) {
    (void)state;
    static const struct {
        double f;
        const char *text;
    } rows[] = {
        { 0, "0.0" },
        { -0.0, "-0.0" },
        { 1, "1.0" },
        { 100, "100.0" },
        { 1.5, "1.5" },
        { 0.1, "0.1" },
        { 1e15, "1000000000000000.0" },
        { 1e16, "1e+16" },
        { 123456.789, "123456.789" },
        { 0.0001, "0.0001" },
        { 0.00001, "1e-05" },
        { 1.25e-7, "1.25e-07" },
        { 5e-324, "5e-324" },
        { 1e22, "1e+22" },
        { 9.5e15, "9500000000000000.0" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { 1.0 / 3, "0.3333333333333333" },
        { 123456789012345.67, "123456789012345.67" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf out = { 0 };
        value_put_float(&out, rows[i].f);
        assert_string_equal(buf_cstr(&out), rows[i].text);
        buf_free(&out);
    }
}

static void test_large_dicts_are_indexed(void **state) {
    (void)state;
    arena *mem = arena_new();
    value_dict *d = value_dict_new(mem, 0);
    enum { N = 5000 };
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < N; i++) {
            char key[16];
            snprintf(key, sizeof key, "k%d", i);
            value_dict_set(mem, d, value_str(arena_str(mem, str_of(key))), value_int(i * 2 + pass));
        }
    assert_int_equal(d->n, N);
    for (int i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        const value *v = value_dict_find_str(d, str_of(key));
        assert_non_null(v);
        assert_int_equal(v->i, i * 2 + 1);
        assert_true(str_eq(d->entries[i].key.s, str_of(key)));
    }
    assert_null(value_dict_find_str(d, STR("k5000")));
    arena_free(mem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_of_python),
        cmocka_unit_test(test_common_idioms),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_messages_name_the_line),
        cmocka_unit_test(test_nesting_is_limited),
        cmocka_unit_test(test_work_is_limited),
        cmocka_unit_test(test_one_template_renders_many_times),
        cmocka_unit_test(test_numbers_keep_their_spelling),
        cmocka_unit_test(test_json_reader_is_strict),
        cmocka_unit_test(test_floats_print_as_in_python),
        cmocka_unit_test(test_large_dicts_are_indexed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
