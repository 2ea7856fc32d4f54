/* Constrained answers behind a pipe: a JSON object a line in, one a line out.
 *
 * usage: constrained MODEL_DIR < REQUESTS
 *        constrained MODEL_DIR --bench
 *   {"schema": S, ...}                     a schema; {"object": true, ...} any object;
 *   {"tools": [{"name", "parameters"}...], "lines": BOOL, "several": BOOL, ...}  tool calls
 * with "count" random texts of about "tokens" tokens, made with "seed" from tokens that the masks allow; every mask on
 * the way that is looked at (one of four) is compared with what advancing by each token says. "accept": texts that are
 * walked byte by byte. Gives {"texts": [...], "accepted": [BOOL...]}, or {"error": MESSAGE, "code": STATUS}.
 *
 * Beyond the wanted length bytes are taken that tend to close what is open, or run through the text "hints". */
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/text/schema.h"
#include "engine/text/token_mask.h"
#include "engine/text/tool_grammar.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { VOCAB_MAX = 1 << 20, STEPS_MAX = 1 << 18, CHECKED_OF = 4 };

typedef struct context {
    text_model *tm;
    token_trie *trie;
    int32_t vocab, bytes[256]; /* tokens of single bytes */
    int32_t open, close;
    uint32_t *bits;
    uint64_t seed;
    str hints; /* spells what patterns ask for */
} context;

static void die(const char *what) {
    fprintf(stderr, "constrained: %s\n", what);
    exit(1);
}

static uint32_t next_random(context *c) {
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(c->seed >> 33);
}

static bool is_set(const uint32_t *bits, int32_t id) { return bits[id >> 5] >> (id & 31) & 1; }

static void open_model(context *c, const char *dir) {
    static const char *const names[] = { "tokenizer.json", "tokenizer_config.json", "generation_config.json",
                                         "config.json" };
    buf files[4] = { { 0 } };
    err e;
    for (int i = 0; i < 4; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (file_read(&files[i], path, (size_t)1 << 28, &e) != OK) die(e.text);
    }
    text_files f = { .tokenizer = buf_view(&files[0]),
                     .tokenizer_config = buf_view(&files[1]),
                     .generation_config = buf_view(&files[2]),
                     .config = buf_view(&files[3]) };
    json_t *config = json_loadb(files[3].data, files[3].len, 0, NULL);
    int32_t vocab = (int32_t)json_integer_value(json_object_get(config, "vocab_size"));
    json_decref(config);
    if (vocab <= 0 || vocab > VOCAB_MAX) die("config.json: vocab_size");
    if (text_model_open(&c->tm, &f, vocab, &e) != OK) die(e.text);
    for (int i = 0; i < 4; i++) buf_free(&files[i]);
    c->vocab = text_vocab(c->tm);
    c->trie = token_trie_of_model(c->tm);
    c->open = text_find_token(c->tm, STR("<tool_call>"));
    c->close = text_find_token(c->tm, STR("</tool_call>"));
    c->bits = xalloc(token_mask_words(c->vocab) * sizeof *c->bits);
    for (int32_t id = 0; id < c->vocab; id++) {
        str s = text_token_bytes(c->tm, id);
        if (s.n == 1) c->bytes[(uint8_t)s.p[0]] = id;
    }
}

/* The mask must be what advancing says, token by token. */
static void check_mask(context *c, token_mask *m, grammar_state s, const buf *text) {
    for (int32_t id = 0; id < c->vocab; id++) {
        bool found = is_set(c->bits, id), wanted = token_mask_advance(m, s, id) != GRAMMAR_DEAD;
        if (found == wanted) continue;
        str token = text_token_bytes(c->tm, id);
        fprintf(stderr, "mask says %d for token %d \"%.*s\" behind: %.*s\n", found, id, STR_ARG(token), (int)text->len,
                text->data);
        die("a mask differs from advancing");
    }
}

/* A random allowed token: often one that moves the structure on, else any. -1: none is allowed. */
static int32_t choose(context *c) {
    static const char structure[] = "\"}],:{[0123456789tfn- </>";
    int32_t n = 0, id = -1;
    bool structural = next_random(c) % 2;
    for (int i = 0; structural && structure[i]; i++) {
        int32_t t = c->bytes[(uint8_t)structure[i]];
        if (is_set(c->bits, t) && next_random(c) % (uint32_t)++n == 0) id = t;
    }
    if (id >= 0) return id;
    for (int32_t t = 0; t < c->vocab; t++)
        if (is_set(c->bits, t) && next_random(c) % (uint32_t)++n == 0) id = t;
    return id;
}

