#include "engine/server/api_params.h"

#include "engine/server/api_json.h"
#include "engine/server/api_pick.h"
#include "engine/server/api_shape.h"
#include "engine/server/net/wire.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

enum { DEPTH_MAX = 128, IGNORED_MAX = 1000, SPEC_MAX = 15 };

/* ------------------------------------------------------------------------- bodies */

/* Deepest nesting outside of strings. jansson recurses once per level, so this comes first. */
static bool too_deep(str s) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > DEPTH_MAX) return true;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return false;
}

static const char *json_fault(const json_error_t *je) {
    switch (json_error_code(je)) {
    case json_error_invalid_utf8: return "not UTF-8";
    case json_error_premature_end_of_input: return "it ends too early";
    case json_error_end_of_input_expected: return "something follows the first value";
    case json_error_null_byte_in_key: return "a member name with a NUL";
    case json_error_numeric_overflow: return "a number out of range";
    default: return "syntax error";
    }
}

status api_params_parse(json_t **out, str text, err *e) {
    if (!text.n) return err_set(e, ERR_REQUEST, "the request body is empty; a JSON object is expected");
    if (too_deep(text)) return err_set(e, ERR_REQUEST, "the request body is nested deeper than %d levels", DEPTH_MAX);
    json_error_t je;
    json_t *v = api_json_load(text, &je);
    if (!v)
        return err_set(e, ERR_REQUEST, "the request body is not valid JSON: %s (line %d, column %d)", json_fault(&je),
                       je.line, je.column);
    if (!json_is_object(v)) {
        json_decref(v);
        return err_set(e, ERR_REQUEST, "the request body must be a JSON object");
    }
    *out = v;
    return OK;
}

/* ---------------------------------------------------------------- the known members */

typedef enum member_rule {
    M_READ,    /* honoured, or judged by a function below */
    M_IGNORED, /* means nothing here; listed like unknown ones */
    M_OFF,     /* refused unless false, 0, "" or empty */
    M_ONE,     /* refused unless 1 */
} member_rule;

static const struct member {
    const char *name;
    member_rule rule;
} MEMBERS[] = {
    { "messages", M_READ },
    { "model", M_READ },
    { "stream", M_READ },
    { "stream_options", M_READ },
    { "max_tokens", M_READ },
    { "max_completion_tokens", M_READ },
    { "stop", M_READ },
    { "seed", M_READ },
    { "temperature", M_READ },
    { "top_p", M_READ },
    { "top_k", M_READ },
    { "min_p", M_READ },
    { "repetition_penalty", M_READ },
    { "repeat_penalty", M_READ },
    { "presence_penalty", M_READ },
    { "frequency_penalty", M_READ },
    { "logit_bias", M_READ },
    { "min_tokens", M_READ },
    { "logprobs", M_READ },
    { "top_logprobs", M_READ },
    { "tools", M_READ },
    { "tool_choice", M_READ },
    { "parallel_tool_calls", M_READ },
    { "response_format", M_READ },
    { "json_schema", M_READ },
    { "guided_json", M_READ },
    { "structured_outputs", M_READ },
    { "modalities", M_READ },
    { "function_call", M_READ },
    { "reasoning_effort", M_READ },
    { "reasoning", M_READ },
    { "chat_template_kwargs", M_READ },
    { "reasoning_format", M_READ },
    { "ignore_eos", M_READ },
    { "timings_per_token", M_READ },
    { "return_progress", M_READ },
    { "return_token_ids", M_READ },
    { "sse_ping_interval", M_READ },
    { "stream_granularity", M_READ },
    { "speculation", M_READ },

    { "n", M_ONE },
    { "best_of", M_ONE },
    { "typical_p", M_ONE },
    { "thinking_budget", M_READ },
    { "thinking_token_budget", M_READ },
    { "reasoning_budget", M_READ },
    { "suffix", M_OFF },
    { "echo", M_OFF },
    { "use_beam_search", M_OFF },
    { "audio", M_OFF },
    { "functions", M_OFF },
    { "metrics", M_OFF },
    { "grammar", M_OFF },
    { "guided_regex", M_OFF },
    { "guided_grammar", M_OFF },
    { "guided_choice", M_OFF },
    { "mirostat", M_OFF },
    { "dry_multiplier", M_OFF },
    { "xtc_probability", M_OFF },

    { "cache_prompt", M_READ },
    { "prediction", M_READ },
    { "user", M_IGNORED },
    { "metadata", M_IGNORED },
    { "store", M_IGNORED },
    { "service_tier", M_IGNORED },
    { "safety_identifier", M_IGNORED },
    { "verbosity", M_IGNORED },
    { "prompt_cache_key", M_IGNORED },
    { "id_slot", M_IGNORED },
    { "keep_alive", M_IGNORED },
    { "priority", M_IGNORED },
    { "cache_salt", M_IGNORED },
    { "request_id", M_IGNORED },
};

