/* engine/text/value.h - values of the template interpreter: what Python's objects are to Jinja.
 *
 * A value is small and passed by copy. Everything it points to lives in the arena it was built in and is never freed
 * one by one; containers are shared by copies and do not change once built, except namespaces. Strings are UTF-8. No
 * locks: one arena, one thread at a time. */
#ifndef ENGINE_TEXT_VALUE_H
#define ENGINE_TEXT_VALUE_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/base/str.h"

typedef enum value_kind {
    VALUE_UNDEFINED, /* a zeroed value; `s` names what was looked up, `owner` the kind it was looked up in */
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_BIG, /* an integer beyond 64 bits, known by its spelling; `f` is near it */
    VALUE_FLOAT,
    VALUE_STR,
    VALUE_LIST,
    VALUE_TUPLE, /* a list that prints with round brackets */
    VALUE_DICT,
    VALUE_NAMESPACE, /* a dict whose members may be set */
    VALUE_LOOP,      /* the last four belong to the interpreter: tmpl_int.h */
    VALUE_MACRO,
    VALUE_METHOD,
    VALUE_FUNCTION,
    VALUE_KINDS
} value_kind;

typedef struct value_list value_list;
typedef struct value_dict value_dict;

typedef struct value {
    uint8_t kind;  /* value_kind */
    uint8_t owner; /* UNDEFINED: value_kind of the object that lacks the member; VALUE_UNDEFINED: it is a variable */
    union {
        bool b;
        str s;
        struct {
            union {
                int64_t i;
                double f;
            };
            const char *spelling; /* as in the JSON source, NUL-terminated; NULL: a computed number */
        };
        value_list *list;
        value_dict *dict;
        const void *ref;
    };
} value;

struct value_list {
    value *items;
    size_t n, cap;
};

typedef struct value_entry {
    value key; /* string, number, boolean or none */
    value val;
} value_entry;

/* In order of insertion. The index appears when a search through the entries would be slow. */
struct value_dict {
    value_entry *entries;
    size_t n, cap;
    uint32_t *slots; /* entry number + 1; 0: empty */
    size_t n_slots;
};

/* Work that recursive walks may still do, shared by all walks of one render. When it runs out, walks stop with a result
 * that means nothing: the caller looks at `left` and fails. */
typedef struct value_work {
    size_t left; /* about one unit for a node or 16 bytes */
    int depth;
    bool too_deep; /* set together with left = 0: nested more than VALUE_DEPTH_MAX */
} value_work;

enum { VALUE_DEPTH_MAX = 512 };

/* For walks: takes n units and one level of depth. False: stop. After true, value_leave ends the level. */
bool value_enter(value_work *w, size_t n);
static inline void value_leave(value_work *w) { w->depth--; }

static inline value value_undefined(void) { return (value){ .kind = VALUE_UNDEFINED }; }
static inline value value_none(void) { return (value){ .kind = VALUE_NONE }; }
static inline value value_bool(bool b) { return (value){ .kind = VALUE_BOOL, .b = b }; }
static inline value value_int(int64_t i) { return (value){ .kind = VALUE_INT, .i = i }; }
static inline value value_float(double f) { return (value){ .kind = VALUE_FLOAT, .f = f }; }
static inline value value_str(str s) { return (value){ .kind = VALUE_STR, .s = s }; }
static inline value value_of_list(value_list *l) { return (value){ .kind = VALUE_LIST, .list = l }; }
static inline value value_of_tuple(value_list *l) { return (value){ .kind = VALUE_TUPLE, .list = l }; }
static inline value value_of_dict(value_dict *d) { return (value){ .kind = VALUE_DICT, .dict = d }; }

static inline bool value_is_seq(value v) { return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE; }
static inline bool value_is_integer(value v) {
    return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_BIG;
}
static inline bool value_is_number(value v) { return value_is_integer(v) || v.kind == VALUE_FLOAT; }
static inline bool value_is_key(value v) { return v.kind == VALUE_STR || v.kind == VALUE_NONE || value_is_number(v); }
/* Python's name of the type: "str", "NoneType". */
const char *value_type(value v);

value_list *value_list_new(arena *mem, size_t cap);
void value_list_push(arena *mem, value_list *l, value v);

value_dict *value_dict_new(arena *mem, size_t cap);
/* An existing key keeps its place and takes the new value. key must be value_is_key(). */
void value_dict_set(arena *mem, value_dict *d, value key, value v);
const value *value_dict_find(const value_dict *d, value key);             /* borrowed, NULL: absent */
void value_dict_put(arena *mem, value_dict *d, const char *key, value v); /* key: a literal, not copied */
const value *value_dict_find_str(const value_dict *d, str key);

bool value_truth(value v);
bool value_equal(value a, value b, value_work *w); /* 1 == 1.0 == true, as in Python */
/* Sets *order to -1, 0, 1. False: the two have no order (Python's TypeError), or one is NaN. */
bool value_compare(value a, value b, value_work *w, int *order);
bool value_as_double(value v, double *f); /* false: no number */

/* Python's str() and repr(). Undefined prints as nothing. */
void value_print(buf *out, value v, value_work *w);
void value_repr(buf *out, value v, value_work *w);
void value_put_float(buf *out, double f); /* repr(): "1.0", "1e-07", "1e+16", "nan" */

/* json.dumps(). Numbers that carry a spelling are written with it. A zeroed one but for the separators is the default.
 */
typedef struct value_json {
    bool ensure_ascii, sort_keys;
    bool pretty; /* line breaks, `indent` once for each level */
    str indent, comma, colon;
} value_json;

/* ERR_TEMPLATE: something that JSON has no form for, named by its Python type. */
status value_to_json(buf *out, value v, const value_json *opt, value_work *w, err *e);

/* jansson's tree as a value; strings are copied. Its numbers have lost their spelling. ERR_REQUEST: nested too deeply.
 */
status value_from_json(arena *mem, value *out, const json_t *j, err *e);
/* Gives the numbers of v, which came from value_from_json, the spelling that they have at the same place of `source`,
 * where that holds an equal number. For JSON that was read by jansson and may have been changed since. */
void value_respell(value *v, value source);
/* One JSON text (RFC 8259) with white space around it; numbers carry their spelling, of equal keys the last value
 * counts. ERR_REQUEST: no such text, with the offset. */
status value_from_text(arena *mem, value *out, str text, err *e);
#endif
