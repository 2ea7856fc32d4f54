/* Source to tokens.
 *
 * White space around tags is decided here, so that later stages never see it: "-" inside a tag strips all of it on that
 * side; a block or comment tag that stands first on its line loses the blanks before it (lstrip_blocks) and the line
 * break behind it (trim_blocks) unless it carries "+". Line breaks of all kinds become "\n" and one at the very end
 * of the source is dropped, before anything else looks. */
#include "engine/text/tmpl_int.h"

#include "engine/base/utf8.h"
#include "engine/text/uchar.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

typedef struct lexer {
    tmpl *t;
    str src;
    size_t at;
    int line;
    token *tokens;
    size_t n, cap;
    char open[TMPL_NEST_MAX]; /* brackets of the current tag */
    int n_open;
    err *e;
} lexer;

static str rest(const lexer *lx) { return str_from(lx->src, lx->at); }

static void advance(lexer *lx, size_t to) {
    for (; lx->at < to; lx->at++) lx->line += lx->src.p[lx->at] == '\n';
}

static token *add(lexer *lx, token_kind kind, str text) {
    if (lx->n == lx->cap) {
        size_t cap = lx->cap ? lx->cap * 2 : 256;
        token *more = arena_alloc(lx->t->mem, cap * sizeof *more);
        if (lx->n) memcpy(more, lx->tokens, lx->n * sizeof *more);
        lx->tokens = more;
        lx->cap = cap;
    }
    lx->tokens[lx->n] = (token){ .kind = kind, .line = lx->line, .text = text };
    return &lx->tokens[lx->n++];
}

static void skip_space(lexer *lx) {
    uint32_t cp;
    while (lx->at < lx->src.n) {
        size_t n = uchar_next(rest(lx), &cp);
        if (!uchar_is_space(cp)) return;
        advance(lx, lx->at + n);
    }
}

static str normalise_breaks(arena *mem, str source) {
    char *to = arena_alloc(mem, source.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < source.n; i++) {
        if (source.p[i] == '\r' && i + 1 < source.n && source.p[i + 1] == '\n') continue;
        to[n++] = source.p[i] == '\r' ? '\n' : source.p[i];
    }
    if (n && to[n - 1] == '\n') n--;
    return (str){ to, n };
}

/* Text in front of a tag, from..tag. sign is the mark behind the tag's opening; lstrip: the tag is no print tag. */
static void add_data(lexer *lx, size_t from, size_t tag, char sign, bool lstrip) {
    str text = { lx->src.p + from, tag - from };
    if (sign == '-') {
        text = uchar_strip(text, NULL, false, true);
    } else if (lstrip && sign != '+') {
        size_t start = text.n; /* of the tag's line, as far as it is in this text */
        while (start && text.p[start - 1] != '\n') start--;
        bool line_start = start || from == 0 || lx->src.p[from - 1] == '\n';
        if (line_start && !uchar_strip(str_from(text, start), NULL, false, true).n) text.n = start;
    }
    if (text.n) add(lx, TOKEN_DATA, text);
}

/* Behind the closing of a block or comment tag with this sign in front of it. */
static void trim_after(lexer *lx, char sign) {
    if (sign == '-')
        skip_space(lx);
    else if (sign != '+' && lx->at < lx->src.n && lx->src.p[lx->at] == '\n')
        advance(lx, lx->at + 1);
}

static char sign_at(const lexer *lx, size_t at) {
    char c = at < lx->src.n ? lx->src.p[at] : 0;
    return c == '-' || c == '+' ? c : 0;
}

/* ---- inside of tags ---- */

static bool is_digit(char c, int base) {
    if (base == 16) return isxdigit((unsigned char)c);
    return c >= '0' && c < '0' + base;
}

