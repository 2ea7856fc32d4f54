/* Construction, truth, equality and order. Printing is in value_print.c, JSON in value_json.c. */
#include "engine/text/value.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/random.h>

enum { INDEX_FROM = 16 }; /* entries; below, comparing keys one by one is as fast as hashing */

const char *value_type(value v) {
    static const char *const names[VALUE_KINDS] = {
        [VALUE_UNDEFINED] = "Undefined",
        [VALUE_NONE] = "NoneType",
        [VALUE_BOOL] = "bool",
        [VALUE_INT] = "int",
        [VALUE_BIG] = "int",
        [VALUE_FLOAT] = "float",
        [VALUE_STR] = "str",
        [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",
        [VALUE_DICT] = "dict",
        [VALUE_NAMESPACE] = "Namespace",
        [VALUE_LOOP] = "LoopContext",
        [VALUE_MACRO] = "Macro",
        [VALUE_METHOD] = "method",
        [VALUE_FUNCTION] = "function",
    };
    CHECK(v.kind < VALUE_KINDS);
    return names[v.kind];
}

/* An arena has no realloc: a full array moves to twice the room, and the old one stays until the arena goes. */
static void *grow(arena *mem, const void *old, size_t n, size_t *cap, size_t size) {
    *cap = *cap ? *cap * 2 : 8;
    void *p = arena_alloc(mem, *cap * size);
    if (n) memcpy(p, old, n * size);
    return p;
}

value_list *value_list_new(arena *mem, size_t cap) {
    value_list *l = arena_alloc(mem, sizeof *l);
    l->cap = cap;
    if (cap) l->items = arena_alloc(mem, cap * sizeof *l->items);
    return l;
}

void value_list_push(arena *mem, value_list *l, value v) {
    if (l->n == l->cap) l->items = grow(mem, l->items, l->n, &l->cap, sizeof *l->items);
    l->items[l->n++] = v;
}

value_dict *value_dict_new(arena *mem, size_t cap) {
    value_dict *d = arena_alloc(mem, sizeof *d);
    d->cap = cap;
    if (cap) d->entries = arena_alloc(mem, cap * sizeof *d->entries);
    return d;
}

/* Keys come from requests. Whoever can make a million of them fall on one place stops the server, so the hash is keyed
 * with a secret of the process: SipHash-1-3 (Aumasson, Bernstein: SipHash, a fast short-input PRF). */
static uint64_t secret(void) {
    static _Atomic uint64_t kept;
    uint64_t s = atomic_load(&kept), none = 0;
    if (s) return s;
    if (getrandom(&s, sizeof s, 0) != sizeof s || !s) s = (uint64_t)(uintptr_t)&kept | 1; /* where the loader put it */
    return atomic_compare_exchange_strong(&kept, &none, s) ? s : none;
}

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static uint64_t sip_hash(uint64_t key, str s) {
    uint64_t v[4] = { key ^ 0x736F6D6570736575u, ~key ^ 0x646F72616E646F6Du, key ^ 0x6C7967656E657261u,
                      ~key ^ 0x7465646279746573u };
    for (size_t at = 0;; at += 8) {
        size_t n = s.n - at < 8 ? s.n - at : 8;
        uint64_t word = n < 8 ? (uint64_t)s.n << 56 : 0;
        if (n) memcpy(&word, s.p + at, n);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
        if (n < 8) break;
    }
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Keys that are equal must hash alike: 1, 1.0 and true are one key, so numbers hash by their double. */
static size_t hash_key(value k) {
    double f;
    unsigned char bytes[sizeof f];
    str s = k.s;
    if (k.kind == VALUE_NONE) return 0;
    if (k.kind != VALUE_STR) {
        if (!value_as_double(k, &f)) return 0;
        if (f == 0) f = 0; /* -0.0 equals 0.0 */
        memcpy(bytes, &f, sizeof f);
        s = (str){ (const char *)bytes, sizeof f };
    }
    return (size_t)sip_hash(secret(), s);
}

static bool same_key(value a, value b) {
    if (a.kind == VALUE_STR || b.kind == VALUE_STR) return a.kind == b.kind && str_eq(a.s, b.s);
    value_work w = { .left = 4 };
    return value_equal(a, b, &w);
}

static void index_add(value_dict *d, size_t entry) {
    size_t mask = d->n_slots - 1, at = hash_key(d->entries[entry].key) & mask;
    while (d->slots[at]) at = (at + 1) & mask;
    d->slots[at] = (uint32_t)entry + 1;
}

static void index_rebuild(arena *mem, value_dict *d) {
    d->n_slots = INDEX_FROM * 4;
    while (d->n_slots < d->n * 4) d->n_slots *= 2;
    d->slots = arena_alloc(mem, d->n_slots * sizeof *d->slots);
    for (size_t i = 0; i < d->n; i++) index_add(d, i);
}

static value_entry *find_entry(const value_dict *d, value key) {
    if (d->slots) {
        size_t mask = d->n_slots - 1;
        for (size_t at = hash_key(key) & mask; d->slots[at]; at = (at + 1) & mask) {
            value_entry *en = &d->entries[d->slots[at] - 1];
            if (same_key(en->key, key)) return en;
        }
        return NULL;
    }
    for (size_t i = 0; i < d->n; i++)
        if (same_key(d->entries[i].key, key)) return &d->entries[i];
    return NULL;
}

void value_dict_set(arena *mem, value_dict *d, value key, value v) {
    DCHECK(value_is_key(key));
    value_entry *en = find_entry(d, key);
    if (en) {
        en->val = v;
        return;
    }
    CHECK(d->n < UINT32_MAX / 4);
    if (d->n == d->cap) d->entries = grow(mem, d->entries, d->n, &d->cap, sizeof *d->entries);
    d->entries[d->n++] = (value_entry){ key, v };
    if (d->n <= INDEX_FROM) return;
    if (!d->slots || d->n * 2 > d->n_slots)
        index_rebuild(mem, d);
    else
        index_add(d, d->n - 1);
}

const value *value_dict_find(const value_dict *d, value key) {
    if (!value_is_key(key)) return NULL;
    const value_entry *en = find_entry(d, key);
    return en ? &en->val : NULL;
}

void value_dict_put(arena *mem, value_dict *d, const char *key, value v) {
    value_dict_set(mem, d, value_str(str_of(key)), v);
}

const value *value_dict_find_str(const value_dict *d, str key) { return value_dict_find(d, value_str(key)); }

bool value_truth(value v) {
    switch ((value_kind)v.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL: return v.b;
    case VALUE_INT: return v.i != 0;
    case VALUE_FLOAT: return v.f != 0;
    case VALUE_STR: return v.s.n != 0;
    case VALUE_LIST:
    case VALUE_TUPLE: return v.list->n != 0;
    case VALUE_DICT: return v.dict->n != 0;
    default: return true;
    }
}

bool value_as_double(value v, double *f) {
    switch (v.kind) {
    case VALUE_BOOL: *f = v.b; return true;
    case VALUE_INT: *f = (double)v.i; return true;
    case VALUE_BIG:
    case VALUE_FLOAT: *f = v.f; return true;
    default: return false;
    }
}

bool value_enter(value_work *w, size_t n) {
    if (w->left < n) w->left = 0;
    if (!w->left) return false;
    if (w->depth >= VALUE_DEPTH_MAX) {
        w->left = 0;
        w->too_deep = true;
        return false;
    }
    w->left -= n;
    w->depth++;
    return true;
}

/* Order of two integers of equal sign whose doubles are equal and of which at least one is big. */
static int compare_big(value a, value b) {
    int sign = (a.kind == VALUE_BIG ? a : b).f < 0 ? -1 : 1;
    if (a.kind != b.kind) return a.kind == VALUE_BIG ? sign : -sign;
    size_t m = strlen(a.spelling), n = strlen(b.spelling);
    int c = m == n ? strcmp(a.spelling, b.spelling) : m > n ? 1 : -1;
    return c > 0 ? sign : c < 0 ? -sign : 0;
}

/* Order of two numbers; exact between integers, which a double would round. False: NaN. */
static bool compare_numbers(value a, value b, int *order) {
    if ((a.kind == VALUE_INT || a.kind == VALUE_BOOL) && (b.kind == VALUE_INT || b.kind == VALUE_BOOL)) {
        int64_t x = a.kind == VALUE_BOOL ? a.b : a.i, y = b.kind == VALUE_BOOL ? b.b : b.i;
        *order = (x > y) - (x < y);
        return true;
    }
    double x, y;
    if (!value_as_double(a, &x) || !value_as_double(b, &y) || isnan(x) || isnan(y)) return false;
    *order = (x > y) - (x < y);
    if (*order == 0 && value_is_integer(a) && value_is_integer(b)) *order = compare_big(a, b);
    return true;
}

static bool dicts_equal(const value_dict *a, const value_dict *b, value_work *w) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const value *other = value_dict_find(b, a->entries[i].key);
        if (!other || !value_equal(a->entries[i].val, *other, w)) return false;
    }
    return true;
}

