/* engine/cli/cmd.h - the commands. Each reads its own command line (argv[0] is the command's name) and returns the exit
 * code: 0 fine, 1 a fault, a failed check, or input that cannot be used, 2 usage, 4 memory, 5 cannot bind. */
#ifndef ENGINE_CLI_CMD_H
#define ENGINE_CLI_CMD_H
#include "engine/base/status.h"
#include "engine/cli/opts.h"

#define SKIFF_VERSION "0.1.0"

int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);

/* Reads the command line behind the command's name. True: go on. False: *exit_code is the end (help was printed to
 * stdout, or a usage error to stderr). */
bool cmd_parse(const opts *o, int argc, char **argv, void *fields, opts_found *found, int *exit_code);
/* Prints "skiff: <message>" to stderr, returns the exit code of the status. */
int cmd_fail(const err *e);
#endif