/* The token of the byte when it may follow, with where it leads. */
static int32_t try_byte(const context *c, token_mask *m, grammar_state s, uint8_t byte, grammar_state *next) {
    *next = token_mask_advance(m, s, c->bytes[byte]);
    return *next ? c->bytes[byte] : -1;
}

/* What tends to end a text: the tokens and tags of calls, then what closes things in JSON. `tag` counts how much of a
 * closing tag stands at the end. */
static int32_t try_close(const context *c, token_mask *m, grammar_state s, bool tags, int *tag, grammar_state *next) {
    static const char arg[] = "</arg_value>", closers[] = "\"}]";
    if ((*next = token_mask_advance(m, s, c->close))) return c->close;
    int32_t id = tags && arg[*tag] ? try_byte(c, m, s, (uint8_t)arg[*tag], next) : -1;
    *tag = id < 0 ? 0 : *tag + 1;
    for (int i = 0; id < 0 && closers[i]; i++) id = try_byte(c, m, s, (uint8_t)closers[i], next);
    return id;
}

/* Walks byte by byte to a place where the text may end. From everywhere something must lead on. */
static void finish(context *c, token_mask *m, grammar_state s, buf *text) {
    int tag = 0;
    size_t hint = 0;
    uint32_t run = 0; /* characters of the request that come next */
    for (int32_t i = 0; i < STEPS_MAX && !token_mask_may_end(m, s); i++) {
        grammar_state next = GRAMMAR_DEAD;
        uint32_t r = next_random(c), from = r % 256;
        if (!run && !tag && (r >> 7 & 3) == 0) run = 1 + (r >> 9) % 12, hint = next_random(c);
        int32_t id = run ? try_byte(c, m, s, (uint8_t)c->hints.p[hint++ % c->hints.n], &next) : -1;
        run = id < 0 ? 0 : run - 1;
        if (id < 0 && (tag || r >> 16 & 7)) id = try_close(c, m, s, r >> 20 & 1 || tag, &tag, &next);
        for (uint32_t b = 0; b < 256 && id < 0; b++) id = try_byte(c, m, s, (uint8_t)(from + b), &next);
        if (id < 0 && (next = token_mask_advance(m, s, c->open))) id = c->open;
        if (id < 0) id = try_close(c, m, s, true, &tag, &next);
        if (id < 0) {
            fprintf(stderr, "behind: %.*s\n", (int)text->len, text->data);
            die("a dead end");
        }
        buf_str(text, text_token_bytes(c->tm, id));
        s = next;
        token_mask_trim(m, &s, 1);
    }
    if (!token_mask_may_end(m, s)) die("no end was found");
}

static void sample(context *c, const grammar *g, int32_t tokens, buf *text) {
    token_mask *m = token_mask_new(c->trie, g);
    grammar_state s = token_mask_start(m);
    for (int32_t i = 0; i < tokens; i++) {
        token_mask_fill(m, s, c->bits);
        if (next_random(c) % CHECKED_OF == 0) check_mask(c, m, s, text);
        int32_t id = choose(c);
        if (id < 0) die("no token is allowed");
        if (text_is_end(c->tm, id)) {
            if (!token_mask_may_end(m, s)) die("an end token before the end");
            break;
        }
        buf_str(text, text_token_bytes(c->tm, id));
        s = token_mask_advance(m, s, id);
        if (!s) die("an allowed token leads nowhere");
        token_mask_trim(m, &s, 1);
    }
    if (!token_mask_may_end(m, s)) finish(c, m, s, text);
    token_mask_free(m);
}

static bool accepts(const grammar *g, str text) {
    grammar_run *r = grammar_run_new(g);
    grammar_state s = grammar_run_start(r);
    for (size_t i = 0; i < text.n && s; i++) s = grammar_run_step(r, s, (uint8_t)text.p[i]);
    bool yes = s && grammar_run_ends(r, s);
    grammar_run_free(r);
    return yes;
}

static status make_tools(context *c, const json_t *rq, grammar **g, err *e) {
    const json_t *list = json_object_get(rq, "tools");
    size_t n = json_array_size(list);
    tool_choice *tools = xalloc((n + 1) * sizeof *tools);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(list, i), *name = json_object_get(t, "name");
        tools[i] =
            (tool_choice){ { json_string_value(name), json_string_length(name) }, json_object_get(t, "parameters") };
    }
    tool_calls calls = { .tools = tools,
                         .n = n,
                         .open = c->open,
                         .close = c->close,
                         .lines = json_is_true(json_object_get(rq, "lines")),
                         .several = json_is_true(json_object_get(rq, "several")) };
    status s = grammar_of_tools(g, &calls, e);
    free(tools);
    return s;
}

