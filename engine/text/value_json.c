/* JSON into values: from jansson's trees, and from text when the spelling of numbers matters.
 *
 * The second reader exists because jansson keeps a number as int64 or double: "1.50" comes back as 1.5, 30 digits not
 * at all. It is strict, as jansson is. */
#include "engine/text/value.h"

#include "engine/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

static str json_str(arena *mem, const json_t *j) {
    return arena_str(mem, (str){ json_string_value(j), json_string_length(j) });
}

static status from_tree(arena *mem, value *out, const json_t *j, int depth, err *e) {
    if (depth > VALUE_DEPTH_MAX) return err_set(e, ERR_REQUEST, "JSON is nested more than %d deep", VALUE_DEPTH_MAX);
    switch (json_typeof(j)) {
    case JSON_NULL: *out = value_none(); return OK;
    case JSON_TRUE: *out = value_bool(true); return OK;
    case JSON_FALSE: *out = value_bool(false); return OK;
    case JSON_INTEGER: *out = value_int(json_integer_value(j)); return OK;
    case JSON_REAL: *out = value_float(json_real_value(j)); return OK;
    case JSON_STRING: *out = value_str(json_str(mem, j)); return OK;
    case JSON_ARRAY: {
        value_list *l = value_list_new(mem, json_array_size(j));
        for (; l->n < json_array_size(j); l->n++)
            TRY(from_tree(mem, &l->items[l->n], json_array_get(j, l->n), depth + 1, e));
        *out = value_of_list(l);
        return OK;
    }
    case JSON_OBJECT: {
        value_dict *d = value_dict_new(mem, json_object_size(j));
        json_t *tree = (json_t *)(uintptr_t)j; /* the iterator's type is not const; it changes nothing */
        for (void *it = json_object_iter(tree); it; it = json_object_iter_next(tree, it)) {
            str key = arena_str(mem, (str){ json_object_iter_key(it), json_object_iter_key_len(it) });
            value v;
            TRY(from_tree(mem, &v, json_object_iter_value(it), depth + 1, e));
            value_dict_set(mem, d, value_str(key), v);
        }
        *out = value_of_dict(d);
        return OK;
    }
    }
    CHECK(!"a JSON type");
    return OK;
}

status value_from_json(arena *mem, value *out, const json_t *j, err *e) { return from_tree(mem, out, j, 0, e); }

void value_respell(value *v, value source) {
    value_work w = { .left = 4 };
    if (value_is_number(*v) && value_equal(*v, source, &w)) {
        if (source.kind == VALUE_BIG)
            *v = source;
        else if (v->kind == source.kind && v->kind != VALUE_BOOL)
            v->spelling = source.spelling;
    } else if (v->kind == VALUE_LIST && source.kind == VALUE_LIST) {
        for (size_t i = 0; i < v->list->n && i < source.list->n; i++)
            value_respell(&v->list->items[i], source.list->items[i]);
    } else if (v->kind == VALUE_DICT && source.kind == VALUE_DICT) {
        for (size_t i = 0; i < v->dict->n; i++) {
            const value *other = value_dict_find(source.dict, v->dict->entries[i].key);
            if (other) value_respell(&v->dict->entries[i].val, *other);
        }
    }
}

typedef struct reader {
    arena *mem;
    str text;
    size_t at;
    int depth;
    buf scratch; /* strings with escapes */
    err *e;
} reader;

static status bad(reader *r, const char *what) {
    return err_set(r->e, ERR_REQUEST, "invalid JSON: %s at byte %zu", what, r->at);
}

static void skip_space(reader *r) {
    while (r->at < r->text.n && strchr(" \t\n\r", r->text.p[r->at]) && r->text.p[r->at]) r->at++;
}

static bool skip_byte(reader *r, char c) {
    if (r->at >= r->text.n || r->text.p[r->at] != c) return false;
    r->at++;
    return true;
}

