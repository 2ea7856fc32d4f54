/* Calls: matching arguments with parameters, macros, and the functions that every template has. */
#include "engine/text/tmpl_int.h"

#include <time.h>

/* Element nth of a comma-separated list, or n NULL. */
static str nth_name(const char *list, size_t nth) {
    while (nth-- && list) {
        list = strchr(list, ',');
        if (list) list++;
    }
    return list && *list ? (str){ list, strcspn(list, ",") } : (str){ 0 };
}

status run_bind_args_(run *r, const char *what, const char *params, size_t required, const call_args *a, value *out) {
    size_t n = 0;
    uint64_t given = 0;
    while (nth_name(params, n).p) out[n++] = value_undefined();
    if (a->n_pos > n) return run_fail_(r, "%s takes at most %zu arguments (%zu given)", what, n, a->n_pos);
    for (size_t i = 0; i < a->n_pos; i++) {
        out[i] = a->pos[i];
        given |= (uint64_t)1 << i;
    }
    for (size_t k = 0; k < a->n_kw; k++) {
        size_t i = 0;
        while (i < n && !str_eq(nth_name(params, i), a->names[k])) i++;
        if (i == n) return run_fail_(r, "%s has no parameter '%.*s'", what, STR_ARG(a->names[k]));
        if (given >> i & 1) return run_fail_(r, "%s got '%.*s' twice", what, STR_ARG(a->names[k]));
        out[i] = a->kw[k];
        given |= (uint64_t)1 << i;
    }
    for (size_t i = 0; i < required; i++)
        if (!(given >> i & 1)) return run_fail_(r, "%s needs its argument '%.*s'", what, STR_ARG(nth_name(params, i)));
    return OK;
}

/* ---- macros ---- */

static bool find_param(const run *r, const macro *m, str name, size_t *at) {
    for (*at = 0; *at < m->n_params; ++*at)
        if (str_eq(r->t->symbols[m->params[*at]].name, name)) return true;
    return false;
}

/* What no parameter takes: more arguments for varargs, other names for kwargs, the caller of a call block. */
static status bind_surplus(run *r, const macro *m, const call_args *a, scope *s) {
    value_list *varargs = value_list_new(r->mem, 0);
    value_dict *kwargs = value_dict_new(r->mem, 0);
    value caller = { .kind = VALUE_UNDEFINED, .s = STR("caller") };
    size_t at;
    if (a->n_pos > m->n_params && !m->takes_varargs)
        return run_fail_(r, "macro '%.*s' takes not more than %zu arguments (%zu given)", STR_ARG(m->name), m->n_params,
                         a->n_pos);
    for (size_t i = m->n_params; i < a->n_pos; i++) value_list_push(r->mem, varargs, a->pos[i]);
    for (size_t k = 0; k < a->n_kw; k++) {
        if (find_param(r, m, a->names[k], &at)) continue;
        if (str_eq(a->names[k], STR("caller")) && m->takes_caller)
            caller = a->kw[k];
        else if (m->takes_kwargs)
            value_dict_set(r->mem, kwargs, value_str(a->names[k]), a->kw[k]);
        else
            return run_fail_(r, "macro '%.*s' takes no argument '%.*s'", STR_ARG(m->name), STR_ARG(a->names[k]));
    }
    if (m->takes_varargs) run_bind_(r, s, SYMBOL_VARARGS, value_of_tuple(varargs));
    if (m->takes_kwargs) run_bind_(r, s, SYMBOL_KWARGS, value_of_dict(kwargs));
    if (m->takes_caller && !find_param(r, m, STR("caller"), &at)) run_bind_(r, s, SYMBOL_CALLER, caller);
    return OK;
}

static status bind_params(run *r, const macro *m, const call_args *a, scope *s) {
    value *vals = arena_alloc(r->mem, (m->n_params + 1) * sizeof *vals);
    bool *given = arena_alloc(r->mem, m->n_params + 1);
    size_t at;
    for (size_t i = 0; i < a->n_pos && i < m->n_params; i++) vals[i] = a->pos[i], given[i] = true;
    for (size_t k = 0; k < a->n_kw; k++) {
        if (!find_param(r, m, a->names[k], &at)) continue;
        if (given[at]) return run_fail_(r, "macro '%.*s' got '%.*s' twice", STR_ARG(m->name), STR_ARG(a->names[k]));
        vals[at] = a->kw[k], given[at] = true;
    }
    for (size_t i = 0; i < m->n_params; i++) { /* in order: a default may use the parameters before it */
        if (!given[i] && m->defaults[i])
            TRY(run_eval_(r, m->defaults[i], &vals[i]));
        else if (!given[i])
            vals[i] = (value){ .kind = VALUE_UNDEFINED, .s = r->t->symbols[m->params[i]].name };
        run_bind_(r, s, m->params[i], vals[i]);
    }
    return OK;
}

static status call_macro(run *r, const macro_value *mv, const call_args *a, value *out) {
    scope *inner = run_scope_(r, mv->scope), *outer = r->scope;
    r->scope = inner;
    status s = bind_params(r, mv->macro, a, inner);
    r->scope = outer;
    TRY(s);
    TRY(bind_surplus(r, mv->macro, a, inner));
    return run_capture_(r, mv->macro->body, inner, out);
}

