/* skiff verify text: finds the files with text cases in a folder. */
#include "engine/cli/verify_text.h"

#include <dirent.h>
#include <unistd.h>

static const struct {
    const char *folder, *name;
    status (*run)(case_file *f, const case_place *at, err *e);
} FILES[] = {
    { "tokenizer", "tokenizer_cases.jsonl", verify_tokenizer_cases },
    { "template", "template_cases.jsonl", verify_template_cases },
    { "template", "jinja_cases.jsonl", verify_jinja_cases },
    { ".", "parser_cases.jsonl", verify_parser_cases },
};
enum { FILES_N = sizeof FILES / sizeof *FILES };

/* In its sub-folder, or in dir itself. */
static bool find_file(const char *dir, size_t i, buf *folder, buf *path) {
    for (int inside = strcmp(FILES[i].folder, ".") != 0; inside >= 0; inside--) {
        buf_clear(folder);
        buf_clear(path);
        buf_str(folder, str_of(dir));
        if (inside) buf_printf(folder, "/%s", FILES[i].folder);
        buf_printf(path, "%s/%s", buf_cstr(folder), FILES[i].name);
        if (access(buf_cstr(path), F_OK) == 0) return true;
    }
    return false;
}

status verify_text(const char *dir, const char *model, tally *t, err *e) {
    DIR *d = opendir(dir);
    if (!d) return err_set(e, ERR_USAGE, "%s: not a folder that can be read", dir);
    closedir(d);
    buf folder = { 0 }, path = { 0 };
    status s = OK;
    bool found = false;
    for (size_t i = 0; i < FILES_N && s == OK; i++) {
        if (!find_file(dir, i, &folder, &path)) continue;
        found = true;
        case_file f = { 0 };
        case_place at = { buf_cstr(&path), buf_cstr(&folder), model };
        s = FILES[i].run(&f, &at, e);
        if (s == OK) case_file_report(&f, t);
        case_file_deinit(&f);
    }
    buf_free(&folder);
    buf_free(&path);
    if (s == OK && !found)
        s = err_set(e, ERR_USAGE, "%s: no text cases here (tokenizer, template, jinja or parser cases .jsonl)", dir);
    return s;
}
