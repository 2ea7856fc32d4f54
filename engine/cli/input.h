/* engine/cli/input.h - the text a command works on, its arguments or standard input, and what it prints. */
#ifndef ENGINE_CLI_INPUT_H
#define ENGINE_CLI_INPUT_H
#include <signal.h>
#include "engine/base/buf.h"
#include "engine/cli/opts.h"

/* The positional arguments, joined by spaces; standard input, at most 64 MiB, when there is none or a single "-".
 * `stop` (may be NULL) ends the reading when it becomes true. */
status input_text(const opts_found *found, const volatile sig_atomic_t *stop, buf *out, err *e);
/* Writes text to standard output, all of it: ERR_IO for a closed pipe or a full disk. */
status output_text(str text, err *e);
#endif
