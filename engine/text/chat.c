/* Messages as clients send them, into what templates expect; then the template.
 *
 * Clients differ (content as a text or as parts, arguments as a text or as an object, two names for reasoning, old
 * names of roles), templates do not forgive: a content that is no string renders as nothing, arguments left as a text
 * make an empty call. So everything is brought to one form here, and what has no such form is refused with its path. */
#include "engine/text/chat.h"

#include "engine/base/utf8.h"
#include "engine/text/text_int.h"
#include "engine/text/tmpl.h"
#include "engine/text/value.h"

#include <stdarg.h>
#include <stdio.h>

enum { PATH_BYTES = 64 }; /* of chat_render's param */

typedef struct chat {
    arena *mem;
    const text_model *guard; /* whose added tokens users and tools may not use, NULL: they may */
    value source;            /* the request as a dict whose numbers are spelled, or undefined */
    char path[PATH_BYTES];   /* what is being read: "messages[2].content"; cut when longer */
    size_t path_len;
    char *param; /* may be NULL */
    err *e;
} chat;

/* Goes into a member or element; the returned mark goes to leave. A failure needs no leave: the path is then told. */
__attribute__((format(printf, 2, 3))) static size_t enter(chat *c, const char *fmt, ...) {
    size_t mark = c->path_len;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->path + mark, sizeof c->path - mark, fmt, ap);
    va_end(ap);
    c->path_len = strlen(c->path);
    return mark;
}

static void leave(chat *c, size_t mark) {
    c->path_len = mark;
    c->path[mark] = 0;
}

/* ERR_REQUEST "<path>: <message>"; the path also goes to param. */
__attribute__((format(printf, 2, 3))) static status refuse(const chat *c, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->param) memcpy(c->param, c->path, c->path_len + 1);
    return err_set(c->e, ERR_REQUEST, "%s: %s", c->path, text);
}

static const value *find(value object, const char *member) { return value_dict_find_str(object.dict, str_of(member)); }

/* Absent and null are the same to clients. */
static const value *find_given(value object, const char *member) {
    const value *v = find(object, member);
    return v && v->kind != VALUE_NONE ? v : NULL;
}

static const char *sent_type(value v) {
    switch ((value_kind)v.kind) {
    case VALUE_NONE: return "null";
    case VALUE_BOOL: return "a boolean";
    case VALUE_STR: return "a string";
    case VALUE_LIST: return "an array";
    case VALUE_DICT: return "an object";
    default: return "a number";
    }
}

/* As much of a text as a message may quote. */
static str excerpt(str s) { return (str){ s.p, utf8_complete((str){ s.p, s.n > 40 ? 40 : s.n }) }; }

/* ---- messages ---- */

static status read_role(chat *c, value message, str *out) {
    static const struct {
        const char *sent, *role;
    } roles[] = {
        { "system", "system" },       { "developer", "system" }, { "user", "user" },
        { "assistant", "assistant" }, { "tool", "tool" },        { "function", "tool" },
    };
    size_t mark = enter(c, ".role");
    const value *v = find(message, "role");
    if (!v) return refuse(c, "missing");
    if (v->kind != VALUE_STR) return refuse(c, "expected a string, found %s", sent_type(*v));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (!str_eq(v->s, str_of(roles[i].sent))) continue;
        *out = str_of(roles[i].role);
        leave(c, mark);
        return OK;
    }
    return refuse(c, "unknown role \"%.*s\", expected system, developer, user, assistant or tool",
                  STR_ARG(excerpt(v->s)));
}

/* One part of a content: a text, or a refusal, which the model wrote as text. */
static status read_part(chat *c, value part, buf *out) {
    static const char *const texts[] = { "text", "input_text", "output_text", "refusal" };
    if (part.kind != VALUE_DICT) return refuse(c, "expected an object with a type, found %s", sent_type(part));
    const value *type = find(part, "type");
    if (!type || type->kind != VALUE_STR) return refuse(c, "expected an object with a type");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!str_eq(type->s, str_of(texts[i]))) continue;
        const char *member = i < 3 ? "text" : "refusal";
        const value *text = find(part, member);
        if (!text || text->kind != VALUE_STR) return refuse(c, "expected a string in its member \"%s\"", member);
        buf_str(out, text->s);
        return OK;
    }
    return refuse(c, "type \"%.*s\" is not supported, only text is", STR_ARG(excerpt(type->s)));
}

