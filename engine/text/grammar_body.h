/* engine/text/grammar_body.h - the inside of a string, byte by byte; for engine/text only.
 *
 * Valid UTF-8 in all modes. Arguments of tool calls end with a tag that is ordinary text, so no string in them may hold
 * that tag, nor the one that closes the call: the guarded modes see to it. */
#ifndef ENGINE_TEXT_GRAMMAR_BODY_H
#define ENGINE_TEXT_GRAMMAR_BODY_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/str.h"

typedef enum body_mode {
    BODY_JSON, /* of a JSON string, up to its closing quote */
    BODY_JSON_GUARDED,
    BODY_KEY, /* the same without escapes */
    BODY_KEY_GUARDED,
    BODY_RAW, /* text without quotes, guarded; BODY_CLOSE never happens */
    BODY_MODES
} body_mode;

typedef struct body {
    uint8_t at;    /* body_at */
    uint8_t guard; /* how much of a tag has been seen, 0: nothing */
} body;

typedef enum body_at {
    BODY_PLAIN, /* between characters */
    BODY_MORE1, /* so many bytes of 80..BF are missing */
    BODY_MORE2,
    BODY_MORE3,
    BODY_E0, /* the next byte has a smaller range (RFC 3629) */
    BODY_ED,
    BODY_F0,
    BODY_F4,
    BODY_ESCAPE, /* behind a backslash */
    BODY_HEX4,   /* behind \u: so many digits are missing */
    BODY_HEX3,
    BODY_HEX2,
    BODY_HEX1,
    BODY_HEX_D, /* behind \ud: no surrogates */
} body_at;

typedef enum body_result {
    BODY_DEAD,
    BODY_ON,    /* inside of a character */
    BODY_BEGUN, /* the first byte of a character */
    BODY_CLOSE  /* the quote that ends the string */
} body_result;

static inline bool body_is_guarded(body_mode m) {
    return m == BODY_JSON_GUARDED || m == BODY_KEY_GUARDED || m == BODY_RAW;
}

#define BODY_TAG_ARG "</arg_value>"
#define BODY_TAG_CALL "</tool_call>"
enum { BODY_TAG_BYTES = 12, BODY_GUARD_CALL = 9, BODY_GUARD_FULL = 255 }; /* both tags have so many bytes */

/* 1, 2: "<", "</"; 3 to 11: that many bytes of the first tag; 12 to 20: 9 less of the second. */
static inline uint8_t body_guard(uint8_t guard, uint8_t c) {
    int at = guard > 11 ? guard - BODY_GUARD_CALL : guard;
    bool call = guard > 11 || (guard == 2 && c == 't');
    if (c == (uint8_t)(call ? BODY_TAG_CALL : BODY_TAG_ARG)[at])
        return at + 1 == BODY_TAG_BYTES ? BODY_GUARD_FULL : (uint8_t)(at + 1 + (call ? BODY_GUARD_CALL : 0));
    return c == '<';
}

static inline bool body_is_hex(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static inline body_result body_begin(body *b, body_mode m, uint8_t c) {
    if (m != BODY_RAW) {
        if (c < 0x20) return BODY_DEAD;
        if (c == '"') return BODY_CLOSE;
        if (c == '\\') {
            b->at = BODY_ESCAPE;
            return m >= BODY_KEY ? BODY_DEAD : BODY_BEGUN;
        }
    }
    if (c < 0x80)
        b->at = BODY_PLAIN;
    else if (c >= 0xC2 && c <= 0xDF)
        b->at = BODY_MORE1;
    else if (c >= 0xE0 && c <= 0xEF)
        b->at = c == 0xE0 ? BODY_E0 : c == 0xED ? BODY_ED : BODY_MORE2;
    else if (c >= 0xF0 && c <= 0xF4)
        b->at = c == 0xF0 ? BODY_F0 : c == 0xF4 ? BODY_F4 : BODY_MORE3;
    else
        return BODY_DEAD;
    return BODY_BEGUN;
}

static inline body_result body_within(body *b, uint8_t c) {
    static const struct {
        uint8_t lo, hi, next;
    } tails[] = {
        [BODY_MORE1] = { 0x80, 0xBF, BODY_PLAIN }, [BODY_MORE2] = { 0x80, 0xBF, BODY_MORE1 },
        [BODY_MORE3] = { 0x80, 0xBF, BODY_MORE2 }, [BODY_E0] = { 0xA0, 0xBF, BODY_MORE1 },
        [BODY_ED] = { 0x80, 0x9F, BODY_MORE1 },    [BODY_F0] = { 0x90, 0xBF, BODY_MORE2 },
        [BODY_F4] = { 0x80, 0x8F, BODY_MORE2 },
    };
    if (b->at <= BODY_F4) {
        if (c < tails[b->at].lo || c > tails[b->at].hi) return BODY_DEAD;
        b->at = tails[b->at].next;
        return BODY_ON;
    }
    if (b->at == BODY_ESCAPE) {
        if (!c || !memchr("\"\\/bfnrtu", c, 9)) return BODY_DEAD;
        b->at = c == 'u' ? BODY_HEX4 : BODY_PLAIN;
        return BODY_ON;
    }
    if (!body_is_hex(c) || (b->at == BODY_HEX_D && c > '7')) return BODY_DEAD;
    if (b->at == BODY_HEX4)
        b->at = c == 'd' || c == 'D' ? BODY_HEX_D : BODY_HEX3;
    else
        b->at = b->at == BODY_HEX_D ? BODY_HEX2 : b->at == BODY_HEX1 ? BODY_PLAIN : b->at + 1;
    return BODY_ON;
}

/* Moves b over the byte; after BODY_DEAD and BODY_CLOSE b means nothing. */
static inline body_result body_step(body *b, body_mode m, uint8_t c) {
    body_result r = b->at == BODY_PLAIN ? body_begin(b, m, c) : body_within(b, c);
    if (!body_is_guarded(m)) return r;
    b->guard = body_guard(b->guard, c);
    return b->guard == BODY_GUARD_FULL && r != BODY_CLOSE ? BODY_DEAD : r;
}
#endif
