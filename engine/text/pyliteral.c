/* Recursive descent that writes while it reads. A tuple shows only at its comma, so the bracket that opens it is put
 * right behind: "(x)" is x, "(x,)" an array. */
#include "engine/text/pyliteral.h"

#include "engine/base/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct reader {
    str text;
    size_t at;
    int depth;
    buf *out;
    buf scratch; /* a string's characters, or a number */
} reader;

static char peek(const reader *r) { return r->at < r->text.n ? r->text.p[r->at] : 0; }

static bool skip_byte(reader *r, char c) {
    if (r->at >= r->text.n || r->text.p[r->at] != c) return false;
    r->at++;
    return true;
}

/* Inside of brackets lines may break. */
static void skip_space(reader *r) {
    while (r->at < r->text.n && r->text.p[r->at] && strchr(" \t\n\r\f", r->text.p[r->at])) r->at++;
}

/* ---- strings ---- */

static int digit_of(char c, int base) {
    int v = isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : 99;
    return v < base ? v : -1;
}

/* Up to most digits of a base: a code point. */
static bool read_code(reader *r, int base, int least, int most) {
    uint32_t cp = 0;
    int n = 0;
    for (; n < most && digit_of(peek(r), base) >= 0; n++, r->at++)
        cp = cp * (uint32_t)base + (uint32_t)digit_of(peek(r), base);
    if (n < least || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) return false;
    char bytes[4];
    buf_put(&r->scratch, bytes, utf8_encode(cp, bytes));
    return true;
}

/* Behind the backslash. One that escapes nothing stands for itself. */
static bool read_escape(reader *r) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = peek(r);
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        buf_byte(&r->scratch, to[known - from]);
        r->at++;
        return true;
    }
    switch (c) {
    case '\n': r->at++; return true;
    case 'x': r->at++; return read_code(r, 16, 2, 2);
    case 'u': r->at++; return read_code(r, 16, 4, 4);
    case 'U': r->at++; return read_code(r, 16, 8, 8);
    case 'N': return false; /* a character by its name */
    default:
        if (c >= '0' && c <= '7') return read_code(r, 8, 1, 3);
        buf_byte(&r->scratch, '\\');
        return true;
    }
}

static bool read_string(reader *r) {
    char quote = r->text.p[r->at++];
    buf_clear(&r->scratch);
    while (r->at < r->text.n && r->text.p[r->at] != quote) {
        char c = r->text.p[r->at++];
        if (c == '\n' || c == '\r') return false;
        if (c != '\\')
            buf_byte(&r->scratch, c);
        else if (!read_escape(r))
            return false;
    }
    if (!skip_byte(r, quote)) return false;
    buf_json_str(r->out, buf_view(&r->scratch));
    return true;
}

/* ---- numbers ---- */

/* Digits with single underscores between them. How many digits, -1: an underscore out of place. */
static int read_digits(reader *r) {
    int n = 0;
    while (isdigit((unsigned char)peek(r))) {
        buf_byte(&r->scratch, peek(r));
        r->at++, n += n < 2;
        if (peek(r) == '_' && (r->at++, !isdigit((unsigned char)peek(r)))) return -1;
    }
    return n;
}

/* JSON wants a digit on both sides of the point, no plus, and no zero in front. */
static bool read_number(reader *r) {
    buf_clear(&r->scratch);
    if (skip_byte(r, '-'))
        buf_byte(&r->scratch, '-');
    else
        skip_byte(r, '+');
    size_t lead = r->scratch.len;
    int whole = read_digits(r), fraction = 0;
    if (whole < 0 || (whole > 1 && r->scratch.data[lead] == '0')) return false;
    if (skip_byte(r, '.')) {
        if (!whole) buf_byte(&r->scratch, '0');
        buf_byte(&r->scratch, '.');
        fraction = read_digits(r);
        if (fraction < 0 || whole + fraction == 0) return false;
        if (!fraction) buf_byte(&r->scratch, '0');
    }
    if (whole + fraction > 0 && (peek(r) == 'e' || peek(r) == 'E')) {
        buf_byte(&r->scratch, r->text.p[r->at++]);
        if (peek(r) == '+' || peek(r) == '-') buf_byte(&r->scratch, r->text.p[r->at++]);
        if (read_digits(r) < 1) return false;
    }
    if (whole + fraction == 0 || !isfinite(strtod(buf_cstr(&r->scratch), NULL))) return false;
    buf_str(r->out, buf_view(&r->scratch));
    return true;
}