static status join_parts(chat *c, const value_list *parts, buf *out) {
    for (size_t i = 0; i < parts->n; i++) {
        size_t mark = enter(c, "[%zu]", i);
        TRY(read_part(c, parts->items[i], out));
        leave(c, mark);
    }
    return OK;
}

static status read_content(chat *c, value message, value *out) {
    const value *v = find_given(message, "content");
    *out = v && v->kind == VALUE_STR ? *v : value_str(STR(""));
    if (!v || v->kind == VALUE_STR) return OK;
    size_t mark = enter(c, ".content");
    if (v->kind != VALUE_LIST)
        return refuse(c, "expected a string, null or an array of parts, found %s", sent_type(*v));
    buf text = { 0 };
    status s = join_parts(c, v->list, &text);
    if (s == OK) *out = value_str(arena_str(c->mem, buf_view(&text)));
    buf_free(&text);
    TRY(s);
    leave(c, mark);
    return OK;
}

static bool is_blank(str s) {
    for (size_t i = 0; i < s.n; i++)
        if (!s.p[i] || !strchr(" \t\r\n", s.p[i])) return false;
    return true;
}

/* The arguments of a call as an object: sent as one, or as its JSON text, whose numbers keep the model's spelling.
 * Absent, null and blank: no arguments. */
static status read_arguments(chat *c, value function, value *out) {
    const value *v = find_given(function, "arguments");
    *out = value_of_dict(value_dict_new(c->mem, 0));
    if (!v || (v->kind == VALUE_STR && is_blank(v->s))) return OK;
    err why;
    size_t mark = enter(c, ".arguments");
    *out = *v;
    if (v->kind == VALUE_STR && value_from_text(c->mem, out, v->s, &why) != OK) return refuse(c, "%s", why.text);
    if (out->kind != VALUE_DICT) return refuse(c, "expected an object or its JSON text, found %s", sent_type(*out));
    leave(c, mark);
    return OK;
}

static value copy_dict(chat *c, value from) {
    value_dict *d = value_dict_new(c->mem, from.dict->n + 4);
    for (size_t i = 0; i < from.dict->n; i++)
        value_dict_set(c->mem, d, from.dict->entries[i].key, from.dict->entries[i].val);
    return value_of_dict(d);
}

static status read_function(chat *c, value sent, value *out) {
    value arguments;
    const value *name = find(sent, "name");
    if (!name || name->kind != VALUE_STR || !name->s.n) return refuse(c, "the call has no function name");
    TRY(read_arguments(c, sent, &arguments));
    *out = copy_dict(c, sent);
    value_dict_put(c->mem, out->dict, "arguments", arguments);
    return OK;
}

/* {"type", "id", "function": {"name", "arguments"}}, or the inner object alone. */
static status read_call(chat *c, value call, value *out) {
    value function;
    if (call.kind != VALUE_DICT) return refuse(c, "expected an object, found %s", sent_type(call));
    const value *wrapped = find_given(call, "function");
    if (!wrapped) return read_function(c, call, out);
    size_t mark = enter(c, ".function");
    if (wrapped->kind != VALUE_DICT) return refuse(c, "expected an object, found %s", sent_type(*wrapped));
    TRY(read_function(c, *wrapped, &function));
    leave(c, mark);
    *out = copy_dict(c, call);
    value_dict_put(c->mem, out->dict, "function", function);
    return OK;
}

static status read_calls(chat *c, value message, value_dict *out) {
    const value *v = find(message, "tool_calls");
    value_list *calls = value_list_new(c->mem, 0);
    if (!v) return OK;
    size_t mark = enter(c, ".tool_calls");
    if (v->kind != VALUE_LIST && v->kind != VALUE_NONE) return refuse(c, "expected an array, found %s", sent_type(*v));
    for (size_t i = 0; v->kind == VALUE_LIST && i < v->list->n; i++) {
        value call;
        size_t at = enter(c, "[%zu]", i);
        TRY(read_call(c, v->list->items[i], &call));
        leave(c, at);
        value_list_push(c->mem, calls, call);
    }
    value_dict_put(c->mem, out, "tool_calls", value_of_list(calls));
    leave(c, mark);
    return OK;
}

