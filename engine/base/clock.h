/* engine/base/clock.h - monotonic time in nanoseconds. */
#ifndef ENGINE_BASE_CLOCK_H
#define ENGINE_BASE_CLOCK_H
#include <stdint.h>

int64_t clock_ns(void);
static inline double clock_ms(int64_t ns) { return (double)ns * 1e-6; }
#endif
