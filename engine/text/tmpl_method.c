/* Methods of strings, dicts, lists and the loop variable. */
#include "engine/text/tmpl_int.h"

#include "engine/text/uchar.h"

/* An optional integer argument. */
static status int_arg(run *r, value v, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (v.kind == VALUE_UNDEFINED || v.kind == VALUE_NONE) return OK;
    if (v.kind != VALUE_INT) return run_fail_(r, "expected an integer, found '%s'", value_type(v));
    *out = v.i;
    return OK;
}

static status str_arg(run *r, const char *what, value v, str *out) {
    if (v.kind != VALUE_STR) return run_fail_(r, "%s needs a string, not '%s'", what, value_type(v));
    *out = v.s;
    return OK;
}

enum { STRIP_MAX = 1024 }; /* every character of the text may be compared with all of them */

/* ---- str ---- */

static status strip(run *r, value self, const call_args *a, bool left, bool right, value *out) {
    value chars;
    TRY(run_bind_args_(r, "strip()", "chars", 0, a, &chars));
    bool given = chars.kind != VALUE_UNDEFINED && chars.kind != VALUE_NONE;
    if (given && chars.kind != VALUE_STR) return run_fail_(r, "strip() needs a string, not '%s'", value_type(chars));
    TRY(run_charge_(r, self.s.n / 16));
    if (given && chars.s.n > STRIP_MAX) return run_fail_(r, "strip() takes at most %d bytes of characters", STRIP_MAX);
    *out = value_str(uchar_strip(self.s, given ? &chars.s : NULL, left, right));
    return OK;
}

static status str_strip(run *r, value self, const call_args *a, value *out) {
    return strip(r, self, a, true, true, out);
}
static status str_lstrip(run *r, value self, const call_args *a, value *out) {
    return strip(r, self, a, true, false, out);
}
static status str_rstrip(run *r, value self, const call_args *a, value *out) {
    return strip(r, self, a, false, true, out);
}

static status split(run *r, value self, const call_args *a, bool from_right, value *out) {
    value v[2];
    int64_t max;
    TRY(run_bind_args_(r, "split()", "sep,maxsplit", 0, a, v));
    TRY(int_arg(r, v[1], -1, &max));
    bool words = v[0].kind == VALUE_UNDEFINED || v[0].kind == VALUE_NONE;
    if (!words && v[0].kind != VALUE_STR) return run_fail_(r, "split() needs a string, not '%s'", value_type(v[0]));
    return pystr_split_(r, self.s, words ? NULL : &v[0].s, max, from_right, out);
}

static status str_split(run *r, value self, const call_args *a, value *out) { return split(r, self, a, false, out); }
static status str_rsplit(run *r, value self, const call_args *a, value *out) { return split(r, self, a, true, out); }

static status str_splitlines(run *r, value self, const call_args *a, value *out) {
    value keep;
    TRY(run_bind_args_(r, "splitlines()", "keepends", 0, a, &keep));
    TRY(run_charge_(r, self.s.n));
    *out = pystr_lines_(r, self.s, value_truth(keep));
    return OK;
}

/* A tuple holds alternatives. */
static status has_affix(run *r, value self, const call_args *a, bool at_start, value *out) {
    value affix;
    const char *what = at_start ? "startswith()" : "endswith()";
    TRY(run_bind_args_(r, what, "affix", 1, a, &affix));
    const value *all = affix.kind == VALUE_TUPLE ? affix.list->items : &affix;
    size_t n = affix.kind == VALUE_TUPLE ? affix.list->n : 1;
    *out = value_bool(false);
    for (size_t i = 0; i < n; i++) {
        str one = { 0 };
        TRY(str_arg(r, what, all[i], &one));
        if (at_start ? str_starts(self.s, one) : str_ends(self.s, one)) *out = value_bool(true);
    }
    return OK;
}

static status str_startswith(run *r, value self, const call_args *a, value *out) {
    return has_affix(r, self, a, true, out);
}
static status str_endswith(run *r, value self, const call_args *a, value *out) {
    return has_affix(r, self, a, false, out);
}

static status remove_affix(run *r, value self, const call_args *a, bool at_start, value *out) {
    value v;
    str affix = { 0 }, s = self.s;
    TRY(run_bind_args_(r, "removing an affix", "affix", 1, a, &v));
    TRY(str_arg(r, "removing an affix", v, &affix));
    if (at_start && str_starts(s, affix)) s = str_from(s, affix.n);
    if (!at_start && str_ends(s, affix)) s.n -= affix.n;
    *out = value_str(s);
    return OK;
}

static status str_removeprefix(run *r, value self, const call_args *a, value *out) {
    return remove_affix(r, self, a, true, out);
}

static status str_removesuffix(run *r, value self, const call_args *a, value *out) {
    return remove_affix(r, self, a, false, out);
}

static status change_case(run *r, value self, const call_args *a, letter_case to, value *out) {
    TRY(run_bind_args_(r, "a change of case", "", 0, a, NULL));
    TRY(run_charge_(r, self.s.n));
    *out = pystr_case_(r, self.s, to);
    return OK;
}

