/* engine/text/schema_int.h - the steps from a schema to nodes of a grammar; for engine/text only.
 *
 * What a value must satisfy is a list of schemas, all of them (a `need`): allOf and $ref add to it, and properties of
 * the same name in several schemas make a new one. Of each different need one node is made, so recursion ends. */
#ifndef ENGINE_TEXT_SCHEMA_INT_H
#define ENGINE_TEXT_SCHEMA_INT_H
#include "engine/text/grammar_int.h"
#include "engine/text/schema.h"

/* How a schema was come to, for messages, and to see what leads back to itself. */
typedef struct place {
    const struct place *up; /* NULL: the root */
    str step;
    size_t index;         /* instead of step, when step.p is NULL */
    const json_t *schema; /* NULL: a keyword */
    bool is_inner;        /* a keyword for parts of the value: what is above speaks of another value */
} place;

enum { DONE_ANY = 1, DONE_ONE = 2, DONE_FLAT = 4 }; /* an alternative is chosen; allOf and $ref are in the list */

typedef struct need_item {
    const json_t *schema; /* an object */
    const place *at;
    uint32_t done;
} need_item;

/* No schema twice. Nothing is valid when `never`. */
typedef struct need {
    need_item *items;
    size_t n, cap;
    bool never;
} need;

enum { NEED_ITEMS_MAX = 256, SCHEMA_WORK_MAX = 4 << 20 };

typedef struct todo {
    need what;
    int32_t node;
} todo;

typedef struct schema_job {
    grammar *g;
    arena *mem;
    const json_t *root; /* that $ref looks in */
    body_mode body;     /* of strings: BODY_JSON or BODY_JSON_GUARDED */
    err *e;
    todo *todos; /* all needs so far; those from `next` on have no node filled in */
    size_t n_todos, cap_todos, next;
    uint32_t *slots; /* todo + 1 by the hash of its need */
    size_t n_slots;
    int32_t any; /* node of any value, 0: not made yet */
    size_t work;
    buf why; /* the first contradiction that was seen */
} schema_job;

void schema_job_init(schema_job *j, grammar *g, const json_t *root, body_mode body, err *e);
void schema_job_deinit(schema_job *j);
/* The node of a need, filled in by schema_job_run. A need that comes down to one schema has the same node wherever it
 * stands: then what leads back to itself is left to the grammar. */
status schema_node(schema_job *j, const need *n, int32_t *id);
status schema_job_run(schema_job *j);
/* grammar_finish, and the refusal of a root that allows nothing. */
status schema_job_finish(schema_job *j, int32_t root);

status schema_refuse(schema_job *j, status code, const place *at, const char *keyword, const char *what);
void schema_contradicts(schema_job *j, const place *at, const char *what);
status schema_spend(schema_job *j, size_t work);
const place *place_root(schema_job *j, const json_t *schema);
const place *place_anew(schema_job *j, const place *p); /* the same for messages, but nothing above led to it */
/* Adds the schema that stands below the keyword (and below name or index, when name.p or index is given) of the schema
 * at `up`. inner: it speaks of a part of the value. ERR_REQUEST: it is no schema. */
typedef struct below {
    const char *keyword;
    str name;
    size_t index;
    bool has_index, inner;
} below;
status need_put(schema_job *j, need *n, const json_t *schema, const place *up, below b);
status need_put_at(schema_job *j, need *n, const json_t *schema, const place *at, uint32_t done);
/* Adds what $ref and allOf lead to, refuses keywords that are not offered, and leaves out schemas that say nothing more
 * themselves. */
status need_flatten(schema_job *j, need *n);
/* The first schema with alternatives that have not been chosen from; NULL: none. */
const need_item *need_find_group(const need *n, const char **keyword, uint32_t *done);
/* What is left after choosing alternative k. */
status need_choose(schema_job *j, const need *n, const need_item *group, uint32_t done, size_t k, need *out);

enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_INT = 4,
    TYPE_REAL = 8, /* a number that is no integer */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127,
    TYPE_NUMBER = TYPE_INT | TYPE_REAL
};

#define SPEC_INT_MAX 1000000000000000000

/* The scalar part of a flat need. */
typedef struct spec {
    const place *at;
    uint32_t types; /* that the schemas allow */
    uint32_t meant; /* of these, what texts are made of */
    json_t *values; /* enum and const, owned; NULL: any */
    int64_t min_length, max_length, min_items, max_items, min_props, max_props;
    str pattern; /* p NULL: none */
    const place *pattern_at;
    bool is_bounded; /* numbers */
    double lo, hi;
    bool lo_open, hi_open;  /* the bound itself is out */
    int64_t int_lo, int_hi; /* the same for integers, exactly, within +-SPEC_INT_MAX */
} spec;

status spec_of(schema_job *j, const need *flat, spec *s); /* spec_free in any case */
bool spec_reads(const json_t *schema);                    /* does it say anything itself? */
void spec_free(spec *s);
bool spec_allows_scalar(const spec *s, const json_t *v, const pattern *p);
uint32_t type_of_value(const json_t *v);

/* The automaton of the pattern that there is, for strings of that kind; owned by the grammar. */
status schema_pattern(schema_job *j, const spec *s, body_mode mode, int64_t min, int64_t max, pattern **p);

/* Fills in a node. */
status build_spec(schema_job *j, const need *flat, const spec *s, int32_t id);
status build_array(schema_job *j, const need *flat, const spec *s, int32_t id);
status build_object(schema_job *j, const need *flat, const spec *s, int32_t id);
status build_values(schema_job *j, const need *flat, const spec *s, int32_t id);
status build_union(schema_job *j, int32_t id, const int32_t *nodes, size_t n);
status schema_any(schema_job *j, int32_t *id);
status schema_add(schema_job *j, int32_t *id);

/* The properties that flat schemas declare or require, in order, as name -> number; owned by the caller. */
status props_of(schema_job *j, const need *flat, json_t **out);
/* What the value of a property, of any other property must satisfy. */
status need_of_prop(schema_job *j, const need *flat, str name, need *out);
status need_of_rest(schema_job *j, const need *flat, need *out);
json_t *required_of(const need *flat); /* the required names, as members; owned by the caller */

/* Is it certain that no text made for one is valid under the other? */
status schema_disjoint(schema_job *j, const need *a, const need *b, int depth, bool *yes);

bool schema_word_fits(const schema_job *j, str word); /* guarded strings hold no closing tag */
#endif
