/* Objects: what the schemas of a list say together about each property. */
#include "engine/text/schema_int.h"

#include <stdlib.h>

bool schema_word_fits(const schema_job *j, str word) {
    return !body_is_guarded(j->body) || (!memmem(word.p, word.n, BODY_TAG_ARG, BODY_TAG_BYTES) &&
                                         !memmem(word.p, word.n, BODY_TAG_CALL, BODY_TAG_BYTES));
}

static status add_name(schema_job *j, json_t *props, str name) {
    if (!json_object_getn(props, name.p, name.n))
        json_object_setn_new(props, name.p, name.n, json_integer((json_int_t)json_object_size(props)));
    return schema_spend(j, 1 + name.n / 16);
}

status props_of(schema_job *j, const need *flat, json_t **out) {
    json_t *props = json_object();
    status s = OK;
    for (size_t k = 0; k < flat->n && s == OK; k++) {
        json_t *own = json_object_get(flat->items[k].schema, "properties");
        for (void *it = json_object_iter(own); it && s == OK; it = json_object_iter_next(own, it))
            s = add_name(j, props, (str){ json_object_iter_key(it), json_object_iter_key_len(it) });
    }
    for (size_t k = 0; k < flat->n && s == OK; k++) {
        const json_t *own = json_object_get(flat->items[k].schema, "required");
        for (size_t i = 0; i < json_array_size(own) && s == OK; i++) {
            const json_t *name = json_array_get(own, i);
            s = add_name(j, props, (str){ json_string_value(name), json_string_length(name) });
        }
    }
    if (s == OK)
        *out = props;
    else
        json_decref(props);
    return s;
}

status need_of_prop(schema_job *j, const need *flat, str name, need *out) {
    for (size_t k = 0; k < flat->n; k++) {
        const need_item *item = &flat->items[k];
        const json_t *own = json_object_getn(json_object_get(item->schema, "properties"), name.p, name.n),
                     *others = json_object_get(item->schema, "additionalProperties");
        if (own)
            TRY(need_put(j, out, own, item->at,
                         (below){ .keyword = "properties", .name = arena_str(j->mem, name), .inner = true }));
        else if (others)
            TRY(need_put(j, out, others, item->at, (below){ .keyword = "additionalProperties", .inner = true }));
    }
    return OK;
}

status need_of_rest(schema_job *j, const need *flat, need *out) {
    for (size_t k = 0; k < flat->n; k++) {
        const json_t *others = json_object_get(flat->items[k].schema, "additionalProperties");
        if (others)
            TRY(need_put(j, out, others, flat->items[k].at,
                         (below){ .keyword = "additionalProperties", .inner = true }));
    }
    return OK;
}

json_t *required_of(const need *flat) {
    json_t *names = json_object();
    for (size_t k = 0; k < flat->n; k++) {
        const json_t *own = json_object_get(flat->items[k].schema, "required");
        for (size_t i = 0; i < json_array_size(own); i++) {
            const json_t *name = json_array_get(own, i);
            json_object_setn_new(names, json_string_value(name), json_string_length(name), json_true());
        }
    }
    return names;
}

/* An object that declares no properties may have any; otherwise it has others only when the schema says so. */
static bool may_have_others(const need *flat, size_t n_props) {
    bool said = false;
    for (size_t k = 0; k < flat->n; k++) said |= json_object_get(flat->items[k].schema, "additionalProperties") != NULL;
    return said || !n_props;
}

typedef struct object_parts {
    node_object o;
    str *words;       /* keys as they are spelled */
    int32_t *numbers; /* of the properties, with the words */
    json_t *required;
    buf spelled;
} object_parts;

/* minProperties and maxProperties, where they follow from the rest. *never: the object cannot be. */
static status check_counts(schema_job *j, const spec *s, const object_parts *p, bool *never) {
    int64_t n = p->o.n, n_required = (int64_t)json_object_size(p->required);
    bool few = s->max_props<n_required, many = s->min_props> n && !p->o.rest;
    if (few) schema_contradicts(j, s->at, "more properties are required than there may be");
    if (many) schema_contradicts(j, s->at, "there must be more properties than there are");
    *never = few || many;
    if (*never) return OK;
    if (s->min_props > n_required)
        return schema_refuse(j, ERR_UNSUPPORTED, s->at, "minProperties",
                             "this is only supported when so many properties are required");
    if (s->max_props < n || (p->o.rest && s->max_props < GRAMMAR_COUNT_MAX))
        return schema_refuse(j, ERR_UNSUPPORTED, s->at, "maxProperties",
                             "this is only supported when no more properties are declared, and no others are allowed");
    return OK;
}

static status add_prop(schema_job *j, const need *flat, str name, object_parts *p) {
    int32_t i = p->o.n++;
    need value = { 0 };
    TRY(need_of_prop(j, flat, name, &value));
    buf_clear(&p->spelled);
    buf_json_str(&p->spelled, name);
    p->words[i] = arena_str(j->mem, (str){ p->spelled.data + 1, p->spelled.len - 2 });
    p->numbers[i] = i;
    if (!schema_word_fits(j, p->words[i])) {
        schema_contradicts(j, flat->items[0].at, "the name of a property holds a closing tag of tool calls");
        value.never = true;
    }
    p->o.needed[i] = json_object_getn(p->required, name.p, name.n) ? i : -1;
    return schema_node(j, &value, &p->o.values[i]);
}

static status add_props(schema_job *j, const need *flat, const spec *s, json_t *props, object_parts *p) {
    size_t n = json_object_size(props);
    p->o.values = grammar_ids(j->g, n);
    p->o.needed = grammar_ids(j->g, n + 1);
    p->words = arena_alloc(j->mem, (n + 1) * sizeof *p->words);
    p->numbers = arena_alloc(j->mem, (n + 1) * sizeof *p->numbers);
    for (void *it = json_object_iter(props); it; it = json_object_iter_next(props, it))
        TRY(add_prop(j, flat, (str){ json_object_iter_key(it), json_object_iter_key_len(it) }, p));
    p->o.needed[n] = (int32_t)n;
    for (size_t i = n; i-- > 0;)
        if (p->o.needed[i] < 0) p->o.needed[i] = p->o.needed[i + 1];
    need others = { 0 };
    TRY(need_of_rest(j, flat, &others));
    if (may_have_others(flat, n) && !others.never && s->max_props != (int64_t)n)
        TRY(schema_node(j, &others, &p->o.rest));
    return OK;
}

status build_object(schema_job *j, const need *flat, const spec *s, int32_t id) {
    json_t *props;
    bool never = false;
    TRY(props_of(j, flat, &props));
    object_parts p = { .required = required_of(flat) };
    status st = add_props(j, flat, s, props, &p);
    if (st == OK) st = check_counts(j, s, &p, &never);
    if (st == OK && !never) {
        p.o.keys = grammar_words(j->g, p.words, p.numbers, (size_t)p.o.n);
        bool guarded = body_is_guarded(j->body);
        j->g->nodes[id] =
            (node){ .kind = NODE_OBJECT, .body = (uint8_t)(guarded ? BODY_KEY_GUARDED : BODY_KEY), .object = p.o };
    }
    json_decref(p.required);
    json_decref(props);
    buf_free(&p.spelled);
    return st;
}
