/* The two boxes between the threads: nothing is lost, doubled or out of order, payloads live until the next drain, the
 * front end is woken once per filled box, and a request ends exactly once whenever it is cancelled. To be run under the
 * thread sanitizer as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/core/mailbox.h"

enum { MS = 1000000 };

static gen_id submit(mailbox *m, void *user) {
    err e = { 0 };
    gen_id id = 0;
    gen_request rq = { .n_tokens = 5, .max_new = 1, .mem = arena_new(), .user = user };
    if (mailbox_submit(m, &rq, &id, &e) != OK) fail_msg("%s", e.text);
    return id;
}

static void expect_busy(mailbox *m) {
    gen_request rq = { .n_tokens = 1, .mem = NULL };
    gen_id id = 77;
    assert_int_equal(mailbox_submit(m, &rq, &id, NULL), ERR_BUSY);
    assert_int_equal(id, 77);
}

/* Takes the next request, which must be this one, and frees its memory. */
static void expect_taken(mailbox *m, gen_id id) {
    taken_request tr;
    assert_true(mailbox_take(m, &tr));
    assert_int_equal(tr.id, id);
    assert_true(tr.submitted_ns > 0 && tr.submitted_ns <= clock_ns());
    arena_free(tr.rq.mem);
}

static void post_text(mailbox *m, const char *text) {
    mailbox_post_begin(m);
    mailbox_post(m, &(gen_event){ .kind = GEN_TEXT, .text = str_of(text) });
    mailbox_post_end(m);
}

static void expect_text(const gen_event *ev, const char *text) {
    assert_int_equal(ev->kind, GEN_TEXT);
    assert_int_equal(ev->text.n, strlen(text));
    assert_memory_equal(ev->text.p, text, ev->text.n);
}

/* ---- one thread ---- */

static void test_queue(void **state) {
    (void)state;
    mailbox *m = mailbox_new(2);
    gen_id a = submit(m, NULL), b = submit(m, NULL), c = submit(m, NULL); /* one of them will not wait */
    assert_true(a != 0 && b == a + 1 && c == b + 1);
    expect_busy(m);
    expect_taken(m, a);
    expect_busy(m); /* a runs, b and c wait */
    expect_taken(m, b);
    gen_id d = submit(m, NULL);
    expect_taken(m, c);
    expect_taken(m, d);
    mailbox_free(m);
    m = mailbox_new(3);
    submit(m, NULL); /* freed with the box */
    mailbox_free(m);
    mailbox_free(NULL);
}

static void test_cancel(void **state) {
    (void)state;
    mailbox *m = mailbox_new(3);
    int user;
    gen_event ev[4];
    gen_id a = submit(m, NULL), b = submit(m, &user), c = submit(m, NULL);
    expect_taken(m, a);
    mailbox_cancel(m, 0);
    mailbox_cancel(m, 1000);
    assert_false(mailbox_cancelled(m));
    assert_int_equal(mailbox_drain(m, ev, 4), 0);
    mailbox_cancel(m, b);
    assert_false(mailbox_cancelled(m)); /* another one runs */
    mailbox_cancel(m, b);               /* it is gone */
    assert_int_equal(mailbox_drain(m, ev, 4), 1);
    assert_int_equal(ev[0].kind, GEN_DONE);
    assert_int_equal(ev[0].id, b);
    assert_ptr_equal(ev[0].user, &user);
    assert_int_equal(ev[0].u.end.why, DONE_CANCELLED);
    assert_int_equal(ev[0].u.end.totals->prompt, 5);
    assert_int_equal(ev[0].u.end.totals->end_token, -1);
    mailbox_cancel(m, a);
    assert_true(mailbox_cancelled(m));
    assert_int_equal(mailbox_drain(m, ev, 4), 0); /* its end comes from the engine */
    expect_taken(m, c);
    assert_false(mailbox_cancelled(m)); /* the flag was a's */
    mailbox_free(m);
}

/* Whoever has read the last event may ask again, even when nobody may wait and the engine has not come back for more.
 */
