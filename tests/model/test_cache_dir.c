/* Conversations that outlast the engine, on the demo pair: an engine over the folder of an earlier one starts where
 * that ended and says what a cold one says. Whatever is wrong with the folder costs what it costs, and no more. */
#include "tests/model/cache_fixture.h"

/* ---- what comes back ---- */

/* Every first request is served from the folder, prompts that go on as well, and the text is that of a cold run. */
static void test_second_start(void **state) {
    saved *v = *state;
    talk t = v->t;
    answer cold[CONVERSATIONS], warm[CONVERSATIONS];
    char name[8][CACHE_NAME_MAX];
    scratch s = copy_of(v);
    engine *fresh = start((engine_options){ .ctx = CTX }), *en = start(options(s.model));
    ask_all(en, &t, warm);
    for (int32_t i = 0; i < CONVERSATIONS; i++) t.q[i].reuse = false;
    ask_all(fresh, &t, cold);
    for (int32_t i = 0; i < CONVERSATIONS; i++) assert_true(is_cold(&cold[i]) && is_warm(&warm[i]));
    check_all(v->cold, cold, "before the end");
    check_all(warm, cold, "after a restart");
    engine_close(en);
    assert_int_equal(files_of(s.model, name, 8), CONVERSATIONS);
    /* one conversation goes on: the answer, then something new */
    token_list longer = { 0 };
    for (size_t i = 0; i < t.prompt[2].n; i++) token_list_push(&longer, t.prompt[2].ids[i]);
    for (size_t i = 0; i < cold[2].ids.n; i++) token_list_push(&longer, cold[2].ids.ids[i]);
    for (int32_t i = 0; i < 40; i++) token_list_push(&longer, 300 + i);
    question more = ask(&longer, 60, SPEC_DEFAULT);
    answer alone = get_answer(fresh, &more);
    en = start(options(s.model));
    more.reuse = true;
    answer on = get_answer(en, &more);
    assert_true(on.totals.cached >= LONG + ANSWER - 1);
    check_same(&on, &alone, "a conversation that goes on after a restart", 0);
    engine_close(en);
    engine_close(fresh);
    assert_int_equal(files_of(s.model, name, 8), CONVERSATIONS); /* the longer one has replaced its beginning */
    answers_free(cold), answers_free(warm);
    answer_free(&alone), answer_free(&on);
    token_list_free(&longer);
    scratch_deinit(&s);
}

/* What nobody wants remembered is not written, and a start without requests changes nothing. */
static void test_nothing_to_save(void **state) {
    saved *v = *state;
    char name[8][CACHE_NAME_MAX];
    scratch s;
    scratch_init(&s);
    engine *en = start(options(s.model));
    question secret = v->t.q[0], few = v->t.q[0];
    secret.reuse = false;
    few.n = 20, few.max_new = 4;
    answer a = get_answer(en, &secret), b = get_answer(en, &few);
    engine_close(en);
    assert_int_equal(files_of(s.model, name, 8), 0);
    answer_free(&a), answer_free(&b);
    scratch_deinit(&s);
    s = copy_of(v);
    engine_options small = options(s.model);
    small.ctx = 512, small.cache_tokens = 0, small.checkpoints = 0;
    engine_close(start(small));
    assert_int_equal(files_of(s.model, name, 8), CONVERSATIONS);
    scratch_deinit(&s);
}

/* Memory of an engine, and which conversations then have room; -1: longer than the context. Kept are, in this order, 3
 * (12 pages), 2 (3 pages beside those it shares), 1 (4 pages), 0 (1 page). */
typedef struct room {
    int32_t ctx, cache, checkpoints, warm[CONVERSATIONS];
} room;

static const room ROOMS[] = {
    { CTX, 0, 24, { 1, 0, 1, 1 } },      { 1024, 4096, 24, { 1, 1, -1, -1 } }, { CTX, 2 * CTX, 4, { 1, 1, 1, 1 } },
    { CTX, 2 * CTX, 1, { 0, 0, 0, 1 } }, { CTX, 2 * CTX, 0, { 0, 0, 0, 0 } },
};

/* Less memory than before: what is worth most comes back as far as it fits. */
static void test_less_room(void **state) {
    saved *v = *state;
    for (size_t c = 0; c < sizeof ROOMS / sizeof *ROOMS; c++)
        for (int32_t i = 0; i < CONVERSATIONS; i++) {
            const room *r = &ROOMS[c];
            if (r->warm[i] < 0) continue;
            scratch s = copy_of(v);
            engine_options opt = options(s.model);
            opt.ctx = r->ctx, opt.cache_tokens = r->cache, opt.checkpoints = r->checkpoints;
            engine *en = start(opt);
            answer a = get_answer(en, &v->t.q[i]);
            check_same(&a, &v->cold[i], "with less room", i);
            if (is_warm(&a) != (r->warm[i] == 1))
                fail_msg("room %zu, conversation %d: %d tokens cached", c, i, a.totals.cached);
            engine_close(en);
            answer_free(&a);
            scratch_deinit(&s);
        }
}

/* ---- what does not ---- */

/* One damaged file: one warning with its name, one conversation cold, and the text of all is right. At the end the
 * conversation is saved anew in its place. */
