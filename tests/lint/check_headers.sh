#!/usr/bin/env bash
# Every header compiles alone, and twice in a row.
# usage: check_headers.sh [ROOT]    CC and CFLAGS as for the build; prints the compiler's complaints.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-.}" || exit 2

export CC=${CC:-gcc}
export CXX=${CXX:-g++}
export CXXFLAGS="-std=gnu++20 -D_GNU_SOURCE -Wall -Wextra -Werror -Wundef -Wno-unknown-pragmas -Wno-missing-field-initializers -Wno-unused-function -I."
export CFLAGS=${CFLAGS:--std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wundef -Wstrict-prototypes -I.}

# shellcheck disable=SC2086 # the flags are words
check_one() {
    local header=$1 isa=""
    case $header in # CUDA, as the shim has it compiled
    *_fixture.h) ;; # of tests in C
    kernels/cuda/* | tests/simt/*)
        printf '#include "%s"\n#include "%s"\n' "$header" "$header" |
            $CXX $CXXFLAGS -DSKIFF_SIMT='"tests/simt/simt.h"' -fsyntax-only -x c++ -
        return
        ;;
    esac
    case $header in # compiled once per instruction set; one of them shows whether the includes suffice
    kernels/simd/*) isa="-mavx2 -mfma -DSIMD_ISA=avx2 -DSIMD_avx2=1" ;;
    esac
    printf '#include "%s"\n#include "%s"\n' "$header" "$header" | $CC $CFLAGS $isa -fsyntax-only -x c -
}
export -f check_one

python3 -c 'import sys
sys.path.insert(0, sys.argv[1])
from sources import list_files
print("\n".join(n for n in list_files(".") if n.endswith(".h")))' "$here" |
    xargs -r -P 2 -I{} bash -c 'check_one "$1"' _ {} || exit 1
