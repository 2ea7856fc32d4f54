/* engine/base/str.h - a borrowed run of bytes. Not NUL-terminated; the owner is whoever the contract of the holder
 * names. */
#ifndef ENGINE_BASE_STR_H
#define ENGINE_BASE_STR_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct str {
    const char *p;
    size_t n;
} str;

#define STR(lit) ((str){ "" lit, sizeof(lit) - 1 })
#define STR_ARG(s) (int)(s).n, (s).p /* for "%.*s" */

static inline str str_of(const char *z) { return (str){ z, z ? strlen(z) : 0 }; }
static inline bool str_eq(str a, str b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
/* By bytes, which is the order of code points in UTF-8: -1, 0, 1. A text comes behind its own beginnings. */
static inline int str_order(str a, str b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? (c > 0) - (c < 0) : (a.n > b.n) - (a.n < b.n);
}
static inline bool str_starts(str s, str head) { return s.n >= head.n && memcmp(s.p, head.p, head.n) == 0; }
static inline bool str_ends(str s, str tail) {
    return s.n >= tail.n && memcmp(s.p + s.n - tail.n, tail.p, tail.n) == 0;
}
static inline str str_from(str s, size_t at) { return (str){ s.p + at, s.n - at }; }
#endif
