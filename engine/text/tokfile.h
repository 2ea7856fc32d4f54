/* engine/text/tokfile.h - tokenizer.json in three parts: its two long tables, read in place, and the rest as a tree.
 *
 * A tree of all of it costs several hundred thousand allocations and more time than everything else in opening a text
 * model. Messages begin with "tokenizer.json" and say the line or the entry. */
#ifndef ENGINE_TEXT_TOKFILE_H
#define ENGINE_TEXT_TOKFILE_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/status.h"

typedef struct tokfile {
    str json;     /* the whole file, borrowed */
    json_t *rest; /* owned; an object, with null in place of the two tables */
    str vocab;    /* model.vocab: text of an object; p NULL: absent, or not an object (then it stands in rest) */
    str merges;   /* model.merges: text of an array, likewise */
} tokfile;

status tokfile_open(tokfile *out, str json, err *e);
void tokfile_close(tokfile *f);

/* Walks one table. Strings are borrowed until the next call. After the last entry *more is false. */
typedef struct tokfile_reader {
    const tokfile *file;
    const char *table; /* name for messages */
    size_t at, end;    /* in file->json */
    size_t entry;      /* number of the entry that was read last; (size_t)-1 before the first */
    buf text[2];       /* strings that had escapes */
} tokfile_reader;

void tokfile_reader_init(tokfile_reader *r, const tokfile *f, str table, const char *name);
void tokfile_reader_deinit(tokfile_reader *r);
status tokfile_next_id(tokfile_reader *r, str *key, int64_t *id, bool *more, err *e); /* "key": id */
/* An entry of the merge list in either spelling, "left right" or ["left", "right"]; a list may mix them. A first entry
 * that begins with "#version" is passed over. */
status tokfile_next_merge(tokfile_reader *r, str *left, str *right, bool *more, err *e);
#endif
