#include "engine/server/api_shape.h"

#include <stdio.h>

/* ------------------------------------------------------------------------------- tools */

/* {"type": "function", "function": {"name": NAME}} */
static status read_named(api_reader *r, answer_shape *shape) {
    char within[PARAM_NAME_MAX], within_function[PARAM_NAME_MAX];
    api_reader choice, function;
    const char *type = "";
    TRY(api_read_object(r, "tool_choice", &choice, within));
    TRY(api_read_str(&choice, "type", &type));
    if (strcmp(type, "function") != 0) return api_read_unsupported(&choice, "type", "only \"function\" is");
    TRY(api_read_object(&choice, "function", &function, within_function));
    const json_t *name = api_read_find(&function, "name");
    if (!json_is_string(name))
        return api_read_wrong_type(&function, "name", "the name of a tool", name ? name : json_null());
    shape->must_call = true;
    shape->must_name = (str){ json_string_value(name), json_string_length(name) };
    return OK;
}

static status read_choice(api_reader *r, api_params *p) {
    const json_t *choice = api_read_find(r, "tool_choice");
    const char *word = json_string_value(choice);
    if (!choice) return OK;
    if (json_is_object(choice)) return read_named(r, &p->shape);
    if (!word) return api_read_wrong_type(r, "tool_choice", "a string or an object", choice);
    p->no_calls = strcmp(word, "none") == 0;
    p->shape.must_call = strcmp(word, "required") == 0;
    if (p->no_calls || p->shape.must_call || strcmp(word, "auto") == 0) return OK;
    return api_read_unsupported(r, "tool_choice",
                                "send \"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": "
                                "{\"name\": NAME}}");
}

static status read_tools(api_reader *r, api_params *p) {
    const json_t *tools = api_read_find(r, "tools");
    bool parallel = true;
    TRY(api_read_bool(r, "parallel_tool_calls", &parallel));
    if (tools && !json_is_array(tools)) return api_read_wrong_type(r, "tools", "an array", tools);
    p->tools = json_array_size(tools) ? tools : NULL;
    TRY(read_choice(r, p));
    p->one_call = !parallel || p->shape.must_name.p;
    p->shape.tools = p->no_calls ? NULL : p->tools;
    p->shape.several = !p->one_call;
    return OK;
}

/* ----------------------------------------------------------------------------- content */

/* Two members must not both say what the content is. */
static status set_form(api_reader *r, const char *name, const char *at, const json_t *schema, answer_shape *shape) {
    if (schema && !json_is_object(schema)) return api_read_wrong_type(r, name, "an object, a JSON schema", schema);
    if (shape->object) {
        api_read_name(r, name);
        return err_set(r->e, ERR_REQUEST, "%s%s and another member both say what the answer must be; send one of them",
                       r->within, name);
    }
    shape->object = true;
    shape->schema = schema, shape->schema_at = at;
    return OK;
}

/* {"name": NAME, "schema": SCHEMA, "strict": BOOL}. An answer is always held to the schema. */
static status read_json_schema(api_reader *format, answer_shape *shape) {
    char within[PARAM_NAME_MAX];
    api_reader in;
    const char *text;
    bool strict;
    TRY(api_read_object(format, "json_schema", &in, within));
    TRY(api_read_str(&in, "name", &text));
    TRY(api_read_str(&in, "description", &text));
    TRY(api_read_bool(&in, "strict", &strict));
    const json_t *schema = api_read_find(&in, "schema");
    return set_form(&in, "schema", "response_format.json_schema.schema", schema ? schema : json_null(), shape);
}

static status read_response_format(api_reader *r, answer_shape *shape) {
    char within[PARAM_NAME_MAX];
    api_reader in;
    const char *type = "";
    TRY(api_read_object(r, "response_format", &in, within));
    if (!in.o) return OK;
    TRY(api_read_str(&in, "type", &type));
    if (strcmp(type, "text") == 0) return OK;
    if (strcmp(type, "json_schema") == 0) return read_json_schema(&in, shape);
    if (strcmp(type, "json_object") == 0)
        return set_form(&in, "schema", "response_format.schema", api_read_find(&in, "schema"), shape);
    return api_read_unsupported(&in, "type", "only \"text\", \"json_object\" and \"json_schema\" are");
}

/* {"json": SCHEMA} or {"json_object": true} */
static status read_structured(api_reader *r, answer_shape *shape) {
    static const char *const OTHERS[] = { "regex", "choice", "grammar", "structural_tag" };
    char within[PARAM_NAME_MAX];
    api_reader in;
    bool object = false;
    TRY(api_read_object(r, "structured_outputs", &in, within));
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (api_read_find(&in, OTHERS[i]))
            return api_read_unsupported(&in, OTHERS[i], "send a JSON schema as structured_outputs.json");
    TRY(api_read_bool(&in, "json_object", &object));
    const json_t *schema = api_read_find(&in, "json");
    if (schema) TRY(set_form(&in, "json", "structured_outputs.json", schema, shape));
    return object ? set_form(&in, "json_object", "structured_outputs.json_object", NULL, shape) : OK;
}

static status read_forms(api_reader *r, answer_shape *shape) {
    static const char *const SCHEMAS[] = { "json_schema", "guided_json" }; /* llama.cpp, vLLM */
    TRY(read_response_format(r, shape));
    for (size_t i = 0; i < sizeof SCHEMAS / sizeof *SCHEMAS; i++) {
        const json_t *schema = api_read_find(r, SCHEMAS[i]);
        if (schema) TRY(set_form(r, SCHEMAS[i], SCHEMAS[i], schema, shape));
    }
    return read_structured(r, shape);
}

static status read_kinds(api_reader *r) {
    const char *call = "none";
    const json_t *kinds = api_read_find(r, "modalities"), *function = api_read_find(r, "function_call");
    if (kinds && !json_is_array(kinds)) return api_read_wrong_type(r, "modalities", "an array", kinds);
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));
        if (!kind || strcmp(kind, "text") != 0) return api_read_unsupported(r, "modalities", "only [\"text\"] is");
    }
    if (function && json_is_string(function)) call = json_string_value(function);
    if ((function && !json_is_string(function)) || (strcmp(call, "none") != 0 && strcmp(call, "auto") != 0))
        return api_read_unsupported(r, "function_call", "leave it out");
    return OK;
}

status api_shape_read(api_reader *r, api_params *p) {
    TRY(read_tools(r, p));
    TRY(read_forms(r, &p->shape));
    return read_kinds(r);
}
