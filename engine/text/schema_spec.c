/* What the schemas of a list say together about types, values, numbers, lengths and counts. */
#include "engine/text/schema_int.h"

#include <math.h>

static const struct {
    const char *name;
    uint32_t types;
} TYPE_NAMES[] = {
    { "null", TYPE_NULL },     { "boolean", TYPE_BOOL }, { "integer", TYPE_INT },   { "number", TYPE_NUMBER },
    { "string", TYPE_STRING }, { "array", TYPE_ARRAY },  { "object", TYPE_OBJECT },
};

/* Keywords that only mean something for some types. */
static const struct {
    const char *name;
    uint32_t types;
} HINTS[] = {
    { "properties", TYPE_OBJECT },       { "required", TYPE_OBJECT },      { "additionalProperties", TYPE_OBJECT },
    { "minProperties", TYPE_OBJECT },    { "maxProperties", TYPE_OBJECT }, { "items", TYPE_ARRAY },
    { "prefixItems", TYPE_ARRAY },       { "minItems", TYPE_ARRAY },       { "maxItems", TYPE_ARRAY },
    { "minLength", TYPE_STRING },        { "maxLength", TYPE_STRING },     { "pattern", TYPE_STRING },
    { "minimum", TYPE_NUMBER },          { "maximum", TYPE_NUMBER },       { "exclusiveMinimum", TYPE_NUMBER },
    { "exclusiveMaximum", TYPE_NUMBER }, { "multipleOf", TYPE_NUMBER },
};

uint32_t type_of_value(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_NULL: return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return TYPE_BOOL;
    case JSON_INTEGER: return TYPE_INT;
    case JSON_REAL: return json_real_value(v) == floor(json_real_value(v)) ? TYPE_INT : TYPE_REAL;
    case JSON_STRING: return TYPE_STRING;
    case JSON_ARRAY: return TYPE_ARRAY;
    case JSON_OBJECT: return TYPE_OBJECT;
    }
    return 0;
}

static status type_by_name(schema_job *j, const need_item *item, const json_t *name, uint32_t *types) {
    for (size_t i = 0; json_is_string(name) && i < sizeof TYPE_NAMES / sizeof *TYPE_NAMES; i++)
        if (strcmp(json_string_value(name), TYPE_NAMES[i].name) == 0) {
            *types |= TYPE_NAMES[i].types;
            return OK;
        }
    return schema_refuse(j, ERR_REQUEST, item->at, "type",
                         "this must be null, boolean, integer, number, string, array or object, or a list of them");
}

static status read_types(schema_job *j, const need_item *item, spec *s) {
    const json_t *type = json_object_get(item->schema, "type");
    uint32_t types = 0;
    if (!type) return OK;
    if (!json_is_array(type)) TRY(type_by_name(j, item, type, &types));
    for (size_t i = 0; i < json_array_size(type); i++) TRY(type_by_name(j, item, json_array_get(type, i), &types));
    if (json_is_true(json_object_get(item->schema, "nullable"))) types |= TYPE_NULL;
    s->types &= types;
    if (!s->types) schema_contradicts(j, item->at, "no value has all the types that are asked for");
    return OK;
}

/* Keeps the values that are in the list, too. */
static void keep_values(schema_job *j, spec *s, const json_t *list) {
    json_t *kept = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *v = json_array_get(list, i);
        bool in = !s->values;
        for (size_t k = 0; s->values && k < json_array_size(s->values) && !in; k++, j->work++)
            in = json_equal(v, json_array_get(s->values, k));
        if (in) json_array_append(kept, v);
    }
    json_decref(s->values);
    s->values = kept;
}

static status read_values(schema_job *j, const need_item *item, spec *s) {
    const json_t *list = json_object_get(item->schema, "enum"), *one = json_object_get(item->schema, "const");
    if (list && !json_is_array(list)) return schema_refuse(j, ERR_REQUEST, item->at, "enum", "this must be a list");
    if (list) keep_values(j, s, list);
    if (one) {
        json_t *alone = json_array();
        json_array_append(alone, (json_t *)(uintptr_t)one); /* one more reference */
        keep_values(j, s, alone);
        json_decref(alone);
    }
    if ((list || one) && !json_array_size(s->values))
        schema_contradicts(j, item->at, one ? "const is none of the values of enum" : "enum leaves no value");
    return schema_spend(j, json_array_size(list));
}