static void test_place_after_done(void **state) {
    (void)state;
    mailbox *m = mailbox_new(0);
    gen_totals totals = { 0 };
    gen_event ev[2];
    gen_id a = submit(m, NULL);
    expect_busy(m);
    expect_taken(m, a);
    expect_busy(m);
    post_text(m, "not the end");
    expect_busy(m);
    mailbox_post_begin(m);
    mailbox_post(m, &(gen_event){ .kind = GEN_DONE, .id = a, .u.end = { DONE_END, &totals } });
    mailbox_post_end(m);
    assert_int_equal(mailbox_drain(m, ev, 2), 2);
    gen_id b = submit(m, NULL);
    mailbox_cancel(m, a); /* too late, and not b's */
    expect_taken(m, b);
    assert_false(mailbox_cancelled(m));
    mailbox_free(m);
}

static void count_wake(void *arg) { ++*(int *)arg; }

static void test_wake(void **state) {
    (void)state;
    mailbox *m = mailbox_new(1);
    gen_event ev[8];
    int wakes = 0;
    mailbox_set_waker(m, count_wake, &wakes);
    mailbox_post_begin(m);
    mailbox_post_end(m);
    assert_int_equal(wakes, 0); /* nothing was posted */
    post_text(m, "a");
    assert_int_equal(wakes, 1);
    post_text(m, "b");
    post_text(m, "c");
    assert_int_equal(wakes, 1); /* the front end knows */
    assert_int_equal(mailbox_drain(m, ev, 8), 3);
    post_text(m, "d");
    assert_int_equal(wakes, 2);
    assert_int_equal(mailbox_drain(m, ev, 8), 1);
    assert_int_equal(mailbox_drain(m, ev, 8), 0);
    assert_int_equal(wakes, 2);
    mailbox_notify(m);
    assert_int_equal(wakes, 3);
    mailbox_free(m);
}

static void test_drain_in_parts(void **state) {
    (void)state;
    static const char *const TEXTS[] = { "zero", "one", "two", "three", "four", "five" };
    mailbox *m = mailbox_new(1);
    gen_event ev[8];
    for (int i = 0; i < 4; i++) post_text(m, TEXTS[i]);
    assert_int_equal(mailbox_drain(m, ev, 0), 0);
    assert_int_equal(mailbox_drain(m, ev, 3), 3);
    for (int i = 0; i < 3; i++) expect_text(&ev[i], TEXTS[i]);
    for (int i = 4; i < 6; i++) post_text(m, TEXTS[i]);
    for (int i = 0; i < 3; i++) expect_text(&ev[i], TEXTS[i]); /* not drained since */
    assert_true(mailbox_wait(m, 0));
    assert_int_equal(mailbox_drain(m, ev, 8), 1);
    expect_text(&ev[0], TEXTS[3]);
    assert_int_equal(mailbox_drain(m, ev, 8), 2);
    for (int i = 4; i < 6; i++) expect_text(&ev[i - 4], TEXTS[i]);
    assert_false(mailbox_wait(m, 0));
    mailbox_free(m);
}

/* What an event points to is copied when it is posted. */
static void test_payload(void **state) {
    (void)state;
    mailbox *m = mailbox_new(1);
    char text[] = "text";
    int32_t ids[] = { 3, 4, 5 };
    token_logprobs logprobs[] = { { .logprob = -1.0f }, { .logprob = -2.0f, .n_top = 1 }, { .in_content = true } };
    gen_totals totals = { .generated = 9, .stop_index = 1 };
    mailbox_post_begin(m);
    mailbox_post(m, &(gen_event){ .kind = GEN_REASONING, .text = str_of(text) });
    mailbox_post(m, &(gen_event){ .kind = GEN_ROUND, .u.round = { .tokens = ids, .n = 3, .rows = 8, .micros = 44 } });
    mailbox_post(m, &(gen_event){ .kind = GEN_ROUND, .u.round = { .tokens = ids, .logprobs = logprobs, .n = 3 } });
    mailbox_post(m, &(gen_event){ .kind = GEN_PREFILL, .u.prefill = { 7, 8 } });
    mailbox_post(m, &(gen_event){ .kind = GEN_DONE, .u.end = { DONE_STOP, &totals } });
    mailbox_post(m, &(gen_event){ .kind = GEN_FAILED, .text = STR("why"), .u.fail = { ERR_FAULT } });
    mailbox_post_end(m);
    memset(text, 'x', sizeof text);
    memset(ids, 0, sizeof ids);
    memset(logprobs, 0, sizeof logprobs);
    memset(&totals, 0, sizeof totals);
    gen_event ev[8];
    assert_int_equal(mailbox_drain(m, ev, 8), 6);
    assert_memory_equal(ev[0].text.p, "text", 4);
    assert_int_equal(ev[1].u.round.n, 3);
    assert_memory_equal(ev[1].u.round.tokens, ((int32_t[]){ 3, 4, 5 }), 3 * sizeof(int32_t));
    assert_int_equal(ev[1].u.round.rows, 8);
    assert_int_equal(ev[1].u.round.micros, 44);
    assert_null(ev[1].u.round.logprobs);
    assert_memory_equal(ev[2].u.round.tokens, ((int32_t[]){ 3, 4, 5 }), 3 * sizeof(int32_t));
    assert_true(ev[2].u.round.logprobs[0].logprob == -1.0f && ev[2].u.round.logprobs[1].logprob == -2.0f);
    assert_int_equal(ev[2].u.round.logprobs[1].n_top, 1);
    assert_true(!ev[2].u.round.logprobs[1].in_content && ev[2].u.round.logprobs[2].in_content);
    assert_int_equal(ev[3].u.prefill.done, 7);
    assert_int_equal(ev[3].u.prefill.total, 8);
    assert_int_equal(ev[4].u.end.why, DONE_STOP);
    assert_int_equal(ev[4].u.end.totals->generated, 9);
    assert_int_equal(ev[4].u.end.totals->stop_index, 1);
    assert_int_equal(ev[5].u.fail.code, ERR_FAULT);
    assert_memory_equal(ev[5].text.p, "why", 3);
    mailbox_free(m);
}

