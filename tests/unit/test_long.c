/* Offsets of long contexts: stores whose rows lie beyond 2^31 and 2^32 bytes give the bits of small ones that hold the
 * same rows at the same positions. Where a row lies in memory is computed here once more, in wide integers.
 *
 * Blocks that the program takes are reserved only: link: -Wl,--wrap=mmap */
#include "tests/unit/long_fixture.h"

#include "engine/base/arena.h"
#include "engine/load/safetensors.h"
#include "kernels/kv_image.h"
#include "target/kv.h"

#include <stdio.h>
#include <stdlib.h>

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
    return __real_mmap(at, n, prot, flags & MAP_ANONYMOUS ? flags | MAP_NORESERVE : flags, fd, offset);
}

enum {
    HEADS = 8,
    SIZE = 128,
    WINDOW = 512,
    ROWS = 8,
    FIRST_PAGE = MILLION / KV_PAGE - 4, /* the first page of the sequence that exists here */
    PAGES = 12,                         /* and how many: positions from 2^20 - 1024 to 2^20 + 2047 */
    FAR_PAGES = 33001,
    FAR_SLOTS = (1 << 22) + 64,
    STREAM_K = 1,
    STREAM_V,
    STREAM_Q,
    STREAM_GATE,
    STREAM_X,
    STREAM_ANGLE,
    STREAM_NORM,
};

/* A page is 2^19 bytes: pages 4096 and 8192 begin at 2^31 and 2^32 bytes, 8192 and 16384 at as many elements. */
static const int32_t FAR_IDS[PAGES] = { 33000, 4096, 8192, 16384, 8191, 4095, 20001, 16383, 8193, 12288, 32768, 32767 };
static const int32_t NEAR_IDS[PAGES] = { 7, 2, 11, 0, 4, 9, 1, 10, 3, 8, 5, 6 };

typedef enum where { NEAR_PAGES, FAR_PAGES_STORE, NEAR_RING, FAR_RING, STORES } where;
static const char *const WHERE[STORES] = { "near pages", "far pages", "near ring", "far ring" };

typedef struct world {
    pool *pool;
    kv_store store[STORES];
    view near_taps, far_taps;
} world;

/* ---- stores ---- */

static kv_store new_store(kv_kind kind, int32_t slots, const int32_t *ids) {
    int64_t rows = kind == KV_RING ? slots : (int64_t)slots * KV_PAGE;
    kv_store s = { .heads = HEADS, .size = SIZE, .kind = kind, .type = DT_BF16, .slots = kind == KV_RING ? slots : 0 };
    s.bytes = rows * HEADS * SIZE * (int64_t)sizeof(bf16);
    s.k = reserve((size_t)s.bytes);
    s.v = reserve((size_t)s.bytes);
    if (kind == KV_RING) return s;
    int32_t *table = malloc((FIRST_PAGE + PAGES) * sizeof *table);
    assert_non_null(table);
    for (int32_t i = 0; i < FIRST_PAGE + PAGES; i++) table[i] = i < FIRST_PAGE ? INT32_MIN : ids[i - FIRST_PAGE];
    s.pages = table;
    return s;
}

/* The row of head g at this index, from the layout's definition. */
static size_t place(const kv_store *s, int32_t g, int32_t index) {
    unsigned __int128 row = s->kind == KV_RING
                                ? (unsigned __int128)g * (uint32_t)s->slots + (uint32_t)(index % s->slots)
                                : ((unsigned __int128)s->pages[index / KV_PAGE] * HEADS + (uint32_t)g) * KV_PAGE +
                                      (uint32_t)(index % KV_PAGE);
    return (size_t)(row * SIZE);
}

static void put_row(const kv_store *s, int32_t index, int32_t id) {
    bf16 *k = s->k, *v = s->v;
    for (int32_t g = 0; g < HEADS; g++) {
        size_t at = place(s, g, index);
        for (int32_t c = 0; c < SIZE; c++) {
            k[at + (size_t)c] = bf16_of_f32(value(STREAM_K, id, g * SIZE + c));
            v[at + (size_t)c] = bf16_of_f32(value(STREAM_V, id, g * SIZE + c));
        }
    }
}

