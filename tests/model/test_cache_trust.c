/* Which files of conversations an engine takes for its own, and what the numbers in them can do: nothing but be refused
 * or be taken for what they say. */
#include "tests/model/cache_fixture.h"

#include "engine/base/log.h"
#include "engine/core/fingerprint.h"
#include "engine/core/timelines_disk.h"

/* ---- whose files ---- */

static uint64_t print_of(const char *dir) {
    pair p = { 0 };
    MUST(model_dir_open(&p.target_dir, SOURCE_FOLDER, dir, e));
    uint64_t print = fingerprint_pair(&p);
    model_dir_close(p.target_dir);
    return print;
}

/* Where the last bytes of a tensor lie in the file. */
static size_t end_of(const char *dir, const char *name, str file) {
    model_dir *m;
    MUST(model_dir_open(&m, SOURCE_FOLDER, dir, e));
    const tensor *t = model_dir_find(m, name);
    assert_true(t && t->bytes > 1 << 16);
    const char *at = memmem(file.p, file.n, t->data + t->bytes - 256, 256);
    assert_non_null(at);
    model_dir_close(m);
    return (size_t)(at - file.p) + 255;
}

/* A copy is the same model; one byte of its config, or of a tensor's beginning or end, makes it another. */
static void test_fingerprint(void **state) {
    (void)state;
    static const char CONFIG[] = "config.json", SHARD[] = "model-00001-of-00002.safetensors";
    static const char *const FILES[] = { CONFIG, SHARD, "model-00002-of-00002.safetensors",
                                         "model.safetensors.index.json" };
    scratch s;
    scratch_init(&s);
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        buf bytes = read_file("target/demo", FILES[i]);
        write_bytes(s.model, FILES[i], buf_view(&bytes));
        buf_free(&bytes);
    }
    uint64_t want = print_of("target/demo"), header;
    assert_int_equal(print_of(s.model), want);
    buf config = read_file(s.model, CONFIG), shard = read_file(s.model, SHARD);
    buf_byte(&config, ' ');
    write_bytes(s.model, CONFIG, buf_view(&config));
    assert_int_not_equal(print_of(s.model), want);
    config.len--;
    write_bytes(s.model, CONFIG, buf_view(&config));
    memcpy(&header, shard.data, sizeof header);
    const size_t places[] = { 8 + header, 8 + header + 4095,
                              end_of(s.model, "model.embed_tokens.weight", buf_view(&shard)) };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        shard.data[places[i]] ^= 1;
        write_bytes(s.model, SHARD, buf_view(&shard));
        assert_int_not_equal(print_of(s.model), want);
        shard.data[places[i]] ^= 1;
    }
    write_bytes(s.model, SHARD, buf_view(&shard));
    assert_int_equal(print_of(s.model), want);
    buf_free(&config), buf_free(&shard);
    scratch_deinit(&s);
}

/* So does whatever else decides what rows are, or how they lie in a file. */
static void test_fingerprint_of_pair(void **state) {
    (void)state;
    pair *p = demo_open(CTX);
    int32_t *const number[] = { &p->target.cfg.window,       &p->draft.cfg.window,    &p->draft.cfg.tap_layer[0],
                                &p->target.kv.layer[0].size, &p->draft.ring[0].heads, &p->target.kv.layers };
    uint64_t want = fingerprint_pair(p);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        *number[i] -= 1;
        assert_int_not_equal(fingerprint_pair(p), want);
        *number[i] += 1;
    }
    p->target.kv.layer[0].type = DT_E4M3;
    assert_int_not_equal(fingerprint_pair(p), want);
    p->target.kv.layer[0].type = DT_BF16;
    model_dir *own = p->draft_dir;
    p->draft_dir = p->target_dir;
    assert_int_not_equal(fingerprint_pair(p), want);
    p->draft_dir = own;
    assert_int_equal(fingerprint_pair(p), want);
    demo_close(p);
}

/* ---- hostile files ---- */

static timelines_stats load_once(pair *p, const char *dir, uint64_t print) {
    timelines *tl;
    MUST(timelines_open(&tl, &p->target, &p->draft, p->steps, 24, e));
    MUST(timelines_load(tl, dir, print, e));
    timelines_stats st = timelines_get_stats(tl);
    timelines_close(tl);
    return st;
}

static void sum_up(buf *b) {
    uint64_t sum = hash64_of(0, b->data, 56);
    memcpy(b->data + 56, &sum, sizeof sum);
    sum = hash64_of(0, b->data, b->len - sizeof sum);
    memcpy(b->data + b->len - sizeof sum, &sum, sizeof sum);
}

