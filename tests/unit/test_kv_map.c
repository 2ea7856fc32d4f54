/* kv_map.h against plain lists: every small window, ring, base and tree. */
#include "kernels/kv_map.h"
#include "kernels/tree_core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { WINDOWS = 6, ROWS = 4, BASES = 24, SLOTS = 16 };

static void test_first_seen(void **state) {
    (void)state;
    for (int32_t window = 0; window <= WINDOWS; window++) {
        for (int32_t p = 0; p < BASES; p++) {
            int32_t want = -1;
            for (int32_t pos = p; pos >= 0; pos--)
                if (window == 0 || p - pos < window) want = pos;
            assert_int_equal(kv_first_seen(window, p), want);
        }
    }
}

/* --- rings --- */

/* Which index a ring's slot holds, by writing all indices one after the other. -1: none. */
static void write_ring(int32_t held[SLOTS], int32_t slots, int32_t upto) {
    for (int32_t s = 0; s < slots; s++) held[s] = -1;
    for (int32_t index = 0; index < upto; index++) held[index % slots] = index;
}

/* Does every row of a step that wrote `rows` rows from base on still find all keys it sees? */
static bool ring_is_whole(int32_t slots, int32_t window, int32_t base, int32_t rows) {
    int32_t held[SLOTS];
    write_ring(held, slots, base + rows);
    for (int32_t p = base; p < base + rows; p++)
        for (int32_t pos = kv_first_seen(window, p); pos <= p; pos++)
            if (held[pos % slots] != pos) return false;
    return true;
}

/* window + rows - 1 slots are enough at every base, and one less is not. */
static void test_ring_size(void **state) {
    (void)state;
    for (int32_t window = 1; window <= WINDOWS; window++) {
        for (int32_t rows = 1; rows <= ROWS; rows++) {
            int32_t need = window + rows - 1;
            bool less = true;
            for (int32_t base = 0; base < BASES; base++) {
                assert_true(ring_is_whole(need, window, base, rows));
                if (need > 1) less &= ring_is_whole(need - 1, window, base, rows);
            }
            if (need > 1) assert_false(less);
            assert_true(kv_ring_slots(window, rows) >= need);
        }
    }
    assert_int_equal(kv_ring_slots(512, 32), 576);
    assert_int_equal(kv_ring_slots(512, 65), 576);
    assert_int_equal(kv_ring_slots(512, 66), 640);
    assert_int_equal(kv_ring_slots(1, 1), 64);
}

/* A rewind is allowed exactly when the row at the new length still finds every committed key it sees. */
static void test_rewind(void **state) {
    (void)state;
    for (int32_t window = 1; window <= WINDOWS; window++) {
        for (int32_t slots = 1; slots <= SLOTS; slots++) {
            for (int32_t high = 0; high < BASES; high++) {
                int32_t held[SLOTS];
                write_ring(held, slots, high);
                for (int32_t len = 1; len <= high; len++) {
                    bool whole = true;
                    int32_t first = kv_first_seen(window, len);
                    for (int32_t pos = first; pos < len; pos++) whole &= held[pos % slots] == pos;
                    if (first < len)
                        assert_int_equal(kv_can_rewind(slots, window, high, len), whole);
                    else if (kv_can_rewind(slots, window, high, len)) /* a window of 1 needs no committed key */
                        assert_true(whole);
                }
            }
        }
    }
}

/* --- places --- */

static int32_t pages_of_test[] = { 3, 0, 2, 1 };

static kv_store store_of(kv_kind kind, int32_t slots) {
    return (kv_store){ .kind = kind, .slots = slots, .heads = 3, .size = 8, .pages = pages_of_test };
}

/* Different (head, index) pairs that live at one time never share a place, and no place is outside the store. */
static void check_places(const kv_store *s, int32_t from, int32_t n, int32_t base, int64_t rows) {
    static uint8_t taken[4 * KV_PAGE * 3];
    memset(taken, 0, sizeof taken);
    for (int32_t g = 0; g < s->heads; g++) {
        for (int32_t index = from; index < from + n; index++) {
            int64_t at = kv_offset(s, g, index, base);
            assert_true(at % s->size == 0 && at >= 0 && at / s->size < rows * s->heads);
            assert_false(taken[at / s->size]++);
        }
    }
}

