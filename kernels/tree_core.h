/* kernels/tree_core.h - growing the rows of a verify pass. Pure; touches the row set and nothing else.
 *
 * Node 0 is the anchor, nodes are numbered as they are added, so parents come first. A node's position is base + depth;
 * path[node][d] is the node at depth d on the way from the anchor to it, itself included. That is all attention needs
 * to find the one key of every position (kernels/params.h). */
#ifndef KERNELS_TREE_CORE_H
#define KERNELS_TREE_CORE_H
#include <stdbool.h>
#include <string.h>
#include "kernels/fmath.h"
#include "kernels/params.h"

HD static inline int32_t tree_depth(const row_set *t, int32_t node) { return t->pos[node] - t->base; }

/* Makes t the anchor alone. */
HD static inline void tree_begin(row_set *t, int32_t base, int32_t anchor) {
    t->n = 1;
    t->base = base;
    t->chain = 1;
    t->token[0] = anchor;
    t->pos[0] = base;
    t->parent[0] = -1;
    t->path[0][0] = 0;
}

/* Adds a child and returns its node, or -1 when there is no room for another node or another depth. */
HD static inline int32_t tree_add(row_set *t, int32_t parent, int32_t token) {
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

/* Classes of a candidate's own probability p: floor(-4 log2(1 - p)), at most CONF_CLASSES - 1, from 1/16 off certainty
 * on. Fine where it matters, near 1. */
HD static inline int32_t tree_conf(float logp) {
    /* log(1 - 2^(-i / 4)), i = 1 .. 15 */
    static const float FROM[CONF_CLASSES - 1] = { -1.838200f, -1.227947f, -0.902890f, -0.693147f, -0.545500f,
                                                  -0.436265f, -0.352828f, -0.287682f, -0.236006f, -0.194528f,
                                                  -0.160933f, -0.133531f, -0.111057f, -0.092541f, -0.077233f };
    int32_t c = 0;
    while (c < CONF_CLASSES - 1 && logp >= FROM[c]) c++;
    return c;
}

/* Candidates of the draft: for depth d (from 1) the ranks 0 .. width - 1, best first, at [(d - 1) * stride + rank].
 * conf (may be NULL): log-probability by class that is taken instead of a candidate's own. */
typedef struct tree_candidates {
    const int32_t *token;
    const float *logp;
    int32_t depth, width, token_stride, logp_stride;
    const float *conf;
} tree_candidates;

/* A chain that was found elsewhere; logp of the whole path up to each token. */
typedef struct tree_given {
    const int32_t *token;
    const float *logp;
    int32_t n;
} tree_given;

/* A node that could be added below this parent: the candidate of this rank, or the given chain's next token. */
typedef struct tree_offer {
    float score; /* sum of log-probabilities from the anchor */
    float above; /* the parent's, as its proposer sees it */
    int32_t depth, rank, parent;
    uint8_t source;
} tree_offer;

HD static inline int tree_offer_better(const tree_offer *a, const tree_offer *b) {
    if (a->score != b->score) return a->score > b->score;
    if (a->depth != b->depth) return a->depth < b->depth;
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->parent < b->parent;
}

HD static inline float tree_own_logp(const tree_candidates *c, int32_t depth, int32_t rank) {
    return c->logp[(depth - 1) * c->logp_stride + rank];
}

HD static inline tree_offer tree_candidate(const tree_candidates *c, int32_t depth, int32_t rank, int32_t parent,
                                           float above) {
    float own = tree_own_logp(c, depth, rank);
    return (tree_offer){ above + (c->conf ? c->conf[tree_conf(own)] : own), above, depth, rank, parent, NODE_DRAFT };
}

HD static inline int32_t tree_find_child(const row_set *t, int32_t parent, int32_t token) {
    for (int32_t i = parent + 1; i < t->n; i++)
        if (t->parent[i] == parent && t->token[i] == token) return i;
    return -1;
}

/* Best-first growth (DDTree, arXiv 2604.12989): adds the `budget` most probable prefixes to the anchor in t, most
 * probable first; a draft row's candidates do not depend on the path, so a path's probability is the product of its
 * candidates'. Equal scores: smaller depth, smaller rank, earlier parent. With one candidate per depth this is the
 * chain. The given chain's tokens stand in the same queue with their own scores; a token that stands there already is
 * that node: it takes nothing from the budget, and both proposers go on below it. note [NODES_MAX] takes what is known
 * of each node. c, given: depth 0 and n 0 for none. */
HD static inline void tree_grow(row_set *t, const tree_candidates *c, const tree_given *given, int32_t budget,
                                node_note *note) {
    /* each offer that is taken brings at most two of the draft's, or one of the chain's */
    tree_offer offer[NODES_MAX + DEPTH_MAX + 2];
    int32_t n = 0;
    note[0] = (node_note){ 0 };
    if (c->depth > 0 && c->width > 0) offer[n++] = tree_candidate(c, 1, 0, 0, 0.0f);
    if (given->n > 0) offer[n++] = (tree_offer){ given->logp[0], 0.0f, 1, 0, 0, NODE_GIVEN };
    while (n > 0) {
        int32_t best = 0;
        for (int32_t i = 1; i < n; i++)
            if (tree_offer_better(&offer[i], &offer[best])) best = i;
        tree_offer o = offer[best];
        offer[best] = offer[--n];
        bool drafted = o.source == NODE_DRAFT;
        int32_t token = drafted ? c->token[(o.depth - 1) * c->token_stride + o.rank] : given->token[o.depth - 1];
        int32_t node = tree_find_child(t, o.parent, token);
        if (node < 0) {
            if (budget-- <= 0) return;
            node = tree_add(t, o.parent, token);
            if (node < 0) return;
            note[node] = (node_note){ .score = o.score, .parent = (uint8_t)o.parent };
        }
        note[node].source |= o.source;
        if (drafted) note[node].conf = (uint8_t)tree_conf(tree_own_logp(c, o.depth, o.rank));
        if (drafted && o.rank + 1 < c->width) offer[n++] = tree_candidate(c, o.depth, o.rank + 1, o.parent, o.above);
        if (drafted && o.depth < c->depth) offer[n++] = tree_candidate(c, o.depth + 1, 0, node, o.score);
        if (!drafted && o.depth < given->n)
            offer[n++] = (tree_offer){ given->logp[o.depth], o.score, o.depth + 1, 0, node, NODE_GIVEN };
    }
}

/* Cuts t to the first nodes that are worth their rows: those that make the sum of probabilities less cost[rows] largest
 * (kernels/params.h, step_in), at least `least` of them if there are as many, none below min_logp. */
HD static inline void tree_cut(row_set *t, const node_note *note, const float *cost, int32_t least, float min_logp) {
    int32_t keep = 0;
    float sum = 0.0f, best = -cost[1];
    for (int32_t i = 1; i < t->n && (note[i].score >= min_logp || i <= least); i++) {
        sum += fm_exp(note[i].score);
        if (i > least && sum - cost[i + 1] < best) continue;
        keep = i, best = sum - cost[i + 1];
    }
    t->n = keep + 1;
    t->chain = 1;
    for (int32_t i = 1; i < t->n; i++)
        if (t->parent[i] != i - 1) t->chain = 0;
}
#endif
