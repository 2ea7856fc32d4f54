/* tests/e2e/script_engine.h - an engine without weights: it plays scripts, so that the server can be tested on any
 * machine.
 *
 * It implements engine/engine.h except engine_open. Tokenizer, template and reply rules are the real ones. A request
 * carries its script in the last message, between "[[" and "]]": words with blanks between them.
 *
 *     prefill=MS chunks=N   length of the prefill and its progress events (default 0, 1)
 *     think=A|B|C           reasoning, one round per piece; "_" is a blank, "~" is </think>, "%5F" the byte 5F
 *     say=A|B|C             content likewise; follows </think> when the reply starts with reasoning
 *     times=N               content N times
 *     step=MS               pause before each round but the first
 *     fail=prefill, fail=N  a fault in the prefill, or before round N
 *     end=none              no end token: the answer stops at its length limit or after the last round
 *
 * Without a script the answer is "Hello there." in three rounds. How tokens would be chosen is written to the log, and
 * of an answer that must have a form whether the script kept it; log-probabilities are made up from token ids. */
#ifndef TESTS_E2E_SCRIPT_ENGINE_H
#define TESTS_E2E_SCRIPT_ENGINE_H
#include "engine/engine.h"

typedef struct script_options {
    const char *model_dir; /* tokenizer and template; NULL: of the built-in demo target */
    int32_t ctx;
    int32_t queue_max;
    int32_t load_ms;
    bool load_fails;
} script_options;

status script_engine_open(engine **out, const script_options *opt, err *e);
#endif
