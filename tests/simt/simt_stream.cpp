/* tests/simt/simt_stream.cpp - streams, events, capture, graphs. A stream does at once what it is asked to, or writes
 * it down while it captures. */
#include <algorithm>
#include <memory>
#include "tests/simt/simt_int.h"

using namespace simt;

/* One piece of work. */
struct CUgraphNode_st {
    simt_node_kind kind;
    simt_launch_args launch; /* of a kernel; its image is `bytes` */
    /* Of the others, where a fill has a value instead of a source. */
    struct rows {
        char *to;
        const char *from;
        uint64_t to_pitch, from_pitch, width, height;
        uint64_t value;
    } rows;
    std::vector<unsigned char> bytes; /* the kernel's arguments */
};
typedef CUgraphNode_st node;

struct CUgraph_st {
    std::vector<std::unique_ptr<node>> nodes;
};

struct CUgraphExec_st {
    std::vector<std::unique_ptr<node>> nodes;
    std::vector<const simt_launch_args *> launches; /* of each kernel node in turn */
};

struct CUstream_st {
    std::unique_ptr<CUgraph_st> recording; /* while it captures */
    bool spoilt;                           /* the capture, by a call that it does not allow */
    const void *thread;                    /* that began the capture */
};

struct CUevent_st {
    bool recorded, captured;
    int64_t ns;
};

namespace simt {

static std::vector<cudaGraphExec_t> execs; /* that live, the oldest first */
static thread_local cudaStream_t capturing;

cudaError_t capture_forbids(void) {
    if (!capturing) return cudaSuccess;
    capturing->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
}

static void rows_run(const node &n) {
    guard_open();
    for (uint64_t i = 0; i < n.rows.height; i++) {
        char *to = n.rows.to + i * n.rows.to_pitch;
        if (n.kind == SIMT_NODE_COPY)
            memcpy(to, n.rows.from + i * n.rows.from_pitch, n.rows.width);
        else
            memset(to, (int)n.rows.value, n.rows.width);
    }
    guard_close();
    if (n.kind == SIMT_NODE_COPY)
        totals.memcpys++;
    else
        totals.memsets++;
}

/* Does the work, or records it. */
static cudaError_t stream_take(cudaStream_t s, std::unique_ptr<node> n) {
    if (s && s->spoilt) return cudaErrorStreamCaptureInvalidated;
    if (s && s->recording) {
        n->launch.image = n->bytes.data();
        s->recording->nodes.push_back(std::move(n));
    } else {
        rows_run(*n);
    }
    return cudaSuccess;
}

static cudaError_t rows_take(cudaStream_t s, simt_node_kind kind, const struct node::rows &rows) {
    auto n = std::make_unique<node>();
    n->kind = kind;
    n->rows = rows;
    return rows.width && rows.height ? stream_take(s, std::move(n)) : cudaSuccess;
}

static uint64_t rows_span(uint64_t pitch, uint64_t width, uint64_t height) {
    return height && width ? pitch * (height - 1) + width : 0;
}

static cudaError_t copy_take(const char *api, cudaStream_t s, const struct node::rows &r, cudaMemcpyKind kind,
                             bool waits) {
    entry call(api);
    if (call.error) return call.error;
    cudaError_t e = waits ? capture_forbids() : cudaSuccess;
    uint64_t to = rows_span(r.to_pitch, r.width, r.height), from = rows_span(r.from_pitch, r.width, r.height);
    if (!e && (r.to_pitch < r.width || r.from_pitch < r.width)) e = cudaErrorInvalidValue;
    if (!e) e = copy_check(r.to, r.from, std::max(to, from), kind);
    return call.done(e ? e : rows_take(s, SIMT_NODE_COPY, r));
}

static cudaError_t fill_take(const char *api, cudaStream_t s, void *p, int value, size_t n, bool waits) {
    entry call(api);
    if (call.error) return call.error;
    cudaError_t e = waits ? capture_forbids() : fill_check(p, n);
    if (!e) e = fill_check(p, n);
    struct node::rows r = { (char *)p, nullptr, n, 0, n, 1, (unsigned char)value };
    return call.done(e ? e : rows_take(s, SIMT_NODE_FILL, r));
}

/* Kernels in a row go together, so that they can overlap. */
static void graph_run(const CUgraphExec_st *x) {
    guard_open();
    const simt_launch_args *const *next = x->launches.data();
    for (size_t i = 0, n; i < x->nodes.size(); i += n) {
        for (n = 0; i + n < x->nodes.size() && x->nodes[i + n]->kind == SIMT_NODE_KERNEL;) n++;
        if (n)
            kernels_run(next, n);
        else
            rows_run(*x->nodes[i]);
        next += n;
        if (!n) n = 1;
    }
    guard_close();
}

static std::unique_ptr<node> node_copy(const node &from) {
    auto n = std::make_unique<node>(from);
    n->launch.image = n->bytes.data();
    return n;
}

static cudaError_t stream_new(const char *api, cudaStream_t *s) {
    entry call(api);
    if (call.error) return call.error;
    *s = new CUstream_st();
    return cudaSuccess;
}

static cudaError_t event_new(const char *api, cudaEvent_t *e) {
    entry call(api);
    if (call.error) return call.error;
    *e = new CUevent_st();
    return cudaSuccess;
}

/* Waiting for a stream or an event. */
static cudaError_t wait_check(cudaStream_t s) {
    totals.syncs++;
    if (!s || !s->recording) return cudaSuccess;
    s->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
}

static cudaError_t event_check(const char *api, cudaEvent_t e) {
    entry call(api);
    if (call.error) return call.error;
    if (!e) return call.done(cudaErrorInvalidResourceHandle);
    return call.done(e->captured ? cudaErrorCapturedEvent : cudaSuccess);
}

} // namespace simt

