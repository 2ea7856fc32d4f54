/* Cutting text into pieces: the table of the text contract, the five behaviours, and the dialect of the patterns. */
#include "tests/unit/tok_fixture.h"
#include "engine/text/dialect.h"
#include "engine/text/pretok.h"

typedef struct pieces {
    str all[64];
    size_t n;
} pieces;

static void keep(void *ctx, str piece) {
    pieces *p = ctx;
    assert_true(piece.n > 0 && p->n < 64);
    p->all[p->n++] = piece;
}

static pretok *make(const json_t *spec) {
    pretok *pt;
    err e;
    if (pretok_new(&pt, spec, &e) != OK) fail_msg("%s", e.text);
    return pt;
}

/* One Split and the ByteLevel that must follow. */
static json_t *split_spec(const char *kind, const char *pattern, const char *behaviour, bool invert) {
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", kind, pattern, "behavior", behaviour, "invert", invert, "type",
                     "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
}

static pretok *make_split(const char *kind, const char *pattern, const char *behaviour, bool invert) {
    json_t *spec = split_spec(kind, pattern, behaviour, invert);
    pretok *pt = make(spec);
    json_decref(spec);
    return pt;
}

static void split(const pretok *pt, str text, pieces *out) {
    pretok_work *w = pretok_work_new(pt);
    err e;
    out->n = 0;
    if (pretok_split(w, text, keep, out, &e) != OK) fail_msg("%s", e.text);
    pretok_work_free(w);
}

/* want: the pieces, each followed by "|"; no text of the tables contains it. */
static void check(const pretok *pt, const char *text, const char *want) {
    pieces got;
    buf joined = { 0 };
    split(pt, str_of(text), &got);
    for (size_t i = 0; i < got.n; i++) {
        buf_str(&joined, got.all[i]);
        buf_byte(&joined, '|');
    }
    assert_str(buf_view(&joined), str_of(want));
    buf_free(&joined);
}

/* ---- the steps of the model family ---- */

static const char *const golden[][2] = {
    { ";\r\n", ";|\r\n|" },
    { ";\n", ";|\n|" },
    { ";\rx", ";\r|x|" },
    { "\n \r x", "\n \r| x|" },
    { "\n\n  x", "\n\n| | x|" },
    { "a\r\rb", "a|\r\r|b|" },
    { "x \n", "x| |\n|" },
    { "x  \n\n y", "x|  |\n\n| y|" },
    { "end;\n\n", "end|;|\n\n|" },
    { "a;\n\n;b", "a|;|\n\n|;b|" },
    { "a \r\n b", "a| |\r\n| b|" },
    { "x\n\r\ny", "x|\n\r\n|y|" },
    { "?!\r\n\r\nx", "?!|\r\n\r\n|x|" },
    { "  \n  x", "  |\n| | x|" },
    { "  lead", " | lead|" },
    { "a   b", "a|  | b|" },
    { "tab\t\tx", "tab|\t|\tx|" },
    { "don't\n\n\nx", "don|'t|\n\n\n|x|" },
    { "I'll GO'S 12.5", "I|'ll| GO|'S| |1|2|.|5|" },
    { "o'clock", "o|'clock|" },
    { "';'s", "';'|s|" },
    { "a 'S'll", "a| '|S|'ll|" },
    { "a_b-c", "a|_b|-c|" },
    { "3.14e10", "3|.|1|4|e|1|0|" },
    { "foo(bar)\n\treturn 1;\n", "foo|(bar|)|\n|\treturn| |1|;|\n|" },
    { "def f(x):\n    return x+1\n\n\n# end", "def| f|(x|):|\n|   | return| x|+|1|\n\n\n|#| end|" },
    { "http://x.y/z?a=1&b=2", "http|://|x|.y|/z|?a|=|1|&b|=|2|" },
    { "éclair ½ Ⅷ", "éclair| |½| |Ⅷ|" },
    { "Привет, мир! 你好😀", "Привет|,| мир|!| 你好|😀|" },
    { "e\xCC\x81"
      "a",
      "e|\xCC\x81"
      "a|" },
    { "\xC2\xA0x \xE3\x80\x80y", "\xC2\xA0x| |\xE3\x80\x80y|" },
    /* U+180E is no white space: it begins a word, and a run of white space before it gives nothing back to it. */
    { "a\xE1\xA0\x8E"
      "b",
      "a|\xE1\xA0\x8E"
      "b|" },
    { " \xE1\xA0\x8E;", " \xE1\xA0\x8E;|" },
    { "\xE1\xA0\x8E\xE1\xA0\x8E ", "\xE1\xA0\x8E\xE1\xA0\x8E| |" },
    { "a \xC2\x85 b", "a| \xC2\x85| b|" },
    { "", "" },
};

