/* tests/simt/cuda_case.h - runs the cases of tests/ops on CUDA launchers over the shim and compares with the reference.
 *
 * Kernels run on the case's own blocks, so guard bands, inputs and dead rows are watched as in tests/ops. A case runs
 * in three orders of threads, on two poisons, with scratch of exactly the promised size: all bits must agree. It runs
 * with rows that are aligned and rows that are not, and row by row: again the same bits. With the reference they are
 * compared element by element, exactly but for the elements of which the op says how close they must be. */
#ifndef TESTS_SIMT_CUDA_CASE_H
#define TESTS_SIMT_CUDA_CASE_H
extern "C" {
#include "tests/ops/case.h"
}
#include "kernels/cuda/launchers.h"

struct cuda_op {
    op_id id;
    void (*run)(const void *args, const cuda_work *w);
    size_t (*scratch)(const void *args); /* nullptr: none */
    /* Brings to `got` what may differ from the `want` of this block, after it was found to be close enough; NULL: all
     * of it must be equal. Returns what is wrong, or nullptr. */
    const char *(*settle)(const tcase *t, const block *b, char *got, const char *want);
    /* Why the backend does not take such a case, or nullptr. nullptr: it takes all. */
    const char *(*refuses)(const tcase *t);
    bool aligned;          /* rows lie aligned, as a step's activations do */
    const int32_t *counts; /* of rows, up to a -1, a prefill chunk aside; nullptr: the usual ones */
};

/* All cases of the lists that have one of these ops; the number of failures, each of which is told unless quiet. */
int cuda_check(const case_list *list, int lists, const cuda_op *op, int ops, const char *pattern, bool quiet);

/* Elements of a block of `type` that are within relative `rel` (and BF16 one step) of what is wanted, plus `abs`. */
const char *cuda_settle_floats(const block *b, char *got, const char *want, float rel, float abs);

/* An op's launcher as a cuda_op has it. */
#define CUDA_RUN(name) [](const void *args, const cuda_work *w) { cuda_##name((const name##_args *)args, w); }
#define CUDA_SCRATCH(name) [](const void *args) { return cuda_scratch_##name((const name##_args *)args); }
#endif
