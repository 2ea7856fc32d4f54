/* engine/cli/input.h - the text a command works on: its argument, or standard input. */
#ifndef ENGINE_CLI_INPUT_H
#define ENGINE_CLI_INPUT_H
#include <signal.h>
#include "engine/base/buf.h"
#include "engine/cli/opts.h"

/* The first positional argument; standard input, at most 64 MiB, when that is "-" or absent. `stop` (may be NULL) ends
 * the reading when it becomes true. */
status input_text(const opts_found *found, const volatile sig_atomic_t *stop, buf *out, err *e);
#endif