static void spoil_row(const kv_store *s, int32_t index) {
    for (int32_t g = 0; g < HEADS; g++) {
        memset(kv_at(s, s->k, (int64_t)place(s, g, index)), 0xFF, SIZE * sizeof(bf16));
        memset(kv_at(s, s->v, (int64_t)place(s, g, index)), 0xFF, SIZE * sizeof(bf16));
    }
}

/* Rows a and b of two stores are the same. */
static void check_row(const kv_store *s, int32_t a, const kv_store *t, int32_t b, const char *what) {
    for (int32_t g = 0; g < HEADS; g++) {
        size_t x = place(s, g, a), y = place(t, g, b), n = SIZE * sizeof(bf16);
        if (memcmp(kv_at(s, s->k, x), kv_at(t, t->k, y), n)) fail_msg("%s: key of index %d, head %d", what, a, g);
        if (memcmp(kv_at(s, s->v, x), kv_at(t, t->v, y), n)) fail_msg("%s: value of index %d, head %d", what, a, g);
    }
}

/* The places are as far apart as they are meant to be. */
static void test_far_is_far(void **state) {
    world *w = *state;
    const kv_store *pages = &w->store[FAR_PAGES_STORE], *ring = &w->store[FAR_RING];
    assert_true(place(pages, 0, (FIRST_PAGE + 1) * KV_PAGE) * sizeof(bf16) == (size_t)1 << 31);
    assert_true(place(pages, 0, (FIRST_PAGE + 2) * KV_PAGE) == (size_t)1 << 31);
    assert_true(place(pages, 0, (FIRST_PAGE + 3) * KV_PAGE) == (size_t)1 << 32);
    assert_true(place(ring, 4, 1 << 22) > (size_t)1 << 31);
    for (int i = 0; i < STORES; i++) {
        const kv_store *s = &w->store[i];
        int32_t to = MILLION + 2047;
        for (int32_t index = MILLION - 1024; index <= to; index += 37)
            for (int32_t g = 0; g < HEADS; g++)
                assert_true((uint64_t)kv_offset(s, g, index, MILLION) == place(s, g, index));
        int64_t end = kv_offset(s, HEADS - 1, s->kind == KV_RING ? s->slots - 1 : FIRST_PAGE * KV_PAGE + 255, 0) + SIZE;
        assert_int_equal(end * (int64_t)sizeof(bf16), s->bytes - (i == NEAR_PAGES ? (PAGES - 8) << 19 : 0));
    }
}

/* ---- attention ---- */

static bf16 queries[ROWS * HEADS * SIZE], want_y[ROWS * HEADS * SIZE], got_y[ROWS * HEADS * SIZE];
static float gates[ROWS * HEADS];

static void run_attn(world *w, const kv_store *s, isa i, const row_set *rows, bf16 *y) {
    attn_args a = { .q = { queries, HEADS * SIZE * 2, ROWS, HEADS * SIZE, DT_BF16 },
                    .gate = { gates, HEADS * 4, ROWS, HEADS, DT_F32 },
                    .y = { y, HEADS * SIZE * 2, ROWS, HEADS * SIZE, DT_BF16 },
                    .past = *s,
                    .heads = HEADS,
                    .window = WINDOW,
                    .scale = 0.3f,
                    .rows_max = ROWS,
                    .rows = rows };
    memset(y, 0xFF, sizeof want_y);
    run_op(w->pool, i, OP_ATTN, &a);
}

static void check_attn(world *w, int32_t base, int32_t n, bool tree, where from) {
    static row_set rows;
    set_rows(&rows, base, n, tree);
    for (int s = from; s < STORES; s++)
        for (int32_t index = base - WINDOW + 1; index < base + n; index++) put_row(&w->store[s], index, index);
    run_attn(w, &w->store[from], ISA_REF, &rows, want_y);
    assert_true(f32_of_bf16(want_y[0]) != 0.0f && want_y[0] != 0xFFFF);
    for (int s = from; s < STORES; s++)
        for (isa i = ISA_REF; i < ISA_COUNT; i = next_isa(i)) {
            run_attn(w, &w->store[s], i, &rows, got_y);
            if (memcmp(got_y, want_y, sizeof got_y))
                fail_msg("%s: attention of %d rows (%s) from %d on, %s", WHERE[s], n, tree ? "tree" : "chain", base,
                         isa_name(i));
        }
}

