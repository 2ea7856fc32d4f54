/* Global attention and rotation at a million positions: every instruction set gives the bits of the reference, and the
 * reference is close to double precision.
 *
 * The page table names few pages again and again, so that a long context takes no memory. A mean over a million rows
 * would not notice if a block were lost; so a few marked positions, at the borders of blocks, runs and tiers, have keys
 * that weigh as much as all the others together, and each marks a column of its own. In the last column their values
 * cancel but for one part in 2^17: what is left shows in which order they were added. */
#include "tests/unit/long_fixture.h"

#include "kernels/kv_map.h"
#include "kernels/rope_freq.h"

#include <math.h>
#include <stdlib.h>

enum {
    SIZE = 16,
    ROWS = 8,
    COMMON = 7,           /* pages that stand for all others */
    MARKS = SIZE - 1,     /* marked positions; the last column is theirs no more */
    OWN = COMMON + MARKS, /* pages of marked positions, then four for the end */
    PHYSICAL = OWN + 4,   /* pages there are */
    TABLE = MILLION / KV_PAGE + 4,
    STREAM_K = 1,
    STREAM_V,
    STREAM_Q,
};

typedef struct world {
    pool *pool;
    kv_store store;
    int32_t table[TABLE];
    bf16 k[PHYSICAL * KV_PAGE * SIZE], v[PHYSICAL * KV_PAGE * SIZE];
    bf16 q[ROWS * SIZE], want[ROWS * SIZE], got[ROWS * SIZE];
    float gate[ROWS];
    int32_t mark[MARKS];
} world;

/* ---- the context ---- */

/* Queries are (1, 1, ...) and a little; a key with all elements s scores 16 s. */
static void put_row(world *w, int32_t page, int32_t slot, int32_t id) {
    bf16 *k = w->k + (page * KV_PAGE + slot) * SIZE, *v = w->v + (page * KV_PAGE + slot) * SIZE;
    for (int32_t c = 0; c < SIZE; c++) {
        k[c] = bf16_of_f32(0.25f * value(STREAM_K, id, c));
        v[c] = bf16_of_f32(c < MARKS ? 0.5f + 0.5f * value(STREAM_V, id, c) : 0.0f);
    }
}

/* A marked row: score near log(n / MARKS) above the others, value 8 in one column and nothing else but in the last. */
static void put_mark(world *w, int32_t page, int32_t slot, int32_t column, int32_t n) {
    bf16 *k = w->k + (page * KV_PAGE + slot) * SIZE, *v = w->v + (page * KV_PAGE + slot) * SIZE;
    float uneven = 1.0f + 0.004f * (float)(column * 7 % 5 - 2);
    for (int32_t c = 0; c < SIZE; c++) {
        k[c] = bf16_of_f32(logf((float)n / MARKS) / SIZE * uneven);
        v[c] = bf16_of_f32(c == column ? 8.0f : 0.0f);
    }
}

/* A row of the pass itself: as heavy as a mark, with values of its own. */
static void put_new(world *w, int32_t page, int32_t slot, int32_t id, int32_t n) {
    put_row(w, page, slot, id);
    for (int32_t c = 0; c < SIZE; c++)
        w->k[(page * KV_PAGE + slot) * SIZE + c] = bf16_of_f32(logf((float)n / MARKS) / SIZE);
}

static bf16 *row_of(const world *w, bf16 *rows, int32_t index) {
    return rows + (w->table[index / KV_PAGE] * KV_PAGE + index % KV_PAGE) * SIZE;
}

