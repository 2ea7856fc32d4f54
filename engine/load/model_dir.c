/* engine/load/model_dir.c - opening goes in one direction: small files, config, list of shards, headers, then the index
 * against the tensors. Up to the list of shards the first fault ends it; from there on faults are collected, since a
 * user with three missing shards should not learn of them one by one. */
#include "engine/load/model_dir.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/load/faults.h"

#include <stdio.h>
#include <stdlib.h>

#define INDEX_FILE "model.safetensors.index.json"
#define SINGLE_FILE "model.safetensors"

static const char *const SMALL_FILES[] = {
    "config.json",           "generation_config.json", "tokenizer.json",
    "tokenizer_config.json", "chat_template.jinja",    "special_tokens_map.json",
};
enum { N_SMALL = sizeof SMALL_FILES / sizeof SMALL_FILES[0], FAULT_BYTES = 3000 };

typedef struct shard {
    const char *name;
    enum { SHARD_GOOD, SHARD_MISSING, SHARD_DAMAGED } state;
} shard;

struct model_dir {
    source *src;
    arena *mem; /* names */
    str small[N_SMALL];
    json_t *config, *index, *generation; /* NULL without the file */
    const char *config_name;
    shard *shard; /* by name, ascending */
    size_t n_shards;
    tensor_list tensors;
    int64_t bytes;
};

/* ---- small files ---- */

/* A text file without its byte order mark. */
static status map_text(const model_dir *m, const char *name, str *out, err *e) {
    static const str MARK = { "\xEF\xBB\xBF", 3 };
    TRY(source_map(m->src, name, out, e));
    if (str_starts(*out, MARK)) *out = str_from(*out, MARK.n);
    return OK;
}

static status read_small_files(model_dir *m, err *e) {
    for (size_t i = 0; i < N_SMALL; i++)
        if (source_has(m->src, SMALL_FILES[i])) TRY(map_text(m, SMALL_FILES[i], &m->small[i], e));
    return OK;
}

static status parse_json(json_t **out, str text, const char *dir, const char *file, err *e) {
    json_error_t why;
    json_t *root = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &why);
    if (!root) return err_set(e, ERR_MODEL, "%s/%s: line %d: not valid JSON: %s", dir, file, why.line, why.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return err_set(e, ERR_MODEL, "%s/%s: expected an object", dir, file);
    }
    *out = root;
    return OK;
}

/* ---- the list of shards ---- */

static int compare_shards(const void *a, const void *b) {
    return strcmp(((const shard *)a)->name, ((const shard *)b)->name);
}

static shard *find_shard(const model_dir *m, const char *name) {
    if (!m->n_shards) return NULL;
    return bsearch(&(shard){ .name = name }, m->shard, m->n_shards, sizeof *m->shard, compare_shards);
}

/* The distinct values of the weight map. */
static status list_index_shards(model_dir *m, json_t *map, const char *file, err *e) {
    const char *key;
    json_t *value;
    m->shard = xalloc(json_object_size(map) * sizeof *m->shard);
    json_object_foreach(map, key, value) {
        const char *name = json_string_value(value);
        if (!name || !source_is_name(name))
            return err_set(e, ERR_MODEL, "%s: %.200s: expected the name of a file in this folder, found %s%.200s%s",
                           file, key, name ? "\"" : "", name ? name : "no string", name ? "\"" : "");
        if (m->n_shards && strcmp(m->shard[m->n_shards - 1].name, name) == 0) continue;
        m->shard[m->n_shards++].name = name;
    }
    qsort(m->shard, m->n_shards, sizeof *m->shard, compare_shards);
    size_t kept = 1;
    for (size_t i = 1; i < m->n_shards; i++)
        if (compare_shards(&m->shard[kept - 1], &m->shard[i])) m->shard[kept++] = m->shard[i];
    m->n_shards = kept;
    return OK;
}

static status read_index(model_dir *m, err *e) {
    str text;
    const char *dir = model_dir_name(m);
    TRY(map_text(m, INDEX_FILE, &text, e));
    TRY(parse_json(&m->index, text, dir, INDEX_FILE, e));
    json_t *map = json_object_get(m->index, "weight_map");
    if (!json_is_object(map) || !json_object_size(map))
        return err_set(e, ERR_MODEL, "%s/" INDEX_FILE ": weight_map: expected an object that names tensors, found %s",
                       dir, json_is_object(map) ? "an empty one" : "none");
    char file[ERR_TEXT_MAX / 4];
    snprintf(file, sizeof file, "%s/" INDEX_FILE ": weight_map", dir);
    return list_index_shards(m, map, file, e);
}

/* A name that a shard could have; other .safetensors files in a folder (adapters, reference data) are nobody's
 * business. */
static bool is_shard_name(const char *name) {
    return str_starts(str_of(name), STR("model")) && str_ends(str_of(name), STR(".safetensors"));
}

