#include "engine/load/bind.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/load/faults.h"

#include <stdio.h>
#include <stdlib.h>

enum { FAULT_BYTES = 1200 }; /* for each of the three lists, so that one cannot push the others out of the message */

typedef struct quantized {
    const tensor *packed, *scale;
} quantized;

struct binder {
    const model_dir *dir;
    arena *mem;
    void (*put)(void *place, const bind_matrix *m);
    uint8_t *is_used;     /* by tensor */
    quantized *quantized; /* the MXFP4 modules, for the reading of scales */
    size_t n_quantized, cap_quantized;
    bind_totals totals;
    faults missing, wrong, extra;
};

binder *bind_begin(const model_dir *dir, arena *mem, void (*put)(void *place, const bind_matrix *m)) {
    binder *b = xalloc(sizeof *b);
    *b = (binder){ .dir = dir,
                   .mem = mem,
                   .put = put,
                   .is_used = xalloc(model_dir_count(dir)),
                   .missing = { .max = FAULT_BYTES },
                   .wrong = { .max = FAULT_BYTES },
                   .extra = { .max = FAULT_BYTES } };
    return b;
}

/* ---- looking up ---- */

/* The tensor MODULE.SUFFIX; NULL: absent. */
static const tensor *find_part(const binder *b, const char *module, const char *suffix) {
    char name[BIND_NAME_MAX + 16];
    int n = snprintf(name, sizeof name, "%s.%s", module, suffix);
    CHECK(n > 0 && n < (int)sizeof name);
    return model_dir_find(b->dir, name);
}

bool bind_has(const binder *b, const char *module) {
    return find_part(b, module, "weight") || find_part(b, module, "weight_packed") ||
           find_part(b, module, "weight_scale");
}

static void use(binder *b, const tensor *t) {
    b->is_used[t - model_dir_tensor(b->dir, 0)] = 1;
    b->totals.bytes += t->bytes;
}

/* ---- checking ---- */

