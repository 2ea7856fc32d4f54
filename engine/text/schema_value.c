/* enum and const: scalars become words, arrays and objects nodes of their own, so that white space is the same
 * everywhere. */
#include "engine/text/schema_int.h"

#include <stdlib.h>

enum { VALUE_DEEP = 100 };

/* The one spelling that the value has. */
static void spell(buf *out, const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_STRING: buf_json_str(out, (str){ json_string_value(v), json_string_length(v) }); return;
    case JSON_INTEGER: buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v)); return;
    case JSON_REAL: buf_double(out, json_real_value(v)); return;
    case JSON_TRUE: buf_str(out, STR("true")); return;
    case JSON_FALSE: buf_str(out, STR("false")); return;
    default: buf_str(out, STR("null")); return;
    }
}

static status node_of_value(schema_job *j, const json_t *v, int depth, int32_t *id);

static status node_of_array(schema_job *j, const json_t *v, int depth, int32_t id) {
    size_t n = json_array_size(v);
    int32_t *prefix = grammar_ids(j->g, n);
    for (size_t i = 0; i < n; i++) TRY(node_of_value(j, json_array_get(v, i), depth + 1, &prefix[i]));
    j->g->nodes[id] =
        (node){ .kind = NODE_ARRAY,
                .array = { .prefix = prefix, .n_prefix = (int32_t)n, .min = (int64_t)n, .max = (int64_t)n } };
    return OK;
}

static status node_of_object(schema_job *j, json_t *v, int depth, int32_t id) {
    size_t n = json_object_size(v), i = 0;
    node_object o = { .values = grammar_ids(j->g, n), .needed = grammar_ids(j->g, n + 1), .n = (int32_t)n };
    str *words = arena_alloc(j->mem, (n + 1) * sizeof *words);
    int32_t *numbers = arena_alloc(j->mem, (n + 1) * sizeof *numbers);
    for (void *it = json_object_iter(v); it; it = json_object_iter_next(v, it), i++) {
        buf spelled = { 0 };
        buf_json_str(&spelled, (str){ json_object_iter_key(it), json_object_iter_key_len(it) });
        words[i] = arena_str(j->mem, (str){ spelled.data + 1, spelled.len - 2 });
        buf_free(&spelled);
        numbers[i] = o.needed[i] = (int32_t)i;
        o.values[i] = NODE_EMPTY;
        if (schema_word_fits(j, words[i])) TRY(node_of_value(j, json_object_iter_value(it), depth + 1, &o.values[i]));
    }
    o.needed[n] = (int32_t)n;
    o.keys = grammar_words(j->g, words, numbers, n);
    j->g->nodes[id] = (node){ .kind = NODE_OBJECT, .body = BODY_KEY_GUARDED, .object = o };
    return OK;
}

static status add_words(schema_job *j, const str *texts, size_t n, int32_t id) {
    word_list list = grammar_words(j->g, texts, NULL, n);
    j->g->nodes[id] = (node){ .kind = NODE_WORDS, .words = { .list = list } };
    return schema_spend(j, n);
}

static status node_of_value(schema_job *j, const json_t *v, int depth, int32_t *id) {
    if (depth > VALUE_DEEP)
        return err_set(j->e, ERR_UNSUPPORTED, "schema: a value of enum or const is nested more than %d deep",
                       VALUE_DEEP);
    TRY(schema_add(j, id));
    if (json_is_array(v)) return node_of_array(j, v, depth, *id);
    if (json_is_object(v)) return node_of_object(j, (json_t *)(uintptr_t)v, depth, *id); /* iterators are not const */
    buf spelled = { 0 };
    spell(&spelled, v);
    str word = buf_view(&spelled);
    status s = add_words(j, &word, schema_word_fits(j, word), *id);
    buf_free(&spelled);
    return s;
}

/* Arrays and objects among the values would have to be looked at by all the other keywords. */
static bool has_inner_keywords(const need *flat, const json_t *v) {
    static const char *const of_objects[] = { "properties", "required", "additionalProperties", "minProperties",
                                              "maxProperties" };
    static const char *const of_arrays[] = { "items", "prefixItems", "minItems", "maxItems", "items" };
    const char *const *names = json_is_object(v) ? of_objects : of_arrays;
    for (size_t k = 0; k < flat->n; k++)
        for (size_t i = 0; i < 5; i++)
            if (json_object_get(flat->items[k].schema, names[i])) return true;
    return false;
}

typedef struct value_parts {
    str *words;
    int32_t *nodes; /* the first is for the words */
    size_t n_words, n_nodes;
    pattern *p; /* NULL: none */
} value_parts;

static status add_value(schema_job *j, const need *flat, const spec *s, const json_t *v, value_parts *parts) {
    if (!(type_of_value(v) & s->types)) return OK;
    if (json_is_array(v) || json_is_object(v)) {
        if (has_inner_keywords(flat, v))
            return schema_refuse(
                j, ERR_UNSUPPORTED, s->at, "enum",
                "arrays and objects as values, together with keywords for their parts, are not supported");
        return node_of_value(j, v, 1, &parts->nodes[parts->n_nodes++]);
    }
    if (!spec_allows_scalar(s, v, parts->p)) return OK;
    buf spelled = { 0 };
    spell(&spelled, v);
    str word = buf_view(&spelled);
    if (schema_word_fits(j, word)) parts->words[parts->n_words++] = arena_str(j->mem, word);
    buf_free(&spelled);
    return OK;
}

status build_values(schema_job *j, const need *flat, const spec *s, int32_t id) {
    size_t n = json_array_size(s->values);
    value_parts parts = { .words = arena_alloc(j->mem, (n + 1) * sizeof *parts.words),
                          .nodes = arena_alloc(j->mem, (n + 1) * sizeof *parts.nodes),
                          .n_nodes = 1 };
    /* Values are compared in the plain spelling of JSON, whatever strings look like here. */
    if (s->pattern.p) TRY(schema_pattern(j, s, BODY_JSON, 0, GRAMMAR_COUNT_MAX, &parts.p));
    status st = OK;
    for (size_t i = 0; i < n && st == OK; i++) st = add_value(j, flat, s, json_array_get(s->values, i), &parts);
    TRY(st);
    if (!parts.n_words && parts.n_nodes == 1) {
        schema_contradicts(j, s->at, "none of the values is valid under the other keywords");
        return OK;
    }
    if (parts.n_nodes == 1) return add_words(j, parts.words, parts.n_words, id);
    TRY(schema_add(j, &parts.nodes[0]));
    TRY(add_words(j, parts.words, parts.n_words, parts.nodes[0]));
    return build_union(j, id, parts.nodes, parts.n_nodes);
}
