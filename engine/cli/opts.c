#include "engine/cli/opts.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_MAX_LEN = 48 }; /* longer words get no suggestion */

/* ---- looking up ---- */

/* Takes the next word off a list separated by spaces; false at its end. */
static bool next_word(str *list, str *word) {
    size_t start = 0;
    while (start < list->n && list->p[start] == ' ') start++;
    size_t end = start;
    while (end < list->n && list->p[end] != ' ') end++;
    *word = (str){ list->p + start, end - start };
    *list = str_from(*list, end);
    return word->n > 0;
}

static bool has_word(const char *list, str wanted) {
    str left = str_of(list), word;
    while (next_word(&left, &word))
        if (str_eq(word, wanted)) return true;
    return false;
}

static const opt *find_long(const opts *o, str name) {
    for (size_t i = 0; i < o->n; i++) {
        const opt *p = &o->list[i];
        if (p->kind == OPT_HEADING) continue;
        if (str_eq(str_of(p->name), name) || has_word(p->aliases, name)) return p;
    }
    return NULL;
}

static const opt *find_brief(const opts *o, str name) {
    for (size_t i = 0; i < o->n; i++)
        if (o->list[i].brief && str_eq(str_of(o->list[i].brief), name)) return &o->list[i];
    return NULL;
}

static bool takes_value(const opt *p) {
    switch (p->kind) {
    case OPT_INT:
    case OPT_REAL:
    case OPT_TEXT:
    case OPT_CHOICE:
    case OPT_IGNORED_VALUE: return true;
    default: return false;
    }
}

/* ---- "did you mean" ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Number of letters to insert, delete, replace or swap with the neighbour to turn a into b. Three rows of the usual
 * table are enough: the swap looks two rows back. */
static size_t edit_distance(str a, str b) {
    size_t rows[3][NAME_MAX_LEN + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.n; j++) above[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t replaced = above[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1];
            if (swapped) row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b.n];
}

/* How badly `typed` misses `name`: 0 is the name itself (with other dashes). The beginning of a name is a near miss
 * however much is left out. */
static size_t miss(str typed, str name) {
    if (typed.n > NAME_MAX_LEN || name.n > NAME_MAX_LEN) return SIZE_MAX;
    if (str_eq(typed, name)) return 0;
    if (str_starts(name, typed)) return 1;
    return edit_distance(typed, name);
}

static void try_name(str typed, str name, const opt *p, size_t *best, const opt **found) {
    size_t d = miss(typed, name);
    if (d >= *best) return;
    *best = d;
    *found = p;
}

/* The option whose name is nearest, under its main name; NULL when none is near. */
static const opt *nearest(const opts *o, str typed) {
    const opt *found = NULL;
    size_t best = typed.n / 3 + 1; /* exclusive: up to a third of the letters may be wrong */
    if (typed.n < 3) best = 1;     /* of two letters anything is near to anything */
    for (size_t i = 0; i < o->n; i++) {
        const opt *p = &o->list[i];
        if (p->kind == OPT_HEADING || p->kind == OPT_REFUSED) continue;
        try_name(typed, str_of(p->name), p, &best, &found);
        if (p->brief && str_eq(typed, str_of(p->brief))) try_name(typed, typed, p, &best, &found);
        str left = str_of(p->aliases), alias;
        while (next_word(&left, &alias)) try_name(typed, alias, p, &best, &found);
    }
    return found;
}

static status unknown(const opts *o, str word, str typed, err *e) {
    const opt *p = nearest(o, typed);
    if (p) return err_set(e, ERR_USAGE, "unknown option '%.*s'; did you mean '--%s'?", STR_ARG(word), p->name);
    return err_set(e, ERR_USAGE, "unknown option '%.*s'; see '%s --help'", STR_ARG(word), o->command);
}

/* ---- values ---- */

/* "from 1 to 9", "at least 1", "at most 9" (with `of` in front of "at"), or nothing when there is no limit. */
static void put_range(buf *b, const opt *p, const char *of) {
    bool whole = p->kind == OPT_INT;
    bool floor = whole ? p->min != INT64_MIN : p->low != -INFINITY;
    bool roof = whole ? p->max != INT64_MAX : p->high != INFINITY;
    char lo[32], hi[32];
    if (whole) {
        snprintf(lo, sizeof lo, "%lld", (long long)p->min);
        snprintf(hi, sizeof hi, "%lld", (long long)p->max);
    } else {
        snprintf(lo, sizeof lo, "%g", p->low);
        snprintf(hi, sizeof hi, "%g", p->high);
    }
    if (floor && roof)
        buf_printf(b, "from %s to %s", lo, hi);
    else if (floor)
        buf_printf(b, "%sat least %s", of, lo);
    else if (roof)
        buf_printf(b, "%sat most %s", of, hi);
}

