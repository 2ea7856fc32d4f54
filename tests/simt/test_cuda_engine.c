/* A device that is lost while it answers: the launch of a step fails, the stream reports an error, or the result never
 * comes. The running request ends with GEN_FAILED and the reason, the waiting one too, the engine is FAILED, and
 * closing it gives everything back.
 *
 * link: -Wl,--wrap=cudaGraphLaunch,--wrap=cudaStreamQuery,--wrap=calibrate
 */
#include "tests/model/device_fixture.h"

#include <stdatomic.h>

#include "engine/base/clock.h"
#include "engine/core/calibrate.h"
#include "engine/engine.h"

enum { NEW = 30, PROMPT = 20, PATIENCE_S = 120, GOOD_STEPS = 3 };
enum { CUDA_NOT_READY = 600, CUDA_ILLEGAL_ADDRESS = 700, CUDA_UNKNOWN = 999 }; /* cudaError_t */

/* ---- faults ---- */

typedef enum loss { LOSS_NONE, LOSS_LAUNCH, LOSS_CONTEXT, LOSS_STREAM, LOSS_RESULT } loss;

/* What happens behind the next `launches` launches. */
static struct {
    _Atomic loss how;
    _Atomic int launches, queries;
    _Atomic int kept; /* answers of cudaStreamQuery that cudaGetLastError still tells with the next one */
} fault;

int __real_cudaGraphLaunch(void *exec, void *stream);
int __wrap_cudaGraphLaunch(void *exec, void *stream);
int __real_cudaStreamQuery(void *stream);
int cudaGetLastError(void);
int __wrap_cudaStreamQuery(void *stream);
void __wrap_calibrate(pair *p, width *w);

int __wrap_cudaGraphLaunch(void *exec, void *stream) {
    if (fault.how == LOSS_NONE || atomic_fetch_sub(&fault.launches, 1) > 0) return __real_cudaGraphLaunch(exec, stream);
    if (fault.how == LOSS_LAUNCH) return CUDA_UNKNOWN;
    if (fault.how == LOSS_CONTEXT) {
        simt_fail("cudaGraphLaunch", 1, CUDA_ILLEGAL_ADDRESS);
        return __real_cudaGraphLaunch(exec, stream);
    }
    return 0; /* as if it had been taken */
}

int __wrap_cudaStreamQuery(void *stream) {
    if (fault.how == LOSS_NONE) return __real_cudaStreamQuery(stream);
    if (cudaGetLastError() != 0) fault.kept++;
    if (atomic_fetch_add(&fault.queries, 1) < 3) {
        simt_fail("cudaStreamQuery", 1, CUDA_NOT_READY); /* the runtime keeps it, as on a GPU */
        return __real_cudaStreamQuery(stream);
    }
    return fault.how == LOSS_STREAM ? CUDA_ILLEGAL_ADDRESS : 0;
}

/* Measuring takes long here. */
void __wrap_calibrate(pair *p, width *w) { (void)p, (void)w; }

/* ---- asking ---- */

typedef struct answer {
    int started, rounds, done, failed;
    status code;
    char why[256];
} answer;

static void submit(engine *en, const int32_t *prompt, answer *a) {
    arena *mem = arena_new();
    int32_t *tokens = arena_alloc(mem, PROMPT * sizeof *tokens);
    memcpy(tokens, prompt, PROMPT * sizeof *tokens);
    gen_request rq = { .tokens = tokens,
                       .n_tokens = PROMPT,
                       .max_new = NEW,
                       .pick = { .top_p = 1.0f },
                       .reply = { .ignore_end = true },
                       .spec = { SPEC_FIXED, 7, 0, 0.0f },
                       .logprobs = -1,
                       .mem = mem,
                       .user = a };
    gen_id id;
    MUST(engine_submit(en, &rq, &id, e));
}

static void drain(engine *en) {
    gen_event ev;
    while (engine_drain(en, &ev, 1)) {
        answer *a = ev.user;
        a->started += ev.kind == GEN_STARTED;
        a->rounds += ev.kind == GEN_ROUND;
        a->done += ev.kind == GEN_DONE;
        if (ev.kind != GEN_FAILED) continue;
        a->failed++;
        a->code = ev.u.fail.code;
        snprintf(a->why, sizeof a->why, "%.*s", STR_ARG(ev.text));
    }
}

static void wait_for_end(engine *en, const answer *a) {
    int64_t end = clock_ns() + (int64_t)PATIENCE_S * 1000000000;
    for (drain(en); a->done + a->failed == 0; drain(en)) {
        if (clock_ns() > end) fail_msg("the engine has been silent for %d s", PATIENCE_S);
        engine_wait(en, 100000000);
    }
}

