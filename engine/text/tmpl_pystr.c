/* Python's string operations. Sizes are checked before or while a result grows: a template cannot ask for more text
 * than its limits allow. */
#include "engine/text/tmpl_int.h"

#include "engine/base/utf8.h"
#include "engine/text/ucase.h"
#include "engine/text/uchar.h"

#include <ctype.h>
#include <stdio.h>

value pystr_of_(run *r, value v) {
    if (v.kind == VALUE_STR) return v;
    buf text = { 0 };
    value_print(&text, v, &r->work);
    return run_take_text_(r, &text);
}

size_t pystr_find_(str s, str part, size_t from) {
    if (from > s.n) return SIZE_MAX;
    if (!part.n) return from;
    const char *p = memmem(s.p + from, s.n - from, part.p, part.n);
    return p ? (size_t)(p - s.p) : SIZE_MAX;
}

/* ---- case ---- */

static bool is_cased(uint32_t cp) { return ucase_is_lower(cp) || ucase_is_upper(cp) || ucase_is_title(cp); }

static void put_char(buf *out, uint32_t cp) {
    char bytes[4];
    buf_put(out, bytes, utf8_encode(cp, bytes));
}

value pystr_case_(run *r, str s, letter_case to) {
    buf text = { 0 };
    ucase_walk w = { 0 };
    bool inside = false; /* behind the first letter: of the word for TITLE, of the text for CAPITAL */
    buf_reserve(&text, s.n);
    for (size_t at = 0; at < s.n;) {
        uint32_t cp;
        at += uchar_next(str_from(s, at), &cp);
        if (to == CASE_UPPER || (to == CASE_SWAP && ucase_is_lower(cp)))
            ucase_put_upper(&text, cp);
        else if (to == CASE_LOWER || inside || (to == CASE_SWAP && ucase_is_upper(cp)))
            ucase_put_lower(&text, &w, cp, str_from(s, at));
        else if (to == CASE_SWAP)
            put_char(&text, cp);
        else
            ucase_put_title(&text, cp);
        ucase_pass(&w, cp);
        inside = to == CASE_CAPITAL || (to == CASE_TITLE && is_cased(cp));
    }
    return run_take_text_(r, &text);
}

bool pystr_is_case_(str s, bool upper) {
    bool some = false;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp;
        at += uchar_next(str_from(s, at), &cp);
        if (ucase_is_title(cp) || (upper ? ucase_is_lower(cp) : ucase_is_upper(cp))) return false;
        some = some || (upper ? ucase_is_upper(cp) : ucase_is_lower(cp));
    }
    return some;
}

/* ---- search, replace, split ---- */

status pystr_repeat_(run *r, str s, int64_t times, value *out) {
    size_t total;
    if (times < 0) times = 0;
    if (__builtin_mul_overflow(s.n, (size_t)times, &total)) total = SIZE_MAX;
    TRY(run_check_text_(r, total));
    TRY(run_charge_(r, total / 16));
    char *p = arena_alloc(r->mem, total + 1);
    for (size_t at = 0; at < total; at += s.n) memcpy(p + at, s.p, s.n);
    *out = value_str((str){ p, total });
    return OK;
}

