#include "engine/core/cache_file.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_CHARS = 26, TEMPORARY_CHARS = 35, HASH_CHARS = 16, NAMES_MAX = 10, ID_BYTES = 24 };
static const char MAGIC[8] = { 's', 'k', 'i', 'f', 'f', 'k', 'v', '\n' };
static const uint32_t BYTE_ORDER_MARK = 0x01020304;

/* The head as it lies in the file. */
typedef struct raw_head {
    char magic[8];
    uint32_t order, version;
    uint64_t fingerprint;
    uint32_t tokens, marks;
    uint64_t age, body, file;
    uint64_t sum;
} raw_head;

_Static_assert(sizeof(raw_head) == CACHE_HEAD_BYTES && offsetof(raw_head, sum) == 56, "no padding");
_Static_assert(offsetof(raw_head, tokens) == ID_BYTES, "what says whose file it is comes first");
_Static_assert(sizeof(cache_mark) == 32 && offsetof(cache_mark, age) == 24, "no padding");

int64_t cache_file_bytes(const cache_head *h) {
    return CACHE_HEAD_BYTES + 4 * (int64_t)h->tokens + (int64_t)sizeof(cache_mark) * h->marks + h->body +
           CACHE_SUM_BYTES;
}

static raw_head raw_of(const cache_head *h) {
    raw_head r = { .order = BYTE_ORDER_MARK,
                   .version = CACHE_FILE_VERSION,
                   .fingerprint = h->fingerprint,
                   .tokens = (uint32_t)h->tokens,
                   .marks = (uint32_t)h->marks,
                   .age = (uint64_t)h->age,
                   .body = (uint64_t)h->body,
                   .file = (uint64_t)cache_file_bytes(h) };
    memcpy(r.magic, MAGIC, sizeof MAGIC);
    r.sum = hash64_of(0, &r, offsetof(raw_head, sum));
    return r;
}

/* ---- names ---- */

static size_t hex_digits(const char *p) { return strspn(p, "0123456789abcdef"); }

static bool starts_as_file(const char *name) {
    return strnlen(name, NAME_CHARS) == NAME_CHARS && hex_digits(name) == HASH_CHARS && name[16] == '-' &&
           name[17] >= '0' && name[17] <= '9' && memcmp(name + 18, ".skiffkv", 8) == 0;
}

bool cache_name_is_file(const char *name) { return starts_as_file(name) && name[NAME_CHARS] == '\0'; }

bool cache_name_is_temporary(const char *name) {
    return starts_as_file(name) && name[NAME_CHARS] == '.' && hex_digits(name + NAME_CHARS + 1) == 8 &&
           name[TEMPORARY_CHARS] == '\0';
}

/* ---- plain reading and writing ---- */

