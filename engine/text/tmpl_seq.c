/* Filters on sequences. Where Jinja makes a generator, these make a list: it prints, and may be read twice. */
#include "engine/text/tmpl_int.h"

#include "engine/text/uchar.h"

static bool is_given(value v) { return v.kind != VALUE_UNDEFINED && v.kind != VALUE_NONE; }

static status no_args(run *r, const call_args *a) { return run_bind_args_(r, "the filter", "", 0, a, NULL); }

/* What comparing filters look at: the element or its attribute, in lower case unless case counts. */
static status sort_key(run *r, value item, value attribute, bool case_sensitive, value *out) {
    *out = item;
    if (is_given(attribute)) TRY(run_path_(r, item, attribute, out));
    if (!case_sensitive && out->kind == VALUE_STR) *out = pystr_case_(r, out->s, CASE_LOWER);
    return OK;
}

/* ---- order ---- */

typedef struct keyed {
    value key, item;
} keyed;

static status key_all(run *r, const value_list *l, value attribute, bool case_sensitive, keyed **out) {
    keyed *k = arena_alloc(r->mem, (l->n + 1) * sizeof *k);
    for (size_t i = 0; i < l->n; i++) {
        TRY(run_charge_(r, 1));
        k[i].item = l->items[i];
        TRY(sort_key(r, l->items[i], attribute, case_sensitive, &k[i].key));
    }
    *out = k;
    return OK;
}

/* By several attributes, "a,b": the keys are lists of theirs. */
static status key_all_by(run *r, const value_list *l, str attributes, bool case_sensitive, keyed **out) {
    TRY(key_all(r, l, value_undefined(), true, out));
    for (size_t i = 0; i < l->n; i++) (*out)[i].key = value_of_list(value_list_new(r->mem, 2));
    for (str left = attributes; left.p;) {
        const char *comma = left.n ? memchr(left.p, ',', left.n) : NULL;
        str name = { left.p, comma ? (size_t)(comma - left.p) : left.n };
        left = comma ? str_from(left, name.n + 1) : (str){ 0 };
        for (size_t i = 0; i < l->n; i++) {
            value key;
            TRY(run_charge_(r, 1));
            TRY(sort_key(r, l->items[i], value_str(name), case_sensitive, &key));
            value_list_push(r->mem, (*out)[i].key.list, key);
        }
    }
    return OK;
}

typedef struct order {
    bool reverse;
    bool in_lists; /* keys are compared as lists of one: equal ones need no order, be they undefined, none or dicts */
} order;

static status comes_first(run *r, value a, value b, order o, bool *out) {
    *out = false;
    if (o.in_lists && a.kind == b.kind && a.kind != VALUE_STR && !value_is_number(a)) {
        bool same = value_equal(a, b, &r->work);
        TRY(run_charge_(r, 0));
        if (same) return OK;
    }
    return run_compare_(r, o.reverse ? OPER_GT : OPER_LT, a, b, out);
}

/* One round of a bottom-up merge sort: runs of `width` become runs of twice that. Equal keys keep their order, also
 * when the order is reversed. */
static status merge_runs(run *r, const keyed *from, keyed *to, size_t n, size_t width, order o) {
    for (size_t start = 0; start < n; start += 2 * width) {
        size_t mid = start + width < n ? start + width : n, end = mid + width < n ? mid + width : n;
        size_t left = start, right = mid;
        for (size_t i = start; i < end; i++) {
            bool take_right = left == mid;
            if (left < mid && right < end) TRY(comes_first(r, from[right].key, from[left].key, o, &take_right));
            to[i] = take_right ? from[right++] : from[left++];
        }
    }
    return OK;
}

static status sort_keyed(run *r, keyed **k, size_t n, order o) {
    keyed *other = arena_alloc(r->mem, (n + 1) * sizeof *other);
    for (size_t width = 1; width < n; width *= 2) {
        TRY(run_charge_(r, n));
        TRY(merge_runs(r, *k, other, n, width, o));
        keyed *swap = *k;
        *k = other;
        other = swap;
    }
    return OK;
}

static value list_of(run *r, const keyed *k, size_t n) {
    value_list *l = value_list_new(r->mem, n);
    for (size_t i = 0; i < n; i++) value_list_push(r->mem, l, k[i].item);
    return value_of_list(l);
}

