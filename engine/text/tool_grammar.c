#include "engine/text/tool_grammar.h"

#include "engine/base/utf8.h"
#include "engine/text/schema_int.h"

#include <stdlib.h>

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Would a reader of the format take the name back out as it is? */
static bool can_spell(str name) {
    if (!name.n || !utf8_valid(name) || is_space(name.p[0]) || is_space(name.p[name.n - 1])) return false;
    return !memchr(name.p, '<', name.n) && !memchr(name.p, '\n', name.n) && !memchr(name.p, '\r', name.n);
}

/* An argument that is written as text: only what its own schema says in so many words counts. */
static bool is_text(const json_t *parameters, str name) {
    const json_t *prop = json_object_getn(json_object_get(parameters, "properties"), name.p, name.n),
                 *type = json_object_get(prop, "type");
    return json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
}

static status build_text_words(schema_job *j, const spec *s, const pattern *p, int32_t id) {
    size_t n = json_array_size(s->values), kept = 0;
    str *words = arena_alloc(j->mem, (n + 1) * sizeof *words);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(s->values, i);
        str word = { json_string_value(v), json_string_length(v) };
        if (json_is_string(v) && spec_allows_scalar(s, v, p) && schema_word_fits(j, word)) words[kept++] = word;
    }
    if (!kept) schema_contradicts(j, s->at, "none of the values can be written as an argument");
    word_list list = grammar_words(j->g, words, NULL, kept);
    j->g->nodes[id] = (node){ .kind = NODE_WORDS, .words = { .list = list } };
    return schema_spend(j, n);
}

static status build_text(schema_job *j, const spec *s, int32_t id) {
    pattern *p = NULL;
    if (!(s->types & TYPE_STRING) && !s->values) return OK; /* contradicts: stays empty */
    if (s->pattern.p && s->values) TRY(schema_pattern(j, s, BODY_JSON, 0, GRAMMAR_COUNT_MAX, &p));
    if (s->pattern.p && !s->values) TRY(schema_pattern(j, s, BODY_RAW, s->min_length, s->max_length, &p));
    if (s->values) return build_text_words(j, s, p, id);
    node *n = &j->g->nodes[id];
    if (p)
        *n = (node){ .kind = NODE_PATTERN, .body = BODY_RAW, .pattern = p };
    else
        *n = (node){ .kind = NODE_STRING, .body = BODY_RAW, .string = { s->min_length, s->max_length } };
    return OK;
}

static status text_node(schema_job *j, need *value, int32_t *id) {
    TRY(schema_add(j, id));
    TRY(need_flatten(j, value));
    if (value->never) return OK;
    const char *keyword;
    uint32_t done;
    const need_item *group = need_find_group(value, &keyword, &done);
    if (group)
        return schema_refuse(j, ERR_UNSUPPORTED, group->at, keyword,
                             "alternatives of an argument that is a string are not supported");
    spec s;
    status st = spec_of(j, value, &s);
    if (st == OK) st = build_text(j, &s, *id);
    spec_free(&s);
    return st;
}

static status add_text(schema_job *j, str text, int32_t *id) {
    TRY(schema_add(j, id));
    j->g->nodes[*id] = (node){ .kind = NODE_TEXT, .text = arena_str(j->g->mem, text) };
    return OK;
}

static status add_seq(schema_job *j, const int32_t *nodes, size_t n, int32_t *id) {
    int32_t *kept = grammar_ids(j->g, n);
    for (size_t i = 0; i < n; i++) kept[i] = nodes[i];
    TRY(schema_add(j, id));
    j->g->nodes[*id] = (node){ .kind = NODE_SEQ, .list = { kept, (int32_t)n } };
    return OK;
}

/* What the arguments of one tool are built into. */
typedef struct args_work {
    const tool_calls *calls;
    const tool_choice *tool;
    int32_t tag_end; /* node of the tag behind a value */
    json_t *required;
    str *words;
    int32_t *numbers;
    node_object o;
    buf word;
} args_work;

