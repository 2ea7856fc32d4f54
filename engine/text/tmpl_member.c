/* Reaching into values: x.name, x[key], slices, iteration. What is not there is undefined, not an error; only reaching
 * into something undefined fails. */
#include "engine/text/tmpl_int.h"

#include "engine/text/uchar.h"

static value absent(value of, str name) { return (value){ .kind = VALUE_UNDEFINED, .owner = of.kind, .s = name }; }

static value loop_member(const loop_state *loop, value of, str name) {
    size_t n = loop->items->n, i = loop->index;
    if (str_eq(name, STR("index"))) return value_int((int64_t)i + 1);
    if (str_eq(name, STR("index0"))) return value_int((int64_t)i);
    if (str_eq(name, STR("first"))) return value_bool(i == 0);
    if (str_eq(name, STR("last"))) return value_bool(i + 1 == n);
    if (str_eq(name, STR("length"))) return value_int((int64_t)n);
    if (str_eq(name, STR("revindex"))) return value_int((int64_t)(n - i));
    if (str_eq(name, STR("revindex0"))) return value_int((int64_t)(n - i) - 1);
    if (str_eq(name, STR("depth"))) return value_int(1);
    if (str_eq(name, STR("depth0"))) return value_int(0);
    if (str_eq(name, STR("previtem")) && i > 0) return loop->items->items[i - 1];
    if (str_eq(name, STR("nextitem")) && i + 1 < n) return loop->items->items[i + 1];
    return absent(of, name);
}

/* A method of the object, or undefined. As in Jinja it hides a member of a dict with the same name. */
static value bound_method(run *r, value of, str name) {
    const method *m = method_find_(of.kind, name);
    if (!m) return absent(of, name);
    method_value *mv = arena_alloc(r->mem, sizeof *mv);
    *mv = (method_value){ of, m };
    return (value){ .kind = VALUE_METHOD, .ref = mv };
}

status run_member_(run *r, value of, str name, value *out) {
    if (of.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, of);
    *out = bound_method(r, of, name);
    if (out->kind != VALUE_UNDEFINED) return OK;
    if (of.kind == VALUE_LOOP) {
        *out = loop_member(of.ref, of, name);
    } else if (of.kind == VALUE_DICT || of.kind == VALUE_NAMESPACE) {
        const value *v = value_dict_find_str(of.dict, name);
        if (v) *out = *v;
    }
    return OK;
}

/* Python's reading of an index: from the end when negative. False: outside. */
static bool place(int64_t i, size_t n, size_t *out) {
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return false;
    *out = (size_t)i;
    return true;
}

static value char_at(str s, int64_t i, value missing) {
    size_t nth, n = i < 0 ? uchar_count(s) : s.n; /* characters; for an index from the start more than enough */
    if (!place(i, n, &nth)) return missing;
    size_t at = uchar_offset(s, nth);
    uint32_t cp;
    if (at >= s.n) return missing;
    return value_str((str){ s.p + at, uchar_next(str_from(s, at), &cp) });
}

static str key_text(run *r, value key) {
    buf text = { 0 };
    value_print(&text, key, &r->work);
    return run_take_text_(r, &text).s;
}

status run_item_(run *r, value of, value key, value *out) {
    size_t at;
    if (of.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, of);
    if (of.kind == VALUE_DICT) {
        const value *v = value_dict_find(of.dict, key);
        if (v) {
            *out = *v;
            return OK;
        }
    }
    if (key.kind == VALUE_STR) return run_member_(r, of, key.s, out);
    *out = absent(of, key_text(r, key));
    if (key.kind != VALUE_INT && key.kind != VALUE_BOOL) return OK;
    int64_t i = key.kind == VALUE_BOOL ? key.b : key.i;
    if (of.kind == VALUE_STR) {
        TRY(run_charge_(r, of.s.n / 16));
        *out = char_at(of.s, i, *out);
    } else if (value_is_seq(of) && place(i, of.list->n, &at)) {
        *out = of.list->items[at];
    }
    return OK;
}

/* ---- slices ---- */

typedef struct range {
    int64_t from, step;
    size_t n;
} range;

/* A bound that is given, moved into lo..hi. */
static int64_t clamp(value v, int64_t n, int64_t lo, int64_t hi, int64_t otherwise) {
    if (v.kind == VALUE_NONE) return otherwise;
    int64_t i = v.kind == VALUE_BOOL ? v.b : v.i;
    if (i < 0) i = i < -n ? lo : i + n;
    return i < lo ? lo : i > hi ? hi : i;
}

