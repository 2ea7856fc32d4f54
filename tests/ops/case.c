#include "tests/ops/case.h"

#include "engine/base/mem.h"
#include "kernels/mxfp4.h"
#include "kernels/tree_core.h"

#include <stdlib.h>

enum { GUARD_BYTE = 0xC3, JUNK_BYTE = 0x3C };

void tcase_init(tcase *t, const op_case *c, int32_t rows, int32_t alone) { tcase_init_aligned(t, c, rows, alone, 1); }

void tcase_init_aligned(tcase *t, const op_case *c, int32_t rows, int32_t alone, int32_t align) {
    memset(t, 0, sizeof *t);
    t->align = align;
    t->c = c;
    t->rows = rows;
    t->alone = alone;
    t->n = alone == CASE_ALONE_NONE ? rows : 1;
    t->mem = arena_new();
    c->build(t, c->shape);
    op_check(c->id, t->args);
    for (int b = 0; b < t->n_blocks; b++) {
        block *k = &t->block[b];
        if (k->kind == BLOCK_OUTPUT) continue;
        k->first = xalloc(k->bytes);
        memcpy(k->first, k->at, k->bytes);
    }
}

void tcase_deinit(tcase *t) {
    for (int b = 0; b < t->n_blocks; b++) {
        free(t->block[b].mem);
        free(t->block[b].first);
    }
    free(t->result);
    arena_free(t->mem);
}

/* --- blocks --- */

void *t_block(tcase *t, block_kind kind, size_t bytes, dtype type, size_t skew) {
    CHECK(t->n_blocks < CASE_BLOCKS);
    block *b = &t->block[t->n_blocks++];
    if (t->align > 1) skew = 0;
    size_t total = (CASE_GUARD + skew + bytes + CASE_GUARD + 63) / 64 * 64;
    *b = (block){ .kind = kind, .mem = aligned_alloc(64, total), .bytes = bytes, .type = type };
    CHECK(b->mem);
    memset(b->mem, GUARD_BYTE, total);
    b->at = b->mem + CASE_GUARD + skew;
    memset(b->at, JUNK_BYTE, bytes);
    return b->at;
}

static block *block_of(tcase *t, const void *at) {
    for (int b = 0; b < t->n_blocks; b++) {
        block *k = &t->block[b];
        if ((const char *)at >= k->at && (const char *)at < k->at + k->bytes) return k;
    }
    CHECK(!"address of a block");
    return NULL;
}

void t_mark_live(tcase *t, const view *v, int32_t live) {
    block *b = block_of(t, v->data);
    b->live = live;
    b->stride = v->stride;
    b->row_bytes = (int64_t)v->cols * dtype_bits(v->type) / 8;
}

void t_result(tcase *t, int32_t i, const void *at, size_t bytes) {
    if (t->n_results == t->cap_results) {
        t->cap_results = 2 * t->cap_results + 64;
        t->result = xrealloc(t->result, (size_t)t->cap_results * sizeof *t->result);
    }
    const block *b = block_of(t, at);
    t->result[t->n_results++] = (result){ i, (int)(b - t->block), (size_t)((const char *)at - b->at), bytes };
}

view t_view(tcase *t, block_kind kind, int32_t rows, int32_t cols, dtype type, int32_t pad) {
    int64_t size = dtype_bits(type) / 8, stride = ((cols + pad) * size + t->align - 1) / t->align * t->align;
    return (view){ t_block(t, kind, (size_t)(rows * stride), type, 0), stride, rows, cols, type };
}

view t_output(tcase *t, int32_t live, int32_t cols, dtype type) {
    view v = t_view(t, BLOCK_OUTPUT, live + 1, cols, type, 5);
    t_mark_live(t, &v, live);
    return v;
}

void t_result_row(tcase *t, int32_t i, const view *v, int32_t row) {
    t_result(t, i, view_row(v, row), (size_t)v->cols * (size_t)dtype_bits(v->type) / 8);
}

/* --- numbers --- */

float t_value(uint32_t stream, int64_t row, int64_t col) {
    uint64_t x =
        stream * 0x9E3779B97F4A7C15u + (uint64_t)row * 0xD1B54A32D192ED03u + (uint64_t)col * 0xA24BAED4963EE407u;
    x ^= x >> 32, x *= 0xD6E8FEB86659FD93u, x ^= x >> 32, x *= 0xD6E8FEB86659FD93u, x ^= x >> 32;
    return ((float)(x & 0xFFFFFF) - 8388607.5f) * 0x1p-23f;
}

