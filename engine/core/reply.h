/* engine/core/reply.h - tokens to text: detokenizer, UTF-8 hold-back, reasoning splitter, stop strings, end tokens.
 *
 * Pure and incremental: any split of a token sequence into pushes gives the same concatenated text. One reply serves
 * one generation, on the engine thread. After reply_new nothing allocates except growth of the text buffers. */
#ifndef ENGINE_CORE_REPLY_H
#define ENGINE_CORE_REPLY_H
#include "engine/base/buf.h"
#include "engine/engine.h"
#include "engine/text/text.h"

typedef struct reply reply;

typedef enum reply_state { REPLY_GOES_ON, REPLY_ENDED, REPLY_STOPPED } reply_state; /* end token; stop string */

/* Text that may be shown, in order: the reasoning of this burst comes before its content (a state never goes back). */
typedef struct reply_text {
    buf reasoning, content;
} reply_text;

reply *reply_new(const text_model *tm, const reply_options *opt); /* stop strings are copied */
void reply_free(reply *r);
/* Takes one emitted token; appends to out what may be shown now. After ENDED or STOPPED no more pushes. */
reply_state reply_push(reply *r, int32_t token, reply_text *out);
void reply_finish(reply *r, reply_text *out); /* end of the answer for another reason: what is held back comes out */
bool reply_was_content(const reply *r);       /* the last token pushed belongs to the content */
int32_t reply_stop_index(const reply *r);     /* the stop string that matched, -1: none */
int32_t
reply_reasoning_tokens(const reply *r); /* tokens pushed while in the reasoning state, its end marker included */
#endif
