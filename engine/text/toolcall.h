/* engine/text/toolcall.h - takes the tool calls out of an answer. Incremental: any split of the same input gives the
 * same parts.
 *
 * A call is <tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value>...</tool_call>, with or without line breaks
 * behind the name and the tags. The outer tags are tokens; the same characters spelled by other tokens are text, so the
 * caller says when they come. The name is told once a line break, "<arg_key>" or the end of the call follows it, each
 * argument as its value is complete, texts as they come. Between the pairs anything is passed over; of equal keys the
 * first counts. Rules that the public descriptions of the format leave open:
 *
 * - no call after TOOL_UNKNOWN_MAX bytes, or when the owner gives up: what was read is given back as text;
 * - a call without a name is skipped; if the answer has no other, it is text. An empty one is nothing;
 * - the end of the call also ends an open value;
 * - text that is blank so far waits for what follows and is dropped when that is a call.
 *
 * One toolcall serves one answer. The arguments of every call that was told are one JSON object, however the answer
 * ends. Memory is bounded by the answer, time is linear in it. */
#ifndef ENGINE_TEXT_TOOLCALL_H
#define ENGINE_TEXT_TOOLCALL_H
#include "engine/text/parts.h"

enum { TOOL_UNKNOWN_MAX = 512 }; /* bytes of a call before its name is known to be one */

typedef struct toolcall toolcall;

toolcall *toolcall_new(const reply_tool *tools, size_t n); /* borrowed, for as long as it lives */
void toolcall_free(toolcall *t);                           /* NULL is fine */

bool toolcall_is_open(const toolcall *t);    /* inside of a call, or of what looks like one */
bool toolcall_is_certain(const toolcall *t); /* its name was told */

/* Outside of calls. */
void toolcall_content(toolcall *t, str text, parts *out); /* text of the answer */
void toolcall_open(toolcall *t);                          /* the token "<tool_call>" */
/* Inside. Text is whole UTF-8. False: it is no call; `back` takes all of its text, the tag included. */
bool toolcall_text(toolcall *t, str text, parts *out, buf *back);
bool toolcall_close(toolcall *t, parts *out);  /* the token "</tool_call>"; true: a call is complete */
void toolcall_give_up(toolcall *t, buf *back); /* not certain: it is no call */

/* The answer ends. `cut`: before it was whole, so a call that is not certain is dropped. Otherwise its text, and at
 * CALL_END that of an open call, is what the answer says. */
void toolcall_finish(toolcall *t, bool cut, parts *out);
#endif
