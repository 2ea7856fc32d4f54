#include "engine/cli/run_shape.h"

#include "engine/base/file.h"
#include "engine/text/schema.h"

enum { FILE_MAX = 16 << 20 };

static status parse(run_shape *s, const char *path, str text, err *e) {
    json_error_t why;
    s->schema = json_loadb(text.p, text.n, JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!s->schema)
        return err_set(e, ERR_REQUEST, "%s: not valid JSON: line %d, column %d: %s", path, why.line, why.column,
                       why.text);
    if (!json_is_object(s->schema)) return err_set(e, ERR_REQUEST, "%s: expected an object, a JSON schema", path);
    s->want.schema = s->schema, s->want.schema_at = path;
    return OK;
}

/* Before a model is loaded for nothing. */
static status judge(const run_shape *s, err *e) {
    grammar *g;
    if (grammar_of_schema(&g, s->schema, e) != OK) return err_wrap(e, "%s", s->want.schema_at);
    grammar_free(g);
    return OK;
}

static status load_schema(run_shape *s, const char *path, err *e) {
    buf text = { 0 };
    status st = file_read(&text, path, FILE_MAX, e);
    if (st == OK) st = parse(s, path, buf_view(&text), e);
    if (st == OK) st = judge(s, e);
    buf_free(&text);
    return st;
}

static status set_choice(run_shape *s, const char *choice, const run_tools *tools, err *e) {
    s->want.tools = tools->list;
    s->want.several = true;
    if (!choice || strcmp(choice, "auto") == 0) return OK;
    if (!tools->list) return err_set(e, ERR_USAGE, "--tool-choice: there are no tools; name their file with --tools");
    s->want.must_call = true;
    if (strcmp(choice, "required") != 0) s->want.must_name = str_of(choice);
    return OK;
}

status run_shape_load(run_shape *s, const char *schema_path, bool object, const char *choice, const run_tools *tools,
                      err *e) {
    s->want.object = object;
    TRY(set_choice(s, choice, tools, e));
    return schema_path ? load_schema(s, schema_path, e) : OK;
}

status run_shape_apply(const run_shape *s, const text_model *tm, gen_request *rq, err *e) {
    if (s->want.must_name.p) rq->reply.one_call = true;
    return answer_shape_apply(&s->want, tm, rq, NULL, e);
}

void run_shape_deinit(run_shape *s) { json_decref(s->schema); }
