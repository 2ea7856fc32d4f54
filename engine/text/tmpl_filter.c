/* Filters on texts, numbers and single values; those on sequences are in tmpl_seq.c. */
#include "engine/text/tmpl_int.h"

#include "engine/text/ucase.h"
#include "engine/text/uchar.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static status apply_default(run *r, value in, const call_args *a, value *out) {
    value v[2];
    TRY(run_bind_args_(r, "default", "default_value,boolean", 0, a, v));
    bool replace = in.kind == VALUE_UNDEFINED || (value_truth(v[1]) && !value_truth(in));
    *out = !replace ? in : a->n_pos || v[0].kind != VALUE_UNDEFINED ? v[0] : value_str(STR(""));
    return OK;
}

/* ---- JSON ---- */

/* indent: a number of blanks, or the text itself. */
static status json_indent(run *r, value v, value_json *opt) {
    opt->pretty = v.kind != VALUE_UNDEFINED && v.kind != VALUE_NONE;
    if (!opt->pretty) return OK;
    opt->comma = STR(",");
    opt->indent = v.s;
    if (v.kind == VALUE_STR) return OK;
    if (v.kind != VALUE_INT || v.i > 32) return run_fail_(r, "tojson: indent must be a string or at most 32");
    value blanks;
    TRY(pystr_repeat_(r, STR(" "), v.i, &blanks));
    opt->indent = blanks.s;
    return OK;
}

static status json_separators(run *r, value v, value_json *opt) {
    if (v.kind == VALUE_UNDEFINED || v.kind == VALUE_NONE) return OK;
    const value *s = value_is_seq(v) && v.list->n == 2 ? v.list->items : NULL;
    if (!s || s[0].kind != VALUE_STR || s[1].kind != VALUE_STR)
        return run_fail_(r, "tojson: separators must be two strings");
    opt->comma = s[0].s;
    opt->colon = s[1].s;
    return OK;
}

