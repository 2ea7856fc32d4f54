/* engine/load/safetensors.c - a scanner for exactly the JSON that a header may be, instead of a general parser: a large
 * checkpoint has 11 MB of headers, and here nothing is built that is thrown away again. Members of a tensor other than
 * the three known ones, numbers with sign, fraction or exponent, and nesting beyond the format are errors. */
#include "engine/load/safetensors.h"

#include "engine/base/mem.h"
#include "engine/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 * 1000 * 1000 };

typedef struct scan {
    const char *begin, *p, *end; /* the header text */
    const char *file;
    str data; /* what is behind the header */
    str name; /* of the tensor at hand; p NULL: none */
    arena *mem;
    err *e;
} scan;

static status fail(scan *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static status fail(scan *s, const char *fmt, ...) {
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (s->name.p) return err_set(s->e, ERR_MODEL, "%s: tensor %.*s: %s", s->file, TENSOR_NAME_ARG(s->name), what);
    return err_set(s->e, ERR_MODEL, "%s: %s", s->file, what);
}

static status fail_syntax(scan *s, const char *wanted) {
    size_t at = (size_t)(s->p - s->begin) + LENGTH_BYTES;
    if (s->p == s->end) return fail(s, "the header ends at byte %zu, expected %s", at, wanted);
    return fail(s, "header, byte %zu: expected %s, found 0x%02x", at, wanted, (unsigned char)*s->p);
}

/* ---- tokens ---- */

static void skip_space(scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) s->p++;
}

/* Takes `c` when it is next. */
static bool take_char(scan *s, char c) {
    skip_space(s);
    if (s->p == s->end || *s->p != c) return false;
    s->p++;
    return true;
}

static status need_char(scan *s, char c) {
    char wanted[4] = { '\'', c, '\'', 0 };
    return take_char(s, c) ? OK : fail_syntax(s, wanted);
}

static bool read_hex4(scan *s, uint32_t *out) {
    uint32_t v = 0;
    if (s->end - s->p < 4) return false;
    for (int i = 0; i < 4; i++) {
        char c = *s->p++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit > 15) return false;
        v = v << 4 | digit;
    }
    *out = v;
    return true;
}

/* The character behind "\u", surrogate pairs joined; 0 when it is none. */
static uint32_t read_unicode_escape(scan *s) {
    uint32_t hi, lo;
    if (!read_hex4(s, &hi)) return 0;
    if (hi < 0xD800 || hi > 0xDFFF) return hi;
    if (hi > 0xDBFF || s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u') return 0;
    s->p += 2;
    if (!read_hex4(s, &lo) || lo < 0xDC00 || lo > 0xDFFF) return 0;
    return 0x10000 + ((hi - 0xD800) << 10) + (lo - 0xDC00);
}

/* Replaces escapes in the string that starts at s->p and has `n` bytes; an escaped character never has more bytes than
 * its escape. U+0000 is refused everywhere: it would cut names short in messages. */
static status unescape(scan *s, size_t n, str *out) {
    static const char FROM[] = "\"\\/bfnrt", TO[] = "\"\\/\b\f\n\r\t";
    const char *end = s->p + n;
    char *text = arena_alloc(s->mem, n), *to = text;
    while (s->p < end) {
        if (*s->p != '\\') {
            *to++ = *s->p++;
            continue;
        }
        char c = s->p[1];
        const char *known = c ? strchr(FROM, c) : NULL;
        s->p += 2;
        if (known) {
            *to++ = TO[known - FROM];
            continue;
        }
        uint32_t cp = c == 'u' ? read_unicode_escape(s) : 0;
        if (!cp || s->p > end) return fail(s, "header: a string has an escape that is not valid");
        to += utf8_encode(cp, to);
    }
    *out = (str){ text, (size_t)(to - text) };
    return OK;
}

static status read_string(scan *s, str *out) {
    TRY(need_char(s, '"'));
    const char *start = s->p;
    bool has_escape = false;
    unsigned char high = 0;
    while (s->p < s->end && *s->p != '"') {
        unsigned char c = (unsigned char)*s->p;
        if (c < 0x20) return fail_syntax(s, "no control character inside a string");
        high |= c;
        has_escape |= c == '\\';
        s->p += c == '\\' && s->p + 1 < s->end ? 2 : 1;
    }
    if (s->p >= s->end) return fail(s, "the header ends inside a string");
    str raw = { start, (size_t)(s->p - start) };
    if (high & 0x80 && !utf8_valid(raw)) return fail(s, "the header is not valid UTF-8");
    if (has_escape) {
        s->p = start;
        TRY(unescape(s, raw.n, &raw));
    }
    *out = raw;
    return need_char(s, '"');
}

/* An integer from 0 to 2^63 - 1, digits only. */
static status read_count(scan *s, int64_t *out) {
    int64_t v = 0;
    skip_space(s);
    const char *start = s->p;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *s->p - '0', &v))
            return fail(s, "header, byte %zu: an integer above 2^63 - 1", (size_t)(start - s->begin) + LENGTH_BYTES);
    }
    if (s->p == start || (*start == '0' && s->p - start > 1)) return fail_syntax(s, "an integer from 0 on");
    *out = v;
    return OK;
}

