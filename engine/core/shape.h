/* engine/core/shape.h - the sizes of a pair without its weights: what models of bytes, memory and time work from. */
#ifndef ENGINE_CORE_SHAPE_H
#define ENGINE_CORE_SHAPE_H
#include "draft/weights.h"
#include "target/weights.h"

typedef struct model_shape {
    char name[256], draft_name[256]; /* for messages; where it comes from */
    target_config target;
    draft_config draft;
    bool has_draft;
    dtype experts;                 /* of the target: DT_MXFP4 or DT_BF16 */
    target_weights target_weights; /* sizes and types, no data */
    draft_weights draft_weights;
} model_shape;

/* Laguna S 2.1 and its DFlash draft as their config.json files state them. Sizes only: rotation is left out. */
target_config shape_s21_target(void);
draft_config shape_s21_draft(void);

/* That pair, experts in MXFP4. */
void shape_s21(model_shape *out);
/* From config.json alone; weights need not be there. draft_dir NULL: no draft. ERR_MODEL: a config that cannot be used,
 * a draft of another target, or a quantization_config that is not MXFP4. */
status shape_open(model_shape *out, const char *target_dir, const char *draft_dir, err *e);
void shape_close(model_shape *s); /* a zeroed shape is fine */
#endif
