/* engine/base/file.h - whole files. Messages name the path and the system's reason. */
#ifndef ENGINE_BASE_FILE_H
#define ENGINE_BASE_FILE_H
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/status.h"

/* Appends the file to out. ERR_IO when it cannot be read, is not a regular file, or has more than max bytes. */
status file_read(buf *out, const char *path, size_t max, err *e);

typedef struct file_map {
    const uint8_t *data; /* read-only; NULL for an empty file */
    size_t bytes;
} file_map;

status file_map_open(file_map *out, const char *path, err *e); /* a regular file; symbolic links are followed */
void file_map_close(file_map *m);

/* Replaces path by these bytes at once: a reader sees the old file or the new one, never a part. */
status file_write_atomic(const char *path, str bytes, err *e);
#endif