/* Under both names, so that templates of either convention find it. The first name wins, as in the templates. */
static status read_reasoning(chat *c, value message, value_dict *out) {
    static const char *const names[] = { "reasoning", "reasoning_content" };
    const value *reasoning = NULL;
    for (int i = 0; i < 2; i++) {
        const value *v = find_given(message, names[i]);
        size_t mark = enter(c, ".%s", names[i]);
        if (v && v->kind != VALUE_STR) return refuse(c, "expected a string or null, found %s", sent_type(*v));
        leave(c, mark);
        if (!reasoning) reasoning = v;
    }
    for (int i = 0; i < 2 && reasoning; i++) value_dict_put(c->mem, out, names[i], *reasoning);
    return OK;
}

static value guard_content(chat *c, value content) {
    buf text = { 0 };
    text_put_guarded(c->guard, content.s, &text);
    value guarded = value_str(arena_str(c->mem, buf_view(&text)));
    buf_free(&text);
    return guarded;
}

/* Members that nobody here knows stay: templates may. */
static status read_message(chat *c, value message, value *out) {
    str role = { 0 };
    value content;
    if (message.kind != VALUE_DICT) return refuse(c, "expected an object, found %s", sent_type(message));
    TRY(read_role(c, message, &role));
    TRY(read_content(c, message, &content));
    bool is_foreign = str_eq(role, STR("user")) || str_eq(role, STR("tool"));
    if (c->guard && is_foreign) content = guard_content(c, content);
    *out = copy_dict(c, message);
    value_dict_put(c->mem, out->dict, "role", value_str(role));
    value_dict_put(c->mem, out->dict, "content", content);
    if (!str_eq(role, STR("assistant"))) return OK;
    TRY(read_reasoning(c, message, out->dict));
    return read_calls(c, message, out->dict);
}

/* A member of the request as a value, with the numbers as they were spelled. */
static status read_member(chat *c, const char *name, const json_t *sent, value *out) {
    err why;
    if (!json_is_array(sent)) return refuse(c, "expected an array");
    if (value_from_json(c->mem, out, sent, &why) != OK) return refuse(c, "%s", why.text);
    const value *source = c->source.kind == VALUE_DICT ? find(c->source, name) : NULL;
    if (source) value_respell(out, *source);
    return OK;
}

static status read_messages(chat *c, const json_t *sent, value *out) {
    size_t mark = enter(c, "messages");
    value all;
    TRY(read_member(c, "messages", sent, &all));
    value_list *messages = value_list_new(c->mem, all.list->n);
    for (size_t i = 0; i < all.list->n; i++) {
        value message;
        size_t at = enter(c, "[%zu]", i);
        TRY(read_message(c, all.list->items[i], &message));
        leave(c, at);
        value_list_push(c->mem, messages, message);
    }
    *out = value_of_list(messages);
    leave(c, mark);
    return OK;
}

/* none when there are no tools: templates ask `if tools`. */
static status read_tools(chat *c, const json_t *sent, value *out) {
    size_t mark = enter(c, "tools");
    *out = value_none();
    if (sent && !json_is_null(sent)) TRY(read_member(c, "tools", sent, out));
    if (out->kind == VALUE_LIST && !out->list->n) *out = value_none();
    leave(c, mark);
    return OK;
}

/* ---- variables ---- */

static bool is_one_of(const char *name, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0) return true;
    return false;
}

typedef struct vars {
    tmpl_var *list;
    size_t n;
} vars;

static void add_var(vars *v, const char *name, value val) { v->list[v->n++] = (tmpl_var){ name, val }; }

static status add_kwarg(chat *c, vars *v, const char *name, const json_t *val, const value *source) {
    /* Templates test switches for truth: there the text "false" would be true. */
    static const char *const switches[] = { "enable_thinking", "preserve_thinking", "render_assistant_messages_raw" };
    static const char *const reserved[] = { "messages", "tools", "add_generation_prompt" };
    size_t mark = enter(c, ".%s", name);
    value converted;
    err why;
    if (is_one_of(name, reserved, 3)) return refuse(c, "the name belongs to the request itself");
    if (value_from_json(c->mem, &converted, val, &why) != OK) return refuse(c, "%s", why.text);
    if (source && source->kind == VALUE_DICT && find(*source, name)) value_respell(&converted, *find(*source, name));
    bool is_switch = is_one_of(name, switches, 3), is_given = !is_switch || converted.kind != VALUE_NONE;
    if (is_switch && is_given && converted.kind != VALUE_BOOL)
        return refuse(c, "expected true or false, found %s", sent_type(converted));
    if (is_given) add_var(v, name, converted); /* a switch that is null: the default counts */
    leave(c, mark);
    return OK;
}