static status add_arg(schema_job *j, const need *flat, str name, args_work *w) {
    int32_t i = w->o.n++, value;
    need what = { 0 };
    if (!can_spell(name))
        return schema_refuse(j, ERR_UNSUPPORTED, flat->items[0].at, "properties",
                             "the format of tool calls cannot spell the name of a property");
    TRY(need_of_prop(j, flat, name, &what));
    if (is_text(w->tool->parameters, name))
        TRY(text_node(j, &what, &value));
    else
        TRY(schema_node(j, &what, &value));
    buf_clear(&w->word);
    buf_printf(&w->word, "<arg_key>%.*s</arg_key>%s<arg_value>", STR_ARG(name), w->calls->lines ? "\n" : "");
    w->words[i] = arena_str(j->mem, buf_view(&w->word));
    w->numbers[i] = i;
    w->o.needed[i] = json_object_getn(w->required, name.p, name.n) ? i : -1;
    return add_seq(j, (int32_t[]){ value, w->tag_end }, 2, &w->o.values[i]);
}

static status add_args(schema_job *j, const need *flat, json_t *props, args_work *w, int32_t id) {
    size_t n = json_object_size(props);
    w->o.values = grammar_ids(j->g, n);
    w->o.needed = grammar_ids(j->g, n + 1);
    w->words = arena_alloc(j->mem, (n + 1) * sizeof *w->words);
    w->numbers = arena_alloc(j->mem, (n + 1) * sizeof *w->numbers);
    for (void *it = json_object_iter(props); it; it = json_object_iter_next(props, it))
        TRY(add_arg(j, flat, (str){ json_object_iter_key(it), json_object_iter_key_len(it) }, w));
    w->o.needed[n] = (int32_t)n;
    for (size_t i = n; i-- > 0;)
        if (w->o.needed[i] < 0) w->o.needed[i] = w->o.needed[i + 1];
    w->o.keys = grammar_words(j->g, w->words, w->numbers, n);
    j->g->nodes[id] = (node){ .kind = NODE_ARGS, .body = BODY_KEY_GUARDED, .object = w->o };
    return OK;
}

static status build_args(schema_job *j, const need *flat, args_work *w, int32_t id) {
    json_t *props;
    TRY(props_of(j, flat, &props));
    w->required = required_of(flat);
    status s = add_args(j, flat, props, w, id);
    json_decref(w->required);
    json_decref(props);
    buf_free(&w->word);
    return s;
}

/* The schema of the arguments must be one object, without alternatives: their names decide how values are written. */
static status check_parameters(schema_job *j, const need *flat) {
    const char *keyword;
    uint32_t done;
    const need_item *group = need_find_group(flat, &keyword, &done);
    if (group)
        return schema_refuse(j, ERR_UNSUPPORTED, group->at, keyword,
                             "alternatives among all arguments of a tool are not supported");
    spec s;
    status st = spec_of(j, flat, &s);
    if (st == OK && (s.values || !(s.types & TYPE_OBJECT)))
        st = schema_refuse(j, s.values ? ERR_UNSUPPORTED : ERR_REQUEST, s.at, s.values ? "enum" : "type",
                           "the parameters of a tool must be an object described by its properties");
    if (st == OK && (s.min_props > 0 || s.max_props < GRAMMAR_COUNT_MAX))
        st = schema_refuse(j, ERR_UNSUPPORTED, s.at, s.min_props > 0 ? "minProperties" : "maxProperties",
                           "this is not supported for the parameters of a tool");
    spec_free(&s);
    return st;
}

static status tool_args(schema_job *j, const tool_calls *calls, const tool_choice *tool, int32_t tag_end, int32_t id) {
    args_work w = { .calls = calls, .tool = tool, .tag_end = tag_end };
    need flat = { 0 };
    if (tool->parameters && !json_is_null(tool->parameters))
        TRY(need_put_at(j, &flat, tool->parameters, place_root(j, tool->parameters), 0));
    TRY(need_flatten(j, &flat));
    if (flat.never) return OK;
    TRY(check_parameters(j, &flat));
    TRY(build_args(j, &flat, &w, id));
    return schema_job_run(j);
}

