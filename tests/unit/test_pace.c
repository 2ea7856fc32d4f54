/* graphs/pace: which lanes the next replay uses, from scripted times. */
#include "graphs/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Runs n replays that take all or one ns; returns how many of them ran alone. */
static int play(pace *p, int n, int64_t all, int64_t one) {
    int alone = 0;
    for (int i = 0; i < n; i++) {
        bool choice = pace_choose(p);
        alone += choice;
        pace_measured(p, choice, choice ? one : all);
    }
    return alone;
}

static void test_all_lanes_when_they_are_faster(void **state) {
    (void)state;
    pace p = { 0 };
    int alone = play(&p, 10000, 100, 180);
    assert_true(alone > 0);           /* the other way is tried */
    assert_true(alone < 10000 / 100); /* and costs little */
}

static void test_one_lane_when_that_is_faster(void **state) {
    (void)state;
    pace p = { 0 };
    assert_true(play(&p, 10000, 7000, 180) > 10000 - 100);
}

static void test_busy_machine_is_noticed_at_once(void **state) {
    (void)state;
    pace p = { 0 };
    play(&p, 1000, 100, 180);
    int slow = 20 - play(&p, 20, 7000, 180);
    assert_true(slow <= PACE_TIMES);
}

static void test_quiet_machine_is_noticed_again(void **state) {
    (void)state;
    pace p = { 0 };
    play(&p, 1000, 7000, 180);
    assert_true(play(&p, 6 * PACE_GAP_MAX, 100, 180) < 6 * PACE_GAP_MAX); /* some probe of all lanes is believed */
    assert_true(play(&p, 1000, 100, 180) < 50);
}

/* Lanes that slept make the first replay of a trial slow; that must not speak against them. */
static void test_waking_up_is_not_held_against_all_lanes(void **state) {
    (void)state;
    pace p = { 0 };
    play(&p, 1000, 7000, 180);
    assert_true(p.alone);
    bool was_alone = true;
    int back = -1;
    for (int i = 0; i < 3 * PACE_GAP_MAX && back < 0; i++) {
        bool alone = pace_choose(&p);
        pace_measured(&p, alone, alone ? 180 : was_alone ? 5000 : 100);
        was_alone = alone;
        if (!p.alone) back = i;
    }
    assert_true(back >= 0 && back <= 2 * PACE_GAP_MAX);
}

static void test_one_slow_replay_changes_nothing(void **state) {
    (void)state;
    pace p = { 0 };
    play(&p, 100, 100, 180);
    play(&p, 1, 90000, 180);
    assert_int_equal(play(&p, 10, 100, 180), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_lanes_when_they_are_faster),
        cmocka_unit_test(test_one_lane_when_that_is_faster),
        cmocka_unit_test(test_busy_machine_is_noticed_at_once),
        cmocka_unit_test(test_quiet_machine_is_noticed_again),
        cmocka_unit_test(test_one_slow_replay_changes_nothing),
        cmocka_unit_test(test_waking_up_is_not_held_against_all_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
