/* engine/cli/run_tools.h - tools of skiff run: their file, and the calls of the answer. */
#ifndef ENGINE_CLI_RUN_TOOLS_H
#define ENGINE_CLI_RUN_TOOLS_H
#include <jansson.h>
#include "engine/base/buf.h"
#include "engine/engine.h"

typedef struct run_tools {
    const char *path;
    json_t *list; /* array; NULL: no tools */
    buf source;   /* the same as the text of a request, for the spelling of numbers */
} run_tools;

/* A file with an array of tools, as a chat request sends them. Errors begin with the path. */
status run_tools_load(run_tools *t, const char *path, err *e);
/* What the reply needs, into rq's memory. */
status run_tools_declare(const run_tools *t, gen_request *rq, err *e);
void run_tools_deinit(run_tools *t);

/* Calls so far; a zeroed one has none. */
typedef struct run_calls {
    buf json; /* members of an array: name, and arguments as their text */
    buf name, arguments;
    int n;          /* complete */
    bool open_line; /* the line on the terminal is not at its end */
} run_calls;

/* Takes GEN_CALL, GEN_ARGUMENTS, GEN_CALL_END; the text of a call that is none after all goes to content. */
void run_calls_take(run_calls *c, const gen_event *ev, buf *content);
/* The line of standard output that the event adds to, "tool call: NAME {...}". False: it cannot be written. */
bool run_calls_show(run_calls *c, const gen_event *ev);
void run_calls_deinit(run_calls *c);
#endif
