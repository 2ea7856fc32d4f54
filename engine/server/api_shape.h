/* engine/server/api_shape.h - request members that say what an answer must be: tools, tool_choice, response_format, and
 * the names that other servers have for a schema.
 *
 * Read here: shape and place of the members. What a schema asks for is judged when it becomes a grammar. */
#ifndef ENGINE_SERVER_API_SHAPE_H
#define ENGINE_SERVER_API_SHAPE_H
#include "engine/server/api_read.h"

/* p->tools, no_calls, one_call, shape. */
status api_shape_read(api_reader *r, api_params *p);
#endif
