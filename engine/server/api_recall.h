/* engine/server/api_recall.h - the reasoning of the server's own answers, for clients that do not send it back.
 *
 * Without it an earlier turn is rendered with an empty place where the model thought: the model stops thinking, and the
 * prompt no longer begins like the one that is known. An assistant message that comes without reasoning gets the one
 * that went out with the same call, or with the same content. Bounded; what was heard longest ago goes first. The loop
 * thread's. */
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
/* Puts reasoning into those assistant messages that lack it; returns how many. messages may be anything. */
int recall_restore(recall *r, json_t *messages);
#endif
