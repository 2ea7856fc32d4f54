/* engine/text/added.h - added tokens ("<think>"): texts that are one token wherever they stand, whatever BPE would make
 * of them. Matched leftmost, and longest of those. An added_set is constant once all tokens are in. */
#ifndef ENGINE_TEXT_ADDED_H
#define ENGINE_TEXT_ADDED_H
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/str.h"
#include "engine/text/pretok.h"

typedef struct added_token {
    str text; /* not empty */
    int32_t id;
    bool lstrip, rstrip; /* takes the white space before, behind it along */
    bool single_word;    /* does not count when a word character touches it */
    bool normalized;     /* looked for after the others, in what they left */
    bool special;
} added_token;

typedef struct added_set added_set;

added_set *added_new(void);
void added_free(added_set *s); /* NULL is fine */
/* The token is borrowed and must outlive the set. False, and nothing is done, when the text is in already. */
bool added_put(added_set *s, const added_token *t);
const added_token *added_find(const added_set *s, str text); /* NULL: no such token */

bool added_begins(const added_set *s, str text); /* a token stands at the start of text */

/* Walks a text. */
typedef struct added_scan {
    const added_set *set;
    pretok_work *words; /* for single_word */
    str text;
    size_t search; /* where the next match may begin */
    size_t done;   /* what is before it has been given */
} added_scan;

/* True: the next token, and the text before it, maybe empty. False: no more; *gap is the rest of the text. */
bool added_next(added_scan *scan, str *gap, const added_token **t);
#endif
