/* Lists of schemas that hold together: following $ref and allOf, choosing from anyOf and oneOf. */
#include "engine/text/schema_int.h"

#include "engine/base/mem.h"

#include <stdlib.h>

static const place *new_place(schema_job *j, place p) {
    place *out = arena_alloc(j->mem, sizeof *out);
    *out = p;
    return out;
}

const place *place_root(schema_job *j, const json_t *schema) { return new_place(j, (place){ .schema = schema }); }

const place *place_anew(schema_job *j, const place *p) {
    place copy = *p;
    copy.is_inner = true;
    return new_place(j, copy);
}

/* Did the schema lead to this place, for the same value? Then it cannot be a reason for itself. */
static bool is_above(const place *at, const json_t *schema) {
    for (; at; at = at->is_inner ? NULL : at->up)
        if (at->schema == schema) return true;
    return false;
}

static need_item *find_item(const need *n, const json_t *schema) {
    for (size_t i = 0; i < n->n; i++)
        if (n->items[i].schema == schema) return &n->items[i];
    return NULL;
}

status need_put_at(schema_job *j, need *n, const json_t *schema, const place *at, uint32_t done) {
    TRY(schema_spend(j, 1 + n->n));
    if (json_is_true(schema)) return OK;
    if (json_is_false(schema)) {
        schema_contradicts(j, at, "the schema is false");
        n->never = true;
        return OK;
    }
    if (!json_is_object(schema))
        return schema_refuse(j, ERR_REQUEST, at, NULL, "a schema must be an object or a boolean");
    need_item *known = find_item(n, schema);
    if (known) {
        known->done |= done;
        return OK;
    }
    if (n->n == NEED_ITEMS_MAX)
        return schema_refuse(j, ERR_UNSUPPORTED, at, NULL, "too many schemas hold for one value together");
    if (n->n == n->cap) {
        need_item *more = arena_alloc(j->mem, (2 * n->cap + 2) * sizeof *more);
        if (n->n) memcpy(more, n->items, n->n * sizeof *more);
        n->items = more;
        n->cap = 2 * n->cap + 2;
    }
    n->items[n->n++] = (need_item){ schema, at, done };
    return OK;
}

static const place *place_of(schema_job *j, const json_t *schema, const place *up, below b) {
    bool deeper = b.name.p || b.has_index;
    up = new_place(j, (place){ up, str_of(b.keyword), 0, deeper ? NULL : schema, b.inner });
    return deeper ? new_place(j, (place){ up, b.name, b.index, schema, false }) : up;
}

status need_put(schema_job *j, need *n, const json_t *schema, const place *up, below b) {
    const place *at = place_of(j, schema, up, b);
    if (!b.inner && json_is_object(schema) && is_above(up, schema)) {
        schema_contradicts(j, at, "this leads back to itself");
        n->never = true;
        return OK;
    }
    return need_put_at(j, n, schema, at, 0);
}

const need_item *need_find_group(const need *n, const char **keyword, uint32_t *done) {
    for (size_t i = 0; i < n->n; i++)
        for (int one = 0; one < 2; one++) {
            *keyword = one ? "oneOf" : "anyOf";
            *done = one ? DONE_ONE : DONE_ANY;
            if (!(n->items[i].done & *done) && json_object_get(n->items[i].schema, *keyword)) return &n->items[i];
        }
    return NULL;
}

status need_choose(schema_job *j, const need *n, const need_item *group, uint32_t done, size_t k, need *out) {
    const char *keyword = done == DONE_ONE ? "oneOf" : "anyOf";
    for (size_t i = 0; i < n->n; i++)
        TRY(need_put_at(j, out, n->items[i].schema, n->items[i].at,
                        n->items[i].done | (&n->items[i] == group ? done : 0)));
    return need_put(j, out, json_array_get(json_object_get(group->schema, keyword), k), group->at,
                    (below){ .keyword = keyword, .index = k, .has_index = true });
}

/* Keywords that would change what is valid. */
static const char *const REFUSED[] = { "not",
                                       "if",
                                       "contains",
                                       "patternProperties",
                                       "propertyNames",
                                       "dependentRequired",
                                       "dependentSchemas",
                                       "dependencies",
                                       "unevaluatedItems",
                                       "unevaluatedProperties",
                                       "$dynamicRef",
                                       "$recursiveRef",
                                       "extends",
                                       "disallow",
                                       "divisibleBy" };
enum { REFUSED_ALWAYS = 3 }; /* the first ones; the others say nothing when they are true or {} */

static bool is_idle(const json_t *v) { return json_is_true(v) || (json_is_object(v) && json_object_size(v) == 0); }

