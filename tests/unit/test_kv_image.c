/* Rows of a KV store as a block and back, against copies element by element: rings, pages in any order, any stretch. */
#include "kernels/kv_image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, POISON = 0xFFFF };

/* A store, and where its elements lie by the text of kernels/attn.h. */
typedef struct world {
    kv_store s;
    int32_t pages[5];
    size_t elements; /* of k, and of v */
} world;

static world world_new(kv_kind kind, int32_t heads, int32_t size, int32_t slots) {
    world w = { .pages = { 3, 0, 6, 1, 4 } };
    int32_t rows = kind == KV_PAGES ? 7 * KV_PAGE : slots;
    w.elements = (size_t)rows * (size_t)heads * (size_t)size;
    w.s = (kv_store){ .k = malloc(w.elements * sizeof(bf16)),
                      .v = malloc(w.elements * sizeof(bf16)),
                      .slots = kind == KV_PAGES ? 0 : slots,
                      .heads = heads,
                      .size = size,
                      .kind = kind,
                      .type = DT_BF16,
                      .bytes = (int64_t)(w.elements * sizeof(bf16)) };
    assert_true(w.s.k && w.s.v);
    return w;
}

static void world_free(world *w) {
    free(w->s.k);
    free(w->s.v);
}

static size_t element_of(const world *w, int32_t g, int32_t pos, int32_t e) {
    size_t heads = (size_t)w->s.heads, size = (size_t)w->s.size, p = (size_t)pos;
    if (w->s.kind == KV_RING) return ((size_t)g * (size_t)w->s.slots + p % (size_t)w->s.slots) * size + (size_t)e;
    size_t page = (size_t)w->pages[p / KV_PAGE];
    return ((page * heads + (size_t)g) * KV_PAGE + p % KV_PAGE) * size + (size_t)e;
}

/* Element e of head g at pos; value 1: of v. Never the poison. */
static bf16 content(int32_t value, int32_t g, int32_t pos, int32_t e) {
    return (bf16)((uint32_t)(value * 31013 + g * 7919 + pos * 613 + e * 17) % POISON);
}

static void fill(world *w, int32_t from, int32_t to) {
    memset(w->s.k, 0xFF, w->elements * sizeof(bf16));
    memset(w->s.v, 0xFF, w->elements * sizeof(bf16));
    bf16 *k = w->s.k, *v = w->s.v;
    for (int32_t g = 0; g < w->s.heads; g++)
        for (int32_t pos = from; pos < to; pos++)
            for (int32_t e = 0; e < w->s.size; e++) {
                k[element_of(w, g, pos, e)] = content(0, g, pos, e);
                v[element_of(w, g, pos, e)] = content(1, g, pos, e);
            }
}

static void check_image(const world *w, const bf16 *image, int32_t from, int32_t to) {
    for (int32_t value = 0; value < 2; value++)
        for (int32_t g = 0; g < w->s.heads; g++)
            for (int32_t pos = from; pos < to; pos++)
                for (int32_t e = 0; e < w->s.size; e++, image++)
                    if (*image != content(value, g, pos, e))
                        fail_msg("[%d, %d): value %d, head %d, position %d, element %d is %04x, expected %04x", from,
                                 to, value, g, pos, e, *image, content(value, g, pos, e));
}

static void check_guard(const unsigned char *at, const char *what) {
    for (int i = 0; i < GUARD; i++)
        if (at[i] != 0xA5) fail_msg("%s was written", what);
}

