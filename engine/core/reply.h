/* engine/core/reply.h - tokens to text: detokenizer, UTF-8 hold-back, reasoning splitter, tool calls, stop strings, end
 * tokens.
 *
 * Pure and incremental: any split of a token sequence into pushes gives the same parts. One reply serves one
 * generation, on the engine thread. Without tools nothing allocates after reply_new except growth of the text buffers.
 */
#ifndef ENGINE_CORE_REPLY_H
#define ENGINE_CORE_REPLY_H
#include "engine/engine.h"
#include "engine/text/parts.h"
#include "engine/text/text.h"

typedef struct reply reply;

typedef enum reply_state {
    REPLY_GOES_ON,
    REPLY_ENDED,   /* end token */
    REPLY_STOPPED, /* stop string */
    REPLY_CALLED   /* a call is complete, and one was wanted */
} reply_state;

/* Stop strings are copied; tools stay the caller's, for as long as the reply lives. */
reply *reply_new(const text_model *tm, const reply_options *opt);
void reply_free(reply *r);
/* Takes one emitted token; appends to out what may be told now. After any other state than GOES_ON no more pushes. */
reply_state reply_push(reply *r, int32_t token, parts *out);
/* The answer ends for another reason: what is held back comes out, an open call is closed. cut: by a limit, or it was
 * cancelled; else whole. */
void reply_finish(reply *r, bool cut, parts *out);
bool reply_was_content(const reply *r);   /* the last token pushed belongs to the content */
int32_t reply_stop_index(const reply *r); /* the stop string that matched, -1: none */
int32_t
reply_reasoning_tokens(const reply *r); /* tokens pushed while in the reasoning state, its end marker included */
#endif