static void test_golden_pieces(void **state) {
    (void)state;
    json_t *file = load_json(GOLDEN_TOKENIZER);
    pretok *pt = make(json_object_get(file, "pre_tokenizer"));
    json_decref(file);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) check(pt, golden[i][0], golden[i][1]);
    pretok_free(pt);
}

/* The newline step has its own scanner; the same pattern in another spelling has not. All short texts must agree. */
static void test_newline_scanner_equals_its_pattern(void **state) {
    (void)state;
    pretok *ours = make_split("Regex", NEWLINE_REGEX, "MergedWithNext", false);
    pretok *theirs = make_split("Regex", "(?:\\r?\\n)+(?!(?:\\r?\\n))", "MergedWithNext", false);
    for (unsigned code = 0; code < 1u << 16; code++) { /* 8 letters of an alphabet of 4 */
        char text[8];
        for (size_t i = 0; i < 8; i++) text[i] = "a\r\n "[code >> 2 * i & 3];
        pieces a, b;
        split(ours, (str){ text, 8 }, &a);
        split(theirs, (str){ text, 8 }, &b);
        assert_int_equal(a.n, b.n);
        for (size_t i = 0; i < a.n; i++) assert_true(a.all[i].p == b.all[i].p && a.all[i].n == b.all[i].n);
    }
    pretok_free(ours);
    pretok_free(theirs);
}

/* ---- behaviours ---- */

