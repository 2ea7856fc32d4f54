/* engine/core/pick_lists.h - the host's side of kernels/params.h's pick_lists: what the choice of a token has to know
 * of single tokens. Written between steps only. */
#ifndef ENGINE_CORE_PICK_LISTS_H
#define ENGINE_CORE_PICK_LISTS_H
#include <stddef.h>
#include "kernels/params.h"

void pick_lists_init(pick_lists *l, int32_t vocab); /* nothing counted, no bias, no end tokens */
void pick_lists_deinit(pick_lists *l);              /* a zeroed one is fine */

/* Forgets counts and biases, in the time that as many tokens took to count; end tokens belong to the model and stay. */
void pick_lists_clear(pick_lists *l);
void pick_lists_count(pick_lists *l, const int32_t *tokens, int32_t n);

void pick_lists_add_bias(pick_lists *l, int32_t token, float value); /* at most PICK_BIAS_MAX */
void pick_lists_add_end(pick_lists *l, int32_t token);               /* each once */
#endif