static void test_attn(void **state) {
    world *w = *state;
    check_attn(w, MILLION - 1, 1, false, NEAR_PAGES); /* the last position of a context of 2^20 */
    check_attn(w, MILLION - ROWS, ROWS, false, NEAR_PAGES);
    check_attn(w, MILLION - 4, ROWS, false, NEAR_PAGES); /* and across it */
    check_attn(w, MILLION - 3, ROWS, true, NEAR_PAGES);
    check_attn(w, MILLION + 600, ROWS, true, NEAR_PAGES);
    check_attn(w, FAR_SLOTS - 3, ROWS, true, NEAR_RING); /* where the far ring begins anew */
}

/* ---- rows that are written ---- */

static float projected[ROWS * 3 * HEADS * SIZE], cosine[ROWS * SIZE / 2], sine[ROWS * SIZE / 2];
static bf16 norm[SIZE];

static void fill_projected(void) {
    for (int32_t i = 0; i < ROWS * 3 * HEADS * SIZE; i++) projected[i] = value(STREAM_X, i, 0);
    for (int32_t i = 0; i < ROWS * SIZE / 2; i++)
        cosine[i] = value(STREAM_ANGLE, i, 0), sine[i] = value(STREAM_ANGLE, i, 1);
    for (int32_t i = 0; i < SIZE; i++) norm[i] = bf16_of_f32(1.0f + 0.2f * value(STREAM_NORM, i, 0));
}

static view angles(float *at) { return (view){ at, SIZE / 2 * 4, ROWS, SIZE / 2, DT_F32 }; }

static void run_qkv(world *w, const kv_store *s, isa i, const row_set *rows) {
    qkv_store_args a = { .qkv = { projected, 3 * HEADS * SIZE * 4, ROWS, 3 * HEADS * SIZE, DT_F32 },
                         .q = { got_y, HEADS * SIZE * 2, ROWS, HEADS * SIZE, DT_BF16 },
                         .cos = angles(cosine),
                         .sin = angles(sine),
                         .q_norm = norm,
                         .k_norm = norm,
                         .eps = 1e-6f,
                         .heads = HEADS,
                         .kv = *s,
                         .rows = rows };
    run_op(w->pool, i, OP_QKV_STORE, &a);
}

static void run_ctx(world *w, const kv_store *s, isa i, const row_set *rows) {
    ctx_store_args a = { .kv = { projected, 2 * HEADS * SIZE * 4, ROWS, 2 * HEADS * SIZE, DT_F32 },
                         .cos = angles(cosine),
                         .sin = angles(sine),
                         .k_norm = norm,
                         .eps = 1e-6f,
                         .ring = *s,
                         .rows = rows };
    run_op(w->pool, i, OP_CTX_STORE, &a);
}

typedef void store_rows(world *w, const kv_store *s, isa i, const row_set *rows);

/* The first store by the reference, then all of them by everything. */
static void check_written(world *w, store_rows *run, int32_t base, where from, const char *what) {
    static row_set rows;
    kv_store kept = new_store(KV_RING, 64, NULL);
    set_rows(&rows, base, ROWS, false);
    fill_projected();
    run(w, &kept, ISA_REF, &rows);
    for (int s = from; s < STORES; s++)
        for (isa i = ISA_REF; i < ISA_COUNT; i = next_isa(i)) {
            for (int32_t r = 0; r < ROWS; r++) spoil_row(&w->store[s], base + r);
            run(w, &w->store[s], i, &rows);
            char label[80];
            snprintf(label, sizeof label, "%s, %s, %s from %d on", what, isa_name(i), WHERE[s], base);
            for (int32_t r = 0; r < ROWS; r++) check_row(&w->store[s], base + r, &kept, base + r, label);
        }
    munmap(kept.k, (size_t)kept.bytes);
    munmap(kept.v, (size_t)kept.bytes);
}

