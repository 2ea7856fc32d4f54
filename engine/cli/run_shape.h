/* engine/cli/run_shape.h - what the answer of skiff run must be: a JSON object, valid under the schema of a file, or a
 * call of a tool. */
#ifndef ENGINE_CLI_RUN_SHAPE_H
#define ENGINE_CLI_RUN_SHAPE_H
#include "engine/cli/run_tools.h"
#include "engine/text/answer_shape.h"

typedef struct run_shape {
    answer_shape want;
    json_t *schema; /* NULL: none */
} run_shape;

/* Reads and judges all that needs no model. schema_path, choice: NULL when not given; tools: those of --tools. Errors
 * name the option or the file. */
status run_shape_load(run_shape *s, const char *schema_path, bool object, const char *choice, const run_tools *tools,
                      err *e);
/* Grammars into rq's memory. */
status run_shape_apply(const run_shape *s, const text_model *tm, gen_request *rq, err *e);
void run_shape_deinit(run_shape *s);
#endif