/* [ count, ... ] with at most `max` elements. */
static status read_counts(scan *s, const char *what, int64_t *out, int32_t max, int32_t *n) {
    *n = 0;
    TRY(need_char(s, '['));
    if (take_char(s, ']')) return OK;
    do {
        if (*n == max) return fail(s, "%s has more than %d elements", what, (int)max);
        TRY(read_count(s, &out[(*n)++]));
    } while (take_char(s, ','));
    return need_char(s, ']');
}

/* ---- tensors ---- */

typedef struct file_type {
    const char *name;
    int bits;
    tensor_type type;
} file_type;

static const file_type TYPES[] = {
    { "BF16", 16, TENSOR_BF16 },        { "U8", 8, TENSOR_U8 },         { "F8_E8M0", 8, TENSOR_U8 },
    { "F32", 32, TENSOR_F32 },          { "F16", 16, TENSOR_F16 },      { "I32", 32, TENSOR_I32 },
    { "I64", 64, TENSOR_I64 },          { "F64", 64, TENSOR_OTHER },    { "C64", 64, TENSOR_OTHER },
    { "U64", 64, TENSOR_OTHER },        { "U32", 32, TENSOR_OTHER },    { "U16", 16, TENSOR_OTHER },
    { "I16", 16, TENSOR_OTHER },        { "I8", 8, TENSOR_OTHER },      { "BOOL", 8, TENSOR_OTHER },
    { "F8_E4M3", 8, TENSOR_OTHER },     { "F8_E5M2", 8, TENSOR_OTHER }, { "F8_E4M3FNUZ", 8, TENSOR_OTHER },
    { "F8_E5M2FNUZ", 8, TENSOR_OTHER }, { "F6_E2M3", 6, TENSOR_OTHER }, { "F6_E3M2", 6, TENSOR_OTHER },
    { "F4", 4, TENSOR_OTHER },
};

static const file_type *find_type(str name) {
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (str_eq(name, str_of(TYPES[i].name))) return &TYPES[i];
    return NULL;
}

/* Bytes of a shape; false when they do not fit into 63 bits or end inside a byte. */
static bool shape_bytes(const tensor *t, int bits, int64_t *out) {
    int64_t n = 1, total;
    for (int32_t i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(n, t->dim[i], &n)) return false;
    if (__builtin_mul_overflow(n, (int64_t)bits, &total) || total % 8) return false;
    *out = total / 8;
    return true;
}

