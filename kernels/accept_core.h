/* kernels/accept_core.h - the walk that accepts proposals. Pure.
 *
 * A proposal is accepted if and only if it is the target's own choice at its parent: this one rule serves greedy and
 * sampled decoding, and a chain is a tree in which every node has one child. */
#ifndef KERNELS_ACCEPT_CORE_H
#define KERNELS_ACCEPT_CORE_H
#include <stdint.h>
#include "engine/base/hd.h"

/* From node 0 on, goes to the first child whose token is the choice of the current node, as long as there is one.
 * Parents come before their children, so one pass forward finds the whole path. `accepted` takes the nodes of the path,
 * 0 included, ascending; returns their number. It needs room for the deepest path. */
HD static inline int32_t accept_walk(int32_t n, const int32_t *parent, const int32_t *token, const int32_t *choice,
                                     int32_t *accepted) {
    int32_t at = 0, count = 0;
    accepted[count++] = 0;
    for (int32_t node = 1; node < n; node++) {
        if (parent[node] != at || token[node] != choice[at]) continue;
        at = node;
        accepted[count++] = node;
    }
    return count;
}
#endif
