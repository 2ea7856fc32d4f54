/* tests/ops/wrong.h - ops that are wrong on purpose: a parity test that lets one of them pass is no test. */
#ifndef TESTS_OPS_WRONG_H
#define TESTS_OPS_WRONG_H
#include "tests/ops/parity.h"

/* Runs them all; counts a caught one as passed. `all` has every case. */
void wrong_run(parity *p, const case_list *all, int n);
#endif