static const struct member *find_member(const char *name) {
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++)
        if (strcmp(MEMBERS[i].name, name) == 0) return &MEMBERS[i];
    return NULL;
}

static bool is_off(const json_t *v) {
    if (json_is_string(v)) return json_string_length(v) == 0;
    if (json_is_object(v)) return json_object_size(v) == 0;
    if (json_is_array(v)) return json_array_size(v) == 0;
    return json_is_number(v) ? json_number_value(v) == 0 : json_is_false(v);
}

static status judge(api_reader *r, const struct member *m, const json_t *v) {
    bool number = json_is_number(v);
    switch (m->rule) {
    case M_OFF: return is_off(v) ? OK : api_read_unsupported(r, m->name, "leave it out");
    case M_ONE:
        return number && json_number_value(v) == 1 ? OK : api_read_unsupported(r, m->name, "leave it out or send 1");
    default: return OK;
    }
}

static void list_ignored(buf *ignored, str name) {
    if (ignored->len + name.n > IGNORED_MAX || name.n > PARAM_NAME_MAX) return;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= ' ' || name.p[i] > '~' || name.p[i] == ',') return;
    if (ignored->len) buf_str(ignored, STR(", "));
    buf_str(ignored, name);
}

static status judge_members(api_reader *r, bool strict, buf *ignored) {
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)r->o, name, v) {
        const struct member *m = find_member(name);
        if (json_is_null(v)) continue;
        if (!m && strict) {
            snprintf(r->param, PARAM_NAME_MAX, "%s", name);
            return err_set(r->e, ERR_REQUEST, "unknown request field, and this server refuses those (--strict-params)");
        }
        if (!m || m->rule == M_IGNORED)
            list_ignored(ignored, str_of(name));
        else
            TRY(judge(r, m, v));
    }
    return OK;
}

/* -------------------------------------------------------------- members of their own kind */

static status read_stop(api_reader *r, api_params *p) {
    const json_t *v = api_read_find(r, "stop");
    if (!v) return OK;
    bool one = json_is_string(v);
    if (!one && !json_is_array(v)) return api_read_wrong_type(r, "stop", "a string or an array of strings", v);
    size_t n = one ? 1 : json_array_size(v);
    if (n > PARAM_STOPS_MAX) {
        api_read_name(r, "stop");
        return err_set(r->e, ERR_REQUEST, "stop takes at most %d strings, not %zu", PARAM_STOPS_MAX, n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *s = one ? v : json_array_get(v, i);
        if (!json_is_string(s)) return api_read_wrong_type(r, "stop", "a string or an array of strings", s);
        str text = { json_string_value(s), json_string_length(s) };
        if (!text.n) { /* it would match everywhere; some clients send "" for none */
            if (one) continue;
            api_read_name(r, "stop");
            return err_set(r->e, ERR_REQUEST, "stop[%zu] is an empty string", i);
        }
        p->stop[p->n_stop++] = text;
    }
    return OK;
}

static status read_stream(api_reader *r, api_params *p) {
    char within[PARAM_NAME_MAX];
    api_reader in;
    TRY(api_read_bool(r, "stream", &p->stream));
    TRY(api_read_object(r, "stream_options", &in, within));
    TRY(api_read_bool(&in, "include_usage", &p->include_usage));
    TRY(api_read_bool(&in, "continuous_usage_stats", &p->continuous_usage));
    TRY(api_read_bool(r, "timings_per_token", &p->timings_per_token));
    TRY(api_read_bool(r, "return_progress", &p->return_progress));
    TRY(api_read_bool(r, "return_token_ids", &p->return_token_ids));
    const char *granularity = "step";
    TRY(api_read_str(r, "stream_granularity", &granularity));
    if (strcmp(granularity, "step") != 0) return api_read_unsupported(r, "stream_granularity", "only \"step\" exists");
    return api_read_real(r, "sse_ping_interval", -1, false, 86400, &p->ping_s);
}

static status read_lengths(api_reader *r, api_params *p) {
    json_int_t a = INT32_MAX, b = INT32_MAX;
    TRY(api_read_int(r, "max_tokens", 1, INT32_MAX, &a));
    TRY(api_read_int(r, "max_completion_tokens", 1, INT32_MAX, &b));
    if (b < a) a = b;
    p->max_new = a == INT32_MAX ? 0 : (int32_t)a;
    return api_read_bool(r, "ignore_eos", &p->ignore_end);
}

/* Three names for one thing; the least that is given counts. */
static status read_budget(api_reader *r, api_params *p) {
    static const char *const NAMES[] = { "thinking_budget", "thinking_token_budget", "reasoning_budget" };
    p->thinking_max = -1;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        json_int_t n = -1;
        TRY(api_read_int(r, NAMES[i], -1, INT32_MAX, &n));
        if (n >= 0 && (p->thinking_max < 0 || n < p->thinking_max)) p->thinking_max = (int32_t)n;
    }
    return OK;
}

