/* Ops on their way to the stream, and steps as captured graphs. */
#include "kernels/cuda/device_int.h"
#include "kernels/cuda/fast.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/launchers_attn.h"
#include "kernels/dispatch.h"

#include <string.h>

#include <new>

/* --- one op, or two, one launch --- */

/* Whether an op can take the next one into its launch: keys and values are made where attention needs them, and taps
 * where the residual rows are made. */
static bool may_wait(op_id id) { return id == OP_QKV_STORE || id == OP_LINEAR || id == OP_MOE_DOWN; }

static bool same_rows(const view *a, const view *b) { return a->data == b->data && a->stride == b->stride; }

static bool belongs(op_id first, const void *a, op_id second, const void *b) {
    if (first == OP_QKV_STORE) return second == OP_ATTN;
    if (second != OP_TAP) return false;
    const view *x = &((const tap_args *)b)->x;
    return first == OP_LINEAR ? same_rows(&((const linear_args *)a)->y, x)
                              : same_rows(&((const moe_down_args *)a)->x, x);
}

static bool is_fast(const cuda_work *w, op_id id, const void *a) { return w->fast && fast_takes(id, a); }

static void launch_both(const cuda_work *w, op_id first, const void *a, const void *b) {
    if (first == OP_QKV_STORE)
        cuda_attention((const qkv_store_args *)a, (const attn_args *)b, w);
    else if (is_fast(w, first, a))
        fast_put(first, a, w), cuda_tap((const tap_args *)b, w);
    else if (first == OP_LINEAR)
        cuda_linear((const linear_args *)a, (const tap_args *)b, w);
    else
        cuda_moe_down((const moe_down_args *)a, (const tap_args *)b, w);
}

static void launch_one(const cuda_work *w, op_id id, const void *a) {
    if (is_fast(w, id, a)) {
        fast_put(id, a, w);
        return;
    }
    switch (id) {
    case OP_BEGIN: cuda_begin((const begin_args *)a, w); return;
    case OP_EMBED: cuda_embed((const embed_args *)a, w); return;
    case OP_ROPE: cuda_rope((const rope_args *)a, w); return;
    case OP_NORM: cuda_norm((const norm_args *)a, w); return;
    case OP_LINEAR: cuda_linear((const linear_args *)a, nullptr, w); return;
    case OP_GLU: cuda_glu((const glu_args *)a, w); return;
    case OP_ROUTE: cuda_route((const route_args *)a, w); return;
    case OP_MOE_UP: cuda_moe_up((const moe_up_args *)a, w); return;
    case OP_MOE_DOWN: cuda_moe_down((const moe_down_args *)a, nullptr, w); return;
    case OP_TAP: cuda_tap((const tap_args *)a, w); return;
    case OP_TAP_NORM: cuda_tap_norm((const tap_norm_args *)a, w); return;
    case OP_CTX_STORE: cuda_ctx_store((const ctx_store_args *)a, w); return;
    case OP_TOPK: cuda_topk((const topk_args *)a, w); return;
    case OP_TREE: cuda_tree((const tree_args *)a, w); return;
    case OP_PICK: cuda_pick((const pick_args *)a, w); return;
    case OP_ACCEPT: cuda_accept((const accept_args *)a, w); return;
    case OP_KV_MOVE: cuda_kv_move((const kv_move_args *)a, w); return;
    case OP_STAMP: cuda_stamp((const stamp_args *)a, w); return;
    case OP_QKV_STORE: /* attention comes right behind it, always */
    case OP_ATTN:
    case OP_COUNT: break;
    }
    CHECK(!"an op that has no launch of its own");
}

void device_put_op(device *d, op_id id, const void *args) {
    if (d->broken != cudaSuccess) return;
    if (d->pending && belongs(d->pending_id, d->pending_args, id, args)) {
        d->pending = false;
        launch_both(&d->work, d->pending_id, d->pending_args, args);
        return;
    }
    device_flush(d);
    if (!may_wait(id)) {
        launch_one(&d->work, id, args);
        return;
    }
    CHECK(op_args_bytes(id) <= sizeof d->pending_args);
    memcpy(d->pending_args, args, op_args_bytes(id));
    d->pending_id = id;
    d->pending = true;
}

void device_flush(device *d) {
    if (!d->pending) return;
    d->pending = false;
    launch_one(&d->work, d->pending_id, d->pending_args);
}

size_t device_op_scratch(device *d, op_id id, const void *args) {
    if (is_fast(&d->work, id, args)) return fast_prepare(d->work.fast, id, args);
    switch (id) {
    case OP_LINEAR: return cuda_scratch_linear((const linear_args *)args);
    case OP_GLU: return cuda_scratch_glu((const glu_args *)args);
    case OP_ROUTE: return cuda_scratch_route((const route_args *)args);
    case OP_MOE_UP: return cuda_scratch_moe_up((const moe_up_args *)args);
    case OP_MOE_DOWN: return cuda_scratch_moe_down((const moe_down_args *)args);
    case OP_ATTN: return cuda_scratch_attention((const attn_args *)args);
    case OP_TOPK: return cuda_scratch_topk((const topk_args *)args);
    case OP_PICK: return cuda_scratch_pick((const pick_args *)args);
    default: return 0;
    }
}

bool device_supports_heads(int32_t size, int32_t share) { return cuda_attention_supports(size, share); }

/* --- fast products --- */

status device_open_fast(device *d, err *e) { return d->fast ? OK : fast_open(&d->fast, e); }

