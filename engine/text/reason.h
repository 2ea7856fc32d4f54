/* engine/text/reason.h - splitting an answer into reasoning and content, token by token, on ids.
 *
 * REPLY_REASONING: everything up to the first "</think>" is reasoning, the rest content; a "<think>" that the answer
 * begins with is dropped. REPLY_CONTENT: everything is content; a "</think>" that the answer begins with, an echo of
 * the prompt's tail, is dropped. Think tags anywhere else are text. REPLY_RAW: everything is content. A small value:
 * the owner keeps it, nothing to free. */
#ifndef ENGINE_TEXT_REASON_H
#define ENGINE_TEXT_REASON_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/engine.h"
#include "engine/text/text.h"

typedef struct reason {
    int32_t open, close; /* ids of the tags, -1: the model has none */
    reply_start start;
    bool in_reasoning; /* where the next token belongs */
    bool begun;        /* a token was pushed */
} reason;

typedef enum reason_part {
    REASON_NONE, /* a tag that is part of neither text */
    REASON_TEXT, /* reasoning */
    REASON_CONTENT
} reason_part;

void reason_init(reason *r, const text_model *tm, reply_start start);
/* A call begins, which ends the reasoning; or what began as one was none, and the reasoning goes on. */
void reason_set(reason *r, bool in_reasoning);
reason_part reason_push(reason *r, int32_t token);
#endif