static void put_expected(buf *b, const opt *p) {
    switch (p->kind) {
    case OPT_INT: buf_str(b, STR("an integer")); break;
    case OPT_REAL: buf_str(b, STR("a number")); break;
    case OPT_CHOICE: {
        buf_str(b, STR("one of "));
        str left = str_of(p->choices), word;
        for (size_t i = 0; next_word(&left, &word); i++) {
            if (i) buf_str(b, STR(", "));
            buf_str(b, word);
        }
        return;
    }
    default: buf_str(b, STR("a text")); return;
    }
    size_t before = b->len;
    buf_byte(b, ' ');
    put_range(b, p, "of ");
    if (b->len == before + 1) b->len = before; /* no limits: no space */
}

/* `value` NULL: there was none. `spelled` is the option as the user wrote it, dashes included. */
static status bad_value(const opt *p, str spelled, const char *value, err *e) {
    buf expected = { 0 };
    put_expected(&expected, p);
    status s =
        value ? err_set(e, ERR_USAGE, "%.*s: expected %s, found '%s'", STR_ARG(spelled), buf_cstr(&expected), value)
              : err_set(e, ERR_USAGE, "%.*s: expected %s, found nothing", STR_ARG(spelled), buf_cstr(&expected));
    buf_free(&expected);
    return s;
}

/* Decimal digits with a sign and nothing else; strtoll alone would also take spaces in front. */
static bool read_whole(const char *text, int64_t *out) {
    if (!*text || text[strspn(text, "+-0123456789")]) return false;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end || errno) return false;
    *out = v;
    return true;
}

/* A decimal number; strtod alone would also take "nan", "inf", hexadecimal and spaces in front. Tiny numbers that
 * become zero or subnormal are fine, huge ones become infinite and fail the range. */
static bool read_real(const char *text, double *out) {
    if (!*text || text[strspn(text, "+-.eE0123456789")]) return false;
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end;
}

static bool read_choice(const char *text, const char *choices, int *out) {
    str left = str_of(choices), word;
    for (int i = 0; next_word(&left, &word); i++) {
        if (!str_eq(word, str_of(text))) continue;
        *out = i;
        return true;
    }
    return false;
}

/* Reads `value` into its field; false when it does not fit. The field is then as before. */
static bool store_value(const opt *p, const char *value, char *fields) {
    void *field = fields + p->offset;
    switch (p->kind) {
    case OPT_INT: {
        int64_t v;
        if (!read_whole(value, &v) || v < p->min || v > p->max) return false;
        *(int64_t *)field = v;
        return true;
    }
    case OPT_REAL: {
        double v;
        if (!read_real(value, &v) || !isfinite(v) || v < p->low || v > p->high) return false;
        *(double *)field = v;
        return true;
    }
    case OPT_CHOICE: return read_choice(value, p->choices, field);
    case OPT_TEXT: *(const char **)field = value; return true;
    default: return true; /* ignored */
    }
}

static void store_switch(const opt *p, char *fields) {
    if (p->kind == OPT_SET || p->kind == OPT_CLEAR) *(bool *)(void *)(fields + p->offset) = p->kind == OPT_SET;
}

/* ---- reading the words ---- */

typedef struct reader {
    const opts *o;
    char *const *argv;
    int argc, at; /* the next word */
    char *fields;
    opts_found found;
} reader;

/* Splits "--name=value" and "-n"; false for words that are positional. `value` stays NULL without "=". */
static bool split_option(const char *word, str *spelled, str *name, bool *is_long, const char **value) {
    if (word[0] != '-' || !word[1]) return false;
    *is_long = word[1] == '-';
    const char *start = word + (*is_long ? 2 : 1);
    const char *equals = *is_long ? strchr(start, '=') : NULL;
    size_t n = equals ? (size_t)(equals - start) : strlen(start);
    *name = (str){ start, n };
    *spelled = (str){ word, (size_t)(start - word) + n };
    *value = equals ? equals + 1 : NULL;
    return true;
}

/* Guards "--model --port 80": the name of an option is not taken for the value of the one in front of it. */
static bool looks_like_option(const opts *o, const char *word) {
    str spelled, name;
    bool is_long;
    const char *value;
    if (!split_option(word, &spelled, &name, &is_long, &value)) return false;
    return is_long || find_brief(o, name);
}

