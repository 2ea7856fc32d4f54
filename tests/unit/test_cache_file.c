/* Files of remembered conversations, and their folder: what was written comes back, and nothing else does. */
#include "tests/unit/load_fixture.h"
#include "engine/core/cache_dir.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>

enum { TOKENS = 5, MARKS = 2, BODY = 37, FILE_BYTES = CACHE_HEAD_BYTES + 4 * TOKENS + 32 * MARKS + BODY + 8 };
static const uint64_t PRINT = 0x1122334455667788u;

static const int32_t TOKEN[TOKENS] = { 7, 0, 4095, 3, 3 };
static const cache_mark MARK[MARKS] = { { 1, 3, 0, 1, 3, 0, 9 }, { 2, 5, 1, 2, 2, 0, 1 } };

/* A scratch folder and its descriptor. */
typedef struct folder {
    scratch s;
    int fd;
} folder;

static folder folder_open(void) {
    folder f;
    err e;
    scratch_init(&f.s);
    assert_int_equal(cache_dir_open(&f.fd, f.s.model, &e), OK);
    return f;
}

static void folder_close(folder *f) {
    cache_dir_close(f->fd);
    scratch_deinit(&f->s);
}

static cache_head head_of(uint64_t fingerprint) {
    return (cache_head){ .fingerprint = fingerprint, .tokens = TOKENS, .marks = MARKS, .age = 4, .body = BODY };
}

static const char *body(void) {
    static char bytes[BODY];
    for (int i = 0; i < BODY; i++) bytes[i] = (char)(i * 7 + 1);
    return bytes;
}

/* The name of the file, until the next call. */
static const char *write_good(int dir, uint64_t fingerprint) {
    static char name[CACHE_NAME_MAX];
    cache_head h = head_of(fingerprint);
    cache_writer w;
    err e = { 0 };
    status s = cache_writer_open(&w, dir, &h, TOKEN, &e);
    if (s == OK) s = cache_writer_put(&w, MARK, sizeof MARK, &e);
    if (s == OK) s = cache_writer_put(&w, body(), BODY, &e);
    if (s == OK) s = cache_writer_end(&w, &e);
    if (s != OK) fail_msg("%s", e.text);
    memcpy(name, w.name, sizeof name);
    return name;
}

/* Reads all of it, as a user does. */
static status read_whole(int dir, const char *name, uint64_t fingerprint, buf *out, err *e) {
    cache_reader r;
    TRY(cache_reader_open(&r, dir, name, fingerprint, e));
    status s = OK;
    buf_reserve(out, (size_t)r.left);
    out->len = (size_t)r.left;
    for (size_t at = 0; at < out->len && s == OK; at += 11)
        s = cache_reader_get(&r, out->data + at, out->len - at < 11 ? out->len - at : 11, e);
    if (s == OK) s = cache_reader_end(&r, e);
    cache_reader_close(&r);
    return s;
}

static buf bytes_of(const folder *f, const char *name) {
    buf out = { 0 };
    err e;
    assert_int_equal(file_read(&out, path_in(f->s.model, name), 1 << 20, &e), OK);
    return out;
}

static int count_files(const folder *f) {
    DIR *d = opendir(f->s.model);
    int n = 0;
    for (struct dirent *it; (it = readdir(d));) n += it->d_name[0] != '.';
    closedir(d);
    return n;
}

/* ---- the checksum ---- */

static void sums(void **state) {
    (void)state;
    /* published values for seed 0 */
    assert_int_equal(hash64_of(0, NULL, 0), 0xEF46DB3751D8E999u);
    assert_int_equal(hash64_of(0, "a", 1), 0xD24EC4F1A98C6E5Bu);
    assert_int_equal(hash64_of(0, "abc", 3), 0x44BC2CF5AD770999u);
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * i + 3);
    for (size_t n = 0; n <= sizeof bytes; n++)
        for (size_t step = 1; step < 80; step += 13) {
            hash64 h = hash64_begin(n);
            for (size_t at = 0; at < n; at += step) hash64_put(&h, bytes + at, n - at < step ? n - at : step);
            assert_int_equal(hash64_end(&h), hash64_of(n, bytes, n));
        }
}

/* ---- one file ---- */

