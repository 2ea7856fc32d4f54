/* Steps run depth first: a part goes through all later steps before the next part of the first step is looked for. So
 * there are no lists of parts, and the memory is one match block however long the text is. The match block is shared by
 * all depths: a step copies the bounds of its match before it descends.
 *
 * Long runs. A pattern that repeats a group keeps a way back per round, in PCRE2 as in any backtracking engine: a
 * megabyte of newlines would need a stack of tens of megabytes. The newline step of this family is such a pattern, so
 * it has a scanner of its own. Repeats of single characters need no such stack. Whatever else a file may hold runs
 * under limits in proportion to the text, and running into them is an error, never a different cut. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pretok.h"

#include "engine/base/buf.h"
#include "engine/base/mem.h"
#include "engine/text/dialect.h"

#include <pcre2.h>
#include <stdlib.h>

enum {
    STEPS_MAX = 16,
    JIT_STACK_START = 32 * 1024,
    JIT_STACK_MAX = 16 * 1024 * 1024,
    HEAP_MAX_KIB = 64 * 1024,
    MATCH_BASE = 1000000, /* allowed steps of one match: this many, and per byte of text */
    MATCH_PER_BYTE = 64,
};

#define NEWLINES "(?:\\r?\\n)+(?!\\r?\\n)"

/* \w of the reference; the ranges are the letters in circles and squares, which are alphabetic and not \p{L}. */
#define WORD_CHAR                                                                                                      \
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"          \
    "\\x{1f169}\\x{1f170}-\\x{1f189}]"

typedef enum behaviour { REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS, BEHAVIOURS } behaviour;
static const char *const behaviour_name[BEHAVIOURS] = { "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                        "Contiguous" };

typedef enum find_kind { FIND_REGEX, FIND_LITERAL, FIND_NEWLINES } find_kind;

typedef struct step {
    find_kind find;
    behaviour then;
    bool invert;      /* the gaps count as matches, the matches as gaps */
    pcre2_code *code; /* FIND_REGEX */
    char *literal;    /* FIND_LITERAL */
    size_t literal_n;
} step;

struct pretok {
    step steps[STEPS_MAX];
    size_t n;
    bool is_bytes; /* ByteLevel was seen: no step may follow */
    pcre2_code *word;
};

struct pretok_work {
    const pretok *pt;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
    pretok_sink *sink;
    void *ctx;
};

/* ---- reading ---- */

static status compile(pcre2_code **out, str regex, err *e) {
    pcre2_compile_context *ctx = pcre2_compile_context_create(NULL);
    CHECK(ctx != NULL);
    pcre2_set_newline(ctx, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE at;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)regex.p, regex.n, PCRE2_UTF | PCRE2_UCP, &code, &at, ctx);
    pcre2_compile_context_free(ctx);
    if (!re) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(e, ERR_MODEL, "\"%.*s\": %s (at offset %zu)", STR_ARG(regex), (char *)why, at);
    }
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* where it fails, the interpreter does the same more slowly */
    *out = re;
    return OK;
}

static status compile_foreign(pcre2_code **out, str regex, err *e) {
    buf b = { 0 };
    status s = dialect_translate(&b, regex, e);
    if (s == OK) s = compile(out, buf_view(&b), e);
    buf_free(&b);
    return s;
}

static status read_regex(step *st, str regex, err *e) {
    if (str_eq(regex, STR(NEWLINES))) {
        st->find = FIND_NEWLINES;
        return OK;
    }
    st->find = FIND_REGEX;
    if (compile_foreign(&st->code, regex, e) != OK) return err_wrap(e, "pattern.Regex");
    uint32_t empty = 0;
    pcre2_pattern_info(st->code, PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty) return err_set(e, ERR_MODEL, "pattern.Regex: a pattern that can match nothing is not supported");
    return OK;
}

static status read_literal(step *st, const json_t *pattern, err *e) {
    st->find = FIND_LITERAL;
    st->literal_n = json_string_length(pattern);
    if (!st->literal_n) return err_set(e, ERR_MODEL, "pattern.String: expected at least one character, found none");
    st->literal = xstrndup(json_string_value(pattern), st->literal_n);
    return OK;
}