static status list_shards(model_dir *m, err *e) {
    if (source_has(m->src, INDEX_FILE)) return read_index(m, e);
    if (source_has(m->src, SINGLE_FILE)) {
        m->shard = xalloc(sizeof *m->shard);
        m->shard[m->n_shards++].name = SINGLE_FILE;
        return OK;
    }
    size_t n = 0;
    for (size_t i = 0; i < source_count(m->src); i++) n += is_shard_name(source_file(m->src, i));
    return err_set(e, ERR_MODEL,
                   "%s: neither " INDEX_FILE " nor " SINGLE_FILE
                   " is here, and %zu shards are: looks like an incomplete "
                   "download",
                   model_dir_name(m), n);
}

static void warn_extra_shards(const model_dir *m) {
    for (size_t i = 0; i < source_count(m->src); i++) {
        const char *name = source_file(m->src, i);
        if (is_shard_name(name) && !find_shard(m, name))
            log_warn("load", "%s: %s is ignored: it is not a shard of this model", model_dir_name(m), name);
    }
}

/* ---- shards ---- */

/* What downloaders leave beside a file they did not finish: its name with something behind it. */
static const char *find_unfinished(const model_dir *m, const char *name) {
    for (size_t i = 0; i < source_count(m->src); i++) {
        const char *other = source_file(m->src, i);
        if (strlen(other) > strlen(name) && str_starts(str_of(other), str_of(name))) return other;
    }
    return NULL;
}

static void read_shard(model_dir *m, size_t i, faults *f) {
    shard *s = &m->shard[i];
    str bytes;
    err why;
    if (!source_has(m->src, s->name)) {
        const char *unfinished = find_unfinished(m, s->name);
        s->state = SHARD_MISSING;
        if (unfinished)
            faults_add(f, "%s is missing; there is an unfinished %s", s->name, unfinished);
        else
            faults_add(f, "%s is missing", s->name);
    } else if (source_map(m->src, s->name, &bytes, &why) != OK) {
        s->state = SHARD_MISSING;
        faults_add(f, "%s", why.text);
    } else if (safetensors_read(&m->tensors, bytes, s->name, (int32_t)i, m->mem, &why) != OK) {
        s->state = SHARD_DAMAGED;
        faults_add(f, "%s", why.text);
    }
}

static void check_single_place(const model_dir *m, faults *f) {
    const tensor_list *l = &m->tensors;
    for (size_t i = 1; i < l->count; i++) {
        const tensor *a = &l->at[i - 1], *b = &l->at[i];
        if (str_eq(a->name, b->name))
            faults_add(f, "tensor %.*s is in %s and in %s", TENSOR_NAME_ARG(a->name), m->shard[a->shard].name,
                       m->shard[b->shard].name);
    }
}

/* ---- the index against the tensors ---- */

/* Is one of the tensors that have the name of `t` in this shard? (More than one is a fault of its own.) */
static bool is_in_shard(const model_dir *m, const tensor *t, const shard *s) {
    const tensor *end = m->tensors.at + m->tensors.count;
    str name = t->name;
    while (t > m->tensors.at && str_eq(t[-1].name, name)) t--;
    for (; t < end && str_eq(t->name, name); t++)
        if (&m->shard[t->shard] == s) return true;
    return false;
}

typedef struct index_check {
    int64_t entries, lost; /* lost: in shards that could not be read */
} index_check;

static void warn_not_in_index(const model_dir *m, const uint8_t *is_named) {
    size_t n = 0, first = 0;
    for (size_t i = m->tensors.count; i--;)
        if (!is_named[i]) n++, first = i;
    if (n)
        log_warn("load", "%s: " INDEX_FILE " does not name %zu tensors that are in the shards, the first is %.*s",
                 model_dir_name(m), n, TENSOR_NAME_ARG(m->tensors.at[first].name));
}

static index_check check_index(const model_dir *m, faults *f) {
    index_check c = { 0 };
    if (!m->index) return c;
    const char *key;
    json_t *value;
    uint8_t *is_named = xalloc(m->tensors.count);
    json_object_foreach(json_object_get(m->index, "weight_map"), key, value) {
        const shard *s = find_shard(m, json_string_value(value));
        c.entries++;
        if (s->state != SHARD_GOOD) {
            c.lost++;
            continue;
        }
        const tensor *t = tensor_list_find(&m->tensors, str_of(key));
        if (!t) {
            faults_add(f, "tensor %.200s is not in %s, where the index puts it, nor in another shard", key, s->name);
            continue;
        }
        is_named[t - m->tensors.at] = 1;
        if (!is_in_shard(m, t, s))
            faults_add(f, "tensor %.200s is not in %s, where the index puts it, but in %s", key, s->name,
                       m->shard[t->shard].name);
    }
    if (!c.lost) warn_not_in_index(m, is_named);
    free(is_named);
    return c;
}

static void warn_total_size(const model_dir *m) {
    const json_t *total = json_object_get(json_object_get(m->index, "metadata"), "total_size");
    if (json_is_number(total) && json_number_value(total) != (double)m->bytes)
        log_warn("load",
                 "%s/" INDEX_FILE ": total_size is %.0f, the shards have %lld bytes of tensors; the shards count",
                 model_dir_name(m), json_number_value(total), (long long)m->bytes);
}