void simt_launch_image(cudaStream_t s, const simt_launch_args *a) {
    entry call("cudaLaunchKernel");
    cudaError_t e = call.error ? call.error : launch_check(a);
    if (!e && s && s->spoilt) e = cudaErrorStreamCaptureInvalidated;
    if (call.done(e)) return;
    if (!s || !s->recording) {
        kernels_run(&a, 1);
        return;
    }
    auto n = std::make_unique<node>();
    n->kind = SIMT_NODE_KERNEL;
    n->launch = *a;
    n->bytes.assign(a->image, a->image + a->image_bytes);
    stream_take(s, std::move(n));
}

extern "C" {

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind kind) {
    return copy_take("cudaMemcpy", nullptr, { (char *)to, (const char *)from, n, n, n, 1, 0 }, kind, true);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s) {
    return copy_take("cudaMemcpyAsync", s, { (char *)to, (const char *)from, n, n, n, 1, 0 }, kind, false);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t s) {
    return copy_take("cudaMemcpy2DAsync", s, { (char *)to, (const char *)from, to_pitch, from_pitch, width, height, 0 },
                     kind, false);
}
cudaError_t cudaMemset(void *p, int value, size_t n) { return fill_take("cudaMemset", nullptr, p, value, n, true); }
cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s) {
    return fill_take("cudaMemsetAsync", s, p, value, n, false);
}

cudaError_t cudaStreamCreate(cudaStream_t *s) { return stream_new("cudaStreamCreate", s); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned) { return stream_new("cudaStreamCreateWithFlags", s); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    entry call("cudaStreamDestroy");
    if (!s) return call.done(cudaErrorInvalidResourceHandle);
    if (capturing == s) capturing = nullptr;
    delete s;
    return call.error;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    entry call("cudaStreamSynchronize");
    return call.error ? call.error : call.done(wait_check(s));
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
    entry call("cudaStreamQuery");
    return call.error ? call.error : call.done(wait_check(s));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t e, unsigned) { return event_check("cudaStreamWaitEvent", e); }

