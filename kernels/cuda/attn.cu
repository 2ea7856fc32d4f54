#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/launchers_attn.h"

extern "C" {
#include "engine/base/status.h"
}

constexpr int HEAD_MAX = 128, SHARE_MAX = ATTN_WARPS * TILE;

bool cuda_attention_supports(int32_t size, int32_t share) {
    return size >= 1 && size <= HEAD_MAX && share >= 1 && share <= SHARE_MAX;
}

static int32_t padded(int32_t size) { return size <= 32 ? 32 : size <= 64 ? 64 : 128; }

/* Rows of one launch. */
static int32_t launch_rows(const attn_args *a) { return a->rows_max < ATTN_ROWS ? a->rows_max : ATTN_ROWS; }

size_t cuda_scratch_attention(const attn_args *a) {
    return (size_t)launch_rows(a) * RUNS_MAX * (size_t)a->heads * (size_t)(padded(a->past.size) + 4) * sizeof(float);
}

/* Blocks that share the runs of a group: as many as the largest number of spans, whatever the position. */
static int32_t lanes_for(const attn_args *a, int32_t group_rows) {
    if (a->window == 0) return RUNS_MAX;
    int32_t run = attention_run(a->window, 0), units = (a->window - 1 + group_rows - 1) / UNIT + 2;
    return (units - 1 + run - 1) / run + 1;
}

template <int SIZE, int BYTES, int PARTS, bool FRESH> static void start(attention_args k, const cuda_work *w) {
    typedef attn_plan<SIZE, BYTES, PARTS, FRESH> plan;
    int32_t share = k.a.heads / k.a.past.heads;
    k.group_rows = plan::QUERIES / share < k.rows ? plan::QUERIES / share : k.rows;
    k.groups = (k.rows + k.group_rows - 1) / k.group_rows;
    k.lanes = lanes_for(&k.a, k.group_rows);
    CHECK(k.a.past.heads * k.groups <= CUDA_COUNTERS);
    launch_shape g = { (uint32_t)(k.lanes * k.groups), (uint32_t)k.a.past.heads, ATTN_THREADS,
                       (uint32_t)sizeof(attn_shared<plan>) };
    launch(w->to, g, attention_kernel<plan>, k);
}

/* As many parts as leave a tile to every query of the call. */
template <int SIZE, int BYTES> static void start_fresh(const attention_args &k, const cuda_work *w) {
    const int MANY = SIZE == 128 ? 8 : SIZE / 16;
    int32_t queries = k.rows * (k.a.heads / k.a.past.heads);
    if (queries <= ATTN_WARPS / MANY * TILE)
        start<SIZE, BYTES, MANY, true>(k, w);
    else if (queries <= ATTN_WARPS / 2 * TILE)
        start<SIZE, BYTES, 2, true>(k, w);
    else
        start<SIZE, BYTES, 1, true>(k, w);
}

template <int SIZE> static void start_sized(const attention_args &k, bool fresh, const cuda_work *w) {
    bool narrow = k.a.past.type == DT_E4M3;
    if (fresh && narrow)
        start_fresh<SIZE, 1>(k, w);
    else if (fresh)
        start_fresh<SIZE, 2>(k, w);
    else if (narrow)
        start<SIZE, 1, 1, false>(k, w);
    else
        start<SIZE, 2, 1, false>(k, w);
}

static void start_any(const attention_args &k, bool fresh, const cuda_work *w) {
    switch (padded(k.a.past.size)) {
    case 32: start_sized<32>(k, fresh, w); break;
    case 64: start_sized<64>(k, fresh, w); break;
    default: start_sized<128>(k, fresh, w); break;
    }
}

static void check_attn(const attn_args *a) {
    CHECK(a->past.type == DT_BF16 || a->past.type == DT_E4M3);
    CHECK(a->past.kind == KV_PAGES || (a->past.kind == KV_RING && a->past.slots >= UNIT));
    CHECK(a->heads % a->past.heads == 0 && cuda_attention_supports(a->past.size, a->heads / a->past.heads));
    if (!a->block.k) return;
    CHECK(a->rows_max <= ATTN_ROWS && a->block.type == a->past.type);
    CHECK(a->block.heads == a->past.heads && a->block.size == a->past.size);
}

/* The two ops are about the same rows, heads and stores. */
static void check_pair(const qkv_store_args *s, const attn_args *a) {
    const kv_store *kv = a->block.k ? &a->block : &a->past;
    CHECK(s->rows == a->rows && s->heads == a->heads && s->q.data == a->q.data);
    CHECK(s->kv.k == kv->k && s->kv.v == kv->v && s->kv.pages == kv->pages && s->kv.slots == kv->slots);
    CHECK(s->kv.kind == kv->kind && s->kv.type == kv->type && s->kv.heads == kv->heads && s->kv.size == kv->size);
}

/* s NULL: what it does is done. */
static void start_all(const qkv_store_args *s, const attn_args *a, const cuda_work *w) {
    check_attn(a);
    CHECK(w->scratch_bytes >= cuda_scratch_attention(a));
    attention_args k = {};
    k.a = *a;
    k.partial = (float *)w->scratch;
    k.counters = w->counters;
    if (a->rows_max <= ATTN_ROWS) {
        if (s) k.s = *s;
        k.rows = a->rows_max;
        start_any(k, true, w);
        return;
    }
    if (s) cuda_qkv_store(s, w);
    for (k.from_row = 0; k.from_row < a->rows_max; k.from_row += ATTN_ROWS) {
        k.rows = a->rows_max - k.from_row < ATTN_ROWS ? a->rows_max - k.from_row : ATTN_ROWS;
        start_any(k, false, w);
    }
}

void cuda_attention(const qkv_store_args *s, const attn_args *a, const cuda_work *w) {
    check_pair(s, a);
    start_all(s, a, w);
}

void cuda_attn(const attn_args *a, const cuda_work *w) { start_all(nullptr, a, w); }