/* As many bytes as there are, up to n; -1: errno says why. */
static ssize_t read_all(int fd, void *out, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, (char *)out + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static bool write_all(int fd, const void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t put = write(fd, (const char *)p + done, n - done);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

/* A regular file of that name, links not followed, and its length; -1: errno says why. */
static int open_file(int dir, const char *name, int64_t *bytes) {
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* NONBLOCK: a FIFO must not hang us */
    struct stat st;
    if (fd < 0) return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        *bytes = st.st_size;
        return fd;
    }
    close(fd);
    errno = EINVAL;
    return -1;
}

static bool is_own(int fd, uint64_t fingerprint) {
    raw_head want = raw_of(&(cache_head){ .fingerprint = fingerprint });
    char id[ID_BYTES];
    return read_all(fd, id, sizeof id) == ID_BYTES && memcmp(id, &want, ID_BYTES) == 0;
}

bool cache_file_remove_own(int dir, const char *name, uint64_t fingerprint) {
    int64_t bytes;
    int fd = open_file(dir, name, &bytes);
    if (fd < 0) return false;
    bool free_to_go = is_own(fd, fingerprint) && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
    bool gone = free_to_go && unlinkat(dir, name, 0) == 0;
    close(fd);
    return gone;
}

/* ---- writing ---- */

/* May the file of that name be replaced? */
static bool is_open_name(int dir, const char *name, uint64_t fingerprint) {
    int64_t bytes;
    int fd = open_file(dir, name, &bytes);
    if (fd < 0) return errno == ENOENT;
    bool own = is_own(fd, fingerprint);
    close(fd);
    return own;
}

/* The conversation's own name: the same for every save, so that the next one replaces this one. */
static status choose_name(cache_writer *w, const cache_head *h, const int32_t *token, err *e) {
    uint64_t hash = hash64_of(h->fingerprint, token, (size_t)h->tokens * sizeof *token);
    for (int k = 0; k < NAMES_MAX; k++) {
        snprintf(w->name, sizeof w->name, "%016llx-%d.skiffkv", (unsigned long long)hash, k);
        if (is_open_name(w->dir, w->name, h->fingerprint)) return OK;
    }
    return err_set(e, ERR_IO, "%s: this name and the nine before it belong to files that are not ours", w->name);
}

static status create(cache_writer *w, err *e) {
    for (uint32_t attempt = 0; attempt < 100; attempt++) {
        uint32_t digits = (uint32_t)getpid() * 0x9E3779B1u ^ (uint32_t)clock_ns() ^ attempt;
        snprintf(w->temporary, sizeof w->temporary, "%s.%08x", w->name, digits);
        w->fd = openat(w->dir, w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (w->fd >= 0) {
            flock(w->fd, LOCK_EX | LOCK_NB); /* whoever tidies up at the same time leaves it alone */
            return OK;
        }
        if (errno != EEXIST) break;
    }
    return err_set(e, ERR_IO, "%s: cannot create: %s", w->temporary, strerror(errno));
}

status cache_writer_open(cache_writer *w, int dir, const cache_head *h, const int32_t *token, err *e) {
    raw_head raw = raw_of(h);
    *w = (cache_writer){ .dir = dir, .fd = -1, .left = cache_file_bytes(h) - CACHE_SUM_BYTES, .sum = hash64_begin(0) };
    TRY(choose_name(w, h, token, e));
    TRY(create(w, e));
    status s = cache_writer_put(w, &raw, sizeof raw, e);
    if (s == OK) s = cache_writer_put(w, token, (size_t)h->tokens * sizeof *token, e);
    if (s != OK) cache_writer_abort(w);
    return s;
}

static status cannot_write(const cache_writer *w, err *e) {
    return err_set(e, ERR_IO, "%s: cannot write: %s", w->name, strerror(errno));
}

status cache_writer_put(cache_writer *w, const void *p, size_t n, err *e) {
    CHECK((int64_t)n <= w->left);
    if (!write_all(w->fd, p, n)) return cannot_write(w, e);
    hash64_put(&w->sum, p, n);
    w->left -= (int64_t)n;
    return OK;
}

status cache_writer_end(cache_writer *w, err *e) {
    CHECK(w->left == 0);
    uint64_t sum = hash64_end(&w->sum);
    bool good = write_all(w->fd, &sum, sizeof sum) && fsync(w->fd) == 0;
    good = good && renameat(w->dir, w->temporary, w->dir, w->name) == 0;
    status s = good ? OK : cannot_write(w, e);
    if (!good) unlinkat(w->dir, w->temporary, 0);
    close(w->fd); /* after fsync there is nothing that it could still report */
    w->fd = -1;
    return s;
}

void cache_writer_abort(cache_writer *w) {
    unlinkat(w->dir, w->temporary, 0);
    close(w->fd);
    w->fd = -1;
}

/* ---- reading ---- */

status cache_reader_damaged(const cache_reader *r, err *e, const char *fmt, ...) {
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(e, ERR_IO, "%s is damaged: %s", r->name, what);
}

/* Magic, order and version come first, since they say whether the rest can be understood. */
static status check_head(cache_reader *r, const raw_head *raw, uint64_t fingerprint, int64_t bytes, err *e) {
    if (memcmp(raw->magic, MAGIC, sizeof MAGIC) != 0)
        return cache_reader_damaged(r, e, "it does not start as a conversation's file does");
    if (raw->order != BYTE_ORDER_MARK)
        return err_set(e, ERR_UNSUPPORTED, "%s is of a machine with another byte order", r->name);
    if (raw->version != CACHE_FILE_VERSION)
        return err_set(e, ERR_UNSUPPORTED, "%s has format version %u, expected %d", r->name, raw->version,
                       CACHE_FILE_VERSION);
    if (raw->sum != hash64_of(0, raw, offsetof(raw_head, sum)))
        return cache_reader_damaged(r, e, "the checksum of its head is wrong");
    if (raw->fingerprint != fingerprint)
        return err_set(e, ERR_UNSUPPORTED, "%s is of another model, draft or way to store keys and values", r->name);
    if (raw->tokens < 1 || raw->tokens > INT32_MAX || raw->marks < 1 || raw->marks > INT32_MAX)
        return cache_reader_damaged(r, e, "%u tokens, %u checkpoints", raw->tokens, raw->marks);
    if (raw->age > (uint64_t)CACHE_AGE_MAX) return cache_reader_damaged(r, e, "age %llu", (unsigned long long)raw->age);
    if (raw->body > (uint64_t)1 << 62)
        return cache_reader_damaged(r, e, "a body of %llu bytes", (unsigned long long)raw->body);
    r->head = (cache_head){ .fingerprint = fingerprint,
                            .tokens = (int32_t)raw->tokens,
                            .marks = (int32_t)raw->marks,
                            .age = (int64_t)raw->age,
                            .body = (int64_t)raw->body };
    int64_t want = cache_file_bytes(&r->head);
    if (raw->file != (uint64_t)want || bytes != want)
        return cache_reader_damaged(r, e, "%lld bytes, expected %lld", (long long)bytes, (long long)want);
    r->left = want - CACHE_HEAD_BYTES - CACHE_SUM_BYTES;
    return OK;
}

status cache_reader_open(cache_reader *out, int dir, const char *name, uint64_t fingerprint, err *e) {
    cache_reader r = { .sum = hash64_begin(0) };
    raw_head raw;
    int64_t bytes;
    snprintf(r.name, sizeof r.name, "%s", name);
    r.fd = open_file(dir, name, &bytes);
    if (r.fd < 0) return err_set(e, ERR_IO, "%s: %s", r.name, errno == EINVAL ? "not a regular file" : strerror(errno));
    ssize_t got = read_all(r.fd, &raw, sizeof raw);
    status s = got < 0 ? err_set(e, ERR_IO, "%s: cannot read: %s", r.name, strerror(errno))
               : got < (ssize_t)sizeof raw
                   ? cache_reader_damaged(&r, e, "%lld bytes, too few for its head", (long long)bytes)
                   : check_head(&r, &raw, fingerprint, bytes, e);
    if (s != OK) {
        close(r.fd);
        return s;
    }
    hash64_put(&r.sum, &raw, sizeof raw);
    *out = r;
    return OK;
}

static status read_some(cache_reader *r, void *out, size_t n, err *e) {
    ssize_t got = read_all(r->fd, out, n);
    if (got < 0) return err_set(e, ERR_IO, "%s: cannot read: %s", r->name, strerror(errno));
    return got == (ssize_t)n ? OK : cache_reader_damaged(r, e, "it became shorter while it was read");
}

status cache_reader_get(cache_reader *r, void *out, size_t n, err *e) {
    CHECK((int64_t)n <= r->left);
    TRY(read_some(r, out, n, e));
    hash64_put(&r->sum, out, n);
    r->left -= (int64_t)n;
    return OK;
}

status cache_reader_skip(cache_reader *r, int64_t n, err *e) {
    char part[1 << 16];
    for (; n > 0; n -= (int64_t)sizeof part)
        TRY(cache_reader_get(r, part, n < (int64_t)sizeof part ? (size_t)n : sizeof part, e));
    return OK;
}

status cache_reader_end(cache_reader *r, err *e) {
    CHECK(r->left == 0);
    uint64_t sum;
    TRY(read_some(r, &sum, sizeof sum, e));
    return sum == hash64_end(&r->sum) ? OK : cache_reader_damaged(r, e, "its checksum is wrong");
}

void cache_reader_close(cache_reader *r) {
    close(r->fd);
    r->fd = -1;
}