static status apply_sort(run *r, value in, const call_args *a, value *out) {
    value v[3];
    const value_list *l;
    keyed *k;
    TRY(run_bind_args_(r, "sort", "reverse,case_sensitive,attribute", 0, a, v));
    TRY(run_iterate_(r, in, &l));
    bool several = v[2].kind == VALUE_STR && v[2].s.n && memchr(v[2].s.p, ',', v[2].s.n);
    TRY(several ? key_all_by(r, l, v[2].s, value_truth(v[1]), &k) : key_all(r, l, v[2], value_truth(v[1]), &k));
    TRY(sort_keyed(r, &k, l->n, (order){ .reverse = value_truth(v[0]), .in_lists = true }));
    *out = list_of(r, k, l->n);
    return OK;
}

static value pair_of(run *r, value a, value b) {
    value_list *pair = value_list_new(r->mem, 2);
    value_list_push(r->mem, pair, a);
    value_list_push(r->mem, pair, b);
    return value_of_tuple(pair);
}

static status dict_pairs(run *r, value in, const char *what, value_list **out) {
    if (in.kind != VALUE_DICT) return run_fail_(r, "%s needs a mapping, not '%s'", what, value_type(in));
    TRY(run_charge_(r, in.dict->n));
    *out = value_list_new(r->mem, in.dict->n);
    for (size_t i = 0; i < in.dict->n; i++)
        value_list_push(r->mem, *out, pair_of(r, in.dict->entries[i].key, in.dict->entries[i].val));
    return OK;
}

static status apply_items(run *r, value in, const call_args *a, value *out) {
    value_list *l = value_list_new(r->mem, 0);
    TRY(no_args(r, a));
    if (in.kind != VALUE_UNDEFINED) TRY(dict_pairs(r, in, "items", &l));
    *out = value_of_list(l);
    return OK;
}

static status apply_dictsort(run *r, value in, const call_args *a, value *out) {
    value v[3];
    value_list *l;
    keyed *k;
    TRY(run_bind_args_(r, "dictsort", "case_sensitive,by,reverse", 0, a, v));
    bool by_value = v[1].kind == VALUE_STR && str_eq(v[1].s, STR("value"));
    if (is_given(v[1]) && !by_value && !(v[1].kind == VALUE_STR && str_eq(v[1].s, STR("key"))))
        return run_fail_(r, "dictsort: by must be 'key' or 'value'");
    TRY(dict_pairs(r, in, "dictsort", &l));
    TRY(key_all(r, l, value_int(by_value), value_truth(v[0]), &k));
    TRY(sort_keyed(r, &k, l->n, (order){ .reverse = value_truth(v[2]) }));
    *out = list_of(r, k, l->n);
    return OK;
}

static status extreme(run *r, value in, const call_args *a, oper better, value *out) {
    value v[2];
    const value_list *l;
    keyed *k;
    TRY(run_bind_args_(r, "the filter", "case_sensitive,attribute", 0, a, v));
    TRY(run_iterate_(r, in, &l));
    TRY(key_all(r, l, v[1], value_truth(v[0]), &k));
    size_t best = 0;
    for (size_t i = 1; i < l->n; i++) {
        bool is_better;
        TRY(run_compare_(r, better, k[i].key, k[best].key, &is_better));
        if (is_better) best = i;
    }
    *out = l->n ? k[best].item : (value){ .kind = VALUE_UNDEFINED, .s = STR("an element of an empty sequence") };
    return OK;
}

static status apply_max(run *r, value in, const call_args *a, value *out) { return extreme(r, in, a, OPER_GT, out); }
static status apply_min(run *r, value in, const call_args *a, value *out) { return extreme(r, in, a, OPER_LT, out); }

static status apply_unique(run *r, value in, const call_args *a, value *out) {
    value v[2];
    const value_list *l;
    keyed *k;
    TRY(run_bind_args_(r, "unique", "case_sensitive,attribute", 0, a, v));
    TRY(run_iterate_(r, in, &l));
    TRY(key_all(r, l, v[1], value_truth(v[0]), &k));
    value_list *kept = value_list_new(r->mem, 0);
    value_dict *seen = value_dict_new(r->mem, 0);
    bool seen_undefined = false; /* one undefined is like the other */
    for (size_t i = 0; i < l->n; i++) {
        if (k[i].key.kind == VALUE_UNDEFINED) {
            if (!seen_undefined) value_list_push(r->mem, kept, k[i].item);
            seen_undefined = true;
            continue;
        }
        if (!value_is_key(k[i].key)) return run_fail_(r, "unique: unhashable type '%s'", value_type(k[i].key));
        if (value_dict_find(seen, k[i].key)) continue;
        value_dict_set(r->mem, seen, k[i].key, value_none());
        value_list_push(r->mem, kept, k[i].item);
    }
    *out = value_of_list(kept);
    return OK;
}

