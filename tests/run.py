#!/usr/bin/env python3
"""Runs test programs one after the other and adds up what they say.

usage: run.py [--jobs N] [--time SECONDS] PROGRAM...

A program is a path, or "name=command line"; with "@" in front it runs alone, after the others. It counts through cmocka's closing lines, or through a last line
"N passed, N failed, N skipped". A program that dies, runs too long, or says nothing countable is one failure.
Skips are shown with their reason. The last line of all is "N passed, N failed, N skipped"; exit code 1 on failure.
"""
import argparse
import concurrent.futures
import os
import re
import shlex
import signal
import subprocess
import sys
import time

PLAIN = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
CMOCKA = {key: re.compile(r"^\[  %s +\] (\d+) test" % word, re.M) for key, word in
          (("passed", "PASSED"), ("failed", "FAILED"), ("skipped", "SKIPPED"))}


def counts(text):
    """(passed, failed, skipped) that the output claims, or None."""
    plain = PLAIN.findall(text)
    if plain:
        return tuple(int(n) for n in plain[-1])
    found = {key: sum(int(n) for n in pattern.findall(text)) for key, pattern in CMOCKA.items()}
    return (found["passed"], found["failed"], found["skipped"]) if any(found.values()) else None


def run(item, limit):
    item = item.lstrip("@")
    name, _, command = item.partition("=") if "=" in item.split(" ")[0] else (item, "", item)
    start = time.monotonic()
    # its own process group, so that nothing outlives a time-out
    try:
        child = subprocess.Popen(shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as why:
        return name, "", 0, 1, 0, f"cannot be started: {why.strerror}", 0.0
    try:
        output = child.communicate(timeout=limit)[0]
        late = False
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output = child.communicate()[0]
        late = True
    text = output.decode("utf-8", "replace")
    passed, failed, skipped = counts(text) or (0, 0, 0)
    why = ""
    if late:
        why = f"ran longer than {limit} s"
    elif child.returncode and not failed:
        why = f"exit code {child.returncode}"
    elif not (passed or failed or skipped):
        why = "ran no test"
    return name, text, passed, failed + bool(why), skipped, why, time.monotonic() - start


def show(result):
    name, text, passed, failed, skipped, why, seconds = result
    print(f"{'FAIL' if failed else 'ok  '} {name}: {passed} passed, {failed} failed, {skipped} skipped, {seconds:.1f} s"
          f"{' (' + why + ')' if why else ''}", flush=True)
    if failed:
        print("    " + "\n    ".join(text.splitlines()[-80:]), flush=True)
        return
    for line in text.splitlines():
        if re.match(r"skip\b|\[  SKIPPED \] test", line, re.I):
            print("    " + line, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time", type=float, default=600)
    parser.add_argument("programs", nargs="+")
    args = parser.parse_args()
    totals = [0, 0, 0]
    for alone, jobs in ((False, args.jobs), (True, 1)):
        batch = [p for p in args.programs if p.startswith("@") == alone]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = [pool.submit(run, p, args.time) for p in batch]
            for done in concurrent.futures.as_completed(running):
                result = done.result()
                show(result)
                totals = [a + b for a, b in zip(totals, result[2:5])]
    print("%d passed, %d failed, %d skipped" % tuple(totals))
    sys.exit(1 if totals[1] else 0)


if __name__ == "__main__":
    main()
