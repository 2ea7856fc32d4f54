/* engine/text/pattern.h - regular expressions of JSON schemas as deterministic automata over the bytes of a string.
 *
 * The dialect is that of ECMA 262 as far as it is regular: alternation, groups (also named and non-capturing), classes,
 * quantifiers (the lazy ones too), "." and \d \w \s \D \W \S with their ASCII meaning, escapes of single characters,
 * and
 * "^" and "$" at the ends of the alternatives of the whole expression. An expression that is not anchored may match
 * anywhere. Everything else (look-around, back references, \b, \p) is refused. Constant once made, any thread. */
#ifndef ENGINE_TEXT_PATTERN_H
#define ENGINE_TEXT_PATTERN_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/status.h"
#include "engine/base/str.h"
#include "engine/text/grammar_body.h"

enum { PATTERN_STATES_MAX = 1 << 13 };

typedef struct pattern pattern;

/* mode: how the string is spelled; JSON strings without their quotes. min, max: code points that the string may have,
 * max < 0: no maximum. ERR_UNSUPPORTED names the construct and its offset, ERR_REQUEST what is no expression. An
 * automaton that accepts nothing is made all the same. */
status pattern_new(pattern **out, str regex, body_mode mode, int64_t min, int64_t max, err *e);
void pattern_free(pattern *p); /* NULL is fine */

uint32_t pattern_states(const pattern *p); /* how many; memory and the time that it took go by them */
/* States are small numbers; 0: no accepted string begins like this. */
uint32_t pattern_start(const pattern *p);
uint32_t pattern_step(const pattern *p, uint32_t state, uint8_t byte);
bool pattern_accepts(const pattern *p, uint32_t state);
#endif
