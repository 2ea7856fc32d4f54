/* kernels/ref/ref.h - the reference backend: every op in plain loops, following its contract and fmath.h to the letter.
 * It defines the right answer and is never optimised; the other backends are compared with it bit for bit. An op that
 * moves little and has nothing to gain from vectors may be used by them as it is. */
#ifndef KERNELS_REF_REF_H
#define KERNELS_REF_REF_H
#include "kernels/dispatch.h"

extern op_fn *const ref_table[OP_COUNT];

#define OP(id, name) void ref_##name(const void *args, const lane *ln);
#include "kernels/ops.def"
#undef OP
#endif
