/* A draft whose own max_position_embeddings is below the served context, on the tiny pair. Its rotation is computed for
 * any position and its rings know no length, so the limit is none: drafting goes on behind it, proposal by proposal as
 * with a draft that states a larger limit, and answers are those of plain decoding. */
#include "tests/model/tiny_fixture.h"

#include "engine/core/turn.h"

enum { CTX = 512, ANSWER = 64, WIDTH = 7, MARKS = 8, PROMPT_MAX = 440 };

/* The fault's prompts; then below the limit again, up to it, and what starts with that. */
static const int32_t PROMPTS[] = { 100, 127, 128, 129, 300, 60, 120, 160, 440 };
enum { N_PROMPTS = sizeof PROMPTS / sizeof PROMPTS[0] };

static int32_t tokens[PROMPT_MAX];

/* Tokens and accepted proposals of all answers, one after the other. */
typedef struct record {
    int32_t token[N_PROMPTS][ANSWER], accepted[N_PROMPTS][ANSWER], rounds[N_PROMPTS], known[N_PROMPTS];
} record;

static void answer(turn *t, int32_t at, int32_t width, bool reuse, record *out) {
    int32_t n = PROMPTS[at], have = 0;
    steps_set_pick(t->steps, &(pick_params){ .top_p = 1.0f });
    out->known[at] = turn_begin(t, tokens, n, reuse);
    while (have == 0) {
        const step_out *o = turn_prefill(t, PREFILL_MAX);
        if (o->n) out->token[at][have++] = o->token[0];
    }
    timelines_mark(t->timelines);
    while (have < ANSWER) {
        int32_t depth = ANSWER - have - 1 < width ? ANSWER - have - 1 : width;
        const step_out *o = depth ? turn_speculate(t, &(round_shape){ .depth = depth, .branch = 1, .nodes = depth })
                                  : turn_verify(t, NULL, 0);
        assert_int_equal(o->draft_depth, depth);
        if (depth) out->accepted[at][out->rounds[at]++] = o->accepted;
        for (int32_t i = 0; i < o->n; i++) out->token[at][have++] = o->token[i];
    }
    turn_end(t, ANSWER);
}

/* All prompts in a row with a draft that states this limit. */
static void run(const char *target_dir, const char *draft_dir, int32_t width, bool reuse, record *out) {
    pair p;
    timelines *tl;
    *out = (record){ 0 };
    MUST(pair_load(&p, target_dir, draft_dir, false, NULL, NULL, e));
    MUST(pair_start(&p, &(engine_options){ .lanes = 1, .ctx = CTX, .cache_tokens = 2 * CTX, .checkpoints = MARKS }, e));
    MUST(timelines_open(&tl, &p.target, &p.draft, p.steps, MARKS, e));
    turn t = { .steps = p.steps, .timelines = tl };
    for (int32_t i = 0; i < N_PROMPTS; i++) answer(&t, i, width, reuse, out);
    timelines_close(tl);
    pair_close(&p);
}

static void check_tokens(const record *got, const record *want, const char *what) {
    for (int32_t i = 0; i < N_PROMPTS; i++)
        for (int32_t k = 0; k < ANSWER; k++)
            if (got->token[i][k] != want->token[i][k])
                fail_msg("%s, prompt of %d: token %d is %d, expected %d", what, PROMPTS[i], k, got->token[i][k],
                         want->token[i][k]);
}

static void test_limits(void **state) {
    (void)state;
    static const char *const LIMITS[] = { "4096", "128", NULL, "8192" };
    static const char *const NAMES[] = { "limit 4096", "limit 128", "no limit stated", "limit 8192" };
    static const char TARGET[] = "tests/golden/tiny_target";
    static record plain, want, got;
    scratch dir;
    scratch_init(&dir);
    for (int32_t i = 0; i < PROMPT_MAX; i++) tokens[i] = 30 + i * i % 401;
    for (int k = 0; k < 4; k++) {
        char draft_dir[256];
        tiny_folder(&dir, NAMES[k], "tests/golden/tiny_draft", LIMITS[k], draft_dir);
        if (k == 0) {
            run(TARGET, draft_dir, 0, false, &plain);
            run(TARGET, draft_dir, WIDTH, true, &want);
            check_tokens(&want, &plain, NAMES[k]);
            assert_in_range(want.known[N_PROMPTS - 2], 119, 120); /* 160 starts with 120 */
            continue;
        }
        run(TARGET, draft_dir, WIDTH, true, &got);
        check_tokens(&got, &plain, NAMES[k]);
        assert_memory_equal(&got, &want, sizeof got);
    }
    scratch_deinit(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_limits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