static void check_damage(const saved *v, int which, size_t flip, size_t cut) {
    answer warm[CONVERSATIONS];
    char name[8][CACHE_NAME_MAX];
    scratch s = copy_of(v);
    assert_int_equal(files_of(s.model, name, 8), CONVERSATIONS);
    buf bytes = read_file(s.model, name[which]);
    bytes.data[flip < bytes.len ? flip : bytes.len / 2] ^= 4;
    bytes.len -= cut;
    write_bytes(s.model, name[which], buf_view(&bytes));
    buf_free(&bytes);
    for (int32_t faults = 1; faults >= 0; faults--) {
        log_capture c = log_capture_begin();
        engine *en = start(options(s.model));
        char *said = log_capture_end(c);
        assert_int_equal(lines_of(said), faults);
        if (faults) assert_has(said, name[which]), assert_has(said, "damaged");
        ask_all(en, &v->t, warm);
        check_all(warm, v->cold, faults ? "beside a damaged file" : "after it was written anew");
        int32_t lost = 0;
        for (int32_t i = 0; i < CONVERSATIONS; i++) lost += !is_warm(&warm[i]);
        assert_int_equal(lost, faults);
        free(said);
        answers_free(warm);
        engine_close(en);
    }
    assert_int_equal(files_of(s.model, name, 8), CONVERSATIONS);
    scratch_deinit(&s);
}

static void test_damaged(void **state) {
    check_damage(*state, 0, 33, 0); /* in its head */
    check_damage(*state, 1, SIZE_MAX, 0);
    check_damage(*state, 2, SIZE_MAX, 0);
    check_damage(*state, 3, 100, 1000);
}

/* Without the draft the files are somebody else's: named, not used, not touched. The same weights from other folders
 * are the same pair. */
static void test_foreign(void **state) {
    saved *v = *state;
    answer got[CONVERSATIONS];
    char name[16][CACHE_NAME_MAX];
    scratch s = copy_of(v);
    engine_options opt = options(s.model);
    opt.target_dir = "target/demo";
    log_capture c = log_capture_begin();
    engine *en = start(opt);
    ask_all(en, &v->t, got);
    engine_close(en);
    char *said = log_capture_end(c);
    assert_int_equal(lines_of(said), CONVERSATIONS);
    assert_has(said, "another model");
    for (int32_t i = 0; i < CONVERSATIONS; i++) assert_false(is_warm(&got[i]));
    check_all(got, v->cold, "without the draft");
    answers_free(got);
    free(said);
    assert_int_equal(files_of(s.model, name, 16), 2 * CONVERSATIONS);
    opt.draft_dir = "draft/demo";
    c = log_capture_begin();
    en = start(opt);
    free(log_capture_end(c));
    ask_all(en, &v->t, got);
    for (int32_t i = 0; i < CONVERSATIONS; i++) assert_true(is_warm(&got[i]));
    check_all(got, v->cold, "from folders");
    engine_close(en);
    assert_int_equal(files_of(s.model, name, 16), 2 * CONVERSATIONS);
    answers_free(got);
    scratch_deinit(&s);
}

/* Keys and values of another type are somebody else's too; those of one's own come back. */
static void test_fp8(void **state) {
    saved *v = *state;
    answer cold, warm;
    scratch s = copy_of(v);
    engine_options opt = options(s.model);
    opt.kv_dtype = KV_FP8_E4M3;
    log_capture c = log_capture_begin();
    engine *en = start(opt);
    cold = get_answer(en, &v->t.q[2]);
    engine_close(en);
    en = start(opt);
    warm = get_answer(en, &v->t.q[2]);
    engine_close(en);
    char *said = log_capture_end(c);
    assert_int_equal(lines_of(said), 2 * CONVERSATIONS);
    assert_true(is_cold(&cold) && is_warm(&warm));
    check_same(&warm, &cold, "keys and values in eight bits", 0);
    answer_free(&cold), answer_free(&warm);
    free(said);
    scratch_deinit(&s);
}

/* One warning in the life of the engine, which works. */
static void test_no_folder(void **state) {
    saved *v = *state;
    scratch s;
    scratch_init(&s);
    write_bytes(s.base, "file", STR("x"));
    char file[128], below[128];
    snprintf(file, sizeof file, "%s/file", s.base);
    snprintf(below, sizeof below, "%s/file/below", s.base);
    const char *const BAD[] = { "", file, below, "/proc" };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        log_capture c = log_capture_begin();
        engine *en = start(options(BAD[i]));
        answer a = get_answer(en, &v->t.q[0]);
        engine_close(en);
        char *said = log_capture_end(c);
        assert_int_equal(a.ids.n, ANSWER);
        if (lines_of(said) != 1 || !strstr(said, "cache")) fail_msg("\"%s\": %s", BAD[i], said);
        assert_has(said, BAD[i]);
        answer_free(&a);
        free(said);
    }
    scratch_deinit(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_start), cmocka_unit_test(test_nothing_to_save), cmocka_unit_test(test_less_room),
        cmocka_unit_test(test_damaged),      cmocka_unit_test(test_foreign),         cmocka_unit_test(test_fp8),
        cmocka_unit_test(test_no_folder),
    };
    return cmocka_run_group_tests_name("cache_dir", tests, setup, teardown);
}
