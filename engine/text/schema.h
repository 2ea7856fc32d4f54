/* engine/text/schema.h - from a JSON schema (draft 2020-12, and what older drafts spell differently) to a grammar.
 *
 * Every text of the grammar is valid under the schema. The reverse does not hold: texts have one form.
 *
 * keyword                                   what becomes of it
 * type (also lists), nullable               as they say; nullable adds null to the type beside it
 * enum, const                               the values, strings and numbers in one spelling
 * properties, required                      properties come in the order in which the schema declares them
 * additionalProperties                      others come last, their keys without escapes; none unless it is there, or
 *                                           there are no properties: an object that declares properties has no others
 * minProperties, maxProperties              when properties and required imply them
 * items, prefixItems, additionalItems,      as they say; prefixItems without items: no further ones
 * minItems, maxItems
 * minLength, maxLength                      in code points
 * pattern                                   see pattern.h; one for a string
 * minimum, maximum, exclusive*              of integers up to 10^18; of numbers up to 10^9, which then have at most 6
 *                                           digits behind the point
 * multipleOf                                1
 * anyOf, allOf                              together with everything beside them
 * oneOf                                     as anyOf, when it can be seen that no value is in two of its alternatives:
 * by type, by enum or const, by the bounds of numbers, or by a property that one of the two requires and both declare
 * $ref                                      "#" and "#/...", also back to what contains it
 * uniqueItems                               false
 *
 * Without type and enum, keywords that only mean something for some types say which type is meant: {"properties": ...}
 * is an object. format, title, description, default, examples and everything unknown change nothing. What would, and is
 * not in this list (not, if, patternProperties, propertyNames, dependent*, contains, unevaluated*, ...), is refused. */
#ifndef ENGINE_TEXT_SCHEMA_H
#define ENGINE_TEXT_SCHEMA_H
#include <jansson.h>
#include "engine/base/status.h"
#include "engine/text/grammar.h"

/* The schema may go away afterwards. Messages name the keyword and the place as a JSON pointer. ERR_UNSUPPORTED: not
 * offered, or too large; ERR_REQUEST: no schema, or nothing is valid under it. Time and memory are bounded. */
status grammar_of_schema(grammar **out, const json_t *schema, err *e);
#endif
