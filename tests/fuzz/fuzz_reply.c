/* An answer of the demo model: a byte of options, stop strings up to an empty one, then tokens of two bytes. */
#include "engine/base/utf8.h"
#include "engine/core/reply.h"
#include "tests/fuzz/demo.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

#include <jansson.h>

enum { STOPS_MAX = 16 };

static bool holds(str text, const str *stops, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memmem(text.p, text.n, stops[i].p, stops[i].n)) return true;
    return false;
}

/* What an answer came to. */
typedef struct heard {
    buf content, reasoning, arguments;
} heard;

/* All arguments of a call are one JSON object. */
static void end_call(heard *h) {
    json_t *object = json_loadb(h->arguments.data, h->arguments.len, JSON_ALLOW_NUL, NULL);
    CHECK(json_is_object(object));
    json_decref(object);
    buf_clear(&h->arguments);
}

static void hear(heard *h, parts *p) {
    for (size_t i = 0; i < p->n; i++) {
        switch (p->list[i].kind) {
        case GEN_TEXT: buf_str(&h->content, parts_text(p, i)); break;
        case GEN_REASONING: buf_str(&h->reasoning, parts_text(p, i)); break;
        case GEN_ARGUMENTS: buf_str(&h->arguments, parts_text(p, i)); break;
        case GEN_CALL_END: end_call(h); break;
        default: break;
        }
    }
    parts_clear(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const str TEXTS[] = { STR("path") };
    static const reply_tool TOOLS[] = { { STR("read"), TEXTS, 1 }, { STR("run"), NULL, 0 } };
    str left = { (const char *)data, n }, stops[STOPS_MAX], stop;
    reply_options opt = { .stop = stops };
    parts out = { 0 };
    heard h = { 0 };
    if (!n) return 0;
    opt.start = (reply_start)(data[0] % 3);
    opt.ignore_end = data[0] & 4;
    opt.one_call = data[0] & 16;
    if (data[0] & 8) opt.tools = TOOLS, opt.n_tools = sizeof TOOLS / sizeof *TOOLS;
    left = str_from(left, 1);
    while ((stop = part_take(&left)).n && opt.n_stop < STOPS_MAX) stops[opt.n_stop++] = stop;
    reply *r = reply_new(demo_text(), &opt);
    reply_state state = REPLY_GOES_ON;
    for (; state == REPLY_GOES_ON && left.n >= 2; left = str_from(left, 2)) {
        state = reply_push(r, ((uint8_t)left.p[0] | (uint8_t)left.p[1] << 8) % DEMO_IDS, &out);
        hear(&h, &out);
    }
    if (state == REPLY_GOES_ON) reply_finish(r, data[0] & 32, &out);
    hear(&h, &out);
    CHECK(h.arguments.len == 0);
    CHECK(state != REPLY_STOPPED || reply_stop_index(r) >= 0);
    CHECK(utf8_valid(buf_view(&h.reasoning)));
    CHECK(opt.n_stop || utf8_valid(buf_view(&h.content)));
    CHECK(opt.n_tools || !holds(buf_view(&h.content), stops, opt.n_stop));
    reply_free(r);
    parts_free(&out);
    buf_free(&h.content);
    buf_free(&h.reasoning);
    buf_free(&h.arguments);
    return 0;
}
