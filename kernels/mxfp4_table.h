/* kernels/mxfp4_table.h - MXFP4 codes as BF16, one line per scale byte: a permute of this line expands a group, scaling
 * included. Each line has its 16 values twice, so that bit 4 of an index does not matter. Values below the normal range
 * are zero, as the dot counts them. */
#ifndef KERNELS_MXFP4_TABLE_H
#define KERNELS_MXFP4_TABLE_H
#include "engine/base/dtype.h"

extern const bf16 mxfp4_table[256][32];
#endif
