/* A node for what a flat list of schemas says. */
#include "engine/text/schema_int.h"

#include <math.h>
#include <stdlib.h>

enum { DECIMALS = 6, PATTERN_WORK = 64 /* for a state */ };
#define DECIMAL_UNIT 1e6
#define DECIMAL_MAX 999999999999999 /* 9 digits before the point; exact as a double */

status build_union(schema_job *j, int32_t id, const int32_t *nodes, size_t n) {
    int32_t *kept = grammar_ids(j->g, n);
    for (size_t i = 0; i < n; i++) kept[i] = nodes[i];
    j->g->nodes[id].kind = NODE_UNION;
    j->g->nodes[id].list.nodes = kept;
    j->g->nodes[id].list.n = (int32_t)n;
    return schema_spend(j, n);
}

static bool is_inside(const spec *s, int64_t v, int sign) {
    double d = (double)v / DECIMAL_UNIT; /* the double that the decimal stands for: both are exact */
    return sign > 0 ? d > s->lo || (d == s->lo && !s->lo_open) : d < s->hi || (d == s->hi && !s->hi_open);
}

/* The outermost decimal inside of a bound. False: there is none of that size. */
static bool decimal_bound(const spec *s, int sign, int64_t *out) {
    double bound = sign > 0 ? s->lo : s->hi, scaled = bound * DECIMAL_UNIT;
    *out = -sign * DECIMAL_MAX;
    if (sign * scaled <= -DECIMAL_MAX) return true;
    if (sign * scaled >= DECIMAL_MAX) return false;
    *out = (int64_t)nearbyint(scaled) - 2 * sign; /* product and rounding are off by less than that */
    while (!is_inside(s, *out, sign)) *out += sign;
    return true;
}

static status build_number(schema_job *j, const spec *s, int32_t id) {
    node *n = &j->g->nodes[id];
    bool integer = !(s->meant & TYPE_REAL);
    *n = (node){ .kind = NODE_NUMBER, .integer = integer };
    if (!s->is_bounded) return OK;
    int64_t lo = s->int_lo, hi = s->int_hi;
    bool fits = lo <= SPEC_INT_MAX && hi >= -SPEC_INT_MAX;
    if (!integer) fits = decimal_bound(s, 1, &lo) && decimal_bound(s, -1, &hi);
    if (!fits)
        return schema_refuse(j, ERR_UNSUPPORTED, s->at, NULL,
                             integer ? "bounds of integers beyond 10^18 are not supported"
                                     : "bounds of numbers beyond 10^9 are not supported");
    if (lo > hi)
        schema_contradicts(j, s->at,
                           integer ? "no integer is within the bounds"
                                   : "no number with at most 6 decimals is within the bounds");
    *n = (node){ .kind = NODE_RANGE, .range = { lo, hi, integer ? 0 : DECIMALS } };
    return OK;
}

status schema_pattern(schema_job *j, const spec *s, body_mode mode, int64_t min, int64_t max, pattern **p) {
    err why;
    status st = pattern_new(p, s->pattern, mode, min, max < GRAMMAR_COUNT_MAX ? max : -1, &why);
    if (st != OK) return schema_refuse(j, st, s->pattern_at, "pattern", why.text);
    grammar_keep_pattern(j->g, *p);
    return schema_spend(j, s->pattern.n + PATTERN_WORK * (size_t)pattern_states(*p));
}

static status build_string(schema_job *j, const spec *s, int32_t id) {
    if (!s->pattern.p) {
        j->g->nodes[id] =
            (node){ .kind = NODE_STRING, .body = (uint8_t)j->body, .string = { s->min_length, s->max_length } };
        return OK;
    }
    pattern *p;
    TRY(schema_pattern(j, s, j->body, s->min_length, s->max_length, &p));
    if (!pattern_start(p)) schema_contradicts(j, s->at, "no string satisfies pattern and length");
    j->g->nodes[id] = (node){ .kind = NODE_PATTERN, .body = (uint8_t)j->body, .pattern = p };
    return OK;
}

static status build_literals(schema_job *j, uint32_t types, int32_t id) {
    static const str texts[] = { { "null", 4 }, { "true", 4 }, { "false", 5 } };
    bool null = types & TYPE_NULL, both = types & TYPE_BOOL;
    word_list list = grammar_words(j->g, texts + !null, NULL, (size_t)(null + (both ? 2 : 0)));
    j->g->nodes[id] = (node){ .kind = NODE_WORDS, .words = { .list = list } };
    return OK;
}

