/* engine/text/tmpl.h - interpreter of chat templates: the part of Jinja that they use, with Python's text forms.
 *
 * Settings are those of the reference renderer: trim_blocks, lstrip_blocks, no trailing newline, loop controls, the
 * generation tag, tojson without ASCII or HTML escapes. Beyond the Laguna templates it has what other families use:
 * macros, call and filter blocks, block set, with, namespaces, the common filters, tests and string methods.
 * Not there, and refused at parse with the line: include, import, extends, autoescape, recursive loops, argument
 * unpacking, unknown tags, filters and tests. An unknown method or function fails when it is called.
 *
 * Meant to differ from Jinja: what is not known is refused at parse also where it would never run; integers have 64
 * bits; what Jinja makes a generator or a range is a list; a variable given by the caller keeps its value until the
 * template assigns to it (in Jinja a later assignment hides it from loops before); "x is defined if y" is read as it
 * looks.
 *
 * A tmpl is constant after tmpl_parse: any number of threads may render it. Failures never leave a part of the text. */
#ifndef ENGINE_TEXT_TMPL_H
#define ENGINE_TEXT_TMPL_H
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/status.h"
#include "engine/base/str.h"
#include "engine/text/value.h"

typedef struct tmpl tmpl;

/* ERR_TEMPLATE with "<name> line <n>: ..."; name is copied. The source may go away afterwards. */
status tmpl_parse(tmpl **out, str source, const char *name, err *e);
void tmpl_free(tmpl *t); /* NULL is fine */

typedef struct tmpl_var {
    const char *name;
    value val;
} tmpl_var;

/* What one render may use; a template that wants more has gone astray. */
typedef struct tmpl_limits {
    size_t steps;  /* about one per evaluated node, produced element or 16 printed bytes */
    size_t output; /* bytes of any text, the result included */
    size_t memory; /* bytes of the arena */
} tmpl_limits;

extern const tmpl_limits tmpl_limits_default;

/* Appends the render to out. The values and all temporaries live in mem. Of two variables with one name the last
 * counts. ERR_TEMPLATE: the template failed, raised, or passed a limit; the message has name and line. */
status tmpl_render(const tmpl *t, arena *mem, const tmpl_var *vars, size_t n, const tmpl_limits *limits, buf *out,
                   err *e);
#endif
