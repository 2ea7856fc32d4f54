#include "engine/base/file.h"

#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static status open_regular(int *out, size_t *bytes, const char *path, err *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: a FIFO must not hang us */
    if (fd < 0) return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, ERR_IO, "%s: not a regular file", path);
    }
    *out = fd;
    *bytes = (size_t)st.st_size;
    return OK;
}

status file_read(buf *out, const char *path, size_t max, err *e) {
    int fd;
    size_t bytes;
    TRY(open_regular(&fd, &bytes, path, e));
    if (bytes > max) {
        close(fd);
        return err_set(e, ERR_IO, "%s: %zu bytes, at most %zu are read", path, bytes, max);
    }
    buf_reserve(out, bytes);
    size_t start = out->len;
    while (out->len - start < bytes) {
        ssize_t n = read(fd, out->data + out->len, bytes - (out->len - start));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            status s = err_set(e, ERR_IO, "%s: %s", path, n < 0 ? strerror(errno) : "ended early");
            close(fd);
            out->len = start;
            return s;
        }
        out->len += (size_t)n;
    }
    close(fd);
    return OK;
}

status file_map_open(file_map *out, const char *path, err *e) {
    int fd;
    size_t bytes;
    TRY(open_regular(&fd, &bytes, path, e));
    void *p = NULL;
    if (bytes) p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return err_set(e, ERR_IO, "%s: cannot map %zu bytes: %s", path, bytes, strerror(errno));
    *out = (file_map){ p, bytes };
    return OK;
}

void file_map_close(file_map *m) {
    if (m->data) munmap((void *)(uintptr_t)m->data, m->bytes);
    *m = (file_map){ 0 };
}

status file_write_atomic(const char *path, str bytes, err *e) {
    char *tmp = xalloc(strlen(path) + 16);
    sprintf(tmp, "%s.tmp-XXXXXX", path);
    int fd = mkstemp(tmp);
    if (fd < 0) {
        status s = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
        free(tmp);
        return s;
    }
    size_t done = 0;
    while (done < bytes.n) {
        ssize_t n = write(fd, bytes.p + done, bytes.n - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    bool good = done == bytes.n && fsync(fd) == 0;
    int why = errno;
    good = close(fd) == 0 && good && rename(tmp, path) == 0;
    status s = OK;
    if (!good) {
        s = err_set(e, ERR_IO, "%s: cannot write: %s", path, strerror(done < bytes.n ? why : errno));
        unlink(tmp);
    }
    free(tmp);
    return s;
}
