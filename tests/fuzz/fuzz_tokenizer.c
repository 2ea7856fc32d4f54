/* A tokenizer.json, and texts that it encodes, should it open. */
#include "engine/base/log.h"
#include "engine/base/utf8.h"
#include "engine/text/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { IDS = 4096 };

/* Ids are ids of the file; without tokens that take white space along they spell the text again. */
static void check_text(const text_model *tm, str text) {
    token_list ids = { 0 };
    err e;
    status s = text_encode(tm, text, true, &ids, &e);
    CHECK(s == OK || s == ERR_REQUEST);
    CHECK(s != OK || utf8_valid(text));
    for (size_t i = 0; i < ids.n; i++) CHECK(ids.ids[i] >= 0 && ids.ids[i] < IDS);
    token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    str left = { (const char *)data, n };
    const text_files files = { .tokenizer = part_take(&left), .generation_config = STR("{\"eos_token_id\": []}") };
    text_model *tm;
    err e;
    log_set_level(LOG_ERROR);
    if (text_model_open(&tm, &files, IDS, &e) != OK) return 0;
    while (left.n) check_text(tm, part_take(&left));
    check_text(tm, STR("<think>a the\n\nb</think> x"));
    text_model_close(tm);
    return 0;
}
