#include "engine/server/net/wire.h"

#include <ctype.h>

/* ------------------------------------------------------------------ letters */

/* Not <ctype.h>: a locale must not change what a header is. */
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static bool is_token_char(char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

static bool is_token(str s) {
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_char(s.p[i])) return false;
    return s.n > 0;
}

str wire_trim(str s) {
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) s = str_from(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) s.n--;
    return s;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool wire_name_eq(str a, str b) {
    if (a.n != b.n) return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b.p[i])) return false;
    return true;
}

bool wire_list_has(str list, str item) {
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        size_t n = comma ? (size_t)(comma - list.p) : list.n;
        if (wire_name_eq(wire_trim((str){ list.p, n }), item)) return true;
        list = str_from(list, comma ? n + 1 : n);
    }
    return false;
}

/* --------------------------------------------------------------------- head */

size_t wire_head_end(str s, size_t seen) {
    /* The end is "\n\n" or "\n\r\n"; it may begin up to two bytes before what is new. */
    for (size_t i = seen > 2 ? seen - 2 : 0; i < s.n; i++) {
        const char *nl = memchr(s.p + i, '\n', s.n - i);
        if (!nl) return 0;
        i = (size_t)(nl - s.p);
        if (i + 1 < s.n && s.p[i + 1] == '\n') return i + 2;
        if (i + 2 < s.n && s.p[i + 1] == '\r' && s.p[i + 2] == '\n') return i + 3;
    }
    return 0;
}

/* Takes one line off the front, without its end. */
static str next_line(str *rest) {
    const char *nl = memchr(rest->p, '\n', rest->n);
    size_t n = nl ? (size_t)(nl - rest->p) : rest->n;
    str line = { rest->p, n };
    *rest = str_from(*rest, nl ? n + 1 : n);
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    return line;
}

static int refuse(const char **why, int code, const char *text) {
    *why = text;
    return code;
}

static int parse_request_line(wire_head *h, str line, const char **why) {
    const char *a = memchr(line.p, ' ', line.n);
    const char *b = a ? memchr(a + 1, ' ', (size_t)(line.p + line.n - a - 1)) : NULL;
    if (!b) return refuse(why, 400, "malformed request line");
    h->method = (str){ line.p, (size_t)(a - line.p) };
    h->target = (str){ a + 1, (size_t)(b - a - 1) };
    str version = { b + 1, (size_t)(line.p + line.n - b - 1) };
    if (!is_token(h->method) || !h->target.n) return refuse(why, 400, "malformed request line");
    for (size_t i = 0; i < h->target.n; i++)
        if ((unsigned char)h->target.p[i] <= ' ' || h->target.p[i] == 127)
            return refuse(why, 400, "malformed request target");
    if (version.n != 8 || !str_starts(version, STR("HTTP/")) || version.p[6] != '.' ||
        !isdigit((unsigned char)version.p[5]) || !isdigit((unsigned char)version.p[7]))
        return refuse(why, 400, "malformed protocol version");
    if (version.p[5] != '1') return refuse(why, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    h->minor = version.p[7] - '0';
    return 0;
}

static int parse_length(wire_head *h, str value, const char **why) {
    int64_t n = 0;
    if (h->length >= 0 || !value.n || value.n > 18) return refuse(why, 400, "malformed Content-Length");
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') return refuse(why, 400, "malformed Content-Length");
        n = n * 10 + (value.p[i] - '0');
    }
    h->length = n;
    return 0;
}

static int parse_header(wire_head *h, str line, const char **why) {
    if (h->n_headers == WIRE_HEADERS_MAX) return refuse(why, 431, "too many headers");
    const char *colon = memchr(line.p, ':', line.n);
    str name = { line.p, colon ? (size_t)(colon - line.p) : 0 };
    if (!is_token(name)) return refuse(why, 400, "malformed header"); /* folded lines and blanks before the colon too */
    str value = wire_trim(str_from(line, name.n + 1));
    for (size_t i = 0; i < value.n; i++)
        if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\t') || value.p[i] == 127)
            return refuse(why, 400, "control character in a header");
    h->header[h->n_headers++] = (wire_header){ name, value };

    if (wire_name_eq(name, STR("content-length"))) return parse_length(h, value, why);
    if (wire_name_eq(name, STR("transfer-encoding"))) {
        if (h->chunked || !wire_name_eq(value, STR("chunked")))
            return refuse(why, 501, "the only transfer coding understood is chunked");
        h->chunked = true;
    } else if (wire_name_eq(name, STR("connection"))) {
        if (wire_list_has(value, STR("close")))
            h->keep_alive = false;
        else if (wire_list_has(value, STR("keep-alive")))
            h->keep_alive = true;
    } else if (wire_name_eq(name, STR("expect"))) {
        if (!wire_name_eq(value, STR("100-continue"))) return refuse(why, 417, "unknown expectation");
        h->expect_continue = h->minor > 0;
    }
    return 0;
}

static int count_hosts(const wire_head *h) {
    int n = 0;
    for (int i = 0; i < h->n_headers; i++) n += wire_name_eq(h->header[i].name, STR("host"));
    return n;
}

