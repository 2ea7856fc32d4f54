/* jansson reads nearly every text as it is. One that it refuses for a number is read once more, with ".0" behind each
 * integer that leaves 64 bits: the copy is as good as the text but for columns, so a second refusal is reported as the
 * first. */
#include "engine/server/api_json.h"

#include "engine/base/buf.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t skip_string(str s, size_t at) {
    for (at++; at < s.n && s.p[at] != '"'; at++) at += s.p[at] == '\\';
    return at < s.n ? at + 1 : s.n;
}

/* Does the integer s.p[at, end), maybe with a minus before it, leave 64 bits? */
static bool is_wide(str s, size_t at, size_t end) {
    str limit = at && s.p[at - 1] == '-' ? STR("9223372036854775808") : STR("9223372036854775807");
    return end - at > limit.n || (end - at == limit.n && memcmp(s.p + at, limit.p, limit.n) > 0);
}

static void put_widened(buf *out, str s) {
    for (size_t at = 0, end; at < s.n; at = end) {
        end = at + 1;
        bool is_number = is_digit(s.p[at]);
        if (s.p[at] == '"') end = skip_string(s, at);
        while (is_number && end < s.n && is_digit(s.p[end])) end++;
        bool is_integer = is_number && !(end < s.n && memchr(".eE", s.p[end], 3));
        buf_put(out, s.p + at, end - at);
        if (is_integer && is_wide(s, at, end)) buf_str(out, STR(".0"));
        if (!is_number || is_integer) continue;
        at = end; /* the rest of a real, which has no integer part of its own */
        while (end < s.n && (is_digit(s.p[end]) || memchr(".eE+-", s.p[end], 5))) end++;
        buf_put(out, s.p + at, end - at);
    }
}

/* jansson loses a raw NUL that stands behind a number. */
static bool has_nul(str text, json_error_t *why) {
    const char *nul = text.n ? memchr(text.p, 0, text.n) : NULL;
    if (!nul) return false;
    const char *line = nul;
    *why = (json_error_t){ .line = 1, .position = (int)(nul - text.p), .text = "a raw NUL byte" };
    while (line > text.p && line[-1] != '\n') line--;
    for (const char *p = text.p; p < nul; p++) why->line += *p == '\n';
    why->column = (int)(nul - line) + 1;
    why->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_invalid_syntax;
    return true;
}

json_t *api_json_load(str text, json_error_t *why) {
    if (has_nul(text, why)) return NULL;
    json_t *v = json_loadb(text.p, text.n, JSON_ALLOW_NUL, why);
    if (v || json_error_code(why) != json_error_numeric_overflow) return v;
    buf wide = { 0 };
    json_error_t other;
    put_widened(&wide, text);
    v = json_loadb(buf_view(&wide).p, wide.len, JSON_ALLOW_NUL, &other);
    buf_free(&wide);
    return v;
}
