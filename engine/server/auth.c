#include "engine/server/auth.h"

#include "engine/server/net/wire.h"

#include <arpa/inet.h>
#include <unistd.h>

static bool is_address(str name, int family) {
    char z[64], to[16];
    if (name.n >= sizeof z) return false;
    memcpy(z, name.p, name.n);
    z[name.n] = 0;
    return inet_pton(family, z, to) == 1;
}

/* "[::1]:80" -> "::1", "a.b:80" -> "a.b", "a.b." -> "a.b" */
static str without_port(str host, bool *bracketed) {
    *bracketed = host.n && host.p[0] == '[';
    if (*bracketed) {
        const char *end = memchr(host.p, ']', host.n);
        return end ? (str){ host.p + 1, (size_t)(end - host.p) - 1 } : (str){ "", 0 };
    }
    const char *colon = memchr(host.p, ':', host.n);
    if (colon) host.n = (size_t)(colon - host.p);
    if (host.n && host.p[host.n - 1] == '.') host.n--;
    return host;
}

void auth_init(auth *a, const char *bound, const char *host_names, const char *origins, const char *key) {
    *a = (auth){
        .bound = str_of(bound), .host_names = str_of(host_names), .origins = str_of(origins), .key = str_of(key)
    };
    bool everywhere = str_eq(a->bound, STR("0.0.0.0")) || str_eq(a->bound, STR("::"));
    if (everywhere && gethostname(a->machine, sizeof a->machine - 1) != 0) a->machine[0] = 0;
}

bool auth_host_ok(const auth *a, str host) {
    if (!host.p) return true;
    bool bracketed;
    str name = without_port(host, &bracketed);
    if (bracketed) return is_address(name, AF_INET6);
    if (!name.n) return false; /* equals names that were not given */
    return is_address(name, AF_INET) || wire_name_eq(name, STR("localhost")) || wire_name_eq(name, a->bound) ||
           wire_name_eq(name, str_of(a->machine)) || wire_list_has(a->host_names, name);
}

bool auth_origin_listed(const auth *a, str origin) {
    return origin.p && (str_eq(wire_trim(a->origins), STR("*")) || wire_list_has(a->origins, origin));
}

bool auth_origin_ok(const auth *a, str origin) {
    if (!origin.p || auth_origin_listed(a, origin)) return true;
    if (wire_name_eq(origin, STR("null"))) return false; /* sandboxed frames of any page */
    if (str_starts(origin, STR("http://"))) return auth_host_ok(a, str_from(origin, 7));
    if (str_starts(origin, STR("https://"))) return auth_host_ok(a, str_from(origin, 8));
    return true; /* desktop programs and browser extensions: no web page can claim such a scheme */
}

static bool same_secret(str given, str key) {
    unsigned diff = given.n != key.n;
    for (size_t i = 0; i < given.n; i++) diff |= (unsigned char)given.p[i] ^ (unsigned char)key.p[i % key.n];
    return diff == 0;
}

bool auth_key_ok(const auth *a, str authorization, str api_key) {
    if (!a->key.n) return true;
    if (api_key.p) return same_secret(api_key, a->key);
    str scheme = { authorization.p, authorization.n < 7 ? authorization.n : 7 };
    if (!wire_name_eq(scheme, STR("bearer "))) return false;
    return same_secret(wire_trim(str_from(authorization, 7)), a->key);
}