static status build_type(schema_job *j, const need *flat, const spec *s, uint32_t types, int32_t id) {
    if (types & TYPE_NUMBER) return build_number(j, s, id);
    if (types & TYPE_STRING) return build_string(j, s, id);
    if (types & TYPE_ARRAY) return build_array(j, flat, s, id);
    if (types & TYPE_OBJECT) return build_object(j, flat, s, id);
    return build_literals(j, types, id);
}

status build_spec(schema_job *j, const need *flat, const spec *s, int32_t id) {
    static const uint32_t groups[] = { TYPE_OBJECT, TYPE_ARRAY, TYPE_STRING, TYPE_NUMBER, TYPE_NULL | TYPE_BOOL };
    if (s->values) return build_values(j, flat, s, id);
    int32_t nodes[5], n = 0;
    for (size_t i = 0; i < 5; i++) n += (s->meant & groups[i]) != 0;
    bool alone = n == 1;
    n = 0;
    for (size_t i = 0; i < 5; i++) {
        if (!(s->meant & groups[i])) continue;
        nodes[n] = id;
        if (!alone) TRY(schema_add(j, &nodes[n]));
        TRY(build_type(j, flat, s, s->meant & groups[i], nodes[n++]));
    }
    return n > 1 ? build_union(j, id, nodes, (size_t)n) : OK;
}

/* The schemas of the first items, and of the others; drafts before 2020 spell both differently. */
static const json_t *prefix_of(const json_t *schema) {
    const json_t *items = json_object_get(schema, "items");
    return json_is_array(items) ? items : json_object_get(schema, "prefixItems");
}

static const json_t *rest_of(const json_t *schema, const char **keyword) {
    const json_t *items = json_object_get(schema, "items");
    *keyword = json_is_array(items) ? "additionalItems" : "items";
    return json_is_array(items) ? json_object_get(schema, "additionalItems") : items;
}

/* What item i must satisfy; i = SIZE_MAX: those behind all prefixes. */
static status need_of_item(schema_job *j, const need *flat, size_t i, need *out) {
    for (size_t k = 0; k < flat->n; k++) {
        const need_item *item = &flat->items[k];
        const json_t *prefix = prefix_of(item->schema);
        const char *keyword;
        const json_t *rest = rest_of(item->schema, &keyword);
        if (i < json_array_size(prefix))
            TRY(need_put(j, out, json_array_get(prefix, i), item->at,
                         (below){ .keyword = "prefixItems", .index = i, .has_index = true, .inner = true }));
        else if (rest)
            TRY(need_put(j, out, rest, item->at, (below){ .keyword = keyword, .inner = true }));
    }
    return OK;
}

static bool has_rest(const need *flat) {
    const char *keyword;
    for (size_t k = 0; k < flat->n; k++)
        if (rest_of(flat->items[k].schema, &keyword)) return true;
    return false;
}

status build_array(schema_job *j, const need *flat, const spec *s, int32_t id) {
    size_t n = 0;
    for (size_t k = 0; k < flat->n; k++) {
        size_t own = json_array_size(prefix_of(flat->items[k].schema));
        if (own > n) n = own;
    }
    if ((int64_t)n > s->max_items) n = (size_t)s->max_items;
    int32_t *prefix = grammar_ids(j->g, n), rest = 0;
    for (size_t i = 0; i < n; i++) {
        need item = { 0 };
        TRY(need_of_item(j, flat, i, &item));
        TRY(schema_node(j, &item, &prefix[i]));
    }
    need others = { 0 };
    TRY(need_of_item(j, flat, SIZE_MAX, &others));
    bool open = n == 0 || has_rest(flat) || s->min_items > (int64_t)n;
    if (open && !others.never) TRY(schema_node(j, &others, &rest));
    int64_t max = rest || s->max_items < (int64_t)n ? s->max_items : (int64_t)n;
    if (s->min_items > max) schema_contradicts(j, s->at, "there must be more items than there may be");
    j->g->nodes[id] =
        (node){ .kind = NODE_ARRAY,
                .array = { .prefix = prefix, .n_prefix = (int32_t)n, .rest = rest, .min = s->min_items, .max = max } };
    return OK;
}