static status read_hex4(reader *r, uint32_t *out) {
    uint32_t v = 0;
    if (r->text.n - r->at < 4) return bad(r, "cut \\u escape");
    for (int i = 0; i < 4; i++, r->at++) {
        char c = r->text.p[r->at];
        if (!isxdigit((unsigned char)c)) return bad(r, "\\u escape without four hex digits");
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    *out = v;
    return OK;
}

/* Behind "\u". A pair of surrogates is one character, a lone one is none. */
static status read_unicode_escape(reader *r) {
    uint32_t cp, low;
    TRY(read_hex4(r, &cp));
    if (cp >= 0xD800 && cp < 0xE000) {
        if (cp >= 0xDC00 || !str_starts(str_from(r->text, r->at), STR("\\u"))) return bad(r, "lone surrogate");
        r->at += 2;
        TRY(read_hex4(r, &low));
        if (low < 0xDC00 || low >= 0xE000) return bad(r, "lone surrogate");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    char bytes[4];
    buf_put(&r->scratch, bytes, utf8_encode(cp, bytes));
    return OK;
}

static status read_escape(reader *r) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->text.n ? r->text.p[r->at] : 0;
    const char *known = c ? strchr(from, c) : NULL;
    if (known)
        buf_byte(&r->scratch, to[known - from]);
    else if (c != 'u')
        return bad(r, "unknown escape");
    r->at++;
    return known ? OK : read_unicode_escape(r);
}

/* Behind the opening quote. */
static status read_string(reader *r, str *out) {
    buf_clear(&r->scratch);
    for (;;) {
        size_t run = r->at;
        while (r->at < r->text.n && r->text.p[r->at] != '"' && r->text.p[r->at] != '\\' &&
               (unsigned char)r->text.p[r->at] >= 0x20)
            r->at++;
        buf_put(&r->scratch, r->text.p + run, r->at - run);
        if (skip_byte(r, '"')) break;
        if (!skip_byte(r, '\\'))
            return bad(r, r->at < r->text.n ? "control character in a string" : "string without end");
        TRY(read_escape(r));
    }
    *out = arena_str(r->mem, buf_view(&r->scratch));
    return OK;
}

static size_t skip_digits(reader *r) {
    size_t from = r->at;
    while (r->at < r->text.n && isdigit((unsigned char)r->text.p[r->at])) r->at++;
    return r->at - from;
}

static status read_number(reader *r, value *out) {
    size_t from = r->at;
    bool integer = true;
    skip_byte(r, '-');
    size_t lead = r->at;
    if (!skip_digits(r) || (r->text.p[lead] == '0' && r->at > lead + 1)) return bad(r, "malformed number");
    if (skip_byte(r, '.')) {
        integer = false;
        if (!skip_digits(r)) return bad(r, "malformed number");
    }
    if (skip_byte(r, 'e') || skip_byte(r, 'E')) {
        integer = false;
        if (!skip_byte(r, '+')) skip_byte(r, '-');
        if (!skip_digits(r)) return bad(r, "malformed number");
    }
    const char *spelling = arena_str(r->mem, (str){ r->text.p + from, r->at - from }).p;
    *out = (value){ .kind = VALUE_FLOAT, .f = strtod(spelling, NULL), .spelling = spelling };
    if (!integer) return OK;
    errno = 0;
    long long i = strtoll(spelling, NULL, 10);
    if (errno == ERANGE) {
        out->kind = VALUE_BIG;
    } else {
        out->kind = VALUE_INT;
        out->i = i;
    }
    return OK;
}

static status read_value(reader *r, value *out);

static status read_array(reader *r, value *out) {
    value_list *l = value_list_new(r->mem, 0);
    skip_space(r);
    while (!skip_byte(r, ']')) {
        if (l->n) {
            if (!skip_byte(r, ',')) return bad(r, "expected ',' or ']'");
        }
        value v;
        TRY(read_value(r, &v));
        value_list_push(r->mem, l, v);
        skip_space(r);
    }
    *out = value_of_list(l);
    return OK;
}

static status read_object(reader *r, value *out) {
    value_dict *d = value_dict_new(r->mem, 0);
    skip_space(r);
    while (!skip_byte(r, '}')) {
        if (d->n) {
            if (!skip_byte(r, ',')) return bad(r, "expected ',' or '}'");
            skip_space(r);
        }
        str key;
        value v;
        if (!skip_byte(r, '"')) return bad(r, "expected a key in quotes");
        TRY(read_string(r, &key));
        skip_space(r);
        if (!skip_byte(r, ':')) return bad(r, "expected ':'");
        TRY(read_value(r, &v));
        value_dict_set(r->mem, d, value_str(key), v);
        skip_space(r);
    }
    *out = value_of_dict(d);
    return OK;
}

static bool skip_word(reader *r, str word) {
    if (!str_starts(str_from(r->text, r->at), word)) return false;
    r->at += word.n;
    return true;
}

static status read_value(reader *r, value *out) {
    skip_space(r);
    if (r->at >= r->text.n) return bad(r, "value missing");
    if (r->depth == VALUE_DEPTH_MAX) return bad(r, "nested too deeply");
    r->depth++;
    status s = OK;
    if (skip_byte(r, '{')) {
        s = read_object(r, out);
    } else if (skip_byte(r, '[')) {
        s = read_array(r, out);
    } else if (skip_byte(r, '"')) {
        *out = value_str((str){ 0 });
        s = read_string(r, &out->s);
    } else if (skip_word(r, STR("true"))) {
        *out = value_bool(true);
    } else if (skip_word(r, STR("false"))) {
        *out = value_bool(false);
    } else if (skip_word(r, STR("null"))) {
        *out = value_none();
    } else if (r->text.p[r->at] == '-' || isdigit((unsigned char)r->text.p[r->at])) {
        s = read_number(r, out);
    } else {
        s = bad(r, "no value");
    }
    r->depth--;
    return s;
}

status value_from_text(arena *mem, value *out, str text, err *e) {
    reader r = { .mem = mem, .text = text, .e = e };
    value v;
    if (!utf8_valid(text)) return err_set(e, ERR_REQUEST, "invalid JSON: not UTF-8");
    status s = read_value(&r, &v);
    if (s == OK) {
        skip_space(&r);
        if (r.at < text.n) s = bad(&r, "text behind the value");
    }
    if (s == OK) *out = v;
    buf_free(&r.scratch);
    return s;
}
