/* skiff verify: does this build compute what it should? */
#include "engine/cli/cmd.h"
#include "engine/cli/model_opts.h"
#include "engine/cli/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct verify_opts {
    model_opts m;
    const char *prompts;
    int64_t limit, tokens;
    int shapes;
} verify_opts;

static const opt LIST[] = {
    { .kind = OPT_HEADING, .help = "lossless" },
    { "prompts", .value = "FILE", OPT_TEXT_AT(verify_opts, prompts),
      .help = "prompts, one JSON object a line; without it a few of our own" },
    { "limit", .preset = "16", OPT_INT_AT(verify_opts, limit, 1, 1000000),
      .help = "how many prompts of the file, spread evenly over it" },
    { "predict", .brief = "n", .preset = "100", OPT_INT_AT(verify_opts, tokens, 2, 1000000),
      .help = "tokens per answer" },
    { "shapes", .preset = "all", OPT_CHOICE_AT(verify_opts, shapes, "chains combinations all"),
      .help = "what is compared with plain decoding: chains of 1, 3, 7 and 15 proposals; {chain, tree of 4, 12, 31, "
              "auto} x {dflash, lookup, both, junk} x {cold, warm}; all" },
    MODEL_OPT_ROWS(verify_opts, m),
};

static const opts OPTS = {
    .command = "skiff verify",
    .about = "\"golden DIR\" compares layers, logits, draft blocks and speculation traces with reference data of "
             "independent "
             "implementations; every folder of that format is read. \"text DIR\" does the same for the cases of "
             "tokenizer, chat "
             "template and reasoning. \"lossless\" compares speculative with plain decoding, "
             "token by token. Exit code 1 when a check fails.",
    .rest = "golden DIR | text DIR | lossless",
    .rest_min = 1,
    .rest_max = 2,
    .list = LIST,
    .n = sizeof LIST / sizeof *LIST,
    .bytes = sizeof(verify_opts),
};

void tally_line(tally *t, bool ok, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    printf("%s ", ok ? "ok  " : "FAIL");
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
    *(ok ? &t->passed : &t->failed) += 1;
}

void tally_skip(tally *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    printf("skip ");
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
    t->skipped++;
}

static status run(const verify_opts *o, const opts_found *found, tally *t, err *e) {
    engine_options eo = model_opts_engine(&o->m, 0);
    if (strcmp(found->rest[0], "golden") == 0) {
        if (found->n_rest != 2) return err_set(e, ERR_USAGE, "verify golden: expected a folder of reference data");
        if (eo.kv_dtype != KV_BF16)
            return err_set(e, ERR_USAGE,
                           "verify golden: the reference data has BF16 keys and values (--kv-dtype bf16)");
        return verify_golden(found->rest[1], &eo, t, e);
    }
    if (strcmp(found->rest[0], "text") == 0) {
        if (found->n_rest != 2) return err_set(e, ERR_USAGE, "verify text: expected a folder of text cases");
        return verify_text(found->rest[1], o->m.model, t, e);
    }
    if (strcmp(found->rest[0], "lossless") == 0) {
        lossless_options lo = { o->prompts, o->limit, o->tokens, (lossless_shapes)(o->shapes + 1) };
        return verify_lossless(&eo, &lo, t, e);
    }
    return err_set(e, ERR_USAGE, "verify %s: expected \"golden\", \"text\" or \"lossless\"", found->rest[0]);
}

int cmd_verify(int argc, char **argv) {
    verify_opts o = { 0 };
    opts_found found = { 0 };
    int code;
    if (!cmd_parse(&OPTS, argc, argv, &o, &found, &code)) return code;
    tally t = { 0 };
    err e;
    status s = run(&o, &found, &t, &e);
    if (s == OK) printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    code = s != OK ? cmd_fail(&e) : t.failed ? 1 : 0;
    opts_found_deinit(&found);
    return code;
}