/* Within the promised stretch rows follow each other; the next index is somewhere else or is another stretch. */
static void check_contiguous(const kv_store *s, int32_t from, int32_t n, int32_t base) {
    for (int32_t index = from; index < from + n; index++) {
        int32_t len = kv_contiguous(s, index, base);
        assert_true(len >= 1);
        for (int32_t i = 1; i < len && index + i < from + n; i++)
            assert_int_equal(kv_offset(s, 1, index + i, base), kv_offset(s, 1, index, base) + (int64_t)i * s->size);
        if (index + len < from + n && s->kind != KV_BLOCK)
            assert_true(kv_offset(s, 1, index + len, base) != kv_offset(s, 1, index, base) + (int64_t)len * s->size);
    }
}

static void test_places(void **state) {
    (void)state;
    for (int32_t slots = 2; slots <= SLOTS; slots++) {
        for (int32_t base = 0; base < 2 * SLOTS; base++) {
            kv_store ring = store_of(KV_RING, slots), block = store_of(KV_BLOCK, slots);
            check_places(&ring, base, slots, base, slots);
            check_contiguous(&ring, base, slots, base);
            check_places(&block, base, slots, base, slots);
            check_contiguous(&block, base, slots, base);
        }
    }
    kv_store pages = store_of(KV_PAGES, 0);
    check_places(&pages, 0, 4 * KV_PAGE, 0, 4 * KV_PAGE);
    check_contiguous(&pages, 0, 4 * KV_PAGE, 0);
    assert_int_equal(kv_offset(&pages, 2, KV_PAGE + 5, 0), ((0 * 3 + 2) * KV_PAGE + 5) * 8);
}

/* Offsets of a long context pass 2^31. */
static void test_large_offsets(void **state) {
    (void)state;
    int32_t table[] = { 70000 };
    kv_store s = { .kind = KV_PAGES, .heads = 8, .size = 128, .pages = table };
    assert_true(kv_offset(&s, 7, 0, 0) == ((70000LL * 8 + 7) * KV_PAGE) * 128);
    kv_store ring = { .kind = KV_RING, .heads = 8, .size = 4096, .slots = 1 << 20 };
    assert_true(kv_offset(&ring, 7, (1 << 20) + 5, 0) == (7LL * (1 << 20) + 5) * 4096);
}

/* Offsets are in elements, addresses in bytes. */
static void test_addresses(void **state) {
    (void)state;
    static char memory[64];
    kv_store s = store_of(KV_RING, 2);
    s.type = DT_BF16;
    assert_int_equal(kv_bytes(&s, 24), 48);
    assert_ptr_equal(kv_at(&s, memory, 24), memory + 48);
    s.type = DT_E4M3;
    assert_int_equal(kv_bytes(&s, 24), 24);
    assert_ptr_equal(kv_at(&s, memory, 24), memory + 24);
    assert_true(kv_bytes(&s, (int64_t)3 << 31) == (int64_t)3 << 31);
}

/* --- paths --- */

/* Every tree of up to six nodes: position base + d of a row is at its own ancestor of depth d. */
static void check_tree(const int32_t *parent, int32_t n, int32_t base) {
    static row_set t;
    tree_begin(&t, base, 0);
    for (int32_t i = 1; i < n; i++) assert_int_equal(tree_add(&t, parent[i], 0), i);
    for (int32_t r = 0; r < n; r++) {
        for (int32_t pos = 0; pos < base; pos++) assert_int_equal(kv_index(&t, r, pos), pos);
        int32_t node = r;
        for (int32_t pos = t.pos[r]; pos >= base; pos--, node = parent[node]) {
            assert_true(node >= 0);
            assert_int_equal(kv_index(&t, r, pos), base + node);
        }
        assert_int_equal(node, -1);
    }
}

static void each_tree(int32_t *parent, int32_t at, int32_t n) {
    if (at == n) {
        check_tree(parent, n, 0);
        check_tree(parent, n, 5);
        return;
    }
    for (parent[at] = 0; parent[at] < at; parent[at]++) each_tree(parent, at + 1, n);
}

static void test_paths(void **state) {
    (void)state;
    int32_t parent[6] = { -1 };
    for (int32_t n = 1; n <= 6; n++) each_tree(parent, 1, n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_seen), cmocka_unit_test(test_ring_size),     cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_places),     cmocka_unit_test(test_large_offsets), cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
