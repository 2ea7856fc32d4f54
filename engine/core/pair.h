/* engine/core/pair.h - a loaded pair: files, weights, text model, memory, recorded steps. What the engine runs on, and
 * the door for commands and tests that look inside (verify, inspect, bench). One thread. */
#ifndef ENGINE_CORE_PAIR_H
#define ENGINE_CORE_PAIR_H
#include "engine/core/memplan.h"
#include "engine/core/steps.h"
#include "engine/engine.h"
#include "engine/load/model_dir.h"
#include "engine/text/text.h"

typedef void pair_progress(void *arg, float fraction);

typedef struct pair {
    model_dir *target_dir, *draft_dir; /* draft_dir NULL: no draft */
    target target;
    draft draft;
    bool has_draft, has_memory;
    text_model *text; /* NULL: the folder has no tokenizer */
    device *device;   /* NULL: the host */
    bool fast_prefill;
    steps *steps; /* NULL until pair_start */
    int32_t ctx;
    memplan plan;                      /* of all that pair_start took */
    int32_t cache_tokens, checkpoints; /* remembered beside the running conversation */
    isa isa;
    int lanes; /* 0 on a device */
    pair_progress *progress;
    void *progress_arg;
    char where[280]; /* the instruction set, or the name of the device */
} pair;

/* Opens files, binds weights, checks target against draft, opens the text model. need_text: a folder without tokenizer
 * is an error. Nothing large is allocated. */
status pair_load(pair *out, const char *target_dir, const char *draft_dir, bool need_text, pair_progress *progress,
                 void *arg, err *e);
/* Chooses context, instruction set and lanes, or opens the device and sends the weights there; allocates, records all
 * steps. The sending is told to what pair_load was given. */
status pair_start(pair *p, const engine_options *opt, err *e);
void pair_close(pair *p); /* a zeroed pair is fine */

const draft *pair_draft(const pair *p); /* NULL: none */
dtype pair_kv_type(kv_dtype kind);
/* Sampling defaults of generation_config.json. */
status pair_pick_defaults(const pair *p, pick_options *out, err *e);
/* What of a request's options goes into the parameter block; biases go to steps_lists, and min_new needs the length of
 * the prompt. */
pick_params pair_pick_params(const pick_options *o);
#endif
