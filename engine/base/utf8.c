#include "engine/base/utf8.h"

/* Range of the second byte for a lead byte, and the length; length 0 for bytes that cannot lead. */
static size_t lead(unsigned char c, unsigned char *lo, unsigned char *hi) {
    *lo = 0x80, *hi = 0xBF;
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) return 2;
    if (c >= 0xE0 && c <= 0xEF) {
        if (c == 0xE0) *lo = 0xA0;
        if (c == 0xED) *hi = 0x9F;
        return 3;
    }
    if (c >= 0xF0 && c <= 0xF4) {
        if (c == 0xF0) *lo = 0x90;
        if (c == 0xF4) *hi = 0x8F;
        return 4;
    }
    return 0;
}

/* Number of bytes at the start of s that agree with one character, and that character's length. */
static size_t agree(str s, size_t *want) {
    unsigned char lo, hi;
    *want = 0;
    if (!s.n) return 0;
    *want = lead((unsigned char)s.p[0], &lo, &hi);
    size_t i = 1;
    for (; i < *want && i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (i == 1 ? (c < lo || c > hi) : (c < 0x80 || c > 0xBF)) break;
    }
    return i;
}

size_t utf8_char(str s) {
    size_t want, have = agree(s, &want);
    return want && have == want ? want : 0;
}

size_t utf8_decode(str s, uint32_t *cp) {
    size_t n = utf8_char(s);
    const unsigned char *p = (const unsigned char *)s.p;
    switch (n) {
    case 1: *cp = p[0]; break;
    case 2: *cp = (uint32_t)(p[0] & 31) << 6 | (p[1] & 63); break;
    case 3: *cp = (uint32_t)(p[0] & 15) << 12 | (uint32_t)(p[1] & 63) << 6 | (p[2] & 63); break;
    case 4:
        *cp = (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 63) << 12 | (uint32_t)(p[2] & 63) << 6 | (p[3] & 63);
        break;
    default: break;
    }
    return n;
}

size_t utf8_encode(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xC0 | cp >> 6), out[1] = (char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xE0 | cp >> 12), out[1] = (char)(0x80 | (cp >> 6 & 63)), out[2] = (char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | cp >> 18), out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63)), out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

bool utf8_valid(str s) {
    for (size_t i = 0; i < s.n;) {
        size_t n = utf8_char(str_from(s, i));
        if (!n) return false;
        i += n;
    }
    return true;
}

bool utf8_is_prefix(str s) {
    size_t want, have = agree(s, &want);
    return s.n > 0 && want > s.n && have == s.n;
}

size_t utf8_complete(str s) {
    for (size_t tail = 1; tail <= 3 && tail <= s.n; tail++) {
        if (utf8_is_prefix(str_from(s, s.n - tail))) return s.n - tail;
    }
    return s.n;
}
