/* Finding the tables and reading them are two passes with different manners. The first only follows strings and
 * brackets, and believes the rest: what it passes over is checked by jansson or by the second pass. The second accepts
 * exactly the two shapes that the tables may have. */
#include "engine/text/tokfile.h"

#include "engine/base/utf8.h"

#include <stdlib.h>

#define FILE_NAME "tokenizer.json"

static size_t line_of(str json, size_t at) {
    size_t line = 1;
    for (size_t i = 0; i < at && i < json.n; i++) line += json.p[i] == '\n';
    return line;
}

static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static size_t skip_blanks(str s, size_t at) {
    while (at < s.n && is_blank(s.p[at])) at++;
    return at;
}

/* ---- pass one: where things are. A result of s.n says that the text ended early. ---- */

static size_t skip_string(str s, size_t at) {
    for (at++; at < s.n; at++) {
        if (s.p[at] == '\\')
            at++;
        else if (s.p[at] == '"')
            return at + 1;
    }
    return s.n;
}

static size_t skip_value(str s, size_t at) {
    for (size_t depth = 0; at < s.n;) {
        char c = s.p[at];
        bool closes = c == '}' || c == ']';
        if (!depth && (closes || c == ',')) return at; /* the end of what a number or a name stands in */
        depth += c == '{' || c == '[';
        depth -= closes;
        at = c == '"' ? skip_string(s, at) : at + 1;
        if (!depth && (closes || c == '"')) return at;
    }
    return s.n;
}

/* From the opening of an object, or from behind a value in it, to the next value. */
static bool next_member(str s, size_t *at, str *key) {
    size_t i = skip_blanks(s, *at);
    if (i >= s.n || (s.p[i] != '{' && s.p[i] != ',')) return false;
    i = skip_blanks(s, i + 1);
    if (i >= s.n || s.p[i] != '"') return false;
    size_t end = skip_string(s, i);
    *key = (str){ s.p + i + 1, end - i - 1 };
    if (!str_ends(*key, STR("\""))) return false;
    key->n--;
    i = skip_blanks(s, end);
    if (i >= s.n || s.p[i] != ':') return false;
    *at = skip_blanks(s, i + 1);
    return *at < s.n;
}

/* Only the first of two members of one name is found; the second stays in the rest, which is refused for it. */
static void find_tables(tokfile *f) {
    size_t at = 0;
    str key;
    while (next_member(f->json, &at, &key) && !str_eq(key, STR("model"))) at = skip_value(f->json, at);
    if (at >= f->json.n || f->json.p[at] != '{') return;
    while (next_member(f->json, &at, &key)) {
        size_t end = skip_value(f->json, at);
        str value = { f->json.p + at, end - at };
        if (!f->vocab.p && str_eq(key, STR("vocab")) && value.p[0] == '{') f->vocab = value;
        if (!f->merges.p && str_eq(key, STR("merges")) && value.p[0] == '[') f->merges = value;
        at = end;
    }
}

/* The tables in the order in which they stand in the file; p NULL last. */
static void sort_tables(const tokfile *f, str cut[2]) {
    bool swap = !f->vocab.p || (f->merges.p && f->merges.p < f->vocab.p);
    cut[0] = swap ? f->merges : f->vocab;
    cut[1] = swap ? f->vocab : f->merges;
}

static void put_rest(const tokfile *f, buf *out) {
    str cut[2];
    sort_tables(f, cut);
    size_t at = 0;
    for (int i = 0; i < 2 && cut[i].p; i++) {
        size_t start = (size_t)(cut[i].p - f->json.p);
        buf_put(out, f->json.p + at, start - at);
        buf_str(out, STR("null"));
        at = start + cut[i].n;
    }
    buf_str(out, str_from(f->json, at));
}

/* Where byte `at` of the rest stands in the file. */
static size_t place_in_file(const tokfile *f, size_t at) {
    str cut[2];
    sort_tables(f, cut);
    for (int i = 0; i < 2 && cut[i].p; i++)
        if ((size_t)(cut[i].p - f->json.p) < at) at += cut[i].n - strlen("null");
    return at;
}

