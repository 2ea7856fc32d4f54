#include "engine/server/api_read.h"

#include <stdio.h>

void api_read_name(api_reader *r, const char *name) { snprintf(r->param, PARAM_NAME_MAX, "%s%s", r->within, name); }

const json_t *api_read_find(api_reader *r, const char *name) {
    const json_t *v = json_object_get(r->o, name);
    return json_is_null(v) ? NULL : v;
}

static const char *type_name(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    default: return "null";
    }
}

status api_read_wrong_type(api_reader *r, const char *name, const char *expected, const json_t *v) {
    api_read_name(r, name);
    return err_set(r->e, ERR_REQUEST, "%s%s must be %s, not %s", r->within, name, expected, type_name(v));
}

status api_read_bool(api_reader *r, const char *name, bool *out) {
    const json_t *v = api_read_find(r, name);
    if (!v) return OK;
    if (!json_is_boolean(v)) return api_read_wrong_type(r, name, "a boolean", v);
    *out = json_is_true(v);
    return OK;
}

status api_read_int(api_reader *r, const char *name, json_int_t min, json_int_t max, json_int_t *out) {
    const json_t *v = api_read_find(r, name);
    if (!v) return OK;
    if (!json_is_integer(v)) return api_read_wrong_type(r, name, "an integer", v);
    json_int_t i = json_integer_value(v);
    if (i < min || i > max) {
        api_read_name(r, name);
        if (max == INT32_MAX)
            return err_set(r->e, ERR_REQUEST, "%s%s must be at least %lld, not %lld", r->within, name, (long long)min,
                           (long long)i);
        return err_set(r->e, ERR_REQUEST, "%s%s must be between %lld and %lld, not %lld", r->within, name,
                       (long long)min, (long long)max, (long long)i);
    }
    *out = i;
    return OK;
}

status api_read_real(api_reader *r, const char *name, double min, bool above, double max, double *out) {
    const json_t *v = api_read_find(r, name);
    if (!v) return OK;
    if (!json_is_number(v)) return api_read_wrong_type(r, name, "a number", v);
    double d = json_number_value(v);
    if (!(above ? d > min : d >= min) || !(d <= max)) {
        api_read_name(r, name);
        return err_set(r->e, ERR_REQUEST, "%s%s must be %s %g and at most %g, not %g", r->within, name,
                       above ? "above" : "at least", min, max, d);
    }
    *out = d;
    return OK;
}

status api_read_float(api_reader *r, const char *name, double min, bool above, double max, float *out) {
    double d = (double)*out;
    TRY(api_read_real(r, name, min, above, max, &d));
    *out = (float)d;
    return OK;
}

status api_read_str(api_reader *r, const char *name, const char **out) {
    const json_t *v = api_read_find(r, name);
    if (!v) return OK;
    if (!json_is_string(v)) return api_read_wrong_type(r, name, "a string", v);
    *out = json_string_value(v);
    return OK;
}

status api_read_object(api_reader *r, const char *name, api_reader *inner, char within[PARAM_NAME_MAX]) {
    const json_t *v = api_read_find(r, name);
    if (v && !json_is_object(v)) return api_read_wrong_type(r, name, "an object", v);
    snprintf(within, PARAM_NAME_MAX, "%s%s.", r->within, name);
    *inner = (api_reader){ .o = v, .within = within, .param = r->param, .e = r->e };
    return OK;
}

status api_read_unsupported(api_reader *r, const char *name, const char *instead) {
    api_read_name(r, name);
    return err_set(r->e, ERR_UNSUPPORTED, "%s%s is not supported by this server: %s", r->within, name, instead);
}
