/* tests/model/tiny_fixture.h - the tiny golden pair with other limits in its configs: folders that link the tensors. */
#ifndef TESTS_MODEL_TINY_FIXTURE_H
#define TESTS_MODEL_TINY_FIXTURE_H
#include "tests/model/model_fixture.h"
#include "tests/unit/load_fixture.h"

/* A folder `name` in s->base with everything of `from`, and this JSON text as max_position_embeddings; NULL: none. */
FIXTURE void tiny_folder(const scratch *s, const char *name, const char *from, const char *positions, char out[256]) {
    char *real = realpath(from, NULL);
    assert_non_null(real);
    snprintf(out, 256, "%s/%s", s->base, name);
    assert_int_equal(mkdir(out, 0700), 0);
    DIR *d = opendir(from);
    assert_non_null(d);
    for (struct dirent *it; (it = readdir(d));) {
        if (it->d_name[0] == '.' || strcmp(it->d_name, "config.json") == 0) continue;
        assert_int_equal(symlink(path_in(real, it->d_name), path_in(out, it->d_name)), 0);
    }
    closedir(d);
    free(real);
    json_t *config = load_json(path_in(from, "config.json"));
    set_member(config, "max_position_embeddings", positions);
    write_json(out, "config.json", config);
    json_decref(config);
}
#endif
