"""What the comparisons share: Python packages that may be missing, options, counting.

The packages live in build/venv ("make venv"); a program that is started outside of it goes there by itself."""
import argparse
import json
import os
import pathlib
import random
import secrets
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def need(*modules):
    """Runs this program again in build/venv where there is one; ends it as skipped when a module is missing."""
    python = ROOT / "build/venv/bin/python3"
    if python.exists() and pathlib.Path(sys.prefix) != ROOT / "build/venv":
        os.execv(python, [str(python)] + sys.argv)
    for name in modules:
        try:
            __import__(name)
        except ImportError as why:
            log = ROOT / "build/venv.log"
            said = log.read_text().strip().splitlines()[-1:] if log.exists() else []
            print(f"skip {pathlib.Path(sys.argv[0]).stem}: {why}; the packages of tests/requirements.txt are not there ({''.join(said) or 'make venv installs them'})")
            print("0 passed, 0 failed, 1 skipped")
            sys.exit(0)


def options(about, **counts):
    """Parsed options; `rng` is seeded, and its seed is printed, so that a failure can be had again."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("program", help="text_lines")
    parser.add_argument("--seed", type=int, default=None)
    for name, default in counts.items():
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    args.seed = secrets.randbelow(2**32) if args.seed is None else args.seed
    args.rng = random.Random(args.seed)
    print(f"seed {args.seed}", flush=True)
    return args


def around(expected, found):
    """Both, from shortly before the first place where they differ."""
    a, b = json.dumps(expected, ensure_ascii=False), json.dumps(found, ensure_ascii=False)
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return [("..." if at > 40 else "") + ascii(t[max(0, at - 40):at + 160]) for t in (a, b)]


class Tally:
    """A named group of comparisons is one test."""

    def __init__(self):
        self.passed = self.failed = 0

    def group(self, name, pairs, limit=5):
        """pairs: (input, expected, found). Shows the first differences."""
        n = bad = 0
        for given, expected, found in pairs:
            n += 1
            if expected == found:
                continue
            bad += 1
            if bad <= limit:
                print("  {}: {}\n    expected {}\n    found    {}".format(name, json.dumps(given)[:3000], *around(expected, found)), flush=True)
        print(f"{'FAIL' if bad or not n else 'ok  '} {name}: {n} compared, {bad} differ", flush=True)
        self.passed += not bad and n > 0
        self.failed += bad > 0 or not n

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed, 0 skipped")
        sys.exit(1 if self.failed else 0)
