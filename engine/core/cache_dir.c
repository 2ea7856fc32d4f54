#include "engine/core/cache_dir.h"

#include "engine/base/log.h"
#include "engine/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_folder(int at, const char *path) { return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

status cache_dir_open(int *out, const char *path, err *e) {
    if (*path == '\0') return err_set(e, ERR_IO, "\"\": expected the path of a folder");
    int fd = open_folder(AT_FDCWD, path);
    if (fd < 0 && errno == ENOENT) {
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return err_set(e, ERR_IO, "%s: cannot create the folder: %s", path, strerror(errno));
        fd = open_folder(AT_FDCWD, path);
    }
    if (fd < 0) return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    *out = fd;
    return OK;
}

status cache_dir_can_write(int fd, err *e) {
    if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0) return OK;
    return err_set(e, ERR_IO, "no files can be written there: %s", strerror(errno));
}

status cache_dir_sync(int fd, err *e) {
    if (fsync(fd) == 0 || errno == EINVAL) return OK; /* EINVAL: a file system that has no such thing */
    return err_set(e, ERR_IO, "cannot write the folder: %s", strerror(errno));
}

void cache_dir_close(int fd) { close(fd); }

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

/* The names for which is_wanted says so, ascending. A stream of its own: the descriptor keeps no place. */
static status list_names(int fd, bool (*is_wanted)(const char *), char (**out)[CACHE_NAME_MAX], size_t *n, err *e) {
    char(*name)[CACHE_NAME_MAX] = NULL;
    size_t have = 0, cap = 0;
    int own = open_folder(fd, ".");
    DIR *d = own < 0 ? NULL : fdopendir(own);
    if (!d) {
        if (own >= 0) close(own);
        return err_set(e, ERR_IO, "cannot list the folder: %s", strerror(errno));
    }
    for (struct dirent *it; (it = readdir(d));) {
        if (!is_wanted(it->d_name)) continue;
        if (have == cap) name = xrealloc(name, (cap = cap ? 2 * cap : 32) * sizeof *name);
        memcpy(name[have++], it->d_name, strlen(it->d_name) + 1); /* what is wanted has room */
    }
    closedir(d);
    if (have) qsort(name, have, sizeof *name, by_name);
    *out = name;
    *n = have;
    return OK;
}

status cache_dir_list(int fd, uint64_t fingerprint, cache_entry **out, size_t *n, err *e) {
    char(*name)[CACHE_NAME_MAX];
    size_t names, good = 0;
    TRY(list_names(fd, cache_name_is_file, &name, &names, e));
    cache_entry *entry = xalloc((names + 1) * sizeof *entry);
    for (size_t i = 0; i < names; i++) {
        cache_reader r;
        err why;
        if (cache_reader_open(&r, fd, name[i], fingerprint, &why) != OK) {
            log_warn("cache", "%s; it is left aside", why.text);
            continue;
        }
        memcpy(entry[good].name, name[i], sizeof *name);
        entry[good++].head = r.head;
        cache_reader_close(&r);
    }
    free(name);
    *out = entry;
    *n = good;
    return OK;
}

static bool is_any(const char *name) { return cache_name_is_file(name) || cache_name_is_temporary(name); }

void cache_dir_tidy(int fd, uint64_t fingerprint, const char (*keep)[CACHE_NAME_MAX], size_t n) {
    char(*name)[CACHE_NAME_MAX];
    size_t names;
    if (list_names(fd, is_any, &name, &names, NULL) != OK) return; /* the next save tries again */
    for (size_t i = 0; i < names; i++) {
        bool kept = false;
        for (size_t k = 0; k < n && !kept; k++) kept = strcmp(name[i], keep[k]) == 0;
        if (!kept) cache_file_remove_own(fd, name[i], fingerprint);
    }
    free(name);
}
