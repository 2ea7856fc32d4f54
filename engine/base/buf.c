#include "engine/base/buf.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_free(buf *b) {
    free(b->data);
    *b = (buf){ 0 };
}

void buf_reserve(buf *b, size_t more) {
    if (b->cap - b->len >= more) return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->len < more) {
        CHECK(cap < (size_t)1 << 61);
        cap *= 2;
    }
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

void buf_put(buf *b, const void *p, size_t n) {
    if (!n) return;
    buf_reserve(b, n);
    memcpy(b->data + b->len, p, n);
    b->len += n;
}

void buf_str(buf *b, str s) { buf_put(b, s.p, s.n); }

void buf_byte(buf *b, char c) { buf_put(b, &c, 1); }

void buf_printf(buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    CHECK(n >= 0);
    buf_reserve(b, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

const char *buf_cstr(buf *b) {
    buf_reserve(b, 1);
    b->data[b->len] = 0;
    return b->data;
}

void buf_json_str(buf *b, str s) {
    static const char hex[] = "0123456789abcdef";
    buf_byte(b, '"');
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c < 0x80) {
            size_t j = i + 1;
            while (j < s.n && (unsigned char)s.p[j] >= 0x20 && s.p[j] != '"' && s.p[j] != '\\' &&
                   (unsigned char)s.p[j] < 0x80)
                j++;
            buf_put(b, s.p + i, j - i);
            i = j;
        } else if (c >= 0x80) {
            size_t n = utf8_char(str_from(s, i));
            if (n)
                buf_put(b, s.p + i, n);
            else
                buf_put(b, "\xEF\xBF\xBD", 3);
            i += n ? n : 1;
        } else {
            switch (c) {
            case '"': buf_put(b, "\\\"", 2); break;
            case '\\': buf_put(b, "\\\\", 2); break;
            case '\n': buf_put(b, "\\n", 2); break;
            case '\r': buf_put(b, "\\r", 2); break;
            case '\t': buf_put(b, "\\t", 2); break;
            case '\b': buf_put(b, "\\b", 2); break;
            case '\f': buf_put(b, "\\f", 2); break;
            default: {
                char u[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
                buf_put(b, u, 6);
            }
            }
            i++;
        }
    }
    buf_byte(b, '"');
}

void buf_double(buf *b, double v) {
    char t[40];
    if (!isfinite(v)) {
        buf_put(b, "null", 4); /* JSON has no spelling for it */
        return;
    }
    if (v == floor(v) && fabs(v) < 9007199254740992.0) {
        snprintf(t, sizeof t, "%.1f", v);
        buf_put(b, t, strlen(t));
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(t, sizeof t, "%.*g", digits, v);
        if (strtod(t, NULL) == v) break;
    }
    buf_put(b, t, strlen(t));
}