/* The last column of the marks up to base / 2: any values, then two that take back what they add up to. */
static void cancel_last(world *w, int32_t base) {
    enum { COARSE = 8, FINE = 9 };
    double weight[MARKS], sum = 0.0;
    for (int32_t m = 0; m <= FINE; m++) {
        const bf16 *k = row_of(w, w->k, w->mark[m]);
        double score = 0.0;
        for (int32_t c = 0; c < SIZE; c++) score += (double)f32_of_bf16(w->q[c]) * (double)f32_of_bf16(k[c]);
        weight[m] = exp(score);
        if (m >= COARSE || (base < 8192 && w->mark[m] > 4000)) continue;
        bf16 v = row_of(w, w->v, w->mark[m])[SIZE - 1] = bf16_of_f32(8.0f + 8.0f * value(STREAM_V, -1, m));
        sum += weight[m] * (double)f32_of_bf16(v);
    }
    for (int32_t m = COARSE; m <= FINE; m++) {
        bf16 v = row_of(w, w->v, w->mark[m])[SIZE - 1] = bf16_of_f32((float)(-sum / weight[m]));
        sum += weight[m] * (double)f32_of_bf16(v);
    }
    assert_true(sum != 0.0);
}

/* Positions 0 .. base + ROWS - 1, of which those from base on lie by index. */
static void build(world *w, int32_t base) {
    /* two in one run, behind others: sums of runs differ from the same sums without runs */
    const int32_t mark[MARKS] = { 0,        255,      256,        1023,       1024,       1300,     4096,    4400,
                                  base / 4, base / 2, base - 300, base - 257, base - 256, base - 2, base - 1 };
    int32_t last = (base + ROWS - 1) / KV_PAGE, near = (base - 300) / KV_PAGE;
    for (int32_t i = 0; i < COMMON * KV_PAGE; i++) put_row(w, i / KV_PAGE, i % KV_PAGE, i);
    for (int32_t i = 0; i <= last; i++) w->table[i] = (i * 5 + i / 64) % COMMON;
    for (int32_t i = last + 1; i < TABLE; i++) w->table[i] = INT32_MIN;
    int32_t own = COMMON;
    for (int32_t m = 0; m < MARKS + 4; m++) { /* pages that hold a mark, and the last ones */
        int32_t at = m < MARKS ? (mark[m] < base ? mark[m] : 0) / KV_PAGE : near + m - MARKS;
        if (at > last || w->table[at] >= COMMON) continue;
        w->table[at] = own;
        for (int32_t i = 0; i < KV_PAGE; i++) put_row(w, own, i, 1000000 + own * KV_PAGE + i);
        own++;
    }
    assert_true(own <= PHYSICAL);
    for (int32_t m = 0; m < MARKS; m++) {
        w->mark[m] = mark[m];
        if (mark[m] < base) put_mark(w, w->table[mark[m] / KV_PAGE], mark[m] % KV_PAGE, m, base);
    }
    for (int32_t i = base; i < base + ROWS; i++) put_new(w, w->table[i / KV_PAGE], i % KV_PAGE, 2000000 + i, base);
    w->store = (kv_store){ w->k, w->v, w->table, 0, 1, SIZE, KV_PAGES, DT_BF16, sizeof w->k, NULL };
    for (int32_t i = 0; i < ROWS * SIZE; i++) w->q[i] = bf16_of_f32(1.0f + 0.25f * value(STREAM_Q, 0, i % SIZE));
    for (int32_t r = 0; r < ROWS; r++) w->gate[r] = 0.5f + 0.1f * (float)r;
    cancel_last(w, base);
}

/* ---- in double precision ---- */

typedef struct exact {
    double y[SIZE], mass[SIZE]; /* the result, and the same of the values' magnitudes */
    double score;               /* the largest sum of magnitudes behind a score */
} exact;

/* Index of position `pos` on the way to row r: by parents, not by path. */
static int32_t index_of(const row_set *rows, int32_t r, int32_t pos) {
    while (rows->pos[r] > pos) {
        if (rows->parent[r] < 0) return pos;
        r = rows->parent[r];
    }
    return rows->base + r;
}

