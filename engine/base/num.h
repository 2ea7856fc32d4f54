/* engine/base/num.h - the lesser and the greater of two numbers, on both sides. Pure. */
#ifndef ENGINE_BASE_NUM_H
#define ENGINE_BASE_NUM_H
#include <stdint.h>
#include "engine/base/hd.h"

HD static inline int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
HD static inline int32_t max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
#endif
