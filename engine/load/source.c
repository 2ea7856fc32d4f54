/* engine/load/source.c - a source is a list of names taken once, and the mappings made so far.
 *
 * Names are listed at open rather than asked for one by one: what is in the folder besides the wanted files (unfinished
 * downloads, shards the index does not know) is worth a word in messages. */
#include "engine/load/source.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/load/demo.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct entry {
    const char *name;
    file_map map; /* of a folder's file, once mapped */
    bool is_mapped;
} entry;

struct source {
    arena *mem; /* names */
    const char *name;
    const char *dir;          /* NULL: built-in */
    const demo_file *builtin; /* parallel to `entry` */
    entry *entry;
    size_t count, cap;
};

bool source_is_name(const char *name) { return name[0] && name[0] != '.' && !strchr(name, '/'); }

static void push_entry(source *s, const char *name) {
    if (s->count == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->entry = xrealloc(s->entry, s->cap * sizeof *s->entry);
    }
    s->entry[s->count++] = (entry){ .name = name };
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static entry *find_entry(const source *s, const char *name) {
    if (!s->count || !source_is_name(name)) return NULL;
    return bsearch(&(entry){ .name = name }, s->entry, s->count, sizeof *s->entry, compare_entries);
}

static const char *join(arena *mem, const char *dir, const char *name) {
    size_t n = strlen(dir) + 1 + strlen(name);
    char *path = arena_alloc(mem, n + 1);
    snprintf(path, n + 1, "%s/%s", dir, name);
    return path;
}

static bool is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- the hub cache: REPO/refs/main holds a revision, REPO/snapshots/REVISION the links into REPO/blobs ---- */

/* NULL when refs/main cannot be read or does not hold a plain name. */
static const char *find_main_revision(arena *mem, const char *repo) {
    buf text = { 0 };
    const char *revision = NULL;
    if (file_read(&text, join(mem, repo, "refs/main"), 4096, NULL) == OK) {
        while (text.len && strchr(" \t\r\n", text.data[text.len - 1])) text.len--;
        revision = arena_str(mem, buf_view(&text)).p;
    }
    buf_free(&text);
    return revision && source_is_name(revision) ? revision : NULL;
}

/* The one folder below `dir`, when there is exactly one. */
static const char *find_only_folder(arena *mem, const char *dir) {
    const char *only = NULL;
    DIR *d = opendir(dir);
    if (!d) return NULL;
    for (struct dirent *it; (it = readdir(d));) {
        if (!source_is_name(it->d_name) || !is_dir(join(mem, dir, it->d_name))) continue;
        if (only) {
            closedir(d);
            return NULL;
        }
        only = arena_str(mem, str_of(it->d_name)).p;
    }
    closedir(d);
    return only;
}

static status follow_hub_cache(arena *mem, const char **dir, err *e) {
    const char *snapshots = join(mem, *dir, "snapshots");
    const char *revision = find_main_revision(mem, *dir);
    if (!revision) revision = find_only_folder(mem, snapshots);
    if (!revision)
        return err_set(e, ERR_MODEL,
                       "%s: expected one snapshot, or refs/main to name one: give one of the folders in %s", *dir,
                       snapshots);
    const char *found = join(mem, snapshots, revision);
    if (!is_dir(found))
        return err_set(e, ERR_MODEL,
                       "%s: refs/main names the snapshot %s, which is not there: download the model again", *dir,
                       revision);
    *dir = found;
    return OK;
}

/* ---- open ---- */

static status list_folder(source *s, err *e) {
    DIR *d = opendir(s->dir);
    if (!d) return err_set(e, ERR_MODEL, "%s: cannot be read: %s", s->dir, strerror(errno));
    for (struct dirent *it; (it = readdir(d));) {
        if (!source_is_name(it->d_name) || is_dir(join(s->mem, s->dir, it->d_name))) continue;
        push_entry(s, arena_str(s->mem, str_of(it->d_name)).p);
    }
    closedir(d);
    if (s->count) qsort(s->entry, s->count, sizeof *s->entry, compare_entries);
    return OK;
}

static status open_folder(source *s, const char *dir, err *e) {
    struct stat st;
    if (!dir || !dir[0]) return err_set(e, ERR_MODEL, "no model folder is given");
    if (stat(dir, &st) != 0) return err_set(e, ERR_MODEL, "%s: no such model folder: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return err_set(e, ERR_MODEL, "%s: is a file: give the folder of the model", dir);
    s->dir = arena_str(s->mem, str_of(dir)).p;
    if (is_dir(join(s->mem, dir, "snapshots"))) TRY(follow_hub_cache(s->mem, &s->dir, e));
    s->name = s->dir;
    TRY(list_folder(s, e));
    if (!source_has(s, "config.json"))
        return err_set(e, ERR_MODEL,
                       "%s: no config.json here: give the folder that holds config.json and the .safetensors files",
                       s->dir);
    return OK;
}

static void open_builtin(source *s, const char *name, const demo_file *files) {
    s->name = name;
    s->builtin = files;
    for (; files->name; files++) push_entry(s, files->name);
}

status source_open(source **out, source_builtin kind, const char *dir, err *e) {
    source *s = xalloc(sizeof *s);
    status r = OK;
    s->mem = arena_new();
    switch (kind) {
    case SOURCE_FOLDER: r = open_folder(s, dir, e); break;
    case SOURCE_DEMO_TARGET: open_builtin(s, "built-in demo target", demo_target_files); break;
    case SOURCE_DEMO_DRAFT: open_builtin(s, "built-in demo draft", demo_draft_files); break;
    }
    if (r != OK) {
        source_close(s);
        return r;
    }
    *out = s;
    return OK;
}

void source_close(source *s) {
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) file_map_close(&s->entry[i].map);
    free(s->entry);
    arena_free(s->mem);
    free(s);
}

/* ---- use ---- */

const char *source_name(const source *s) { return s->name; }

bool source_has(const source *s, const char *name) { return find_entry(s, name) != NULL; }

size_t source_count(const source *s) { return s->count; }

const char *source_file(const source *s, size_t i) {
    CHECK(i < s->count);
    return s->entry[i].name;
}

status source_map(source *s, const char *name, str *out, err *e) {
    if (!source_is_name(name)) return err_set(e, ERR_MODEL, "%s: \"%.200s\" is not a plain file name", s->name, name);
    entry *it = find_entry(s, name);
    if (!it) return err_set(e, ERR_MODEL, "%s: %.200s is missing", s->name, name);
    if (s->builtin) {
        const demo_file *f = &s->builtin[it - s->entry];
        *out = (str){ (const char *)f->begin, (size_t)(f->end - f->begin) };
        return OK;
    }
    if (!it->is_mapped) {
        const char *path = join(s->mem, s->dir, it->name);
        status r = file_map_open(&it->map, path, e);
        if (r != OK) {
            struct stat st;
            if (stat(path, &st) != 0 && errno == ENOENT)
                return err_set(e, ERR_MODEL, "%s: %s is a link to a file that is not there", s->name, name);
            if (e) e->code = ERR_MODEL; /* the message of file_map_open names path and reason */
            return ERR_MODEL;
        }
        it->is_mapped = true;
    }
    *out = (str){ it->map.data ? (const char *)it->map.data : "", it->map.bytes };
    return OK;
}
