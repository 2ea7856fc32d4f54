/* engine/text/grammar.h - what a constrained answer may look like, as an automaton over bytes.
 *
 * A grammar is made once for a request (schema.h, tool_grammar.h) and constant afterwards; any thread may read it.
 * grammar_run.h walks it, token_mask.h turns its states into sets of tokens.
 *
 * What every grammar promises:
 * - From each state that can be reached a complete text can be reached: there are no dead ends.
 * - White space between the parts of a JSON text is one of: nothing, one space, one line end, one line end with at most
 *   GRAMMAR_INDENT spaces, or with at most GRAMMAR_TABS tabs. It may stand behind "{", "[", "," and ":", and before "}"
 *   and "]"; nowhere else, not around the text either. So nothing can go on for ever without adding content.
 * - Arrays and objects are nested at most GRAMMAR_DEPTH deep.
 * - Strings are valid UTF-8. They may use every escape of JSON but \u of surrogates. Keys, members of enumerations and
 *   strings with a pattern have one spelling: \" \\ \b \f \n \r \t, \u00xx for other control characters, the rest as
 * is.
 * - Numbers have at most 18 digits before the point, 18 behind it, and 2 in the exponent. */
#ifndef ENGINE_TEXT_GRAMMAR_H
#define ENGINE_TEXT_GRAMMAR_H
#include <stdint.h>

enum { GRAMMAR_DEPTH = 128, GRAMMAR_INDENT = 64, GRAMMAR_TABS = 16 };

typedef struct grammar grammar;

grammar *grammar_any_object(void); /* any JSON object */
void grammar_free(grammar *g);     /* NULL is fine */
#endif