static exact softmax(world *w, const row_set *rows, int32_t r) {
    static double score[PHYSICAL * KV_PAGE];
    exact x = { .score = 0.0 };
    double q[SIZE], sum = 0.0, top = -INFINITY;
    for (int32_t c = 0; c < SIZE; c++) q[c] = (double)f32_of_bf16(w->q[r * SIZE + c]);
    for (int32_t i = 0; i < PHYSICAL * KV_PAGE; i++) {
        double all = 0.0;
        score[i] = 0.0;
        for (int32_t c = 0; c < SIZE; c++) {
            double product = q[c] * (double)f32_of_bf16(w->k[i * SIZE + c]);
            score[i] += product, all += fabs(product);
        }
        if (all > x.score) x.score = all;
        if (score[i] > top) top = score[i];
    }
    for (int32_t i = 0; i < PHYSICAL * KV_PAGE; i++) score[i] = exp(score[i] - top);
    for (int32_t pos = 0; pos <= rows->pos[r]; pos++) {
        int32_t index = pos < rows->base ? pos : index_of(rows, r, pos);
        double e = score[(row_of(w, w->k, index) - w->k) / SIZE];
        const bf16 *v = row_of(w, w->v, index);
        sum += e;
        for (int32_t c = 0; c < SIZE; c++)
            x.y[c] += e * (double)f32_of_bf16(v[c]), x.mass[c] += e * fabs((double)f32_of_bf16(v[c]));
    }
    double gate = log1p(exp((double)w->gate[r])) / sum;
    for (int32_t c = 0; c < SIZE; c++) x.y[c] *= gate, x.mass[c] *= gate;
    return x;
}

/* Units of 2^-24 by which a result may be off, times its mass. A score: SIZE + 1 roundings of its magnitude. Weight:
 * the difference of two scores and an exponential (2 ulp, 4 units). Sums in a block: KV_PAGE roundings of values,
 * KV_PAGE / 16 + 4 of weights. Joining: at most 64 blocks a run and 64 runs, for each a difference of scores, an
 * exponential, a product and a sum, 2 + 4 + 2 units. All of that above and below the line; 1 / L, two products, the
 * gate. */
static double tolerance(const exact *x) {
    double weight = 2.0 * (SIZE + 1) * x->score + x->score + 4.0;
    double joined = 128.0 * (x->score + 6.0);
    return (2.0 * (weight + joined) + KV_PAGE + KV_PAGE / 16 + 4 + 12.0) * 0x1p-24;
}

/* ---- tests ---- */

static void run_attn(world *w, isa i, const row_set *rows, bf16 *y) {
    attn_args a = { .q = { w->q, SIZE * 2, ROWS, SIZE, DT_BF16 },
                    .gate = { w->gate, 4, ROWS, 1, DT_F32 },
                    .y = { y, SIZE * 2, ROWS, SIZE, DT_BF16 },
                    .past = w->store,
                    .heads = 1,
                    .scale = 1.0f,
                    .rows_max = ROWS,
                    .rows = rows };
    memset(y, 0xFF, sizeof w->want);
    run_op(w->pool, i, OP_ATTN, &a);
}

static void check(world *w, int32_t base, int32_t n, bool tree) {
    static row_set rows;
    set_rows(&rows, base, n, tree);
    run_attn(w, ISA_REF, &rows, w->want);
    for (isa i = next_isa(ISA_REF); i < ISA_COUNT; i = next_isa(i)) {
        run_attn(w, i, &rows, w->got);
        if (memcmp(w->got, w->want, sizeof w->want)) fail_msg("%d rows from %d on: %s", n, base, isa_name(i));
    }
    for (int32_t r = 0; r < n; r++) {
        exact x = softmax(w, &rows, r);
        for (int32_t c = 0; c < SIZE; c++) {
            double got = (double)f32_of_bf16(w->want[r * SIZE + c]);
            double room = tolerance(&x) * x.mass[c] + 0x1p-8 * fabs(x.y[c]); /* and the rounding to BF16 */
            if (!(fabs(got - x.y[c]) <= room))
                fail_msg("row %d of %d (%s) from %d on, column %d: %.9g, expected %.9g", r, n, tree ? "tree" : "chain",
                         base, c, got, x.y[c]);
            /* half of the column is its mark: losing that row would show */
            if (c < MARKS) assert_true(x.y[c] > 0.4 && room < 0.1 * x.y[c]);
        }
    }
}

