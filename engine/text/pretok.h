/* engine/text/pretok.h - cuts text into the pieces that BPE works on: the member pre_tokenizer of tokenizer.json.
 *
 * The steps of the file are data: each cuts every part that the step before it left. A pretok is constant once made and
 * may be shared; a pretok_work is scratch for one thread at a time. */
#ifndef ENGINE_TEXT_PRETOK_H
#define ENGINE_TEXT_PRETOK_H
#include <jansson.h>
#include <stdbool.h>
#include "engine/base/status.h"
#include "engine/base/str.h"

typedef struct pretok pretok;
typedef struct pretok_work pretok_work;
typedef void pretok_sink(void *ctx, str piece); /* piece is a part of the text, never empty */

/* spec: a Split, a ByteLevel, or a Sequence of them; ByteLevel must be the last step, as the vocabulary is in its
 * bytes. ERR_MODEL names the member that is unknown or not supported. */
status pretok_new(pretok **out, const json_t *spec, err *e);
void pretok_free(pretok *pt); /* NULL is fine */

pretok_work *pretok_work_new(const pretok *pt);
void pretok_work_free(pretok_work *w); /* NULL is fine */

/* Gives the pieces of text, which is valid UTF-8, in order. ERR_REQUEST when a pattern runs into its limits; pieces may
 * have been given before that. Time is linear in the text for the patterns of this model family. */
status pretok_split(pretok_work *w, str text, pretok_sink *sink, void *ctx, err *e);

/* Does a word character (letter, mark, digit, connector) stand at the start of s? False when s is empty. */
bool pretok_is_word(pretok_work *w, str s);
#endif
