/* engine/core/calibrate.h - first times for the cost table, before any request. Made-up tokens do not route like text,
 * so these are shapes only, which real rounds replace. */
#ifndef ENGINE_CORE_CALIBRATE_H
#define ENGINE_CORE_CALIBRATE_H
#include "engine/core/pair.h"
#include "engine/core/width.h"

/* Takes a fifth of a second, more only where three passes of each size take longer. Leaves the sequence in the steps of
 * no meaning: the next user starts with a prompt. */
void calibrate(pair *p, width *w);
#endif
