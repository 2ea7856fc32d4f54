/* engine/cli/case_file.h - files of cases, one JSON object a line, and what became of each case.
 *
 * case_file_run gives every row to a check. The check says what differs, or why the case is not looked at; a case of
 * which it says neither has passed. A row that the check cannot read is an error, and ends the run. */
#ifndef ENGINE_CLI_CASE_FILE_H
#define ENGINE_CLI_CASE_FILE_H
#include <jansson.h>
#include <stdbool.h>
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/cli/verify.h"

enum { CASE_REASONS_MAX = 4 };

typedef enum case_verdict { CASE_PASSED, CASE_FAILED, CASE_SKIPPED, CASE_VERDICTS } case_verdict;

typedef struct case_file {
    const char *path;
    size_t line;      /* of the case at hand, from 1 */
    const char *name; /* its member "name", NULL: it has none */
    case_verdict verdict;
    int counts[CASE_VERDICTS];
    buf difference; /* the first one of the file, with its line */
    struct {
        const char *why;
        int n;
    } reasons[CASE_REASONS_MAX]; /* of what was skipped */
} case_file;

typedef status case_check(void *ctx, case_file *f, const json_t *row, err *e);

/* flags: of jansson, for files with integers that it does not hold. ERR_REQUEST, "path:line: ...": a line that is no
 * JSON object, or what the check says; a file without cases is one, too. f is zeroed before, case_file_deinit after. */
status case_file_run(case_file *f, const char *path, size_t flags, case_check *check, void *ctx, err *e);
/* Prints the counts, the first difference, reasons of skipping; adds the counts to t. */
void case_file_report(const case_file *f, tally *t);
void case_file_deinit(case_file *f);

/* ---- for checks ---- */

void case_differs(case_file *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void case_skip(case_file *f, const char *why); /* why: a literal */
/* Differs, with the offset, unless the two are equal. True: they are. */
bool case_same_text(case_file *f, const char *what, str expected, str found);

/* Members of a row: ERR_REQUEST when one is missing or of another type. Borrowed. */
status case_text(const json_t *row, const char *member, str *out, err *e);
status case_list(const json_t *row, const char *member, const json_t **out, err *e);
/* A text that may be null or missing, which is the same as empty. */
str case_text_or_empty(const json_t *row, const char *member);
#endif