static void check_at(world *w, int32_t base) {
    build(w, base);
    check(w, base, 1, false);
    check(w, base, ROWS, false);
    check(w, base, ROWS, true);
}

/* The length of a run changes within these passes. */
static void test_tiers(void **state) {
    check_at(*state, 4096 + 350);
    check_at(*state, 32768 - 4);
    check_at(*state, 262144 - 4);
}

/* Rows up to the last position of 2^20, and across it. */
static void test_million(void **state) {
    check_at(*state, MILLION - ROWS);
    build(*state, MILLION - 3);
    check(*state, MILLION - 3, ROWS, true);
}

/* Positions whose first-tier border lies within the pass, where there is no room for all marks. */
static void test_first_tier(void **state) {
    world *w = *state;
    static row_set rows;
    build(w, 4096 + 350);
    for (int tree = 0; tree < 2; tree++) {
        set_rows(&rows, 4096 - 3, ROWS, tree);
        run_attn(w, ISA_REF, &rows, w->want);
        for (isa i = next_isa(ISA_REF); i < ISA_COUNT; i = next_isa(i)) {
            run_attn(w, i, &rows, w->got);
            assert_memory_equal(w->got, w->want, sizeof w->want);
        }
    }
}

/* ---- rotation ---- */

/* Cosine and sine of the angle that FP32 gives, and how far that angle is from the exact one. */
static void test_rope(void **state) {
    world *w = *state;
    enum { PAIRS = 32 };
    static const rope_freq FREQ[] = { { 500000.0, 64, true, 128.0, 32.0, 1.0, 8192.0, true },
                                      { .theta = 10000.0, .dim = 64 } };
    static const int32_t BASES[] = { MILLION - ROWS, MILLION - 3, (1 << 24) - ROWS };
    static float cosine[ROWS * PAIRS], sine[ROWS * PAIRS];
    static row_set rows;
    for (int f = 0; f < 2; f++) {
        float inv_freq[PAIRS], factor = f ? 1.0f : 1.4852030f;
        rope_inv_freq(&FREQ[f], inv_freq);
        for (int b = 0; b < 3; b++)
            for (isa i = ISA_REF; i < ISA_COUNT; i = next_isa(i)) {
                set_rows(&rows, BASES[b], ROWS, false);
                run_op(w->pool, i, OP_ROPE,
                       &(rope_args){ inv_freq,
                                     factor,
                                     { cosine, PAIRS * 4, ROWS, PAIRS, DT_F32 },
                                     { sine, PAIRS * 4, ROWS, PAIRS, DT_F32 },
                                     &rows });
                for (int32_t at = 0; at < ROWS * PAIRS; at++) {
                    double pos = (double)rows.pos[at / PAIRS], freq = (double)inv_freq[at % PAIRS];
                    float angle = (float)rows.pos[at / PAIRS] * inv_freq[at % PAIRS];
                    double c = cos((double)angle) * (double)factor, s = sin((double)angle) * (double)factor;
                    /* two roundings of a number below 2 */
                    assert_true(fabs((double)cosine[at] - c) <= 2.1 * 0x1p-24);
                    assert_true(fabs((double)sine[at] - s) <= 2.1 * 0x1p-24);
                    double off = pos * freq * 0x1p-24 + 1e-6; /* half an ulp of the angle */
                    assert_true(fabs((double)cosine[at] - cos(pos * freq) * (double)factor) <= off * (double)factor);
                    assert_true(fabs((double)sine[at] - sin(pos * freq) * (double)factor) <= off * (double)factor);
                }
            }
    }
}

/* ---- */

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    if (!w || pool_open(&w->pool, 1, NULL) != OK) return -1;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    pool_close(w->pool);
    free(w);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tiers), cmocka_unit_test(test_million),
                                        cmocka_unit_test(test_first_tier), cmocka_unit_test(test_rope) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
