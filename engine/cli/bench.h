/* engine/cli/bench.h - the measurements behind "skiff bench" that have files of their own. */
#ifndef ENGINE_CLI_BENCH_H
#define ENGINE_CLI_BENCH_H
#include "engine/core/pair.h"

typedef struct perplexity_options {
    const char *file, *json; /* the text; where results also go, NULL: nowhere */
    int64_t tokens;          /* at most so many of the text */
    int64_t repeat;          /* runs of plain steps at each length */
} perplexity_options;

/* The same text read with both kinds of keys and values: mean negative log-likelihood per token, and the time of plain
 * steps in interleaved pairs. ERR_REQUEST when the text is too short or no UTF-8. */
status bench_perplexity(const engine_options *opt, const perplexity_options *po, err *e);

/* Appends "cpu", "compiler", "isa" and "threads" of a started pair as members of a JSON object, without braces. */
void bench_machine_json(const pair *p, buf *out);
#endif
