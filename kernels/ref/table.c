#include "kernels/ref/ref.h"

op_fn *const ref_table[OP_COUNT] = {
#define OP(id, name) [OP_##id] = ref_##name,
#include "kernels/ops.def"
#undef OP
};