static status read_option(reader *r, const opt *p, str spelled, const char *value, err *e) {
    if (p->kind == OPT_REFUSED) return err_set(e, ERR_USAGE, "%.*s is not offered: %s", STR_ARG(spelled), p->help);
    if (!takes_value(p)) {
        if (value) return err_set(e, ERR_USAGE, "%.*s: expected no value, found '%s'", STR_ARG(spelled), value);
        store_switch(p, r->fields);
    } else {
        if (!value && r->at < r->argc && !looks_like_option(r->o, r->argv[r->at])) value = r->argv[r->at++];
        if (!value || !store_value(p, value, r->fields)) return bad_value(p, spelled, value, e);
    }
    if (p->kind == OPT_IGNORED || p->kind == OPT_IGNORED_VALUE)
        log_warn("cli", "%.*s is accepted and has no effect", STR_ARG(spelled));
    r->found.given[p - r->o->list] = true;
    return OK;
}

static status read_words(reader *r, err *e) {
    bool options_ended = false;
    while (r->at < r->argc && !r->found.help) {
        const char *word = r->argv[r->at++];
        str spelled, name;
        bool is_long;
        const char *value;
        if (options_ended || !split_option(word, &spelled, &name, &is_long, &value)) {
            r->found.rest[r->found.n_rest++] = word;
            continue;
        }
        if (is_long && !name.n && !value) {
            options_ended = true;
            continue;
        }
        const opt *p = is_long ? find_long(r->o, name) : find_brief(r->o, name);
        if (p)
            TRY(read_option(r, p, spelled, value, e));
        else if (!value && (str_eq(spelled, STR("--help")) || str_eq(spelled, STR("-h"))))
            r->found.help = true;
        else
            return unknown(r->o, spelled, name, e);
    }
    return OK;
}

static status check_rest(const opts *o, const opts_found *f, err *e) {
    if (f->n_rest < o->rest_min)
        return err_set(e, ERR_USAGE, "%s: expected %s, found %zu argument%s", o->command, o->rest, f->n_rest,
                       f->n_rest == 1 ? "" : "s");
    if (f->n_rest <= o->rest_max) return OK;
    if (!o->rest_max) return err_set(e, ERR_USAGE, "%s: expected options only, found '%s'", o->command, f->rest[0]);
    return err_set(e, ERR_USAGE, "%s: expected %s, found '%s' behind it", o->command, o->rest, f->rest[o->rest_max]);
}

/* The table is part of the program: what is wrong with it is a bug. */
static void store_presets(const opts *o, char *fields) {
    for (size_t i = 0; i < o->n; i++) {
        const opt *p = &o->list[i];
        CHECK(p->kind == OPT_HEADING || p->name);
        CHECK(p->offset < o->bytes || !o->bytes);
        if (p->preset) CHECK(takes_value(p) && store_value(p, p->preset, fields));
    }
}

status opts_parse(const opts *o, int argc, char *const argv[], void *fields, opts_found *found, err *e) {
    reader r = { .o = o, .argv = argv, .argc = argc, .fields = xalloc(o->bytes + 1) };
    r.found.rest = xalloc(((size_t)argc + 1) * sizeof *r.found.rest);
    r.found.given = xalloc(o->n + 1);
    if (o->bytes) memcpy(r.fields, fields, o->bytes);
    store_presets(o, r.fields);

    status s = read_words(&r, e);
    if (s == OK && !r.found.help) s = check_rest(o, &r.found, e);
    if (s == OK) {
        if (o->bytes) memcpy(fields, r.fields, o->bytes);
        *found = r.found;
    } else {
        opts_found_deinit(&r.found);
    }
    free(r.fields);
    return s;
}

void opts_found_deinit(opts_found *found) {
    free(found->rest);
    free(found->given);
    *found = (opts_found){ 0 };
}

bool opts_given(const opts *o, const opts_found *found, const char *name) {
    const opt *p = find_long(o, str_of(name));
    CHECK(p && strcmp(p->name, name) == 0);
    return found->given[p - o->list];
}

/* ---- help ---- */

enum { HELP_WIDTH = 100, HELP_NAMES_MAX = 34 }; /* longer names push their text to the next line */

static void put_spaces(buf *b, size_t n) {
    while (n--) buf_byte(b, ' ');
}

/* Words of `text`, the first one in column `column`, further lines indented by `indent`; ends the line. */
static void put_wrapped(buf *b, str text, size_t column, size_t indent) {
    str word;
    bool first = true;
    while (next_word(&text, &word)) {
        if (!first && column + 1 + word.n > HELP_WIDTH) {
            buf_byte(b, '\n');
            put_spaces(b, indent);
            column = indent;
        } else if (!first) {
            buf_byte(b, ' ');
            column++;
        }
        buf_str(b, word);
        column += word.n;
        first = false;
    }
    buf_byte(b, '\n');
}

