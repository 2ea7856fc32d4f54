/* engine/server/api.h - what the endpoints share: their call, error bodies, names.
 *
 * Adding an endpoint: 1 its function here 2 a row in ROUTES of route.c 3 its file api_<name>.c. */
#ifndef ENGINE_SERVER_API_H
#define ENGINE_SERVER_API_H
#include "engine/base/buf.h"
#include "engine/server/jsonw.h"
#include "engine/server/server_int.h"

enum { API_ID_MAX = 128 };

typedef struct api_call {
    server *sv;
    http_exchange *x;
    str request_id; /* as in the x-request-id header of the answer */
    str rest;       /* of the path, behind the slash of a route that ends in one */
    int64_t began_ns;
} api_call;

typedef struct api_error {
    int code;          /* HTTP status */
    const char *type;  /* NULL: follows from code */
    const char *id;    /* "code" member; NULL: null */
    const char *param; /* NULL or "": null */
    const char *message;
    int64_t n_prompt, n_ctx; /* both are written when n_ctx is set */
    int retry_s;             /* Retry-After; 0: none */
} api_error;

void api_error_body(buf *out, const api_error *er);
void api_error_reply(http_exchange *x, const api_error *er);
/* What a status of the text model or the engine means for a client. */
api_error api_error_of(status s, const char *message, const char *param);

bool api_is_ready(const api_call *call);           /* else the exchange has been answered: 503 with the progress */
void api_new_id(char out[40], const char *prefix); /* prefix and 24 random letters and digits */
uint64_t api_random(void);

void api_chat(const api_call *call);
void api_models(const api_call *call);
void api_model(const api_call *call);
void api_health(const api_call *call);
#endif
