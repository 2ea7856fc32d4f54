/* The table of one instruction set. Where vectors bring nothing the reference serves, with the reason. */
#include "kernels/ref/ref.h"
#include "kernels/simd/simd.h"

#define SCALAR(name) ref_##name

op_fn *const SIMD_PASTE(simd_table, SIMD_ISA)[OP_COUNT] = {
    [OP_BEGIN] = SCALAR(begin), /* a few integers */
    [OP_EMBED] = SIMD(embed),         [OP_ROPE] = SIMD(rope),       [OP_NORM] = SIMD(norm),
    [OP_LINEAR] = SIMD(linear),       [OP_GLU] = SIMD(glu),         [OP_QKV_STORE] = SIMD(qkv_store),
    [OP_ATTN] = SIMD(attn),           [OP_ROUTE] = SIMD(route),     [OP_MOE_UP] = SIMD(moe_up),
    [OP_MOE_DOWN] = SIMD(moe_down),   [OP_TAP] = SIMD(tap),         [OP_TAP_NORM] = SIMD(tap_norm),
    [OP_CTX_STORE] = SIMD(ctx_store), [OP_TOPK] = SIMD(topk),       [OP_TREE] = SCALAR(tree), /* a few integers */
    [OP_PICK] = SIMD(pick),           [OP_ACCEPT] = SCALAR(accept),                           /* a few integers */
    [OP_KV_MOVE] = SCALAR(kv_move),                                                           /* memcpy */
    [OP_STAMP] = SCALAR(stamp),                                                               /* a clock */
};
