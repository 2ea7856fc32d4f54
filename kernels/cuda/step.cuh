/* kernels/cuda/step.cuh - the kernels that only turn the parameter block: one block each, the text of
 * kernels/step_core.h shared out among its threads. What has to be followed from one to the next is first brought to
 * shared memory. */
#ifndef KERNELS_CUDA_STEP_CUH
#define KERNELS_CUDA_STEP_CUH
#include "kernels/cuda/prims.cuh"
#include "kernels/step_core.h"

enum { STEP_THREADS = 256 };

__device__ __forceinline__ step_share step_thread() {
    step_share w = { (int32_t)threadIdx.x, (int32_t)blockDim.x };
    return w;
}

/* For structs of whole words. */
template <class T> __device__ __forceinline__ void copy_words(T *to, const T *from) {
    constexpr size_t bytes = sizeof(T);
    step_copy((int32_t *)to, (const int32_t *)from, (int32_t)(bytes / sizeof(int32_t)), step_thread());
}

/* --- begin --- */

struct begin_shared {
    int32_t token[PREFILL_MAX];
    int32_t fresh[PREFILL_MAX]; /* 1: the first of its kind that was ever counted */
};

/* What pick_lists_count does, a thread per token: the first of equal ones stands for all, and new ones go to `seen` in
 * the order in which they come. */
__device__ __forceinline__ void count_tokens(const step_in *in, pick_lists *l, int32_t n) {
    begin_shared *s = (begin_shared *)shared_memory();
    int32_t me = (int32_t)threadIdx.x, before = 0, times = 0;
    if (me < n) s->token[me] = in->counted[me];
    block_sync();
    if (me < n) {
        int32_t token = s->token[me];
        for (int32_t i = 0; i < n; i++) {
            times += s->token[i] == token;
            before += i < me && s->token[i] == token;
        }
        int32_t held = before == 0 ? l->count[token] : 1;
        s->fresh[me] = held == 0;
        if (before == 0) l->count[token] = held + times;
    }
    block_sync();
    int32_t seen = l->n_seen, rank = 0, all = 0;
    for (int32_t i = 0; i < n; i++) {
        all += s->fresh[i];
        rank += i < me ? s->fresh[i] : 0;
    }
    if (me < n && s->fresh[me]) l->seen[seen + rank] = s->token[me];
    block_sync();
    if (me == 0) l->n_seen = seen + all;
}

__global__ void begin_kernel(begin_args a) {
    grid_wait();
    grid_release();
    const step_in *in = &a.p->in;
    begin_plan b = begin_plan_of(&a);
    int32_t n = a.lists ? step_bound(in->n_counted, 0, PREFILL_MAX, &b.fault, FAULT_BEGIN) : 0;
    block_sync(); /* everything is read */
    begin_write(&a, &b, step_thread());
    if (n > 0) count_tokens(in, a.lists, n);
}

/* --- tree --- */

enum { TREE_SHARED_WIDTH = 8 }; /* wider rows of candidates stay where they are */

struct tree_shared {
    step_in in;
    row_set rows;
    node_note note[NODES_MAX];
    int32_t token[DEPTH_MAX * (int)TREE_SHARED_WIDTH];
    float logp[DEPTH_MAX * (int)TREE_SHARED_WIDTH];
    int32_t fault;
};

/* Candidates to shared memory, depth by depth without gaps. */
__device__ __forceinline__ void take_candidates(tree_candidates *c, tree_shared *s) {
    if (c->width > TREE_SHARED_WIDTH) return;
    for (int32_t i = (int32_t)threadIdx.x; i < c->depth * c->width; i += (int32_t)blockDim.x) {
        int32_t d = i / c->width, rank = i % c->width;
        s->token[i] = c->token[d * c->token_stride + rank];
        s->logp[i] = c->logp[d * c->logp_stride + rank];
    }
    c->token = s->token;
    c->logp = s->logp;
    c->token_stride = c->logp_stride = c->width;
}

__global__ void tree_kernel(tree_args a) {
    grid_wait();
    grid_release();
    tree_shared *s = (tree_shared *)shared_memory();
    step_state *st = &a.p->st;
    int32_t fault = FAULT_NONE, base = st->base, anchor = st->anchor, ctx_rows = st->ctx.n, depth = st->draft_head_n;
    tree_candidates c = tree_candidates_of(&a, &a.p->in, depth, &fault);
    take_candidates(&c, s);
    copy_words(&s->in, &a.p->in);
    copy_words(&s->rows, &st->rows); /* what no node is written to stays as it is */
    copy_words(&s->note, &st->note);
    block_sync();
    if (threadIdx.x == 0) {
        if (c.conf) c.conf = s->in.conf;
        tree_begin(&s->rows, base, anchor);
        tree_rows(&s->in, &c, a.rows_max, &s->rows, s->note, &fault);
        if (fault) a.p->out.fault = fault;
        st->head_first = 0;
        st->head_n = s->rows.n;
    }
    block_sync();
    copy_words(&st->rows, &s->rows);
    copy_words(&st->note, &s->note);
    tell_nodes(&a.p->out, &s->rows, s->note, &c, ctx_rows, step_thread());
}

/* --- accept --- */

struct accept_shared {
    int32_t parent[NODES_MAX], token[NODES_MAX], choice[NODES_MAX];
    int32_t accepted[NODES_MAX];
    int32_t n;
};

__global__ void accept_kernel(accept_args a) {
    grid_wait();
    grid_release();
    accept_shared *s = (accept_shared *)shared_memory();
    step_params *p = a.p;
    bool walk = a.kind == STEP_PLAIN || a.kind == STEP_ROUND;
    int32_t fault = FAULT_NONE, me = (int32_t)threadIdx.x, n = p->st.rows.n;
    if (walk) n = step_bound(n, 1, NODES_MAX, &fault, FAULT_ACCEPT);
    if (walk && me < n) {
        s->parent[me] = p->st.rows.parent[me];
        s->token[me] = p->st.rows.token[me];
        s->choice[me] = p->st.choice[me];
    }
    block_sync();
    if (me == 0) s->n = walk ? accept_walk(n, s->parent, s->token, s->choice, s->accepted) : 0;
    block_sync();
    accept_write(&a, s->accepted, s->n, step_thread());
    if (me) return;
    if (fault) p->out.fault = fault;
    p->out.seq = p->in.seq;
}

/* --- stamp, publish --- */

__global__ void stamp_kernel(stamp_args a) {
    grid_wait();
    grid_release();
    if (threadIdx.x == 0) a.p->out.stamp[a.which] = clock_device_ns();
}

/* The host waits for seq, so it comes behind a fence. */
__global__ void publish_kernel(const step_params *p, step_out *to) {
    static_assert(offsetof(step_out, seq) + sizeof(uint2) == sizeof(step_out), "seq is alone in the last eight bytes");
    grid_wait();
    grid_release();
    for (size_t at = threadIdx.x * sizeof(uint2); at < offsetof(step_out, seq); at += blockDim.x * sizeof(uint2))
        *(uint2 *)((char *)to + at) = load8((const char *)&p->out + at);
    fence_system();
    block_sync();
    if (threadIdx.x == 0) store_system(&to->seq, p->out.seq);
}
#endif