/* "auto|off|fixed", or the name of the value. */
static void put_value_name(buf *b, const opt *p) {
    if (p->value) {
        buf_str(b, str_of(p->value));
        return;
    }
    switch (p->kind) {
    case OPT_INT: buf_byte(b, 'N'); break;
    case OPT_REAL: buf_byte(b, 'X'); break;
    case OPT_TEXT: buf_str(b, STR("TEXT")); break;
    case OPT_CHOICE: {
        str left = str_of(p->choices), word;
        for (size_t i = 0; next_word(&left, &word); i++) {
            if (i) buf_byte(b, '|');
            buf_str(b, word);
        }
        break;
    }
    default: break;
    }
}

/* "  -md, --draft-model DIR"; options without a brief name leave its place empty, so that the long names line up. */
static void put_names(buf *b, const opt *p, size_t brief_width) {
    size_t start = b->len;
    put_spaces(b, 2);
    if (p->brief) buf_printf(b, "-%s,", p->brief);
    put_spaces(b, brief_width + 2 - (b->len - start));
    buf_printf(b, "--%s", p->name);
    if (!takes_value(p)) return;
    buf_byte(b, ' ');
    put_value_name(b, p);
}

/* The help text of one option with range, default and aliases: all that is not in its first column. */
static void put_details(buf *b, const opt *p) {
    buf_str(b, str_of(p->help));
    buf facts = { 0 };
    if (p->kind == OPT_INT || p->kind == OPT_REAL) put_range(&facts, p, "");
    if (p->preset && *p->preset) buf_printf(&facts, "%sdefault %s", facts.len ? ", " : "", p->preset);
    if (facts.len) buf_printf(b, " (%s)", buf_cstr(&facts));
    buf_free(&facts);
    str left = str_of(p->aliases), alias;
    for (size_t i = 0; next_word(&left, &alias); i++) buf_printf(b, "%s--%.*s", i ? ", " : "; also ", STR_ARG(alias));
}

static bool is_listed(const opt *p) {
    return p->kind != OPT_HEADING && p->kind != OPT_IGNORED && p->kind != OPT_IGNORED_VALUE && p->kind != OPT_REFUSED;
}

typedef struct columns {
    size_t brief, text;
} columns; /* widths: of "-md, ", and up to where the help starts */

static columns measure(const opts *o) {
    columns c = { sizeof "-h, " - 1, 0 };
    for (size_t i = 0; i < o->n; i++)
        if (o->list[i].brief && is_listed(&o->list[i]) && strlen(o->list[i].brief) + 3 > c.brief)
            c.brief = strlen(o->list[i].brief) + 3;
    for (size_t i = 0; i < o->n; i++) {
        if (!is_listed(&o->list[i])) continue;
        buf names = { 0 };
        put_names(&names, &o->list[i], c.brief);
        if (names.len > c.text && names.len <= HELP_NAMES_MAX) c.text = names.len;
        buf_free(&names);
    }
    size_t help = 2 + c.brief + sizeof "--help" - 1;
    c.text = (c.text > help ? c.text : help) + 2;
    return c;
}

static void put_option(buf *b, const opt *p, columns c) {
    size_t start = b->len;
    put_names(b, p, c.brief);
    size_t used = b->len - start;
    if (used + 2 > c.text) {
        buf_byte(b, '\n');
        used = 0;
    }
    put_spaces(b, c.text - used);
    buf details = { 0 };
    put_details(&details, p);
    put_wrapped(b, buf_view(&details), c.text, c.text);
    buf_free(&details);
}

static void put_ignored(buf *b, const opts *o) {
    buf names = { 0 };
    for (size_t i = 0; i < o->n; i++)
        if (o->list[i].kind == OPT_IGNORED || o->list[i].kind == OPT_IGNORED_VALUE)
            buf_printf(&names, "%s --%s", names.len ? "," : "Accepted without effect:", o->list[i].name);
    if (names.len) {
        buf_byte(b, '\n');
        put_wrapped(b, buf_view(&names), 0, 2);
    }
    buf_free(&names);
}

void opts_help(const opts *o, buf *out) {
    buf_printf(out, "usage: %s [options]%s%s\n\n", o->command, o->rest ? " " : "", o->rest ? o->rest : "");
    put_wrapped(out, str_of(o->about), 0, 0);
    columns c = measure(o);
    const char *heading = "Options"; /* waits for its first option: not all kinds are listed */
    for (size_t i = 0; i < o->n; i++) {
        const opt *p = &o->list[i];
        if (p->kind == OPT_HEADING) heading = p->help;
        if (!is_listed(p)) continue;
        if (heading) buf_printf(out, "\n%s:\n", heading);
        heading = NULL;
        put_option(out, p, c);
    }
    static const opt help = { "help", .brief = "h", .help = "print this text", .kind = OPT_SET };
    if (!o->n) buf_printf(out, "\n%s:\n", heading);
    put_option(out, &help, c);
    put_ignored(out, o);
}
