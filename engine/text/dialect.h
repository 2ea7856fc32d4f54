/* engine/text/dialect.h - regular expressions of tokenizer.json in the words of PCRE2.
 *
 * The files are written for Oniguruma. Most of it means the same in PCRE2; `\s` does not (U+180E), names of scripts do
 * not, the Unicode of the library may be older, and a few constructs look alike and differ. Pure; any thread. */
#ifndef ENGINE_TEXT_DIALECT_H
#define ENGINE_TEXT_DIALECT_H
#include "engine/base/buf.h"
#include "engine/base/status.h"

/* Appends to out a pattern that matches under PCRE2_UTF | PCRE2_UCP what `regex` matches in the reference tokenizer.
 * ERR_MODEL names the construct and its offset when the two engines are not known to agree on it. */
status dialect_translate(buf *out, str regex, err *e);
#endif
