#!/usr/bin/env bash
# All checks of the text of the program: who includes whom, forbidden words, formatting, static analysis.
# usage: run.sh [ROOT]    ROOT: another tree, for selftest.sh. CC and CFLAGS as for the build.
# One line per check, complaints below it; the last line counts. Exit code 1 when a check failed.
# A check whose tool is not installed is skipped, with the reason.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}" || exit 2
export PYTHONDONTWRITEBYTECODE=1

passed=0 failed=0 skipped=0

# check NAME TOOL COMMAND...
check() {
    local name=$1 tool=$2 out
    shift 2
    if ! command -v "$tool" >/dev/null; then
        echo "skip $name: $tool is not installed"
        skipped=$((skipped + 1))
    elif out=$("$@" 2>&1); then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        echo "FAIL $name"
        head -n 60 <<<"$out" | while IFS= read -r line; do echo "     $line"; done
        failed=$((failed + 1))
    fi
}

# files PATTERN: what git tracks or would track, by the end of the name, separated by NUL
files() {
    python3 - "$here" "$1" <<'PY'
import re, sys
sys.path.insert(0, sys.argv[1])
from sources import list_files
sys.stdout.write("".join(n + "\0" for n in list_files(".") if re.search(sys.argv[2], n)))
PY
}

# Names only: the cure is the same for every line.
check_format() {
    local bad
    bad=$(files '\.([ch]|cpp|cuh?)$' | xargs -0 -r clang-format --dry-run -Werror 2>&1 |
        sed -n 's/:[0-9]*:[0-9]*: error: .*//p' | sort -u)
    [ -z "$bad" ] || { printf 'run clang-format -i on:\n%s\n' "$bad"; return 1; }
}
check_python() {
    files '\.py$' | xargs -0 -r python3 -c 'import sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as f:
        compile(f.read(), name, "exec")'
}
check_shell() { files '\.sh$|^\.ci/run$' | xargs -0 -r shellcheck -S warning; }

# analyse NAME FLAGS...: reads file names from its input. Results are kept: only changed files are looked at again.
analyse() {
    local kept=build/lint/$1 names
    shift
    names=$(cat)
    [ -n "$names" ] || return 0
    mkdir -p "$kept"
    cppcheck --enable=warning,performance,portability --std=c11 --language=c -j2 --quiet --error-exitcode=1 \
        --suppressions-list="$here/cppcheck.txt" --library="$here/macros.cfg" \
        --cppcheck-build-dir="$kept" -I. "$@" --file-list=- <<<"$names"
}
check_analysis() {
    files '^(engine|kernels|graphs|target|draft|perf|tests)/.*\.c$' | tr '\0' '\n' | grep -v '^kernels/simd/' |
        analyse portable -DSKIFF_DEBUG=1
}
# Sources that are compiled once per instruction set, as one of them.
check_analysis_simd() {
    files '^kernels/simd/.*\.c$' | tr '\0' '\n' | analyse simd -DSIMD_ISA=avx2 -DSIMD_avx2=1 -D__AVX2__=1
}

check layers python3 python3 "$here/check_layers.py" .
check words python3 python3 "$here/check_words.py" .
check manual python3 python3 "$here/check_man.py" .
check headers "${CC:-gcc}" "$here/check_headers.sh" .
check format clang-format check_format
check python python3 check_python
check shell shellcheck check_shell
check cppcheck cppcheck check_analysis
check cppcheck-simd cppcheck check_analysis_simd

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
