#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/cli/verify_text.h"
#include "engine/text/tmpl.h"

#include <stdlib.h>

enum { TEMPLATE_BYTES_MAX = 1 << 24 };

typedef struct outcome {
    status code;
    bool parsed; /* when it failed: not before the render */
    buf text;
    err e;
} outcome;

static status read_vars(arena *mem, const json_t *vars, tmpl_var *list, err *e) {
    const char *name;
    json_t *val;
    json_object_foreach((json_t *)(uintptr_t)vars, name, val) {
        list->name = name;
        TRY(value_from_json(mem, &list++->val, val, e));
    }
    return OK;
}

static outcome render(str source, const char *name, const json_t *vars) {
    outcome o = { 0 };
    size_t n = json_object_size(vars);
    tmpl_var *list = xalloc((n + 1) * sizeof *list);
    arena *mem = arena_new();
    tmpl *t = NULL;
    o.code = tmpl_parse(&t, source, name, &o.e);
    o.parsed = o.code == OK;
    if (o.parsed) o.code = read_vars(mem, vars, list, &o.e);
    if (o.code == OK) o.code = tmpl_render(t, mem, list, n, NULL, &o.text, &o.e);
    tmpl_free(t);
    arena_free(mem);
    free(list);
    return o;
}

/* Of a failure the kind counts: a runtime error may come at parse already, a syntax error must. Its message counts
 * where the template itself wrote it. */
static void check_failure(case_file *f, const outcome *o, const json_t *want, str source) {
    str kind = case_text_or_empty(want, "kind"), message = case_text_or_empty(want, "message");
    if (o->code == OK)
        case_differs(f, "expected a %.*s error (%.*s), got a text of %zu bytes", STR_ARG(kind), STR_ARG(message),
                     o->text.len);
    else if (o->code != ERR_TEMPLATE)
        case_differs(f, "expected a %.*s error, got another one: %s", STR_ARG(kind), o->e.text);
    else if (o->text.len)
        case_differs(f, "a failed render left %zu bytes", o->text.len);
    else if (str_eq(kind, STR("syntax")) && o->parsed)
        case_differs(f, "expected a syntax error (%.*s), got one while rendering: %s", STR_ARG(message), o->e.text);
    else if (memmem(source.p, source.n, "raise_exception", 15) &&
             !memmem(o->e.text, strlen(o->e.text), message.p, message.n))
        case_differs(f, "expected the message \"%.*s\", got \"%s\"", STR_ARG(message), o->e.text);
}

static status check(case_file *f, str source, const char *name, const json_t *vars, const json_t *row, err *e) {
    const json_t *failure = json_object_get(row, "expected_error");
    str expected = STR("");
    if (!failure) TRY(case_text(row, "expected", &expected, e));
    if (failure && !json_is_object(failure))
        return err_set(e, ERR_REQUEST, "member \"expected_error\": expected an object");
    outcome o = render(source, name, vars);
    if (failure)
        check_failure(f, &o, failure, source);
    else if (o.code != OK)
        case_differs(f, "expected a text, got an error: %s", o.e.text);
    else
        case_same_text(f, "text", expected, buf_view(&o.text));
    buf_free(&o.text);
    return OK;
}

static status check_jinja(void *ctx, case_file *f, const json_t *row, err *e) {
    (void)ctx;
    str source;
    TRY(case_text(row, "template", &source, e));
    return check(f, source, "template", json_object_get(row, "vars"), row, e);
}

static json_t *chat_vars(const json_t *row) {
    static const char *const members[] = { "messages", "tools", "add_generation_prompt" };
    json_t *vars = json_object();
    json_object_update(vars, json_object_get(row, "kwargs"));
    for (size_t i = 0; i < 3; i++) json_object_set(vars, members[i], json_object_get(row, members[i]));
    json_object_set_new(vars, "documents", json_null());
    return vars;
}

static status check_template(void *ctx, case_file *f, const json_t *row, err *e) {
    const case_place *at = ctx;
    str name;
    const json_t *messages;
    TRY(case_text(row, "template", &name, e));
    TRY(case_list(row, "messages", &messages, e));
    buf path = { 0 }, source = { 0 };
    buf_printf(&path, "%s/%.*s.jinja", at->dir, STR_ARG(name));
    status s = file_read(&source, buf_cstr(&path), TEMPLATE_BYTES_MAX, e);
    if (s == OK) {
        json_t *vars = chat_vars(row);
        s = check(f, buf_view(&source), buf_cstr(&path), vars, row, e);
        json_decref(vars);
    }
    buf_free(&path);
    buf_free(&source);
    return s;
}

status verify_jinja_cases(case_file *f, const case_place *at, err *e) {
    return case_file_run(f, at->path, 0, check_jinja, NULL, e);
}

status verify_template_cases(case_file *f, const case_place *at, err *e) {
    return case_file_run(f, at->path, 0, check_template, (void *)(uintptr_t)at, e);
}
