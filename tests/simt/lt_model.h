/* tests/simt/lt_model.h - what stands behind kernels/cuda/lt.h over the shim: plain products in FP32, added up in
 * falling order, so that a result can be told from that of every other kernel here, but is as good. Process-wide. */
#ifndef TESTS_SIMT_LT_MODEL_H
#define TESTS_SIMT_LT_MODEL_H
#include "engine/base/hd.h"

typedef enum lt_model_fault {
    LT_MODEL_RIGHT,
    LT_MODEL_SHORT,   /* the last element of every dot is left out */
    LT_MODEL_SHIFTED, /* columns change places with their neighbours */
    LT_MODEL_NO_ADD,  /* nothing is added */
    LT_MODEL_NO_ALGORITHM,
    LT_MODEL_NO_START, /* a product cannot be put on the stream */
} lt_model_fault;

C_BEGIN
void lt_model_set(lt_model_fault fault);
int lt_model_plans(void);    /* chosen and not freed */
int lt_model_products(void); /* put on a stream so far */
C_END
#endif