static status read_split(step *st, const json_t *spec, err *e) {
    const char *then = json_string_value(json_object_get(spec, "behavior"));
    while (then && st->then < BEHAVIOURS && strcmp(then, behaviour_name[st->then]) != 0) st->then++;
    if (!then || st->then == BEHAVIOURS)
        return err_set(e, ERR_MODEL, "behavior: \"%s\" is not known", then ? then : "(absent)");
    st->invert = json_is_true(json_object_get(spec, "invert"));
    const json_t *pattern = json_object_get(spec, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex"), *literal = json_object_get(pattern, "String");
    if (json_is_string(regex)) return read_regex(st, (str){ json_string_value(regex), json_string_length(regex) }, e);
    if (json_is_string(literal)) return read_literal(st, literal, e);
    return err_set(e, ERR_MODEL, "pattern: expected {\"Regex\": \"...\"} or {\"String\": \"...\"}");
}

/* The mapping of bytes to characters is undone in the vocabulary, so the step itself leaves nothing to do. */
static status read_byte_level(pretok *pt, const json_t *spec, err *e) {
    static const char *const off[] = { "add_prefix_space", "use_regex" }; /* absent means true for both */
    for (size_t i = 0; i < 2; i++) {
        if (!json_is_false(json_object_get(spec, off[i])))
            return err_set(e, ERR_MODEL, "%s: only false is supported", off[i]);
    }
    pt->is_bytes = true;
    return OK;
}

static status read_spec(pretok *pt, const json_t *spec, int depth, err *e) {
    const char *type = json_string_value(json_object_get(spec, "type"));
    if (!type) return err_set(e, ERR_MODEL, "expected an object with a type");
    if (strcmp(type, "Sequence") == 0 && depth == 0) {
        const json_t *all = json_object_get(spec, "pretokenizers");
        for (size_t i = 0; i < json_array_size(all); i++)
            if (read_spec(pt, json_array_get(all, i), 1, e) != OK) return err_wrap(e, "pretokenizers[%zu]", i);
        return OK;
    }
    if (pt->is_bytes) return err_set(e, ERR_MODEL, "%s behind ByteLevel is not supported", type);
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(pt, spec, e);
    if (strcmp(type, "Split") != 0) return err_set(e, ERR_MODEL, "type: \"%s\" is not supported", type);
    if (pt->n == STEPS_MAX) return err_set(e, ERR_MODEL, "more than %d steps", STEPS_MAX);
    return read_split(&pt->steps[pt->n++], spec, e);
}

status pretok_new(pretok **out, const json_t *spec, err *e) {
    pretok *pt = xalloc(sizeof *pt);
    status s = read_spec(pt, spec, 0, e);
    if (s == OK && !pt->is_bytes) s = err_set(e, ERR_MODEL, "expected ByteLevel as the last step, but there is none");
    if (s == OK) s = compile_foreign(&pt->word, STR(WORD_CHAR), e);
    if (s != OK) {
        pretok_free(pt);
        err_wrap(e, "pre_tokenizer");
        return s;
    }
    *out = pt;
    return OK;
}

void pretok_free(pretok *pt) {
    if (!pt) return;
    for (size_t i = 0; i < pt->n; i++) {
        pcre2_code_free(pt->steps[i].code);
        free(pt->steps[i].literal);
    }
    pcre2_code_free(pt->word);
    free(pt);
}

/* ---- finding ---- */

typedef struct span {
    size_t at, end;
} span;

/* What NEWLINES matches: the first newline, with the carriage return before it, and all that follow without a gap. The
 * run is taken whole, so the look-ahead behind it always holds. */
static span find_newlines(str text, size_t from) {
    const char *nl = memchr(text.p + from, '\n', text.n - from);
    if (!nl) return (span){ text.n, text.n };
    size_t at = (size_t)(nl - text.p), end = at + 1;
    if (at > from && text.p[at - 1] == '\r') at--;
    for (;;) {
        size_t next = end + (end < text.n && text.p[end] == '\r');
        if (next >= text.n || text.p[next] != '\n') return (span){ at, end };
        end = next + 1;
    }
}

static span find_literal(const step *st, str text, size_t from) {
    const char *hit = memmem(text.p + from, text.n - from, st->literal, st->literal_n);
    size_t at = hit ? (size_t)(hit - text.p) : text.n;
    return (span){ at, hit ? at + st->literal_n : text.n };
}

/* First match at or behind `from`; *out is left alone when there is none. */
static status find(pretok_work *w, const step *st, str text, size_t from, span *out, err *e) {
    if (st->find == FIND_NEWLINES) *out = find_newlines(text, from);
    if (st->find == FIND_LITERAL) *out = find_literal(st, text, from);
    if (st->find != FIND_REGEX) return OK;
    int rc = pcre2_match(st->code, (PCRE2_SPTR)text.p, text.n, from, PCRE2_NO_UTF_CHECK, w->match, w->limits);
    if (rc == PCRE2_ERROR_NOMATCH) return OK;
    if (rc < 0) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(rc, why, sizeof why);
        return err_set(e, ERR_REQUEST, "a text of %zu bytes is too much for a pattern of the tokenizer: %s", text.n,
                       (char *)why);
    }
    const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(w->match);
    *out = (span){ bounds[0], bounds[1] };
    CHECK(out->at >= from && out->end > out->at && out->end <= text.n);
    return OK;
}

