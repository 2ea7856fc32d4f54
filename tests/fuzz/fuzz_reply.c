/* An answer of the demo model: a byte of options, stop strings up to an empty one, then tokens of two bytes. */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/utf8.h"
#include "engine/core/reply.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { IDS = 4096, STOPS_MAX = 16 };

static const text_model *demo(void) {
    static text_model *tm;
    buf json = { 0 };
    err e;
    if (tm) return tm;
    log_set_level(LOG_ERROR);
    CHECK(file_read(&json, "target/demo/tokenizer.json", 1 << 24, &e) == OK);
    const text_files files = { .tokenizer = buf_view(&json), .generation_config = STR("{\"eos_token_id\": [2, 24]}") };
    CHECK(text_model_open(&tm, &files, IDS, &e) == OK);
    buf_free(&json);
    return tm;
}

static bool holds(str text, const str *stops, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memmem(text.p, text.n, stops[i].p, stops[i].n)) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    str left = { (const char *)data, n }, stops[STOPS_MAX], stop;
    reply_options opt = { .stop = stops };
    reply_text out = { 0 };
    if (!n) return 0;
    opt.start = (reply_start)(data[0] % 3);
    opt.ignore_end = data[0] & 4;
    left = str_from(left, 1);
    while ((stop = part_take(&left)).n && opt.n_stop < STOPS_MAX) stops[opt.n_stop++] = stop;
    reply *r = reply_new(demo(), &opt);
    reply_state state = REPLY_GOES_ON;
    for (; state == REPLY_GOES_ON && left.n >= 2; left = str_from(left, 2))
        state = reply_push(r, ((uint8_t)left.p[0] | (uint8_t)left.p[1] << 8) % IDS, &out);
    if (state == REPLY_GOES_ON) reply_finish(r, &out);
    CHECK(state != REPLY_STOPPED || reply_stop_index(r) >= 0);
    CHECK(utf8_valid(buf_view(&out.reasoning)));
    CHECK(opt.n_stop || utf8_valid(buf_view(&out.content)));
    CHECK(!holds(buf_view(&out.content), stops, opt.n_stop));
    reply_free(r);
    buf_free(&out.reasoning);
    buf_free(&out.content);
    return 0;
}