/* Which of size elements from:to:step takes. */
static status resolve(run *r, size_t size, value from, value to, value step, range *out) {
    int64_t n = (int64_t)size, by = step.kind == VALUE_NONE ? 1 : step.kind == VALUE_BOOL ? step.b : step.i;
    if (!by) return run_fail_(r, "slice step cannot be zero");
    int64_t lo = by > 0 ? 0 : -1, hi = by > 0 ? n : n - 1;
    int64_t first = clamp(from, n, lo, hi, by > 0 ? lo : hi), end = clamp(to, n, lo, hi, by > 0 ? hi : lo);
    uint64_t span = by > 0 ? (end > first ? (uint64_t)(end - first) : 0) : (first > end ? (uint64_t)(first - end) : 0);
    uint64_t stride = by > 0 ? (uint64_t)by : (uint64_t)(-(by + 1)) + 1; /* -INT64_MIN has no int64_t */
    *out = (range){ first, by, (size_t)(span / stride + (span % stride != 0)) };
    return OK;
}

static status slice_string(run *r, str s, value from, value to, value step, value *out) {
    range rg;
    size_t n = uchar_count(s);
    TRY(resolve(r, n, from, to, step, &rg));
    if (!rg.n) {
        *out = value_str(STR(""));
        return OK;
    }
    if (rg.step == 1) {
        size_t at = uchar_offset(s, (size_t)rg.from);
        *out = value_str((str){ s.p + at, uchar_offset(str_from(s, at), rg.n) });
        return OK;
    }
    const value_list *chars;
    buf text = { 0 };
    TRY(run_iterate_(r, value_str(s), &chars));
    for (size_t i = 0; i < rg.n; i++) buf_str(&text, chars->items[rg.from + (int64_t)i * rg.step].s);
    *out = run_take_text_(r, &text);
    return OK;
}

static status slice_list(run *r, value of, value from, value to, value step, value *out) {
    range rg;
    TRY(resolve(r, of.list->n, from, to, step, &rg));
    value_list *l = value_list_new(r->mem, 0);
    if (rg.step == 1) {
        *l =
            (value_list){ of.list->items + rg.from, rg.n, rg.n }; /* containers never change: the elements are shared */
    } else {
        TRY(run_charge_(r, rg.n));
        for (size_t i = 0; i < rg.n; i++) value_list_push(r->mem, l, of.list->items[rg.from + (int64_t)i * rg.step]);
    }
    *out = of.kind == VALUE_TUPLE ? value_of_tuple(l) : value_of_list(l);
    return OK;
}

status run_slice_(run *r, value of, value from, value to, value step, value *out) {
    const value bounds[] = { from, to, step };
    if (of.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, of);
    if (of.kind != VALUE_STR && !value_is_seq(of)) return run_fail_(r, "'%s' object has no slices", value_type(of));
    for (int i = 0; i < 3; i++)
        if (bounds[i].kind != VALUE_NONE && bounds[i].kind != VALUE_INT && bounds[i].kind != VALUE_BOOL)
            return run_fail_(r, "slice indices must be integers or None, not '%s'", value_type(bounds[i]));
    if (value_is_seq(of)) return slice_list(r, of, from, to, step, out);
    TRY(run_charge_(r, of.s.n / 16));
    return slice_string(r, of.s, from, to, step, out);
}

/* ---- iteration ---- */

status run_iterate_(run *r, value v, const value_list **out) {
    value_list *l;
    switch ((value_kind)v.kind) {
    case VALUE_LIST:
    case VALUE_TUPLE: *out = v.list; return OK;
    case VALUE_UNDEFINED: *out = value_list_new(r->mem, 0); return OK;
    case VALUE_DICT:
        TRY(run_charge_(r, v.dict->n));
        l = value_list_new(r->mem, v.dict->n);
        for (size_t i = 0; i < v.dict->n; i++) l->items[l->n++] = v.dict->entries[i].key;
        *out = l;
        return OK;
    case VALUE_STR:
        TRY(run_charge_(r, v.s.n));
        l = value_list_new(r->mem, uchar_count(v.s));
        for (size_t at = 0; at < v.s.n;) {
            uint32_t cp;
            size_t n = uchar_next(str_from(v.s, at), &cp);
            l->items[l->n++] = value_str((str){ v.s.p + at, n });
            at += n;
        }
        *out = l;
        return OK;
    default: return run_fail_(r, "'%s' object is not iterable", value_type(v));
    }
}

status run_path_(run *r, value of, value path, value *out) {
    if (path.kind != VALUE_STR) return run_item_(r, of, path, out);
    str left = path.s;
    *out = of;
    for (bool more = true; more;) {
        const char *dot = memchr(left.p, '.', left.n);
        str part = { left.p, dot ? (size_t)(dot - left.p) : left.n };
        bool number = part.n && part.n < 10;
        int64_t index = 0;
        for (size_t i = 0; number && i < part.n; i++) {
            number = part.p[i] >= '0' && part.p[i] <= '9';
            index = index * 10 + (part.p[i] - '0');
        }
        TRY(run_item_(r, *out, number ? value_int(index) : value_str(part), out));
        more = dot != NULL;
        left = str_from(left, part.n + more);
    }
    return OK;
}
