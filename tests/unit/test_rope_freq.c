#include "kernels/fmath.h"
#include "kernels/rope_freq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PAIRS = 32 };

typedef struct profile {
    rope_freq f;
    double inv_freq[PAIRS]; /* eight digits */
} profile;

/* Laguna S 2.1 in both context profiles, XS 2.1 and XS.2: model contract 4.3. */
static const profile PROFILES[] = {
    { { 500000.0, 64, true, 128.0, 32.0, 1.0, 8192.0, true },
      { 1.0000000e+00, 6.6360124e-01, 4.4036660e-01, 2.9222782e-01, 1.9392274e-01, 1.2868737e-01, 8.5397100e-02,
        5.6669621e-02, 3.7606031e-02, 2.4955409e-02, 1.4734767e-02, 8.5664901e-03, 4.8807678e-03, 2.7053710e-03,
        1.4412479e-03, 7.2147276e-04, 3.2286299e-04, 1.1079205e-04, 4.8654095e-06, 3.2286918e-06, 2.1425639e-06,
        1.4218080e-06, 9.4351357e-07, 6.2611678e-07, 4.1549187e-07, 2.7572092e-07, 1.8296874e-07, 1.2141828e-07,
        8.0573323e-08, 5.3468557e-08, 3.5481801e-08, 2.3545767e-08 } },
    { { 500000.0, 64, true, 32.0, 32.0, 1.0, 8192.0, true },
      { 1.0000000e+00, 6.6360124e-01, 4.4036660e-01, 2.9222782e-01, 1.9392274e-01, 1.2868737e-01, 8.5397100e-02,
        5.6669621e-02, 3.7606031e-02, 2.4955409e-02, 1.4777893e-02, 8.6237273e-03, 4.9377417e-03, 2.7557816e-03,
        1.4830636e-03, 7.5477150e-04, 3.4864293e-04, 1.3034359e-04, 1.9461638e-05, 1.2914767e-05, 8.5702555e-06,
        5.6872322e-06, 3.7740543e-06, 2.5044671e-06, 1.6619675e-06, 1.1028837e-06, 7.3187497e-07, 4.8567313e-07,
        3.2229329e-07, 2.1387423e-07, 1.4192720e-07, 9.4183067e-08 } },
    { { 500000.0, 64, true, 32.0, 64.0, 1.0, 8192.0, true },
      { 1.0000000e+00, 6.6360124e-01, 4.4036660e-01, 2.9222782e-01, 1.9392274e-01, 1.2868737e-01, 8.5397100e-02,
        5.6669621e-02, 3.4294136e-02, 2.0559854e-02, 1.2185097e-02, 7.1182173e-03, 4.0814061e-03, 2.2822271e-03,
        1.2316625e-03, 6.2964895e-04, 2.9328861e-04, 1.1197700e-04, 1.9461638e-05, 1.2914767e-05, 8.5702555e-06,
        5.6872322e-06, 3.7740543e-06, 2.5044671e-06, 1.6619675e-06, 1.1028837e-06, 7.3187497e-07, 4.8567313e-07,
        3.2229329e-07, 2.1387423e-07, 1.4192720e-07, 9.4183067e-08 } },
    { { 500000.0, 64, true, 32.0, 64.0, 1.0, 4096.0, true },
      { 1.0000000e+00, 6.6360124e-01, 4.4036660e-01, 2.9222782e-01, 1.9392274e-01, 1.2868737e-01, 7.7876333e-02,
        4.6688040e-02, 2.7670347e-02, 1.6164299e-02, 9.2682008e-03, 5.1825618e-03, 2.7969027e-03, 1.4298290e-03,
        6.6601011e-04, 2.5428131e-04, 4.4194174e-05, 2.9327308e-05, 1.9461638e-05, 1.2914767e-05, 8.5702555e-06,
        5.6872322e-06, 3.7740543e-06, 2.5044671e-06, 1.6619675e-06, 1.1028837e-06, 7.3187497e-07, 4.8567313e-07,
        3.2229329e-07, 2.1387423e-07, 1.4192720e-07, 9.4183067e-08 } },
};

