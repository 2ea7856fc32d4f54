/* engine/text/parts.h - an answer, or the piece of it that one step gave, as parts in their order: text, reasoning,
 * calls with their arguments. The kinds are those of the events that they become. A zeroed one is empty and ready. */
#ifndef ENGINE_TEXT_PARTS_H
#define ENGINE_TEXT_PARTS_H
#include "engine/base/buf.h"
#include "engine/engine.h"

typedef struct part {
    gen_event_kind kind; /* GEN_TEXT, GEN_REASONING, GEN_CALL, GEN_ARGUMENTS, GEN_CALL_END */
    bool complete;       /* CALL_END */
    size_t at;           /* of its text in bytes; it goes up to the next part */
} part;

typedef struct parts {
    buf bytes;
    part *list;
    size_t n, cap;
} parts;

/* Appends. Text behind text of the same kind joins it, empty text is none; calls and their ends are parts of their
 * own. */
void parts_put(parts *p, gen_event_kind kind, str text);
void parts_end_call(parts *p, bool complete, str text); /* text: as of GEN_CALL_END */
str parts_text(const parts *p, size_t i);               /* borrowed until the next change */
void parts_clear(parts *p);
void parts_free(parts *p);
#endif