static const char *shape_text(const tensor *t, char out[96]) {
    size_t n = 0;
    out[n++] = '[';
    for (int32_t i = 0; i < t->n_dims && n < 80; i++)
        n += (size_t)snprintf(out + n, 96 - n, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    snprintf(out + (n < 94 ? n : 94), 2, "]");
    return out;
}

/* k < 0: a vector of n. */
static bool check_shape(binder *b, const tensor *t, int64_t n, int64_t k) {
    int32_t dims = k < 0 ? 1 : 2;
    if (t->n_dims == dims && t->dim[0] == n && (k < 0 || t->dim[1] == k)) return true;
    char found[96], wanted[64];
    if (k < 0)
        snprintf(wanted, sizeof wanted, "[%lld]", (long long)n);
    else
        snprintf(wanted, sizeof wanted, "[%lld, %lld]", (long long)n, (long long)k);
    faults_add(&b->wrong, "%.*s: expected shape %s, found %s", STR_ARG(t->name), wanted, shape_text(t, found));
    return false;
}

static bool check_real(binder *b, const tensor *t) {
    if (t->type == TENSOR_BF16 || t->type == TENSOR_F16 || t->type == TENSOR_F32) return true;
    faults_add(&b->wrong, "%.*s: expected type BF16, F16 or F32, found %s", STR_ARG(t->name), t->type_name);
    return false;
}

static bool check_bytes(binder *b, const tensor *t, const char *wanted) {
    if (t->type == TENSOR_U8) return true;
    faults_add(&b->wrong, "%.*s: expected type %s, found %s", STR_ARG(t->name), wanted, t->type_name);
    return false;
}

/* ---- values ---- */

/* Value i of a tensor of real numbers; the address may be odd. */
static float real_at(const tensor *t, int64_t i) {
    uint16_t h;
    float f;
    if (t->type == TENSOR_F32) {
        memcpy(&f, t->data + 4 * i, sizeof f);
        return f;
    }
    memcpy(&h, t->data + 2 * i, sizeof h);
    return t->type == TENSOR_BF16 ? f32_of_bf16(h) : f32_of_f16(h);
}

/* BF16 values of a tensor: where they are mapped if that can be, else a copy. */
static const bf16 *take_bf16(binder *b, const tensor *t, int64_t n) {
    if (t->type == TENSOR_BF16 && (uintptr_t)t->data % sizeof(bf16) == 0) return (const void *)t->data;
    bf16 *copy = arena_alloc(b->mem, (size_t)n * sizeof *copy);
    if (t->type == TENSOR_BF16)
        memcpy(copy, t->data, (size_t)t->bytes);
    else
        for (int64_t i = 0; i < n; i++) copy[i] = bf16_of_f32(real_at(t, i));
    return copy;
}

static const float *take_floats(binder *b, const tensor *t, int64_t n) {
    float *copy = arena_alloc(b->mem, (size_t)n * sizeof *copy);
    for (int64_t i = 0; i < n; i++) copy[i] = real_at(t, i);
    return copy;
}

/* ---- binding ---- */

static void bind_vector(binder *b, const bind_item *it) {
    const tensor *t = model_dir_find(b->dir, it->name);
    if (!t && it->alias) t = model_dir_find(b->dir, it->alias);
    if (!t) {
        faults_add(&b->missing, "%s", it->name);
        return;
    }
    use(b, t);
    if (!check_real(b, t) || !check_shape(b, t, it->n, -1)) return;
    b->totals.parameters += it->n;
    if (it->kind == BIND_FLOATS)
        *(const float **)it->place = take_floats(b, t, it->n);
    else
        *(const bf16 **)it->place = take_bf16(b, t, it->n);
}

static void push_quantized(binder *b, const tensor *packed, const tensor *scale) {
    if (b->n_quantized == b->cap_quantized) {
        b->cap_quantized = b->cap_quantized ? 2 * b->cap_quantized : 256;
        b->quantized = xrealloc(b->quantized, b->cap_quantized * sizeof *b->quantized);
    }
    b->quantized[b->n_quantized++] = (quantized){ packed, scale };
}

static void bind_quantized(binder *b, const bind_item *it, const tensor *packed, const tensor *scale) {
    use(b, packed);
    use(b, scale);
    if (it->kind == BIND_DENSE || it->k % BIND_GROUP) {
        faults_add(&b->wrong, "%.*s: MXFP4 is %s", STR_ARG(packed->name),
                   it->kind == BIND_DENSE ? "not read for this matrix"
                                          : "read for rows of a multiple of 32 columns only");
        return;
    }
    bool good = check_bytes(b, packed, "U8") & check_bytes(b, scale, "U8 or F8_E8M0");
    good &= check_shape(b, packed, it->n, it->k / 2) & check_shape(b, scale, it->n, it->k / BIND_GROUP);
    if (!good) return;
    push_quantized(b, packed, scale);
    b->totals.parameters += (int64_t)it->n * it->k;
    b->totals.mxfp4++;
    b->put(it->place, &(bind_matrix){ packed->data, scale->data, it->n, it->k, DT_MXFP4 });
}

static void bind_module(binder *b, const bind_item *it) {
    const char *name = it->alias && !bind_has(b, it->name) && bind_has(b, it->alias) ? it->alias : it->name;
    const tensor *packed = find_part(b, name, "weight_packed"), *scale = find_part(b, name, "weight_scale");
    const tensor *plain = find_part(b, name, "weight");
    if (packed && scale) {
        bind_quantized(b, it, packed, scale);
        return;
    }
    if (!plain) {
        if (packed)
            faults_add(&b->missing, "%s.weight_scale (its weight_packed is there)", name);
        else if (scale)
            faults_add(&b->missing, "%s.weight_packed (its weight_scale is there)", name);
        else
            faults_add(&b->missing, "%s.weight", name);
        if (packed) use(b, packed);
        if (scale) use(b, scale);
        return;
    }
    use(b, plain);
    if (!check_real(b, plain) || !check_shape(b, plain, it->n, it->k)) return;
    int64_t count = (int64_t)it->n * it->k;
    b->totals.parameters += count;
    b->put(it->place, &(bind_matrix){ take_bf16(b, plain, count), NULL, it->n, it->k, DT_BF16 });
}

void bind_add(binder *b, const bind_item *it) {
    CHECK(it->n > 0 && strlen(it->name) < BIND_NAME_MAX && (!it->alias || strlen(it->alias) < BIND_NAME_MAX));
    if (it->kind == BIND_VECTOR || it->kind == BIND_FLOATS)
        bind_vector(b, it);
    else
        bind_module(b, it);
}

/* ---- scales ---- */

/* Which magnitude codes (bit m for code m) do not become a normal, finite FP32 or BF16 value at a scale byte:
 * magnitudes are 0, 0.5, 1, 1.5, 2, 3, 4, 6; normal values are those from 2^-126 up to below 2^128. Zero is fine but
 * for NaN. */
static unsigned subnormal_codes(uint8_t scale) { return scale == 0 ? 0x0E : scale == 1 ? 0x02 : 0; }
static unsigned infinite_codes(uint8_t scale) {
    return scale == BIND_SCALE_NAN ? 0xFF : scale == 254 ? 0xF0 : scale == 253 ? 0xC0 : 0;
}

/* Is one of the bytes 253, 254, 255, 0, 1 among these? All scales of a model pass here: blocks of a fixed size make the
 * compiler use vectors. */
static bool has_edge_scale(const uint8_t *p, int64_t n) {
    enum { BLOCK = 64 };
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        uint8_t any = 0;
        for (int j = 0; j < BLOCK; j++) any |= (uint8_t)(p[i + j] + 3) < 5;
        if (any) return true;
    }
    for (; i < n; i++)
        if ((uint8_t)(p[i] + 3) < 5) return true;
    return false;
}

