/* Case files as JSON. Failing to read one fails the test. */
#ifndef TESTS_UNIT_JSON_FIXTURE_H
#define TESTS_UNIT_JSON_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include "engine/base/file.h"

static inline buf fixture_read(const char *path) {
    buf text = { 0 };
    err e;
    if (file_read(&text, path, (size_t)64 << 20, &e) != OK) fail_msg("%s", e.text);
    return text;
}

static inline json_t *fixture_parse(str text, const char *path) {
    json_error_t why;
    json_t *tree = json_loadb(text.p, text.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!tree) fail_msg("%s: %s", path, why.text);
    return tree;
}

static inline json_t *fixture_json(const char *path) {
    buf text = fixture_read(path);
    json_t *tree = fixture_parse(buf_view(&text), path);
    buf_free(&text);
    return tree;
}

static inline str fixture_str(const json_t *object, const char *member) {
    const json_t *v = json_object_get(object, member);
    return (str){ json_string_value(v), json_string_length(v) };
}
#endif
