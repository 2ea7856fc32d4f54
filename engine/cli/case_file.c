#include "engine/cli/case_file.h"

#include "engine/base/file.h"
#include "engine/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

enum { FILE_BYTES_MAX = 1 << 30, EXCERPT_BYTES = 48 };

/* ---- what differs ---- */

void case_differs(case_file *f, const char *fmt, ...) {
    f->verdict = CASE_FAILED;
    if (f->difference.len) return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_printf(&f->difference, "line %zu", f->line);
    if (f->name) buf_printf(&f->difference, " (%s)", f->name);
    buf_printf(&f->difference, ": %s", text);
}

void case_skip(case_file *f, const char *why) {
    f->verdict = CASE_SKIPPED;
    size_t i = 0;
    while (f->reasons[i].why && strcmp(f->reasons[i].why, why) != 0) i++;
    CHECK(i < CASE_REASONS_MAX - 1); /* the last one stays empty and ends the list */
    f->reasons[i].why = why;
    f->reasons[i].n++;
}

/* The text from its first different byte on, from the start of that character. */
static void put_excerpt(buf *out, str text, size_t at) {
    if (at == text.n) {
        buf_str(out, STR("the end"));
        return;
    }
    while (at && ((unsigned char)text.p[at] & 0xC0) == 0x80) at--;
    str rest = str_from(text, at);
    bool cut = rest.n > EXCERPT_BYTES;
    if (cut) rest.n = utf8_complete((str){ rest.p, EXCERPT_BYTES });
    buf_json_str(out, rest);
    if (cut) buf_str(out, STR("..."));
}

bool case_same_text(case_file *f, const char *what, str expected, str found) {
    if (str_eq(expected, found)) return true;
    size_t at = 0;
    while (at < expected.n && at < found.n && expected.p[at] == found.p[at]) at++;
    buf want = { 0 }, got = { 0 };
    put_excerpt(&want, expected, at);
    put_excerpt(&got, found, at);
    case_differs(f, "%s: at byte %zu: expected %s, got %s", what, at, buf_cstr(&want), buf_cstr(&got));
    buf_free(&want);
    buf_free(&got);
    return false;
}

/* ---- members ---- */

status case_text(const json_t *row, const char *member, str *out, err *e) {
    const json_t *v = json_object_get(row, member);
    if (!json_is_string(v)) return err_set(e, ERR_REQUEST, "member \"%s\": expected a string", member);
    *out = (str){ json_string_value(v), json_string_length(v) };
    return OK;
}

str case_text_or_empty(const json_t *row, const char *member) {
    str text = STR("");
    case_text(row, member, &text, NULL);
    return text;
}

status case_list(const json_t *row, const char *member, const json_t **out, err *e) {
    const json_t *v = json_object_get(row, member);
    if (!json_is_array(v)) return err_set(e, ERR_REQUEST, "member \"%s\": expected an array", member);
    *out = v;
    return OK;
}

/* ---- files ---- */

static status run_line(case_file *f, str line, size_t flags, case_check *check, void *ctx, err *e) {
    json_error_t why;
    json_t *row = json_loadb(line.p, line.n, JSON_ALLOW_NUL | JSON_DECODE_ANY | flags, &why);
    status s;
    if (!row)
        s = err_set(e, ERR_REQUEST, "not valid JSON: column %d: %s", why.column, why.text);
    else if (!json_is_object(row))
        s = err_set(e, ERR_REQUEST, "expected a JSON object");
    else {
        f->name = json_string_value(json_object_get(row, "name"));
        f->verdict = CASE_PASSED;
        s = check(ctx, f, row, e);
        f->counts[f->verdict]++;
    }
    json_decref(row);
    return s == OK ? OK : err_wrap(e, "%s:%zu", f->path, f->line);
}

status case_file_run(case_file *f, const char *path, size_t flags, case_check *check, void *ctx, err *e) {
    buf text = { 0 };
    f->path = path;
    status s = file_read(&text, path, FILE_BYTES_MAX, e);
    for (size_t at = 0, end; s == OK && at < text.len; at = end + 1) {
        const char *stop = memchr(text.data + at, '\n', text.len - at);
        end = stop ? (size_t)(stop - text.data) : text.len;
        f->line++;
        if (end > at) s = run_line(f, (str){ text.data + at, end - at }, flags, check, ctx, e);
    }
    buf_free(&text);
    f->name = NULL;
    int n = f->counts[CASE_PASSED] + f->counts[CASE_FAILED] + f->counts[CASE_SKIPPED];
    if (s == OK && !n) return err_set(e, ERR_REQUEST, "%s: no cases in this file", path);
    return s;
}

void case_file_report(const case_file *f, tally *t) {
    const int *n = f->counts;
    printf("%s %s: %d passed, %d failed, %d skipped\n", n[CASE_FAILED] ? "FAIL" : "ok  ", f->path, n[CASE_PASSED],
           n[CASE_FAILED], n[CASE_SKIPPED]);
    str first = buf_view(&f->difference);
    if (first.n) printf("     first difference: %.*s\n", STR_ARG(first));
    for (size_t i = 0; f->reasons[i].why; i++) printf("skip %s: %d %s\n", f->path, f->reasons[i].n, f->reasons[i].why);
    t->passed += n[CASE_PASSED];
    t->failed += n[CASE_FAILED];
    t->skipped += n[CASE_SKIPPED];
}

void case_file_deinit(case_file *f) {
    buf_free(&f->difference);
    *f = (case_file){ 0 };
}
