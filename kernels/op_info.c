#include "kernels/dispatch.h"
#include "kernels/pick_core.h"

static const struct {
    const char *name;
    size_t args_bytes;
} OPS[OP_COUNT] = {
#define OP(id, name) [OP_##id] = { #name, sizeof(name##_args) },
#include "kernels/ops.def"
#undef OP
};

const char *op_name(op_id id) { return OPS[id].name; }

size_t op_args_bytes(op_id id) { return OPS[id].args_bytes; }

/* --- weights --- */

int64_t weight_bytes(const weight *w) {
    int64_t elements = (int64_t)w->n * w->k;
    return w->type == DT_MXFP4 ? elements / 2 + elements / 32 : elements * 2;
}

static int64_t weights_bytes(const weight *w, int32_t n) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < n; i++) bytes += weight_bytes(&w[i]);
    return bytes;
}

/* Matrices only: norm vectors and biases are lost in the noise. */
int64_t op_weight_bytes(op_id id, const void *args) {
    switch (id) {
    case OP_LINEAR: return weights_bytes(((const linear_args *)args)->part, LINEAR_PARTS);
    case OP_GLU: {
        const glu_args *a = args;
        return weight_bytes(&a->gate) + weight_bytes(&a->up);
    }
    case OP_ROUTE: return weight_bytes(&((const route_args *)args)->w);
    case OP_MOE_UP: {
        const moe_up_args *a = args;
        return weights_bytes(a->gate, a->experts) + weights_bytes(a->up, a->experts) + weight_bytes(&a->shared_gate) +
               weight_bytes(&a->shared_up);
    }
    case OP_MOE_DOWN: {
        const moe_down_args *a = args;
        return weights_bytes(a->down, a->experts) + weight_bytes(&a->shared_down);
    }
    default: return 0;
    }
}

/* --- scratch --- */

/* Every lane has its own; a backend takes what it needs from the front, and none may need more than this. */
enum {
    SCRATCH_SLACK = 64 * 1024,    /* alignment, a few heads, partial tiles */
    SCRATCH_ROW = 256,            /* bytes a live row: addresses, results of a panel of columns */
    SCRATCH_ATTN_ROWS = 64,       /* queries that attention may work on at once */
    SCRATCH_ATTN_WIDE = 80,       /* rows of E4M3 that it has as BF16 at once */
    SCRATCH_PARTIALS = 64 * 1024, /* FP32 partial results of expert sums */
    SCRATCH_GROUPINGS = 4,        /* int32 arrays over all (row, expert) pairs, and over the experts */
};

static size_t padded(int32_t k) { return ((size_t)k + 63) / 64 * 64; }

/* Live rows, with a norm as BF16 copies, and two rows of weights expanded to BF16. */
static size_t scratch_product(const live_rows *rows, int32_t k, bool normed) {
    size_t row = padded(k) * sizeof(bf16);
    return (size_t)rows->max * (SCRATCH_ROW + (normed ? row : 0)) + 2 * row;
}

static size_t scratch_grouping(const live_rows *rows, int32_t k, int32_t experts) {
    return SCRATCH_GROUPINGS * ((size_t)rows->max * ((size_t)k + 1) + (size_t)experts + 1) * sizeof(int32_t);
}

/* At least 16 columns for every (row, expert) pair. */
static size_t scratch_partials(const live_rows *rows, int32_t k) {
    size_t least = (size_t)rows->max * ((size_t)k + 1) * 16;
    return (least > SCRATCH_PARTIALS ? least : SCRATCH_PARTIALS) * sizeof(float);
}

/* Scores of a block, values and two running results per query; keys or values gathered along a path, and some rows
 * widened to BF16. */
static size_t scratch_attn(const attn_args *a) {
    size_t size = padded(a->past.size);
    bool widened = a->past.type != DT_BF16 || (a->block.k && a->block.type != DT_BF16);
    return SCRATCH_ATTN_ROWS * ((size_t)KV_PAGE + 3 * size + 64) * sizeof(float) +
           (NODES_MAX + (widened ? SCRATCH_ATTN_WIDE : 0)) * size * sizeof(bf16);
}

static size_t scratch_of(op_id id, const void *args) {
    switch (id) {
    case OP_LINEAR: {
        const linear_args *a = args;
        return scratch_product(&a->rows, a->x.cols, a->norm != NULL);
    }
    case OP_GLU: {
        const glu_args *a = args;
        return scratch_product(&a->rows, a->x.cols, true);
    }
    case OP_ROUTE: {
        const route_args *a = args;
        size_t biased = padded(a->w.n + 16) * sizeof(float), product = scratch_product(&a->rows, a->x.cols, true);
        return biased > product ? biased : product;
    }
    case OP_MOE_UP: {
        const moe_up_args *a = args;
        return scratch_product(&a->rows, a->x.cols, true) + scratch_grouping(&a->rows, a->id.cols, a->experts);
    }
    case OP_MOE_DOWN: {
        const moe_down_args *a = args;
        return scratch_product(&a->rows, a->h.cols, false) + scratch_grouping(&a->rows, a->id.cols, a->experts) +
               scratch_partials(&a->rows, a->id.cols);
    }
    case OP_QKV_STORE: return padded(((const qkv_store_args *)args)->kv.size) * sizeof(float);
    case OP_CTX_STORE: return padded(((const ctx_store_args *)args)->ring.size) * sizeof(float);
    case OP_ATTN: return scratch_attn(args);
    case OP_TAP_NORM: return padded(((const tap_norm_args *)args)->ring.cols) * sizeof(float);
    case OP_TOPK: return padded(((const topk_args *)args)->id.cols) * sizeof(pick_cand);
    case OP_PICK: {
        int32_t vocab = ((const pick_args *)args)->logits.cols;
        return pick_work_bytes(vocab) + padded(vocab) * sizeof(float); /* and a row of adjusted logits */
    }
    default: return 0;
    }
}

size_t op_lane_scratch(op_id id, const void *args, int lanes) {
    (void)lanes; /* no op divides its working memory among the lanes */
    return scratch_of(id, args) + SCRATCH_SLACK;
}
