/* What the tests of the tokenizer share: a small tokenizer.json to bend, and the one of the golden cases. */
#ifndef TESTS_UNIT_TOK_FIXTURE_H
#define TESTS_UNIT_TOK_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/base/file.h"
#include "engine/text/text.h"
#include "engine/text/vocab.h"

#define GOLDEN_TOKENIZER "tests/golden/tokenizer/tokenizer.json"
enum { GOLDEN_VOCAB = 4096 };

/* The steps of this model family. */
#define NEWLINE_REGEX "(?:\\r?\\n)+(?!\\r?\\n)"
#define WORD_REGEX                                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"   \
    "|\\s+(?!\\S)|\\s+"

/* A tokenizer.json of the 256 byte symbols, id = byte, with what the members say. JSON texts; NULL: the default. */
typedef struct toy {
    const char *vocab;  /* more members of the vocabulary: ", \"ab\": 256" */
    const char *merges; /* the value; default [["a", "b"]], for which the default vocab has "ab" */
    const char *model;  /* more members of the model: ", \"dropout\": 0.1" */
    const char *added;  /* the value of added_tokens */
    const char *cut;    /* the value of pre_tokenizer; default ByteLevel alone, so that a text is one piece */
    const char *file;   /* more members of the file */
} toy;

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"

static inline const char * or (const char *given, const char *otherwise) { return given ? given : otherwise; }

static inline void put_toy(buf *out, toy t) {
    buf_printf(out, "{\"added_tokens\": %s, \"pre_tokenizer\": %s%s, \"model\": {\"type\": \"BPE\"%s, \"vocab\": {",
               or (t.added, "[]"), or (t.cut, BYTE_LEVEL), or (t.file, ""), or (t.model, ""));
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        buf name = { 0 };
        vocab_spell(&name, (str){ &byte, 1 });
        if (b) buf_str(out, STR(", "));
        buf_json_str(out, buf_view(&name));
        buf_printf(out, ": %d", b);
        buf_free(&name);
    }
    buf_printf(out, "%s}, \"merges\": %s}}", or (t.vocab, ", \"ab\": 256"), or (t.merges, "[[\"a\", \"b\"]]"));
}

static inline json_t *load_json(const char *path) {
    json_error_t why;
    json_t *tree = json_load_file(path, 0, &why);
    if (!tree) fail_msg("%s: %s", path, why.text);
    return tree;
}

static inline void assert_str(str got, str want) {
    if (!str_eq(got, want)) fail_msg("expected \"%.*s\", found \"%.*s\"", STR_ARG(want), STR_ARG(got));
}
#endif