static status apply_groupby(run *r, value in, const call_args *a, value *out) {
    value v[3];
    const value_list *l;
    keyed *k;
    TRY(run_bind_args_(r, "groupby", "attribute,default,case_sensitive", 1, a, v));
    TRY(run_iterate_(r, in, &l));
    TRY(key_all(r, l, v[0], value_truth(v[2]), &k));
    for (size_t i = 0; i < l->n; i++) {
        if (l->n > 1 && k[i].key.kind == VALUE_UNDEFINED && v[1].kind == VALUE_UNDEFINED)
            return run_fail_undefined_(r, k[i].key); /* alone it is compared with nothing */
        if (k[i].key.kind == VALUE_UNDEFINED) k[i].key = v[1];
    }
    TRY(sort_keyed(r, &k, l->n, (order){ 0 }));
    value_list *groups = value_list_new(r->mem, 0), *group = NULL;
    for (size_t i = 0; i < l->n; i++) {
        if (!i || !value_equal(k[i].key, k[i - 1].key, &r->work)) {
            value name;
            group = value_list_new(r->mem, 0);
            TRY(run_path_(r, k[i].item, v[0], &name)); /* as it is: the key may be in lower case */
            if (name.kind == VALUE_UNDEFINED) name = v[1];
            value_list_push(r->mem, groups, pair_of(r, name, value_of_list(group)));
        }
        value_list_push(r->mem, group, k[i].item);
    }
    *out = value_of_list(groups);
    return OK;
}

/* ---- parts ---- */

static status apply_list(run *r, value in, const call_args *a, value *out) {
    const value_list *l;
    TRY(no_args(r, a));
    TRY(run_iterate_(r, in, &l));
    *out = value_of_list((value_list *)(uintptr_t)l); /* shared: nobody changes it */
    return OK;
}

static status apply_length(run *r, value in, const call_args *a, value *out) {
    TRY(no_args(r, a));
    switch ((value_kind)in.kind) {
    case VALUE_UNDEFINED: *out = value_int(0); return OK;
    case VALUE_STR: *out = value_int((int64_t)uchar_count(in.s)); return run_charge_(r, in.s.n / 16);
    case VALUE_LIST:
    case VALUE_TUPLE: *out = value_int((int64_t)in.list->n); return OK;
    case VALUE_DICT: *out = value_int((int64_t)in.dict->n); return OK;
    default: return run_fail_(r, "object of type '%s' has no length", value_type(in));
    }
}

static status end_of(run *r, value in, const call_args *a, bool last, value *out) {
    const value_list *l;
    TRY(no_args(r, a));
    TRY(run_iterate_(r, in, &l));
    *out = (value){ .kind = VALUE_UNDEFINED, .s = STR("an element of an empty sequence") };
    if (l->n) *out = l->items[last ? l->n - 1 : 0];
    return OK;
}

static status apply_first(run *r, value in, const call_args *a, value *out) { return end_of(r, in, a, false, out); }
static status apply_last(run *r, value in, const call_args *a, value *out) { return end_of(r, in, a, true, out); }

static status apply_reverse(run *r, value in, const call_args *a, value *out) {
    const value_list *l;
    TRY(no_args(r, a));
    TRY(run_iterate_(r, in, &l));
    TRY(run_charge_(r, l->n));
    value_list *reversed = value_list_new(r->mem, l->n);
    for (size_t i = l->n; i--;) value_list_push(r->mem, reversed, l->items[i]);
    *out = value_of_list(reversed);
    if (in.kind == VALUE_STR) return run_join_(r, *out, STR(""), out);
    return OK;
}

/* The number of groups or group members, at least 1. */
static status count_arg(run *r, value v, size_t *out) {
    if (v.kind != VALUE_INT || v.i < 1 || v.i > INT32_MAX)
        return run_fail_(r, "expected a positive integer, found '%s'", value_type(v));
    *out = (size_t)v.i;
    return OK;
}