/* ---- two threads ---- */

enum { EVENTS = 30000 };

/* Posts texts that count, ids and totals that follow from the count, in bursts of one to five. */
static void posting(void *arg) {
    mailbox *m = arg;
    for (int32_t i = 0, burst = 1; i < EVENTS; burst = burst % 5 + 1) {
        mailbox_post_begin(m);
        for (int32_t end = i + burst; i < end && i < EVENTS; i++) {
            char text[16];
            int32_t ids[] = { i, -i, 2 * i };
            gen_totals totals = { .generated = i };
            gen_event ev = { .id = (gen_id)i };
            snprintf(text, sizeof text, "text %d", i);
            if (i % 3 == 0) ev.kind = GEN_TEXT, ev.text = str_of(text);
            if (i % 3 == 1) ev.kind = GEN_ROUND, ev.u.round.tokens = ids, ev.u.round.n = 3;
            if (i % 3 == 2) ev.kind = GEN_DONE, ev.u.end.totals = &totals;
            mailbox_post(m, &ev);
        }
        mailbox_post_end(m);
    }
}

static void check_counted(const gen_event *ev, int32_t i) {
    char text[16];
    snprintf(text, sizeof text, "text %d", i);
    assert_int_equal(ev->id, i);
    if (i % 3 == 0) expect_text(ev, text);
    if (i % 3 == 1) assert_memory_equal(ev->u.round.tokens, ((int32_t[]){ i, -i, 2 * i }), 3 * sizeof(int32_t));
    if (i % 3 == 2) assert_int_equal(ev->u.end.totals->generated, i);
}

static void test_order(void **state) {
    (void)state;
    mailbox *m = mailbox_new(1);
    thread *t;
    gen_event ev[7];
    int32_t next = 0;
    assert_int_equal(thread_start(&t, "posting", posting, m, NULL), OK);
    for (uint32_t part = 1; next < EVENTS; part = part % 7 + 1) {
        size_t n = mailbox_drain(m, ev, part);
        for (size_t i = 0; i < n; i++) check_counted(&ev[i], next++); /* all of a drain at once: none has gone stale */
        if (n == 0 && !mailbox_wait(m, 60000 * (int64_t)MS)) fail_msg("event %d never came", next);
    }
    thread_join(t);
    assert_int_equal(mailbox_drain(m, ev, 7), 0);
    mailbox_free(m);
}