static engine *start(void) {
    engine *en;
    engine_options opt = { .target_dir = TINY_TARGET,
                           .draft_dir = TINY_DRAFT,
                           .backend = BACKEND_CUDA,
                           .ctx = 512,
                           .proposers = PROPOSE_DRAFT,
                           .spec = { SPEC_FIXED, SPEC_DEFAULT, SPEC_DEFAULT, 0.0f },
                           .cache_tokens = 512,
                           .checkpoints = 2,
                           .queue_max = 4 };
    MUST(engine_open(&en, &opt, e));
    while (engine_get_state(en, NULL) == ENGINE_LOADING) engine_wait(en, 100000000);
    if (engine_get_state(en, NULL) != ENGINE_READY) {
        err why;
        engine_get_failure(en, &why);
        fail_msg("the engine did not start: %s", why.text);
    }
    assert_string_equal(engine_get_facts(en)->isa, "SIMT shim");
    assert_int_equal(engine_get_facts(en)->lanes, 0);
    return en;
}

/* ---- losses ---- */

static void expect_failed(const answer *a, const char *part, const char *which) {
    if (a->failed != 1 || a->done != 0 || a->code != ERR_DEVICE || !strstr(a->why, part))
        fail_msg("%s: failed %d, done %d, status %d \"%s\", expected \"%s\"", which, a->failed, a->done, a->code,
                 a->why, part);
}

static void lose(loss how, const char *part) {
    int32_t prompt[PROMPT];
    answer running = { 0 }, waiting = { 0 }, late = { 0 };
    junk_tokens(prompt, PROMPT, 9);
    engine *en = start();
    fault.launches = GOOD_STEPS;
    fault.queries = 0;
    fault.kept = 0;
    fault.how = how;
    submit(en, prompt, &running);
    submit(en, prompt, &waiting);
    wait_for_end(en, &running);
    wait_for_end(en, &waiting);
    expect_failed(&running, part, "the running request");
    expect_failed(&waiting, part, "the waiting request");
    assert_int_equal(running.started, 1);
    assert_true(running.rounds > 0 && running.rounds <= GOOD_STEPS); /* it was in mid-stream */
    assert_int_equal(waiting.rounds, 0);
    assert_int_equal(fault.kept, 0);
    while (engine_get_state(en, NULL) == ENGINE_READY) engine_wait(en, 100000000);
    assert_int_equal(engine_get_state(en, NULL), ENGINE_FAILED);
    err why;
    engine_get_failure(en, &why);
    assert_int_equal(why.code, ERR_DEVICE);
    assert_non_null(strstr(why.text, part));
    submit(en, prompt, &late);
    wait_for_end(en, &late);
    expect_failed(&late, part, "a late request");
    fault.how = LOSS_NONE;
    if (how == LOSS_CONTEXT) simt_reset_faults(); /* what a dead context holds is not ours to free */
    engine_close(en);
    assert_int_equal(simt_device_allocations(), 0);
    assert_int_equal(simt_host_allocations(), 0);
}

static void test_launch_fails(void **state) {
    (void)state;
    lose(LOSS_LAUNCH, "SIMT shim failed while starting a step");
}

static void test_context_lost(void **state) {
    (void)state;
    lose(LOSS_CONTEXT, "SIMT shim failed while starting a step: illegal memory access (cudaErrorIllegalAddress)");
}

static void test_stream_fails(void **state) {
    (void)state;
    lose(LOSS_STREAM, "SIMT shim failed while running a step: illegal memory access (cudaErrorIllegalAddress)");
}

static void test_no_result(void **state) {
    (void)state;
    lose(LOSS_RESULT, "SIMT shim failed while waiting for the result of a step");
}

/* ... and without a fault an answer ends as it should. */
static void test_well(void **state) {
    (void)state;
    int32_t prompt[PROMPT];
    answer a = { 0 };
    junk_tokens(prompt, PROMPT, 9);
    engine *en = start();
    submit(en, prompt, &a);
    wait_for_end(en, &a);
    assert_int_equal(a.done, 1);
    assert_int_equal(engine_get_state(en, NULL), ENGINE_READY);
    engine_close(en);
    assert_int_equal(simt_device_allocations() + simt_host_allocations(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well),         cmocka_unit_test(test_launch_fails), cmocka_unit_test(test_context_lost),
        cmocka_unit_test(test_stream_fails), cmocka_unit_test(test_no_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
