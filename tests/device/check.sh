#!/usr/bin/env bash
# Everything that wants a GPU, on a machine with driver and toolkit, within some minutes: builds for this card, then
# parity, promises, sanitizers and times.
# usage: check.sh [--shim] [--built] [--total SECONDS] [JSON]
#   --shim    the simulation in place of a GPU: what needs one is skipped
#   --built   nothing is built: the programs are there (make STATIC=1 CUDA_ARCH=... on another machine)
#   --total   all parts together, 240 by default, 900 with --shim; a part that has no time left is skipped
#   JSON      results, build/device.json by default; output of each part lies beside it, in device.logs/
# Progress goes to stderr. A part that fails does not stop the others. Exit code 1 when one failed, 2 for usage.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

shim=0 build=1 total='' json=build/device.json
while [ $# -gt 0 ]; do
    case $1 in
    --shim) shim=1 ;;
    --built) build=0 ;;
    --total) total=${2:?seconds}; shift ;;
    -*) sed -n '4,8s/^# //p' "$0" >&2; exit 2 ;;
    *) json=$1 ;;
    esac
    shift
done
[ -n "$total" ] || total=$([ $shim = 1 ] && echo 900 || echo 240)
logs=${json%.json}.logs
mkdir -p "$logs" || exit 2
bench=$logs/bench.json
rm -f "$bench"

passed=0 failed=0 skipped=0 parts=()
say() { echo "$*" >&2; }
left() { echo $((total - SECONDS)); }
# quote TEXT: as a JSON string; whatever JSON would not take is dropped
quote() { printf '"%s"' "$(printf '%s' "$1" | tr '\n\t' '  ' | tr -cd '\40-\176' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

# note NAME RESULT SECONDS TEXT
note() {
    parts+=("{\"part\": \"$1\", \"result\": \"$2\", \"seconds\": $3, \"text\": $(quote "$4")}")
    say "$(printf '%-7s %-22s %4ss  %s' "$2" "$1" "$3" "$4")"
    case $2 in passed) passed=$((passed + 1)) ;; failed) failed=$((failed + 1)) ;; *) skipped=$((skipped + 1)) ;; esac
}
skip() { note "$1" skipped 0 "$2"; }

# part NAME SECONDS COMMAND...: the last line of its output is the text
part() {
    local name=$1 limit=$2 start=$SECONDS rc
    shift 2
    [ "$(left)" -ge 5 ] || { skip "$name" "no time is left of $total seconds"; return 1; }
    [ "$limit" -le "$(left)" ] || limit=$(left)
    say "running $name ..."
    timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null
    rc=$?
    local text
    text=$(grep -v '^ *$' "$logs/$name.log" | tail -n 1 | cut -c1-200)
    case $rc in
    0) note "$name" passed $((SECONDS - start)) "$text" ;;
    124 | 137) note "$name" failed $((SECONDS - start)) "stopped after $limit seconds; $text" ;;
    *) note "$name" failed $((SECONDS - start)) "exit code $rc; $text" ;;
    esac
    return $rc
}

# ---- which machine, which build ----

if [ $shim = 1 ]; then
    arch=none dir=build/simt variant=(SIMT=1)
else
    cap=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d ' .')
    if ! [[ $cap =~ ^[0-9]+$ ]]; then
        say "no GPU was found: nvidia-smi tells no compute capability (check.sh --shim runs without one)"
        exit 1
    fi
    arch=sm_$cap
    [ "$cap" -lt 90 ] || arch=${arch}a
    dir=build/cuda-$arch variant=(CUDA=1 "CUDA_ARCH=$arch")
    [ -x "$dir/skiff" ] || [ $build = 1 ] || dir=build/cuda # one for all cards does as well
fi
skiff=$dir/skiff replay=$dir/tests/device/test_replay
say "architecture $arch, programs in $dir, $total seconds"

if [ $build = 1 ]; then
    part build 200 make -j"$(nproc)" "${variant[@]}" "$dir/skiff"
    part build-tests 60 make -j"$(nproc)" "${variant[@]}" device-tests
else
    skip build "--built"
fi
on=(--backend cuda)

# ---- parts ----

if [ -x "$skiff" ]; then
    part devices 20 "$skiff" inspect --devices
    if [ $shim = 1 ]; then
        part golden 600 "$skiff" verify golden "${on[@]}" tests/golden
        part lossless 120 "$skiff" verify lossless "${on[@]}" --limit 1 --predict 6 --shapes chains
    else
        part golden 60 "$skiff" verify golden "${on[@]}" tests/golden
        part lossless 40 "$skiff" verify lossless "${on[@]}" --prompts tests/prompts.jsonl --limit 6 --predict 60 --shapes all
    fi
    if [ -x "$replay" ]; then
        part replay 40 "$replay"
    else
        skip replay "$replay was not built"
    fi
    part bench 90 "$skiff" bench device --json "$bench"
    round=("$skiff" run "${on[@]}" --temp 0 --predict 6 --spec fixed --ctx-size 512 "def add(a, b):")
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    for tool in memcheck racecheck synccheck; do
        if [ $shim = 1 ]; then
            skip "$tool" "compute-sanitizer needs a GPU; the simulation finds overruns and races itself (tests/simt)"
        elif [ -z "$sanitizer" ]; then
            skip "$tool" "there is no compute-sanitizer"
        else
            part "$tool" 45 "$sanitizer" --tool "$tool" --error-exitcode 9 "${round[@]}"
        fi
    done
else
    skip everything "$skiff was not built"
fi

# ---- result ----

{
    printf '{\n "arch": %s,\n "shim": %s,\n "seconds": %d,\n' "$(quote "$arch")" "$([ $shim = 1 ] && echo true || echo false)" "$SECONDS"
    printf ' "note": %s,\n' "$([ $shim = 1 ] && quote 'a simulation on the processor: times are not those of a GPU' || quote 'on a GPU')"
    printf ' "passed": %d,\n "failed": %d,\n "skipped": %d,\n "parts": [\n' "$passed" "$failed" "$skipped"
    for i in "${!parts[@]}"; do
        printf '  %s%s\n' "${parts[i]}" "$([ "$i" -lt $((${#parts[@]} - 1)) ] && echo ,)"
    done
    printf ' ],\n "bench": '
    if [ -s "$bench" ]; then cat "$bench"; else echo null; fi
    printf '}\n'
} >"$json.new" && mv "$json.new" "$json"
say "results: $json"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ -x "$skiff" ]
