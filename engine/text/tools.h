/* engine/text/tools.h - tools as a request sends them, into what the parser of answers needs to know. */
#ifndef ENGINE_TEXT_TOOLS_H
#define ENGINE_TEXT_TOOLS_H
#include <jansson.h>
#include "engine/engine.h"

enum { TOOL_NAME_MAX = 256 }; /* bytes */

/* `tools`: array of {"type": "function", "function": {"name", "parameters": JSON schema}}. A parameter is a text when
 * its schema's "type" is "string" and nothing else. The result lies in mem. ERR_REQUEST "tools[1].function.name: ...";
 * `param` (may be NULL) takes the path alone. */
status tools_read(arena *mem, const json_t *tools, const reply_tool **out, size_t *n, char param[64], err *e);
#endif