/* The shortest conversation's file, alone in its folder. */
static void leave_shortest(const char *dir, char out[CACHE_NAME_MAX]) {
    char name[8][CACHE_NAME_MAX];
    struct stat st;
    off_t least = 0;
    int n = files_of(dir, name, 8);
    for (int i = 0; i < n; i++) {
        assert_int_equal(stat(path_in(dir, name[i]), &st), 0);
        if (least == 0 || st.st_size < least) least = st.st_size, memcpy(out, name[i], CACHE_NAME_MAX);
    }
    for (int i = 0; i < n; i++)
        if (strcmp(name[i], out) != 0) unlink(path_in(dir, name[i]));
}

/* Any number in the tables set to any value, with right sums: refused, or taken as what it then says. */
static void test_hostile_numbers(void **state) {
    static const int32_t VALUES[] = { -1, 0, 1, 63, 150, 151, 2600, 4096, 65536, INT32_MAX, INT32_MIN };
    char name[CACHE_NAME_MAX];
    scratch s = copy_of(*state);
    pair *p = demo_open(CTX);
    uint64_t print = fingerprint_pair(p);
    leave_shortest(s.model, name);
    buf good = read_file(s.model, name), bad = { 0 };
    assert_int_equal(load_once(p, s.model, print).timelines, 1);
    uint32_t tokens, marks;
    memcpy(&tokens, good.data + 24, 4), memcpy(&marks, good.data + 28, 4);
    log_capture c = log_capture_begin();
    int32_t refused = 0, taken = 0;
    for (uint32_t word = 0; word < tokens + 8 * marks; word += word < tokens - 29 ? 29 : 1)
        for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
            buf_clear(&bad);
            buf_str(&bad, buf_view(&good));
            memcpy(bad.data + CACHE_HEAD_BYTES + 4 * word, &VALUES[i], sizeof *VALUES);
            sum_up(&bad);
            write_bytes(s.model, name, buf_view(&bad));
            bool fits = load_once(p, s.model, print).timelines == 1;
            taken += fits, refused += !fits;
            /* a checkpoint's positions must agree with each other and with the length of the body */
            bool is_position = word >= tokens && (0x2F >> (word - tokens) % 8 & 1);
            bool same = memcmp(bad.data, good.data, good.len) == 0;
            if (is_position && fits != same) log_error("test", "word %u set to %d", word, VALUES[i]);
        }
    char *said = log_capture_end(c);
    if (lines_of(said) != refused) fail_msg("%d lines for %d files: %s", lines_of(said), refused, said);
    assert_true(refused > 100 && taken > 20); /* other tokens, ages and savings are possible ones */
    free(said);
    buf_free(&good), buf_free(&bad);
    demo_close(p);
    scratch_deinit(&s);
}

/* Keys and values that are no numbers give some text. */
static void test_hostile_body(void **state) {
    saved *v = *state;
    answer got[CONVERSATIONS];
    char name[8][CACHE_NAME_MAX];
    scratch s = copy_of(v);
    for (int i = 0, n = files_of(s.model, name, 8); i < n; i++) {
        buf b = read_file(s.model, name[i]);
        uint32_t tokens, marks;
        memcpy(&tokens, b.data + 24, 4), memcpy(&marks, b.data + 28, 4);
        size_t body = CACHE_HEAD_BYTES + 4 * tokens + 32 * marks;
        memset(b.data + body, i % 2 ? 0xFF : 0x7F, b.len - body);
        sum_up(&b);
        write_bytes(s.model, name[i], buf_view(&b));
        buf_free(&b);
    }
    engine *en = start(options(s.model));
    ask_all(en, &v->t, got);
    for (int32_t i = 0; i < CONVERSATIONS; i++) {
        assert_true(is_warm(&got[i]));
        assert_int_equal(got[i].ids.n, ANSWER);
    }
    engine_close(en);
    answers_free(got);
    scratch_deinit(&s);
}

/* Timelines that grew from one prefix share its pages again, and its checkpoints. */
static void test_shared_pages(void **state) {
    saved *v = *state;
    pair *p = demo_open(CTX);
    timelines_stats st = load_once(p, v->s.model, fingerprint_pair(p));
    assert_int_equal(st.timelines, 3);
    assert_int_equal(st.pages_used, 12 + 3 + 1);
    assert_int_equal(st.checkpoints, 4 + 3 - 1 + 2); /* that at CHECKPOINT_EVERY is one for both */
    demo_close(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fingerprint),     cmocka_unit_test(test_fingerprint_of_pair),
        cmocka_unit_test(test_hostile_numbers), cmocka_unit_test(test_hostile_body),
        cmocka_unit_test(test_shared_pages),
    };
    return cmocka_run_group_tests_name("cache_trust", tests, setup, teardown);
}
