/* Values as text: Python's str() and repr(), and json.dumps(). */
#include "engine/text/value.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"
#include "engine/text/uchar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* repr() of a float: the fewest digits that read back as the same double, with an exponent below 1e-4 and from 1e16 on.
 */
void value_put_float(buf *out, double f) {
    char t[40];
    if (isnan(f) || isinf(f)) {
        buf_str(out, str_of(isnan(f) ? "nan" : f > 0 ? "inf" : "-inf"));
        return;
    }
    for (int digits = 0; digits <= 16; digits++) {
        snprintf(t, sizeof t, "%.*e", digits, fabs(f)); /* d.ddde+XX */
        if (strtod(t, NULL) == fabs(f)) break;
    }
    char *mark = strchr(t, 'e');
    int exponent = atoi(mark + 1);
    char digits[24];
    int n = 0;
    for (char *p = t; p < mark; p++)
        if (*p != '.') digits[n++] = *p;

    if (signbit(f)) buf_byte(out, '-');
    if (exponent < -4 || exponent >= 16) {
        buf_byte(out, digits[0]);
        if (n > 1) buf_byte(out, '.');
        buf_put(out, digits + 1, (size_t)n - 1);
        buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        buf_str(out, STR("0."));
        for (int i = exponent; i < -1; i++) buf_byte(out, '0');
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        buf_byte(out, i < n ? digits[i] : '0');
        if (i == exponent && i < n - 1) buf_byte(out, '.');
    }
    if (exponent >= n - 1) buf_str(out, STR(".0"));
}

/* Numbers in the plain form of Python, whatever the source spelled; only a big integer has nothing but its spelling. */
static void put_number(buf *out, value v) {
    if (v.kind == VALUE_INT)
        buf_printf(out, "%lld", (long long)v.i);
    else if (v.kind == VALUE_BIG)
        buf_str(out, str_of(v.spelling));
    else
        value_put_float(out, v.f);
}

static void repr_char(buf *out, uint32_t cp, str bytes, char quote) {
    switch (cp) {
    case '\n': buf_str(out, STR("\\n")); return;
    case '\r': buf_str(out, STR("\\r")); return;
    case '\t': buf_str(out, STR("\\t")); return;
    case '\\': buf_str(out, STR("\\\\")); return;
    default: break;
    }
    if (cp == (uint32_t)quote) buf_byte(out, '\\');
    if (uchar_is_printable(cp))
        buf_str(out, bytes);
    else if (cp < 0x100)
        buf_printf(out, "\\x%02x", (unsigned)cp);
    else if (cp < 0x10000)
        buf_printf(out, "\\u%04x", (unsigned)cp);
    else
        buf_printf(out, "\\U%08x", (unsigned)cp);
}

/* Single quotes, unless the text holds some and no double ones. */
static void repr_string(buf *out, str s) {
    char quote = s.n && memchr(s.p, '\'', s.n) && !memchr(s.p, '"', s.n) ? '"' : '\'';
    buf_byte(out, quote);
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        size_t n = uchar_next(str_from(s, i), &cp);
        repr_char(out, cp, (str){ s.p + i, n }, quote);
        i += n;
    }
    buf_byte(out, quote);
}

static void repr_list(buf *out, const value_list *l, bool tuple, value_work *w) {
    buf_byte(out, tuple ? '(' : '[');
    for (size_t i = 0; i < l->n; i++) {
        if (i) buf_str(out, STR(", "));
        value_repr(out, l->items[i], w);
    }
    if (tuple && l->n == 1) buf_byte(out, ',');
    buf_byte(out, tuple ? ')' : ']');
}

static void repr_dict(buf *out, const value_dict *d, value_work *w) {
    buf_byte(out, '{');
    for (size_t i = 0; i < d->n; i++) {
        if (i) buf_str(out, STR(", "));
        value_repr(out, d->entries[i].key, w);
        buf_str(out, STR(": "));
        value_repr(out, d->entries[i].val, w);
    }
    buf_byte(out, '}');
}

void value_repr(buf *out, value v, value_work *w) {
    if (!value_enter(w, 1 + (v.kind == VALUE_STR ? v.s.n / 16 : 0))) return;
    switch ((value_kind)v.kind) {
    case VALUE_UNDEFINED: buf_str(out, STR("Undefined")); break;
    case VALUE_NONE: buf_str(out, STR("None")); break;
    case VALUE_BOOL: buf_str(out, v.b ? STR("True") : STR("False")); break;
    case VALUE_INT:
    case VALUE_BIG:
    case VALUE_FLOAT: put_number(out, v); break;
    case VALUE_STR: repr_string(out, v.s); break;
    case VALUE_LIST:
    case VALUE_TUPLE: repr_list(out, v.list, v.kind == VALUE_TUPLE, w); break;
    case VALUE_DICT: repr_dict(out, v.dict, w); break;
    case VALUE_NAMESPACE:
        buf_str(out, STR("<Namespace "));
        repr_dict(out, v.dict, w);
        buf_byte(out, '>');
        break;
    default: buf_printf(out, "<%s>", value_type(v)); break;
    }
    value_leave(w);
}

void value_print(buf *out, value v, value_work *w) {
    if (v.kind == VALUE_STR) {
        if (!value_enter(w, 1 + v.s.n / 16)) return;
        buf_str(out, v.s);
        value_leave(w);
    } else if (v.kind != VALUE_UNDEFINED) {
        value_repr(out, v, w);
    }
}

