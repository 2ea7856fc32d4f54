/* engine/cli/verify_text.h - the text cases of the format of tests/golden/README.md, a function for each kind of file.
 * Each reads the file at path into a zeroed f; dir is the folder that the file lies in. */
#ifndef ENGINE_CLI_VERIFY_TEXT_H
#define ENGINE_CLI_VERIFY_TEXT_H
#include "engine/cli/case_file.h"

typedef struct case_place {
    const char *path, *dir;
    const char *model; /* for cases without files of their own: a model folder, NULL: the built-in one */
} case_place;

/* Ids and pieces of texts, text of ids whole and as a stream; with the tokenizer.json beside them. */
status verify_tokenizer_cases(case_file *f, const case_place *at, err *e);
/* Messages rendered by the template files beside them, as they are: nothing is brought to one form before. */
status verify_template_cases(case_file *f, const case_place *at, err *e);
/* Templates with their variables. */
status verify_jinja_cases(case_file *f, const case_place *at, err *e);
/* Answers split into reasoning, content and tool calls, as tokens of the model and byte by byte. */
status verify_parser_cases(case_file *f, const case_place *at, err *e);
#endif
