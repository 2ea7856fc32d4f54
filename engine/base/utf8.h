/* engine/base/utf8.h - UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef ENGINE_BASE_UTF8_H
#define ENGINE_BASE_UTF8_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/str.h"

/* Length of the valid character at the start of s, 1..4; 0 when there is none (empty, invalid, or cut off). */
size_t utf8_char(str s);
/* The same and its code point. */
size_t utf8_decode(str s, uint32_t *cp);
/* Writes cp (a scalar value) to out[4], returns the length. */
size_t utf8_encode(uint32_t cp, char out[4]);
bool utf8_valid(str s);
/* True when s (1..3 bytes) is a proper prefix of some valid character: more bytes may complete it. */
bool utf8_is_prefix(str s);
/* Length of the longest head of s that does not end inside a character which more bytes could complete.
 * Invalid bytes count as complete; at most 3 bytes are left out. */
size_t utf8_complete(str s);
#endif
