/* The methods of strings that chat templates use less often; the others are in tmpl_method.c. */
#include "engine/text/tmpl_int.h"

#include "engine/text/uchar.h"

#include <ctype.h>

/* ---- places ---- */

static status find_part(run *r, const char *what, value self, const call_args *a, bool last, size_t *at, str *part) {
    value v;
    TRY(run_bind_args_(r, what, "sub", 1, a, &v));
    if (v.kind != VALUE_STR) return run_fail_(r, "%s needs a string, not '%s'", what, value_type(v));
    TRY(run_charge_(r, self.s.n / 4));
    *part = v.s;
    *at = last ? pystr_find_last_(r, self.s, v.s) : pystr_find_(self.s, v.s, 0);
    return OK;
}

static value char_index(str s, size_t byte) { return value_int((int64_t)uchar_count((str){ s.p, byte })); }

static status index_of(run *r, value self, const call_args *a, bool last, value *out) {
    size_t at;
    str part;
    TRY(find_part(r, last ? "rindex()" : "index()", self, a, last, &at, &part));
    if (at == SIZE_MAX) return run_fail_(r, "substring not found");
    *out = char_index(self.s, at);
    return OK;
}

static status str_index(run *r, value self, const call_args *a, value *out) { return index_of(r, self, a, false, out); }
static status str_rindex(run *r, value self, const call_args *a, value *out) { return index_of(r, self, a, true, out); }

static status str_rfind(run *r, value self, const call_args *a, value *out) {
    size_t at;
    str part;
    TRY(find_part(r, "rfind()", self, a, true, &at, &part));
    *out = at == SIZE_MAX ? value_int(-1) : char_index(self.s, at);
    return OK;
}

/* A text without the part stands alone: before two empty ones, or behind them when it was looked for from the right. */
static status partition(run *r, value self, const call_args *a, bool last, value *out) {
    size_t at;
    str part, empty = STR("");
    TRY(find_part(r, last ? "rpartition()" : "partition()", self, a, last, &at, &part));
    if (!part.n) return run_fail_(r, "empty separator");
    str pieces[3] = { self.s, empty, empty };
    if (at != SIZE_MAX) {
        pieces[0] = (str){ self.s.p, at };
        pieces[1] = part;
        pieces[2] = str_from(self.s, at + part.n);
    } else if (last) {
        pieces[0] = empty;
        pieces[2] = self.s;
    }
    value_list *l = value_list_new(r->mem, 3);
    for (int i = 0; i < 3; i++) value_list_push(r->mem, l, value_str(pieces[i]));
    *out = value_of_tuple(l);
    return OK;
}

static status str_partition(run *r, value self, const call_args *a, value *out) {
    return partition(r, self, a, false, out);
}
static status str_rpartition(run *r, value self, const call_args *a, value *out) {
    return partition(r, self, a, true, out);
}

/* ---- widths ---- */

static void put_times(buf *out, str s, size_t times) {
    while (times--) buf_str(out, s);
}

/* How many characters fill the text up to a width. */
static status missing(run *r, str s, value width, str fill, size_t *out) {
    if (width.kind != VALUE_INT && width.kind != VALUE_BOOL)
        return run_fail_(r, "a width must be an integer, not '%s'", value_type(width));
    int64_t w = width.kind == VALUE_BOOL ? width.b : width.i;
    TRY(run_charge_(r, s.n / 16));
    size_t n = uchar_count(s);
    *out = w > 0 && (uint64_t)w > n ? (size_t)w - n : 0;
    if (*out > r->limits.output / fill.n) return run_check_text_(r, SIZE_MAX);
    return run_charge_(r, *out / 16);
}

typedef enum side { SIDE_LEFT, SIDE_RIGHT, SIDE_BOTH } side;

static status justify(run *r, value self, const call_args *a, side text_on, value *out) {
    value v[2];
    size_t n;
    TRY(run_bind_args_(r, "a justification", "width,fillchar", 1, a, v));
    str fill = v[1].kind == VALUE_UNDEFINED ? STR(" ") : v[1].s;
    if (v[1].kind != VALUE_UNDEFINED && (v[1].kind != VALUE_STR || uchar_count(fill) != 1))
        return run_fail_(r, "the fill character must be exactly one character long");
    TRY(missing(r, self.s, v[0], fill, &n));
    int64_t width = v[0].kind == VALUE_BOOL ? v[0].b : v[0].i;
    /* Python gives the odd one to the left when the width is odd. */
    size_t left = text_on == SIDE_LEFT ? 0 : text_on == SIDE_RIGHT ? n : n / 2 + (n & (size_t)width & 1);
    buf text = { 0 };
    put_times(&text, fill, left);
    buf_str(&text, self.s);
    put_times(&text, fill, n - left);
    *out = run_take_text_(r, &text);
    return OK;
}

static status str_ljust(run *r, value self, const call_args *a, value *out) {
    return justify(r, self, a, SIDE_LEFT, out);
}
static status str_rjust(run *r, value self, const call_args *a, value *out) {
    return justify(r, self, a, SIDE_RIGHT, out);
}
static status str_center(run *r, value self, const call_args *a, value *out) {
    return justify(r, self, a, SIDE_BOTH, out);
}

static status str_zfill(run *r, value self, const call_args *a, value *out) {
    value width;
    size_t n;
    TRY(run_bind_args_(r, "zfill()", "width", 1, a, &width));
    TRY(missing(r, self.s, width, STR("0"), &n));
    size_t sign = self.s.n && (self.s.p[0] == '-' || self.s.p[0] == '+');
    buf text = { 0 };
    buf_put(&text, self.s.p, sign);
    put_times(&text, STR("0"), n);
    buf_str(&text, str_from(self.s, sign));
    *out = run_take_text_(r, &text);
    return OK;
}

