/* engine/server/api_chat_int.h - one chat request, shared by api_chat.c (its life) and api_chat_write.c (its bytes). */
#ifndef ENGINE_SERVER_API_CHAT_INT_H
#define ENGINE_SERVER_API_CHAT_INT_H
#include "engine/server/api.h"
#include "engine/server/api_params.h"
#include "engine/server/api_usage.h"
#include "engine/server/sse.h"
#include "engine/text/answer.h"
#include "engine/text/parts.h"

typedef struct chat {
    gen_sink sink;
    server *sv;
    http_exchange *x; /* NULL: the exchange has ended, or the client has gone */
    api_params p;     /* its strings are in mem */
    arena *mem;
    char id[40];
    char request_id[API_ID_MAX + 1];
    buf common; /* members that every chunk of the answer shares, from "id" on */
    api_meter meter;
    sse out;         /* while x is there and p.stream is set */
    parts open;      /* of a stream: what the open round has said */
    answer whole;    /* so far */
    buf call_ids;    /* that were given out, each with a NUL behind it */
    int32_t n_calls; /* begun in the stream */
    bool has_called; /* a call is complete */
    buf tokens;      /* int32_t, with return_token_ids: not yet written */
    buf logprobs;    /* chat_logprob, of the content: not yet written */
    bool has_role;   /* the stream has said "assistant" */
    bool is_over;    /* the last event has come */
} chat;

typedef struct chat_logprob {
    int32_t token;
    token_logprobs l;
} chat_logprob;

typedef struct chat_end {
    const char *reason; /* "stop", "length", "tool_calls" */
    int32_t end_token;  /* -1: none */
    str stop;           /* the stop string, p NULL: none */
} chat_end;

void chat_write_common_(chat *c, time_t created);
void chat_write_round_(chat *c); /* the open round, as chunks */
void chat_write_progress_(chat *c, int32_t done, int32_t total);
void chat_write_end_(chat *c, const chat_end *end);
void chat_write_error_(chat *c, int code, str message);
void chat_write_whole_(chat *c, const chat_end *end, buf *out); /* the answer that is not streamed */
#endif
