/* kernels/dispatch.h - the implementations of the ops: one table per instruction set, chosen once before any op runs.
 */
#ifndef KERNELS_DISPATCH_H
#define KERNELS_DISPATCH_H
#include "kernels/op.h"
#include "kernels/pool.h"

C_BEGIN
/* Every lane calls the function and does its share. */
typedef void op_fn(const void *args, const lane *ln);

typedef enum isa { ISA_REF, ISA_AVX2, ISA_AVX512, ISA_AVX512BF16, ISA_COUNT } isa;

const char *isa_name(isa i);
bool isa_find(const char *name, isa *out); /* by name */
bool isa_usable(isa i);                    /* on this processor */
isa isa_best(void);

op_fn *const *op_table(isa i); /* [OP_COUNT], no empty entries */

/* kernels/op_info.c: what is known of an op without running it. */
typedef struct span {
    const void *data;
    int64_t bytes;
    bool write;
} span;
enum { SPANS_MAX = 24 };

const char *op_name(op_id id);
size_t op_args_bytes(op_id id);
void op_check(op_id id, const void *args); /* shapes; a wrong one is a bug: CHECK */
int op_spans(op_id id, const void *args,
             span out[SPANS_MAX]); /* memory that is read or written; weights are left out */
size_t op_lane_scratch(op_id id, const void *args, int lanes); /* bytes each lane needs */
int64_t op_weight_bytes(op_id id, const void *args);           /* weights read by one run; experts: all of them */
C_END
#endif