static void round_trip(void **state) {
    (void)state;
    folder f = folder_open();
    const char *name = write_good(f.fd, PRINT);
    assert_true(cache_name_is_file(name));
    assert_int_equal(count_files(&f), 1);
    struct stat st;
    assert_int_equal(stat(path_in(f.s.model, name), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, FILE_BYTES);
    cache_head h = head_of(PRINT);
    assert_int_equal(cache_file_bytes(&h), FILE_BYTES);
    buf got = { 0 };
    err e = { 0 };
    assert_int_equal(read_whole(f.fd, name, PRINT, &got, &e), OK);
    assert_memory_equal(got.data, TOKEN, sizeof TOKEN);
    assert_memory_equal(got.data + sizeof TOKEN, MARK, sizeof MARK);
    assert_memory_equal(got.data + sizeof TOKEN + sizeof MARK, body(), BODY);
    cache_entry *entry;
    size_t n;
    assert_int_equal(cache_dir_list(f.fd, PRINT, &entry, &n, &e), OK);
    assert_int_equal(n, 1);
    assert_string_equal(entry->name, name);
    assert_memory_equal(&entry->head, &h, sizeof h);
    free(entry);
    write_good(f.fd, PRINT); /* the same conversation again: in its place */
    assert_int_equal(count_files(&f), 1);
    buf_free(&got);
    folder_close(&f);
}

/* Must be refused with this in the message, and the file's name. */
static void expect_refused(const folder *f, const char *name, str bytes, status want, const char *part) {
    err e = { 0 };
    buf got = { 0 };
    write_bytes(f->s.model, name, bytes);
    status s = read_whole(f->fd, name, PRINT, &got, &e);
    if (s == OK || (part && s != want)) fail_msg("%s: status %d: %s", part ? part : "", s, e.text);
    assert_has(e.text, name);
    if (part) assert_has(e.text, part);
    buf_free(&got);
}

static void cuts_and_flips(void **state) {
    (void)state;
    folder f = folder_open();
    const char *name = write_good(f.fd, PRINT);
    buf good = bytes_of(&f, name), bad = { 0 };
    for (size_t n = 0; n < good.len; n++)
        expect_refused(&f, name, (str){ good.data, n }, ERR_IO, n < CACHE_HEAD_BYTES ? "too few" : "expected 193");
    for (size_t bit = 0; bit < 8 * good.len; bit++) {
        buf_clear(&bad);
        buf_str(&bad, buf_view(&good));
        bad.data[bit / 8] ^= (char)(1 << bit % 8);
        expect_refused(&f, name, buf_view(&bad), OK, NULL);
    }
    buf_byte(&good, 'x');
    expect_refused(&f, name, buf_view(&good), ERR_IO, "194 bytes, expected 193");
    buf_free(&good);
    buf_free(&bad);
    folder_close(&f);
}

/* A change to the head by somebody who knows how to sum. */
typedef struct forgery {
    size_t at, bytes;
    uint64_t value;
    status want;
    const char *part;
} forgery;

static const forgery FORGERIES[] = {
    { 0, 1, 'S', ERR_IO, "does not start" },
    { 8, 4, 0x04030201, ERR_UNSUPPORTED, "byte order" },
    { 12, 4, 2, ERR_UNSUPPORTED, "version 2, expected 1" },
    { 12, 4, 0, ERR_UNSUPPORTED, "version 0" },
    { 16, 8, 1, ERR_UNSUPPORTED, "another model" },
    { 24, 4, 0, ERR_IO, "0 tokens" },
    { 24, 4, 0x80000000, ERR_IO, "2147483648 tokens" },
    { 24, 4, 0xFFFFFFFF, ERR_IO, "4294967295 tokens" },
    { 24, 4, 0x7FFFFFFF, ERR_IO, "expected" },
    { 24, 4, TOKENS + 1, ERR_IO, "expected" },
    { 28, 4, 0, ERR_IO, "0 checkpoints" },
    { 28, 4, 0xFFFFFFFF, ERR_IO, "4294967295 checkpoints" },
    { 28, 4, 0x7FFFFFFF, ERR_IO, "expected" },
    { 32, 8, UINT64_MAX, ERR_IO, "age" },
    { 40, 8, UINT64_MAX, ERR_IO, "body" },
    { 40, 8, (uint64_t)1 << 63, ERR_IO, "body" },
    { 40, 8, (uint64_t)1 << 62, ERR_IO, "expected 4611686018427388060" },
    { 48, 8, FILE_BYTES + 1, ERR_IO, "expected" },
    { 48, 8, UINT64_MAX, ERR_IO, "expected" },
};

static void forged_heads(void **state) {
    (void)state;
    folder f = folder_open();
    const char *name = write_good(f.fd, PRINT);
    buf good = bytes_of(&f, name), bad = { 0 };
    for (size_t i = 0; i < sizeof FORGERIES / sizeof FORGERIES[0]; i++) {
        const forgery *x = &FORGERIES[i];
        buf_clear(&bad);
        buf_str(&bad, buf_view(&good));
        memcpy(bad.data + x->at, &x->value, x->bytes);
        uint64_t sum = hash64_of(0, bad.data, 56);
        memcpy(bad.data + 56, &sum, sizeof sum);
        expect_refused(&f, name, buf_view(&bad), x->want, x->part);
    }
    buf_free(&good);
    buf_free(&bad);
    folder_close(&f);
}

static void not_files(void **state) {
    (void)state;
    static const char NAME[] = "0123456789abcdef-0.skiffkv", OTHER[] = "0123456789abcdef-1.skiffkv";
    folder f = folder_open();
    cache_reader r;
    err e = { 0 };
    assert_int_equal(cache_reader_open(&r, f.fd, NAME, PRINT, &e), ERR_IO);
    assert_has(e.text, "No such file");
    assert_int_equal(mkdir(path_in(f.s.model, NAME), 0700), 0);
    assert_int_equal(cache_reader_open(&r, f.fd, NAME, PRINT, &e), ERR_IO);
    assert_has(e.text, "not a regular file");
    assert_int_equal(mkfifo(path_in(f.s.model, OTHER), 0600), 0);
    assert_int_equal(cache_reader_open(&r, f.fd, OTHER, PRINT, &e), ERR_IO); /* and does not hang */
    assert_int_equal(unlink(path_in(f.s.model, OTHER)), 0);
    assert_int_equal(symlink(path_in(f.s.model, write_good(f.fd, PRINT)), path_in(f.s.model, OTHER)), 0);
    assert_int_equal(cache_reader_open(&r, f.fd, OTHER, PRINT, &e), ERR_IO);
    folder_close(&f);
}

static void names(void **state) {
    (void)state;
    static const char *const FILES[] = { "0123456789abcdef-0.skiffkv", "ffffffffffffffff-9.skiffkv" };
    static const char *const TEMPORARY[] = { "0123456789abcdef-0.skiffkv.01234567" };
    static const char *const NEITHER[] = { "",
                                           ".",
                                           "backup.skiffkv",
                                           "0123456789ABCDEF-0.skiffkv",
                                           "0123456789abcdef-x.skiffkv",
                                           "0123456789abcdef-10.skiffkv",
                                           "0123456789abcdef.skiffkv",
                                           "0123456789abcdef-0.skiffkv~",
                                           "0123456789abcdef-0.skiffkv.",
                                           "0123456789abcdef-0.skiffkv.0123456",
                                           "0123456789abcdef-0.skiffkv.012345678",
                                           "0123456789abcdef0-0.skiffkv" };
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        assert_true(cache_name_is_file(FILES[i]) && !cache_name_is_temporary(FILES[i]));
    assert_true(cache_name_is_temporary(TEMPORARY[0]) && !cache_name_is_file(TEMPORARY[0]));
    for (size_t i = 0; i < sizeof NEITHER / sizeof *NEITHER; i++)
        assert_false(cache_name_is_file(NEITHER[i]) || cache_name_is_temporary(NEITHER[i]));
}

/* ---- writing that fails ---- */

/* A file system that takes only so many bytes: what was there stays, and nothing is left behind. */
static void no_space(void **state) {
    (void)state;
    folder f = folder_open();
    const char *name = write_good(f.fd, PRINT);
    buf before = bytes_of(&f, name);
    struct rlimit old, few;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < FILE_BYTES; room += 3) {
        few = (struct rlimit){ room, old.rlim_max };
        setrlimit(RLIMIT_FSIZE, &few);
        cache_head h = head_of(PRINT);
        cache_writer w;
        err e = { 0 };
        status s = cache_writer_open(&w, f.fd, &h, TOKEN, &e);
        if (s == OK) {
            s = cache_writer_put(&w, MARK, sizeof MARK, &e);
            if (s == OK) s = cache_writer_put(&w, body(), BODY, &e);
            if (s == OK)
                s = cache_writer_end(&w, &e);
            else
                cache_writer_abort(&w);
        }
        setrlimit(RLIMIT_FSIZE, &old);
        if (s != ERR_IO) fail_msg("room for %d bytes: status %d", (int)room, s);
        assert_has(e.text, "cannot write");
        assert_int_equal(count_files(&f), 1);
    }
    buf after = bytes_of(&f, name);
    assert_true(str_eq(buf_view(&before), buf_view(&after)));
    buf_free(&before);
    buf_free(&after);
    folder_close(&f);
}