/* An empty `from` stands in front of every character and at the end. */
status pystr_replace_(run *r, str s, str from, str to, int64_t max, value *out) {
    buf text = { 0 };
    status st = run_charge_(r, s.n / 16);
    size_t at = 0;
    for (; st == OK && max; max -= max > 0) {
        size_t hit = pystr_find_(s, from, at);
        if (hit == SIZE_MAX) break;
        buf_put(&text, s.p + at, hit - at);
        buf_str(&text, to);
        at = hit + from.n;
        if (!from.n) {
            if (at == s.n) break;
            uint32_t cp;
            size_t n = uchar_next(str_from(s, at), &cp);
            buf_put(&text, s.p + at, n);
            at += n;
        }
        st = run_check_text_(r, text.len);
        if (st == OK) st = run_charge_(r, 1);
    }
    if (st == OK) buf_put(&text, s.p + at, s.n - at);
    if (st == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return st;
}

/* The last place of sep in s; SIZE_MAX: nowhere. Linear: the places of a pattern from the right are those of its mirror
 * image from the left, which the automaton of Knuth, Morris and Pratt finds without going back. */
size_t pystr_find_last_(run *r, str s, str sep) {
    if (sep.n > s.n) return SIZE_MAX;
    if (!sep.n) return s.n;
    size_t *fall = arena_alloc(r->mem, sep.n * sizeof *fall), at = 0;
    fall[0] = 0;
    for (size_t i = 1; i < sep.n; i++) {
        while (at && sep.p[sep.n - 1 - i] != sep.p[sep.n - 1 - at]) at = fall[at - 1];
        at += sep.p[sep.n - 1 - i] == sep.p[sep.n - 1 - at];
        fall[i] = at;
    }
    at = 0;
    for (size_t i = s.n; i--;) {
        while (at && s.p[i] != sep.p[sep.n - 1 - at]) at = fall[at - 1];
        at += s.p[i] == sep.p[sep.n - 1 - at];
        if (at == sep.n) return i;
    }
    return SIZE_MAX;
}

/* Length of s up to its first white space; with from_right the part behind the last. */
static size_t word_end(str s) {
    uint32_t cp;
    size_t at = 0;
    for (size_t n; at < s.n; at += n) {
        n = uchar_next(str_from(s, at), &cp);
        if (uchar_is_space(cp)) break;
    }
    return at;
}

static size_t word_start(str s) {
    str head = s;
    while (head.n) { /* a character is taken off while it is no white space */
        size_t n = 1;
        uint32_t cp;
        while (n < 4 && n < head.n && ((unsigned char)head.p[head.n - n] & 0xC0) == 0x80) n++;
        uchar_next(str_from(head, head.n - n), &cp);
        if (uchar_is_space(cp)) break;
        head.n -= n;
    }
    return head.n;
}

static void split_words(run *r, str s, int64_t max, bool from_right, value_list *l) {
    for (s = uchar_strip(s, NULL, !from_right, from_right); s.n; s = uchar_strip(s, NULL, !from_right, from_right)) {
        if (max-- == 0) {
            value_list_push(r->mem, l, value_str(s));
            return;
        }
        size_t cut = from_right ? word_start(s) : word_end(s);
        value_list_push(r->mem, l, value_str(from_right ? str_from(s, cut) : (str){ s.p, cut }));
        s = from_right ? (str){ s.p, cut } : str_from(s, cut);
    }
}

static void split_at(run *r, str s, str sep, int64_t max, bool from_right, value_list *l) {
    for (; max; max -= max > 0) {
        size_t hit = from_right ? pystr_find_last_(r, s, sep) : pystr_find_(s, sep, 0);
        if (hit == SIZE_MAX) break;
        str head = { s.p, hit }, tail = str_from(s, hit + sep.n);
        value_list_push(r->mem, l, value_str(from_right ? tail : head));
        s = from_right ? head : tail;
    }
    value_list_push(r->mem, l, value_str(s));
}

status pystr_split_(run *r, str s, const str *sep, int64_t max, bool from_right, value *out) {
    value_list *l = value_list_new(r->mem, 0);
    if (sep && !sep->n) return run_fail_(r, "empty separator");
    TRY(run_charge_(r, s.n));
    if (sep)
        split_at(r, s, *sep, max, from_right, l);
    else
        split_words(r, s, max, from_right, l);
    for (size_t i = 0; from_right && i < l->n / 2; i++) { /* found from the end */
        value swap = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = swap;
    }
    *out = value_of_list(l);
    return OK;
}

static bool is_line_break(uint32_t cp) {
    return (cp >= '\n' && cp <= '\r') || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

value pystr_lines_(run *r, str s, bool keep_ends) {
    value_list *l = value_list_new(r->mem, 0);
    size_t start = 0;
    for (size_t at = 0; at < s.n;) {
        uint32_t cp;
        size_t end = at;
        at += uchar_next(str_from(s, at), &cp);
        if (!is_line_break(cp)) continue;
        if (cp == '\r' && at < s.n && s.p[at] == '\n') at++;
        value_list_push(r->mem, l, value_str((str){ s.p + start, (keep_ends ? at : end) - start }));
        start = at;
    }
    if (start < s.n) value_list_push(r->mem, l, value_str(str_from(s, start)));
    return value_of_list(l);
}

/* ---- the % operator ---- */

/* One conversion: "%-5.2f". flags, width and precision are copied to the C library's format. */
typedef struct conversion {
    char spec[32];
    int width;
    char type;
} conversion;

static status read_conversion(run *r, str format, size_t *at, conversion *c) {
    size_t n = 0, from = *at;
    c->spec[n++] = '%';
    while (*at < format.n && strchr("-+ #0123456789.", format.p[*at]) && n < sizeof c->spec - 4)
        c->spec[n++] = format.p[(*at)++];
    if (*at - from > 8) return run_fail_(r, "a format with a width beyond reason");
    c->type = *at < format.n ? format.p[(*at)++] : 0;
    c->spec[n] = 0;
    if (!c->type || !strchr("sriduxXoeEfFgG", c->type))
        return run_fail_(r, "unsupported format '%.*s'", (int)(*at - from + 1), format.p + from - 1);
    return OK;
}

static status put_number(run *r, buf *out, conversion *c, value v) {
    double f;
    char text[512], spec[40];
    bool integer = strchr("iduxXo", c->type) != NULL;
    if (!value_as_double(v, &f))
        return run_fail_(r, "%%%c format: a number is required, not '%s'", c->type, value_type(v));
    if (v.kind == VALUE_BIG || (integer && !(f > -9.2e18 && f < 9.2e18)))
        return run_fail_(r, "%%%c format: the number is too large", c->type);
    int n;
    if (integer) {
        snprintf(spec, sizeof spec, "%sll%c", c->spec, c->type == 'u' ? 'd' : c->type);
        n = snprintf(text, sizeof text, spec, v.kind == VALUE_INT ? (long long)v.i : (long long)f);
    } else {
        snprintf(spec, sizeof spec, "%s%c", c->spec, c->type);
        n = snprintf(text, sizeof text, spec, f);
    }
    if (n < 0 || (size_t)n >= sizeof text) return run_fail_(r, "%%%c format: the text is too long", c->type);
    buf_put(out, text, (size_t)n);
    return OK;
}

/* The precision of a text counts characters. */
static status put_text(run *r, buf *out, const conversion *c, value v) {
    buf repr = { 0 };
    if (c->type == 'r')
        value_repr(&repr, v, &r->work);
    else
        value_print(&repr, v, &r->work);
    str s = run_take_text_(r, &repr).s;
    const char *digits = c->spec + 1 + strspn(c->spec + 1, "-+ #0"), *dot = strchr(c->spec, '.');
    bool left = memchr(c->spec, '-', (size_t)(digits - c->spec)) != NULL;
    size_t width = 0, precision = 0;
    for (; isdigit((unsigned char)*digits); digits++) width = width * 10 + (size_t)(*digits - '0');
    for (const char *p = dot ? dot + 1 : ""; isdigit((unsigned char)*p); p++)
        precision = precision * 10 + (size_t)(*p - '0');
    if (dot) s.n = uchar_offset(s, precision);
    size_t chars = uchar_count(s), pad = width > chars ? width - chars : 0;
    TRY(run_check_text_(r, out->len + s.n + pad));
    if (left) buf_str(out, s);
    for (size_t i = 0; i < pad; i++) buf_byte(out, ' ');
    if (!left) buf_str(out, s);
    return OK;
}

static status put_formatted(run *r, buf *out, str format, const value *vals, size_t n) {
    size_t used = 0;
    for (size_t at = 0; at < format.n;) {
        conversion c;
        char byte = format.p[at++];
        if (byte != '%' || (at < format.n && format.p[at] == '%')) {
            buf_byte(out, byte);
            at += byte == '%';
            continue;
        }
        TRY(read_conversion(r, format, &at, &c));
        if (used == n) return run_fail_(r, "not enough arguments for format string");
        value v = vals[used++];
        if (c.type == 's' || c.type == 'r')
            TRY(put_text(r, out, &c, v));
        else
            TRY(put_number(r, out, &c, v));
        TRY(run_check_text_(r, out->len));
    }
    uint8_t kind = n == 1 ? vals[0].kind : VALUE_TUPLE; /* what can be looked into by a key may stay unused */
    bool lookable = kind == VALUE_DICT || kind == VALUE_LIST || kind == VALUE_UNDEFINED;
    if (used < n && !lookable) return run_fail_(r, "not all arguments converted during string formatting");
    return OK;
}

status pystr_format_(run *r, str format, const value *vals, size_t n, value *out) {
    buf text = { 0 };
    status s = put_formatted(r, &text, format, vals, n);
    if (s == OK)
        *out = run_take_text_(r, &text);
    else
        buf_free(&text);
    return s;
}