/* { "dtype": ..., "shape": [...], "data_offsets": [begin, end] }, in any order. */
static status read_tensor(scan *s, tensor *t) {
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    int seen = 0;
    str key, type_name = { 0 };
    int64_t offset[2] = { 0 };
    int32_t n_offsets = 0;
    TRY(need_char(s, '{'));
    do {
        TRY(read_string(s, &key));
        TRY(need_char(s, ':'));
        int field = str_eq(key, STR("dtype"))          ? DTYPE
                    : str_eq(key, STR("shape"))        ? SHAPE
                    : str_eq(key, STR("data_offsets")) ? OFFSETS
                                                       : 0;
        if (!field) return fail(s, "unknown member \"%.*s\"", TENSOR_NAME_ARG(key));
        if (seen & field) return fail(s, "%.*s is there twice", STR_ARG(key));
        seen |= field;
        if (field == DTYPE)
            TRY(read_string(s, &type_name));
        else if (field == SHAPE)
            TRY(read_counts(s, "shape", t->dim, TENSOR_DIMS, &t->n_dims));
        else
            TRY(read_counts(s, "data_offsets", offset, 2, &n_offsets));
    } while (take_char(s, ','));
    TRY(need_char(s, '}'));
    if (seen != (DTYPE | SHAPE | OFFSETS)) return fail(s, "expected dtype, shape and data_offsets");

    const file_type *type = find_type(type_name);
    if (!type) return fail(s, "dtype \"%.*s\" is not known", TENSOR_NAME_ARG(type_name));
    if (n_offsets != 2) return fail(s, "data_offsets: expected two, found %d", (int)n_offsets);
    if (offset[0] > offset[1])
        return fail(s, "data_offsets: %lld comes after %lld", (long long)offset[0], (long long)offset[1]);
    if ((uint64_t)offset[1] > s->data.n)
        return fail(s, "ends at byte %lld of the data, but the file has only %zu: cut short?", (long long)offset[1],
                    s->data.n);
    if (!shape_bytes(t, type->bits, &t->bytes)) return fail(s, "its shape has no size in whole bytes below 2^63");
    if (offset[1] - offset[0] != t->bytes)
        return fail(s, "dtype and shape need %lld bytes, data_offsets give %lld", (long long)t->bytes,
                    (long long)(offset[1] - offset[0]));
    t->type = type->type;
    snprintf(t->type_name, sizeof t->type_name, "%s", type->name);
    t->data = (const uint8_t *)s->data.p + offset[0];
    return OK;
}

/* { "name": "text", ... }; nothing of it is used. */
static status read_metadata(scan *s) {
    str text;
    TRY(need_char(s, '{'));
    if (take_char(s, '}')) return OK;
    do {
        TRY(read_string(s, &text));
        TRY(need_char(s, ':'));
        TRY(read_string(s, &text));
    } while (take_char(s, ','));
    return need_char(s, '}');
}

static bool has_control(str s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7F) return true;
    return false;
}

static tensor *push_tensor(tensor_list *l) {
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 256;
        l->at = xrealloc(l->at, l->cap * sizeof *l->at);
    }
    l->at[l->count] = (tensor){ 0 };
    return &l->at[l->count++];
}

static status read_header(scan *s, tensor_list *l, int32_t shard) {
    str name;
    TRY(need_char(s, '{'));
    if (!take_char(s, '}')) {
        do {
            s->name = (str){ 0 };
            TRY(read_string(s, &name));
            TRY(need_char(s, ':'));
            if (str_eq(name, STR("__metadata__"))) {
                TRY(read_metadata(s));
                continue;
            }
            if (has_control(name)) return fail(s, "header: a tensor's name has a control character");
            s->name = name;
            tensor *t = push_tensor(l);
            t->name = name;
            t->shard = shard;
            TRY(read_tensor(s, t));
        } while (take_char(s, ','));
        s->name = (str){ 0 };
        TRY(need_char(s, '}'));
    }
    skip_space(s);
    return s->p == s->end ? OK : fail_syntax(s, "nothing behind the header's object");
}

/* ---- the file as a whole ---- */

