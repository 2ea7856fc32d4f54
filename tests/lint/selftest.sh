#!/usr/bin/env bash
# The checks of run.sh can fail: each bad file below, put alone into a small sound tree, must turn exactly its own check
# red. usage: selftest.sh    Exit code 1 when a check stayed green or another one complained.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
passed=0 failed=0

note() { # note OK NAME
    if [ "$1" = 1 ]; then
        passed=$((passed + 1))
    else
        echo "FAIL $2"
        failed=$((failed + 1))
    fi
}

# write PATH: the text on standard input into the tree
write() {
    mkdir -p "$tree/$(dirname "$1")"
    cat >"$tree/$1"
}

reds() { "$here/run.sh" "$tree" | sed -n 's/^FAIL //p' | tr '\n' ' '; }

# bad CHECK PATH: with the text on standard input as PATH, CHECK fails and no other
bad() {
    local check=$1 path=$2 found
    write "$path"
    found=$(reds)
    note "$([ "$found" = "$check " ] && echo 1)" "$path: expected '$check', found '$found'"
    rm "$tree/$path"
}

cp "$here/../../.clang-format" "$tree/"
write engine/base/a.h <<'C'
/* A comment may say getenv(, exit( and printf(; only code may not. */
#ifndef ENGINE_BASE_A_H
#define ENGINE_BASE_A_H
#include <stdint.h>
static inline int32_t a_double(int32_t x) { return 2 * x; }
#endif
C
write engine/base/a.c <<'C'
#include "engine/base/a.h"
static const char text[] = "printf(getenv, exit)";
int a_first(void) { return a_double(text[0]); }
C
write kernels/rows_int.h <<'C'
#ifndef KERNELS_ROWS_INT_H
#define KERNELS_ROWS_INT_H
#include "engine/base/a.h"
#endif
C
write tests/unit/test_a.c <<'C'
#include <stdio.h>
#include "kernels/rows_int.h"
int main(void) { return printf("%d\n", a_double(1)) < 0; }
C
write engine/cli/cmd_a.c <<'C'
#include "engine/base/a.h"
static const opt list[] = {
    { "port", .brief = "p", .help = "a port", .kind = OPT_INT },
    { "spec-type", .kind = OPT_REFUSED },
};
C
write engine/cli/skiff.1 <<'M'
.B \-\-port
M
found=$(reds)
note "$([ -z "$found" ] && echo 1)" "the sound tree: found '$found'"

bad layers engine/base/up.c <<<'#include "engine/cli/opts.h"'
mkdir -p "$tree/target" && echo '/* empty */' >"$tree/target/target.h"
bad layers engine/base/up.c <<<'#include "target/target.h"'
bad layers draft/side.c <<<'#include "target/target.h"'
bad layers graphs/inner.c <<<'#include "kernels/rows_int.h"'
bad layers engine/base/relative.c <<<'#include "a.h"'
bad layers engine/base/climbs.c <<<'#include "engine/../engine/base/a.h"'
bad layers engine/load/thread.c <<<'#include <pthread.h>'
bad layers engine/server/direct.c <<<'#include <event2/event.h>'
bad layers engine/text/bpe.c <<<'#include <pcre2.h>'
bad layers target/json.c <<<'#include <jansson.h> // reason'
bad layers sideways/new.c <<<'#include "engine/base/a.h"'
rm -r "$tree/target"

bad words engine/core/switch.c <<<'const char *x(void) { return getenv("X"); }'
bad words engine/core/end.c <<<'void x(void) { exit(1); }'
bad words kernels/say.c <<<'void x(void) { printf("x"); }'
bad words engine/load/say.c <<<'void x(void) { fputs("x", stderr); }'
bad words engine/base/later.c <<<'/* TO''DO: finish */'
bad words engine/base/home.c <<<'const char *x(void) { return "/ho''me/me/model"; }'
bad words tests/unit/fetch.py <<<'ADDRESS = "https://py''pi.org/simple"'
bad words README.md <<<'See /wo''rk/main.'

bad headers engine/base/needs.h <<<'static inline size_t needs_size(void) { return 0; }'
bad headers engine/base/twice.h <<<'static inline int twice_x(void) { return 1; }'
bad format engine/base/wide.c <<<'int  wide_x( void ){return 1;}'
bad python tests/unit/broken.py <<<'def f(:'
bad shell tests/unit/broken.sh <<<'cd $1; rm *'
bad cppcheck engine/base/over.c <<<'int over_x(void) {
    int a[2] = { 0 };
    return a[2];
}'
# What the analysis keeps between runs must not make a fault disappear the second time.
write engine/base/over.c <<<'int over_x(void) {
    int a[2] = { 0 };
    return a[2];
}'
found=$(reds)$(reds)
note "$([ "$found" = "cppcheck cppcheck " ] && echo 1)" "analysed twice: found '$found'"
rm "$tree/engine/base/over.c"
bad cppcheck-simd kernels/simd/over.c <<<'int over_x(void) {
    int a[2] = { 0 };
    return a[2];
}'
write engine/cli/skiff.1 </dev/null
found=$(reds)
note "$([ "$found" = "manual " ] && echo 1)" "an option without a manual entry: found '$found'"
write engine/cli/skiff.1 <<<'.B \-\-port \-\-prot'
found=$(reds)
note "$([ "$found" = "manual " ] && echo 1)" "a manual entry without an option: found '$found'"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