/* ---- what a text is made of ---- */

/* Classes of other scripts are not told apart here. */
static status all_are(run *r, const char *what, value self, const call_args *a, int class(int), value *out) {
    TRY(run_bind_args_(r, what, "", 0, a, NULL));
    TRY(run_charge_(r, self.s.n / 16));
    bool all = self.s.n > 0;
    for (size_t i = 0; i < self.s.n; i++) {
        if ((unsigned char)self.s.p[i] >= 0x80) return run_fail_(r, "%s is limited to ASCII texts", what);
        all = all && class((unsigned char)self.s.p[i]);
    }
    *out = value_bool(all);
    return OK;
}

static status str_isalpha(run *r, value self, const call_args *a, value *out) {
    return all_are(r, "isalpha()", self, a, isalpha, out);
}
static status str_isalnum(run *r, value self, const call_args *a, value *out) {
    return all_are(r, "isalnum()", self, a, isalnum, out);
}
static status str_isdigit(run *r, value self, const call_args *a, value *out) {
    return all_are(r, "isdigit()", self, a, isdigit, out);
}
static status str_isnumeric(run *r, value self, const call_args *a, value *out) {
    return all_are(r, "isnumeric()", self, a, isdigit, out);
}
static status str_isdecimal(run *r, value self, const call_args *a, value *out) {
    return all_are(r, "isdecimal()", self, a, isdigit, out);
}

static status str_swapcase(run *r, value self, const call_args *a, value *out) {
    TRY(run_bind_args_(r, "swapcase()", "", 0, a, NULL));
    TRY(run_charge_(r, self.s.n));
    *out = pystr_case_(r, self.s, CASE_SWAP);
    return OK;
}

/* ---- format ---- */

/* The argument of "{}", "{0}" or "{name}"; counted says how many of the first kind were before. */
static status find_argument(run *r, str name, const call_args *a, size_t *counted, value *out) {
    size_t index = 0;
    bool number = name.n && name.n < 10;
    for (size_t i = 0; number && i < name.n; i++) {
        number = isdigit((unsigned char)name.p[i]);
        index = index * 10 + (size_t)(name.p[i] - '0');
    }
    if (number && *counted && *counted != SIZE_MAX) return run_fail_(r, "format() mixes numbered fields with others");
    if (!name.n && *counted == SIZE_MAX) return run_fail_(r, "format() mixes numbered fields with others");
    if (number) *counted = SIZE_MAX;
    if (!name.n) index = (*counted)++;
    if (number || !name.n) {
        if (index >= a->n_pos) return run_fail_(r, "format() has no argument %zu", index);
        *out = a->pos[index];
        return OK;
    }
    for (size_t i = 0; i < a->n_kw; i++) {
        if (!str_eq(a->names[i], name)) continue;
        *out = a->kw[i];
        return OK;
    }
    return run_fail_(r, "format() has no argument '%.*s'", STR_ARG(name));
}

static status put_format(run *r, str s, const call_args *a, buf *out) {
    size_t counted = 0;
    for (size_t at = 0; at < s.n;) {
        char c = s.p[at];
        if (c != '{' && c != '}') {
            buf_byte(out, s.p[at++]);
            continue;
        }
        if (at + 1 < s.n && s.p[at + 1] == c) {
            buf_byte(out, c);
            at += 2;
            continue;
        }
        const char *end = c == '{' ? memchr(s.p + at, '}', s.n - at) : NULL;
        if (!end) return run_fail_(r, "format(): a single '%c'", c);
        str name = { s.p + at + 1, (size_t)(end - (s.p + at + 1)) };
        value v;
        if (memchr(name.p, ':', name.n) || memchr(name.p, '!', name.n) || memchr(name.p, '.', name.n) ||
            memchr(name.p, '[', name.n) || memchr(name.p, '{', name.n))
            return run_fail_(r, "format(): fields with more than a name are not supported, found '{%.*s}'",
                             STR_ARG(name));
        TRY(find_argument(r, name, a, &counted, &v));
        value_print(out, v, &r->work);
        TRY(run_charge_(r, 1));
        TRY(run_check_text_(r, out->len));
        at += name.n + 2;
    }
    return OK;
}

static status str_format(run *r, value self, const call_args *a, value *out) {
    buf text = { 0 };
    TRY(run_charge_(r, self.s.n / 16));
    status s = put_format(r, self.s, a, &text);
    if (s == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return s;
}

const method *method_find_text_(str name) {
    static const method methods[] = {
        { VALUE_STR, "index", str_index },           { VALUE_STR, "rindex", str_rindex },
        { VALUE_STR, "rfind", str_rfind },           { VALUE_STR, "partition", str_partition },
        { VALUE_STR, "rpartition", str_rpartition }, { VALUE_STR, "ljust", str_ljust },
        { VALUE_STR, "rjust", str_rjust },           { VALUE_STR, "center", str_center },
        { VALUE_STR, "zfill", str_zfill },           { VALUE_STR, "isalpha", str_isalpha },
        { VALUE_STR, "isalnum", str_isalnum },       { VALUE_STR, "isdigit", str_isdigit },
        { VALUE_STR, "isnumeric", str_isnumeric },   { VALUE_STR, "isdecimal", str_isdecimal },
        { VALUE_STR, "swapcase", str_swapcase },     { VALUE_STR, "format", str_format },
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (str_eq(name, str_of(methods[i].name))) return &methods[i];
    return NULL;
}
