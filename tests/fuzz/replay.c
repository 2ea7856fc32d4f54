/* A fuzz driver without libFuzzer: every file of the folders given, and then every file cut short at some places.
 * usage: replay-NAME FOLDER... */
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_BYTES_MAX = 1 << 24, CUTS = 40 };

/* A copy of its own size: a read past the end is then a finding of the sanitizers. */
static void run(const char *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int run_folder(const char *folder) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (const struct dirent *d; dir && (d = readdir(dir));) {
        buf path = { 0 }, input = { 0 };
        err e;
        if (d->d_name[0] == '.') continue;
        buf_printf(&path, "%s/%s", folder, d->d_name);
        if (file_read(&input, buf_cstr(&path), INPUT_BYTES_MAX, &e) != OK) {
            printf("FAIL %s\n", e.text);
            exit(1);
        }
        run(input.data, input.len);
        for (size_t cut = 1; cut <= CUTS; cut++) run(input.data, input.len * cut / (CUTS + 1));
        n++;
        buf_free(&path);
        buf_free(&input);
    }
    if (dir) closedir(dir);
    return n;
}

int main(int argc, char **argv) {
    int n = 0;
    for (int i = 1; i < argc; i++) n += run_folder(argv[i]);
    printf("%d passed, %d failed, 0 skipped\n", n, n == 0);
    return n == 0;
}