static bool lists_equal(const value_list *a, const value_list *b, value_work *w) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!value_equal(a->items[i], b->items[i], w)) return false;
    return true;
}

bool value_equal(value a, value b, value_work *w) {
    int order;
    bool equal = false;
    if (value_is_number(a) && value_is_number(b)) return compare_numbers(a, b, &order) && order == 0;
    if (a.kind != b.kind || !value_enter(w, 1)) return false;
    switch ((value_kind)a.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: equal = true; break;
    case VALUE_STR: equal = str_eq(a.s, b.s); break;
    case VALUE_LIST:
    case VALUE_TUPLE: equal = a.list == b.list || lists_equal(a.list, b.list, w); break;
    case VALUE_DICT: equal = a.dict == b.dict || dicts_equal(a.dict, b.dict, w); break;
    default: equal = a.ref == b.ref; break;
    }
    value_leave(w);
    return equal;
}

bool value_compare(value a, value b, value_work *w, int *order) {
    if (value_is_number(a) && value_is_number(b)) return compare_numbers(a, b, order);
    if (a.kind != b.kind) return false;
    if (a.kind == VALUE_STR) {
        *order = str_order(a.s, b.s);
        return true;
    }
    if (!value_is_seq(a) || !value_enter(w, 1)) return false;
    size_t i = 0, n = a.list->n < b.list->n ? a.list->n : b.list->n;
    while (i < n && value_equal(a.list->items[i], b.list->items[i], w)) i++;
    bool ordered = true;
    if (i < n)
        ordered = value_compare(a.list->items[i], b.list->items[i], w, order);
    else
        *order = (a.list->n > b.list->n) - (a.list->n < b.list->n);
    value_leave(w);
    return ordered;
}
