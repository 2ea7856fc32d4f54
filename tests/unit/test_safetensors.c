#include "tests/unit/load_fixture.h"
#include "engine/load/safetensors.h"

/* Reads a file whose bytes end exactly where the allocation ends: a sanitizer sees every byte read too far. */
static status read_exact(tensor_list *l, str bytes, arena *mem, err *e) {
    char *copy = xalloc(bytes.n);
    memcpy(copy, bytes.p, bytes.n);
    status s = safetensors_read(l, (str){ copy, bytes.n }, "f.safetensors", 0, mem, e);
    free(copy);
    return s;
}

/* The rule for each entry of C34 whose outcome is left to us; the others are refused. */
static bool is_accepted(const char *name) {
    static const char *const ACCEPTED[] = { "good", "scalar", "dtype F8_E8M0", "odd start", "zero dimension" };
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof ACCEPTED[0]; i++)
        if (strcmp(name, ACCEPTED[i]) == 0) return true;
    return false;
}

static void c34_files(void **state) {
    (void)state;
    json_t *file = load_json("tests/cases/bytes/C34-safetensors.json"), *item;
    size_t i, n_accepted = 0;
    json_array_foreach(json_object_get(file, "items"), i, item) {
        const char *name = text_of(item, "name");
        buf bytes = { 0 };
        tensor_list l = { 0 };
        arena *mem = arena_new();
        err e = { 0 };
        expand_parts(&bytes, json_object_get(item, "parts"));
        status s = read_exact(&l, buf_view(&bytes), mem, &e);
        print_message("C34/%s: %s\n", name, s == OK ? "accepted" : e.text);
        if (is_accepted(name) != (s == OK)) fail_msg("C34/%s: status %d: %s", name, s, e.text);
        if (s != OK) {
            assert_int_equal(s, ERR_MODEL);
            assert_int_equal(l.count, 0);
            assert_has(e.text, "f.safetensors");
        }
        n_accepted += s == OK;
        tensor_list_free(&l);
        arena_free(mem);
        buf_free(&bytes);
    }
    assert_true(i >= 41);
    assert_int_equal(n_accepted, 5);
    json_decref(file);
}

typedef struct text_case {
    const char *header;
    size_t data;         /* bytes behind it */
    const char *message; /* NULL: accepted */
} text_case;

#define W "{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}"

static const text_case TEXTS[] = {
    { "{\"w\":" W "}", 4, NULL },
    { " {\n\"w\" :\t" W "\r\n} ", 4, NULL },
    { "{}", 0, NULL },
    { "{}", 1, "1 bytes at the end" },
    { "{\"__metadata__\":{},\"w\":" W "}", 4, NULL },
    { "{\"__metadata__\":{\"a\":\"b\\n\",\"c\":\"\"},\"w\":" W "}", 4, NULL },
    { "{\"__metadata__\":{\"a\":1},\"w\":" W "}", 4, "expected" },
    { "{\"w\":" W ",}", 4, "expected '\"'" },
    { "{\"w\":" W, 4, "header ends" },
    { "{\"w\" " W "}", 4, "expected ':'" },
    { "{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4],\"extra\":1}}", 4, "unknown member \"extra\"" },
    { "{\"w\":{\"dtype\":\"BF16\",\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
      "dtype is there twice" },
    { "{\"w\":{\"dtype\":\"BF16\",\"shape\":[02],\"data_offsets\":[0,4]}}", 4, "expected an integer" },
    { "{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4,4]}}", 4, "more than 2" },
    { "{\"w\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[0,4]}}", 4,
      "tensor w: dtype and shape need 6 bytes" },
    { "{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 3,
      "tensor w: ends at byte 4 of the data, but the file has only 3" },
    { "{\"w\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}}", 4, NULL },
    { "{\"w\":{\"dtype\":\"F4\",\"shape\":[7],\"data_offsets\":[0,4]}}", 4, "whole bytes" },
    { "{\"w\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, NULL },
    { "{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,2,2],\"data_offsets\":[0,4]}}", 4, NULL },
    { "{\"\\u00e4\\ud83d\\ude00\\\"\\/\":" W "}", 4, NULL },
    { "{\"\\ud83d\":" W "}", 4, "escape" },
    { "{\"\\u12g4\":" W "}", 4, "escape" },
    { "{\"\\x\":" W "}", 4, "escape" },
    { "{\"a\\u001b[2J\":" W "}", 4, "control character" },
    { "{\"a\xff\":" W "}", 4, "not valid UTF-8" },
    { "{\"\xc3\xa4\":" W "}", 4, NULL },
    { "{\"a\\", 4, "inside a string" },
    { "{\"a\\u12", 4, "inside a string" },
    /* the order of names and the order of places differ */
    { "{\"b\":" W ",\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}", 5, "inside of tensor b" },
    { "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},\"a\":" W "}", 6, NULL },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},\"w\":" W "}", 4, NULL },
    { "{\"w\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0, "no size" },
};

