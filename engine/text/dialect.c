/* A walk over the pattern with one bit of state (inside a class or not). It does not parse: what it passes on is still
 * checked by PCRE2. Its job is to let through only what means the same on both sides, so the lists name what is
 * allowed, and everything else is refused. */
#include "engine/text/dialect.h"

#include "engine/text/ucat.h"

/* White_Space of Unicode, as members of a class. PCRE2's own \s has U+180E on top. */
#define WHITE_SPACE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_WHITE_SPACE "\\S\\x{180e}"

static bool is_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static status refuse(str regex, size_t at, size_t n, const char *why, err *e) {
    if (n > regex.n - at) n = regex.n - at;
    return err_set(e, ERR_MODEL, "\"%.*s\" at offset %zu: %s", (int)n, regex.p + at, at, why);
}

static void put_class(buf *out, bool in_class, str members) {
    if (!in_class) buf_byte(out, '[');
    buf_str(out, members);
    if (!in_class) buf_byte(out, ']');
}

/* Bytes of the escape at regex.p[at], with the braces of \p{..} and \x{..}. */
static size_t escape_length(str regex, size_t at) {
    if (at + 2 >= regex.n || !memchr("pPx", regex.p[at + 1], 3) || regex.p[at + 2] != '{') return 2;
    const char *close = memchr(regex.p + at, '}', regex.n - at);
    return close ? (size_t)(close - (regex.p + at)) + 1 : regex.n - at;
}

/* A property with what PCRE2 may not know of it. Its names of scripts alone mean scripts with their extensions ("Han"
 * has the ideographic full stop there), in the reference they mean scripts. */
static status put_property(buf *out, str regex, size_t at, size_t n, bool in_class, err *e) {
    bool negated = regex.p[at + 1] == 'P' || regex.p[at + 1] == 'D', digit = (regex.p[at + 1] | 0x20) == 'd';
    str name = digit ? STR("Nd") : n == 2 ? str_from(regex, at + n) : (str){ regex.p + at + 3, n - 4 };
    if (!digit && n == 2) return refuse(regex, at, 3, "a property needs braces", e);
    if (name.n && name.p[0] == '^') {
        negated = !negated;
        name = str_from(name, 1);
    }
    if (negated && in_class) return refuse(regex, at, n, "a negated property inside a class is not supported", e);
    bool script = !ucat_is_category(name);
    if (script && name.n < 3) return refuse(regex, at, n, "this category is not supported", e);
    if (!in_class) buf_str(out, negated ? STR("[^") : STR("["));
    buf_printf(out, script ? "\\p{sc:%.*s}" : "\\p{%.*s}", STR_ARG(name));
    ucat_put_new(out, name);
    if (!in_class) buf_byte(out, ']');
    return OK;
}

/* n: bytes of the escape at regex.p[at]. */
static status put_escape(buf *out, str regex, size_t at, size_t n, bool in_class, err *e) {
    if (at + 1 == regex.n) return refuse(regex, at, 1, "the pattern ends here", e);
    char c = regex.p[at + 1];
    bool known = !is_alnum(c) || memchr("rntf", c, 4) || (c == 'x' && n > 2);
    if (memchr("pPdD", c, 4)) return put_property(out, regex, at, n, in_class, e);
    if (c == 's')
        put_class(out, in_class, STR(WHITE_SPACE));
    else if (c == 'S')
        put_class(out, in_class, STR(NOT_WHITE_SPACE));
    else if (known)
        buf_put(out, regex.p + at, n);
    else
        return refuse(regex, at, 2, "this escape is not supported", e);
    return OK;
}

/* What may stand behind "(?". Inline options other than i mean different things. */
static bool group_is_known(str s) {
    static const char *const known[] = { ":", "=", "!", "<=", "<!", ">", "i:" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_starts(s, str_of(known[i]))) return true;
    return false;
}

static status check_outside(str regex, size_t at, err *e) {
    str s = str_from(regex, at);
    if (s.p[0] == '^' || s.p[0] == '$') return refuse(regex, at, 1, "anchors are not supported", e);
    if (str_starts(s, STR("(*"))) return refuse(regex, at, 4, "verbs are not supported", e);
    if (str_starts(s, STR("(?")) && !group_is_known(str_from(s, 2)))
        return refuse(regex, at, 5, "this kind of group is not supported", e);
    if (str_starts(s, STR("{,"))) return refuse(regex, at, 4, "a repeat needs its lower bound", e);
    if (str_starts(s, STR("}+"))) return refuse(regex, at, 2, "possessive repeats with bounds are not supported", e);
    return OK;
}

static status check_inside(str regex, size_t at, bool first, err *e) {
    str s = str_from(regex, at);
    if (s.p[0] == '[') return refuse(regex, at, 3, "classes inside classes are not supported", e);
    if (str_starts(s, STR("&&"))) return refuse(regex, at, 2, "intersections of classes are not supported", e);
    if (s.p[0] == ']' && first) return refuse(regex, at, 1, "an empty class is not supported", e);
    return OK;
}

status dialect_translate(buf *out, str regex, err *e) {
    bool in_class = false;
    size_t body = 0; /* where the members of the open class begin */
    for (size_t i = 0; i < regex.n; i++) {
        char c = regex.p[i];
        if (c == '\\') {
            size_t n = escape_length(regex, i);
            TRY(put_escape(out, regex, i, n, in_class, e));
            i += n - 1;
            continue;
        }
        TRY(in_class ? check_inside(regex, i, i == body, e) : check_outside(regex, i, e));
        buf_byte(out, c);
        if (!in_class && c == '[') {
            in_class = true;
            if (i + 1 < regex.n && regex.p[i + 1] == '^') buf_byte(out, regex.p[++i]);
            body = i + 1;
        } else if (in_class && c == ']') {
            in_class = false;
        }
    }
    return OK;
}
