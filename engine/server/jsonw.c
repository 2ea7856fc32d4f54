#include "engine/server/jsonw.h"

#include "engine/base/status.h"

#include <math.h>

void jsonw_init(jsonw *w, buf *out) { *w = (jsonw){ .out = out }; }

void jsonw_deinit(jsonw *w) {
    DCHECK(w->depth == 0 && w->comma && !w->has_key);
    w->out = NULL;
}

static bool in_array(const jsonw *w) { return w->depth > 0 && w->in_array >> (w->depth - 1) & 1; }

/* What stands between the value before and the next one. */
static void next(jsonw *w) {
    DCHECK(w->has_key || w->depth == 0 || in_array(w));
    DCHECK(w->depth > 0 || !w->comma);
    if (w->comma && !w->has_key) buf_byte(w->out, ',');
    w->has_key = false;
    w->comma = true;
}

static void begin(jsonw *w, bool array) {
    next(w);
    CHECK(w->depth < JSONW_DEPTH_MAX);
    uint32_t bit = (uint32_t)1 << w->depth++;
    w->in_array = array ? w->in_array | bit : w->in_array & ~bit;
    w->comma = false;
    buf_byte(w->out, array ? '[' : '{');
}

static void end(jsonw *w, bool array) {
    DCHECK(w->depth > 0 && in_array(w) == array && !w->has_key);
    w->depth--;
    w->comma = true;
    buf_byte(w->out, array ? ']' : '}');
}

void jsonw_begin_object(jsonw *w) { begin(w, false); }
void jsonw_end_object(jsonw *w) { end(w, false); }
void jsonw_begin_array(jsonw *w) { begin(w, true); }
void jsonw_end_array(jsonw *w) { end(w, true); }

void jsonw_key(jsonw *w, const char *key) {
    DCHECK(w->depth > 0 && !in_array(w) && !w->has_key);
    if (w->comma) buf_byte(w->out, ',');
    buf_byte(w->out, '"');
    buf_str(w->out, str_of(key));
    buf_str(w->out, STR("\":"));
    w->has_key = true;
}

void jsonw_str(jsonw *w, str s) {
    next(w);
    if (s.p)
        buf_json_str(w->out, s);
    else
        buf_str(w->out, STR("null"));
}

void jsonw_int(jsonw *w, int64_t v) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    next(w);
    do digits[--at] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0) digits[--at] = '-';
    buf_put(w->out, digits + at, sizeof digits - at);
}

void jsonw_double(jsonw *w, double v) {
    next(w);
    buf_double(w->out, v);
}

void jsonw_bool(jsonw *w, bool v) {
    next(w);
    buf_str(w->out, v ? STR("true") : STR("false"));
}

void jsonw_null(jsonw *w) {
    next(w);
    buf_str(w->out, STR("null"));
}

void jsonw_raw(jsonw *w, str json) {
    next(w);
    buf_str(w->out, json);
}

void jsonw_members(jsonw *w, str members) {
    DCHECK(w->depth > 0 && !in_array(w) && !w->has_key && members.n > 0);
    if (w->comma) buf_byte(w->out, ',');
    w->comma = true;
    buf_str(w->out, members);
}

void jsonw_key_str(jsonw *w, const char *key, str s) {
    jsonw_key(w, key);
    jsonw_str(w, s);
}

void jsonw_key_int(jsonw *w, const char *key, int64_t v) {
    jsonw_key(w, key);
    jsonw_int(w, v);
}

void jsonw_key_ms(jsonw *w, const char *key, double ms) { jsonw_key_double(w, key, round(ms * 1e3) / 1e3); }

void jsonw_key_double(jsonw *w, const char *key, double v) {
    jsonw_key(w, key);
    jsonw_double(w, v);
}

void jsonw_key_bool(jsonw *w, const char *key, bool v) {
    jsonw_key(w, key);
    jsonw_bool(w, v);
}

void jsonw_key_null(jsonw *w, const char *key) {
    jsonw_key(w, key);
    jsonw_null(w);
}
