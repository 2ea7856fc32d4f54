/* engine/cli/model_opts.h - the options that name a model and the way it runs; the same for every command. */
#ifndef ENGINE_CLI_MODEL_OPTS_H
#define ENGINE_CLI_MODEL_OPTS_H
#include "engine/cli/opts.h"
#include "engine/engine.h"

typedef struct model_opts {
    const char *model, *draft, *isa, *cache_dir;
    int64_t threads, ctx, chunk, spec, tree, cache, checkpoints;
    double min_p;
    int mode, proposers; /* SPEC_* - SPEC_AUTO; PROPOSE_* - 1 */
    int kv;              /* kv_dtype */
    int backend;         /* backend_kind */
    int64_t device;
    bool check_upload;
    int prefill; /* prefill_kind */
} model_opts;

/* Choices in the order of kv_dtype. */
#define KV_DTYPE_OPT_ROW(type, field)                                                                                  \
    {                                                                                                                  \
        "kv-dtype",                                                                                                    \
            .aliases = "kv-cache-dtype", .preset = "bf16", OPT_CHOICE_AT(type, field, "bf16 fp8_e4m3"),                \
            .help = "how the target's keys and values are stored: as BF16, or as FP8 in half the memory, which "       \
                    "rounds them more coarsely"                                                                        \
    }

/* Choices in the order of backend_kind. */
#define BACKEND_OPT_ROWS(type, m)                                                                                      \
    { "backend", .preset = "cpu", OPT_CHOICE_AT(type, m.backend, "cpu cuda"),                                          \
      .help =                                                                                                          \
          "where the model runs: on the processor, or on an NVIDIA GPU (a skiff built with `make cuda`); there is "    \
          "no falling back to the other" },                                                                            \
        { "device", .preset = "0", OPT_INT_AT(type, m.device, 0, 63),                                                  \
          .help = "number of the GPU, as `skiff inspect --devices` lists them" },                                      \
    {                                                                                                                  \
        "check-upload", OPT_SET_AT(type, m.check_upload),                                                              \
            .help = "read all weights back from the GPU and compare them with the files"                               \
    }

/* Choices in the order of prefill_kind. */
#define PREFILL_OPT_ROW(type, at)                                                                                      \
    {                                                                                                                  \
        "prefill",                                                                                                     \
            .preset = "exact", OPT_CHOICE_AT(type, at, "exact fast"),                                                  \
            .help =                                                                                                    \
                "exact: prompts are added up like answers, so it makes no difference what was computed before or how " \
                "a prompt is cut; fast (GPU only): dense products of 33 and more prompt rows by cuBLASLt, rounded "    \
                "otherwise"                                                                                            \
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
        KV_DTYPE_OPT_ROW(type, m.kv), { .kind = OPT_HEADING, .help = "Computing" }, BACKEND_OPT_ROWS(type, m),         \
        PREFILL_OPT_ROW(type, m.prefill),                                                                              \
        { "isa", .value = "NAME", OPT_TEXT_AT(type, m.isa),                                                            \
          .help = "ref, avx2, avx512 or avx512bf16; without it the best that the processor has; results are the "      \
                  "same to the last bit" },                                                                            \
        { "threads", .brief = "t", .preset = "0", OPT_INT_AT(type, m.threads, 0, 1024),                                \
          .help = "compute threads; 0: the usable cores, less one when there are four or more" },                      \
    {                                                                                                                  \
        "prefill-chunk", .preset = "256", OPT_INT_AT(type, m.chunk, 1, 256),                                           \
                         .help = "prompt rows per step; with an exact prefill it changes speed, never the result"      \
    }

#define SPEC_OPT_ROWS(type, m)                                                                                         \
    { "spec-tokens", .aliases = "draft-max spec-draft-n-max speculative-num-draft-tokens", .value = "N",               \
      OPT_INT_AT(type, m.spec, 0, 31),                                                                                 \
      .help = "most proposals in a row, up to the draft's block size - 1; 0: plain decoding; without it as many as "   \
              "there are, with --spec fixed 7" },                                                                      \
    {                                                                                                                  \
        "spec-tree",                                                                                                   \
            .value = "N", OPT_INT_AT(type, m.tree, 0, 31),                                                             \
            .help = "verify a tree of at most the N most probable nodes, as deep as --spec-tokens; 0: a chain; "       \
                    "without it 31, with --spec fixed 0"                                                               \
    }

/* For the server. */
#define CACHE_OPT_ROWS(type, m)                                                                                        \
    { .kind = OPT_HEADING, .help = "Earlier conversations" },                                                          \
        { "cache-tokens", .value = "N", OPT_INT_AT(type, m.cache, 0, INT32_MAX),                                       \
          .help = "tokens of earlier conversations that are kept, beside the running one; without it twice the "       \
                  "context, if memory allows" },                                                                       \
        { "cache-dir", .aliases = "kv-disk-dir", .value = "DIR", OPT_TEXT_AT(type, m.cache_dir),                       \
          .help = "folder where they outlast the server: read at the start, written at the end" },                     \
    {                                                                                                                  \
        "kv-snapshots", .aliases = "ctx-checkpoints", .value = "N", OPT_INT_AT(type, m.checkpoints, 0, 1024),          \
                        .help = "places in conversations from which they can be taken up again; without it 24, if "    \
                                "memory allows"                                                                        \
    }

#define ENGINE_SPEC_OPT_ROWS(type, m)                                                                                  \
    { .kind = OPT_HEADING, .help = "Speculation: changes speed, never the text" },                                     \
        { "spec", .aliases = "speculation", .preset = "auto", OPT_CHOICE_AT(type, m.mode, "auto fixed off"),           \
          .help = "how much is proposed: as much as pays by measured cost, always the same, or nothing" },             \
        SPEC_OPT_ROWS(type, m),                                                                                        \
        { "spec-min-p", .aliases = "draft-p-min", .preset = "0", OPT_REAL_AT(type, m.min_p, 0, 1),                     \
          .help = "verify no proposal that is less probable than this" },                                              \
    {                                                                                                                  \
        "proposers", .preset = "dflash,lookup", OPT_CHOICE_AT(type, m.proposers, "dflash lookup dflash,lookup"),       \
                     .help = "who proposes tokens: the draft, earlier places of the text that read the same, or both"  \
    }

spec_options model_opts_spec(const model_opts *m);
engine_options model_opts_engine(const model_opts *m, int32_t queue_max);

/* Opens the engine and waits until it is ready, with a progress bar when stderr is a terminal. `stop` (may be NULL)
 * ends the waiting when it becomes true. */
status model_opts_open(engine **out, const engine_options *opt, volatile const int *stop, err *e);
#endif
