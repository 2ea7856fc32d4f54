/* engine/cli/opts: reading, refusing, suggesting, helping. One table stands for all commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/cli/opts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct settings {
    const char *model, *draft, *host;
    int64_t port, seed;
    double temp;
    int mode;
    bool metrics, verbose;
} settings;

static const opt list[] = {
    { .help = "Model", .kind = OPT_HEADING },
    { "model", .brief = "m", .aliases = "model-path", .value = "DIR", .help = "folder of the target",
      OPT_TEXT_AT(settings, model) },
    { "draft-model", .brief = "md", .aliases = "model-draft draft spec-draft-model", .value = "DIR",
      .help = "folder of the draft", OPT_TEXT_AT(settings, draft) },
    { "speculation", .preset = "auto", .help = "when the draft proposes",
      OPT_CHOICE_AT(settings, mode, "auto off fixed") },
    { "spec-type", .help = "use --speculation", .kind = OPT_REFUSED },
    { .help = "Server", .kind = OPT_HEADING },
    { "host", .preset = "127.0.0.1", .help = "address to listen on", OPT_TEXT_AT(settings, host) },
    { "port", .brief = "p", .preset = "8000", .help = "port to listen on", OPT_INT_AT(settings, port, 1, 65535) },
    { "no-metrics", .help = "do not serve /metrics", OPT_CLEAR_AT(settings, metrics) },
    { "verbose", .brief = "v", .help = "log more", OPT_SET_AT(settings, verbose) },
    { "temp", .aliases = "temperature",
      .help = "sampling temperature, zero chooses the likeliest token every time, and this "
              "text is long enough to need a second line",
      OPT_REAL_AT(settings, temp, 0, INFINITY) },
    { "seed", .help = "seed of the noise", OPT_INT_AT(settings, seed, INT64_MIN, INT64_MAX) },
    { .help = "Foreign", .kind = OPT_HEADING }, /* nothing below it is listed, so neither is the heading */
    { "jinja", .kind = OPT_IGNORED },
    { "tool-call-parser", .kind = OPT_IGNORED_VALUE },
};

static const opts table = { .command = "skiff serve",
                            .about = "Serves a model.",
                            .rest = "[FILE [FILE]]",
                            .rest_max = 2,
                            .list = list,
                            .n = sizeof list / sizeof *list,
                            .bytes = sizeof(settings) };

static const settings start = { .metrics = true, .temp = -1, .seed = 5, .port = 1 };

enum { WORDS_MAX = 16 };

typedef struct outcome {
    status code;
    settings got;
    opts_found found;
    err e;
} outcome;

