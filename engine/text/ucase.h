/* engine/text/ucase.h - case of characters as Python's strings have it: with letters that become several, and the two
 * small sigmas. Pure. */
#ifndef ENGINE_TEXT_UCASE_H
#define ENGINE_TEXT_UCASE_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/str.h"

void ucase_put_upper(buf *out, uint32_t cp);
void ucase_put_title(buf *out, uint32_t cp);

/* What a lower-case sigma depends on: whether a word is going on. Zeroed at the start of a text. */
typedef struct ucase_walk {
    bool in_word;
} ucase_walk;
void ucase_put_lower(buf *out, ucase_walk *w, uint32_t cp, str rest); /* rest: the text behind cp */
void ucase_pass(ucase_walk *w, uint32_t cp);                          /* a character that is not put in lower case */

/* At most one holds. Letters without a counterpart have no case here. */
bool ucase_is_lower(uint32_t cp);
bool ucase_is_upper(uint32_t cp);
bool ucase_is_title(uint32_t cp);
#endif