/* "none" and 0 switch thinking off, everything else on: the template knows no levels. */
static status read_effort(api_reader *r, const char *name, api_params *p) {
    const json_t *v = api_read_find(r, name);
    if (!v) return OK;
    if (json_is_string(v))
        p->thinking = strcmp(json_string_value(v), "none") != 0;
    else if (json_is_number(v))
        p->thinking = json_number_value(v) != 0;
    else
        return api_read_wrong_type(r, name, "a string or a number", v);
    return OK;
}

static status read_reasoning(api_reader *r, api_params *p) {
    static const struct {
        const char *name;
        reasoning_format format;
    } FORMATS[] = {
        { "reasoning_content", REASONING_CONTENT }, { "auto", REASONING_CONTENT }, { "deepseek", REASONING_CONTENT },
        { "reasoning", REASONING_SHORT },           { "both", REASONING_BOTH },    { "none", REASONING_NONE }
    };
    char within[PARAM_NAME_MAX];
    api_reader in;
    bool enabled = true;
    TRY(read_effort(r, "reasoning_effort", p));
    TRY(api_read_object(r, "reasoning", &in, within));
    TRY(read_effort(&in, "effort", p));
    TRY(api_read_bool(&in, "enabled", &enabled));
    if (api_read_find(&in, "enabled")) p->thinking = enabled;
    const char *format = "reasoning_content";
    TRY(api_read_str(r, "reasoning_format", &format));
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        if (strcmp(FORMATS[i].name, format) != 0) continue;
        p->reasoning = FORMATS[i].format;
        return OK;
    }
    api_read_name(r, "reasoning_format");
    return err_set(r->e, ERR_REQUEST,
                   "reasoning_format must be \"reasoning_content\", \"reasoning\", \"both\" or \"none\"");
}

/* Speculation never changes the text, only its speed. max SPEC_MAX: as many as there are. */
static status set_speculation(api_reader *r, api_params *p, const engine_facts *f, str mode, json_int_t max) {
    if (str_eq(mode, STR("off"))) {
        p->spec.mode = SPEC_OFF;
    } else if (str_eq(mode, STR("fixed"))) {
        p->spec.mode = SPEC_FIXED;
        p->spec.tokens = max < f->spec_max ? (int32_t)max : f->spec_max;
    } else if (str_eq(mode, STR("auto"))) {
        p->spec.mode = SPEC_AUTO;
        p->spec.tokens = max < f->spec_max ? (int32_t)max : SPEC_DEFAULT;
    } else {
        api_read_name(r, "mode");
        return err_set(r->e, ERR_REQUEST, "speculation.mode must be \"off\", \"fixed\" or \"auto\"");
    }
    return OK;
}

/* "off", "auto", "fixed", "fixed=4" */
static status read_speculation_header(api_reader *r, api_params *p, const api_defaults *def) {
    str mode = def->speculation;
    if (!mode.p) return OK;
    json_int_t max = SPEC_MAX;
    const char *eq = memchr(mode.p, '=', mode.n);
    api_reader in = { .within = "x-speculation.", .param = r->param, .e = r->e };
    if (eq) {
        str digits = str_from(mode, (size_t)(eq - mode.p) + 1);
        mode.n = (size_t)(eq - mode.p);
        max = 0;
        for (size_t i = 0; i < digits.n; i++)
            max =
                digits.p[i] < '0' || digits.p[i] > '9' || max > SPEC_MAX ? SPEC_MAX + 1 : max * 10 + digits.p[i] - '0';
        if (!digits.n || max > SPEC_MAX) {
            api_read_name(&in, "max");
            return err_set(r->e, ERR_REQUEST, "the number in the x-speculation header must be between 0 and %d",
                           SPEC_MAX);
        }
    }
    return set_speculation(&in, p, def->facts, mode, max);
}