/* End of the digits from at on; single underscores may stand between them. */
static size_t digits_end(str s, size_t at, int base) {
    while (at < s.n && (is_digit(s.p[at], base) || (s.p[at] == '_' && at + 1 < s.n && is_digit(s.p[at + 1], base))))
        at++;
    return at;
}

/* End of ".5" and "e-7" behind the digits of an integer; at: there is neither. */
static size_t fraction_end(str s, size_t at) {
    if (at + 1 < s.n && s.p[at] == '.' && is_digit(s.p[at + 1], 10)) at = digits_end(s, at + 1, 10);
    if (at + 1 < s.n && (s.p[at] | 32) == 'e') {
        size_t digits = at + 1 + (s.p[at + 1] == '+' || s.p[at + 1] == '-');
        if (digits < s.n && is_digit(s.p[digits], 10)) at = digits_end(s, digits, 10);
    }
    return at;
}

static status lex_number(lexer *lx) {
    str s = rest(lx);
    char plain[64], *stop;
    char second = s.n > 1 ? (char)(s.p[1] | 32) : 0;
    int base = s.p[0] != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    size_t from = base == 10 ? 0 : 2, end = digits_end(s, from, base), n = 0;
    bool after_dot = lx->at && s.p[-1] == '.'; /* the 0 and the 1 of x.0.1 are two members */
    size_t whole = base == 10 && !after_dot ? fraction_end(s, end) : end;
    bool is_float = whole > end;
    for (size_t i = from; i < whole && n < sizeof plain - 1; i++)
        if (s.p[i] != '_') plain[n++] = s.p[i];
    plain[n] = 0;

    errno = 0;
    value v = is_float ? value_float(strtod(plain, &stop)) : value_int(strtoll(plain, &stop, base));
    bool padded = !is_float && base == 10 && plain[0] == '0' && strspn(plain, "0") < n;
    if (!n || *stop || n == sizeof plain - 1 || padded || (!is_float && errno == ERANGE))
        return tmpl_fail_(lx->t, lx->line, lx->e, "number '%.*s' is malformed or too large", (int)whole, s.p);
    add(lx, TOKEN_NUMBER, (str){ s.p, whole })->val = v;
    advance(lx, lx->at + whole);
    return OK;
}

/* \xhh, \uhhhh, \Uhhhhhhhh: digits of them from at on. False: malformed, or no character. */
static bool hex_escape(str s, size_t at, size_t digits, uint32_t *cp) {
    if (s.n - at < digits) return false;
    *cp = 0;
    for (size_t i = at; i < at + digits; i++) {
        char c = s.p[i];
        if (!isxdigit((unsigned char)c)) return false;
        *cp = *cp * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return *cp <= 0x10FFFF && (*cp < 0xD800 || *cp >= 0xE000);
}

/* The escape behind the backslash at s[at - 1], as Python reads it; an unknown one stands for itself. Returns its
 * length, 0: malformed. */
static size_t put_escape(buf *out, str s, size_t at) {
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = s.p[at], bytes[4];
    uint32_t cp = 0;
    size_t used = 1;
    if (c == '\n') return 1; /* the line goes on */
    if (c && strchr(from, c)) {
        buf_byte(out, to[strchr(from, c) - from]);
        return 1;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!hex_escape(s, at + 1, digits, &cp)) return 0;
        used += digits;
    } else if (c >= '0' && c <= '7') {
        for (used = 0; used < 3 && at + used < s.n && s.p[at + used] >= '0' && s.p[at + used] <= '7'; used++)
            cp = cp * 8 + (uint32_t)(s.p[at + used] - '0');
    } else if (c == 'N') {
        return 0;
    } else {
        buf_byte(out, '\\');
        return SIZE_MAX;
    }
    buf_put(out, bytes, utf8_encode(cp, bytes));
    return used;
}

