#include "engine/text/tools.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct reader {
    arena *mem;
    char path[64]; /* of the tool that is read */
    char *param;
    err *e;
} reader;

static status refuse(const reader *r, const char *member, const char *expected) {
    char path[64];
    snprintf(path, sizeof path, "%s%s", r->path, member);
    if (r->param) memcpy(r->param, path, sizeof path);
    return err_set(r->e, ERR_REQUEST, "%s: %s", path, expected);
}

static int by_bytes(const void *a, const void *b) { return str_order(*(const str *)a, *(const str *)b); }

static bool is_text(const json_t *schema) {
    const json_t *type = json_object_get(schema, "type");
    return json_is_string(type) && str_eq((str){ json_string_value(type), json_string_length(type) }, STR("string"));
}

static void read_texts(const reader *r, const json_t *properties, reply_tool *out) {
    str *texts = arena_alloc(r->mem, (json_object_size(properties) + 1) * sizeof *texts);
    json_t *tree = (json_t *)(uintptr_t)properties; /* the iterator's type is not const; it changes nothing */
    for (void *it = json_object_iter(tree); it; it = json_object_iter_next(tree, it))
        if (is_text(json_object_iter_value(it)))
            texts[out->n_texts++] = arena_str(r->mem, (str){ json_object_iter_key(it), json_object_iter_key_len(it) });
    qsort(texts, out->n_texts, sizeof *texts, by_bytes);
    out->texts = texts;
}

static status read_tool(const reader *r, const json_t *sent, reply_tool *out) {
    const json_t *type = json_object_get(sent, "type"), *function = json_object_get(sent, "function");
    if (!json_is_object(sent)) return refuse(r, "", "expected an object");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "function") != 0))
        return refuse(r, ".type", "only \"function\" is supported");
    if (!json_is_object(function)) return refuse(r, ".function", "expected an object");
    const json_t *name = json_object_get(function, "name"), *parameters = json_object_get(function, "parameters");
    if (!json_is_string(name) || !json_string_length(name) || json_string_length(name) > TOOL_NAME_MAX)
        return refuse(r, ".function.name", "expected a string of 1 to 256 bytes");
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        return refuse(r, ".function.parameters", "expected an object, a JSON schema");
    out->name = arena_str(r->mem, (str){ json_string_value(name), json_string_length(name) });
    read_texts(r, json_object_get(parameters, "properties"), out);
    return OK;
}

status tools_read(arena *mem, const json_t *tools, const reply_tool **out, size_t *n, char param[64], err *e) {
    reader r = { .mem = mem, .path = "tools", .param = param, .e = e };
    if (!json_is_array(tools)) return refuse(&r, "", "expected an array");
    reply_tool *list = arena_alloc(mem, (json_array_size(tools) + 1) * sizeof *list);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        snprintf(r.path, sizeof r.path, "tools[%zu]", i);
        TRY(read_tool(&r, json_array_get(tools, i), &list[i]));
    }
    *out = list;
    *n = json_array_size(tools);
    return OK;
}
