/* engine/base/status.h - how functions fail.
 *
 * A function that can fail on data or resources returns a `status`; OK is 0. Its last parameter is an `err *` that
 * takes the message for a person: what was wrong, where, what was expected and found. Outputs are written on success
 * only. `e` may be NULL when the caller wants the code alone. A broken invariant is a bug, not a status: CHECK ends the
 * process, in every build. */
#ifndef ENGINE_BASE_STATUS_H
#define ENGINE_BASE_STATUS_H

typedef enum status {
    OK = 0,
    ERR_USAGE,       /* the command line */
    ERR_REQUEST,     /* a value in a request */
    ERR_TOO_LONG,    /* a prompt beyond the context */
    ERR_MODEL,       /* a model file, its config, or a pair that does not fit */
    ERR_MEMORY,      /* too little memory or disk */
    ERR_IO,          /* reading, writing, opening */
    ERR_BUSY,        /* the queue is full */
    ERR_UNSUPPORTED, /* known, valid, and not offered */
    ERR_TEMPLATE,    /* the chat template failed or refused */
    ERR_BIND,        /* a listening address */
    ERR_FAULT,       /* anything else at run time */
} status;

enum { ERR_TEXT_MAX = 4096 };

typedef struct err {
    status code;
    char text[ERR_TEXT_MAX]; /* NUL-terminated, cut with "..." when longer */
} err;

/* Stores code and message, returns the code: `return err_set(e, ERR_MODEL, "%s: ...", path);` */
status err_set(err *e, status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "<context>: " in front of the message that is there; returns the code that is there. */
status err_wrap(err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Exit code of the process for a status: 0 fine, 1 a fault or input that cannot be used (a model, a prompt), 2 usage,
 * 4 memory or device, 5 cannot bind. */
int status_exit_code(status s);

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        status try_status_ = (expr);                                                                                   \
        if (try_status_ != OK) return try_status_;                                                                     \
    } while (0)

void check_failed(const char *file, int line, const char *what) __attribute__((noreturn));

#define CHECK(cond) ((cond) ? (void)0 : check_failed(__FILE__, __LINE__, #cond))

/* Invariants that cost time: on in sanitizer builds (SKIFF_DEBUG=1). */
#ifndef SKIFF_DEBUG
#define SKIFF_DEBUG 0
#endif
#if SKIFF_DEBUG
#define DCHECK(cond) CHECK(cond)
#else
#define DCHECK(cond) ((void)sizeof(cond))
#endif
#endif
