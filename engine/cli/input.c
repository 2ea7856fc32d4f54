#include "engine/cli/input.h"

#include <errno.h>
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
    if (found->n_rest && strcmp(found->rest[0], "-") != 0) {
        buf_str(out, str_of(found->rest[0]));
        return OK;
    }
    return read_stdin(stop, out, e);
}
