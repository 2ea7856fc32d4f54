/* tests/unit/tool_fixture.h - replies with tools: those of the cases, what a client of a stream has, arguments as JSON.
 */
#ifndef TESTS_UNIT_TOOL_FIXTURE_H
#define TESTS_UNIT_TOOL_FIXTURE_H
#include "tests/unit/reply_fixture.h"

#include "engine/text/tools.h"

static arena *mem;
static json_t *fixture_tools;

FIXTURE int setup_tools(void **state) {
    mem = arena_new();
    fixture_tools = fixture_json("tests/cases/fixtures/tools.json");
    return setup(state);
}

FIXTURE int teardown_tools(void **state) {
    arena_free(mem);
    json_decref(fixture_tools);
    return teardown(state);
}

FIXTURE void set_tools(reply_options *opt, const json_t *tools) {
    if (json_is_string(tools)) tools = json_object_get(fixture_tools, "tools");
    err e;
    if (json_is_array(tools) && tools_read(mem, tools, &opt->tools, &opt->n_tools, NULL, &e) != OK)
        fail_msg("%s", e.text);
}

/* ---- what a client of a stream has ---- */

typedef struct stream {
    answer text;    /* whose calls count when they begin */
    size_t n_calls; /* begun */
} stream;

FIXTURE stream stream_of(const run *r) {
    stream s = { 0 };
    for (size_t i = 0; i < r->parts.n; i++) {
        const part *p = &r->parts.list[i];
        s.n_calls += p->kind == GEN_CALL;
        answer_put(&s.text, p->kind, parts_text(&r->parts, i), true); /* nothing is taken back */
    }
    return s;
}

FIXTURE void expect_object(str arguments, const char *name) {
    json_error_t why;
    json_t *v = json_loadb(arguments.p, arguments.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &why);
    if (!json_is_object(v)) fail_msg("%s: arguments %.*s: %s", name, STR_ARG(arguments), v ? "no object" : why.text);
    json_decref(v);
}

FIXTURE bool same_json(str a, str b) {
    json_t *x = json_loadb(a.p, a.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    json_t *y = json_loadb(b.p, b.n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    bool same = x && y && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}
#endif