static status read_speculation(api_reader *r, api_params *p, const api_defaults *def) {
    char within[PARAM_NAME_MAX];
    api_reader in;
    TRY(read_speculation_header(r, p, def));
    TRY(api_read_object(r, "speculation", &in, within));
    if (!in.o) return OK;
    const char *mode = NULL;
    json_int_t max = SPEC_MAX, tree = SPEC_DEFAULT;
    double min_p = 0;
    bool trace = false;
    TRY(api_read_str(&in, "mode", &mode));
    TRY(api_read_int(&in, "max", 0, SPEC_MAX, &max));
    TRY(api_read_int(&in, "tree", 0, def->facts->spec_tree_max, &tree));
    p->spec.tree = (int32_t)tree;
    TRY(api_read_real(&in, "min_p", 0, false, 1, &min_p));
    TRY(api_read_bool(&in, "trace", &trace));
    p->spec.min_p = (float)min_p;
    if (trace) return api_read_unsupported(&in, "trace", "leave it out or send false");
    if (!mode) { /* the server's, as deep as is said here */
        if (max < SPEC_MAX) p->spec.tokens = max < def->facts->spec_max ? (int32_t)max : def->facts->spec_max;
        return OK;
    }
    return set_speculation(&in, p, def->facts, str_of(mode), max);
}

/* {"type": "content", "content": text or text parts}: what the answer may repeat. */
static status read_prediction(api_reader *r, api_params *p) {
    char within[PARAM_NAME_MAX];
    api_reader in;
    const char *type = "content";
    TRY(api_read_object(r, "prediction", &in, within));
    if (!in.o) return OK;
    TRY(api_read_str(&in, "type", &type));
    if (strcmp(type, "content") != 0) return api_read_unsupported(&in, "type", "only \"content\" is");
    const json_t *content = api_read_find(&in, "content");
    if (!json_is_string(content) && !json_is_array(content))
        return api_read_wrong_type(&in, "content", "a string or an array of text parts",
                                   content ? content : json_null());
    for (size_t i = 0; i < json_array_size(content); i++)
        if (!json_is_string(json_object_get(json_array_get(content, i), "text")))
            return api_read_wrong_type(&in, "content", "a string or an array of text parts", content);
    p->prediction = content;
    return OK;
}

status api_params_read(api_params *out, const json_t *body, const api_defaults *def, buf *ignored,
                       char param[PARAM_NAME_MAX], err *e) {
    api_reader r = { .o = body, .within = "", .param = param, .e = e };
    api_params p = { .model = "",
                     .pick = def->facts->pick,
                     .logprobs = -1,
                     .spec = { SPEC_MODE_DEFAULT, SPEC_DEFAULT, SPEC_DEFAULT, 0.0f },
                     .thinking = -1 };
    TRY(judge_members(&r, def->strict, ignored));
    TRY(api_read_str(&r, "model", &p.model));
    TRY(read_stream(&r, &p));
    TRY(read_lengths(&r, &p));
    TRY(read_budget(&r, &p));
    TRY(api_pick_read(&r, &p, def->facts->vocab));
    TRY(read_stop(&r, &p));
    TRY(read_reasoning(&r, &p));
    TRY(read_speculation(&r, &p, def));
    TRY(read_prediction(&r, &p));
    bool cache = true;
    TRY(api_read_bool(&r, "cache_prompt", &cache));
    p.no_cache = !cache;
    TRY(api_shape_read(&r, &p));
    *out = p;
    return OK;
}

/* ---------------------------------------------------------------------- template values */

static status check_switches(api_reader *r) {
    static const char *const SWITCHES[] = { "enable_thinking", "preserve_thinking", "add_generation_prompt" };
    bool ignored;
    for (size_t i = 0; i < sizeof SWITCHES / sizeof *SWITCHES; i++) TRY(api_read_bool(r, SWITCHES[i], &ignored));
    return OK;
}

status api_params_kwargs(json_t **out, const json_t *body, const char *defaults, int32_t thinking,
                         char param[PARAM_NAME_MAX], err *e) {
    char within[PARAM_NAME_MAX];
    api_reader r = { .o = body, .within = "", .param = param, .e = e }, in;
    TRY(api_read_object(&r, "chat_template_kwargs", &in, within));
    TRY(check_switches(&in)); /* the text "false" would be true to a template */
    json_t *all = defaults ? json_loads(defaults, JSON_ALLOW_NUL, NULL) : json_object();
    CHECK(all);
    if (thinking >= 0) json_object_set_new(all, "enable_thinking", json_boolean(thinking));
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)in.o, name, v) if (!json_is_null(v)) json_object_set(all, name, v);
    *out = all;
    return OK;
}

status api_params_check_kwargs(const char *defaults, err *e) {
    if (!defaults) return OK;
    char param[PARAM_NAME_MAX] = "";
    json_error_t je;
    json_t *v = too_deep(str_of(defaults)) ? NULL : json_loads(defaults, JSON_ALLOW_NUL, &je);
    api_reader r = { .o = v, .within = "chat template values: ", .param = param, .e = e };
    status s = json_is_object(v)
                   ? check_switches(&r)
                   : err_set(e, ERR_USAGE, "chat template values: a JSON object is expected, found %.60s", defaults);
    json_decref(v);
    if (s == OK) return OK;
    if (e) e->code = ERR_USAGE;
    return ERR_USAGE;
}
