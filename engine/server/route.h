/* engine/server/route.h - from a request to its endpoint: who may, which path, which method. */
#ifndef ENGINE_SERVER_ROUTE_H
#define ENGINE_SERVER_ROUTE_H
#include "engine/server/server_int.h"

void route_request(server *sv, http_exchange *x); /* the exchange is answered now or by its endpoint later */
#endif
