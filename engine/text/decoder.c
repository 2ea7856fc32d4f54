/* The tail may still become a character. A byte that does not fit behind it shows that it cannot: the tail is then a
 * maximal ill-formed part and turns into one U+FFFD, and the byte starts afresh.
 *
 * One exception follows Python's incremental decoder, which defines the streams of the reference: ED A0 to ED BF, the
 * first two bytes of a surrogate, can become nothing, and are two ill-formed parts; still they wait for a third byte.
 */
#include "engine/text/text.h"

#include "engine/base/utf8.h"

#define REPLACEMENT STR("\xEF\xBF\xBD")

static bool is_surrogate_head(str s) {
    return s.n == 2 && (unsigned char)s.p[0] == 0xED && (unsigned char)s.p[1] >= 0xA0 && (unsigned char)s.p[1] <= 0xBF;
}

/* Takes the tail, which has become hopeless. */
static void give_up(text_decoder *d, buf *out) {
    buf_str(out, REPLACEMENT);
    if (is_surrogate_head((str){ d->tail, (size_t)d->n })) buf_str(out, REPLACEMENT);
    d->n = 0;
}

void text_decoder_push(text_decoder *d, str bytes, buf *out) {
    for (size_t i = 0; i < bytes.n;) {
        d->tail[d->n++] = bytes.p[i];
        str tail = { d->tail, (size_t)d->n };
        if (utf8_is_prefix(tail) || is_surrogate_head(tail)) {
            i++;
        } else if (utf8_char(tail)) {
            buf_str(out, tail);
            d->n = 0;
            i++;
        } else {
            if (d->n > 1)
                d->n--; /* the byte itself is looked at again */
            else
                i++;
            give_up(d, out);
        }
    }
}

void text_decoder_flush(text_decoder *d, buf *out) {
    if (d->n) give_up(d, out);
}