static void test_qkv_store(void **state) {
    world *w = *state;
    check_written(w, run_qkv, MILLION - ROWS, NEAR_PAGES, "qkv_store");
    check_written(w, run_qkv, MILLION - 3, NEAR_PAGES, "qkv_store");
    check_written(w, run_qkv, MILLION + 253, NEAR_PAGES, "qkv_store");
    check_written(w, run_qkv, FAR_SLOTS - 3, NEAR_RING, "qkv_store");
}

static void test_ctx_store(void **state) {
    world *w = *state;
    check_written(w, run_ctx, MILLION - ROWS, NEAR_RING, "ctx_store");
    check_written(w, run_ctx, MILLION - 3, NEAR_RING, "ctx_store");
    check_written(w, run_ctx, FAR_SLOTS - 3, NEAR_RING, "ctx_store");
}

/* ---- taps ---- */

enum { HIDDEN = 3072, TAPS = 6, NEAR_TAP_ROWS = 64, FAR_TAP_ROWS = 150000 };

static view new_taps(int32_t rows) {
    view v = { NULL, TAPS * HIDDEN * 2, rows, TAPS * HIDDEN, DT_BF16 };
    v.data = reserve((size_t)v.stride * (size_t)rows);
    return v;
}

static char *tap_at(const view *ring, int32_t pos) {
    return (char *)ring->data + (size_t)(pos % ring->rows) * (size_t)ring->stride;
}

static void check_taps(world *w, int32_t base) {
    static row_set rows;
    static float x[ROWS * HIDDEN];
    static bf16 normed[2][ROWS * TAPS * HIDDEN];
    const view *ring[2] = { &w->near_taps, &w->far_taps };
    bf16 *ones = malloc(HIDDEN * sizeof *ones);
    assert_non_null(ones);
    for (int32_t c = 0; c < HIDDEN; c++) ones[c] = bf16_of_f32(1.0f);
    set_rows(&rows, base, ROWS, false);
    for (isa i = ISA_REF; i < ISA_COUNT; i = next_isa(i)) {
        for (int k = 0; k < 2; k++) {
            for (int32_t r = 0; r < ROWS; r++) memset(tap_at(ring[k], base + r), 0xFF, (size_t)ring[k]->stride);
            for (int32_t j = 0; j < TAPS; j++) {
                for (int32_t c = 0; c < ROWS * HIDDEN; c++) x[c] = value(STREAM_X, j, c);
                run_op(w->pool, i, OP_TAP,
                       &(tap_args){ { x, HIDDEN * 4, ROWS, HIDDEN, DT_F32 }, *ring[k], j * HIDDEN, &rows });
            }
            tap_norm_args a = { .ring = *ring[k],
                                .taps = TAPS,
                                .eps = 1e-6f,
                                .y = { normed[k], TAPS * HIDDEN * 2, ROWS, TAPS * HIDDEN, DT_BF16 },
                                .rows = &rows };
            for (int32_t j = 0; j < TAPS; j++) a.norm[j] = ones;
            memset(normed[k], 0xFF, sizeof normed[k]);
            run_op(w->pool, i, OP_TAP_NORM, &a);
        }
        for (int32_t r = 0; r < ROWS; r++)
            if (memcmp(tap_at(ring[0], base + r), tap_at(ring[1], base + r), (size_t)ring[0]->stride))
                fail_msg("taps of position %d, %s", base + r, isa_name(i));
        bf16 first = bf16_of_f32(value(STREAM_X, TAPS - 1, 0));
        assert_memory_equal(tap_at(ring[1], base) + (TAPS - 1) * HIDDEN * 2, &first, sizeof first);
        assert_memory_equal(normed[0], normed[1], sizeof normed[0]);
    }
    free(ones);
}

