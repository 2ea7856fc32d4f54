/* Reading a regular expression, by recursive descent. */
#include "engine/text/pattern_int.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdlib.h>

enum { REGEX_DEPTH_MAX = 100, REGEX_REPEAT_MAX = 10000 };

typedef struct parser {
    arena *mem;
    str text;
    size_t at;
    int depth;
    err *e;
} parser;

static const code_range DIGITS[] = { { '0', '9' } };
static const code_range WORD[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
static const code_range SPACES[] = { { 9, 13 }, { ' ', ' ' } };
static const code_range LINE_ENDS[] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };

static status refuse(parser *p, size_t at, const char *what) {
    return err_set(p->e, ERR_UNSUPPORTED, "%s at offset %zu is not supported", what, at);
}

static status broken(parser *p, const char *what) {
    return err_set(p->e, ERR_REQUEST, "%s at offset %zu", what, p->at);
}

static bool peek(const parser *p, char c) { return p->at < p->text.n && p->text.p[p->at] == c; }

static bool take(parser *p, char c) {
    if (!peek(p, c)) return false;
    p->at++;
    return true;
}

static void set_add(parser *p, code_set *s, uint32_t lo, uint32_t hi) {
    if (s->n == s->cap) {
        code_range *more = arena_alloc(p->mem, (size_t)(s->cap * 2 + 4) * sizeof *more);
        if (s->n) memcpy(more, s->ranges, (size_t)s->n * sizeof *more);
        s->ranges = more;
        s->cap = s->cap * 2 + 4;
    }
    s->ranges[s->n++] = (code_range){ lo, hi };
}

