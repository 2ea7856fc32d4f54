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

/* Candidates of the draft: for depth d (from 1) the ranks 0 .. width - 1, best first, at [(d - 1) * stride + rank]. */
typedef struct tree_candidates {
    const int32_t *token;
    const float *logp;
    int32_t depth, width, token_stride, logp_stride;
} tree_candidates;

/* A node that could be added: the candidate of this rank below this parent. */
typedef struct tree_offer {
    float score; /* sum of log-probabilities from the anchor */
    int32_t depth, rank, parent;
} tree_offer;

static inline int tree_offer_better(const tree_offer *a, const tree_offer *b) {
    if (a->score != b->score) return a->score > b->score;
    if (a->depth != b->depth) return a->depth < b->depth;
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->parent < b->parent;
}

/* Best-first growth (DDTree, arXiv 2604.12989): adds the `budget` most probable prefixes to the anchor in t, most
 * probable first; a draft row's candidates do not depend on the path, so a path's probability is the product of its
 * candidates'. Equal scores: smaller depth, smaller rank, earlier parent. With one candidate per depth this is the
 * chain. score[node] (may be NULL) takes the sums. */
static inline void tree_grow(row_set *t, const tree_candidates *c, int32_t budget, float *score) {
    /* each node that is added takes one offer away and brings at most two */
    tree_offer offer[NODES_MAX + 1];
    float sum[NODES_MAX];
    int32_t n = 0;
    sum[0] = 0.0f;
    if (c->depth > 0 && c->width > 0) offer[n++] = (tree_offer){ c->logp[0], 1, 0, 0 };
    while (budget-- > 0 && n > 0) {
        int32_t best = 0;
        for (int32_t i = 1; i < n; i++)
            if (tree_offer_better(&offer[i], &offer[best])) best = i;
        tree_offer o = offer[best];
        offer[best] = offer[--n];
        int32_t node = tree_add(t, o.parent, c->token[(o.depth - 1) * c->token_stride + o.rank]);
        if (node < 0) return;
        sum[node] = o.score;
        if (score) score[node] = o.score;
        if (o.rank + 1 < c->width)
            offer[n++] = (tree_offer){ sum[o.parent] + c->logp[(o.depth - 1) * c->logp_stride + o.rank + 1], o.depth,
                                       o.rank + 1, o.parent };
        if (o.depth < c->depth)
            offer[n++] = (tree_offer){ o.score + c->logp[o.depth * c->logp_stride], o.depth + 1, 0, node };
    }
}
#endif
