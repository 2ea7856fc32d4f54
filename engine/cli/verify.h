/* engine/cli/verify.h - the checks behind "skiff verify". Each prints what it did, line by line, and counts. */
#ifndef ENGINE_CLI_VERIFY_H
#define ENGINE_CLI_VERIFY_H
#include "engine/core/pair.h"

typedef struct tally {
    int passed, failed, skipped;
} tally;

/* "ok   what: detail" or "FAIL ..."; counts. */
void tally_line(tally *t, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void tally_skip(tally *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reference data of folders in the format of tests/golden/README.md: every sub-folder of dir with target or draft
 * references, and dir itself. */
status verify_golden(const char *dir, const engine_options *opt, tally *t, err *e);

/* The text cases of a folder in that format: files of tokenizer, template, jinja and parser cases, those that are
 * there. The cases about answers use the tokens of `model`, a folder; NULL: the built-in one. */
status verify_text(const char *dir, const char *model, tally *t, err *e);

typedef enum lossless_shapes { LOSSLESS_CHAINS = 1, LOSSLESS_COMBINATIONS = 2, LOSSLESS_ALL = 3 } lossless_shapes;

typedef struct lossless_options {
    const char *prompts; /* JSON lines as tests/prompts.jsonl; NULL: a few built-in ones */
    int64_t limit, tokens;
    lossless_shapes shapes; /* chains of several lengths; shapes x proposers x cold and warm; both */
} lossless_options;

/* Plain decoding against every way to speculate, greedy and sampled, on the prompts of a file. A difference names the
 * token, and the first position, layer and row whose keys and values are not the same. */
status verify_lossless(const engine_options *opt, const lossless_options *lo, tally *t, err *e);
#endif
