#include "kernels/mxfp4_table.h"

/* BF16 bits of 2^(scale - 127 + up), times 1.5 with `half`. */
#define V(scale, up, half)                                                                                             \
    ((scale) + (up) <= 0 ? 0 : (scale) + (up) >= 255 ? 0x7F80 : ((scale) + (up)) << 7 | ((half) ? 0x40 : 0))
#define HALF_ROW(s, sign)                                                                                              \
    (sign) | 0, (sign) | V(s, -1, 0), (sign) | V(s, 0, 0), (sign) | V(s, 0, 1), (sign) | V(s, 1, 0),                   \
        (sign) | V(s, 1, 1), (sign) | V(s, 2, 0), (sign) | V(s, 2, 1)
#define CODES(s) HALF_ROW(s, 0), HALF_ROW(s, 0x8000)
#define ROW(s)                                                                                                         \
    { CODES(s), CODES(s) }
#define ROWS4(s) ROW(s), ROW((s) + 1), ROW((s) + 2), ROW((s) + 3)
#define ROWS16(s) ROWS4(s), ROWS4((s) + 4), ROWS4((s) + 8), ROWS4((s) + 12)
#define ROWS64(s) ROWS16(s), ROWS16((s) + 16), ROWS16((s) + 32), ROWS16((s) + 48)

_Alignas(64) const bf16 mxfp4_table[256][32] = { ROWS64(0), ROWS64(64), ROWS64(128), ROWS64(192) };