static status apply_batch(run *r, value in, const call_args *a, value *out) {
    value v[2];
    const value_list *l;
    size_t n = 0;
    value_list *all = value_list_new(r->mem, 0), *one = NULL;
    TRY(run_bind_args_(r, "batch", "linecount,fill_with", 1, a, v));
    TRY(count_arg(r, v[0], &n));
    TRY(run_iterate_(r, in, &l));
    TRY(run_charge_(r, l->n));
    for (size_t i = 0; i < l->n; i++) {
        if (i % n == 0) {
            one = value_list_new(r->mem, 0);
            value_list_push(r->mem, all, value_of_list(one));
        }
        value_list_push(r->mem, one, l->items[i]);
    }
    if (one && is_given(v[1])) TRY(run_charge_(r, n - one->n));
    while (one && is_given(v[1]) && one->n < n) value_list_push(r->mem, one, v[1]);
    *out = value_of_list(all);
    return OK;
}

/* n lists of nearly equal length, the longer ones first. */
static status apply_slice(run *r, value in, const call_args *a, value *out) {
    value v[2];
    const value_list *l;
    size_t n = 0, at = 0;
    value_list *all = value_list_new(r->mem, 0);
    TRY(run_bind_args_(r, "slice", "slices,fill_with", 1, a, v));
    TRY(count_arg(r, v[0], &n));
    TRY(run_iterate_(r, in, &l));
    TRY(run_charge_(r, l->n + n));
    for (size_t i = 0; i < n; i++) {
        value_list *one = value_list_new(r->mem, 0);
        for (size_t k = l->n / n + (i < l->n % n); k--; at++) value_list_push(r->mem, one, l->items[at]);
        if (is_given(v[1]) && i >= l->n % n) value_list_push(r->mem, one, v[1]);
        value_list_push(r->mem, all, value_of_list(one));
    }
    *out = value_of_list(all);
    return OK;
}

/* ---- folds ---- */