static void test_yarn_golden(void **state) {
    (void)state;
    for (size_t p = 0; p < sizeof PROFILES / sizeof *PROFILES; p++) {
        float got[PAIRS];
        rope_inv_freq(&PROFILES[p].f, got);
        for (int i = 0; i < PAIRS; i++) {
            double want = PROFILES[p].inv_freq[i];
            /* Half a unit of the eighth digit, and half an FP32 ulp. */
            if (fabs((double)got[i] - want) > want * (0.5e-7 + 0x1p-24))
                fail_msg("profile %zu, pair %d: %.9g, expected %.9g", p, i, (double)got[i], want);
        }
    }
}

static void test_plain(void **state) {
    (void)state;
    rope_freq f = { .theta = 10000.0, .dim = 128 };
    float got[64];
    rope_inv_freq(&f, got);
    for (int i = 0; i < 64; i++) {
        double want = pow(10000.0, -2.0 * i / 128);
        assert_true(fabs((double)got[i] - want) <= want * 0x1.01p-24);
    }
}

/* A ramp without length is a step; ends that are not truncated move the ramp. */
static void test_ramp_ends(void **state) {
    (void)state;
    rope_freq f = PROFILES[0].f;
    float whole[PAIRS], exact[PAIRS], step[PAIRS], plain[PAIRS];
    rope_inv_freq(&f, whole);
    f.truncate = false;
    rope_inv_freq(&f, exact);
    assert_true(exact[9] == whole[9]);  /* the ramp begins at 9.04 instead of 9 */
    assert_true(exact[17] < whole[17]); /* and ends at 17.49 instead of 18: pair 17 is slowed down more */
    f.beta_fast = f.beta_slow;          /* both ends at 17.49: a step behind pair 17 */
    rope_inv_freq(&f, step);
    f.yarn = false;
    rope_inv_freq(&f, plain);
    for (int i = 0; i < PAIRS; i++)
        assert_true(fabsf(step[i] - (i <= 17 ? plain[i] : plain[i] / 128.0f)) <= step[i] * 1e-7f);
}

typedef struct spot {
    int profile, pos, pair;
    double cosine, sine;
} spot;

/* Tables of the model contract: cosine and sine times the attention factor, six digits. */
static void test_angles(void **state) {
    (void)state;
    static const spot SPOTS[] = {
        { 0, 1, 0, 0.802459, 1.249755 },        { 0, 1000, 9, 1.461912, -0.261997 },
        { 0, 1000, 13, -1.346120, 0.627525 },   { 0, 100000, 13, 1.389923, 0.523395 },
        { 0, 100000, 18, 1.312853, 0.694438 },  { 1, 1000, 13, -1.247592, 0.506730 },
        { 1, 100000, 18, -0.493673, 1.252816 }, { 1, 100000, 31, 1.346514, 0.012682 },
    };
    static const double FACTOR[] = { 1.4852030263919618, 1.3465735902799727 };
    for (size_t i = 0; i < sizeof SPOTS / sizeof *SPOTS; i++) {
        const spot *s = &SPOTS[i];
        float inv_freq[PAIRS], sine, cosine;
        rope_inv_freq(&PROFILES[s->profile].f, inv_freq);
        fm_sincos((float)s->pos * inv_freq[s->pair], &sine, &cosine);
        /* One ulp of the frequency turns an angle near 270 by 3e-5: that, and half a unit of the sixth digit. */
        double angle = s->pos * (double)inv_freq[s->pair], room = 0.6e-6 + 1.5 * angle * 0x1p-23;
        assert_true(fabs((double)cosine * FACTOR[s->profile] - s->cosine) <= room);
        assert_true(fabs((double)sine * FACTOR[s->profile] - s->sine) <= room);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yarn_golden),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_ramp_ends),
        cmocka_unit_test(test_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
