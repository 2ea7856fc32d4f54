/* engine/core/lists_mirror.h - a device's copy of the lists that the choice of a token goes by. The host's are the
 * truth; what it counts between two steps goes over with the next step's parameters, and the step counts it too. Only
 * what cannot be told so (a new request, biases, a long prompt that was taken over) is sent as a whole. */
#ifndef ENGINE_CORE_LISTS_MIRROR_H
#define ENGINE_CORE_LISTS_MIRROR_H
#include "kernels/memory.h"

typedef struct lists_mirror {
    device *on;
    pick_lists *at;   /* on the device */
    pick_lists there; /* its contents, with the device's addresses */
    int32_t vocab;
    bool stale; /* to be sent as a whole */
    int32_t n_news;
    int32_t news[PREFILL_MAX]; /* counted since the last step */
} lists_mirror;

status lists_mirror_open(lists_mirror *out, device *on, int32_t vocab, err *e);
void lists_mirror_close(lists_mirror *m); /* a zeroed one is fine */
void lists_mirror_add(lists_mirror *m, const int32_t *tokens, int32_t n);
/* Before a step: all that `lists` has and the device has not yet, whole or with `in`. */
void lists_mirror_send(lists_mirror *m, const pick_lists *lists, step_in *in);
#endif
