/* engine/core/cache_file.h - the file of one remembered conversation: container, checks, atomic writing. What the body
 * means is its user's business (engine/core/timelines_disk.c).
 *
 *     offset      bytes  what
 *     0               8  magic: "skiffkv" and a line feed
 *     8               4  byte order of all numbers: 0x01020304 as the writer's machine stores it
 *     12              4  version of this format: CACHE_FILE_VERSION
 *     16              8  fingerprint of what the body was computed with
 *     24              4  n: tokens, at least 1
 *     28              4  m: marks, at least 1
 *     32              8  age: requests since the conversation was last continued, 0 to CACHE_AGE_MAX
 *     40              8  b: bytes of the body
 *     48              8  bytes of the whole file: 72 + 4 n + 32 m + b
 *     56              8  XXH64, seed 0, of the 56 bytes before
 *     64            4 n  tokens
 *     64 + 4 n     32 m  marks: cache_mark as it stands
 *     ...             b  body
 *     ...             8  XXH64, seed 0, of all bytes before
 *
 * A file is called HASH-K.skiffkv: 16 hexadecimal digits made of fingerprint and tokens, and a digit that is 0 unless
 * that name belongs to a file that is not ours. While it is written its name has a dot and 8 more digits.
 *
 * Readers check the head and the file's length at open and the sum at the end: until cache_reader_end has said OK,
 * what was read may be anything. Nothing is allocated by a number from a file. Errors name the file: ERR_UNSUPPORTED
 * for a whole file of another version, machine or pair, ERR_IO for everything else. */
#ifndef ENGINE_CORE_CACHE_FILE_H
#define ENGINE_CORE_CACHE_FILE_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/hash.h"
#include "engine/base/status.h"

enum { CACHE_FILE_VERSION = 1, CACHE_HEAD_BYTES = 64, CACHE_SUM_BYTES = 8, CACHE_NAME_MAX = 40 };
#define CACHE_AGE_MAX ((int64_t)1 << 40)

typedef struct cache_head {
    uint64_t fingerprint;
    int32_t tokens, marks;
    int64_t age, body;
} cache_head;

/* A checkpoint. Numbers as in engine/core/timelines_int.h; age: requests since it was taken or restored. */
typedef struct cache_mark {
    int32_t low, pos, target_from, context_from, saves;
    int32_t zero;
    int64_t age;
} cache_mark;

int64_t cache_file_bytes(const cache_head *h); /* tokens and marks not negative, body at most 2^62 */

/* Is it a name that files have here, or one that they have while they are written? */
bool cache_name_is_file(const char *name);
bool cache_name_is_temporary(const char *name);

/* Removes the file if its first bytes say that it is of this version and fingerprint and nobody is writing it. */
bool cache_file_remove_own(int dir, const char *name, uint64_t fingerprint);

/* ---- writing: open, tokens, marks and body in this order, then end or abort ---- */

typedef struct cache_writer {
    int dir, fd;
    char name[CACHE_NAME_MAX], temporary[CACHE_NAME_MAX + 16];
    int64_t left; /* bytes that are still to come */
    hash64 sum;
} cache_writer;

/* Creates a temporary file in the folder (a descriptor, which stays the caller's), for its owner only, and writes head
 * and tokens. */
status cache_writer_open(cache_writer *w, int dir, const cache_head *h, const int32_t *token, err *e);
status cache_writer_put(cache_writer *w, const void *p, size_t n, err *e);
/* All that was announced has come: sum, fsync, and the name. The folder's own fsync is the caller's. The writer is
 * closed, whatever happens. */
status cache_writer_end(cache_writer *w, err *e);
void cache_writer_abort(cache_writer *w); /* removes the temporary file */

/* ---- reading ---- */

typedef struct cache_reader {
    int fd;
    char name[CACHE_NAME_MAX];
    cache_head head;
    int64_t left; /* bytes before the sum */
    hash64 sum;
} cache_reader;

status cache_reader_open(cache_reader *r, int dir, const char *name, uint64_t fingerprint, err *e);
status cache_reader_get(cache_reader *r, void *out, size_t n, err *e); /* n at most `left` */
status cache_reader_skip(cache_reader *r, int64_t n, err *e);          /* read for the sum only */
status cache_reader_end(cache_reader *r, err *e);                      /* all was read: is the sum right? */
void cache_reader_close(cache_reader *r);                              /* after every successful open */
/* For a fault that only the reader's user can see: ERR_IO, "NAME is damaged: ...". */
status cache_reader_damaged(const cache_reader *r, err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#endif