static void no_rights(void **state) {
    (void)state;
    folder f = folder_open();
    err e = { 0 };
    char missing[600], file[600];
    int fd;
    snprintf(missing, sizeof missing, "%s/a/b", f.s.model);
    assert_int_equal(cache_dir_open(&fd, missing, &e), ERR_IO); /* one level is created, not two */
    assert_has(e.text, missing);
    assert_int_equal(cache_dir_open(&fd, "", &e), ERR_IO);
    write_bytes(f.s.model, "file", STR("x"));
    snprintf(file, sizeof file, "%s/file", f.s.model);
    assert_int_equal(cache_dir_open(&fd, file, &e), ERR_IO);
    assert_has(e.text, "Not a directory");

    bool root = geteuid() == 0;
    assert_int_equal(chmod(f.s.base, 0755), 0);
    assert_int_equal(chmod(f.s.model, 0555), 0);
    if (root) assert_int_equal(seteuid(65534), 0); /* rights do not bind root */
    assert_int_equal(cache_dir_open(&fd, missing, &e), ERR_IO);
    assert_int_equal(cache_dir_can_write(f.fd, &e), ERR_IO);
    cache_head h = head_of(PRINT);
    cache_writer w;
    assert_int_equal(cache_writer_open(&w, f.fd, &h, TOKEN, &e), ERR_IO);
    assert_has(e.text, "cannot create");
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f.s.model, 0700), 0);
    assert_int_equal(cache_dir_can_write(f.fd, &e), OK);
    snprintf(missing, sizeof missing, "%s/new", f.s.model);
    assert_int_equal(cache_dir_open(&fd, missing, &e), OK);
    struct stat st;
    assert_int_equal(stat(missing, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    cache_dir_close(fd);
    folder_close(&f);
}

/* ---- the folder ---- */

static void assert_there(const folder *f, const char *name, bool want) {
    if ((access(path_in(f->s.model, name), F_OK) == 0) != want)
        fail_msg("%s is %s", name, want ? "gone" : "still there");
}

/* Only our own files go, whole or not. */
static void tidy(void **state) {
    (void)state;
    static const char LEFT[] = "0123456789abcdef-0.skiffkv.01234567", BUSY[] = "0123456789abcdef-0.skiffkv.89abcdef",
                      EMPTY[] = "0123456789abcdef-0.skiffkv.00000000", OTHER[] = "aaaaaaaaaaaaaaaa-0.skiffkv",
                      NEWER[] = "aaaaaaaaaaaaaaaa-1.skiffkv", CUT[] = "aaaaaaaaaaaaaaaa-2.skiffkv",
                      NOTE[] = "aaaaaaaaaaaaaaaa-3.skiffkv", STALE[] = "aaaaaaaaaaaaaaaa-4.skiffkv",
                      BACKUP[] = "backup.skiffkv";
    folder f = folder_open();
    char name[CACHE_NAME_MAX], other[CACHE_NAME_MAX];
    snprintf(other, sizeof other, "%s", write_good(f.fd, PRINT + 1));
    buf foreign = bytes_of(&f, other);
    snprintf(name, sizeof name, "%s", write_good(f.fd, PRINT));
    buf own = bytes_of(&f, name);
    assert_string_not_equal(name, other);
    write_bytes(f.s.model, LEFT, (str){ own.data, 70 });
    write_bytes(f.s.model, BUSY, (str){ own.data, 70 });
    write_bytes(f.s.model, EMPTY, (str){ "", 0 });
    write_bytes(f.s.model, OTHER, buf_view(&foreign));
    write_bytes(f.s.model, CUT, (str){ own.data, 23 });
    write_bytes(f.s.model, NOTE, STR("skiffkv\nis not all that it takes to be a file of ours"));
    write_bytes(f.s.model, STALE, buf_view(&own));
    write_bytes(f.s.model, BACKUP, buf_view(&own));
    own.data[12]++; /* a format to come */
    write_bytes(f.s.model, NEWER, buf_view(&own));
    int busy = open(path_in(f.s.model, BUSY), O_RDONLY);
    assert_int_equal(flock(busy, LOCK_EX), 0);
    cache_dir_tidy(f.fd, PRINT, &name, 1);
    assert_there(&f, name, true);
    assert_there(&f, other, true);
    assert_there(&f, LEFT, false);
    assert_there(&f, STALE, false);
    static const char *const STAY[] = { BUSY, EMPTY, OTHER, NEWER, CUT, NOTE, BACKUP };
    for (size_t i = 0; i < sizeof STAY / sizeof *STAY; i++) assert_there(&f, STAY[i], true);
    close(busy);
    buf_free(&own);
    buf_free(&foreign);
    folder_close(&f);
}

/* One line for each file that cannot be used, and the good one all the same. */
static void list(void **state) {
    (void)state;
    static const char NEWER[] = "aaaaaaaaaaaaaaaa-1.skiffkv", CUT[] = "aaaaaaaaaaaaaaaa-2.skiffkv";
    folder f = folder_open();
    char other[CACHE_NAME_MAX], name[CACHE_NAME_MAX];
    snprintf(other, sizeof other, "%s", write_good(f.fd, PRINT + 1));
    snprintf(name, sizeof name, "%s", write_good(f.fd, PRINT));
    buf own = bytes_of(&f, name);
    write_bytes(f.s.model, CUT, (str){ own.data, own.len - 1 });
    own.data[12]++;
    write_bytes(f.s.model, NEWER, buf_view(&own));
    write_bytes(f.s.model, "notes.txt", STR("mine"));
    log_capture c = log_capture_begin();
    cache_entry *entry;
    size_t n;
    err e;
    status s = cache_dir_list(f.fd, PRINT, &entry, &n, &e);
    char *said = log_capture_end(c);
    assert_int_equal(s, OK);
    assert_int_equal(n, 1);
    assert_string_equal(entry->name, name);
    size_t lines = 0;
    for (const char *p = said; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 3);
    assert_has(said, other);
    assert_has(said, NEWER);
    assert_has(said, CUT);
    free(said);
    free(entry);
    buf_free(&own);
    folder_close(&f);
}

/* A name that somebody else's file has is not taken from it. */
static void taken_name(void **state) {
    (void)state;
    folder f = folder_open();
    char name[CACHE_NAME_MAX], second[CACHE_NAME_MAX];
    snprintf(name, sizeof name, "%s", write_good(f.fd, PRINT));
    write_bytes(f.s.model, name, STR("a note"));
    snprintf(second, sizeof second, "%s", write_good(f.fd, PRINT));
    assert_string_not_equal(name, second);
    buf note = bytes_of(&f, name), got = { 0 };
    assert_true(str_eq(buf_view(&note), STR("a note")));
    err e;
    assert_int_equal(read_whole(f.fd, second, PRINT, &got, &e), OK);
    for (int k = 1; k < 10; k++) {
        name[17] = (char)('0' + k);
        write_bytes(f.s.model, name, STR("a note"));
    }
    cache_head h = head_of(PRINT);
    cache_writer w;
    assert_int_equal(cache_writer_open(&w, f.fd, &h, TOKEN, &e), ERR_IO);
    assert_has(e.text, "not ours");
    buf_free(&note);
    buf_free(&got);
    folder_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),         cmocka_unit_test(round_trip), cmocka_unit_test(cuts_and_flips),
        cmocka_unit_test(forged_heads), cmocka_unit_test(not_files),  cmocka_unit_test(names),
        cmocka_unit_test(no_space),     cmocka_unit_test(no_rights),  cmocka_unit_test(tidy),
        cmocka_unit_test(list),         cmocka_unit_test(taken_name),
    };
    return cmocka_run_group_tests_name("cache_file", tests, NULL, NULL);
}