static void test_behaviours(void **state) {
    (void)state;
    static const struct {
        const char *behaviour;
        bool invert;
        const char *want; /* of ",a,,b,c,," cut at "," */
    } rows[] = {
        { "Removed", false, "a|b|c|" },
        { "Removed", true, ",|,|,|,|,|,|" },
        { "Isolated", false, ",|a|,|,|b|,|c|,|,|" },
        { "Isolated", true, ",|a|,|,|b|,|c|,|,|" },
        { "MergedWithPrevious", false, ",|a,|,|b,|c,|,|" },
        { "MergedWithPrevious", true, ",a|,|,b|,c|,|,|" },
        { "MergedWithNext", false, ",a|,|,b|,c|,|,|" },
        { "MergedWithNext", true, ",|a,|,|b,|c,|,|" },
        { "Contiguous", false, ",|a|,,|b|,|c|,,|" },
        { "Contiguous", true, ",|a|,,|b|,|c|,,|" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const char *const kinds[] = { "Regex", "String" };
        for (size_t k = 0; k < 2; k++) {
            pretok *pt = make_split(kinds[k], ",", rows[i].behaviour, rows[i].invert);
            check(pt, ",a,,b,c,,", rows[i].want);
            pretok_free(pt);
        }
    }
}

/* ---- refusals ---- */

static void refuse_spec(const char *spec, const char *why) {
    json_t *tree = json_loads(spec, JSON_DECODE_ANY, NULL);
    assert_non_null(tree);
    pretok *pt = NULL;
    err e;
    assert_int_equal(pretok_new(&pt, tree, &e), ERR_MODEL);
    assert_null(pt);
    if (!strstr(e.text, why)) fail_msg("expected \"%s\" in: %s", why, e.text);
    json_decref(tree);
}

static void test_refused_steps(void **state) {
    (void)state;
    refuse_spec("null", "pre_tokenizer: expected an object with a type");
    refuse_spec("{\"type\": \"Whitespace\"}", "\"Whitespace\" is not supported");
    refuse_spec("{\"type\": \"Sequence\", \"pretokenizers\": []}", "expected ByteLevel as the last step");
    refuse_spec("{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": false}", "add_prefix_space");
    refuse_spec("{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "use_regex");
    refuse_spec("{\"type\": \"Sequence\", \"pretokenizers\": [" BYTE_LEVEL ", " BYTE_LEVEL "]}", "pretokenizers[1]");
    refuse_spec("{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Sequence\"}]}", "pretokenizers[0]");
    refuse_spec("{\"type\": \"Split\", \"behavior\": \"Glued\", \"pattern\": {\"String\": \"x\"}}",
                "\"Glued\" is not known");
    refuse_spec("{\"type\": \"Split\", \"pattern\": {\"String\": \"x\"}}", "behavior");
    refuse_spec("{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Glob\": \"x\"}}", "pattern");
    refuse_spec("{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"String\": \"\"}}", "pattern.String");
    refuse_spec("{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"a(\"}}", "at offset");
    refuse_spec("{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"a*\"}}",
                "can match nothing");
    refuse_spec("{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"\\\\w+\"}}",
                "\"\\w\" at offset 0");
}

#define SPACES "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static void test_dialect(void **state) {
    (void)state;
    static const struct {
        const char *in, *out; /* out NULL: refused */
    } rows[] = {
        { "\\s+(?!\\S)", "[" SPACES "]+(?![\\S\\x{180e}])" },
        { "[^\\s\\p{Me}]", "[^" SPACES "\\p{Me}]" },
        { "[\\S]", "[\\S\\x{180e}]" },
        { "(?i:'s|'t)", "(?i:'s|'t)" },
        { "\\\\s", "\\\\s" },
        { "\\p{Me}+\\x{41}+\\.+", "[\\p{Me}]+\\x{41}+\\.+" },
        { "\\P{Me}\\p{^Me}", "[^\\p{Me}][^\\p{Me}]" },
        { "\\p{Lu}", "[\\p{Lu}\\x{1c89}-\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}-\\x{a7da}\\x{a7dc}-\\x{a7dc}\\x{10d50}-"
                     "\\x{10d65}]" },
        { "\\p{Greek}", "[\\p{sc:Greek}]" },
        { "(?<=a)(?<!b)(?=c)(?!d)(?>e)(f)", "(?<=a)(?<!b)(?=c)(?!d)(?>e)(f)" },
        { "[$^.(*]", "[$^.(*]" },
        { "\\p{Me}{1,3}?", "[\\p{Me}]{1,3}?" },
        { "\\pL", NULL },
        { "[\\P{L}]", NULL },
        { "[\\D]", NULL },
        { "\\p{C}", NULL },
        { "\\p{}", NULL },
        { "\\w", NULL },
        { "\\h", NULL },
        { "\\1", NULL },
        { "\\x41", NULL },
        { "a\\", NULL },
        { "^a", NULL },
        { "a$", NULL },
        { "(?m:a)", NULL },
        { "(?<name>a)", NULL },
        { "(*UCP)a", NULL },
        { "a{,3}", NULL },
        { "a{1,3}+", NULL },
        { "[[:alpha:]]", NULL },
        { "[a&&b]", NULL },
        { "[]a]", NULL },
        { "[^]a]", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf out = { 0 };
        err e = { 0 };
        status s = dialect_translate(&out, str_of(rows[i].in), &e);
        assert_int_equal(s, rows[i].out ? OK : ERR_MODEL);
        if (rows[i].out)
            assert_str(buf_view(&out), str_of(rows[i].out));
        else
            assert_non_null(strstr(e.text, "at offset"));
        buf_free(&out);
    }
}

/* ---- limits ---- */

static void count(void *ctx, str piece) { *(size_t *)ctx += piece.n; }

/* A pattern that backtracks without bound ends in an error. */
static void test_runaway_pattern(void **state) {
    (void)state;
    pretok *pt = make_split("Regex", "(?:a|aa|aaa)+b", "Isolated", false);
    pretok_work *w = pretok_work_new(pt);
    buf text = { 0 };
    for (int i = 0; i < 200; i++) buf_byte(&text, 'a');
    buf_str(&text, STR("cb")); /* without any b the engine would not even start */
    size_t bytes = 0;
    err e;
    assert_int_equal(pretok_split(w, buf_view(&text), count, &bytes, &e), ERR_REQUEST);
    assert_non_null(strstr(e.text, "too much for a pattern"));
    buf_free(&text);
    pretok_work_free(w);
    pretok_free(pt);
}

static void test_word_characters(void **state) {
    (void)state;
    pretok *pt = make_split("String", "x", "Isolated", false);
    pretok_work *w = pretok_work_new(pt);
    static const char *const yes[] = { "a", "é", "9", "_", "你", "\xCC\x81", "\xE2\x80\x8D", "Ⅷ", "ⓐ" };
    static const char *const no[] = { "", " ", "-", "½", "😀", "\xC2\xA0" };
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) assert_true(pretok_is_word(w, str_of(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) assert_false(pretok_is_word(w, str_of(no[i])));
    pretok_work_free(w);
    pretok_free(pt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_pieces),   cmocka_unit_test(test_newline_scanner_equals_its_pattern),
        cmocka_unit_test(test_behaviours),      cmocka_unit_test(test_refused_steps),
        cmocka_unit_test(test_dialect),         cmocka_unit_test(test_runaway_pattern),
        cmocka_unit_test(test_word_characters),
    };
    return cmocka_run_group_tests_name("pretok", tests, NULL, NULL);
}
