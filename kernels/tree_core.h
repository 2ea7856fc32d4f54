/* kernels/tree_core.h - growing the rows of a verify pass. Pure; touches the row set and nothing else.
 *
 * Node 0 is the anchor, nodes are numbered as they are added, so parents come first. A node's position is base + depth;
 * path[node][d] is the node at depth d on the way from the anchor to it, itself included. That is all attention needs
 * to find the one key of every position (kernels/params.h). */
#ifndef KERNELS_TREE_CORE_H
#define KERNELS_TREE_CORE_H
#include <string.h>
#include "kernels/params.h"

static inline int32_t tree_depth(const row_set *t, int32_t node) { return t->pos[node] - t->base; }

/* Makes t the anchor alone. */
static inline void tree_begin(row_set *t, int32_t base, int32_t anchor) {
    t->n = 1;
    t->base = base;
    t->chain = 1;
    t->token[0] = anchor;
    t->pos[0] = base;
    t->parent[0] = -1;
    t->path[0][0] = 0;
}

/* Adds a child and returns its node, or -1 when there is no room for another node or another depth. */
static inline int32_t tree_add(row_set *t, int32_t parent, int32_t token) {
    int32_t node = t->n, depth = tree_depth(t, parent) + 1;
    if (node == NODES_MAX || depth > DEPTH_MAX) return -1;
    t->token[node] = token;
    t->pos[node] = t->base + depth;
    t->parent[node] = parent;
    memcpy(t->path[node], t->path[parent], (size_t)depth);
    t->path[node][depth] = (uint8_t)node;
    if (parent != node - 1) t->chain = 0;
    t->n++;
    return node;
}
#endif