bool device_has_fast(const device *d) { return d->fast != nullptr; }

void device_set_fast(device *d, bool on) {
    CHECK(d->fast || !on);
    device_flush(d);
    d->work.fast = on ? d->fast : nullptr;
}

/* What fast products could not do; OK where there are none. */
static status fast_failure(const device *d, err *e) { return d->work.fast ? fast_status(d->work.fast, e) : OK; }

status device_reserve_scratch(device *d, size_t bytes, err *e) {
    if (bytes <= d->work.scratch_bytes) return OK;
    void *p;
    TRY(device_alloc(d, &p, bytes, "working memory of the kernels", e));
    CHECK(d->n_retired < RETIRED_MAX);
    d->retired[d->n_retired++] = d->work.scratch;
    d->work.scratch = (char *)p, d->work.scratch_bytes = bytes;
    return OK;
}

/* --- steps --- */

struct device_graph {
    cudaGraphExec_t exec;
    step_params *host;
    device *on;
    int32_t launches;
};

static void send_in(device *d, step_params *at, step_params *host) {
    device_check(d, cudaMemcpyAsync(&at->in, &host->in, sizeof at->in, cudaMemcpyHostToDevice, d->stream),
                 "sending a step's parameters");
}

/* The address on the device of the host's record; the host's block is shared memory. */
static step_out *record_of(device *d, step_params *host) {
    void *there = nullptr;
    device_check(d, cudaHostGetDevicePointer(&there, host, 0), "finding the result record");
    return &((step_params *)there)->out;
}

void device_begin_eager(device *d, step_params *at, step_params *host) {
    d->work.host_out = record_of(d, host);
    send_in(d, at, host);
    d->at = at;
}

void device_end_eager(device *d) {
    device_flush(d);
    if (d->broken == cudaSuccess) cuda_publish(d->at, &d->work);
    device_check(d, cudaGetLastError(), "launching a step");
    if (fast_failure(d, nullptr) != OK) device_check(d, cudaErrorUnknown, "multiplying with cuBLASLt");
    device_wait(d);
}

status device_capture(device *d, step_params *at, step_params *host, err *e) {
    TRY(device_status(d, e));
    TRY(fast_failure(d, e));
    d->work.host_out = record_of(d, host);
    d->at = at, d->host = host;
    cudaError_t rc = cudaStreamSynchronize(d->stream);
    /* Relaxed: the first launch of a kernel, here or in cuBLASLt, may load its code, which other modes may refuse. */
    if (rc == cudaSuccess) rc = cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeRelaxed);
    if (rc != cudaSuccess) return device_error(rc, "recording a step", e);
    send_in(d, at, host);
    return OK;
}

/* Kernels of a captured graph: all its nodes but the copy of the parameters. */
static cudaError_t count_launches(cudaGraph_t graph, int32_t *launches) {
    size_t nodes = 0;
    cudaError_t rc = cudaGraphGetNodes(graph, nullptr, &nodes);
    *launches = (int32_t)nodes - 1;
    return rc;
}

status device_end_capture(device *d, device_graph **out, err *e) {
    device_flush(d);
    cuda_publish(d->at, &d->work);
    cudaGraph_t graph = nullptr;
    cudaError_t launched = cudaGetLastError(), rc = cudaStreamEndCapture(d->stream, &graph);
    if (launched != cudaSuccess) rc = launched;
    device_graph *g = new (std::nothrow) device_graph();
    CHECK(g != nullptr);
    g->host = d->host, g->on = d;
    if (rc == cudaSuccess) rc = count_launches(graph, &g->launches);
    if (rc == cudaSuccess) rc = cudaGraphInstantiate(&g->exec, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    status s = fast_failure(d, e);
    if (s == OK && rc != cudaSuccess) s = device_error(rc, "recording a step", e);
    if (s != OK) {
        if (g->exec) cudaGraphExecDestroy(g->exec);
        delete g;
        return s;
    }
    *out = g;
    return OK;
}

void device_free_graph(device_graph *g) {
    if (!g) return;
    device_wait(g->on);
    cudaGraphExecDestroy(g->exec);
    delete g;
}

cudaError_t device_graph_launch(const device_graph *g, cudaStream_t stream) { return cudaGraphLaunch(g->exec, stream); }

int32_t device_graph_launches(const device_graph *g) { return g->launches; }

enum { POLLS = 4096 }; /* looks at the record between two questions whether the stream is still well */

/* The kernel that publishes stores seq last, so the record is whole when it is there. */
void device_start(device *d, const device_graph *g) {
    if (d->broken == cudaSuccess) device_check(d, cudaGraphLaunch(g->exec, d->stream), "starting a step");
}

void device_finish(device *d, const device_graph *g) {
    if (d->broken != cudaSuccess) return;
    const uint32_t *seq = &g->host->out.seq, want = g->host->in.seq;
    for (uint32_t polls = 1; __atomic_load_n(seq, __ATOMIC_ACQUIRE) != want; polls++) {
        __builtin_ia32_pause();
        if (polls % POLLS) continue;
        cudaError_t rc = cudaStreamQuery(d->stream);
        if (rc == cudaErrorNotReady) {
            cudaGetLastError(); /* the runtime keeps this answer like an error, for whoever asks after a launch */
            continue;
        }
        if (!device_check(d, rc, "running a step")) return;
        if (__atomic_load_n(seq, __ATOMIC_ACQUIRE) == want) return;
        device_check(d, cudaErrorUnknown, "waiting for the result of a step");
        return;
    }
}
