/* oneOf may be treated as anyOf when no value can be valid under two of its alternatives. What texts are made of may be
 * narrower than what a schema allows (spec.meant and spec.types), so it is asked both ways. */
#include "engine/text/schema_int.h"

enum { DISJOINT_DEEP = 8 };

/* True only when the two are certainly different values; numbers count by their size, 1 and 1.0 are equal. */
static bool values_differ(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) != json_number_value(b);
    if (json_typeof(a) != json_typeof(b)) return true;
    if (json_is_array(a)) return json_array_size(a) != json_array_size(b);
    if (json_is_object(a)) return json_object_size(a) != json_object_size(b);
    return !json_equal(a, b);
}

static status lists_differ(schema_job *j, const json_t *a, const json_t *b, bool *yes) {
    *yes = true;
    for (size_t i = 0; i < json_array_size(a) && *yes; i++) {
        TRY(schema_spend(j, json_array_size(b)));
        for (size_t k = 0; k < json_array_size(b) && *yes; k++)
            *yes = values_differ(json_array_get(a, i), json_array_get(b, k));
    }
    return OK;
}

/* A property that one of the two requires, and whose values are apart: a value of both would need it. */
static status props_differ(schema_job *j, const need *a, const need *b, json_t *props, json_t *required, int depth,
                           bool *yes) {
    *yes = false;
    for (void *it = json_object_iter(props); it && !*yes; it = json_object_iter_next(props, it)) {
        str name = { json_object_iter_key(it), json_object_iter_key_len(it) };
        if (!json_object_getn(required, name.p, name.n)) continue;
        need x = { 0 }, y = { 0 };
        TRY(need_of_prop(j, a, name, &x));
        TRY(need_of_prop(j, b, name, &y));
        TRY(schema_disjoint(j, &x, &y, depth + 1, yes));
    }
    return OK;
}

static status objects_differ(schema_job *j, const need *a, const need *b, int depth, bool *yes) {
    json_t *props;
    TRY(props_of(j, a, &props));
    json_t *required = required_of(a), *of_b = required_of(b);
    json_object_update(required, of_b);
    status s = schema_spend(j, json_object_size(required) + json_object_size(props) * (a->n + b->n));
    if (s == OK) s = props_differ(j, a, b, props, required, depth, yes);
    json_decref(of_b);
    json_decref(required);
    json_decref(props);
    return s;
}

static bool bounds_differ(const spec *a, const spec *b) {
    return (a->hi < b->lo || (a->hi == b->lo && (a->hi_open || b->lo_open)));
}

static status specs_differ(schema_job *j, const need *a, const spec *x, const need *b, const spec *y, int depth,
                           bool *yes) {
    *yes = !(x->meant & y->types) && !(y->meant & x->types);
    if (*yes) return OK;
    if (x->values && y->values) return lists_differ(j, x->values, y->values, yes);
    if (!(x->meant & ~(uint32_t)TYPE_NUMBER) && !(y->meant & ~(uint32_t)TYPE_NUMBER)) {
        *yes = bounds_differ(x, y) || bounds_differ(y, x);
        return OK;
    }
    if (x->meant == TYPE_OBJECT && y->meant == TYPE_OBJECT) return objects_differ(j, a, b, depth, yes);
    return OK;
}

/* An alternative of one of them: all of its own alternatives must be apart from the other. */
static status each_differs(schema_job *j, const need *a, const need_item *group, const char *keyword, uint32_t done,
                           const need *b, int depth, bool *yes) {
    *yes = true;
    size_t n = json_array_size(json_object_get(group->schema, keyword));
    for (size_t k = 0; k < n && *yes; k++) {
        need chosen = { 0 };
        TRY(need_choose(j, a, group, done, k, &chosen));
        TRY(schema_disjoint(j, &chosen, b, depth + 1, yes));
    }
    return OK;
}

status schema_disjoint(schema_job *j, const need *a_given, const need *b_given, int depth, bool *yes) {
    need a = *a_given, b = *b_given;
    *yes = false;
    TRY(schema_spend(j, 1));
    if (depth > DISJOINT_DEEP) return OK;
    TRY(need_flatten(j, &a));
    TRY(need_flatten(j, &b));
    *yes = a.never || b.never;
    if (*yes) return OK;
    const char *keyword;
    uint32_t done;
    const need_item *group = need_find_group(&a, &keyword, &done);
    if (group) return each_differs(j, &a, group, keyword, done, &b, depth, yes);
    group = need_find_group(&b, &keyword, &done);
    if (group) return each_differs(j, &b, group, keyword, done, &a, depth, yes);
    spec x, y;
    status s = spec_of(j, &a, &x);
    if (s == OK) {
        s = spec_of(j, &b, &y);
        if (s == OK) s = specs_differ(j, &a, &x, &b, &y, depth, yes);
        spec_free(&y);
    }
    spec_free(&x);
    return s;
}