static status make_grammar(context *c, const json_t *rq, grammar **g, err *e) {
    if (json_object_get(rq, "tools")) return make_tools(c, rq, g, e);
    if (json_object_get(rq, "schema")) return grammar_of_schema(g, json_object_get(rq, "schema"), e);
    *g = grammar_any_object();
    return OK;
}

static void put_answer(context *c, const json_t *rq, const grammar *g, buf *out) {
    const json_t *hints = json_object_get(rq, "hints");
    c->hints = json_string_length(hints) ? (str){ json_string_value(hints), json_string_length(hints) } : STR("0");
    c->seed = (uint64_t)json_integer_value(json_object_get(rq, "seed"));
    json_int_t count = json_integer_value(json_object_get(rq, "count"));
    buf_str(out, STR("{\"texts\":["));
    for (json_int_t i = 0; i < count; i++) {
        buf text = { 0 };
        sample(c, g, (int32_t)json_integer_value(json_object_get(rq, "tokens")), &text);
        if (i) buf_byte(out, ',');
        buf_json_str(out, buf_view(&text));
        buf_free(&text);
    }
    buf_str(out, STR("],\"accepted\":["));
    const json_t *list = json_object_get(rq, "accept");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *t = json_array_get(list, i);
        buf_printf(out, "%s%s", i ? "," : "",
                   accepts(g, (str){ json_string_value(t), json_string_length(t) }) ? "true" : "false");
    }
    buf_str(out, STR("]}"));
}

static void answer(context *c, str line, buf *out) {
    json_error_t why;
    json_t *rq = json_loadb(line.p, line.n, JSON_ALLOW_NUL, &why);
    if (!rq) die(why.text);
    grammar *g;
    err e;
    status s = make_grammar(c, rq, &g, &e);
    if (s == OK) {
        put_answer(c, rq, g, out);
        grammar_free(g);
    } else {
        buf_str(out, STR("{\"error\":"));
        buf_json_str(out, str_of(e.text));
        buf_printf(out, ",\"code\":%d}", (int)s);
    }
    json_decref(rq);
}

static void serve(context *c) {
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        buf out = { 0 };
        answer(c, (str){ line, (size_t)n }, &out);
        buf_byte(&out, '\n');
        fwrite(out.data, 1, out.len, stdout);
        fflush(stdout);
        buf_free(&out);
    }
    free(line);
}

/* A vocabulary of 100,000 tokens with the shape of a real one: words with and without a space in front, capitals,
 * punctuation between quotes, digits one by one, white space, UTF-8 in pieces. */
static token_trie *synthetic(int32_t n) {
    static const char *const syllables[] = { "re",   "con", "tion", "er",  "in", "the",  "st", "al",
                                             "func", "ing", "de",   "pro", "on", "ment", "le", "ex",
                                             "ab",   "ma",  "no",   "ti",  "_",  "é",    "い", "ent" };
    static const char *const marks[] = { "\"",  "\",",  "\":", "\": \"", "\", \"", "\"}", "\"]", "{\"",
                                         "[\"", "},",   "]}",  " {",     "</",     "/>",  "\\n", "\\\"",
                                         "();", ");\n", "  ",  "\n    ", "=\"",    "\">", "//",  "\"\n" };
    enum { MARKS = sizeof marks / sizeof *marks, SYLLABLES = sizeof syllables / sizeof *syllables };
    buf all = { 0 };
    size_t *ends = xalloc((size_t)n * sizeof *ends);
    uint64_t seed = 7;
    for (int32_t id = 0; id < n; id++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(seed >> 33);
        if (id < 256) {
            buf_byte(&all, (char)id);
        } else if (r % 12 == 0) { /* punctuation, in pairs and threes */
            for (uint32_t i = 0; i < 2 + r / 12 % 2; i++) buf_str(&all, str_of(marks[(r >> (6 * i + 3)) % MARKS]));
        } else {
            if (r % 3) buf_byte(&all, ' ');
            for (uint32_t i = 0; i < 1 + r / 7 % 4; i++)
                buf_str(&all, str_of(syllables[(r >> (5 * i + 2)) % SYLLABLES]));
            if (r % 5 == 0) buf_printf(&all, "%c", 'a' + (int)(r / 5 % 26));
        }
        ends[id] = all.len;
    }
    str *bytes = xalloc((size_t)n * sizeof *bytes);
    uint8_t *uses = xalloc((size_t)n);
    for (int32_t id = 0; id < n; id++) {
        size_t from = id ? ends[id - 1] : 0;
        bytes[id] = (str){ all.data + from, ends[id] - from };
        uses[id] = TOKEN_BYTES;
    }
    int64_t start = clock_ns();
    token_trie *t = token_trie_new(bytes, uses, n);
    printf("trie of %d tokens: %.1f ms\n", n, (double)(clock_ns() - start) / 1e6);
    free(bytes);
    free(uses);
    free(ends);
    buf_free(&all);
    return t;
}