static status check_keywords(schema_job *j, const need_item *item) {
    json_t *schema = (json_t *)(uintptr_t)item->schema; /* looking up changes nothing */
    TRY(schema_spend(j, json_object_size(schema)));
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const json_t *v = json_object_get(schema, REFUSED[i]);
        if (v && (i < REFUSED_ALWAYS || !is_idle(v)))
            return schema_refuse(j, ERR_UNSUPPORTED, item->at, REFUSED[i], "this keyword is not supported");
    }
    static const char *const lists[] = { "anyOf", "oneOf", "allOf" };
    for (size_t i = 0; i < 3; i++) {
        const json_t *v = json_object_get(schema, lists[i]);
        if (v && !json_array_size(v))
            return schema_refuse(j, ERR_REQUEST, item->at, lists[i], "this must be a list of schemas, not empty");
    }
    return OK;
}

/* One step of a JSON pointer, "~0" and "~1" resolved. */
static void take_step(str *pointer, buf *step) {
    buf_clear(step);
    size_t i = 1;
    for (; i < pointer->n && pointer->p[i] != '/'; i++) {
        char c = pointer->p[i];
        if (c == '~' && i + 1 < pointer->n && (pointer->p[i + 1] == '0' || pointer->p[i + 1] == '1'))
            c = pointer->p[++i] == '0' ? '~' : '/';
        else if (c == '%' && i + 2 < pointer->n && body_is_hex((uint8_t)pointer->p[i + 1]) &&
                 body_is_hex((uint8_t)pointer->p[i + 2])) {
            char hex[3] = { pointer->p[i + 1], pointer->p[i + 2], 0 };
            c = (char)strtol(hex, NULL, 16);
            i += 2;
        }
        buf_byte(step, c);
    }
    *pointer = str_from(*pointer, i);
}

static const json_t *find_part(const json_t *from, buf *step) {
    if (!json_is_array(from)) return json_object_getn(from, step->data ? step->data : "", step->len);
    if (!step->len || step->len > 9) return NULL;
    for (size_t i = 0; i < step->len; i++)
        if (step->data[i] < '0' || step->data[i] > '9') return NULL;
    return json_array_get(from, (size_t)strtol(buf_cstr(step), NULL, 10));
}

static status resolve(schema_job *j, const need_item *item, const json_t *ref, const json_t **target) {
    str pointer = { json_string_value(ref), json_string_length(ref) };
    if (!pointer.p) return schema_refuse(j, ERR_REQUEST, item->at, "$ref", "this must be a string");
    if (!pointer.n || pointer.p[0] != '#' || (pointer.n > 1 && pointer.p[1] != '/'))
        return schema_refuse(j, ERR_UNSUPPORTED, item->at, "$ref",
                             "only references into the same schema are supported: \"#\" and \"#/...\"");
    TRY(schema_spend(j, pointer.n));
    buf step = { 0 };
    *target = j->root;
    for (pointer = str_from(pointer, 1); pointer.n && *target;) {
        take_step(&pointer, &step);
        *target = find_part(*target, &step);
    }
    buf_free(&step);
    return *target ? OK : schema_refuse(j, ERR_REQUEST, item->at, "$ref", "there is nothing at the place it names");
}

static status expand(schema_job *j, need *n, need_item item) {
    TRY(check_keywords(j, &item));
    const json_t *ref = json_object_get(item.schema, "$ref"), *all = json_object_get(item.schema, "allOf");
    if (ref) {
        const json_t *target;
        TRY(resolve(j, &item, ref, &target));
        TRY(need_put(j, n, target, item.at, (below){ .keyword = "$ref" }));
    }
    for (size_t i = 0; i < json_array_size(all); i++)
        TRY(need_put(j, n, json_array_get(all, i), item.at,
                     (below){ .keyword = "allOf", .index = i, .has_index = true }));
    return OK;
}

static bool says_more(const need_item *item) {
    return (!(item->done & DONE_ANY) && json_object_get(item->schema, "anyOf")) ||
           (!(item->done & DONE_ONE) && json_object_get(item->schema, "oneOf")) || spec_reads(item->schema);
}

status need_flatten(schema_job *j, need *n) {
    need flat = { .never = n->never };
    for (size_t i = 0; i < n->n; i++) TRY(need_put_at(j, &flat, n->items[i].schema, n->items[i].at, n->items[i].done));
    for (size_t i = 0; i < flat.n && !flat.never; i++) {
        if (flat.items[i].done & DONE_FLAT) continue;
        flat.items[i].done |= DONE_FLAT;
        TRY(expand(j, &flat, flat.items[i]));
    }
    size_t kept = 0;
    for (size_t i = 0; i < flat.n; i++)
        if (says_more(&flat.items[i])) flat.items[kept++] = flat.items[i];
    flat.n = kept;
    *n = flat;
    return OK;
}
