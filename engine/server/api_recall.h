/* engine/server/api_recall.h - what clients do not send back of the server's own answers, or not as it was.
 *
 * Without it an earlier turn is rendered with an empty place where the model thought: the model stops thinking, and the
 * prompt no longer begins like the one that is known. An assistant message that comes without reasoning gets the one
 * that went out with the same call, or with the same content. Arguments that mean the same get the order and the
 * spelling again in which the model wrote them. Bounded; what was heard longest ago goes first. The loop thread's. */
#ifndef ENGINE_SERVER_API_RECALL_H
#define ENGINE_SERVER_API_RECALL_H
#include <jansson.h>
#include "engine/base/buf.h"

typedef struct recall recall;

recall *recall_new(size_t bytes_max);
void recall_free(recall *r); /* NULL is fine */
size_t recall_bytes(const recall *r);

/* An answer went out. call_ids: each with a NUL behind it; none: "". Without reasoning nothing is kept. */
void recall_put(recall *r, str content, str call_ids, str reasoning);
/* A call went out, under this id. */
void recall_put_call(recall *r, str id, str arguments);
/* Puts back what assistant messages lack; returns in how many. messages may be anything. */
int recall_restore(recall *r, json_t *messages);
#endif