static void headers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        const text_case *t = &TEXTS[i];
        buf bytes = { 0 };
        tensor_list l = { 0 };
        arena *mem = arena_new();
        err e = { 0 };
        put_le64(&bytes, strlen(t->header));
        buf_str(&bytes, str_of(t->header));
        for (size_t j = 0; j < t->data; j++) buf_byte(&bytes, 'd');
        status s = read_exact(&l, buf_view(&bytes), mem, &e);
        if ((s == OK) != (t->message == NULL)) fail_msg("%s: status %d: %s", t->header, s, e.text);
        if (t->message) assert_has(e.text, t->message);
        tensor_list_free(&l);
        arena_free(mem);
        buf_free(&bytes);
    }
}

/* Every prefix of a good header is refused without reading too far. */
static void every_cut_is_refused(void **state) {
    (void)state;
    const char *header = "{\"__metadata__\":{\"a\":\"\\u00e4\"},\"w\\\\\":" W "}";
    for (size_t n = 0; n < strlen(header); n++) {
        buf bytes = { 0 };
        tensor_list l = { 0 };
        arena *mem = arena_new();
        put_le64(&bytes, n);
        buf_put(&bytes, header, n);
        assert_int_equal(read_exact(&l, buf_view(&bytes), mem, NULL), ERR_MODEL);
        tensor_list_free(&l);
        arena_free(mem);
        buf_free(&bytes);
    }
}

static void gives_sorted_views(void **state) {
    (void)state;
    const char *header = "{\"b\":" W ",\"a\":{\"dtype\":\"F8_E8M0\",\"shape\":[3,1],\"data_offsets\":[4,7]},"
                         "\"ab\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[7,8]}}";
    buf bytes = { 0 };
    tensor_list l = { 0 };
    arena *mem = arena_new();
    err e;
    put_le64(&bytes, strlen(header));
    buf_str(&bytes, str_of(header));
    buf_str(&bytes, STR("01234567"));
    assert_int_equal(safetensors_read(&l, buf_view(&bytes), "f", 3, mem, &e), OK);
    assert_int_equal(l.count, 3);
    assert_true(str_eq(l.at[0].name, STR("a")) && str_eq(l.at[1].name, STR("ab")) && str_eq(l.at[2].name, STR("b")));
    const tensor *a = tensor_list_find(&l, STR("a"));
    assert_ptr_equal(a, &l.at[0]);
    assert_int_equal(a->type, TENSOR_U8);
    assert_string_equal(a->type_name, "F8_E8M0");
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->dim[0], 3);
    assert_int_equal(a->bytes, 3);
    assert_int_equal(a->shard, 3);
    assert_int_equal(a->data[0], '4');
    assert_int_equal(l.at[1].type, TENSOR_OTHER);
    assert_null(tensor_list_find(&l, STR("c")));
    /* a failing file leaves the list as it was */
    assert_int_equal(safetensors_read(&l, STR("12345678"), "g", 4, mem, &e), ERR_MODEL);
    assert_int_equal(l.count, 3);
    tensor_list_free(&l);
    arena_free(mem);
    buf_free(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c34_files),
        cmocka_unit_test(headers),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(gives_sorted_views),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
