/* engine/text/stopseq.h - finds stop strings in a stream of bytes, wherever it is cut.
 *
 * The match completed first wins; of those completed by the same byte, the one that starts first. Text is held back
 * only while it is the beginning of some stop string, so never more than the longest string less one byte. Constant
 * time per byte on average. After stopseq_new nothing allocates but the caller's buffer. */
#ifndef ENGINE_TEXT_STOPSEQ_H
#define ENGINE_TEXT_STOPSEQ_H
#include <stddef.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/str.h"

typedef struct stopseq stopseq;

stopseq *stopseq_new(const str *strings, size_t n); /* copied; none empty; n 0: everything passes */
void stopseq_free(stopseq *s);                      /* NULL is fine */
/* Appends what may be shown. -1, or the index of the string that was found: then all text before it is out, what came
 * after it is dropped, and nothing may be pushed any more. */
int32_t stopseq_push(stopseq *s, str text, buf *out);
void stopseq_flush(stopseq *s, buf *out); /* the stream ends: what is held back comes out */
#endif