static status str_upper(run *r, value self, const call_args *a, value *out) {
    return change_case(r, self, a, CASE_UPPER, out);
}
static status str_lower(run *r, value self, const call_args *a, value *out) {
    return change_case(r, self, a, CASE_LOWER, out);
}
static status str_title(run *r, value self, const call_args *a, value *out) {
    return change_case(r, self, a, CASE_TITLE, out);
}

static status str_capitalize(run *r, value self, const call_args *a, value *out) {
    return change_case(r, self, a, CASE_CAPITAL, out);
}

static status str_isupper(run *r, value self, const call_args *a, value *out) {
    *out = value_bool(pystr_is_case_(self.s, true));
    return run_bind_args_(r, "isupper()", "", 0, a, NULL);
}

static status str_islower(run *r, value self, const call_args *a, value *out) {
    *out = value_bool(pystr_is_case_(self.s, false));
    return run_bind_args_(r, "islower()", "", 0, a, NULL);
}

static status str_isspace(run *r, value self, const call_args *a, value *out) {
    *out = value_bool(self.s.n && !uchar_strip(self.s, NULL, true, false).n);
    return run_bind_args_(r, "isspace()", "", 0, a, NULL);
}

static status str_replace(run *r, value self, const call_args *a, value *out) {
    value v[3];
    str from, to;
    int64_t max;
    TRY(run_bind_args_(r, "replace()", "old,new,count", 2, a, v));
    TRY(str_arg(r, "replace()", v[0], &from));
    TRY(str_arg(r, "replace()", v[1], &to));
    TRY(int_arg(r, v[2], -1, &max));
    return pystr_replace_(r, self.s, from, to, max, out);
}

static status str_count(run *r, value self, const call_args *a, value *out) {
    value v;
    str part;
    int64_t n = 0;
    TRY(run_bind_args_(r, "count()", "sub", 1, a, &v));
    TRY(str_arg(r, "count()", v, &part));
    TRY(run_charge_(r, self.s.n));
    if (!part.n) n = (int64_t)uchar_count(self.s) + 1;
    for (size_t at = 0; part.n && (at = pystr_find_(self.s, part, at)) != SIZE_MAX; at += part.n) n++;
    *out = value_int(n);
    return OK;
}

static int64_t char_index(str s, size_t byte) {
    return byte == SIZE_MAX ? -1 : (int64_t)uchar_count((str){ s.p, byte });
}

static status str_find(run *r, value self, const call_args *a, value *out) {
    value v;
    str part;
    TRY(run_bind_args_(r, "find()", "sub", 1, a, &v));
    TRY(str_arg(r, "find()", v, &part));
    TRY(run_charge_(r, self.s.n));
    *out = value_int(char_index(self.s, pystr_find_(self.s, part, 0)));
    return OK;
}

/* Unlike the filter it takes strings only. */
static status str_join(run *r, value self, const call_args *a, value *out) {
    value v;
    const value_list *l;
    TRY(run_bind_args_(r, "join()", "iterable", 1, a, &v));
    TRY(run_iterate_(r, v, &l));
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].kind != VALUE_STR)
            return run_fail_(r, "sequence item %zu: expected str instance, %s found", i, value_type(l->items[i]));
    return run_join_(r, value_of_list((value_list *)(uintptr_t)l), self.s, out);
}

/* ---- dict ---- */

typedef enum dict_part { PART_KEY, PART_VALUE, PART_ITEM } dict_part;

static status dict_list(run *r, value self, const call_args *a, dict_part part, value *out) {
    const value_dict *d = self.dict;
    TRY(run_bind_args_(r, "a view of a dict", "", 0, a, NULL));
    TRY(run_charge_(r, d->n));
    value_list *l = value_list_new(r->mem, d->n);
    for (size_t i = 0; i < d->n; i++) {
        value v = part == PART_KEY ? d->entries[i].key : d->entries[i].val;
        if (part == PART_ITEM) {
            value_list *pair = value_list_new(r->mem, 2);
            value_list_push(r->mem, pair, d->entries[i].key);
            value_list_push(r->mem, pair, d->entries[i].val);
            v = value_of_tuple(pair);
        }
        value_list_push(r->mem, l, v);
    }
    *out = value_of_list(l);
    return OK;
}

static status dict_items(run *r, value self, const call_args *a, value *out) {
    return dict_list(r, self, a, PART_ITEM, out);
}
static status dict_keys(run *r, value self, const call_args *a, value *out) {
    return dict_list(r, self, a, PART_KEY, out);
}
static status dict_values(run *r, value self, const call_args *a, value *out) {
    return dict_list(r, self, a, PART_VALUE, out);
}

static status dict_get(run *r, value self, const call_args *a, value *out) {
    value v[2];
    TRY(run_bind_args_(r, "get()", "key,default", 1, a, v));
    const value *found = value_dict_find(self.dict, v[0]);
    *out = found ? *found : a->n_pos + a->n_kw > 1 ? v[1] : value_none();
    return OK;
}

