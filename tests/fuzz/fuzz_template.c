/* A chat template, and the JSON text of an object with its variables. */
#include "engine/base/utf8.h"
#include "engine/text/tmpl.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { VARS_MAX = 16 };

static size_t read_vars(arena *mem, str json, tmpl_var vars[VARS_MAX]) {
    value all;
    size_t n = 0;
    err e;
    if (value_from_text(mem, &all, json, &e) != OK || all.kind != VALUE_DICT) return 0;
    for (size_t i = 0; i < all.dict->n && n < VARS_MAX; i++)
        vars[n++] = (tmpl_var){ arena_str(mem, all.dict->entries[i].key.s).p, all.dict->entries[i].val };
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const tmpl_limits limits = { .steps = 100000, .output = 1 << 20, .memory = 32 << 20 };
    str left = { (const char *)data, n };
    tmpl *t;
    err e;
    if (tmpl_parse(&t, part_take(&left), "fuzz", &e) != OK) return 0;
    arena *mem = arena_new();
    tmpl_var vars[VARS_MAX];
    size_t n_vars = read_vars(mem, left, vars);
    buf out = { 0 };
    status s = tmpl_render(t, mem, vars, n_vars, &limits, &out, &e);
    CHECK(s == OK || (s == ERR_TEMPLATE && !out.len));
    CHECK(out.len <= (size_t)limits.output);
    buf_free(&out);
    tmpl_free(t);
    arena_free(mem);
    return 0;
}