cudaError_t cudaEventCreate(cudaEvent_t *e) { return event_new("cudaEventCreate", e); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned) { return event_new("cudaEventCreateWithFlags", e); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    entry call("cudaEventDestroy");
    if (!e) return call.done(cudaErrorInvalidResourceHandle);
    delete e;
    return call.error;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    entry call("cudaEventRecord");
    if (call.error) return call.error;
    if (!e) return call.done(cudaErrorInvalidResourceHandle);
    *e = { true, s && s->recording, simt_clock_ns() };
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    totals.syncs++;
    return event_check("cudaEventSynchronize", e);
}
cudaError_t cudaEventQuery(cudaEvent_t e) { return event_check("cudaEventQuery", e); }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    entry call("cudaEventElapsedTime");
    if (call.error) return call.error;
    if (!from || !to || !from->recorded || !to->recorded || from->captured || to->captured)
        return call.done(cudaErrorInvalidResourceHandle);
    *ms = (float)((double)(to->ns - from->ns) * 1e-6);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode) {
    entry call("cudaStreamBeginCapture");
    if (call.error) return call.error;
    if (!s) return call.done(cudaErrorStreamCaptureImplicit);
    if (s->recording || capturing) return call.done(cudaErrorIllegalState);
    s->recording = std::make_unique<CUgraph_st>();
    s->spoilt = false;
    capturing = s;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g) {
    entry call("cudaStreamEndCapture");
    *g = nullptr;
    if (!s || !s->recording) return call.done(call.error ? call.error : cudaErrorIllegalState);
    if (capturing != s) return call.done(cudaErrorStreamCaptureWrongThread);
    bool spoilt = s->spoilt || call.error;
    auto made = std::move(s->recording);
    s->spoilt = false;
    capturing = nullptr;
    if (spoilt) return call.done(call.error ? call.error : cudaErrorStreamCaptureInvalidated);
    *g = made.release();
    totals.captures++;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status) {
    entry call("cudaStreamIsCapturing");
    *status = !s || !s->recording ? cudaStreamCaptureStatusNone
              : s->spoilt         ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
    return call.error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long) {
    entry call("cudaGraphInstantiate");
    if (call.error) return call.error;
    if (!x || !g) return call.done(cudaErrorInvalidValue);
    auto made = std::make_unique<CUgraphExec_st>();
    for (const auto &n : g->nodes) {
        made->nodes.push_back(node_copy(*n));
        if (n->kind == SIMT_NODE_KERNEL) made->launches.push_back(&made->nodes.back()->launch);
    }
    *x = made.release();
    execs.push_back(*x);
    return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t x, cudaStream_t) {
    entry call("cudaGraphUpload");
    return call.error ? call.error : call.done(x ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s) {
    entry call("cudaGraphLaunch");
    if (call.error) return call.error;
    if (!x) return call.done(cudaErrorInvalidValue);
    if (s && s->recording) {
        s->spoilt = true; /* graphs in graphs are not modelled */
        return call.done(cudaErrorStreamCaptureUnsupported);
    }
    totals.graph_launches++;
    graph_run(x);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x) {
    entry call("cudaGraphExecDestroy");
    if (!x) return call.done(cudaErrorInvalidValue);
    execs.erase(std::find(execs.begin(), execs.end(), x));
    delete x;
    return call.error;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
    entry call("cudaGraphDestroy");
    if (!g) return call.done(cudaErrorInvalidValue);
    delete g;
    return call.error;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n) {
    entry call("cudaGraphGetNodes");
    if (call.error) return call.error;
    if (!g) return call.done(cudaErrorInvalidValue);
    for (size_t i = 0; nodes && i < *n && i < g->nodes.size(); i++) nodes[i] = g->nodes[i].get();
    if (!nodes || *n > g->nodes.size()) *n = g->nodes.size();
    return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t n, enum cudaGraphNodeType *type) {
    entry call("cudaGraphNodeGetType");
    *type = (enum cudaGraphNodeType)n->kind;
    return call.error;
}

size_t simt_graph_list(const void **out, size_t max) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    for (size_t i = 0; i < execs.size() && i < max; i++) out[i] = execs[i];
    return execs.size();
}
size_t simt_graph_size(const void *exec) { return ((const CUgraphExec_st *)exec)->nodes.size(); }

simt_node_view simt_graph_node(const void *exec, size_t index) {
    const node &n = *((const CUgraphExec_st *)exec)->nodes[index];
    if (n.kind != SIMT_NODE_KERNEL)
        return { n.kind,
                 n.kind == SIMT_NODE_COPY ? "memcpy" : "memset",
                 0,
                 0,
                 0,
                 0,
                 false,
                 (const unsigned char *)&n.rows,
                 sizeof n.rows };
    const simt_launch_args &a = n.launch;
    return { n.kind, a.name, a.x, a.y, a.threads, a.shared, a.overlap, n.bytes.data(), n.bytes.size() };
}

static bool node_same(const simt_node_view &a, const simt_node_view &b) {
    return a.kind == b.kind && !strcmp(a.name, b.name) && a.x == b.x && a.y == b.y && a.threads == b.threads &&
           a.shared == b.shared && a.overlap == b.overlap && a.arg_bytes == b.arg_bytes &&
           (a.arg_bytes == 0 || !memcmp(a.args, b.args, a.arg_bytes));
}

long simt_graph_difference(const void *a, const void *b) {
    size_t n = std::min(simt_graph_size(a), simt_graph_size(b));
    for (size_t i = 0; i < n; i++)
        if (!node_same(simt_graph_node(a, i), simt_graph_node(b, i))) return (long)i;
    return simt_graph_size(a) == simt_graph_size(b) ? -1 : (long)n;
}

} // extern "C"
