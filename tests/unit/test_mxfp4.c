#include "tests/unit/load_fixture.h"
#include "engine/base/dtype.h"
#include "engine/load/safetensors.h"
#include "kernels/mxfp4.h"

#include <math.h>

/* ---- C36: what a scale byte means ---- */

static uint8_t hex_byte(const char *hex, size_t i) {
    unsigned v = 0;
    assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
    return (uint8_t)v;
}

static void c36_row(const json_t *row) {
    size_t r, g, i;
    json_t *groups, *values, *value;
    json_array_foreach(json_object_get(row, "first_eight_of_each_group"), r, groups) {
        const char *hex = json_string_value(json_array_get(json_object_get(row, "packed_hex"), r));
        const json_t *scales = json_array_get(json_object_get(row, "scale_bytes"), r);
        uint8_t packed[32];
        for (size_t j = 0; j < 32; j++) packed[j] = hex_byte(hex, j);
        json_array_foreach(groups, g, values) {
            uint8_t scale = (uint8_t)json_integer_value(json_array_get(scales, g));
            json_array_foreach(values, i, value) {
                int64_t column = (int64_t)(g * MXFP4_GROUP + i);
                float got = mxfp4_value(mxfp4_code(packed, column), scale),
                      want = strtof(json_string_value(value), NULL);
                if (got != want) fail_msg("C36/%s row %zu group %zu value %zu: %a", text_of(row, "name"), r, g, i, got);
            }
        }
    }
    const json_t *whole = json_object_get(row, "whole_row_nonzero");
    for (int column = 0; whole && column < 64; column++) {
        const char *hex = json_string_value(json_array_get(json_object_get(row, "packed_hex"), 0));
        uint8_t packed[32];
        for (size_t j = 0; j < 32; j++) packed[j] = hex_byte(hex, j);
        float want = column == 0 ? 6.0f : column == 32 ? -6.0f : column > 32 ? 0.5f : 0.0f;
        assert_true(mxfp4_value(mxfp4_code(packed, column), 127) == want);
    }
}

static void c36_values(void **state) {
    (void)state;
    json_t *file = load_json("tests/cases/tables/C36-mxfp4.json"), *row;
    size_t i;
    json_array_foreach(json_object_get(file, "scale_decode"), i, row) {
        uint8_t byte = (uint8_t)number_of(row, "byte");
        if (byte == MXFP4_SCALE_NAN)
            assert_has(text_of(row, "value"), "NaN");
        else
            assert_true(mxfp4_value(2, byte) == strtof(text_of(row, "value"), NULL)); /* code 2 is 1.0 */
    }
    assert_int_equal(i, 8);
    json_array_foreach(json_object_get(file, "rows"), i, row) { c36_row(row); }
    assert_int_equal(i, 4);
    json_decref(file);
}

/* ---- the reference of the format ---- */

static void check_reference(const tensor_list *l, const char *packed, const char *scale, const char *value, int *n) {
    const tensor *p = tensor_list_find(l, str_of(packed)), *s = tensor_list_find(l, str_of(scale)),
                 *v = tensor_list_find(l, str_of(value));
    assert_true(p && s && v && v->dim[1] == 2 * p->dim[1] && s->dim[1] * MXFP4_GROUP == v->dim[1]);
    for (int64_t r = 0; r < v->dim[0]; r++)
        for (int64_t c = 0; c < v->dim[1]; c++) {
            uint8_t byte = s->data[r * s->dim[1] + c / MXFP4_GROUP];
            float want, got = mxfp4_value(mxfp4_code(p->data + r * p->dim[1], c), byte);
            memcpy(&want, v->data + 4 * (r * v->dim[1] + c), 4);
            if (byte == MXFP4_SCALE_NAN)
                assert_true(isnan(want)); /* such a file is refused */
            else if (bits_of_f32(got) != bits_of_f32(want))
                fail_msg("%s row %d column %d: %a, expected %a", value, (int)r, (int)c, got, want);
            ++*n;
        }
}

static void mxfp4_reference(void **state) {
    (void)state;
    file_map map;
    tensor_list l = { 0 };
    arena *mem = arena_new();
    err e;
    int n = 0;
    assert_int_equal(file_map_open(&map, "tests/golden/mxfp4_ref.safetensors", &e), OK);
    assert_int_equal(safetensors_read(&l, (str){ (const char *)map.data, map.bytes }, "mxfp4_ref", 0, mem, &e), OK);
    check_reference(&l, "unpack.packed", "unpack.scale", "unpack.value", &n);
    check_reference(&l, "quant.ct.packed", "quant.ct.scale", "quant.ct.value", &n);
    check_reference(&l, "quant.mse.packed", "quant.mse.scale", "quant.mse.value", &n);
    assert_int_equal(n, 14 * 512 + 2 * 27 * 128);
    tensor_list_free(&l);
    arena_free(mem);
    file_map_close(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c36_values),
        cmocka_unit_test(mxfp4_reference),
    };
    return cmocka_run_group_tests_name("mxfp4", tests, NULL, NULL);
}
