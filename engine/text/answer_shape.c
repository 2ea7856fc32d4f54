#include "engine/text/answer_shape.h"

#include "engine/text/call_form.h"
#include "engine/text/schema.h"
#include "engine/text/tool_grammar.h"

static void free_grammar(void *g) { grammar_free(g); }

static const grammar *keep(gen_request *rq, grammar *g) {
    arena_at_end(rq->mem, free_grammar, g);
    return g;
}

static status refuse(const char **at, const char *path, err *e) {
    if (at) *at = path;
    return err_wrap(e, "%s", path);
}

static tool_choice choice_of(const json_t *tool) {
    const json_t *function = json_object_get(tool, "function"), *name = json_object_get(function, "name");
    return (tool_choice){ .name = { json_string_value(name), json_string_length(name) },
                          .parameters = json_object_get(function, "parameters") };
}

/* The tools that may be called. Of several with the same name the first counts. */
static size_t list_tools(const answer_shape *s, tool_choice *list) {
    json_t *names = json_object();
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(s->tools); i++) {
        tool_choice t = choice_of(json_array_get(s->tools, i));
        if (s->must_name.p && !str_eq(t.name, s->must_name)) continue;
        if (json_object_getn(names, t.name.p, t.name.n)) continue;
        json_object_setn_new(names, t.name.p, t.name.n, json_true());
        list[n++] = t;
    }
    json_decref(names);
    return n;
}

static status make_calls(const answer_shape *s, const text_model *tm, arena *mem, grammar **out, const char **at,
                         err *e) {
    tool_choice *list = arena_alloc(mem, (json_array_size(s->tools) + 1) * sizeof *list);
    size_t n = list_tools(s, list);
    call_form form;
    if (!n && s->must_name.p) {
        err_set(e, ERR_REQUEST, "there is no tool \"%.*s\" in tools", STR_ARG(s->must_name));
        return refuse(at, "tool_choice", e);
    }
    if (!n) {
        err_set(e, ERR_REQUEST, "a tool must be called, and tools has none");
        return refuse(at, "tool_choice", e);
    }
    if (call_form_of(tm, &form, e) != OK) return refuse(at, "tool_choice", e);
    tool_calls calls = { .tools = list,
                         .n = n,
                         .open = form.open,
                         .close = form.close,
                         .lines = form.lines,
                         .several = s->several && !s->must_name.p };
    return grammar_of_tools(out, &calls, e) == OK ? OK : refuse(at, "tools", e);
}

status answer_shape_apply(const answer_shape *s, const text_model *tm, gen_request *rq, const char **at, err *e) {
    grammar *content = NULL, *calls = NULL;
    if (s->schema && grammar_of_schema(&content, s->schema, e) != OK) return refuse(at, s->schema_at, e);
    if (!s->schema && s->object) content = grammar_any_object();
    if (content) rq->grammar = keep(rq, content);
    if (!s->must_call && !(content && s->tools)) return OK;
    TRY(make_calls(s, tm, rq->mem, &calls, at, e));
    if (s->must_call)
        rq->grammar = keep(rq, calls);
    else
        rq->calls = keep(rq, calls);
    return OK;
}