static status tool_node(grammar *g, const tool_calls *calls, const tool_choice *tool, buf *why, int32_t *id, err *e) {
    schema_job j;
    schema_job_init(&j, g, tool->parameters, BODY_JSON_GUARDED, e);
    int32_t tag_end;
    status s = schema_add(&j, id);
    if (s == OK) s = add_text(&j, calls->lines ? STR(BODY_TAG_ARG "\n") : STR(BODY_TAG_ARG), &tag_end);
    if (s == OK) s = tool_args(&j, calls, tool, tag_end, *id);
    if (s != OK) err_wrap(e, "tool \"%.*s\"", STR_ARG(tool->name));
    if (j.why.len && !why->len) buf_printf(why, "tool \"%.*s\": %s", STR_ARG(tool->name), buf_cstr(&j.why));
    schema_job_deinit(&j);
    return s;
}

/* Names, each followed by the arguments of its tool. */
static status names_node(grammar *g, const tool_calls *calls, schema_job *j, int32_t *id) {
    str *words = arena_alloc(j->mem, (calls->n + 1) * sizeof *words);
    int32_t *numbers = arena_alloc(j->mem, (calls->n + 1) * sizeof *numbers), *next = grammar_ids(g, calls->n);
    buf word = { 0 };
    status s = schema_add(j, id);
    for (size_t i = 0; i < calls->n && s == OK; i++) {
        const tool_choice *tool = &calls->tools[i];
        buf_clear(&word);
        buf_printf(&word, "%.*s%s", STR_ARG(tool->name), calls->lines ? "\n" : "");
        words[i] = arena_str(j->mem, buf_view(&word));
        numbers[i] = (int32_t)i;
        s = can_spell(tool->name)
                ? tool_node(g, calls, tool, &j->why, &next[i], j->e)
                : err_set(j->e, ERR_UNSUPPORTED, "the format of tool calls cannot spell the name of tool %zu", i);
    }
    buf_free(&word);
    TRY(s);
    word_list list = grammar_words(g, words, numbers, calls->n);
    g->nodes[*id] = (node){ .kind = NODE_WORDS, .words = { list, next } };
    return OK;
}

static status add_token(schema_job *j, int32_t token, int32_t *id) {
    TRY(schema_add(j, id));
    j->g->nodes[*id] = (node){ .kind = NODE_TOKEN, .token = token };
    return OK;
}

static status calls_node(grammar *g, const tool_calls *calls, schema_job *j, int32_t *id) {
    int32_t call[3], again[2];
    TRY(add_token(j, calls->open, &call[0]));
    TRY(names_node(g, calls, j, &call[1]));
    TRY(add_token(j, calls->close, &call[2]));
    TRY(add_seq(j, call, 3, id));
    if (!calls->several) return OK;
    again[0] = again[1] = *id;
    if (calls->lines) {
        int32_t parts[2] = { 0, *id };
        TRY(add_text(j, STR("\n"), &parts[0]));
        TRY(add_seq(j, parts, 2, &again[1]));
    }
    TRY(add_seq(j, again, 2, id));
    g->nodes[*id].kind = NODE_LOOP;
    return OK;
}

status grammar_of_tools(grammar **out, const tool_calls *calls, err *e) {
    if (!calls->n) return err_set(e, ERR_REQUEST, "a tool must be called, and there is none");
    grammar *g = grammar_new();
    schema_job j;
    schema_job_init(&j, g, NULL, BODY_JSON_GUARDED, e);
    int32_t root;
    status s = calls_node(g, calls, &j, &root);
    if (s == OK) s = schema_job_finish(&j, root);
    schema_job_deinit(&j);
    if (s == OK)
        *out = g;
    else
        grammar_free(g);
    return s;
}