/* Times of the first mask of a state, and of a mask that is still known. */
static void time_mask(const token_trie *t, const int32_t tokens[256], const char *schema, const char *behind) {
    enum { ROUNDS = 50 };
    json_t *tree = schema ? json_loads(schema, 0, NULL) : NULL;
    grammar *g = NULL;
    err e;
    if (!tree)
        g = grammar_any_object();
    else if (grammar_of_schema(&g, tree, &e) != OK)
        die(e.text);
    int32_t vocab = token_trie_vocab(t);
    uint32_t *bits = xalloc(token_mask_words(vocab) * sizeof *bits);
    int64_t best = INT64_MAX, sum = 0, again = INT64_MAX;
    int32_t allowed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        token_mask *m = token_mask_new(t, g);
        grammar_state s = token_mask_start(m);
        for (const char *p = behind; *p; p++) s = token_mask_advance(m, s, tokens[(uint8_t)*p]);
        if (!s) die("the bench walks into a dead end");
        int64_t start = clock_ns();
        token_mask_fill(m, s, bits);
        int64_t ns = clock_ns() - start;
        sum += ns;
        if (ns < best) best = ns;
        start = clock_ns();
        token_mask_fill(m, s, bits);
        ns = clock_ns() - start;
        if (ns < again) again = ns;
        token_mask_free(m);
    }
    for (int32_t id = 0; id < vocab; id++) allowed += is_set(bits, id);
    printf("%8d %8d %10.1f %10.1f %10.2f  %.40s behind %s\n", vocab, allowed, (double)best / 1e3,
           (double)sum / ROUNDS / 1e3, (double)again / 1e3, schema ? schema : "any object", behind);
    free(bits);
    grammar_free(g);
    json_decref(tree);
}

static void bench(const context *c) {
    static const struct {
        const char *schema, *behind;
    } rows[] = {
        { NULL, "" },
        { NULL, "{" },
        { NULL, "{\"" },
        { NULL, "{\"a\":" },
        { NULL, "{\"a\": " },
        { NULL, "{\"a\": \"b" },
        { NULL, "{\"a\": \"b\\" },
        { NULL, "{\"a\": \"b\"" },
        { NULL, "{\"a\": [1" },
        { "{\"type\": \"string\", \"minLength\": 5, \"maxLength\": 2000}", "\"abc" },
        { "{\"type\": \"string\", \"maxLength\": 8}", "\"abc" },
        { "{\"type\": \"string\", \"pattern\": \"^.*$\"}", "\"abc" },
        { "{\"type\": \"string\", \"pattern\": \"^[a-z]+(-[a-z]+)*$\"}", "\"abc" },
        { "{\"properties\": {\"name\": {}, \"number\": {}}, \"additionalProperties\": true}", "{\"n" },
        { "{\"properties\": {\"name\": {\"enum\": [\"red\", \"green\"]}}, \"required\": [\"name\"]}", "{" },
        { "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"string\", \"maxLength\": 500}]}", "\"abc" },
    };
    int32_t identity[256];
    for (int i = 0; i < 256; i++) identity[i] = i;
    token_trie *large = synthetic(100352);
    printf("%8s %8s %10s %10s %10s\n", "vocab", "allowed", "least us", "mean us", "again us");
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            time_mask(k ? large : c->trie, k ? identity : c->bytes, rows[i].schema, rows[i].behind);
    token_trie_free(large);
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage: constrained MODEL_DIR [--bench]");
    context c = { 0 };
    open_model(&c, argv[1]);
    if (argc > 2)
        bench(&c);
    else
        serve(&c);
    token_trie_free(c.trie);
    text_model_close(c.tm);
    free(c.bits);
    return 0;
}
