/* One JSON text through both readers: ours, which keeps the spelling of numbers, and jansson, which says what is valid.
 */
#include "engine/server/api_json.h"
#include "engine/text/value.h"
#include "tests/fuzz/fuzz.h"

static void put(buf *out, value v) {
    static const value_json opt = { .comma = { ", ", 2 }, .colon = { ": ", 2 } };
    value_work w = { .left = 1 << 24 };
    err e;
    CHECK(value_to_json(out, v, &opt, &w, &e) == OK && w.left);
}

/* Written out and read again, it is the same text. */
static void check_again(arena *mem, value v) {
    buf once = { 0 }, twice = { 0 };
    value again;
    err e;
    put(&once, v);
    CHECK(value_from_text(mem, &again, buf_view(&once), &e) == OK);
    put(&twice, again);
    CHECK(str_eq(buf_view(&once), buf_view(&twice)));
    buf_free(&once);
    buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    str text = { (const char *)data, n };
    arena *mem = arena_new();
    json_error_t why;
    value v, from_tree;
    err e;
    json_t *tree = api_json_load(text, &why);
    status s = value_from_text(mem, &v, text, &e);
    if (s == OK) check_again(mem, v);
    if (tree && value_from_json(mem, &from_tree, tree, &e) == OK) {
        CHECK(s == OK);
        value_respell(&from_tree, v);
        check_again(mem, from_tree);
    }
    json_decref(tree);
    arena_free(mem);
    return 0;
}