static status apply_tojson(run *r, value in, const call_args *a, value *out) {
    value v[4];
    value_json opt = { .comma = STR(", "), .colon = STR(": ") };
    buf text = { 0 };
    err why;
    TRY(run_bind_args_(r, "tojson", "ensure_ascii,indent,separators,sort_keys", 0, a, v));
    TRY(json_indent(r, v[1], &opt));
    TRY(json_separators(r, v[2], &opt));
    opt.ensure_ascii = value_truth(v[0]);
    opt.sort_keys = value_truth(v[3]);
    status s = value_to_json(&text, in, &opt, &r->work, &why);
    if (s != OK)
        s = run_fail_(r, "%s", why.text);
    else
        s = run_charge_(r, 0);
    if (s == OK) s = run_check_text_(r, text.len);
    if (s == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return s;
}

/* ---- texts ---- */

static status no_args(run *r, const call_args *a, value in, value *text) {
    TRY(run_bind_args_(r, "the filter", "", 0, a, NULL));
    *text = pystr_of_(r, in);
    return run_charge_(r, text->s.n / 16);
}

static status change_case(run *r, value in, const call_args *a, letter_case to, value *out) {
    value text;
    TRY(no_args(r, a, in, &text));
    *out = pystr_case_(r, text.s, to);
    return OK;
}

static status apply_upper(run *r, value in, const call_args *a, value *out) {
    return change_case(r, in, a, CASE_UPPER, out);
}
static status apply_lower(run *r, value in, const call_args *a, value *out) {
    return change_case(r, in, a, CASE_LOWER, out);
}

static status apply_capitalize(run *r, value in, const call_args *a, value *out) {
    return change_case(r, in, a, CASE_CAPITAL, out);
}

/* Words begin behind blanks, hyphens and opening brackets; the method of the same name cuts at every non-letter. */
static status apply_title(run *r, value in, const call_args *a, value *out) {
    value text;
    buf title = { 0 };
    bool inside = false;
    ucase_walk w = { 0 };
    TRY(no_args(r, a, in, &text));
    for (size_t at = 0; at < text.s.n;) {
        uint32_t cp;
        at += uchar_next(str_from(text.s, at), &cp);
        bool gap = uchar_is_space(cp) || (cp && cp < 0x80 && strchr("-({[<", (int)cp));
        if (inside)
            ucase_put_lower(&title, &w, cp, str_from(text.s, at));
        else
            ucase_put_upper(&title, cp);
        inside = !gap;
        if (gap) w = (ucase_walk){ 0 };
    }
    *out = run_take_text_(r, &title);
    return OK;
}

static status apply_trim(run *r, value in, const call_args *a, value *out) {
    value chars, text = pystr_of_(r, in);
    TRY(run_bind_args_(r, "trim", "chars", 0, a, &chars));
    bool given = chars.kind != VALUE_UNDEFINED && chars.kind != VALUE_NONE;
    if (given && chars.kind != VALUE_STR) return run_fail_(r, "trim needs a string, not '%s'", value_type(chars));
    TRY(run_charge_(r, text.s.n / 16));
    if (given && chars.s.n > 1024) return run_fail_(r, "trim takes at most 1024 bytes of characters");
    *out = value_str(uchar_strip(text.s, given ? &chars.s : NULL, true, true));
    return OK;
}

static status apply_replace(run *r, value in, const call_args *a, value *out) {
    value v[3];
    TRY(run_bind_args_(r, "replace", "old,new,count", 2, a, v));
    bool limited = v[2].kind != VALUE_UNDEFINED && v[2].kind != VALUE_NONE;
    if (limited && v[2].kind != VALUE_INT) return run_fail_(r, "replace: count must be an integer");
    return pystr_replace_(r, pystr_of_(r, in).s, pystr_of_(r, v[0]).s, pystr_of_(r, v[1]).s, limited ? v[2].i : -1,
                          out);
}

static status apply_string(run *r, value in, const call_args *a, value *out) { return no_args(r, a, in, out); }

static status apply_safe(run *r, value in, const call_args *a, value *out) { return no_args(r, a, in, out); }

static status apply_escape(run *r, value in, const call_args *a, value *out) {
    static const struct {
        char c;
        const char *html;
    } map[] = {
        { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" }, { '"', "&#34;" },
    };
    value text;
    buf safe = { 0 };
    TRY(no_args(r, a, in, &text));
    for (size_t i = 0; i < text.s.n; i++) {
        size_t k = 0;
        while (k < sizeof map / sizeof *map && map[k].c != text.s.p[i]) k++;
        if (k < sizeof map / sizeof *map)
            buf_str(&safe, str_of(map[k].html));
        else
            buf_byte(&safe, text.s.p[i]);
    }
    *out = run_take_text_(r, &safe);
    return run_check_text_(r, out->s.n);
}

static status indent_lines(run *r, buf *to, const value_list *lines, str by, bool first, bool blank) {
    for (size_t i = 0; i < lines->n; i++) {
        str line = lines->items[i].s;
        if (i) buf_byte(to, '\n');
        if (i ? blank || line.n : first) buf_str(to, by);
        buf_str(to, line);
        TRY(run_check_text_(r, to->len));
    }
    return OK;
}

static status apply_indent(run *r, value in, const call_args *a, value *out) {
    value v[3], by = value_str(STR("    "));
    buf lines = { 0 }, indented = { 0 };
    TRY(run_bind_args_(r, "indent", "width,first,blank", 0, a, v));
    if (in.kind != VALUE_STR) return run_fail_(r, "indent needs a string, not '%s'", value_type(in));
    if (v[0].kind == VALUE_STR)
        by = v[0];
    else if (v[0].kind == VALUE_INT)
        TRY(pystr_repeat_(r, STR(" "), v[0].i, &by));
    else if (v[0].kind != VALUE_UNDEFINED)
        return run_fail_(r, "indent: width must be an integer or a string");
    TRY(run_charge_(r, in.s.n));
    buf_str(&lines, in.s);
    buf_byte(&lines, '\n'); /* so that a line break at the end counts as an empty line */
    value split = pystr_lines_(r, run_take_text_(r, &lines).s, false);
    status s = indent_lines(r, &indented, split.list, by.s, value_truth(v[1]), value_truth(v[2]));
    if (s == OK)
        *out = run_take_text_(r, &indented);
    else
        buf_free(&indented);
    return s;
}

static status apply_format(run *r, value in, const call_args *a, value *out) {
    if (a->n_kw) return run_fail_(r, "format: named arguments are not supported");
    return pystr_format_(r, pystr_of_(r, in).s, a->pos, a->n_pos, out);
}

/* ---- numbers ---- */

/* The whole text as a number, white space around it aside. */
static bool parse_float(str s, double *out) {
    char plain[512], *stop;
    s = uchar_strip(s, NULL, true, true);
    if (!s.n || s.n >= sizeof plain || memchr(s.p, 0, s.n) || memchr(s.p, 'x', s.n) || memchr(s.p, 'X', s.n))
        return false;
    memcpy(plain, s.p, s.n);
    plain[s.n] = 0;
    *out = strtod(plain, &stop);
    return !*stop;
}

static bool parse_int(str s, int base, int64_t *out) {
    char plain[80], *stop;
    s = uchar_strip(s, NULL, true, true);
    if (!s.n || s.n >= sizeof plain || memchr(s.p, 0, s.n)) return false;
    memcpy(plain, s.p, s.n);
    plain[s.n] = 0;
    errno = 0;
    *out = strtoll(plain, &stop, base);
    return !*stop && errno != ERANGE;
}

static status apply_int(run *r, value in, const call_args *a, value *out) {
    value v[2];
    int64_t i;
    double f = NAN;
    TRY(run_bind_args_(r, "int", "default,base", 0, a, v));
    if (in.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, in);
    int base = v[1].kind == VALUE_INT && v[1].i >= 2 && v[1].i <= 36 ? (int)v[1].i : 10;
    *out = v[0].kind == VALUE_UNDEFINED ? value_int(0) : v[0];
    if (in.kind == VALUE_INT || in.kind == VALUE_BIG)
        *out = in;
    else if (in.kind == VALUE_STR && parse_int(in.s, base, &i))
        *out = value_int(i);
    else if (in.kind == VALUE_STR ? !parse_float(in.s, &f) : !value_as_double(in, &f))
        return OK;
    else if (isinf(f) || (!isnan(f) && fabs(f) >= 9.2e18))
        return run_fail_(r, "int: the number is beyond 64 bits");
    else if (!isnan(f))
        *out = value_int((int64_t)f);
    return OK;
}

static status apply_float(run *r, value in, const call_args *a, value *out) {
    value v;
    double f;
    TRY(run_bind_args_(r, "float", "default", 0, a, &v));
    if (in.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, in);
    *out = v.kind == VALUE_UNDEFINED ? value_float(0) : v;
    if (in.kind == VALUE_STR ? parse_float(in.s, &f) : value_as_double(in, &f)) *out = value_float(f);
    return OK;
}

static status apply_abs(run *r, value in, const call_args *a, value *out) {
    TRY(run_bind_args_(r, "abs", "", 0, a, NULL));
    if (in.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, in);
    if (!value_is_number(in)) return run_fail_(r, "abs needs a number, not '%s'", value_type(in));
    if (in.kind == VALUE_FLOAT)
        *out = value_float(fabs(in.f));
    else if (in.kind == VALUE_BOOL)
        *out = value_int(in.b);
    else if (in.kind == VALUE_INT && in.i >= 0)
        *out = value_int(in.i);
    else
        return run_binary_(r, OPER_SUB, value_int(0), in, out);
    return OK;
}

/* Halves go to the even neighbour of the decimal that the double exactly is, which is what the C library prints. */
static double round_to(double f, int places) {
    char text[400];
    if (places > 300 || !isfinite(f)) return f;
    if (places >= 0) {
        snprintf(text, sizeof text, "%.*f", places, f);
        return strtod(text, NULL);
    }
    double unit = pow(10, -places);
    return nearbyint(f / unit) * unit;
}

static status apply_round(run *r, value in, const call_args *a, value *out) {
    value v[2];
    double f;
    TRY(run_bind_args_(r, "round", "precision,method", 0, a, v));
    if (v[1].kind == VALUE_UNDEFINED) v[1] = value_str(STR("common"));
    if (v[0].kind == VALUE_UNDEFINED) v[0] = value_int(0);
    bool common = v[1].kind == VALUE_STR && str_eq(v[1].s, STR("common"));
    bool up = v[1].kind == VALUE_STR && str_eq(v[1].s, STR("ceil"));
    if (!common && !up && !(v[1].kind == VALUE_STR && str_eq(v[1].s, STR("floor"))))
        return run_fail_(r, "round: method must be common, ceil or floor");
    if (v[0].kind != VALUE_INT || v[0].i < -300 || v[0].i > 300)
        return run_fail_(r, "round: precision must be -300 to 300");
    if (in.kind == VALUE_UNDEFINED) return run_fail_undefined_(r, in);
    if (!value_as_double(in, &f)) return run_fail_(r, "round needs a number, not '%s'", value_type(in));
    int places = (int)v[0].i;
    if (common && value_is_integer(in) && places >= 0) {
        *out = in.kind == VALUE_BOOL ? value_int(in.b) : in;
        return OK;
    }
    double unit = pow(10, places);
    f = common ? round_to(f, places) : (up ? ceil(f * unit) : floor(f * unit)) / unit;
    *out = value_float(f);
    return OK;
}

/* ---- members ---- */

static status apply_attr(run *r, value in, const call_args *a, value *out) {
    value name;
    TRY(run_bind_args_(r, "attr", "name", 1, a, &name));
    if (name.kind != VALUE_STR) return run_fail_(r, "attr needs a string, not '%s'", value_type(name));
    return run_item_(r, in, name, out);
}

const filter *filter_find_(str name) {
    static const filter filters[] = {
        { "default", apply_default }, { "d", apply_default },
        { "tojson", apply_tojson },   { "upper", apply_upper },
        { "lower", apply_lower },     { "capitalize", apply_capitalize },
        { "title", apply_title },     { "trim", apply_trim },
        { "replace", apply_replace }, { "string", apply_string },
        { "safe", apply_safe },       { "escape", apply_escape },
        { "e", apply_escape },        { "forceescape", apply_escape },
        { "indent", apply_indent },   { "format", apply_format },
        { "int", apply_int },         { "float", apply_float },
        { "abs", apply_abs },         { "round", apply_round },
        { "attr", apply_attr },
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (str_eq(name, str_of(filters[i].name))) return &filters[i];
    return filter_find_seq_(name);
}
