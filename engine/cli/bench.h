/* engine/cli/bench.h - the kinds of "skiff bench", and what they share. */
#ifndef ENGINE_CLI_BENCH_H
#define ENGINE_CLI_BENCH_H
#include <jansson.h>
#include "engine/cli/model_opts.h"
#include "engine/cli/prompts.h"

typedef struct bench_opts {
    model_opts m;
    const char *prompts, *json, *plots; /* NULL: our own prompts, no file, no pictures */
    int64_t limit, tokens, repeat;      /* tokens 0: as the kind of bench says */
    int64_t text_tokens;                /* perplexity: at most so many of the text */
    double temp;
    int64_t seed;
    bool ignore_eos;
    const char *text;            /* perplexity: the file, NULL: none was named */
    const char *dir, *draft_dir; /* model: folders behind the word; NULL: none */
    int64_t context, rows;       /* model: tokens, 0: the usual; one more width of a verify pass */
    double share, gap;           /* model: per cent of the bandwidth, us between kernels */
    const char *measured;        /* model: what `bench device` wrote, to stand beside the estimates; NULL: none */
    int64_t layers;              /* device: of the target, 0: as many as fit */
} bench_opts;

/* Opens the pair as the engine runs it and reads the prompts, at least one; each leaves room for two tokens. The caller
 * closes both in any case. */
status bench_open(const bench_opts *o, pair *p, prompt_set *ps, err *e);
/* Real text of n tokens: the prompts one behind the other, from the one with number `first` on. */
void bench_text(const prompt_set *ps, size_t first, int32_t *ids, int32_t n);
/* Members of a JSON object that say where numbers come from: cpu, compiler, isa, threads. */
void bench_machine(buf *out, const pair *p);
/* Writes root to the file and drops it. NULL (numbers that JSON does not have): ERR_FAULT. */
status bench_write_json(json_t *root, const char *path, err *e);

/* Settings of speculation against plain decoding, by class of prompt; what passes cost. ERR_FAULT when two settings do
 * not give the same tokens. */
status bench_spec(const bench_opts *o, err *e);
/* The same text read with both kinds of keys and values: mean negative log-likelihood per token, and the time of plain
 * steps in interleaved pairs. ERR_REQUEST when the text is too short or no UTF-8. */
status bench_perplexity(const bench_opts *o, err *e);
/* Estimated times of steps on GPU cards, by bytes alone. ERR_MODEL: a config that cannot be used, or a context beyond
 * its limit. */
status bench_model(const bench_opts *o, err *e);
/* Times of ops and of steps on a GPU, with made-up weights in the shapes of Laguna S 2.1 and its draft. ERR_DEVICE: no
 * GPU; ERR_MEMORY: not even two layers fit. */
status bench_device(const bench_opts *o, err *e);
#endif
