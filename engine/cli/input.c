#include "engine/cli/input.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { INPUT_BYTES_MAX = 64 << 20 };

static status read_stdin(const volatile sig_atomic_t *stop, buf *out, err *e) {
    char part[65536];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, part, sizeof part);
        bool stopped = stop && *stop;
        if (n == 0) return OK;
        if (n < 0 && errno == EINTR && !stopped) continue;
        if (n < 0) return err_set(e, ERR_IO, stopped ? "interrupted" : "standard input cannot be read");
        if (out->len + (size_t)n > INPUT_BYTES_MAX)
            return err_set(e, ERR_TOO_LONG, "standard input is longer than 64 MiB");
        buf_put(out, part, (size_t)n);
    }
}

status input_text(const opts_found *found, const volatile sig_atomic_t *stop, buf *out, err *e) {
    if (!found->n_rest || (found->n_rest == 1 && strcmp(found->rest[0], "-") == 0)) return read_stdin(stop, out, e);
    for (size_t i = 0; i < found->n_rest; i++) {
        if (i) buf_byte(out, ' ');
        buf_str(out, str_of(found->rest[i]));
    }
    return OK;
}

status output_text(str text, err *e) {
    if (fwrite(text.p, 1, text.n, stdout) == text.n && fflush(stdout) == 0) return OK;
    return err_set(e, ERR_IO, "standard output cannot be written: %s", strerror(errno));
}
