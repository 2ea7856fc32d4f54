/* Texts through the tokenizer of the demo model: there and back, the pieces, and a stream of broken bytes. */
#include "engine/base/utf8.h"
#include "engine/text/text.h"
#include "tests/fuzz/demo.h"
#include "tests/fuzz/fuzz.h"

static void keep(void *ctx, str piece) {
    CHECK(piece.n > 0);
    buf_str(ctx, piece);
}

static void check_encode(const text_model *tm, str text, bool added) {
    token_list ids = { 0 };
    buf back = { 0 }, pieces = { 0 };
    text_decoder d = { 0 };
    err e;
    bool valid = utf8_valid(text);
    CHECK((text_encode(tm, text, added, &ids, &e) == OK) == valid);
    for (size_t i = 0; i < ids.n; i++) text_decoder_push(&d, text_token_bytes(tm, ids.ids[i]), &back);
    text_decoder_flush(&d, &back);
    CHECK(!valid || str_eq(buf_view(&back), text));
    if (valid) CHECK(text_split(tm, text, added, keep, &pieces, &e) == OK);
    CHECK(!valid || str_eq(buf_view(&pieces), text));
    token_list_free(&ids);
    buf_free(&back);
    buf_free(&pieces);
}

/* Bytes of any kind, whole and cut in two. */
static void check_decoder(str bytes) {
    buf whole = { 0 }, cut = { 0 };
    text_decoder a = { 0 }, b = { 0 };
    text_decoder_push(&a, bytes, &whole);
    text_decoder_flush(&a, &whole);
    for (size_t i = 0; i < bytes.n; i++) text_decoder_push(&b, (str){ bytes.p + i, 1 }, &cut);
    text_decoder_flush(&b, &cut);
    CHECK(utf8_valid(buf_view(&whole)) && str_eq(buf_view(&whole), buf_view(&cut)));
    CHECK(!utf8_valid(bytes) || str_eq(buf_view(&whole), bytes));
    buf_free(&whole);
    buf_free(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    str text = { (const char *)data, n };
    check_encode(demo_text(), text, true);
    check_encode(demo_text(), text, false);
    check_decoder(text);
    return 0;
}
