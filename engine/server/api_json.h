/* engine/server/api_json.h - JSON of requests, with numbers that jansson alone refuses.
 *
 * A schema may say "maximum": 18446744073709551615. Integers beyond 64 bits become reals here; who needs their spelling
 * finds it in the text (chat_request.source). Pure; any thread. */
#ifndef ENGINE_SERVER_API_JSON_H
#define ENGINE_SERVER_API_JSON_H
#include <jansson.h>
#include "engine/base/str.h"

/* json_loadb with JSON_ALLOW_NUL. NULL: *why says what is wrong, lines and columns are those of the text. */
json_t *api_json_load(str text, json_error_t *why);
#endif
