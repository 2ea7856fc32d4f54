/* engine/text/tokenizer.h - tokenizer.json of the byte-level BPE family: text to ids, ids to bytes. Internal to
 * engine/text; everybody else sees text.h. Constant once made, any thread. */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H
#include "engine/base/arena.h"
#include "engine/text/added.h"
#include "engine/text/text.h"

typedef struct tokenizer tokenizer;
struct segments;

/* json: the file, which may go away afterwards. limit: every id must be below it. ERR_MODEL says what is broken,
 * unknown or not supported, by the name that it has in the file. */
status tokenizer_new(tokenizer **out, str json, int32_t limit, err *e);
void tokenizer_free(tokenizer *t); /* NULL is fine */

/* As text_encode, text_put_guarded, text_encode_guarded, text_split. */
status tokenizer_encode(const tokenizer *t, str text, bool added, token_list *out, err *e);
/* As text_encode_known. */
status tokenizer_encode_known(const tokenizer *t, str text, bool guarded, struct segments *known, token_list *out,
                              err *e);
void tokenizer_put_guarded(const tokenizer *t, str text, buf *out);
status tokenizer_encode_guarded(const tokenizer *t, str text, token_list *out, err *e);
status tokenizer_split(const tokenizer *t, str text, bool added, text_sink *sink, void *ctx, err *e);
str tokenizer_get_bytes(const tokenizer *t, int32_t id);               /* "" for an unknown id; borrowed */
const added_token *tokenizer_find_added(const tokenizer *t, str text); /* NULL: none; borrowed */
size_t tokenizer_count_added(const tokenizer *t);
const added_token *tokenizer_get_added(const tokenizer *t, size_t index); /* in the order of the file */
#endif