static status lex_string(lexer *lx) {
    str s = lx->src;
    char quote = s.p[lx->at];
    size_t at = lx->at + 1;
    buf text = { 0 };
    status st = OK;
    while (at < s.n && s.p[at] != quote) {
        if (s.p[at] != '\\' || at + 1 >= s.n) {
            buf_byte(&text, s.p[at++]);
            continue;
        }
        size_t n = put_escape(&text, s, at + 1);
        if (!n) {
            st = tmpl_fail_(lx->t, lx->line, lx->e, "escape '\\%c' is malformed or names no character", s.p[at + 1]);
            goto out;
        }
        at += n == SIZE_MAX ? 1 : 1 + n;
    }
    if (at >= s.n) {
        st = tmpl_fail_(lx->t, lx->line, lx->e, "string without a closing %c", quote);
        goto out;
    }
    add(lx, TOKEN_STRING, arena_str(lx->t->mem, buf_view(&text)));
    advance(lx, at + 1);
out:
    buf_free(&text);
    return st;
}

static status lex_operator(lexer *lx) {
    static const char *const two[] = { "==", "!=", "<=", ">=", "//", "**" };
    str s = rest(lx);
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (str_starts(s, str_of(two[i]))) n = 2;
    char c = s.p[0];
    if (n == 1 && (!c || !strchr("+-*/%~<>=.,:|()[]{};", c))) {
        uint32_t cp;
        return tmpl_fail_(lx->t, lx->line, lx->e, "unexpected character '%.*s'", (int)uchar_next(s, &cp), s.p);
    }
    if (strchr("([{", c)) {
        if (lx->n_open == TMPL_NEST_MAX)
            return tmpl_fail_(lx->t, lx->line, lx->e, "brackets nested more than %d deep", TMPL_NEST_MAX);
        lx->open[lx->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (strchr(")]}", c)) {
        if (!lx->n_open) return tmpl_fail_(lx->t, lx->line, lx->e, "unexpected '%c'", c);
        char want = lx->open[--lx->n_open];
        if (c != want) return tmpl_fail_(lx->t, lx->line, lx->e, "unexpected '%c', expected '%c'", c, want);
    }
    add(lx, TOKEN_OP, (str){ s.p, n });
    advance(lx, lx->at + n);
    return OK;
}

/* At the end of the tag? Then it is passed, with the white space that its sign takes along. */
static bool tag_ends(lexer *lx, bool print) {
    char sign = sign_at(lx, lx->at);
    if (print && sign == '+') return false;
    if (lx->n_open || !str_starts(str_from(lx->src, lx->at + (sign ? 1 : 0)), print ? STR("}}") : STR("%}")))
        return false;
    add(lx, print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, (str){ lx->src.p + lx->at, 2 + (sign ? 1 : 0) });
    advance(lx, lx->at + 2 + (sign ? 1 : 0));
    if (!print || sign) trim_after(lx, sign);
    return true;
}

static status lex_tag(lexer *lx, bool print) {
    lx->n_open = 0;
    for (;;) {
        skip_space(lx);
        if (lx->at >= lx->src.n) return OK; /* the parser misses the closing and says so */
        if (tag_ends(lx, print)) return OK;
        unsigned char c = (unsigned char)lx->src.p[lx->at];
        if (isdigit(c)) {
            TRY(lex_number(lx));
        } else if (isalpha(c) || c == '_') {
            size_t end = lx->at;
            while (end < lx->src.n && (isalnum((unsigned char)lx->src.p[end]) || lx->src.p[end] == '_')) end++;
            add(lx, TOKEN_NAME, (str){ lx->src.p + lx->at, end - lx->at });
            advance(lx, end);
        } else if (c == '\'' || c == '"') {
            TRY(lex_string(lx));
        } else {
            TRY(lex_operator(lx));
        }
    }
}

/* ---- outside of tags ---- */

/* Behind the sign of a comment. */
static status lex_comment(lexer *lx) {
    const char *end = memmem(lx->src.p + lx->at, lx->src.n - lx->at, "#}", 2);
    if (!end) return tmpl_fail_(lx->t, lx->line, lx->e, "comment without an end");
    size_t close = (size_t)(end - lx->src.p);
    char sign = close > lx->at ? sign_at(lx, close - 1) : 0;
    advance(lx, close + 2);
    trim_after(lx, sign);
    return OK;
}

/* Length of "WORD [sign] %}" with blanks around the word, at the start of s; 0: something else. */
static size_t bare_tag(str s, str word, char *sign) {
    size_t at = 0;
    while (at < s.n && isspace((unsigned char)s.p[at])) at++;
    if (!str_starts(str_from(s, at), word)) return 0;
    at += word.n;
    while (at < s.n && isspace((unsigned char)s.p[at])) at++;
    *sign = at < s.n && (s.p[at] == '-' || s.p[at] == '+') ? s.p[at] : 0;
    if (*sign) at++;
    return str_starts(str_from(s, at), STR("%}")) ? at + 2 : 0;
}

/* Behind the closing of the raw tag: everything up to its end tag is text. */
static status lex_raw(lexer *lx) {
    int line = lx->line;
    for (size_t tag = lx->at; tag + 2 < lx->src.n; tag++) {
        if (!str_starts(str_from(lx->src, tag), STR("{%"))) continue;
        char sign = sign_at(lx, tag + 2), close;
        size_t body = tag + 2 + (sign ? 1 : 0), n = bare_tag(str_from(lx->src, body), STR("endraw"), &close);
        if (!n) continue;
        add_data(lx, lx->at, tag, sign, true);
        advance(lx, body + n);
        trim_after(lx, close);
        return OK;
    }
    return tmpl_fail_(lx->t, line, lx->e, "'raw' without its 'endraw'");
}

static size_t find_tag(const lexer *lx) {
    for (size_t i = lx->at; i + 1 < lx->src.n; i++) {
        const char *open = memchr(lx->src.p + i, '{', lx->src.n - 1 - i);
        if (!open) break;
        i = (size_t)(open - lx->src.p);
        if (open[1] == '{' || open[1] == '%' || open[1] == '#') return i;
    }
    return lx->src.n;
}

static status lex_source(lexer *lx) {
    while (lx->at < lx->src.n) {
        size_t from = lx->at, tag = find_tag(lx);
        if (tag == lx->src.n) {
            add(lx, TOKEN_DATA, rest(lx));
            advance(lx, tag);
            break;
        }
        char kind = lx->src.p[tag + 1], sign = sign_at(lx, tag + 2), raw_sign = 0;
        add_data(lx, from, tag, sign, kind != '{');
        advance(lx, tag + 2 + (sign ? 1 : 0));
        size_t raw = kind == '%' ? bare_tag(rest(lx), STR("raw"), &raw_sign) : 0;
        if (kind == '#') {
            TRY(lex_comment(lx));
        } else if (raw && raw_sign != '+') {
            advance(lx, lx->at + raw);
            if (raw_sign == '-') skip_space(lx); /* the break behind a plain raw tag belongs to the text */
            TRY(lex_raw(lx));
        } else {
            add(lx, kind == '{' ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, (str){ lx->src.p + tag, 2 });
            TRY(lex_tag(lx, kind == '{'));
        }
    }
    add(lx, TOKEN_END, STR("end of template"));
    return OK;
}

status tmpl_lex_(tmpl *t, str source, token **out, err *e) {
    lexer lx = { .t = t, .line = 1, .e = e };
    if (source.n > TMPL_SOURCE_MAX)
        return tmpl_fail_(t, 1, e, "%zu bytes, at most %d are allowed", source.n, TMPL_SOURCE_MAX);
    if (!utf8_valid(source)) return tmpl_fail_(t, 1, e, "not UTF-8");
    lx.src = normalise_breaks(t->mem, source);
    TRY(lex_source(&lx));
    *out = lx.tokens;
    return OK;
}
