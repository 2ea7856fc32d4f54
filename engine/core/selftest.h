/* engine/core/selftest.h - a short generation before the engine calls itself ready. */
#ifndef ENGINE_CORE_SELFTEST_H
#define ENGINE_CORE_SELFTEST_H
#include "engine/core/pair.h"

/* Greedy, from a fixed prompt: rounds of the widest and of the usual draft give the tokens of plain steps. ERR_FAULT
 * names the first that differs. The steps that most requests use have run once then. Leaves no sequence behind. */
status selftest(pair *p, err *e);
#endif
