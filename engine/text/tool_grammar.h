/* engine/text/tool_grammar.h - a grammar of tool calls, for answers that must be one, in the text format of the models:
 *
 *     <tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value> ... </tool_call>
 *
 * "<tool_call>" and "</tool_call>" are the tokens, the other tags are text. Arguments come in the order in which the
 * tool's schema declares them; the required ones are there, others may be. An argument whose schema says type "string",
 * and nothing else as type, is the text itself; all others are JSON. Both keep the rules of schema.h (for text: enum,
 * const, pattern and lengths), and neither holds "</arg_value>" or "</tool_call>". Properties beyond those declared or
 * required are not written. */
#ifndef ENGINE_TEXT_TOOL_GRAMMAR_H
#define ENGINE_TEXT_TOOL_GRAMMAR_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/status.h"
#include "engine/base/str.h"
#include "engine/text/grammar.h"

typedef struct tool_choice {
    str name;
    const json_t *parameters; /* its schema; NULL or null: no arguments */
} tool_choice;

typedef struct tool_calls {
    const tool_choice *tools; /* one of these is called; for a named one it is the only one */
    size_t n;
    int32_t open, close; /* tokens "<tool_call>" and "</tool_call>" */
    bool lines;          /* line ends behind the name, the tags and the call, as the older models write */
    bool several;        /* more calls may follow the first */
} tool_calls;

/* The schemas may go away afterwards. Errors as for grammar_of_schema, behind the name of the tool; ERR_UNSUPPORTED
 * also for names that the format cannot spell: with "<", line ends, or white space at an end. */
status grammar_of_tools(grammar **out, const tool_calls *calls, err *e);
#endif
