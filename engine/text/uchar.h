/* engine/text/uchar.h - what templates need to know about Unicode characters. Pure. */
#ifndef ENGINE_TEXT_UCHAR_H
#define ENGINE_TEXT_UCHAR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/str.h"

/* First character of s, which is not empty, and its length. An invalid byte is one character, U+FFFD. */
size_t uchar_next(str s, uint32_t *cp);
size_t uchar_count(str s);              /* characters */
size_t uchar_offset(str s, size_t nth); /* byte offset of character nth; s.n when there are fewer */

/* s without the characters of chars (NULL: white space) at its ends. */
str uchar_strip(str s, const str *chars, bool left, bool right);

bool uchar_is_space(uint32_t cp);     /* str.isspace() of Python */
bool uchar_is_printable(uint32_t cp); /* str.isprintable(), unassigned code points included: they change with Unicode */
/* Mappings to one character; letters whose counterpart is several (the German sharp s) stay as they are: ucase.h. */
uint32_t uchar_upper(uint32_t cp);
uint32_t uchar_lower(uint32_t cp);
#endif
