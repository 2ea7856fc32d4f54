/* engine/server/api_pick.h - the request members about how tokens are chosen and what is told about them. */
#ifndef ENGINE_SERVER_API_PICK_H
#define ENGINE_SERVER_API_PICK_H
#include "engine/server/api_read.h"

/* Fills pick (but for the bias list, which goes to p->bias) and logprobs; p->pick holds the defaults and p->max_new has
 * been read. A seed of -1 stays: the caller draws one. */
status api_pick_read(api_reader *r, api_params *p, int32_t vocab);
#endif
