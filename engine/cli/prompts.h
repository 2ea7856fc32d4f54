/* engine/cli/prompts.h - a file of prompts for verify and bench: JSON lines as in tests/prompts.jsonl. */
#ifndef ENGINE_CLI_PROMPTS_H
#define ENGINE_CLI_PROMPTS_H
#include "engine/core/pair.h"

typedef struct prompt {
    char class[24]; /* member "class", or "all" */
    token_list ids;
} prompt;

typedef struct prompt_set {
    prompt *at;
    size_t n;
} prompt_set;

/* At most `limit` lines, spread evenly over the file; path NULL: a few of our own. The pair has a text model. */
status prompts_read(const pair *p, const char *path, int64_t limit, prompt_set *out, err *e);
void prompts_free(prompt_set *ps); /* a zeroed set is fine */
#endif