/* A count: an integer that is not negative; "3.0" is one. */
static status read_count(schema_job *j, const need_item *item, const char *keyword, int64_t *n) {
    const json_t *v = json_object_get(item->schema, keyword);
    *n = -1;
    if (!v) return OK;
    double d = json_number_value(v);
    if (!json_is_number(v) || d < 0 || d != floor(d))
        return schema_refuse(j, ERR_REQUEST, item->at, keyword, "this must be an integer that is not negative");
    *n = d < (double)GRAMMAR_COUNT_MAX ? (int64_t)d : GRAMMAR_COUNT_MAX;
    return OK;
}

static status read_bounds(schema_job *j, const need_item *item, const char *least, const char *most, int64_t *min,
                          int64_t *max) {
    int64_t lo, hi;
    TRY(read_count(j, item, least, &lo));
    TRY(read_count(j, item, most, &hi));
    if (lo > *min) *min = lo;
    if (hi >= 0 && hi < *max) *max = hi;
    if (*min >= GRAMMAR_COUNT_MAX) return schema_refuse(j, ERR_UNSUPPORTED, item->at, least, "this is too large");
    if (*min > *max && (lo >= 0 || hi >= 0)) schema_contradicts(j, item->at, "the least count is above the largest");
    return OK;
}

static status read_pattern(schema_job *j, const need_item *item, spec *s) {
    const json_t *v = json_object_get(item->schema, "pattern");
    if (!v) return OK;
    if (!json_is_string(v)) return schema_refuse(j, ERR_REQUEST, item->at, "pattern", "this must be a string");
    str text = { json_string_value(v), json_string_length(v) };
    if (s->pattern.p && !str_eq(text, s->pattern))
        return schema_refuse(j, ERR_UNSUPPORTED, item->at, "pattern", "two patterns for one string are not supported");
    s->pattern = text;
    s->pattern_at = item->at;
    return OK;
}

/* Tightens one side. sign 1: a lower bound, -1: an upper one. */
static void tighten(double *bound, bool *is_open, double v, bool open, int sign) {
    if (sign * v < sign * *bound) return;
    *is_open = v == *bound ? *is_open || open : open;
    *bound = v;
}

/* The integer nearest to the bound that is inside. */
static int64_t int_bound(const json_t *v, bool open, int sign) {
    if (json_is_integer(v)) {
        int64_t n = json_integer_value(v);
        if (n < -SPEC_INT_MAX) return -SPEC_INT_MAX - (sign < 0);
        if (n > SPEC_INT_MAX) return SPEC_INT_MAX + (sign > 0);
        return n + (open ? sign : 0);
    }
    double d = json_real_value(v), in = sign > 0 ? ceil(d) : floor(d);
    if (in < -SPEC_INT_MAX) return -SPEC_INT_MAX - (sign < 0);
    if (in > SPEC_INT_MAX) return SPEC_INT_MAX + (sign > 0);
    return (int64_t)in + (open && in == d ? sign : 0);
}

static status read_numbers(schema_job *j, const need_item *item, spec *s) {
    static const char *const names[] = { "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum" };
    for (int i = 0; i < 4; i++) {
        const json_t *v = json_object_get(item->schema, names[i]);
        if (!v) continue;
        if (!json_is_number(v)) return schema_refuse(j, ERR_REQUEST, item->at, names[i], "this must be a number");
        s->is_bounded = true;
        int sign = i < 2 ? 1 : -1;
        int64_t in = int_bound(v, i & 1, sign), *known = i < 2 ? &s->int_lo : &s->int_hi;
        if (sign * in > sign * *known) *known = in;
        tighten(i < 2 ? &s->lo : &s->hi, i < 2 ? &s->lo_open : &s->hi_open, json_number_value(v), i & 1, sign);
    }
    if (s->is_bounded && (s->lo > s->hi || (s->lo == s->hi && (s->lo_open || s->hi_open))))
        schema_contradicts(j, item->at, "no number is within the bounds");
    const json_t *of = json_object_get(item->schema, "multipleOf");
    if (of && json_number_value(of) != 1)
        return schema_refuse(j, ERR_UNSUPPORTED, item->at, "multipleOf", "only 1 is supported");
    if (of) s->types &= ~(uint32_t)TYPE_REAL;
    return OK;
}

