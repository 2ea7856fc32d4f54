/* Four lanes each take every fourth word of 8 bytes; a stripe is one word for each. At the end the lanes are folded
 * into one number, the bytes that fill no stripe are mixed in, and the bits are spread. */
#include "engine/base/hash.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;
enum { STRIPE = 32 };

static uint64_t rotl(uint64_t v, int n) { return v << n | v >> (64 - n); }
static uint64_t mix(uint64_t acc, uint64_t word) { return rotl(acc + word * P2, 31) * P1; }

static uint64_t word64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint32_t word32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

hash64 hash64_begin(uint64_t seed) { return (hash64){ .lane = { seed + P1 + P2, seed + P2, seed, seed - P1 } }; }

/* Whole stripes; the lanes stay in registers. */
static void stripes(hash64 *h, const uint8_t *p, size_t n) {
    uint64_t a = h->lane[0], b = h->lane[1], c = h->lane[2], d = h->lane[3];
    for (; n; n--, p += STRIPE) {
        a = mix(a, word64(p));
        b = mix(b, word64(p + 8));
        c = mix(c, word64(p + 16));
        d = mix(d, word64(p + 24));
    }
    h->lane[0] = a, h->lane[1] = b, h->lane[2] = c, h->lane[3] = d;
}

void hash64_put(hash64 *h, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    size_t have = h->bytes % STRIPE;
    if (n == 0) return;
    h->bytes += n;
    if (have) {
        size_t take = n < STRIPE - have ? n : STRIPE - have;
        memcpy(h->rest + have, p, take);
        if (have + take < STRIPE) return;
        stripes(h, h->rest, 1);
        p += take, n -= take;
    }
    stripes(h, p, n / STRIPE);
    memcpy(h->rest, p + n / STRIPE * STRIPE, n % STRIPE);
}

static uint64_t fold(const hash64 *h) {
    if (h->bytes < STRIPE) return h->lane[2] + P5; /* no stripe yet: lane 2 is the seed */
    uint64_t acc = rotl(h->lane[0], 1) + rotl(h->lane[1], 7) + rotl(h->lane[2], 12) + rotl(h->lane[3], 18);
    for (int i = 0; i < 4; i++) acc = (acc ^ mix(0, h->lane[i])) * P1 + P4;
    return acc;
}

uint64_t hash64_end(const hash64 *h) {
    uint64_t acc = fold(h) + h->bytes;
    const uint8_t *p = h->rest;
    size_t n = h->bytes % STRIPE;
    for (; n >= 8; n -= 8, p += 8) acc = rotl(acc ^ mix(0, word64(p)), 27) * P1 + P4;
    for (; n >= 4; n -= 4, p += 4) acc = rotl(acc ^ word32(p) * P1, 23) * P2 + P3;
    for (; n; n--, p++) acc = rotl(acc ^ *p * P5, 11) * P1;
    acc = (acc ^ acc >> 33) * P2;
    acc = (acc ^ acc >> 29) * P3;
    return acc ^ acc >> 32;
}

uint64_t hash64_of(uint64_t seed, const void *p, size_t n) {
    hash64 h = hash64_begin(seed);
    hash64_put(&h, p, n);
    return hash64_end(&h);
}
