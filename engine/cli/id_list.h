/* engine/cli/id_list.h - token ids as people and programs write them. */
#ifndef ENGINE_CLI_ID_LIST_H
#define ENGINE_CLI_ID_LIST_H
#include "engine/text/text.h"

/* Appends the ids of text: whole numbers between white space and commas, or a JSON array of numbers or of objects with
 * a member "id", as "skiff tokenize --json" prints them. ERR_REQUEST names what is no id, or an id that is not below
 * vocab. */
status id_list_read(str text, int32_t vocab, token_list *out, err *e);
#endif
