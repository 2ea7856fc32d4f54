/* engine/cli/model_opts.h - the options that name a model and the way it runs; the same for every command. */
#ifndef ENGINE_CLI_MODEL_OPTS_H
#define ENGINE_CLI_MODEL_OPTS_H
#include "engine/cli/opts.h"
#include "engine/engine.h"

typedef struct model_opts {
    const char *model, *draft, *isa;
    int64_t threads, ctx, chunk, spec, tree;
    int proposers; /* PROPOSE_* - 1 */
    int kv;        /* kv_dtype */
} model_opts;

/* Choices in the order of kv_dtype. */
#define KV_DTYPE_OPT_ROW(type, field)                                                                                  \
    {                                                                                                                  \
        "kv-dtype",                                                                                                    \
            .aliases = "kv-cache-dtype", .preset = "bf16", OPT_CHOICE_AT(type, field, "bf16 fp8_e4m3"),                \
            .help = "how the target's keys and values are stored: as BF16, or as FP8 in half the memory, which "       \
                    "rounds them more coarsely"                                                                        \
    }

/* Rows of an opt table; `type` is the command's struct, `m` its model_opts member. */
#define MODEL_OPT_ROWS(type, m)                                                                                        \
    { .kind = OPT_HEADING, .help = "Model" },                                                                          \
        { "model",                                                                                                     \
          .brief = "m",                                                                                                \
          .aliases = "model-path",                                                                                     \
          .value = "DIR",                                                                                              \
          OPT_TEXT_AT(type, m.model),                                                                                  \
          .help = "folder of the target; without it the built-in demo pair is used" },                                 \
        { "draft-model",                                                                                               \
          .brief = "md",                                                                                               \
          .aliases = "model-draft draft spec-draft-model",                                                             \
          .value = "DIR",                                                                                              \
          OPT_TEXT_AT(type, m.draft),                                                                                  \
          .help = "folder of its DFlash draft; a target without one decodes plainly" },                                \
        { "ctx-size",                                                                                                  \
          .brief = "c",                                                                                                \
          .aliases = "max-model-len context-length",                                                                   \
          .preset = "0",                                                                                               \
          OPT_INT_AT(type, m.ctx, 0, INT32_MAX),                                                                       \
          .help = "longest prompt plus answer in tokens; 0: what model and memory allow" },                            \
        KV_DTYPE_OPT_ROW(type, m.kv), { .kind = OPT_HEADING, .help = "Computing" },                                    \
        { "isa", .value = "NAME", OPT_TEXT_AT(type, m.isa),                                                            \
          .help = "ref, avx2, avx512 or avx512bf16; without it the best that the processor has. The results are the "  \
                  "same to the last bit" },                                                                            \
        { "threads", .brief = "t", .preset = "0", OPT_INT_AT(type, m.threads, 0, 1024),                                \
          .help = "compute threads; 0: the usable cores, less one when there are four or more" },                      \
    {                                                                                                                  \
        "prefill-chunk", .preset = "256", OPT_INT_AT(type, m.chunk, 1, 256),                                           \
                         .help = "prompt rows per step; changes speed, never the result"                               \
    }

#define SPEC_OPT_ROWS(type, m)                                                                                         \
    { "spec-tokens", .aliases = "draft-max spec-draft-n-max speculative-num-draft-tokens", .value = "N",               \
      OPT_INT_AT(type, m.spec, 0, 31),                                                                                 \
      .help = "proposals of the draft per round, up to its block size - 1; 0: plain decoding; without it 7. Changes "  \
              "speed, never the text" },                                                                               \
    {                                                                                                                  \
        "spec-tree",                                                                                                   \
            .preset = "0", .value = "N", OPT_INT_AT(type, m.tree, 0, 31),                                              \
            .help = "verify a tree of the N most probable nodes, as deep as --spec-tokens, instead of a chain; 0: a "  \
                    "chain. Changes speed, never the text"                                                             \
    }

/* For the commands that run the engine. */
#define PROPOSERS_OPT_ROW(type, m)                                                                                     \
    {                                                                                                                  \
        "proposers",                                                                                                   \
            .preset = "dflash", OPT_CHOICE_AT(type, m.proposers, "dflash lookup dflash,lookup"),                       \
            .help = "who proposes tokens: the draft, earlier places of the text that read the same, or both. Changes " \
                    "speed, never the text"                                                                            \
    }

enum { MODEL_OPTS_SPEC_UNSET = SPEC_DEFAULT };

engine_options model_opts_engine(const model_opts *m, int32_t queue_max);

/* Opens the engine and waits until it is ready, with a progress bar when stderr is a terminal. `stop` (may be NULL)
 * ends the waiting when it becomes true. */
status model_opts_open(engine **out, const engine_options *opt, volatile const int *stop, err *e);
#endif
