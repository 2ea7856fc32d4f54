/* engine/text/text.h - between bytes and tokens: tokenizer, chat template, special ids.
 *
 * A text_model is built once and constant afterwards: its functions are pure and may be called from any thread. */
#ifndef ENGINE_TEXT_TEXT_H
#define ENGINE_TEXT_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/base/str.h"

typedef struct text_model text_model;

/* Contents of the model's files; p NULL: the file is absent. Names of files in messages come from the field names. */
typedef struct text_files {
    str tokenizer;         /* tokenizer.json, needed */
    str tokenizer_config;  /* tokenizer_config.json: token strings for the template */
    str chat_template;     /* chat_template.jinja; else the member chat_template of tokenizer_config.json; else chat is
                              refused */
    str generation_config; /* generation_config.json: end ids, default_chat_template_kwargs */
    str config;            /* config.json: end ids when generation_config has none. The tokenizer's eos_token and a
                            * "</assistant>" that the template writes are end tokens in any case */
} text_files;

/* vocab: rows of the embedding table; every id of the tokenizer must be below it. The files may go away afterwards. */
status text_model_open(text_model **out, const text_files *files, int32_t vocab, err *e);
void text_model_close(text_model *tm); /* NULL is fine */

typedef struct token_list {
    int32_t *ids; /* owned; token_list_free */
    size_t n, cap;
} token_list;
void token_list_push(token_list *l, int32_t id);
void token_list_free(token_list *l);

/* Appends the ids of text, which must be valid UTF-8 (ERR_REQUEST with the offset otherwise). added: match added tokens
 * ("<think>", ...) in the text; false: they are ordinary characters. Nothing is put in front. */
status text_encode(const text_model *tm, str text, bool added, token_list *out, err *e);
/* For texts that may not control the model: text_put_guarded appends text to out with TEXT_GUARD inside of every added
 * token (of two characters or more); text_encode_guarded is text_encode with added tokens, for which one with a guard
 * inside is ordinary text, and which leaves guards out. Whatever stood between the two is at liberty to cut and move
 * the text. U+FDD0 is no character of any text. */
#define TEXT_GUARD "\xEF\xB7\x90"
void text_put_guarded(const text_model *tm, str text, buf *out);
status text_encode_guarded(const text_model *tm, str text, token_list *out, err *e);
/* text_encode with added tokens, or text_encode_guarded; what was encoded before between two added tokens is taken from
 * `known`, which remembers what is new (segments.h). NULL: nothing is known. */
struct segments;
status text_encode_known(const text_model *tm, str text, bool guarded, struct segments *known, token_list *out, err *e);
/* Gives what text_encode makes its tokens of, in order: added tokens, and the pieces of the text between them that are
 * encoded one by one. For checks of the tokenizer. Pieces may have been given before a failure. */
typedef void text_sink(void *ctx, str piece);
status text_split(const text_model *tm, str text, bool added, text_sink *sink, void *ctx, err *e);

/* Bytes of a token: literal text of an added token, "" for an id that the tokenizer does not know. Borrowed. */
str text_token_bytes(const text_model *tm, int32_t id);
int32_t text_find_token(const text_model *tm, str added); /* id of an added token, -1: there is none */
int32_t text_vocab(const text_model *tm);
bool text_is_end(const text_model *tm, int32_t id); /* an end-of-answer token of the model */
bool text_is_hidden(const text_model *tm,
                    int32_t id); /* a control token that users never see: end tokens, PAD, MASK, ... */
bool text_has_template(const text_model *tm);
int32_t text_start_token(const text_model *tm); /* put in front of raw completions; -1: none */

/* Streaming decoder: bytes of tokens in, whole UTF-8 out. At most 3 bytes are held back; bytes that can no longer
 * become a character come out as U+FFFD, one per maximal ill-formed part, as Python's "replace" does. A zeroed decoder
 * is ready. */
typedef struct text_decoder {
    char tail[4];
    int n;
} text_decoder;
void text_decoder_push(text_decoder *d, str bytes, buf *out);
void text_decoder_flush(text_decoder *d, buf *out); /* end of the stream: what is held back becomes U+FFFD */
#endif
