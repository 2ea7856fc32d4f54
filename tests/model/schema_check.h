/* tests/model/schema_check.h - is a value valid under a schema? The few keywords that tests of answers use, each as it
 * is defined, and nothing of how grammars are made. */
#ifndef TESTS_MODEL_SCHEMA_CHECK_H
#define TESTS_MODEL_SCHEMA_CHECK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

static bool fits(const json_t *schema, const json_t *v);

static bool fits_type(const char *type, const json_t *v) {
    if (!strcmp(type, "object")) return json_is_object(v);
    if (!strcmp(type, "array")) return json_is_array(v);
    if (!strcmp(type, "string")) return json_is_string(v);
    if (!strcmp(type, "integer")) return json_is_integer(v);
    if (!strcmp(type, "number")) return json_is_number(v);
    if (!strcmp(type, "boolean")) return json_is_boolean(v);
    if (!strcmp(type, "null")) return json_is_null(v);
    fail_msg("schema_check knows no type %s", type);
    return false;
}

static bool fits_any(const json_t *schemas, const json_t *v) {
    for (size_t i = 0; i < json_array_size(schemas); i++)
        if (fits(json_array_get(schemas, i), v)) return true;
    return false;
}

static bool is_one_of(const json_t *values, const json_t *v) {
    for (size_t i = 0; i < json_array_size(values); i++)
        if (json_equal(json_array_get(values, i), v)) return true;
    return false;
}

static bool has_all(const json_t *names, const json_t *v) {
    for (size_t i = 0; json_is_object(v) && i < json_array_size(names); i++)
        if (!json_object_get(v, json_string_value(json_array_get(names, i)))) return false;
    return true;
}

static bool fits_members(const json_t *properties, const json_t *v) {
    const char *name;
    json_t *of;
    json_object_foreach((json_t *)(uintptr_t)properties, name, of) {
        const json_t *member = json_object_get(v, name);
        if (member && !fits(of, member)) return false;
    }
    return true;
}

static bool has_no_others(const json_t *properties, const json_t *v) {
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)v, name, member) if (!json_object_get(properties, name)) return false;
    return true;
}

static bool fits_items(const json_t *schema, const json_t *v) {
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!fits(schema, json_array_get(v, i))) return false;
    return true;
}

static double code_points(const json_t *v) {
    double n = 0;
    for (const char *c = json_string_value(v); c && *c; c++) n += (*c & 0xC0) != 0x80;
    return n;
}

static bool fits_keyword(const char *word, const json_t *k, const json_t *schema, const json_t *v) {
    double limit = json_number_value(k);
    if (!strcmp(word, "type")) return fits_type(json_string_value(k), v);
    if (!strcmp(word, "enum")) return is_one_of(k, v);
    if (!strcmp(word, "anyOf")) return fits_any(k, v);
    if (!strcmp(word, "required")) return has_all(k, v);
    if (!strcmp(word, "properties")) return fits_members(k, v);
    if (!strcmp(word, "additionalProperties") && json_is_false(k))
        return has_no_others(json_object_get(schema, "properties"), v);
    if (!strcmp(word, "items")) return fits_items(k, v);
    if (!strcmp(word, "minItems")) return !json_is_array(v) || (double)json_array_size(v) >= limit;
    if (!strcmp(word, "maxItems")) return !json_is_array(v) || (double)json_array_size(v) <= limit;
    if (!strcmp(word, "minLength")) return !json_is_string(v) || code_points(v) >= limit;
    if (!strcmp(word, "maxLength")) return !json_is_string(v) || code_points(v) <= limit;
    if (!strcmp(word, "minimum")) return !json_is_number(v) || json_number_value(v) >= limit;
    if (!strcmp(word, "maximum")) return !json_is_number(v) || json_number_value(v) <= limit;
    fail_msg("schema_check knows no %s", word);
    return false;
}

static bool fits(const json_t *schema, const json_t *v) {
    const char *word;
    json_t *k;
    json_object_foreach((json_t *)(uintptr_t)schema, word, k) if (!fits_keyword(word, k, schema, v)) return false;
    return true;
}
#endif
