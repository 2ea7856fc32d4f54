/* engine/text/ucat.h - general categories of Unicode 16, which the reference tokenizer has, for a PCRE2 that may be
 * older: 10.42 has Unicode 14. A PCRE2 that is newer knows letters that the reference does not; nothing is done about
 * those. Pure. */
#ifndef ENGINE_TEXT_UCAT_H
#define ENGINE_TEXT_UCAT_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/str.h"

bool ucat_is_category(str name); /* "L", "Lu", ...; false for C and Cn, out of which code points move when assigned */
/* Appends what Unicode 15 to 16 added to the category, or to the script Han, as ranges inside of a regex class. */
void ucat_put_new(buf *out, str name);
#endif