static status dict_copy(run *r, value self, const call_args *a, value *out) {
    *out = self; /* containers never change, so the same one will do */
    return run_bind_args_(r, "copy()", "", 0, a, NULL);
}

/* Templates run with data that others hold as well. */
static status refuse_change(run *r, value self, const call_args *a, value *out) {
    (void)a;
    (void)out;
    return run_fail_(r, "a template may not change a %s", value_type(self));
}

/* ---- list, loop ---- */

static status list_copy(run *r, value self, const call_args *a, value *out) {
    *out = self; /* shared: nobody changes it */
    return run_bind_args_(r, "copy()", "", 0, a, NULL);
}

static status list_count(run *r, value self, const call_args *a, value *out) {
    value v;
    int64_t n = 0;
    TRY(run_bind_args_(r, "count()", "value", 1, a, &v));
    for (size_t i = 0; i < self.list->n; i++) n += value_equal(self.list->items[i], v, &r->work);
    *out = value_int(n);
    return OK;
}

static status list_index(run *r, value self, const call_args *a, value *out) {
    value v;
    TRY(run_bind_args_(r, "index()", "value", 1, a, &v));
    for (size_t i = 0; i < self.list->n; i++) {
        if (!value_equal(self.list->items[i], v, &r->work)) continue;
        *out = value_int((int64_t)i);
        return OK;
    }
    return run_fail_(r, "index(): the list has no such element");
}

static status loop_cycle(run *r, value self, const call_args *a, value *out) {
    if (!a->n_pos || a->n_kw) return run_fail_(r, "loop.cycle() needs unnamed arguments");
    *out = a->pos[((const loop_state *)self.ref)->index % a->n_pos];
    return OK;
}

static status loop_changed(run *r, value self, const call_args *a, value *out) {
    loop_state *loop = (loop_state *)(uintptr_t)self.ref; /* state of the loop, not of its elements */
    if (a->n_kw) return run_fail_(r, "loop.changed() takes no named arguments");
    value_list *l = value_list_new(r->mem, a->n_pos);
    for (size_t i = 0; i < a->n_pos; i++) value_list_push(r->mem, l, a->pos[i]);
    *out = value_bool(!value_equal(loop->changed, value_of_tuple(l), &r->work));
    loop->changed = value_of_tuple(l);
    return OK;
}

const method *method_find_(uint8_t kind, str name) {
    static const method methods[] = {
        { VALUE_STR, "strip", str_strip },
        { VALUE_STR, "lstrip", str_lstrip },
        { VALUE_STR, "rstrip", str_rstrip },
        { VALUE_STR, "split", str_split },
        { VALUE_STR, "rsplit", str_rsplit },
        { VALUE_STR, "splitlines", str_splitlines },
        { VALUE_STR, "startswith", str_startswith },
        { VALUE_STR, "endswith", str_endswith },
        { VALUE_STR, "removeprefix", str_removeprefix },
        { VALUE_STR, "removesuffix", str_removesuffix },
        { VALUE_STR, "upper", str_upper },
        { VALUE_STR, "lower", str_lower },
        { VALUE_STR, "title", str_title },
        { VALUE_STR, "capitalize", str_capitalize },
        { VALUE_STR, "isupper", str_isupper },
        { VALUE_STR, "islower", str_islower },
        { VALUE_STR, "isspace", str_isspace },
        { VALUE_STR, "replace", str_replace },
        { VALUE_STR, "count", str_count },
        { VALUE_STR, "find", str_find },
        { VALUE_STR, "join", str_join },
        { VALUE_DICT, "items", dict_items },
        { VALUE_DICT, "keys", dict_keys },
        { VALUE_DICT, "values", dict_values },
        { VALUE_DICT, "get", dict_get },
        { VALUE_DICT, "copy", dict_copy },
        { VALUE_DICT, "clear", refuse_change },
        { VALUE_DICT, "pop", refuse_change },
        { VALUE_DICT, "popitem", refuse_change },
        { VALUE_DICT, "setdefault", refuse_change },
        { VALUE_DICT, "update", refuse_change },
        { VALUE_LIST, "count", list_count },
        { VALUE_LIST, "index", list_index },
        { VALUE_LIST, "copy", list_copy },
        { VALUE_LIST, "append", refuse_change },
        { VALUE_LIST, "clear", refuse_change },
        { VALUE_LIST, "extend", refuse_change },
        { VALUE_LIST, "insert", refuse_change },
        { VALUE_LIST, "pop", refuse_change },
        { VALUE_LIST, "remove", refuse_change },
        { VALUE_LIST, "reverse", refuse_change },
        { VALUE_LIST, "sort", refuse_change },
        { VALUE_TUPLE, "count", list_count },
        { VALUE_TUPLE, "index", list_index },
        { VALUE_LOOP, "cycle", loop_cycle },
        { VALUE_LOOP, "changed", loop_changed },
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].kind == kind && str_eq(name, str_of(methods[i].name))) return &methods[i];
    return kind == VALUE_STR ? method_find_text_(name) : NULL;
}