/* ---- the verdict ---- */

static void describe_shards(const model_dir *m, const index_check *c, buf *out) {
    int missing = 0, damaged = 0;
    for (size_t i = 0; i < m->n_shards; i++) {
        missing += m->shard[i].state == SHARD_MISSING;
        damaged += m->shard[i].state == SHARD_DAMAGED;
    }
    if (!missing && !damaged) {
        buf_str(out, STR("the shards and their index disagree:"));
        return;
    }
    buf_printf(out, "%d of %zu shards %s", missing ? missing : damaged, m->n_shards, missing ? "missing" : "damaged");
    if (missing && damaged) buf_printf(out, ", %d damaged", damaged);
    if (c->entries) buf_printf(out, ", %lld of %lld tensors", (long long)c->lost, (long long)c->entries);
    buf_str(out, STR(": looks like an incomplete download."));
}

static status read_shards(model_dir *m, err *e) {
    faults f = { .max = FAULT_BYTES };
    for (size_t i = 0; i < m->n_shards; i++) read_shard(m, i, &f);
    tensor_list_sort(&m->tensors);
    check_single_place(m, &f);
    index_check c = check_index(m, &f);
    for (size_t i = 0; i < m->tensors.count; i++) m->bytes += m->tensors.at[i].bytes;
    status s = OK;
    if (f.count) {
        buf text = { 0 };
        describe_shards(m, &c, &text);
        faults_write(&f, &text);
        s = err_set(e, ERR_MODEL, "%s: %s", model_dir_name(m), buf_cstr(&text));
        buf_free(&text);
    } else {
        warn_total_size(m);
    }
    faults_free(&f);
    return s;
}

/* ---- life ---- */

static status open_small(model_dir *m, source_builtin kind, const char *dir, err *e) {
    TRY(source_open(&m->src, kind, dir, e));
    TRY(read_small_files(m, e));
    TRY(parse_json(&m->config, model_dir_file(m, "config.json"), model_dir_name(m), "config.json", e));
    str generation = model_dir_file(m, "generation_config.json");
    if (generation.p) TRY(parse_json(&m->generation, generation, model_dir_name(m), "generation_config.json", e));
    buf name = { 0 };
    buf_printf(&name, "%s/config.json", model_dir_name(m));
    m->config_name = arena_str(m->mem, buf_view(&name)).p;
    buf_free(&name);
    return OK;
}

static status open_all(model_dir *m, source_builtin kind, const char *dir, err *e) {
    TRY(open_small(m, kind, dir, e));
    TRY(list_shards(m, e));
    warn_extra_shards(m);
    return read_shards(m, e);
}

static status open_with(status (*open)(model_dir *m, source_builtin kind, const char *dir, err *e), model_dir **out,
                        source_builtin kind, const char *dir, err *e) {
    model_dir *m = xalloc(sizeof *m);
    m->mem = arena_new();
    status s = open(m, kind, dir, e);
    if (s != OK) {
        model_dir_close(m);
        return s;
    }
    *out = m;
    return OK;
}

status model_dir_open(model_dir **out, source_builtin kind, const char *dir, err *e) {
    return open_with(open_all, out, kind, dir, e);
}

status model_dir_open_small(model_dir **out, source_builtin kind, const char *dir, err *e) {
    return open_with(open_small, out, kind, dir, e);
}

void model_dir_close(model_dir *m) {
    if (!m) return;
    json_decref(m->config);
    json_decref(m->generation);
    json_decref(m->index);
    tensor_list_free(&m->tensors);
    free(m->shard);
    arena_free(m->mem);
    source_close(m->src);
    free(m);
}

/* ---- queries ---- */

const char *model_dir_name(const model_dir *m) { return source_name(m->src); }

cfg model_dir_config(const model_dir *m) { return (cfg){ m->config, m->config_name }; }
cfg model_dir_generation(const model_dir *m) { return (cfg){ m->generation, "generation_config.json" }; }

str model_dir_file(const model_dir *m, const char *name) {
    for (size_t i = 0; i < N_SMALL; i++)
        if (strcmp(name, SMALL_FILES[i]) == 0) return m->small[i];
    return (str){ 0 };
}

size_t model_dir_count(const model_dir *m) { return m->tensors.count; }

const tensor *model_dir_tensor(const model_dir *m, size_t i) {
    CHECK(i < m->tensors.count);
    return &m->tensors.at[i];
}

const tensor *model_dir_find(const model_dir *m, const char *name) {
    return tensor_list_find(&m->tensors, str_of(name));
}

const char *model_dir_shard(const model_dir *m, int32_t i) {
    CHECK(i >= 0 && (size_t)i < m->n_shards);
    return m->shard[i].name;
}

int64_t model_dir_bytes(const model_dir *m) { return m->bytes; }
