#include "engine/server/route.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/server/api.h"

/* Paths without the /v1 in front, which every one of them may have. One that ends in a slash takes whatever follows. */
static const struct route {
    const char *path;
    const char *methods; /* for Allow */
    void (*run)(const api_call *call);
    bool is_open; /* needs no key */
} ROUTES[] = {
    { "/chat/completions", "POST", api_chat, false },
    { "/models", "GET, HEAD", api_models, false },
    { "/models/", "GET, HEAD", api_model, false },
    { "/health", "GET, HEAD", api_health, true },
};

/* "/v1/chat/completions/" -> "/chat/completions" */
static str normal_path(str path) {
    while (path.n > 1 && path.p[path.n - 1] == '/') path.n--;
    if (str_starts(path, STR("/v1/"))) path = str_from(path, 3);
    return path;
}

static const struct route *find_route(str path, str *rest) {
    for (size_t i = 0; i < sizeof ROUTES / sizeof *ROUTES; i++) {
        str r = str_of(ROUTES[i].path);
        bool open_end = str_ends(r, STR("/"));
        *rest = open_end && str_starts(path, r) ? str_from(path, r.n) : (str){ "", 0 };
        if (open_end ? rest->n > 0 : str_eq(path, r)) return &ROUTES[i];
    }
    return NULL;
}

/* The client's id when it is short and plain, else one of ours. */
static str request_id(http_exchange *x, char own[40]) {
    str id = http_find_header(x, "x-request-id");
    bool plain = id.n > 0 && id.n <= API_ID_MAX;
    for (size_t i = 0; plain && i < id.n; i++) plain = id.p[i] > ' ' && id.p[i] < 127;
    if (plain) return id;
    api_new_id(own, "req_");
    return str_of(own);
}

/* Errors and streams carry these too: without them a page sees nothing but a failed fetch. */
static void add_cors(const server *sv, http_exchange *x, str origin) {
    if (!auth_origin_listed(&sv->guard, origin)) return;
    http_add_header(x, "Access-Control-Allow-Origin", origin);
    http_add_header(x, "Access-Control-Expose-Headers", STR("x-request-id, x-ignored-params, retry-after"));
    http_add_header(x, "Vary", STR("Origin"));
}

/* OPTIONS carries no key, and its answer must not ask for one. */
static void answer_options(const server *sv, http_exchange *x, str origin, const char *methods) {
    http_add_header(x, "Allow", str_of(methods));
    if (auth_origin_listed(&sv->guard, origin)) {
        str asked = http_find_header(x, "access-control-request-headers");
        http_add_header(x, "Access-Control-Allow-Methods", str_of(methods));
        if (asked.n) http_add_header(x, "Access-Control-Allow-Headers", asked);
        http_add_header(x, "Access-Control-Max-Age", STR("600"));
    }
    http_reply(x, 204, NULL, STR(""));
}

static void refuse(http_exchange *x, int code, const char *message) {
    api_error_reply(x, &(api_error){ .code = code, .message = message });
}

/* Method names are case-sensitive. */
static bool has_method(const char *methods, str method) {
    for (str rest = str_of(methods); rest.n;) {
        const char *comma = memchr(rest.p, ',', rest.n);
        size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
        if (str_eq((str){ rest.p, n }, method)) return true;
        rest = str_from(rest, comma ? n + 2 : n);
    }
    return false;
}

void route_request(server *sv, http_exchange *x) {
    char own[40];
    str origin = http_find_header(x, "origin"), method = http_get_method(x);
    api_call call = { .sv = sv, .x = x, .began_ns = clock_ns(), .request_id = request_id(x, own) };
    log_debug("server", "%.*s %.*s %.*s", STR_ARG(call.request_id), STR_ARG(method), STR_ARG(http_get_path(x)));
    http_add_header(x, "x-request-id", call.request_id);
    add_cors(sv, x, origin);
    if (!auth_host_ok(&sv->guard, http_find_header(x, "host"))) {
        refuse(x, 403, "the Host header names no address of this server (--host-names adds one)");
        return;
    }
    const struct route *r = find_route(normal_path(http_get_path(x)), &call.rest);
    bool is_options = str_eq(method, STR("OPTIONS"));
    if (is_options && (r || str_eq(http_get_path(x), STR("*")))) {
        answer_options(sv, x, origin, r ? r->methods : "GET, HEAD, POST");
        return;
    }
    if (!is_options && !auth_origin_ok(&sv->guard, origin)) {
        refuse(x, 403, "requests from pages of this Origin are not served (--cors-origins lists those that are)");
        return;
    }
    if (!(r && r->is_open) &&
        !auth_key_ok(&sv->guard, http_find_header(x, "authorization"), http_find_header(x, "x-api-key"))) {
        http_add_header(x, "WWW-Authenticate", STR("Bearer"));
        refuse(x, 401, "missing or wrong API key");
        return;
    }
    if (!r) {
        refuse(x, 404, "there is nothing at this path");
        return;
    }
    if (!has_method(r->methods, method)) {
        http_add_header(x, "Allow", str_of(r->methods));
        refuse(x, 405, "this path does not take this method; the Allow header lists those it takes");
        return;
    }
    r->run(&call);
}