static int compare_places(const void *a, const void *b) {
    const tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int compare_names(const void *a, const void *b) {
    return str_order(((const tensor *)a)->name, ((const tensor *)b)->name);
}

/* Writers put tensors in order, so that sorting is the exception. */
static void sort_tensors(tensor *t, size_t n, int (*compare)(const void *, const void *)) {
    for (size_t i = 1; i < n; i++) {
        if (compare(&t[i - 1], &t[i]) <= 0) continue;
        qsort(t, n, sizeof *t, compare);
        return;
    }
}

/* The ranges must cover the data exactly, each byte once. */
static status check_cover(scan *s, tensor *t, size_t n) {
    const uint8_t *base = (const uint8_t *)s->data.p, *at = base;
    sort_tensors(t, n, compare_places);
    for (size_t i = 0; i < n; i++) {
        s->name = t[i].name;
        if (t[i].data < at)
            return fail(s, "starts at byte %td of the data, inside of tensor %.*s", t[i].data - base,
                        TENSOR_NAME_ARG(t[i - 1].name));
        if (t[i].data > at)
            return fail(s, "bytes %td to %td of the data in front of it belong to no tensor", at - base,
                        t[i].data - base);
        at = t[i].data + t[i].bytes;
    }
    s->name = (str){ 0 };
    size_t used = (size_t)(at - base);
    if (used != s->data.n) return fail(s, "%zu bytes at the end belong to no tensor", s->data.n - used);
    return OK;
}

static status check_names(scan *s, tensor *t, size_t n) {
    sort_tensors(t, n, compare_names);
    for (size_t i = 1; i < n; i++) {
        if (!str_eq(t[i - 1].name, t[i].name)) continue;
        s->name = t[i].name;
        return fail(s, "is there twice");
    }
    return OK;
}

/* Cuts the file into header and data. */
static status split_file(scan *s, str bytes) {
    if (str_starts(bytes, STR("version https://git-lfs")))
        return fail(
            s, "is a Git LFS pointer file, not the weights: fetch them with git lfs pull, or download the file again");
    if (bytes.n < LENGTH_BYTES) return fail(s, "has %zu bytes, too few for a safetensors file", bytes.n);
    uint64_t length = 0;
    for (int i = LENGTH_BYTES; i--;) length = length << 8 | (unsigned char)bytes.p[i];
    if (length > HEADER_MAX)
        return fail(s, "the header is said to have %llu bytes, at most %d are read: not a safetensors file?",
                    (unsigned long long)length, HEADER_MAX);
    if (length > bytes.n - LENGTH_BYTES)
        return fail(s, "the header has %llu bytes, but the file only %zu: cut short?", (unsigned long long)length,
                    bytes.n);
    s->begin = s->p = bytes.p + LENGTH_BYTES;
    s->end = s->begin + length;
    s->data = str_from(bytes, LENGTH_BYTES + (size_t)length);
    return OK;
}

status safetensors_read(tensor_list *l, str bytes, const char *file, int32_t shard, arena *mem, err *e) {
    scan s = { .file = file, .mem = mem, .e = e };
    size_t start = l->count;
    status r = split_file(&s, bytes);
    if (r == OK) r = read_header(&s, l, shard);
    tensor *added = l->at ? l->at + start : NULL; /* a header without tensors is a file too */
    if (r == OK) r = check_cover(&s, added, l->count - start);
    if (r == OK) r = check_names(&s, added, l->count - start);
    if (r != OK) l->count = start;
    return r;
}

void tensor_list_free(tensor_list *l) {
    free(l->at);
    *l = (tensor_list){ 0 };
}

void tensor_list_sort(tensor_list *l) { sort_tensors(l->at, l->count, compare_names); }

const tensor *tensor_list_find(const tensor_list *l, str name) {
    if (!l->count) return NULL;
    return bsearch(&(tensor){ .name = name }, l->at, l->count, sizeof *l->at, compare_names);
}
