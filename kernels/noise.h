/* kernels/noise.h - the noise that makes sampling exact under speculation: a pure function of seed, position and token.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Counter
 * (token / 4, position low, position high, 0), key (seed low, seed high); word token % 4 belongs to the token.
 * u = (word / 512 + 0.5) * 2^-23 is exact in FP32 and never 0 or 1; g = -ln(-ln u) is Gumbel noise, at most 16.64.
 * argmax of y + g over a set is an exact draw from softmax(y) on that set. */
#ifndef KERNELS_NOISE_H
#define KERNELS_NOISE_H
#include <stdint.h>
#include "kernels/fmath.h"

HD static inline void philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p = (uint64_t)0xD2511F53u * c0, q = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(q >> 32) ^ c1 ^ k0, c1 = (uint32_t)q;
        c2 = (uint32_t)(p >> 32) ^ c3 ^ k1, c3 = (uint32_t)p;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The words of tokens token & ~3 to token | 3. */
HD static inline void noise_block(uint64_t seed, int64_t position, int32_t token, uint32_t word[4]) {
    uint32_t counter[4] = { (uint32_t)token >> 2, (uint32_t)position, (uint32_t)((uint64_t)position >> 32), 0 };
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    philox4x32_10(counter, key, word);
}

HD static inline uint32_t noise_word(uint64_t seed, int64_t position, int32_t token) {
    uint32_t word[4];
    noise_block(seed, position, token, word);
    return word[token & 3];
}

HD static inline float noise_uniform(uint32_t word) { return ((float)(word >> 9) + 0.5f) * 0x1p-23f; }

HD static inline float noise_of_word(uint32_t word) { return (float)-fm_log_d(-fm_log_d((double)noise_uniform(word))); }

HD static inline float noise_gumbel(uint64_t seed, int64_t position, int32_t token) {
    return noise_of_word(noise_word(seed, position, token));
}
#endif