/* `line` is split at spaces; "_" stands for an empty word. Free with opts_found_deinit. */
static outcome parse_with(const opts *o, const char *line, char store[512]) {
    outcome r = { .got = start };
    char *argv[WORDS_MAX];
    int argc = 0;
    snprintf(store, 512, "%s", line);
    for (char *save, *w = strtok_r(store, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        assert_true(argc < WORDS_MAX);
        argv[argc++] = strcmp(w, "_") == 0 ? w + 1 : w;
    }
    r.code = opts_parse(o, argc, argv, &r.got, &r.found, &r.e);
    return r;
}

static void check_refused(const char *line, const char *message) {
    char store[512];
    outcome r = parse_with(&table, line, store);
    assert_int_equal(r.code, ERR_USAGE);
    assert_string_equal(r.e.text, message);
    assert_memory_equal(&r.got, &start, sizeof start); /* outputs on success only */
    assert_null(r.found.rest);
}

static void test_presets(void **state) {
    (void)state;
    char store[512];
    outcome r = parse_with(&table, "", store);
    assert_int_equal(r.code, OK);
    assert_string_equal(r.got.host, "127.0.0.1");
    assert_int_equal(r.got.port, 8000);
    assert_int_equal(r.got.mode, 0);
    assert_int_equal(r.got.seed, 5); /* without a preset the caller's value stays */
    assert_true(r.got.temp == -1);
    assert_true(r.got.metrics);
    assert_null(r.got.model);
    assert_int_equal(r.found.n_rest, 0);
    assert_false(opts_given(&table, &r.found, "port"));
    opts_found_deinit(&r.found);
}

static void test_spellings(void **state) {
    (void)state;
    char store[512];
    outcome r =
        parse_with(&table, "-m a -md b --port=81 --speculation fixed -v --no-metrics --temp .5 --seed -7", store);
    assert_int_equal(r.code, OK);
    assert_string_equal(r.got.model, "a");
    assert_string_equal(r.got.draft, "b");
    assert_int_equal(r.got.port, 81);
    assert_int_equal(r.got.mode, 2);
    assert_true(r.got.verbose);
    assert_false(r.got.metrics);
    assert_true(r.got.temp == .5);
    assert_int_equal(r.got.seed, -7);
    assert_true(opts_given(&table, &r.found, "port"));
    assert_false(opts_given(&table, &r.found, "host"));
    opts_found_deinit(&r.found);
}

static void test_aliases_and_last_wins(void **state) {
    (void)state;
    char store[512];
    outcome r =
        parse_with(&table, "--model-path x --model y --spec-draft-model=d --temperature 1e-1 --host= --port 1 -p 2",
                   store);
    assert_int_equal(r.code, OK);
    assert_string_equal(r.got.model, "y");
    assert_string_equal(r.got.draft, "d");
    assert_string_equal(r.got.host, "");
    assert_int_equal(r.got.port, 2);
    assert_true(r.got.temp == 0.1);
    assert_true(opts_given(&table, &r.found, "temp")); /* under its main name, whatever was typed */
    opts_found_deinit(&r.found);
}

static void test_positional(void **state) {
    (void)state;
    char store[512];
    outcome r = parse_with(&table, "- -v -- --port", store);
    assert_int_equal(r.code, OK);
    assert_int_equal(r.found.n_rest, 2);
    assert_string_equal(r.found.rest[0], "-");
    assert_string_equal(r.found.rest[1], "--port");
    assert_int_equal(r.got.port, 8000);
    opts_found_deinit(&r.found);

    opts more = table;
    more.rest_min = 1;
    more.rest = "a FILE";
    r = parse_with(&more, "", store);
    assert_int_equal(r.code, ERR_USAGE);
    assert_string_equal(r.e.text, "skiff serve: expected a FILE, found 0 arguments");
    more.rest_max = more.rest_min = 0;
    r = parse_with(&more, "x", store);
    assert_int_equal(r.code, ERR_USAGE);
    assert_string_equal(r.e.text, "skiff serve: expected options only, found 'x'");
    check_refused("a b c", "skiff serve: expected [FILE [FILE]], found 'c' behind it");
}

static void test_bad_values(void **state) {
    (void)state;
    check_refused("--port abc", "--port: expected an integer from 1 to 65535, found 'abc'");
    check_refused("-p 0", "-p: expected an integer from 1 to 65535, found '0'");
    check_refused("--port=65536", "--port: expected an integer from 1 to 65535, found '65536'");
    check_refused("--port 80x", "--port: expected an integer from 1 to 65535, found '80x'");
    check_refused("--port _", "--port: expected an integer from 1 to 65535, found ''");
    check_refused("--port -", "--port: expected an integer from 1 to 65535, found '-'");
    check_refused("--port 1e3", "--port: expected an integer from 1 to 65535, found '1e3'");
    check_refused("--seed 9223372036854775808", "--seed: expected an integer, found '9223372036854775808'");
    check_refused("--temperature nan", "--temperature: expected a number of at least 0, found 'nan'");
    check_refused("--temp inf", "--temp: expected a number of at least 0, found 'inf'");
    check_refused("--temp 1e999", "--temp: expected a number of at least 0, found '1e999'");
    check_refused("--temp -0.5", "--temp: expected a number of at least 0, found '-0.5'");
    check_refused("--temp 0x1", "--temp: expected a number of at least 0, found '0x1'");
    check_refused("--temp .", "--temp: expected a number of at least 0, found '.'");
    check_refused("--speculation on", "--speculation: expected one of auto, off, fixed, found 'on'");
    check_refused("--verbose=1", "--verbose: expected no value, found '1'");
}

static void test_missing_values(void **state) {
    (void)state;
    check_refused("--port", "--port: expected an integer from 1 to 65535, found nothing");
    check_refused("--model --port 80", "--model: expected a text, found nothing");
    check_refused("--model -v", "--model: expected a text, found nothing");
    char store[512];
    outcome r = parse_with(&table, "--model=--port --host -x", store); /* "=" takes anything; -x is no option here */
    assert_int_equal(r.code, OK);
    assert_string_equal(r.got.model, "--port");
    assert_string_equal(r.got.host, "-x");
    opts_found_deinit(&r.found);
}

static void test_suggestions(void **state) {
    (void)state;
    check_refused("--prot 80", "unknown option '--prot'; did you mean '--port'?");
    check_refused("-port 80", "unknown option '-port'; did you mean '--port'?");
    check_refused("--m x", "unknown option '--m'; did you mean '--model'?");
    check_refused("--temperatur 1", "unknown option '--temperatur'; did you mean '--temp'?");
    check_refused("--specul=off", "unknown option '--specul'; did you mean '--speculation'?");
    check_refused("--model_draft x", "unknown option '--model_draft'; did you mean '--draft-model'?");
    check_refused("--quux", "unknown option '--quux'; see 'skiff serve --help'");
    check_refused("-x", "unknown option '-x'; see 'skiff serve --help'");
    check_refused("--=1", "unknown option '--'; see 'skiff serve --help'");
    check_refused("--spec-typ a",
                  "unknown option '--spec-typ'; see 'skiff serve --help'"); /* refused options are no advice */
    check_refused("--a-name-that-is-far-longer-than-any-option-of-any-program-ever-was",
                  "unknown option '--a-name-that-is-far-longer-than-any-option-of-any-program-ever-was'; see 'skiff "
                  "serve --help'");
}

static void test_foreign_options(void **state) {
    (void)state;
    char store[512];
    outcome r = parse_with(&table, "--jinja --tool-call-parser poolside_v1 file", store);
    assert_int_equal(r.code, OK);
    assert_int_equal(r.found.n_rest, 1);
    opts_found_deinit(&r.found);
    check_refused("--jinja=1", "--jinja: expected no value, found '1'");
    check_refused("--tool-call-parser", "--tool-call-parser: expected a text, found nothing");
    check_refused("--spec-type x", "--spec-type is not offered: use --speculation");
}

static void test_help_is_asked_for(void **state) {
    (void)state;
    opts strict = table;
    strict.rest_min = 1;
    char store[512];
    const char *lines[] = { "--help", "-h", "-v --help --nonsense" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        outcome r = parse_with(&strict, lines[i], store);
        assert_int_equal(r.code, OK);
        assert_true(r.found.help);
        opts_found_deinit(&r.found);
    }
    check_refused("--nonsense --help", "unknown option '--nonsense'; see 'skiff serve --help'");
}

static void test_help_text(void **state) {
    (void)state;
    static const char expected[] =
        "usage: skiff serve [options] [FILE [FILE]]\n"
        "\n"
        "Serves a model.\n"
        "\n"
        "Model:\n"
        "  -m,  --model DIR        folder of the target; also --model-path\n"
        "  -md, --draft-model DIR  folder of the draft; also --model-draft, --draft, --spec-draft-model\n"
        "       --speculation auto|off|fixed\n"
        "                          when the draft proposes (default auto)\n"
        "\n"
        "Server:\n"
        "       --host TEXT        address to listen on (default 127.0.0.1)\n"
        "  -p,  --port N           port to listen on (from 1 to 65535, default 8000)\n"
        "       --no-metrics       do not serve /metrics\n"
        "  -v,  --verbose          log more\n"
        "       --temp X           sampling temperature, zero chooses the likeliest token every time, and\n"
        "                          this text is long enough to need a second line (at least 0); also\n"
        "                          --temperature\n"
        "       --seed N           seed of the noise\n"
        "  -h,  --help             print this text\n"
        "\n"
        "Accepted without effect: --jinja, --tool-call-parser\n";
    buf out = { 0 };
    opts_help(&table, &out);
    assert_string_equal(buf_cstr(&out), expected);
    buf_free(&out);
}

/* A command without options or arguments of its own still has its help. */
static void test_empty_table(void **state) {
    (void)state;
    opts none = { .command = "skiff version", .about = "Prints the version." };
    opts_found found;
    err e;
    char *words[] = { "-h" };
    assert_int_equal(opts_parse(&none, 0, words, NULL, &found, &e), OK);
    opts_found_deinit(&found);
    assert_int_equal(opts_parse(&none, 1, words, NULL, &found, &e), OK);
    assert_true(found.help);
    opts_found_deinit(&found);
    buf out = { 0 };
    opts_help(&none, &out);
    assert_string_equal(buf_cstr(&out), "usage: skiff version [options]\n\nPrints the version.\n\nOptions:\n"
                                        "  -h, --help  print this text\n");
    buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_aliases_and_last_wins),
        cmocka_unit_test(test_positional),
        cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_missing_values),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_foreign_options),
        cmocka_unit_test(test_help_is_asked_for),
        cmocka_unit_test(test_help_text),
        cmocka_unit_test(test_empty_table),
    };
    return cmocka_run_group_tests_name("opts", tests, NULL, NULL);
}