static int by_lo(const void *a, const void *b) {
    const code_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void set_sort(code_set *s) {
    if (!s->n) return;
    qsort(s->ranges, (size_t)s->n, sizeof *s->ranges, by_lo);
    int32_t n = 1;
    for (int32_t i = 1; i < s->n; i++) {
        code_range *last = &s->ranges[n - 1], now = s->ranges[i];
        if (now.lo > last->hi + 1)
            s->ranges[n++] = now;
        else if (now.hi > last->hi)
            last->hi = now.hi;
    }
    s->n = n;
}

/* Adds everything that the sorted ranges leave out. */
static void add_others(parser *p, code_set *to, const code_range *ranges, int32_t n) {
    uint32_t from = 0;
    for (int32_t i = 0; i < n; i++) {
        if (ranges[i].lo > from) set_add(p, to, from, ranges[i].lo - 1);
        from = ranges[i].hi + 1;
    }
    if (from <= CODE_POINT_MAX) set_add(p, to, from, CODE_POINT_MAX);
}

#define ADD_CLASS(list, inside)                                                                                        \
    do {                                                                                                               \
        int32_t n_ = (int32_t)(sizeof(list) / sizeof *(list));                                                         \
        if (!(inside)) add_others(p, s, list, n_);                                                                     \
        for (int32_t i_ = 0; (inside) && i_ < n_; i_++) set_add(p, s, (list)[i_].lo, (list)[i_].hi);                   \
    } while (0)

static bool add_class(parser *p, code_set *s, char name) {
    switch (name) {
    case 'd': ADD_CLASS(DIGITS, true); return true;
    case 'D': ADD_CLASS(DIGITS, false); return true;
    case 'w': ADD_CLASS(WORD, true); return true;
    case 'W': ADD_CLASS(WORD, false); return true;
    case 's': ADD_CLASS(SPACES, true); return true;
    case 'S': ADD_CLASS(SPACES, false); return true;
    default: return false;
    }
}

static status parse_hex(parser *p, int digits, uint32_t *cp) {
    *cp = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        uint8_t c = p->at < p->text.n ? (uint8_t)p->text.p[p->at] : 0;
        if (!body_is_hex(c)) return broken(p, "a hexadecimal digit is missing");
        *cp = *cp * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return OK;
}

/* Behind a backslash. *cp: the character, or a class was added and *is_class is set. */
static status parse_escape(parser *p, code_set *s, uint32_t *cp, bool *is_class) {
    static const char names[] = "nrtfv0", values[] = "\n\r\t\f\v";
    if (p->at == p->text.n) return broken(p, "nothing behind a backslash");
    size_t from = p->at - 1;
    char c = p->text.p[p->at];
    *is_class = add_class(p, s, c);
    if (*is_class) {
        p->at++;
        return OK;
    }
    size_t n = utf8_decode(str_from(p->text, p->at), cp);
    p->at += n;
    const char *known = c ? strchr(names, c) : NULL;
    if (known && c == '0' && p->at < p->text.n && p->text.p[p->at] >= '0' && p->text.p[p->at] <= '9')
        return refuse(p, from, "an octal escape");
    if (known)
        *cp = (uint8_t)values[known - names];
    else if (c == 'x')
        TRY(parse_hex(p, 2, cp));
    else if (c == 'u')
        TRY(parse_hex(p, 4, cp));
    else if (c >= '1' && c <= '9')
        return refuse(p, from, "a back reference");
    else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return refuse(p, from, "this escape");
    return OK;
}

static status parse_member(parser *p, code_set *s, uint32_t *cp, bool *is_class) {
    *is_class = false;
    if (take(p, '\\')) {
        if (!take(p, 'b')) return parse_escape(p, s, cp, is_class);
        *cp = '\b';
        return OK;
    }
    p->at += utf8_decode(str_from(p->text, p->at), cp);
    return OK;
}

/* Behind "[". */
static status parse_brackets(parser *p, code_set *out) {
    code_set all = { 0 }, *s = &all;
    bool others = take(p, '^');
    while (!take(p, ']')) {
        if (p->at == p->text.n) return broken(p, "a class is not closed");
        uint32_t lo = 0, hi;
        bool is_class, hi_is_class = false;
        TRY(parse_member(p, s, &lo, &is_class));
        hi = lo;
        if (peek(p, '-') && p->at + 1 < p->text.n && p->text.p[p->at + 1] != ']') {
            p->at++;
            if (is_class) return refuse(p, p->at, "a range from a class");
            TRY(parse_member(p, s, &hi, &hi_is_class));
            if (hi_is_class) return refuse(p, p->at, "a range to a class");
            if (hi < lo) return broken(p, "a range runs backwards");
        }
        if (!is_class) set_add(p, s, lo, hi);
    }
    set_sort(s);
    if (others) {
        add_others(p, out, s->ranges, s->n);
        return OK;
    }
    *out = all;
    return OK;
}

static regex *new_regex(parser *p, regex_kind kind) {
    regex *r = arena_alloc(p->mem, sizeof *r);
    r->kind = kind;
    return r;
}

static regex *new_repeat(parser *p, regex *child, int32_t min, int32_t max) {
    regex *r = new_regex(p, REGEX_REPEAT);
    *r = (regex){ .kind = REGEX_REPEAT, .child = child, .min = min, .max = max };
    return r;
}

static regex *new_anything(parser *p) {
    regex *any = new_regex(p, REGEX_SET);
    set_add(p, &any->set, 0, CODE_POINT_MAX);
    return new_repeat(p, any, 0, -1);
}

static status parse_choice(parser *p, regex **out);

/* Behind "(". */
static status parse_group(parser *p, regex **out) {
    size_t from = p->at - 1;
    if (take(p, '?') && !take(p, ':')) {
        if (!take(p, '<') || peek(p, '=') || peek(p, '!')) return refuse(p, from, "this kind of group");
        while (p->at < p->text.n && !peek(p, '>')) p->at++;
        if (!take(p, '>')) return broken(p, "the name of a group is not closed");
    }
    TRY(parse_choice(p, out));
    return take(p, ')') ? OK : broken(p, "a group is not closed");
}

static status parse_atom(parser *p, regex **out) {
    size_t from = p->at;
    if (take(p, '(')) return parse_group(p, out);
    if (take(p, '^') || take(p, '$')) return refuse(p, from, "an anchor that is not at an end of the expression");
    if (peek(p, '*') || peek(p, '+') || peek(p, '?') || peek(p, '{')) return broken(p, "nothing to repeat");
    regex *r = new_regex(p, REGEX_SET);
    code_set *s = &r->set;
    *out = r;
    if (take(p, '[')) return parse_brackets(p, s);
    if (take(p, '.')) {
        ADD_CLASS(LINE_ENDS, false);
        return OK;
    }
    uint32_t cp = 0;
    bool is_class = false;
    if (take(p, '\\'))
        TRY(parse_escape(p, s, &cp, &is_class));
    else
        p->at += utf8_decode(str_from(p->text, p->at), &cp);
    if (!is_class) set_add(p, s, cp, cp);
    return OK;
}

static status parse_count(parser *p, int32_t *n) {
    size_t from = p->at;
    for (*n = 0; p->at < p->text.n && p->text.p[p->at] >= '0' && p->text.p[p->at] <= '9'; p->at++) {
        *n = *n * 10 + (p->text.p[p->at] - '0');
        if (*n > REGEX_REPEAT_MAX) return refuse(p, from, "so large a count");
    }
    return p->at > from ? OK : broken(p, "a count is missing");
}

static status parse_quantifier(parser *p, regex **r) {
    int32_t min = 0, max = -1;
    if (take(p, '*')) {
    } else if (take(p, '+')) {
        min = 1;
    } else if (take(p, '?')) {
        max = 1;
    } else if (take(p, '{')) {
        TRY(parse_count(p, &min));
        max = min;
        if (take(p, ',')) {
            max = -1;
            if (!peek(p, '}')) TRY(parse_count(p, &max));
        }
        if (!take(p, '}')) return broken(p, "a count is not closed");
        if (max >= 0 && max < min) return broken(p, "a count runs backwards");
    } else {
        return OK;
    }
    take(p, '?'); /* lazy: the same strings */
    *r = new_repeat(p, *r, min, max);
    return OK;
}

static void put_first(regex *parent, regex *child) {
    child->sibling = parent->child;
    parent->child = child;
}

static bool at_end_of_row(const parser *p) { return p->at == p->text.n || peek(p, '|') || peek(p, ')'); }

static status parse_row(parser *p, regex **out) {
    regex *row = new_regex(p, REGEX_ROW);
    bool whole = p->depth == 1; /* anchors mean something here */
    if (whole && !take(p, '^')) put_first(row, new_anything(p));
    while (!at_end_of_row(p)) {
        if (whole && peek(p, '$') && (p->at + 1 == p->text.n || p->text.p[p->at + 1] == '|')) break;
        regex *r = NULL;
        TRY(parse_atom(p, &r));
        TRY(parse_quantifier(p, &r));
        put_first(row, r);
    }
    if (whole && !take(p, '$')) put_first(row, new_anything(p));
    *out = row;
    return OK;
}

static status parse_choice(parser *p, regex **out) {
    if (++p->depth > REGEX_DEPTH_MAX) return refuse(p, p->at, "so deep a group");
    regex *choice = new_regex(p, REGEX_CHOICE);
    do {
        regex *row = NULL;
        TRY(parse_row(p, &row));
        put_first(choice, row);
    } while (take(p, '|'));
    p->depth--;
    *out = choice;
    return OK;
}

status regex_parse(arena *mem, regex **out, str text, err *e) {
    parser p = { .mem = mem, .text = text, .e = e };
    if (!utf8_valid(text)) return broken(&p, "no UTF-8");
    TRY(parse_choice(&p, out));
    return take(&p, ')') ? broken(&p, "a group is closed that was not opened") : OK;
}