/* Saves what lies at from .. to - 1, loads it into a store of poison: there it must lie again, and nothing else. */
static void check_trip(world *w, int32_t from, int32_t to) {
    size_t bytes = 2 * (size_t)w->s.heads * (size_t)(to - from) * (size_t)w->s.size * sizeof(bf16);
    assert_int_equal(kv_image_bytes(&w->s, to - from), bytes);
    unsigned char *block = malloc(bytes + 2 * GUARD);
    bf16 *k = malloc(w->elements * sizeof(bf16)), *v = malloc(w->elements * sizeof(bf16));
    assert_true(block && k && v);
    memset(block, 0xA5, bytes + 2 * GUARD);
    fill(w, from, to);
    memcpy(k, w->s.k, w->elements * sizeof(bf16));
    memcpy(v, w->s.v, w->elements * sizeof(bf16));
    kv_image_save(&w->s, from, to, block + GUARD);
    check_guard(block, "memory in front of the image");
    check_guard(block + GUARD + bytes, "memory behind the image");
    check_image(w, (const bf16 *)(const void *)(block + GUARD), from, to);
    assert_memory_equal(w->s.k, k, w->elements * sizeof(bf16));
    assert_memory_equal(w->s.v, v, w->elements * sizeof(bf16));
    fill(w, 0, 0);
    kv_image_load(&w->s, from, to, block + GUARD);
    assert_memory_equal(w->s.k, k, w->elements * sizeof(bf16));
    assert_memory_equal(w->s.v, v, w->elements * sizeof(bf16));
    free(block);
    free(k);
    free(v);
}

/* Every stretch of a ring, at its first turn and later ones, one slot more than fits excluded. */
static void test_ring(void **state) {
    (void)state;
    static const int32_t SLOTS[] = { 1, 7, 64 };
    for (int i = 0; i < 3; i++) {
        world w = world_new(KV_RING, 3, 5, SLOTS[i]);
        for (int32_t from = 0; from<3 * SLOTS[i]; from += SLOTS[i]> 7 ? 13 : 1)
            for (int32_t n = 0; n <= SLOTS[i]; n += SLOTS[i] > 7 && n < 63 ? 9 : 1) check_trip(&w, from, from + n);
        world_free(&w);
    }
}

static void test_ring_far(void **state) {
    (void)state;
    world w = world_new(KV_RING, 2, 8, 64);
    check_trip(&w, 1048575 - 63, 1048576);
    check_trip(&w, 1048570, 1048576);
    world_free(&w);
}

/* Stretches inside, up to, from and across page borders; the table is in no order. */
static void test_pages(void **state) {
    (void)state;
    static const int32_t RANGE[][2] = { { 0, 0 },     { 0, 1 },      { 0, 256 }, { 255, 256 },
                                        { 255, 257 }, { 256, 512 },  { 3, 700 }, { 511, 513 },
                                        { 0, 1280 },  { 777, 1279 }, { 1, 255 }, { 1024, 1280 } };
    world w = world_new(KV_PAGES, 3, 5, 0);
    w.s.pages = w.pages;
    for (size_t i = 0; i < sizeof RANGE / sizeof RANGE[0]; i++) check_trip(&w, RANGE[i][0], RANGE[i][1]);
    world_free(&w);
}

/* A stretch that was saved from one place of memory lies right in another: a ring of other size, pages of another
 * order. */
static void test_elsewhere(void **state) {
    (void)state;
    world from = world_new(KV_RING, 2, 6, 40), to = world_new(KV_RING, 2, 6, 33), pages = world_new(KV_PAGES, 2, 6, 0);
    pages.s.pages = pages.pages;
    fill(&from, 250, 280);
    fill(&to, 0, 0);
    fill(&pages, 0, 0);
    bf16 *image = malloc(kv_image_bytes(&from.s, 30)), *again = malloc(kv_image_bytes(&from.s, 30));
    assert_true(image && again);
    kv_image_save(&from.s, 250, 280, image);
    kv_image_load(&to.s, 250, 280, image);
    kv_image_save(&to.s, 250, 280, again);
    check_image(&to, again, 250, 280);
    kv_image_load(&pages.s, 250, 280, again);
    memset(again, 0, kv_image_bytes(&from.s, 30));
    kv_image_save(&pages.s, 250, 280, again);
    check_image(&pages, again, 250, 280);
    free(image);
    free(again);
    world_free(&from);
    world_free(&to);
    world_free(&pages);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ring), cmocka_unit_test(test_ring_far),
                                        cmocka_unit_test(test_pages), cmocka_unit_test(test_elsewhere) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
