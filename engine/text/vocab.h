/* engine/text/vocab.h - names of the tokens in tokenizer.json, and the bytes that they stand for.
 *
 * Files of this kind spell bytes as characters (space is U+0120), so that every token has a printable name. A name with
 * a character that spells no byte stands for itself; only added tokens have such names. */
#ifndef ENGINE_TEXT_VOCAB_H
#define ENGINE_TEXT_VOCAB_H
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/text/tokfile.h"

typedef struct vocab vocab;

/* limit: every id must be below it. What the vocab gives out lives in mem. ERR_MODEL for an id that is out of range or
 * stands twice, and for a name that stands twice. */
status vocab_new(vocab **out, arena *mem, const tokfile *f, int32_t limit, err *e);
void vocab_free(vocab *v); /* NULL is fine */

int32_t vocab_find(const vocab *v, str name);    /* -1: no such token */
str vocab_get_name(const vocab *v, int32_t id);  /* p NULL: no such token, or id out of range */
str vocab_get_bytes(const vocab *v, int32_t id); /* likewise */
size_t vocab_longest(const vocab *v);            /* bytes of the longest name */

/* Appends the name of these bytes. */
void vocab_spell(buf *out, str bytes);
#endif