static void test_taps(void **state) {
    world *w = *state;
    assert_true(tap_at(&w->far_taps, MILLION - 1) - (char *)w->far_taps.data > (ptrdiff_t)1 << 32);
    check_taps(w, MILLION - ROWS);
    check_taps(w, MILLION - 3);
    check_taps(w, 7 * FAR_TAP_ROWS - 3);
}

/* ---- moving rows ---- */

static void check_move(world *w, int32_t base, where from) {
    static step_params p;
    static const int32_t ACCEPTED[] = { 0, 2, 5, 7 };
    p.st.move_base = base, p.st.n_accepted = 4;
    memcpy(p.st.accepted, ACCEPTED, sizeof ACCEPTED);
    for (isa i = ISA_REF; i < ISA_COUNT; i = next_isa(i)) {
        for (int32_t r = 0; r < ROWS; r++) {
            for (int s = from; s < STORES; s++) put_row(&w->store[s], base + r, base + r);
            memset(tap_at(&w->far_taps, base + r), 16 + r, (size_t)w->far_taps.stride);
        }
        kv_move_args a = { .p = &p, .stores = w->store + from, .n = STORES - from, .taps = w->far_taps };
        run_op(w->pool, i, OP_KV_MOVE, &a);
        kv_store kept = new_store(KV_RING, 64, NULL);
        for (int32_t j = 0; j < 4; j++) {
            put_row(&kept, base + j, base + ACCEPTED[j]);
            for (int s = from; s < STORES; s++) check_row(&w->store[s], base + j, &kept, base + j, WHERE[s]);
            const char *tap = tap_at(&w->far_taps, base + j);
            assert_int_equal(tap[0], 16 + ACCEPTED[j]);
            assert_int_equal(tap[w->far_taps.stride - 1], 16 + ACCEPTED[j]);
        }
        munmap(kept.k, (size_t)kept.bytes);
        munmap(kept.v, (size_t)kept.bytes);
    }
}

static void test_kv_move(void **state) {
    world *w = *state;
    check_move(w, MILLION - 3, NEAR_PAGES);
    check_move(w, MILLION + 253, NEAR_PAGES);
    check_move(w, 7 * FAR_TAP_ROWS - 3, NEAR_RING);
    check_move(w, FAR_SLOTS - 3, NEAR_RING);
}

static void check_image(world *w, int32_t from, int32_t to, where first) {
    size_t bytes = kv_image_bytes(&w->store[first], to - from);
    assert_int_equal(bytes, 2 * HEADS * SIZE * 2 * (to - from));
    char *want = malloc(bytes), *got = malloc(bytes);
    assert_true(want && got);
    for (int s = first; s < STORES; s++) {
        for (int32_t index = from; index < to; index++) put_row(&w->store[s], index, index);
        memset(got, 0xA5, bytes);
        kv_image_save(&w->store[s], from, to, s == (int)first ? want : got);
        if (s != (int)first && memcmp(got, want, bytes)) fail_msg("image of %d .. %d, %s", from, to, WHERE[s]);
        for (int32_t index = from; index < to; index++) spoil_row(&w->store[s], index);
        kv_image_load(&w->store[s], from, to, want);
        for (int32_t index = from; index < to; index++)
            check_row(&w->store[s], index, &w->store[first], index, WHERE[s]);
    }
    free(want);
    free(got);
}

static void test_kv_image(void **state) {
    world *w = *state;
    check_image(w, MILLION - 300, MILLION, NEAR_PAGES);
    check_image(w, MILLION - 5, MILLION + 270, NEAR_PAGES);
    check_image(w, FAR_SLOTS - 9, FAR_SLOTS + 5, NEAR_RING);
    assert_int_equal(kv_image_bytes(&w->store[FAR_RING], MILLION), (size_t)1 << 32);
}

