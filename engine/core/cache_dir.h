/* engine/core/cache_dir.h - the folder with the files of remembered conversations. It may hold other files, and those
 * of other models: only names that cache_file.h knows are looked at, and only what is ours is ever removed. */
#ifndef ENGINE_CORE_CACHE_DIR_H
#define ENGINE_CORE_CACHE_DIR_H
#include <stddef.h>
#include "engine/core/cache_file.h"

/* A descriptor of the folder; one that is missing is created, for its owner only, its parents are not. ERR_IO names the
 * path. */
status cache_dir_open(int *fd, const char *path, err *e);
status cache_dir_can_write(int fd, err *e); /* as far as rights and a read-only file system tell */
status cache_dir_sync(int fd, err *e);      /* the names are on disk */
void cache_dir_close(int fd);

typedef struct cache_entry {
    char name[CACHE_NAME_MAX];
    cache_head head;
} cache_entry;

/* All files with a good head of this fingerprint, by name, to be freed; the others are logged, one warning each. */
status cache_dir_list(int fd, uint64_t fingerprint, cache_entry **out, size_t *n, err *e);
/* Removes files of this fingerprint that are not among the n names in `keep`, and what interrupted writes of it left
 * behind. */
void cache_dir_tidy(int fd, uint64_t fingerprint, const char (*keep)[CACHE_NAME_MAX], size_t n);
#endif