/* ---- values ---- */

static bool read_value(reader *r);

/* Behind the opening bracket: values with commas between them and perhaps one at the end, up to close. Sets how many
 * values, and whether the last thing before close was a comma. */
static bool read_items(reader *r, char close, size_t *n, bool *comma) {
    *n = 0;
    *comma = false;
    for (skip_space(r); !skip_byte(r, close); skip_space(r)) {
        if (*n && !*comma) return false;
        if (*n) buf_str(r->out, STR(", "));
        if (!read_value(r)) return false;
        ++*n;
        skip_space(r);
        *comma = skip_byte(r, ',');
    }
    return true;
}

static bool read_list(reader *r) {
    size_t n;
    bool comma;
    buf_byte(r->out, '[');
    if (!read_items(r, ']', &n, &comma)) return false;
    buf_byte(r->out, ']');
    return true;
}

static bool read_tuple(reader *r) {
    size_t from = r->out->len, n;
    bool comma;
    buf_byte(r->out, ' ');
    if (!read_items(r, ')', &n, &comma)) return false;
    if (n == 1 && !comma) return true; /* the space stays: it means nothing to JSON */
    r->out->data[from] = '[';
    buf_byte(r->out, ']');
    return true;
}

/* Keys of JSON are strings: others become what Python's json.dumps makes of them. */
static bool read_key(reader *r) {
    size_t from = r->out->len;
    char c = peek(r);
    if (c == '(' || c == '[' || c == '{' || !read_value(r)) return false;
    if (c == '\'' || c == '"') return true;
    buf_byte(r->out, '"');
    buf_byte(r->out, '"');
    memmove(r->out->data + from + 1, r->out->data + from, r->out->len - from - 2);
    r->out->data[from] = '"';
    return true;
}

static bool read_dict(reader *r) {
    bool comma = true;
    buf_byte(r->out, '{');
    for (skip_space(r); !skip_byte(r, '}'); skip_space(r)) {
        if (!comma) return false;
        if (r->out->data[r->out->len - 1] != '{') buf_str(r->out, STR(", "));
        if (!read_key(r)) return false;
        skip_space(r);
        if (!skip_byte(r, ':')) return false;
        buf_str(r->out, STR(": "));
        skip_space(r);
        if (!read_value(r)) return false;
        skip_space(r);
        comma = skip_byte(r, ',');
    }
    buf_byte(r->out, '}');
    return true;
}

static bool read_word(reader *r) {
    static const struct {
        str python, json;
    } words[] = { { STR("None"), STR("null") }, { STR("True"), STR("true") }, { STR("False"), STR("false") } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!str_starts(str_from(r->text, r->at), words[i].python)) continue;
        r->at += words[i].python.n;
        buf_str(r->out, words[i].json);
        return !isalnum((unsigned char)peek(r)) && peek(r) != '_';
    }
    return false;
}

static bool read_value(reader *r) {
    if (r->depth == PYLITERAL_DEPTH_MAX) return false;
    r->depth++;
    bool fine;
    switch (peek(r)) {
    case '[': r->at++, fine = read_list(r); break;
    case '(': r->at++, fine = read_tuple(r); break;
    case '{': r->at++, fine = read_dict(r); break;
    case '\'':
    case '"': fine = read_string(r); break;
    case 'N':
    case 'T':
    case 'F': fine = read_word(r); break;
    default: fine = read_number(r); break;
    }
    r->depth--;
    return fine;
}

bool pyliteral_to_json(buf *out, str text) {
    reader r = { .text = text, .out = out };
    bool fine = read_value(&r) && r.at == text.n;
    buf_free(&r.scratch);
    return fine;
}