/* Answers every request with rounds until it has given 20 or is cancelled. */
static void answering(void *arg) {
    mailbox *m = arg;
    taken_request tr;
    while (mailbox_take(m, &tr)) {
        gen_event ev = { .id = tr.id, .user = tr.rq.user };
        gen_totals totals = { 0 };
        while (!mailbox_cancelled(m) && totals.steps < 20) {
            int32_t token = totals.steps++;
            mailbox_post_begin(m);
            ev.kind = GEN_ROUND, ev.u.round.tokens = &token, ev.u.round.n = 1;
            mailbox_post(m, &ev);
            mailbox_post_end(m);
        }
        mailbox_post_begin(m);
        ev.kind = GEN_DONE, ev.u.end.why = totals.steps < 20 ? DONE_CANCELLED : DONE_LENGTH, ev.u.end.totals = &totals;
        mailbox_post(m, &ev);
        mailbox_post_end(m);
        arena_free(tr.rq.mem);
    }
}

enum { REQUESTS = 2000 };

typedef struct seen {
    int32_t rounds, ends;
} seen;

/* Returns how many requests ended. */
static int32_t drain_answers(mailbox *m) {
    gen_event ev[5];
    int32_t ended = 0;
    for (size_t n; (n = mailbox_drain(m, ev, 5)) > 0;)
        for (size_t i = 0; i < n; i++) {
            seen *s = ev[i].user;
            assert_int_equal(s->ends, 0);
            if (ev[i].kind == GEN_ROUND) {
                assert_int_equal(ev[i].u.round.tokens[0], s->rounds);
                s->rounds++;
                continue;
            }
            assert_int_equal(ev[i].kind, GEN_DONE);
            assert_int_equal(ev[i].u.end.totals->steps, s->rounds);
            s->ends++;
            ended++;
        }
    return ended;
}

/* Requests and cancels at all moments: waiting, running, over. Each one ends once, and the rounds are whole. */
static void test_every_request_ends(void **state) {
    (void)state;
    mailbox *m = mailbox_new(8);
    seen *all = xalloc(REQUESTS * sizeof *all);
    thread *t;
    gen_id last = 0;
    int32_t asked = 0, ended = 0;
    uint32_t random = 1;
    assert_int_equal(thread_start(&t, "answering", answering, m, NULL), OK);
    while (ended < REQUESTS) {
        random = random * 1664525 + 1013904223;
        if (asked < REQUESTS && asked - ended < 8) last = submit(m, &all[asked++]);
        if (random >> 30 == 0) mailbox_cancel(m, last - (random >> 20) % 6);
        int32_t n = drain_answers(m);
        ended += n;
        if (n == 0 && asked - ended >= 8 && !mailbox_wait(m, 60000 * (int64_t)MS)) fail_msg("%d requests ended", ended);
    }
    mailbox_close(m);
    thread_join(t);
    assert_int_equal(drain_answers(m), 0);
    for (int32_t i = 0; i < REQUESTS; i++) assert_int_equal(all[i].ends, 1);
    mailbox_free(m);
    free(all);
}

/* A taker that sleeps is woken by a request, and by the end. */
static void test_close(void **state) {
    (void)state;
    seen s = { 0 };
    mailbox *m = mailbox_new(1);
    thread *t;
    assert_int_equal(thread_start(&t, "answering", answering, m, NULL), OK);
    assert_false(mailbox_wait(m, 5 * MS)); /* nothing is there */
    submit(m, &s);
    while (s.ends == 0 && mailbox_wait(m, 60000 * (int64_t)MS)) drain_answers(m);
    assert_int_equal(s.ends, 1);
    mailbox_close(m);
    thread_join(t);
    assert_true(mailbox_cancelled(m));
    taken_request tr;
    submit(m, &s);
    assert_false(mailbox_take(m, &tr)); /* closing comes before what waits */
    mailbox_free(m);
}

static void notifying(void *arg) { mailbox_notify(arg); }

static void test_wait(void **state) {
    (void)state;
    mailbox *m = mailbox_new(1);
    thread *t;
    int64_t start = clock_ns();
    assert_false(mailbox_wait(m, 20 * MS));
    assert_true(clock_ns() - start >= 20 * MS);
    assert_int_equal(thread_start(&t, "notifying", notifying, m, NULL), OK);
    assert_true(mailbox_wait(m, -1));
    thread_join(t);
    assert_false(mailbox_wait(m, 0)); /* once */
    mailbox_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),          cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_wake),           cmocka_unit_test(test_place_after_done),
        cmocka_unit_test(test_payload),        cmocka_unit_test(test_order),
        cmocka_unit_test(test_drain_in_parts), cmocka_unit_test(test_close),
        cmocka_unit_test(test_wait),           cmocka_unit_test(test_every_request_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
