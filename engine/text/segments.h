/* engine/text/segments.h - texts between added tokens whose tokens are known: of a conversation's next turn only what
 * is new is encoded. Exact: a text is found by its bytes, and its tokens never depend on what stands around it. What
 * was used longest ago goes first. One thread; one tokenizer. */
#ifndef ENGINE_TEXT_SEGMENTS_H
#define ENGINE_TEXT_SEGMENTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/text/text.h"

typedef struct segments segments;

enum { SEGMENT_MIN = 32 }; /* bytes: shorter ones are encoded as fast as found */

segments *segments_new(size_t bytes_max); /* texts and tokens; a text that takes more than a quarter is not kept */
void segments_free(segments *c);          /* NULL is fine */

/* Appends the tokens of a text that is known. guarded: guards in it were left out (text.h). */
bool segments_get(segments *c, str text, bool guarded, token_list *out);
void segments_put(segments *c, str text, bool guarded, const int32_t *ids, size_t n);

typedef struct segments_stats {
    int64_t found, asked; /* texts */
    size_t bytes;         /* held */
} segments_stats;
segments_stats segments_get_stats(const segments *c);
#endif
