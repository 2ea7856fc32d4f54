/* engine/core/fingerprint.h - one number for all that decides the bits of keys, values and context rows: what was
 * computed under one fingerprint may be used under the same one, and under no other. */
#ifndef ENGINE_CORE_FINGERPRINT_H
#define ENGINE_CORE_FINGERPRINT_H
#include "engine/core/pair.h"

/* Raised by whoever changes a bit of what kernels, target or draft compute: files of remembered conversations from
 * before must not be continued. */
enum { ARITHMETIC_VERSION = 1 };

/* Of a started pair: both configs, names, types and shapes of all tensors, samples of their data, the draft's taps, and
 * how rows are stored. Not of context length, instruction set or threads, which change no bit. Milliseconds for any
 * model: of the many alike tensors of experts only some are looked into. */
uint64_t fingerprint_pair(const pair *p);
#endif
