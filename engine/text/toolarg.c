#include "engine/text/toolarg.h"

#include "engine/text/pyliteral.h"
#include "engine/text/value.h"

#include <math.h>
#include <stdlib.h>

static bool is_space(char c) { return c && strchr(" \t\r\n\v\f", c); }

str toolarg_strip(str s) {
    while (s.n && is_space(s.p[0])) s = str_from(s, 1);
    while (s.n && is_space(s.p[s.n - 1])) s.n--;
    return s;
}

void toolarg_escape(buf *out, str text) {
    size_t from = out->len;
    buf_json_str(out, text);
    memmove(out->data + from, out->data + from + 1, out->len - from - 2);
    out->len -= 2;
}

static bool fits_double(str number, buf *scratch) {
    buf_clear(scratch);
    buf_str(scratch, number);
    return isfinite(strtod(buf_cstr(scratch), NULL));
}

/* The grammar of JSON has numbers that readers make infinities of, or refuse. */
static bool is_finite(str json) {
    buf scratch = { 0 };
    bool fine = true;
    for (size_t i = 0, n; i < json.n && fine; i += n) {
        n = 1;
        if (json.p[i] == '"') {
            while (json.p[i + n] != '"') n += json.p[i + n] == '\\' ? 2 : 1;
            n++;
        } else if (json.p[i] == '-' || (json.p[i] >= '0' && json.p[i] <= '9')) {
            while (i + n < json.n && json.p[i + n] && strchr("0123456789+-.eE", json.p[i + n])) n++;
            fine = fits_double((str){ json.p + i, n }, &scratch);
        }
    }
    buf_free(&scratch);
    return fine;
}

static bool is_json(str text) {
    arena *mem = arena_new();
    value v;
    bool fine = value_from_text(mem, &v, text, NULL) == OK && is_finite(text);
    arena_free(mem);
    return fine;
}

void toolarg_put(buf *out, str text) {
    size_t from = out->len;
    str bare = toolarg_strip(text);
    if (is_json(bare)) {
        buf_str(out, bare);
    } else if (!pyliteral_to_json(out, bare)) {
        out->len = from;
        buf_json_str(out, bare);
    }
}
