#include "engine/cli/cmd.h"

#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} COMMANDS[] = {
    { "run", cmd_run, "answer one prompt in the terminal" },
    { "serve", cmd_serve, "serve HTTP: chat completions with streaming, models, health" },
    { "inspect", cmd_inspect, "print what a model folder holds: config, tensors, memory plan, bytes per step" },
    { "verify", cmd_verify, "check this build: golden references, text cases, plain against speculative decoding" },
    { "bench", cmd_bench, "measure prefill, plain decoding and speculation" },
    { "tokenize", cmd_tokenize, "text to token ids" },
    { "detokenize", cmd_detokenize, "token ids to text" },
};
enum { COMMANDS_N = sizeof COMMANDS / sizeof *COMMANDS };

static void usage(FILE *to) {
    fprintf(to, "usage: skiff COMMAND [OPTIONS]\n\n"
                "skiff runs Laguna models with a DFlash draft for one user, at the lowest latency. Without a model it\n"
                "uses the small pair that is built in.\n\n");
    for (int i = 0; i < COMMANDS_N; i++) fprintf(to, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].about);
    fprintf(to, "\n\"skiff COMMAND --help\" tells the options of a command. \"skiff --version\" tells the version.\n");
}

bool cmd_parse(const opts *o, int argc, char **argv, void *fields, opts_found *found, int *exit_code) {
    err e;
    if (opts_parse(o, argc - 1, argv + 1, fields, found, &e) != OK) {
        fprintf(stderr, "skiff: %s\nTry \"%s --help\".\n", e.text, o->command);
        *exit_code = status_exit_code(ERR_USAGE);
        return false;
    }
    if (!found->help) return true;
    buf text = { 0 };
    opts_help(o, &text);
    fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    opts_found_deinit(found);
    *exit_code = 0;
    return false;
}

int cmd_fail(const err *e) {
    fprintf(stderr, "skiff: %s\n", e->text);
    return status_exit_code(e->code);
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "C.UTF-8"); /* numbers stay in the C locale */
    signal(SIGPIPE, SIG_IGN);       /* a closed pipe is a failed write, not a death */
    if (argc < 2) {
        usage(stderr);
        return status_exit_code(ERR_USAGE);
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(name, "--version")) {
        puts("skiff " SKIFF_VERSION);
        return 0;
    }
    for (int i = 0; i < COMMANDS_N; i++)
        if (!strcmp(name, COMMANDS[i].name)) return COMMANDS[i].run(argc - 1, argv + 1);
    fprintf(stderr, "skiff: unknown command \"%s\"\n\n", name);
    usage(stderr);
    return status_exit_code(ERR_USAGE);
}