status tokfile_open(tokfile *out, str json, err *e) {
    tokfile f = { .json = json };
    find_tables(&f);
    buf rest = { 0 };
    put_rest(&f, &rest);
    json_error_t why;
    f.rest = json_loadb(buf_view(&rest).p, rest.len, JSON_REJECT_DUPLICATES, &why);
    buf_free(&rest);
    if (!f.rest) {
        size_t at = place_in_file(&f, why.position > 0 ? (size_t)why.position : 0);
        return err_set(e, ERR_MODEL, FILE_NAME ", line %zu: not valid JSON: %s", line_of(json, at), why.text);
    }
    if (!json_is_object(f.rest)) {
        json_decref(f.rest);
        return err_set(e, ERR_MODEL, FILE_NAME ": expected a JSON object");
    }
    *out = f;
    return OK;
}

void tokfile_close(tokfile *f) {
    json_decref(f->rest);
    *f = (tokfile){ 0 };
}

/* ---- pass two: entries ---- */

void tokfile_reader_init(tokfile_reader *r, const tokfile *f, str table, const char *name) {
    size_t start = (size_t)(table.p - f->json.p);
    *r = (tokfile_reader){ .file = f, .table = name, .at = start, .end = start + table.n, .entry = (size_t)-1 };
}

void tokfile_reader_deinit(tokfile_reader *r) {
    buf_free(&r->text[0]);
    buf_free(&r->text[1]);
}

static status refuse(const tokfile_reader *r, const char *why, err *e) {
    return err_set(e, ERR_MODEL, FILE_NAME ", line %zu: model.%s, entry %zu: %s", line_of(r->file->json, r->at),
                   r->table, r->entry, why);
}

/* The next byte that is not blank, not taken; 0 at the end of the table. */
static char peek(tokfile_reader *r) {
    r->at = skip_blanks((str){ r->file->json.p, r->end }, r->at);
    return r->at < r->end ? r->file->json.p[r->at] : 0;
}