int wire_head_parse(wire_head *out, str head, const char **why) {
    wire_head h = { .length = -1 };
    int code = parse_request_line(&h, next_line(&head), why);
    if (code) return code;
    h.keep_alive = h.minor > 0;
    for (;;) {
        str line = next_line(&head);
        if (!line.n) break;
        code = parse_header(&h, line, why);
        if (code) return code;
    }
    /* Two statements of the length are how requests are smuggled past a proxy. */
    if (h.chunked && h.length >= 0) return refuse(why, 400, "both Content-Length and Transfer-Encoding");
    if (h.chunked && h.minor == 0) return refuse(why, 400, "Transfer-Encoding in an HTTP/1.0 request");
    int hosts = count_hosts(&h);
    if (hosts > 1 || (hosts == 0 && h.minor > 0)) return refuse(why, 400, "exactly one Host header is needed");
    *out = h;
    return 0;
}

str wire_head_find(const wire_head *h, const char *name) {
    for (int i = 0; i < h->n_headers; i++)
        if (wire_name_eq(h->header[i].name, str_of(name))) return h->header[i].value;
    return (str){ 0 };
}

/* ------------------------------------------------------------------- target */

bool wire_target_parse(str target, buf *path, str *query) {
    str t = target;
    size_t start = path->len;
    *query = (str){ "", 0 };
    if (str_eq(t, STR("*"))) {
        buf_str(path, t);
        return true;
    }
    if (t.n && t.p[0] != '/') {
        const char *sep = memmem(t.p, t.n, "://", 3);
        if (!sep) return false;
        t = str_from(t, (size_t)(sep - t.p) + 3);
        const char *slash = memchr(t.p, '/', t.n);
        t = slash ? str_from(t, (size_t)(slash - t.p)) : STR("/");
    }
    if (!t.n) return false;
    for (size_t i = 0; i < t.n; i++) {
        char c = t.p[i];
        if (c == '?') {
            *query = str_from(t, i + 1);
            break;
        }
        if (c == '#') break;
        if (c == '%') {
            int hi = i + 2 < t.n ? hex_value(t.p[i + 1]) : -1;
            int lo = i + 2 < t.n ? hex_value(t.p[i + 2]) : -1;
            if (hi < 0 || lo < 0 || hi * 16 + lo == 0) {
                path->len = start;
                return false;
            }
            c = (char)(hi * 16 + lo);
            i += 2;
        }
        buf_byte(path, c);
    }
    return true;
}

/* ------------------------------------------------------------------ chunked */

enum {
    CH_SIZE,
    CH_EXTENSION,
    CH_SIZE_LF,
    CH_DATA,
    CH_DATA_CR,
    CH_DATA_LF,
    CH_TRAILER,
    CH_TRAILER_LINE,
    CH_TRAILER_LF,
    CH_DONE
};
enum { CH_LINE_MAX = 4096, CH_TRAILER_MAX = 16 * 1024 };

/* The size line is complete: its data follow, or the trailer after the last chunk. */
static int after_size(wire_chunked *d) {
    bool last = d->left == 0;
    d->line = 0;
    return last ? CH_TRAILER : CH_DATA;
}

/* One byte of framing; -1: malformed. `line` counts hex digits and extension bytes, so an empty size is seen as 0. */
static int chunked_step(wire_chunked *d, char c) {
    switch (d->state) {
    case CH_SIZE: {
        int v = hex_value(c);
        if (v >= 0) {
            if (d->left >> 58) return -1;
            d->left = d->left * 16 + (uint64_t)v;
            return ++d->line > 32 ? -1 : CH_SIZE;
        }
        if (!d->line) return -1;
        if (c == '\r') return CH_SIZE_LF;
        if (c == '\n') return after_size(d);
        return c == ';' || c == ' ' || c == '\t' ? CH_EXTENSION : -1;
    }
    case CH_EXTENSION:
        if (c == '\r') return CH_SIZE_LF;
        if (c == '\n') return after_size(d);
        return ++d->line > CH_LINE_MAX ? -1 : CH_EXTENSION;
    case CH_SIZE_LF: return c == '\n' ? after_size(d) : -1;
    case CH_DATA_CR:
        if (c == '\r') return CH_DATA_LF;
        return c == '\n' ? CH_SIZE : -1;
    case CH_DATA_LF: return c == '\n' ? CH_SIZE : -1;
    case CH_TRAILER:
        if (c == '\r') return CH_TRAILER_LF;
        if (c == '\n') return CH_DONE;
        return CH_TRAILER_LINE;
    case CH_TRAILER_LINE: /* trailer fields are read over */
        if (++d->line > CH_TRAILER_MAX) return -1;
        return c == '\n' ? CH_TRAILER : CH_TRAILER_LINE;
    default: return c == '\n' ? CH_DONE : -1; /* CH_TRAILER_LF */
    }
}

wire_more wire_chunked_push(wire_chunked *d, str in, size_t *used, buf *body, size_t max) {
    size_t i = 0;
    while (i < in.n && d->state != CH_DONE) {
        if (d->state == CH_DATA) {
            size_t n = in.n - i < d->left ? in.n - i : (size_t)d->left;
            buf_put(body, in.p + i, n);
            d->left -= n;
            i += n;
            if (!d->left) d->state = CH_DATA_CR;
            continue;
        }
        d->state = chunked_step(d, in.p[i++]);
        if (d->state < 0) return WIRE_BAD;
        if (d->state == CH_DATA && d->left > max - body->len) return WIRE_TOO_LARGE;
    }
    *used = i;
    return d->state == CH_DONE ? WIRE_END : WIRE_MORE;
}

const char *wire_reason(int code) {
    switch (code) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
    }
}
