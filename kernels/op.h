/* kernels/op.h - the language in which target and draft describe a step.
 *
 * Forward code calls op_<name>(sink, &(<name>_args){...}). A sink runs the op now (eager) or records it (plan).
 * Arguments hold addresses and bucket constants only: whatever changes between two replays is read through the
 * parameter block (kernels/params.h) while the op runs. Shapes are checked when an op is put, never when it is
 * replayed.
 *
 * Letters used for shapes: R rows, D hidden, H query heads, G kv heads, E head size, W window, X experts, F expert
 * width, V vocabulary, K length of a dot.
 *
 * The arithmetic of every op is fixed to the last bit (kernels/fmath.h, and the text above each argument struct): the
 * result of a row depends on that row's inputs alone, never on the row count, the lanes or the instruction set.
 *
 * Adding an op: 1 ops.def  2 the contract in its family header  3 kernels/op_info.c  4 kernels/ref  5 cases in
 * tests/ops  6 kernels/simd. */
#ifndef KERNELS_OP_H
#define KERNELS_OP_H
#include "kernels/attn.h"
#include "kernels/linear.h"
#include "kernels/moe.h"
#include "kernels/rows.h"
#include "kernels/tap.h"

typedef enum op_id {
#define OP(id, name) OP_##id,
#include "kernels/ops.def"
#undef OP
    OP_COUNT
} op_id;

typedef struct op_sink op_sink;
void op_put(op_sink *s, op_id id, const void *args, size_t bytes); /* graphs/sink.c */

#define OP(id, name)                                                                                                   \
    static inline void op_##name(op_sink *s, const name##_args *a) { op_put(s, OP_##id, a, sizeof *a); }
#include "kernels/ops.def"
#undef OP
#endif
