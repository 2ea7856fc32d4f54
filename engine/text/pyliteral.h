/* engine/text/pyliteral.h - Python literals into JSON: None, True, False, decimal numbers, strings, lists, tuples
 * (arrays, too) and dicts, as ast.literal_eval reads them (Python's language reference, "Literals" and "Atoms"). Left
 * out are what JSON has no form for (sets, bytes, complex numbers, NaN and infinities), hexadecimal, octal and binary
 * numbers, numbers with zeros in front, tuples without brackets, strings with a prefix or three quotes, and strings
 * written one behind the other. */
#ifndef ENGINE_TEXT_PYLITERAL_H
#define ENGINE_TEXT_PYLITERAL_H
#include "engine/base/buf.h"

enum { PYLITERAL_DEPTH_MAX = 200 };

/* Appends text, one literal of valid UTF-8 without space around it, as JSON. False: it is none; what was appended
 * means nothing. Linear in the text. */
bool pyliteral_to_json(buf *out, str text);
#endif