status run_join_(run *r, value in, str separator, value *out) {
    const value_list *l;
    buf text = { 0 };
    status s = run_iterate_(r, in, &l);
    for (size_t i = 0; s == OK && i < l->n; i++) {
        if (i) buf_str(&text, separator);
        value_print(&text, l->items[i], &r->work);
        s = run_charge_(r, 1 + separator.n / 16);
        if (s == OK) s = run_check_text_(r, text.len);
    }
    if (s == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return s;
}

/* The attribute of every element, in place of the elements. */
static status pluck(run *r, const value_list *l, value attribute, value otherwise, value *out) {
    value_list *plucked = value_list_new(r->mem, l->n);
    for (size_t i = 0; i < l->n; i++) {
        value v;
        TRY(run_charge_(r, 1));
        TRY(run_path_(r, l->items[i], attribute, &v));
        value_list_push(r->mem, plucked, v.kind == VALUE_UNDEFINED && is_given(otherwise) ? otherwise : v);
    }
    *out = value_of_list(plucked);
    return OK;
}

static status apply_join(run *r, value in, const call_args *a, value *out) {
    value v[2];
    TRY(run_bind_args_(r, "join", "d,attribute", 0, a, v));
    if (is_given(v[1])) {
        const value_list *l;
        TRY(run_iterate_(r, in, &l));
        TRY(pluck(r, l, v[1], value_none(), &in));
    }
    return run_join_(r, in, pystr_of_(r, v[0]).s, out);
}

static status apply_sum(run *r, value in, const call_args *a, value *out) {
    value v[2];
    const value_list *l;
    TRY(run_bind_args_(r, "sum", "attribute,start", 0, a, v));
    TRY(run_iterate_(r, in, &l));
    if (is_given(v[0])) {
        TRY(pluck(r, l, v[0], value_none(), &in));
        l = in.list;
    }
    *out = v[1].kind == VALUE_UNDEFINED ? value_int(0) : v[1];
    for (size_t i = 0; i < l->n; i++) {
        TRY(run_charge_(r, 1));
        TRY(run_binary_(r, OPER_ADD, *out, l->items[i], out));
    }
    return OK;
}

/* ---- map, select, reject ---- */

/* These four take anything that is false for an empty sequence: `tools | selectattr(...)` works when tools is none. */
static status iterate_if_true(run *r, value v, const value_list **out) {
    if (value_truth(v)) return run_iterate_(r, v, out);
    *out = value_list_new(r->mem, 0);
    return OK;
}

/* Arguments behind the first `skip` unnamed ones. */
static call_args args_behind(const call_args *a, size_t skip) {
    return (call_args){ skip ? a->pos + skip : a->pos, a->n_pos - skip, a->names, a->kw, a->n_kw };
}

static status map_filter(run *r, const value_list *l, const call_args *a, value *out) {
    const filter *f = a->n_pos && a->pos[0].kind == VALUE_STR ? filter_find_(a->pos[0].s) : NULL;
    if (!f) return run_fail_(r, "map needs the name of a filter, or attribute=");
    call_args rest = args_behind(a, 1);
    value_list *mapped = value_list_new(r->mem, l->n);
    for (size_t i = 0; i < l->n; i++) {
        value v;
        TRY(run_charge_(r, 1));
        TRY(f->apply(r, l->items[i], &rest, &v));
        value_list_push(r->mem, mapped, v);
    }
    *out = value_of_list(mapped);
    return OK;
}

static status apply_map(run *r, value in, const call_args *a, value *out) {
    value v[2];
    const value_list *l;
    TRY(iterate_if_true(r, in, &l));
    if (!a->n_pos && a->n_kw) {
        TRY(run_bind_args_(r, "map", "attribute,default", 1, a, v));
        return pluck(r, l, v[0], v[1], out);
    }
    return map_filter(r, l, a, out);
}

/* The elements, or with by_attribute those whose attribute, for which a test (none: being true) gives `wanted`. */
static status choose(run *r, value in, const call_args *a, bool by_attribute, bool wanted, value *out) {
    size_t skip = by_attribute;
    const value_list *l;
    const test *t = NULL;
    if (by_attribute && !a->n_pos) return run_fail_(r, "selectattr and rejectattr need the name of an attribute");
    if (a->n_pos > skip) {
        t = a->pos[skip].kind == VALUE_STR ? test_find_(a->pos[skip].s) : NULL;
        if (!t) return run_fail_(r, "'%.*s' is no test", STR_ARG(pystr_of_(r, a->pos[skip]).s));
        skip++;
    }
    call_args rest = args_behind(a, skip);
    TRY(iterate_if_true(r, in, &l));
    value_list *kept = value_list_new(r->mem, 0);
    for (size_t i = 0; i < l->n; i++) {
        value v = l->items[i];
        TRY(run_charge_(r, 1));
        if (by_attribute) TRY(run_path_(r, v, a->pos[0], &v));
        bool holds = value_truth(v);
        if (t) TRY(t->apply(r, v, &rest, &holds));
        if (holds == wanted) value_list_push(r->mem, kept, l->items[i]);
    }
    *out = value_of_list(kept);
    return OK;
}

static status apply_select(run *r, value in, const call_args *a, value *out) {
    return choose(r, in, a, false, true, out);
}
static status apply_reject(run *r, value in, const call_args *a, value *out) {
    return choose(r, in, a, false, false, out);
}
static status apply_selectattr(run *r, value in, const call_args *a, value *out) {
    return choose(r, in, a, true, true, out);
}
static status apply_rejectattr(run *r, value in, const call_args *a, value *out) {
    return choose(r, in, a, true, false, out);
}

const filter *filter_find_seq_(str name) {
    static const filter filters[] = {
        { "list", apply_list },
        { "length", apply_length },
        { "count", apply_length },
        { "first", apply_first },
        { "last", apply_last },
        { "reverse", apply_reverse },
        { "join", apply_join },
        { "map", apply_map },
        { "select", apply_select },
        { "reject", apply_reject },
        { "selectattr", apply_selectattr },
        { "rejectattr", apply_rejectattr },
        { "items", apply_items },
        { "dictsort", apply_dictsort },
        { "sort", apply_sort },
        { "unique", apply_unique },
        { "groupby", apply_groupby },
        { "min", apply_min },
        { "max", apply_max },
        { "sum", apply_sum },
        { "batch", apply_batch },
        { "slice", apply_slice },
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (str_eq(name, str_of(filters[i].name))) return &filters[i];
    return NULL;
}
