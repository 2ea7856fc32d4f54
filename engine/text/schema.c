/* The list of needs, and what turns one into a node: references and alternatives here, everything else in build_spec.
 */
#include "engine/text/schema_int.h"

#include "engine/base/hash.h"
#include "engine/base/mem.h"

#include <stdlib.h>

void schema_job_init(schema_job *j, grammar *g, const json_t *root, body_mode body, err *e) {
    *j = (schema_job){ .g = g, .mem = arena_new(), .root = root, .body = body, .e = e };
}

void schema_job_deinit(schema_job *j) {
    free(j->todos);
    free(j->slots);
    buf_free(&j->why);
    arena_free(j->mem);
}

/* As a JSON pointer; a long one keeps its end. */
static void put_place(buf *out, const place *at) {
    enum { PLACES_SHOWN = 16, NAME_SHOWN = 64 };
    const place *way[PLACES_SHOWN];
    size_t n = 0;
    for (; at && at->up && n < PLACES_SHOWN; at = at->up) way[n++] = at;
    buf_str(out, at && at->up ? STR("#/...") : STR("#"));
    while (n-- > 0) {
        str s = way[n]->step;
        buf_byte(out, '/');
        if (!s.p)
            buf_printf(out, "%zu", way[n]->index);
        else
            buf_printf(out, "%.*s%s", s.n > NAME_SHOWN ? NAME_SHOWN : (int)s.n, s.p, s.n > NAME_SHOWN ? "..." : "");
    }
}

status schema_refuse(schema_job *j, status code, const place *at, const char *keyword, const char *what) {
    buf where = { 0 };
    put_place(&where, at);
    if (keyword) buf_printf(&where, "/%s", keyword);
    status s = err_set(j->e, code, "schema: %s: %s", buf_cstr(&where), what);
    buf_free(&where);
    return s;
}

void schema_contradicts(schema_job *j, const place *at, const char *what) {
    if (j->why.len) return;
    put_place(&j->why, at);
    buf_printf(&j->why, ": %s", what);
}

static status too_large(schema_job *j) {
    return err_set(j->e, ERR_UNSUPPORTED,
                   "schema: too large: at most %d parts, alternatives multiplied out, and few large patterns",
                   GRAMMAR_NODES_MAX);
}

status schema_spend(schema_job *j, size_t work) {
    j->work += work;
    return j->work > SCHEMA_WORK_MAX || j->g->links > GRAMMAR_LINKS_MAX || j->g->bytes > GRAMMAR_BYTES_MAX
               ? too_large(j)
               : OK;
}

status schema_add(schema_job *j, int32_t *id) {
    *id = grammar_add(j->g);
    return *id < 0 ? too_large(j) : OK;
}

status schema_any(schema_job *j, int32_t *id) {
    if (!j->any) {
        int32_t any = grammar_add_any(j->g, j->body);
        if (any < 0) return too_large(j);
        j->any = any;
    }
    *id = j->any;
    return OK;
}

static uint64_t need_hash(const need *n) {
    hash64 h = hash64_begin(n->n);
    for (size_t i = 0; i < n->n; i++) {
        hash64_put(&h, &n->items[i].schema, sizeof n->items[i].schema);
        hash64_put(&h, &n->items[i].done, sizeof n->items[i].done);
    }
    return hash64_end(&h);
}

static bool need_is(const need *a, const need *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->items[i].schema != b->items[i].schema || a->items[i].done != b->items[i].done) return false;
    return true;
}

static uint32_t *need_slot(const schema_job *j, const need *n) {
    size_t i = need_hash(n) % j->n_slots;
    while (j->slots[i] && !need_is(&j->todos[j->slots[i] - 1].what, n)) i = (i + 1) % j->n_slots;
    return &j->slots[i];
}

static void make_room(schema_job *j) {
    if (j->n_todos < j->cap_todos) return;
    j->cap_todos = 2 * j->cap_todos + 64;
    j->todos = xrealloc(j->todos, j->cap_todos * sizeof *j->todos);
    free(j->slots);
    j->n_slots = 2 * j->cap_todos + 1;
    j->slots = xalloc(j->n_slots * sizeof *j->slots);
    for (size_t i = 0; i < j->n_todos; i++) *need_slot(j, &j->todos[i].what) = (uint32_t)i + 1;
}

