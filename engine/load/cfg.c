#include "engine/load/cfg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 128, FOUND_MAX = 72 };

/* One step of a path: a member of an object, or an element of an array. */
static const json_t *step_into(const json_t *at, const char *key, size_t n) {
    char name[KEY_MAX];
    CHECK(n < sizeof name); /* paths are literals of our own */
    memcpy(name, key, n);
    name[n] = 0;
    if (json_is_object(at)) return json_object_get(at, name);
    if (!json_is_array(at)) return NULL;
    char *end;
    unsigned long index = strtoul(name, &end, 10);
    return n && *end == 0 && name[0] >= '0' && name[0] <= '9' ? json_array_get(at, index) : NULL;
}

const json_t *cfg_find(cfg c, const char *path) {
    const json_t *at = c.root;
    while (at) {
        size_t n = strcspn(path, ".");
        at = step_into(at, path, n);
        if (!path[n]) break;
        path += n + 1;
    }
    return json_is_null(at) ? NULL : at;
}

/* "CONFIG: PATH: expected WANTED, found ..." */
static status refuse(cfg c, const char *path, const char *wanted, const json_t *found, err *e) {
    if (!found) return err_set(e, ERR_MODEL, "%s: %s: expected %s, but it is absent", c.file, path, wanted);
    char *text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT);
    CHECK(text != NULL);
    bool cut = strlen(text) > FOUND_MAX;
    status s = err_set(e, ERR_MODEL, "%s: %s: expected %s, found %.*s%s", c.file, path, wanted, FOUND_MAX, text,
                       cut ? "..." : "");
    free(text);
    return s;
}

static status refuse_int(cfg c, const char *path, int64_t lo, int64_t hi, const json_t *found, err *e) {
    char wanted[96];
    snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)lo, (long long)hi);
    return refuse(c, path, wanted, found, e);
}

static bool int_in_range(const json_t *v, int64_t lo, int64_t hi) {
    return json_is_integer(v) && json_integer_value(v) >= lo && json_integer_value(v) <= hi;
}

status cfg_get_int(cfg c, const char *path, int64_t lo, int64_t hi, int64_t *out, err *e) {
    const json_t *v = cfg_find(c, path);
    if (!int_in_range(v, lo, hi)) return refuse_int(c, path, lo, hi, v, e);
    *out = json_integer_value(v);
    return OK;
}

status cfg_get_size(cfg c, const char *path, int32_t lo, int32_t hi, int32_t step, int32_t *out, err *e) {
    int64_t v = 0;
    TRY(cfg_get_int(c, path, lo, hi, &v, e));
    if (v % step)
        return err_set(e, ERR_MODEL, "%s: %s: expected a multiple of %d, found %d", c.file, path, step, (int)v);
    *out = (int32_t)v;
    return OK;
}

status cfg_opt_int(cfg c, const char *path, int64_t lo, int64_t hi, int64_t dflt, int64_t *out, err *e) {
    if (cfg_find(c, path)) return cfg_get_int(c, path, lo, hi, out, e);
    *out = dflt;
    return OK;
}

status cfg_get_real(cfg c, const char *path, double lo, double hi, double *out, err *e) {
    const json_t *v = cfg_find(c, path);
    double d = json_number_value(v); /* 0 for what is no number */
    if (!json_is_number(v) || !(d >= lo && d <= hi)) {
        char wanted[96];
        snprintf(wanted, sizeof wanted, "a number from %.9g to %.9g", lo, hi);
        return refuse(c, path, wanted, v, e);
    }
    *out = d;
    return OK;
}

status cfg_opt_real(cfg c, const char *path, double lo, double hi, double dflt, double *out, err *e) {
    if (cfg_find(c, path)) return cfg_get_real(c, path, lo, hi, out, e);
    *out = dflt;
    return OK;
}

status cfg_opt_bool(cfg c, const char *path, bool dflt, bool *out, err *e) {
    const json_t *v = cfg_find(c, path);
    if (v && !json_is_boolean(v)) return refuse(c, path, "true or false", v, e);
    *out = v ? json_is_true(v) : dflt;
    return OK;
}

status cfg_opt_string(cfg c, const char *path, const char *dflt, const char **out, err *e) {
    const json_t *v = cfg_find(c, path);
    if (v && !json_is_string(v)) return refuse(c, path, "a string", v, e);
    *out = v ? json_string_value(v) : dflt;
    return OK;
}

static bool is_array_of(const json_t *v, size_t n) { return json_is_array(v) && json_array_size(v) == n; }

static status refuse_array(cfg c, const char *path, size_t n, const json_t *found, err *e) {
    if (json_is_array(found))
        return err_set(e, ERR_MODEL, "%s: %s: expected %zu elements, found %zu", c.file, path, n,
                       json_array_size(found));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "an array of %zu elements", n);
    return refuse(c, path, wanted, found, e);
}

status cfg_get_ints(cfg c, const char *path, int64_t lo, int64_t hi, int64_t *out, size_t n, err *e) {
    const json_t *v = cfg_find(c, path);
    if (!is_array_of(v, n)) return refuse_array(c, path, n, v, e);
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(v, i);
        if (int_in_range(element, lo, hi)) continue;
        char at[KEY_MAX];
        snprintf(at, sizeof at, "%s.%zu", path, i);
        return refuse_int(c, at, lo, hi, element, e);
    }
    for (size_t i = 0; i < n; i++) out[i] = json_integer_value(json_array_get(v, i));
    return OK;
}

status cfg_opt_array(cfg c, const char *path, size_t n, bool *is_there, err *e) {
    const json_t *v = cfg_find(c, path);
    if (v && !is_array_of(v, n)) return refuse_array(c, path, n, v, e);
    *is_there = v != NULL;
    return OK;
}

status cfg_only_bool(cfg c, const char *path, bool only, err *e) {
    bool value = only;
    TRY(cfg_opt_bool(c, path, only, &value, e));
    if (value == only) return OK;
    return err_set(e, ERR_MODEL, "%s: %s: only %s is offered, found %s", c.file, path, only ? "true" : "false",
                   value ? "true" : "false");
}

status cfg_only_string(cfg c, const char *path, const char *only, err *e) {
    const char *value = only;
    TRY(cfg_opt_string(c, path, only, &value, e));
    if (strcmp(value, only) == 0) return OK;
    return err_set(e, ERR_MODEL, "%s: %s: only \"%s\" is offered, found \"%.80s\"", c.file, path, only, value);
}