typedef struct dump {
    buf *out;
    const value_json *opt;
    value_work *work;
    int level;
} dump;

static void dump_break(dump *j) {
    if (!j->opt->pretty) return;
    buf_byte(j->out, '\n');
    for (int i = 0; i < j->level; i++) buf_str(j->out, j->opt->indent);
}

static void dump_ascii_char(buf *out, uint32_t cp) {
    if (cp >= 0x10000) {
        cp -= 0x10000;
        buf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xD800 + (cp >> 10)), (unsigned)(0xDC00 + (cp & 0x3FF)));
    } else {
        buf_printf(out, "\\u%04x", (unsigned)cp);
    }
}

static void dump_string(dump *j, str s) {
    if (!j->opt->ensure_ascii) {
        buf_json_str(j->out, s);
        return;
    }
    buf plain = { 0 };
    buf_json_str(&plain, s);
    for (size_t i = 0; i < plain.len;) {
        uint32_t cp;
        size_t n = uchar_next(str_from(buf_view(&plain), i), &cp);
        if (cp < 0x7F)
            buf_byte(j->out, (char)cp);
        else
            dump_ascii_char(j->out, cp);
        i += n;
    }
    buf_free(&plain);
}

static void dump_number(buf *out, value v) {
    if (v.spelling)
        buf_str(out, str_of(v.spelling));
    else if (v.kind == VALUE_FLOAT && isnan(v.f))
        buf_str(out, STR("NaN"));
    else if (v.kind == VALUE_FLOAT && isinf(v.f))
        buf_str(out, v.f > 0 ? STR("Infinity") : STR("-Infinity"));
    else
        put_number(out, v);
}

static status dump_value(dump *j, value v, err *e);

static status dump_list(dump *j, const value_list *l, err *e) {
    if (!l->n) {
        buf_str(j->out, STR("[]"));
        return OK;
    }
    buf_byte(j->out, '[');
    j->level++;
    for (size_t i = 0; i < l->n; i++) {
        if (i) buf_str(j->out, j->opt->comma);
        dump_break(j);
        TRY(dump_value(j, l->items[i], e));
    }
    j->level--;
    dump_break(j);
    buf_byte(j->out, ']');
    return OK;
}

/* JSON has string keys only: numbers and constants are written as strings, as Python does. */
static void dump_key(dump *j, value key) {
    switch ((value_kind)key.kind) {
    case VALUE_STR: dump_string(j, key.s); return;
    case VALUE_NONE: buf_str(j->out, STR("\"null\"")); return;
    case VALUE_BOOL: buf_str(j->out, key.b ? STR("\"true\"") : STR("\"false\"")); return;
    default:
        buf_byte(j->out, '"');
        dump_number(j->out, key);
        buf_byte(j->out, '"');
    }
}

static status dump_dict(dump *j, const value_entry *entries, size_t n, err *e) {
    if (!n) {
        buf_str(j->out, STR("{}"));
        return OK;
    }
    buf_byte(j->out, '{');
    j->level++;
    for (size_t i = 0; i < n; i++) {
        if (i) buf_str(j->out, j->opt->comma);
        dump_break(j);
        dump_key(j, entries[i].key);
        buf_str(j->out, j->opt->colon);
        TRY(dump_value(j, entries[i].val, e));
    }
    j->level--;
    dump_break(j);
    buf_byte(j->out, '}');
    return OK;
}

static int by_string_key(const void *a, const void *b) {
    value_work w = { .left = 4 };
    int order = 0;
    value_compare(((const value_entry *)a)->key, ((const value_entry *)b)->key, &w, &order);
    return order;
}

static status dump_sorted_dict(dump *j, const value_dict *d, err *e) {
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i].key.kind != VALUE_STR)
            return err_set(e, ERR_TEMPLATE, "sort_keys needs keys of type str, found %s",
                           value_type(d->entries[i].key));
    value_entry *sorted = xalloc((d->n + 1) * sizeof *sorted);
    if (d->n) memcpy(sorted, d->entries, d->n * sizeof *sorted);
    qsort(sorted, d->n, sizeof *sorted, by_string_key);
    status s = dump_dict(j, sorted, d->n, e);
    free(sorted);
    return s;
}

static status dump_value(dump *j, value v, err *e) {
    if (!value_enter(j->work, 1 + (v.kind == VALUE_STR ? v.s.n / 16 : 0))) return OK;
    status s = OK;
    switch ((value_kind)v.kind) {
    case VALUE_NONE: buf_str(j->out, STR("null")); break;
    case VALUE_BOOL: buf_str(j->out, v.b ? STR("true") : STR("false")); break;
    case VALUE_INT:
    case VALUE_BIG:
    case VALUE_FLOAT: dump_number(j->out, v); break;
    case VALUE_STR: dump_string(j, v.s); break;
    case VALUE_LIST:
    case VALUE_TUPLE: s = dump_list(j, v.list, e); break;
    case VALUE_DICT:
        s = j->opt->sort_keys ? dump_sorted_dict(j, v.dict, e) : dump_dict(j, v.dict->entries, v.dict->n, e);
        break;
    default: s = err_set(e, ERR_TEMPLATE, "Object of type %s is not JSON serializable", value_type(v));
    }
    value_leave(j->work);
    return s;
}

status value_to_json(buf *out, value v, const value_json *opt, value_work *w, err *e) {
    dump j = { .out = out, .opt = opt, .work = w };
    return dump_value(&j, v, e);
}