status run_call_(run *r, value fn, const call_args *a, value *out) {
    switch ((value_kind)fn.kind) {
    case VALUE_UNDEFINED: return run_fail_undefined_(r, fn);
    case VALUE_MACRO: return call_macro(r, fn.ref, a, out);
    case VALUE_FUNCTION: return ((const function *)fn.ref)->call(r, a, out);
    case VALUE_METHOD: {
        const method_value *mv = fn.ref;
        return mv->method->call(r, mv->self, a, out);
    }
    default: return run_fail_(r, "'%s' object is not callable", value_type(fn));
    }
}

/* ---- functions ---- */

static status call_range(run *r, const call_args *a, value *out) {
    value v[3];
    int64_t bound[3] = { 0, 0, 1 };
    TRY(run_bind_args_(r, "range()", "start,stop,step", 1, a, v));
    if (a->n_kw) return run_fail_(r, "range() takes no named arguments");
    for (size_t i = 0; i < a->n_pos; i++) {
        if (v[i].kind != VALUE_INT && v[i].kind != VALUE_BOOL)
            return run_fail_(r, "range() needs integers, not '%s'", value_type(v[i]));
        bound[i] = v[i].kind == VALUE_BOOL ? v[i].b : v[i].i;
    }
    if (a->n_pos == 1) bound[1] = bound[0], bound[0] = 0;
    int64_t from = bound[0], to = bound[1], step = bound[2];
    if (!step) return run_fail_(r, "range() needs a step that is not 0");
    if (from < -INT32_MAX || from > INT32_MAX || to < -INT32_MAX || to > INT32_MAX)
        return run_fail_(r, "range() is limited to 32 bits");
    int64_t span = step > 0 ? to - from : from - to, stride = step > 0 ? step : step < -INT32_MAX ? INT32_MAX : -step;
    size_t n = span > 0 ? (size_t)((span - 1) / stride + 1) : 0;
    TRY(run_charge_(r, n));
    value_list *l = value_list_new(r->mem, n);
    for (; l->n < n; l->n++) l->items[l->n] = value_int(from + (int64_t)l->n * step);
    *out = value_of_list(l);
    return OK;
}

/* Members from one mapping or list of pairs, then from the named arguments. */
static status collect_members(run *r, const char *what, const call_args *a, value_dict **out) {
    value_dict *d = value_dict_new(r->mem, a->n_kw);
    const value_list *pairs, *pair;
    if (a->n_pos > 1) return run_fail_(r, "%s takes at most one unnamed argument", what);
    if (a->n_pos && a->pos[0].kind == VALUE_DICT) {
        const value_dict *from = a->pos[0].dict;
        TRY(run_charge_(r, from->n));
        for (size_t i = 0; i < from->n; i++) value_dict_set(r->mem, d, from->entries[i].key, from->entries[i].val);
    } else if (a->n_pos) {
        TRY(run_iterate_(r, a->pos[0], &pairs));
        for (size_t i = 0; i < pairs->n; i++) {
            TRY(run_iterate_(r, pairs->items[i], &pair));
            if (pair->n != 2 || !value_is_key(pair->items[0]))
                return run_fail_(r, "%s needs pairs of key and value", what);
            value_dict_set(r->mem, d, pair->items[0], pair->items[1]);
        }
    }
    for (size_t k = 0; k < a->n_kw; k++) value_dict_set(r->mem, d, value_str(a->names[k]), a->kw[k]);
    *out = d;
    return OK;
}

static status call_dict(run *r, const call_args *a, value *out) {
    value_dict *d;
    TRY(collect_members(r, "dict()", a, &d));
    *out = value_of_dict(d);
    return OK;
}

static status call_namespace(run *r, const call_args *a, value *out) {
    value_dict *d;
    TRY(collect_members(r, "namespace()", a, &d));
    *out = (value){ .kind = VALUE_NAMESPACE, .dict = d };
    return OK;
}

static status call_raise(run *r, const call_args *a, value *out) {
    (void)out;
    value message;
    TRY(run_bind_args_(r, "raise_exception()", "message", 1, a, &message));
    str text = pystr_of_(r, message).s;
    return run_fail_(r, "%.*s", STR_ARG(text));
}

static status call_strftime_now(run *r, const call_args *a, value *out) {
    value format;
    char text[512];
    struct tm now;
    time_t t = time(NULL);
    TRY(run_bind_args_(r, "strftime_now()", "format", 1, a, &format));
    if (format.kind != VALUE_STR) return run_fail_(r, "strftime_now() needs a string, not '%s'", value_type(format));
    if (!localtime_r(&t, &now)) return run_fail_(r, "strftime_now(): no local time");
    const char *z = arena_str(r->mem, format.s).p;
    size_t n = strftime(text, sizeof text, z, &now);
    if (!n && format.s.n) return run_fail_(r, "strftime_now(): the text is empty or too long");
    *out = value_str(arena_str(r->mem, (str){ text, n }));
    return OK;
}

const function *function_find_(str name) {
    static const function functions[] = {
        { "range", call_range },
        { "dict", call_dict },
        { "namespace", call_namespace },
        { "raise_exception", call_raise },
        { "strftime_now", call_strftime_now },
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (str_eq(name, str_of(functions[i].name))) return &functions[i];
    return NULL;
}
