/* A JSON schema up to a zero byte, then bytes that its grammar is walked with: where a text may end it is valid JSON.
 */
#include "engine/text/grammar_run.h"
#include "engine/text/schema.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

static void check_whole(str text) {
    json_t *value = json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    CHECK(value != NULL);
    json_decref(value);
}

static void walk(const grammar *g, str text) {
    grammar_run *run = grammar_run_new(g);
    grammar_state at = grammar_run_start(run);
    CHECK(at != GRAMMAR_DEAD);
    for (size_t i = 0; i < text.n; i++) {
        at = grammar_run_step(run, at, (uint8_t)text.p[i]);
        if (at == GRAMMAR_DEAD) break;
        if (grammar_run_ends(run, at)) check_whole((str){ text.p, i + 1 });
    }
    grammar_run_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    str left = { (const char *)data, n }, source = part_take(&left);
    json_t *schema = json_loadb(source.p, source.n, JSON_DECODE_ANY, NULL);
    grammar *g = NULL;
    err e;
    if (schema && grammar_of_schema(&g, schema, &e) == OK) walk(g, left);
    grammar_free(g);
    json_decref(schema);
    return 0;
}