static void test_copy_page(void **state) {
    world *w = *state;
    kv_store layers[2] = { w->store[FAR_PAGES_STORE], w->store[NEAR_RING] };
    target_kv kv = { .layer = layers, .layers = 2 };
    int32_t from = (FIRST_PAGE + 6) * KV_PAGE, to = FIRST_PAGE * KV_PAGE, part = 200;
    for (int32_t r = 0; r < KV_PAGE; r++) put_row(&layers[0], from + r, r), spoil_row(&layers[0], to + r);
    kv_store spoilt = new_store(KV_RING, 64, NULL);
    spoil_row(&spoilt, 0);
    target_kv_copy_page(&kv, FAR_IDS[6], FAR_IDS[0], part);
    for (int32_t r = 0; r < KV_PAGE; r++)
        if (r < part)
            check_row(&layers[0], to + r, &layers[0], from + r, "copied page");
        else
            check_row(&layers[0], to + r, &spoilt, 0, "behind the copied rows");
    munmap(spoilt.k, (size_t)spoilt.bytes);
    munmap(spoilt.v, (size_t)spoilt.bytes);
}

/* ---- products that need more than 32 bits ---- */

/* Laguna S 2.1 with all layers global: 48 layers, each K (and V) exactly 2^31 bytes for 2^20 positions. */
static void test_layers(void **state) {
    (void)state;
    static target_config c = { .layers = 48, .kv_heads = HEADS, .head_dim = SIZE, .window = WINDOW };
    int32_t ctx = MILLION - NODES_MAX;
    target_kv kv;
    err e;
    assert_true(target_kv_bytes(&c, ctx, 0, DT_BF16) == 96 * (size_t)2147483648);
    assert_true(target_kv_bytes(&c, ctx, 1, DT_BF16) - target_kv_bytes(&c, ctx, 0, DT_BF16) == 96 * (size_t)524288);
    if (target_kv_init(&kv, &c, ctx, 0, DT_BF16, NULL, &e) != OK) fail_msg("%s", e.text);
    assert_int_equal(kv.n_table, MILLION / KV_PAGE);
    /* plane 47 is the values of layer 23 */
    assert_true((char *)kv.layer[23].v - (char *)kv.block == 100931731456);
    for (int32_t l = 0; l < c.layers; l++) {
        assert_true((char *)kv.layer[l].k - (char *)kv.block == (int64_t)l * 2 * 2147483648);
        assert_true((char *)kv.layer[l].v - (char *)kv.layer[l].k == 2147483648);
        const kv_store *s = &kv.layer[l];
        *(bf16 *)kv_at(s, s->v, kv_offset(s, HEADS - 1, MILLION - 1, 0) + SIZE - 1) = (bf16)(l + 1); /* the last one */
    }
    for (int32_t l = 0; l < c.layers; l++)
        assert_int_equal(((bf16 *)kv.layer[l].v)[((size_t)2147483648 >> 1) - 1], l + 1);
    target_kv_deinit(&kv);
}

/* Named products, as bytes, out of the functions that form them. */
static void test_products(void **state) {
    (void)state;
    int32_t n = MILLION / KV_PAGE + 1, *table = malloc((size_t)n * sizeof *table), page = 16385;
    assert_non_null(table);
    for (int32_t i = 0; i < n; i++) table[i] = i;
    kv_store s = { .kind = KV_PAGES, .type = DT_BF16, .heads = HEADS, .size = SIZE, .pages = table };
    assert_true(2 * (kv_offset(&s, HEADS - 1, MILLION - 1, 0) + SIZE) == 2147483648); /* the end of 2^20 positions */
    assert_true(2 * kv_offset(&s, 0, MILLION, 0) == 2147483648);                      /* one position more */
    kv_store two = { .kind = KV_PAGES, .type = DT_BF16, .heads = 2, .size = SIZE, .pages = &page };
    assert_true(2 * kv_offset(&two, 0, 0, 0) == 2147614720); /* 16385 pages of 131072 bytes */
    view features = { NULL, 18432 * 2, 60000, 18432, DT_BF16 };
    features.data = reserve((size_t)features.stride * 60000);
    assert_true((char *)view_row(&features, 58255) - (char *)features.data == 2147512320);
    assert_true((char *)view_row(&features, 58254) - (char *)features.data == 2147475456);
    munmap(features.data, (size_t)features.stride * 60000);
    free(table);
}