status schema_node(schema_job *j, const need *given, int32_t *id) {
    need n = *given;
    TRY(need_flatten(j, &n));
    if (n.never) return *id = NODE_EMPTY, OK;
    if (!n.n) return schema_any(j, id);
    if (n.n == 1) n.items[0].at = place_anew(j, n.items[0].at);
    make_room(j);
    uint32_t *slot = need_slot(j, &n);
    if (!*slot) {
        int32_t node;
        TRY(schema_add(j, &node));
        j->todos[j->n_todos++] = (todo){ n, node };
        *slot = (uint32_t)j->n_todos;
    }
    *id = j->todos[*slot - 1].node;
    return OK;
}

/* No value may be valid under two alternatives of oneOf. */
static status check_one_of(schema_job *j, const need *flat, const need_item *group, size_t n) {
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++) {
            need x = { 0 }, y = { 0 };
            bool yes;
            TRY(need_choose(j, flat, group, DONE_ONE, a, &x));
            TRY(need_choose(j, flat, group, DONE_ONE, b, &y));
            TRY(schema_disjoint(j, &x, &y, 0, &yes));
            if (yes) continue;
            buf what = { 0 };
            buf_printf(
                &what,
                "a value may be valid under both alternatives %zu and %zu, which is not supported; use anyOf, or "
                "a required property that tells them apart by const",
                a, b);
            status s = schema_refuse(j, ERR_UNSUPPORTED, group->at, "oneOf", buf_cstr(&what));
            buf_free(&what);
            return s;
        }
    return OK;
}

static status build_group(schema_job *j, const need *flat, const need_item *group, const char *keyword, uint32_t done,
                          int32_t id) {
    size_t n = json_array_size(json_object_get(group->schema, keyword));
    if (done == DONE_ONE) TRY(check_one_of(j, flat, group, n));
    int32_t *nodes = arena_alloc(j->mem, (n + 1) * sizeof *nodes);
    for (size_t k = 0; k < n; k++) {
        need chosen = { 0 };
        TRY(need_choose(j, flat, group, done, k, &chosen));
        TRY(schema_node(j, &chosen, &nodes[k]));
    }
    return build_union(j, id, nodes, n);
}

static status build_node(schema_job *j, const need *flat, int32_t id) {
    const char *keyword;
    uint32_t done;
    const need_item *group = need_find_group(flat, &keyword, &done);
    if (group) return build_group(j, flat, group, keyword, done, id);
    spec sp;
    status s = spec_of(j, flat, &sp);
    if (s == OK) s = build_spec(j, flat, &sp, id);
    spec_free(&sp);
    return s;
}

status schema_job_run(schema_job *j) {
    for (; j->next < j->n_todos; j->next++) {
        todo t = j->todos[j->next];
        TRY(build_node(j, &t.what, t.node));
    }
    return OK;
}

status schema_job_finish(schema_job *j, int32_t root) {
    j->g->root = root;
    TRY(grammar_finish(j->g, j->e));
    if (j->g->nodes[root].height <= GRAMMAR_DEPTH) return OK;
    if (!j->why.len)
        buf_printf(&j->why, "every value would be nested more than %d deep, or without end", GRAMMAR_DEPTH);
    return err_set(j->e, ERR_REQUEST, "schema: nothing is valid under it: %s", buf_cstr(&j->why));
}

status grammar_of_schema(grammar **out, const json_t *schema, err *e) {
    grammar *g = grammar_new();
    schema_job j;
    schema_job_init(&j, g, schema, BODY_JSON, e);
    need n = { 0 };
    int32_t root;
    status s = need_put_at(&j, &n, schema, place_root(&j, schema), 0);
    if (s == OK) s = schema_node(&j, &n, &root);
    if (s == OK) s = schema_job_run(&j);
    if (s == OK) s = schema_job_finish(&j, root);
    schema_job_deinit(&j);
    if (s == OK)
        *out = g;
    else
        grammar_free(g);
    return s;
}