void t_fill(const view *v, int32_t at, uint32_t stream, int64_t row, float scale) {
    for (int32_t c = 0; c < v->cols; c++) {
        float x = t_value(stream, row, c) * scale;
        if (v->type == DT_F32)
            ((float *)view_row(v, at))[c] = x;
        else
            ((bf16 *)view_row(v, at))[c] = bf16_of_f32(x);
    }
}

bf16 *t_norm_weight(tcase *t, uint32_t stream, int32_t n) {
    bf16 *w = t_block(t, BLOCK_INPUT, (size_t)n * sizeof *w, DT_BF16, sizeof *w);
    for (int32_t i = 0; i < n; i++) w[i] = bf16_of_f32(1.0f + 0.25f * t_value(stream, 0, i));
    return w;
}

/* Matrices of a file begin anywhere: unaligned ones at an odd address. */
weight t_weight(tcase *t, uint32_t stream, int32_t n, int32_t k, dtype type, bool aligned) {
    size_t elements = (size_t)n * (size_t)k, skew = aligned ? 0 : 3;
    weight w = { .n = n, .k = k, .type = type };
    if (type == DT_BF16) {
        char *data = t_block(t, BLOCK_INPUT, elements * sizeof(bf16), DT_U8, skew);
        for (size_t i = 0; i < elements; i++) {
            bf16 x = bf16_of_f32(t_value(stream, (int64_t)i / k, (int64_t)i % k) * 0.25f);
            memcpy(data + i * sizeof x, &x, sizeof x);
        }
        w.data = data;
        return w;
    }
    uint8_t *codes = t_block(t, BLOCK_INPUT, elements / 2, DT_U8, skew);
    uint8_t *scale = t_block(t, BLOCK_INPUT, elements / MXFP4_GROUP, DT_U8, skew + 2);
    for (size_t i = 0; i < elements / 2; i++) codes[i] = (uint8_t)((t_value(stream, 1, (int64_t)i) + 1.0f) * 128.0f);
    for (size_t i = 0; i < elements / MXFP4_GROUP; i++)
        scale[i] = (uint8_t)(120.0f + 6.0f * t_value(stream, 2, (int64_t)i)); /* 2^-13 to 2^-2 */
    w.data = codes;
    w.scale = scale;
    return w;
}

/* --- rows --- */

live_rows t_live(tcase *t, int32_t first) {
    int32_t *n = t_block(t, BLOCK_INPUT, 2 * sizeof *n, DT_I32, 0);
    n[0] = t->n;
    n[1] = first;
    return (live_rows){ n, first ? n + 1 : NULL, t->n + 1 };
}

/* A chain; every node with two children; a chain with a dead sibling at each depth. */
static int32_t parent_of(tree_kind kind, int32_t node) {
    if (kind == TREE_BINARY) return (node - 1) / 2;
    return kind == TREE_CHAIN ? node - 1 : (node - 1) / 2 * 2;
}

static void set_chain(row_set *rows, int32_t base, int32_t n) {
    rows->n = n;
    rows->base = base;
    rows->chain = 1;
    for (int32_t r = 0; r < n; r++) rows->pos[r] = base + r;
}

static void grow(row_set *rows, int32_t base, tree_kind kind, int32_t n) {
    if (kind == TREE_CHAIN || n == 0) {
        set_chain(rows, base, n);
        return;
    }
    tree_begin(rows, base, 0);
    for (int32_t r = 1; r < n; r++) CHECK(tree_add(rows, parent_of(kind, r), 0) == r);
}

const row_set *t_whole_rows(tcase *t, int32_t base, tree_kind kind) {
    row_set *rows = arena_alloc(t->mem, sizeof *rows);
    grow(rows, base, kind, t->rows);
    return rows;
}

row_set *t_rows(tcase *t, int32_t base, tree_kind kind, int32_t vocab) {
    row_set *rows = t_block(t, BLOCK_INPUT, sizeof *rows, DT_U8, 0);
    if (t->alone == CASE_ALONE_NONE)
        grow(rows, base, kind, t->rows);
    else
        set_chain(rows, t_whole_rows(t, base, kind)->pos[t->alone], 1);
    for (int32_t i = 0; i < t->n; i++)
        rows->token[i] = (int32_t)((t_value(77, t_row(t, i), 0) + 1.0f) * 0.5f * (float)vocab);
    return rows;
}

step_params *t_params(tcase *t) { return t_block(t, BLOCK_STATE, sizeof(step_params), DT_U8, 0); }
