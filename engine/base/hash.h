/* engine/base/hash.h - XXH64: a checksum of 64 bits over bytes that come in pieces. It finds damage and tells contents
 * apart; it is no protection against somebody who means to deceive.
 *
 * After the published description of the xxHash algorithms (Collet, "xxHash fast digest algorithm", version 0.2.0),
 * words in the order of the machine. About 10 GB/s. */
#ifndef ENGINE_BASE_HASH_H
#define ENGINE_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>

typedef struct hash64 {
    uint64_t lane[4];
    uint64_t bytes;   /* so far */
    uint8_t rest[32]; /* the last bytes % 32 of them wait here for a whole stripe */
} hash64;

hash64 hash64_begin(uint64_t seed);
void hash64_put(hash64 *h, const void *p, size_t n); /* p may be NULL when n is 0 */
uint64_t hash64_end(const hash64 *h);                /* of all bytes so far; more may follow */
uint64_t hash64_of(uint64_t seed, const void *p, size_t n);
#endif