/* Scores are never held for more than a block: what a lane needs does not know the context. */
static void test_scratch(void **state) {
    world *w = *state;
    static row_set rows;
    view q = { queries, HEADS * SIZE * 2, ROWS, HEADS * SIZE, DT_BF16 },
         gate = { gates, HEADS * 4, ROWS, HEADS, DT_F32 };
    size_t near = 0;
    for (int s = 0; s < STORES; s++) {
        set_rows(&rows, s % 2 ? MILLION - 1 : 0, 1, false);
        attn_args a = { q, gate, q, w->store[s], { 0 }, HEADS, 0, 1.0f, ROWS, &rows };
        size_t bytes = op_lane_scratch(OP_ATTN, &a, 1);
        if (s == 0) near = bytes;
        assert_int_equal(bytes, near);
        assert_in_range(bytes, 1, 1 << 20);
    }
}

/* A tensor that begins 5 GB behind the start of its file. */
static void test_far_tensor(void **state) {
    (void)state;
    const uint64_t header = 120000, start = 4999999992, bytes = 8 + header + start + 16;
    char *file = reserve(bytes);
    static const char JSON[] = "{\"far\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[4999999992,5000000008]},"
                               "\"fill\":{\"dtype\":\"U8\",\"shape\":[4999999992],\"data_offsets\":[0,4999999992]}}";
    memcpy(file, &header, 8);
    memset(file + 8, ' ', header);
    memcpy(file + 8, JSON, sizeof JSON - 1);
    tensor_list list = { 0 };
    arena *mem = arena_new();
    err e;
    if (safetensors_read(&list, (str){ file, bytes }, "far.safetensors", 0, mem, &e) != OK) fail_msg("%s", e.text);
    const tensor *t = tensor_list_find(&list, str_of("far")), *fill = tensor_list_find(&list, str_of("fill"));
    assert_true(t && fill);
    assert_true(t->data - (const uint8_t *)file == 5000120000);
    assert_int_equal(t->bytes, 16);
    assert_true(fill->bytes == 4999999992 && fill->dim[0] == 4999999992);
    tensor_list_free(&list);
    arena_free(mem);
    munmap(file, bytes);
}

/* ---- */

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    if (!w || pool_open(&w->pool, 1, NULL) != OK) return -1;
    w->store[NEAR_PAGES] = new_store(KV_PAGES, PAGES, NEAR_IDS);
    w->store[FAR_PAGES_STORE] = new_store(KV_PAGES, FAR_PAGES, FAR_IDS);
    w->store[NEAR_RING] = new_store(KV_RING, kv_ring_slots(WINDOW, NODES_MAX), NULL);
    w->store[FAR_RING] = new_store(KV_RING, FAR_SLOTS, NULL);
    w->near_taps = new_taps(NEAR_TAP_ROWS);
    w->far_taps = new_taps(FAR_TAP_ROWS);
    for (int32_t i = 0; i < ROWS * HEADS * SIZE; i++) queries[i] = bf16_of_f32(value(STREAM_Q, i, 0));
    for (int32_t i = 0; i < ROWS * HEADS; i++) gates[i] = 2.0f * value(STREAM_GATE, i, 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    for (int s = 0; s < STORES; s++) {
        munmap(w->store[s].k, (size_t)w->store[s].bytes);
        munmap(w->store[s].v, (size_t)w->store[s].bytes);
        free((void *)(uintptr_t)w->store[s].pages);
    }
    munmap(w->near_taps.data, (size_t)w->near_taps.stride * NEAR_TAP_ROWS);
    munmap(w->far_taps.data, (size_t)w->far_taps.stride * FAR_TAP_ROWS);
    pool_close(w->pool);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_is_far), cmocka_unit_test(test_attn),      cmocka_unit_test(test_qkv_store),
        cmocka_unit_test(test_ctx_store),  cmocka_unit_test(test_taps),      cmocka_unit_test(test_kv_move),
        cmocka_unit_test(test_kv_image),   cmocka_unit_test(test_copy_page), cmocka_unit_test(test_layers),
        cmocka_unit_test(test_products),   cmocka_unit_test(test_scratch),   cmocka_unit_test(test_far_tensor),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
