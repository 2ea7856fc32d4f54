/* engine/text/toolarg.h - the value of an argument, as the model wrote it, into JSON.
 *
 * A parameter that the tool's schema declares as "string" is the text as it stands (toolarg_escape). Any other value is
 * read without the white space around it: JSON stays as it is written, then Python's literals are tried, and what is
 * neither becomes a string. Numbers keep the model's digits; NaN, infinities and what a double cannot hold are no
 * numbers; neither are texts nested deeper than VALUE_DEPTH_MAX values. */
#ifndef ENGINE_TEXT_TOOLARG_H
#define ENGINE_TEXT_TOOLARG_H
#include "engine/base/buf.h"

void toolarg_put(buf *out, str text); /* valid UTF-8; linear in it */
/* Appends text as the inside of a JSON string, without its quotes: texts may come in pieces. Whole UTF-8. */
void toolarg_escape(buf *out, str text);
str toolarg_strip(str s); /* white space of ASCII at both ends off */
#endif