static bool take(tokfile_reader *r, char c) {
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool read_hex4(str s, size_t at, uint32_t *out) {
    if (s.n < 4 || at > s.n - 4) return false;
    uint32_t v = 0;
    for (size_t i = at; i < at + 4; i++) {
        int d = hex_digit(s.p[i]);
        if (d < 0) return false;
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return true;
}

/* The escape at s.p[at], a backslash; its length, 0 when it is none of JSON's. */
static size_t put_escape(buf *out, str s, size_t at) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (at + 1 >= s.n) return 0;
    const char *name = memchr(names, s.p[at + 1], sizeof names - 1);
    if (name) {
        buf_byte(out, values[name - names]);
        return 2;
    }
    uint32_t cp, low;
    if (s.p[at + 1] != 'u' || !read_hex4(s, at + 2, &cp)) return 0;
    size_t n = 6;
    if (cp >= 0xD800 && cp < 0xDC00) { /* a pair of surrogates, or nothing */
        if (!str_starts(str_from(s, at + n), STR("\\u")) || !read_hex4(s, at + n + 2, &low)) return 0;
        if (low < 0xDC00 || low > 0xDFFF) return 0;
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        n += 6;
    } else if (cp >= 0xDC00 && cp < 0xE000) {
        return 0;
    }
    char utf8[4];
    buf_put(out, utf8, utf8_encode(cp, utf8));
    return n;
}

static status unescape(tokfile_reader *r, str raw, buf *out, err *e) {
    buf_clear(out);
    for (size_t i = 0; i < raw.n;) {
        size_t n = 1;
        if (raw.p[i] == '\\')
            n = put_escape(out, raw, i);
        else
            buf_byte(out, raw.p[i]);
        if (!n) return refuse(r, "a string with an invalid escape", e);
        i += n;
    }
    return OK;
}

static status read_string(tokfile_reader *r, buf *scratch, str *out, err *e) {
    if (peek(r) != '"') return refuse(r, "expected a string", e);
    str table = { r->file->json.p, r->end };
    size_t end = skip_string(table, r->at);
    str raw = { table.p + r->at + 1, end - r->at - 1 };
    if (!raw.n || raw.p[raw.n - 1] != '"') return refuse(r, "a string without an end", e);
    raw.n--;
    bool escapes = false;
    for (size_t i = 0; i < raw.n; i++) {
        if ((unsigned char)raw.p[i] < 0x20) return refuse(r, "a string with a raw control character", e);
        escapes |= raw.p[i] == '\\';
    }
    if (!utf8_valid(raw)) return refuse(r, "a string that is not UTF-8", e);
    r->at = end;
    if (!escapes) {
        *out = raw;
        return OK;
    }
    TRY(unescape(r, raw, scratch, e));
    *out = buf_view(scratch);
    return OK;
}

static status read_int(tokfile_reader *r, int64_t *out, err *e) {
    bool minus = peek(r) == '-';
    if (minus) r->at++;
    int64_t v = 0;
    size_t start = r->at;
    for (; r->at < r->end && r->file->json.p[r->at] >= '0' && r->file->json.p[r->at] <= '9'; r->at++) {
        v = v * 10 + (r->file->json.p[r->at] - '0');
        if (v > INT32_MAX) return refuse(r, "an id that is too large", e);
    }
    char c = peek(r);
    if (r->at == start || (c != ',' && c != '}')) return refuse(r, "expected an id, a whole number", e);
    *out = minus ? -v : v;
    return OK;
}

/* Goes to the next entry: past the opening bracket, or past a comma. False at the closing one. */
static status next_entry(tokfile_reader *r, char opening, char closing, bool *more, err *e) {
    bool first = r->entry == (size_t)-1;
    *more = false;
    if (first ? take(r, opening) && take(r, closing) : take(r, closing)) {
        return r->at == r->end ? OK : refuse(r, "the table goes on behind its end", e);
    }
    if (!first && !take(r, ',')) return refuse(r, peek(r) ? "expected a comma behind it" : "the file ends here", e);
    r->entry++;
    *more = true;
    return OK;
}

status tokfile_next_id(tokfile_reader *r, str *key, int64_t *id, bool *more, err *e) {
    TRY(next_entry(r, '{', '}', more, e));
    if (!*more) return OK;
    TRY(read_string(r, &r->text[0], key, e));
    if (!take(r, ':')) return refuse(r, "expected \":\" and an id", e);
    return read_int(r, id, e);
}

static status split_merge(const tokfile_reader *r, str both, str *left, str *right, err *e) {
    const char *blank = memchr(both.p, ' ', both.n);
    size_t at = blank ? (size_t)(blank - both.p) : both.n;
    if (!blank || memchr(blank + 1, ' ', both.n - at - 1))
        return refuse(r, "expected two parts with one blank between", e);
    *left = (str){ both.p, at };
    *right = str_from(both, at + 1);
    return OK;
}

static status read_pair(tokfile_reader *r, str *left, str *right, err *e) {
    if (!take(r, '[')) return refuse(r, "expected \"left right\" or [\"left\", \"right\"]", e);
    TRY(read_string(r, &r->text[0], left, e));
    if (!take(r, ',')) return refuse(r, "expected a pair", e);
    TRY(read_string(r, &r->text[1], right, e));
    return take(r, ']') ? OK : refuse(r, "expected a pair", e);
}

status tokfile_next_merge(tokfile_reader *r, str *left, str *right, bool *more, err *e) {
    for (;;) {
        TRY(next_entry(r, '[', ']', more, e));
        if (!*more) return OK;
        if (peek(r) != '"') return read_pair(r, left, right, e);
        str both;
        TRY(read_string(r, &r->text[0], &both, e));
        if (r->entry != 0 || !str_starts(both, STR("#version"))) return split_merge(r, both, left, right, e);
    }
}