static status add_kwargs(chat *c, vars *v, const char *member, const json_t *object) {
    size_t mark = enter(c, "%s", member);
    if (object && !json_is_object(object) && !json_is_null(object)) return refuse(c, "expected an object");
    json_t *tree = (json_t *)(uintptr_t)object; /* the iterator's type is not const; it changes nothing */
    const value *source = c->source.kind == VALUE_DICT ? find(c->source, member) : NULL;
    for (void *it = json_object_iter(tree); it; it = json_object_iter_next(tree, it))
        TRY(add_kwarg(c, v, json_object_iter_key(it), json_object_iter_value(it), source));
    leave(c, mark);
    return OK;
}

/* The model's own defaults: what is wrong there is no fault of the request. */
static status add_default_kwargs(chat *c, vars *v, const json_t *object) {
    chat own = *c;
    err why;
    own.param = NULL;
    own.source = value_undefined();
    own.e = &why;
    if (add_kwargs(&own, v, "default_chat_template_kwargs", object) == OK) return OK;
    return err_set(c->e, ERR_MODEL, "generation_config.json: %s", why.text);
}

static void add_token_strings(vars *v, const text_model *tm) {
    const struct {
        const char *name;
        str text;
    } tokens[] = {
        { "bos_token", tm->bos }, { "eos_token", tm->eos }, { "pad_token", tm->pad }, { "unk_token", tm->unk }
    };
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (tokens[i].text.p) add_var(v, tokens[i].name, value_str(tokens[i].text));
}

/* Of two variables with one name the later one counts, so the order is that of precedence. */
static status collect_vars(chat *c, const text_model *tm, const chat_request *rq, vars *v) {
    value messages, tools;
    size_t max = 8 + json_object_size(tm->default_kwargs) + json_object_size(rq->kwargs);
    v->list = arena_alloc(c->mem, max * sizeof *v->list);
    TRY(read_messages(c, rq->messages, &messages));
    TRY(read_tools(c, rq->tools, &tools));
    add_token_strings(v, tm);
    add_var(v, "documents", value_none());
    TRY(add_default_kwargs(c, v, tm->default_kwargs));
    TRY(add_kwargs(c, v, "chat_template_kwargs", rq->kwargs));
    add_var(v, "messages", messages);
    add_var(v, "tools", tools);
    add_var(v, "add_generation_prompt", value_bool(rq->add_generation_prompt));
    return OK;
}

/* ---- face ---- */

status chat_render(const text_model *tm, const chat_request *rq, buf *out, char param[64], err *e) {
    if (param) param[0] = 0;
    if (!tm->tmpl) return err_set(e, ERR_TEMPLATE, "the model has no chat template");
    chat c = { .mem = arena_new(), .guard = rq->guard ? tm : NULL, .param = param, .e = e };
    if (rq->source.p)
        value_from_text(c.mem, &c.source, rq->source, NULL); /* unreadable: there is no spelling to keep */
    vars v = { 0 };
    status s = collect_vars(&c, tm, rq, &v);
    if (s == OK) s = tmpl_render(tm->tmpl, c.mem, v.list, v.n, NULL, out, e);
    arena_free(c.mem);
    return s;
}

status chat_encode(const text_model *tm, str prompt, bool guard, struct segments *known, token_list *out, err *e) {
    size_t n = out->n;
    int32_t start = text_start_token(tm);
    if (start >= 0) token_list_push(out, start);
    size_t head = out->n;
    status s = text_encode_known(tm, prompt, guard, known, out, e);
    if (s != OK) out->n = n;
    if (s != OK || head == n || out->n == head || out->ids[head] != start) return s;
    memmove(out->ids + n, out->ids + head, (out->n - head) * sizeof *out->ids);
    out->n--;
    return OK;
}

/* White space behind the last tag does not change the state that the tag left. */
reply_start chat_start(const text_model *tm, const int32_t *ids, size_t n) {
    int32_t open = text_find_token(tm, STR("<think>"));
    while (n && text_token_bytes(tm, ids[n - 1]).n && is_blank(text_token_bytes(tm, ids[n - 1]))) n--;
    return n && open >= 0 && ids[n - 1] == open ? REPLY_REASONING : REPLY_CONTENT;
}