static unsigned codes_in_group(const uint8_t *packed) {
    unsigned codes = 0;
    for (int i = 0; i < BIND_GROUP / 2; i++) codes |= 1u << (packed[i] & 7) | 1u << (packed[i] >> 4 & 7);
    return codes;
}

typedef struct scale_report {
    int64_t subnormal; /* groups */
    const tensor *first;
} scale_report;

static void scan_scales(binder *b, const quantized *q, scale_report *r) {
    const uint8_t *scale = q->scale->data;
    int64_t groups = q->scale->dim[1];
    if (!has_edge_scale(scale, q->scale->bytes)) return;
    for (int64_t i = 0; i < q->scale->bytes; i++) {
        if (!subnormal_codes(scale[i]) && !infinite_codes(scale[i])) continue;
        unsigned codes = codes_in_group(q->packed->data + i * (BIND_GROUP / 2));
        if (codes & infinite_codes(scale[i])) {
            faults_add(&b->wrong, "%.*s: row %lld, group %lld: scale byte %d gives %s", STR_ARG(q->scale->name),
                       (long long)(i / groups), (long long)(i % groups), scale[i],
                       scale[i] == BIND_SCALE_NAN ? "NaN" : "values beyond FP32");
        } else if (codes & subnormal_codes(scale[i])) {
            if (!r->subnormal++) r->first = q->scale;
        }
    }
}

static void scan_all_scales(binder *b, void (*progress)(void *arg, float fraction), void *arg) {
    scale_report r = { 0 };
    for (size_t i = 0; i < b->n_quantized; i++) {
        scan_scales(b, &b->quantized[i], &r);
        if (progress) progress(arg, (float)(i + 1) / (float)b->n_quantized);
    }
    if (r.subnormal)
        log_warn(
            "load",
            "%s: %lld groups have scale bytes 0 or 1 and codes so small that they count as zero, the first in %.*s",
            model_dir_name(b->dir), (long long)r.subnormal, TENSOR_NAME_ARG(r.first->name));
}

/* ---- the verdict ---- */

/* Tables that some writers store and every reader computes. */
static bool is_auxiliary(str name) { return str_ends(name, STR("rotary_emb.inv_freq")); }

static void find_extra(binder *b) {
    for (size_t i = 0; i < model_dir_count(b->dir); i++) {
        str name = model_dir_tensor(b->dir, i)->name;
        if (!b->is_used[i] && !is_auxiliary(name)) faults_add(&b->extra, "%.*s", TENSOR_NAME_ARG(name));
    }
}

static void write_list(buf *out, const char *title, const faults *f) {
    if (!f->count) return;
    buf_printf(out, "\n%s:", title);
    faults_write(f, out);
}

static status report(const binder *b, err *e) {
    if (!b->missing.count && !b->wrong.count && !b->extra.count) return OK;
    buf text = { 0 };
    buf_printf(&text, "%s: %lld missing, %lld wrong, %lld unexpected tensors", model_dir_name(b->dir),
               (long long)b->missing.count, (long long)b->wrong.count, (long long)b->extra.count);
    write_list(&text, "missing", &b->missing);
    write_list(&text, "wrong", &b->wrong);
    write_list(&text, "unexpected", &b->extra);
    status s = err_set(e, ERR_MODEL, "%s", buf_cstr(&text));
    buf_free(&text);
    return s;
}

status bind_end(binder *b, bind_totals *out, void (*progress)(void *arg, float fraction), void *arg, err *e) {
    find_extra(b);
    /* A set of tensors that does not fit is refused at once: reading scales can mean gigabytes from a disk. */
    if (!b->missing.count && !b->wrong.count && !b->extra.count) scan_all_scales(b, progress, arg);
    status s = report(b, e);
    if (s == OK) *out = b->totals;
    faults_free(&b->missing);
    faults_free(&b->wrong);
    faults_free(&b->extra);
    free(b->quantized);
    free(b->is_used);
    free(b);
    return s;
}
