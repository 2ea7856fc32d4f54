/* engine/server/auth.h - who may talk to the server: Host, Origin, key. Pure; views are borrowed from the options. */
#ifndef ENGINE_SERVER_AUTH_H
#define ENGINE_SERVER_AUTH_H
#include <stdbool.h>
#include "engine/base/str.h"

typedef struct auth {
    str bound;         /* the --host value */
    str host_names;    /* comma-separated; p NULL: none */
    str origins;       /* comma-separated or "*"; p NULL: none */
    str key;           /* p NULL: none is asked for */
    char machine[256]; /* name of this machine when bound to all addresses, else "" */
} auth;

void auth_init(auth *a, const char *bound, const char *host_names, const char *origins, const char *key);

/* A page of a foreign site can make a name of its own resolve to this machine (DNS rebinding), but it cannot make its
 * requests carry another name: the Host must be an address, localhost, or a name we were given. Ports do not matter,
 * they change in tunnels. An absent Host (HTTP/1.0, p NULL) passes. */
bool auth_host_ok(const auth *a, str host);

/* May requests with this Origin be served? Absent, listed, of a local page, or not of a web page at all. */
bool auth_origin_ok(const auth *a, str origin);
/* Is the Origin on the list, so that the browser may show the answer to the page? */
bool auth_origin_listed(const auth *a, str origin);

/* Takes "Bearer K" of Authorization, or x-api-key. Time depends on lengths only. */
bool auth_key_ok(const auth *a, str authorization, str api_key);
#endif
