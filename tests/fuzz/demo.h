/* tests/fuzz/demo.h - the text side of the demo model, opened by the first input and kept. */
#ifndef TESTS_FUZZ_DEMO_H
#define TESTS_FUZZ_DEMO_H
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/text/text.h"

enum { DEMO_IDS = 4096 };

static inline const text_model *demo_text(void) {
    static text_model *tm;
    buf json = { 0 };
    err e;
    if (tm) return tm;
    log_set_level(LOG_ERROR);
    CHECK(file_read(&json, "target/demo/tokenizer.json", 1 << 24, &e) == OK);
    const text_files files = { .tokenizer = buf_view(&json), .generation_config = STR("{\"eos_token_id\": [2, 24]}") };
    CHECK(text_model_open(&tm, &files, DEMO_IDS, &e) == OK);
    buf_free(&json);
    return tm;
}
#endif
