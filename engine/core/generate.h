/* engine/core/generate.h - one request from prompt to last event: prefill, rounds, text, limits. Runs on the engine
 * thread. */
#ifndef ENGINE_CORE_GENERATE_H
#define ENGINE_CORE_GENERATE_H
#include "engine/core/lookup.h"
#include "engine/core/mailbox.h"
#include "engine/core/steps.h"
#include "engine/core/timelines.h"
#include "engine/core/width.h"
#include "engine/text/text.h"
#include "engine/text/token_trie.h"

typedef struct generate_env {
    bool drafting; /* the draft proposes */
    width *width;
    lookup *lookup; /* NULL: nothing is looked up */
    steps *steps;
    timelines *timelines;
    const text_model *text;
    token_trie *trie; /* of the text model; made when the first constrained request comes */
    mailbox *box;
    int32_t ctx, prefill_chunk;
} generate_env;

/* Posts every event of the request, GEN_STARTED first and GEN_DONE last, or GEN_FAILED when the device was lost; looks
 * at mailbox_cancelled between prefill chunks and rounds. Values of the request have been checked by engine_submit. */
void generate(generate_env *env, const taken_request *tr);
/* The device is lost: GEN_FAILED, and that is all. */
void generate_refuse(const generate_env *env, const taken_request *tr);
#endif