static status read_lists(schema_job *j, const need_item *item) {
    const json_t *unique = json_object_get(item->schema, "uniqueItems");
    if (unique && !json_is_false(unique))
        return schema_refuse(j, ERR_UNSUPPORTED, item->at, "uniqueItems", "this keyword is not supported");
    const json_t *prefix = json_object_get(item->schema, "prefixItems");
    if (prefix && !json_is_array(prefix))
        return schema_refuse(j, ERR_REQUEST, item->at, "prefixItems", "this must be a list of schemas");
    const json_t *props = json_object_get(item->schema, "properties"), *req = json_object_get(item->schema, "required");
    if (props && !json_is_object(props))
        return schema_refuse(j, ERR_REQUEST, item->at, "properties", "this must be an object");
    if (req && !json_is_array(req))
        return schema_refuse(j, ERR_REQUEST, item->at, "required", "this must be a list of names");
    for (size_t i = 0; i < json_array_size(req); i++)
        if (!json_is_string(json_array_get(req, i)))
            return schema_refuse(j, ERR_REQUEST, item->at, "required", "this must be a list of names");
    return OK;
}

bool spec_reads(const json_t *schema) {
    static const char *const others[] = { "type", "enum", "const", "uniqueItems" };
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (json_object_get(schema, others[k])) return true;
    for (size_t k = 0; k < sizeof HINTS / sizeof *HINTS; k++)
        if (json_object_get(schema, HINTS[k].name)) return true;
    return false;
}

static uint32_t hinted_types(const need *flat) {
    uint32_t types = 0;
    for (size_t i = 0; i < flat->n; i++)
        for (size_t k = 0; k < sizeof HINTS / sizeof *HINTS; k++)
            if (json_object_get(flat->items[i].schema, HINTS[k].name)) types |= HINTS[k].types;
    return types;
}

static uint32_t types_of_values(const json_t *values) {
    uint32_t types = 0;
    for (size_t i = 0; i < json_array_size(values); i++) types |= type_of_value(json_array_get(values, i));
    return types;
}

status spec_of(schema_job *j, const need *flat, spec *s) {
    *s = (spec){ .at = flat->n ? flat->items[0].at : NULL,
                 .types = TYPE_ALL,
                 .max_length = GRAMMAR_COUNT_MAX,
                 .max_items = GRAMMAR_COUNT_MAX,
                 .max_props = GRAMMAR_COUNT_MAX,
                 .lo = -INFINITY,
                 .hi = INFINITY,
                 .int_lo = -SPEC_INT_MAX,
                 .int_hi = SPEC_INT_MAX };
    for (size_t i = 0; i < flat->n; i++) {
        const need_item *item = &flat->items[i];
        TRY(read_types(j, item, s));
        TRY(read_values(j, item, s));
        TRY(read_bounds(j, item, "minLength", "maxLength", &s->min_length, &s->max_length));
        TRY(read_bounds(j, item, "minItems", "maxItems", &s->min_items, &s->max_items));
        TRY(read_bounds(j, item, "minProperties", "maxProperties", &s->min_props, &s->max_props));
        TRY(read_pattern(j, item, s));
        TRY(read_numbers(j, item, s));
        TRY(read_lists(j, item));
    }
    if (s->values) s->types &= types_of_values(s->values);
    s->meant = s->types;
    uint32_t hinted = s->types == TYPE_ALL ? hinted_types(flat) : 0;
    if (hinted) s->meant &= hinted;
    return OK;
}

void spec_free(spec *s) {
    json_decref(s->values);
    s->values = NULL;
}

static int64_t code_points(str s) {
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((uint8_t)s.p[i] & 0xC0) != 0x80;
    return n;
}

static bool spell_fits(const pattern *p, str text) {
    buf spelled = { 0 };
    buf_json_str(&spelled, text);
    uint32_t at = pattern_start(p);
    for (size_t i = 1; i + 1 < spelled.len && at; i++) at = pattern_step(p, at, (uint8_t)spelled.data[i]);
    buf_free(&spelled);
    return pattern_accepts(p, at);
}

bool spec_allows_scalar(const spec *s, const json_t *v, const pattern *p) {
    if (!(type_of_value(v) & s->types)) return false;
    if (json_is_string(v)) {
        str text = { json_string_value(v), json_string_length(v) };
        int64_t n = code_points(text);
        return n >= s->min_length && n <= s->max_length && (!p || spell_fits(p, text));
    }
    if (!json_is_number(v)) return true;
    double d = json_number_value(v);
    return (d > s->lo || (d == s->lo && !s->lo_open)) && (d < s->hi || (d == s->hi && !s->hi_open));
}
