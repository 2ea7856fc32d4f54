/* engine/cli/opts.h - the command line of one command, described by one table.
 *
 * A command writes its options down once: names, kind, range, default, help. opts_parse fills a plain struct from that
 * table and opts_help prints it, so the help cannot promise what the parser does not do. Nothing here knows a command.
 * Texts that are stored point into argv or into the table, and live as long as those.
 *
 * Words are read from left to right. An option is "--name value", "--name=value" or, where it has a brief name,
 * "-n value"; short names are not bundled ("-md" is one name). The last of several wins. "--" ends the options; every
 * other word is positional, and so is a single "-". A value may start with one dash ("--seed -1") but not look like an
 * option of the table; "--name=value" takes anything. "--help" and "-h" belong to every table and end the reading. */
#ifndef ENGINE_CLI_OPTS_H
#define ENGINE_CLI_OPTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/status.h"

typedef enum opt_kind {
    OPT_HEADING,       /* no option: a line of the help, `help` is its text */
    OPT_SET,           /* no value; the bool becomes true */
    OPT_CLEAR,         /* no value; the bool becomes false */
    OPT_INT,           /* int64_t in [min, max] */
    OPT_REAL,          /* double in [min, max], never NaN */
    OPT_TEXT,          /* const char *, any bytes, the empty text included */
    OPT_CHOICE,        /* int: place of the value in `choices`, from 0 */
    OPT_IGNORED,       /* a switch of other programs: accepted with one log line */
    OPT_IGNORED_VALUE, /* the same, with a value */
    OPT_REFUSED,       /* an option of other programs that means something else here: `help` says what to use */
} opt_kind;

typedef struct opt {
    const char *name;    /* long name without dashes */
    const char *brief;   /* without the dash: "m", "md"; NULL: none */
    const char *aliases; /* further long names, separated by spaces; NULL: none */
    const char *value;   /* what the value is called in the help; NULL: by kind */
    const char *preset;  /* the default, read like a value from the command line; NULL: the field is left as it was */
    const char *help;
    opt_kind kind;
    size_t offset;       /* of the field that takes the value */
    int64_t min, max;    /* OPT_INT; INT64_MIN, INT64_MAX: no limit on that side */
    double low, high;    /* OPT_REAL; -INFINITY, INFINITY: likewise, though infinities themselves are refused */
    const char *choices; /* OPT_CHOICE: words separated by spaces */
} opt;

/* Kind and place in one, checked against the type of the field: a field of another type does not compile.
 *     { "port", .preset = "8000", .help = "port to listen on", OPT_INT_AT(serve_options, port, 1, 65535) } */
#define OPT_OFFSET_(type, field, want) (offsetof(type, field) + 0 * _Generic(((type *)0)->field, want : sizeof(char)))
#define OPT_SET_AT(type, field) .kind = OPT_SET, .offset = OPT_OFFSET_(type, field, bool)
#define OPT_CLEAR_AT(type, field) .kind = OPT_CLEAR, .offset = OPT_OFFSET_(type, field, bool)
#define OPT_INT_AT(type, field, lo, hi)                                                                                \
    .kind = OPT_INT, .offset = OPT_OFFSET_(type, field, int64_t), .min = (lo), .max = (hi)
#define OPT_REAL_AT(type, field, lo, hi)                                                                               \
    .kind = OPT_REAL, .offset = OPT_OFFSET_(type, field, double), .low = (lo), .high = (hi)
#define OPT_TEXT_AT(type, field) .kind = OPT_TEXT, .offset = OPT_OFFSET_(type, field, const char *)
#define OPT_CHOICE_AT(type, field, words)                                                                              \
    .kind = OPT_CHOICE, .offset = OPT_OFFSET_(type, field, int), .choices = (words)

typedef struct opts {
    const char *command; /* "skiff serve" */
    const char *about;   /* what it does, one paragraph */
    const char *rest;    /* positional arguments as the usage line shows them: "[DIR]"; NULL: none are taken */
    size_t rest_min, rest_max;
    const opt *list;
    size_t n;
    size_t bytes; /* size of the struct that the offsets point into */
} opts;

/* What was on the command line beyond the values. Zeroed is empty; opts_found_deinit makes it so again. */
typedef struct opts_found {
    bool help;         /* --help was met: nothing behind it was read, nothing was checked for completeness */
    const char **rest; /* positional arguments in order */
    size_t n_rest;
    bool *given; /* by place in the table */
} opts_found;

/* Reads the argc words behind the command's name into the struct `fields`. ERR_USAGE, with a message that names the
 * option as it was spelled, what was expected and what was found; then fields and found are as before. */
status opts_parse(const opts *o, int argc, char *const argv[], void *fields, opts_found *found, err *e);
void opts_found_deinit(opts_found *found);

/* True when the option of that long name (not an alias) was on the command line, under any spelling. It must exist. */
bool opts_given(const opts *o, const opts_found *found, const char *name);

/* Appends usage, paragraph and aligned table, at most 100 columns wide. */
void opts_help(const opts *o, buf *out);
#endif