/* ---- cutting ---- */

static bool joins(behaviour b, bool match, bool match_before) {
    switch (b) {
    case WITH_PREVIOUS: return match && !match_before;
    case WITH_NEXT: return !match && match_before;
    case CONTIGUOUS: return match == match_before;
    default: return false;
    }
}

/* The part of a step that is not given yet, because the next one may join it. */
typedef struct held {
    str part; /* n 0: nothing is held */
    bool match;
} held;

static status run_step(pretok_work *w, size_t index, str text, err *e);

static status put_part(pretok_work *w, size_t index, held *h, str part, bool match, err *e) {
    const step *st = &w->pt->steps[index];
    if (st->invert) match = !match;
    if (part.n && h->part.n && joins(st->then, match, h->match)) {
        h->part.n += part.n; /* parts follow each other without a gap, except for removed ones, which never join */
    } else {
        if (h->part.n) TRY(run_step(w, index + 1, h->part, e));
        h->part = match && st->then == REMOVED ? (str){ part.p, 0 } : part;
    }
    h->match = match;
    return OK;
}

static status run_step(pretok_work *w, size_t index, str text, err *e) {
    if (index == w->pt->n) {
        w->sink(w->ctx, text);
        return OK;
    }
    held h = { 0 };
    for (size_t at = 0; at < text.n;) {
        span hit = { text.n, text.n };
        TRY(find(w, &w->pt->steps[index], text, at, &hit, e));
        if (hit.at > at) TRY(put_part(w, index, &h, (str){ text.p + at, hit.at - at }, false, e));
        if (hit.end > hit.at) TRY(put_part(w, index, &h, (str){ text.p + hit.at, hit.end - hit.at }, true, e));
        at = hit.end;
    }
    return h.part.n ? run_step(w, index + 1, h.part, e) : OK;
}

/* ---- scratch ---- */

pretok_work *pretok_work_new(const pretok *pt) {
    pretok_work *w = xalloc(sizeof *w);
    w->pt = pt;
    w->match = pcre2_match_data_create(1, NULL); /* the whole match is all we ask for */
    w->limits = pcre2_match_context_create(NULL);
    CHECK(w->match != NULL && w->limits != NULL);
    pcre2_set_heap_limit(w->limits, HEAP_MAX_KIB);
    w->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL); /* NULL without JIT: not needed then */
    if (w->stack) pcre2_jit_stack_assign(w->limits, NULL, w->stack);
    return w;
}

void pretok_work_free(pretok_work *w) {
    if (!w) return;
    pcre2_jit_stack_free(w->stack);
    pcre2_match_context_free(w->limits);
    pcre2_match_data_free(w->match);
    free(w);
}

status pretok_split(pretok_work *w, str text, pretok_sink *sink, void *ctx, err *e) {
    if (!text.n) return OK;
    uint64_t limit = MATCH_BASE + (uint64_t)text.n * MATCH_PER_BYTE;
    pcre2_set_match_limit(w->limits, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
    w->sink = sink;
    w->ctx = ctx;
    return run_step(w, 0, text, e);
}

bool pretok_is_word(pretok_work *w, str s) {
    if (!s.n) return false;
    return pcre2_match(w->pt->word, (PCRE2_SPTR)s.p, s.n, 0, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, w->match,
                       w->limits) >= 0;
}
