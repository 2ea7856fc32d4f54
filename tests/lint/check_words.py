#!/usr/bin/env python3
"""Refuses words that do not belong where they stand.

usage: check_words.py [ROOT]
Prints one line per fault, "file:line: ...", and exits 1 if there was one.
"""
import re
import sys
from typing import Callable, NamedTuple

from sources import C_SUFFIXES, code_only, is_under, list_files, read_text

TEXT_SUFFIXES = C_SUFFIXES + (".py", ".sh", ".md", ".mk", ".1", ".yml", ".yaml", ".toml")
TEXT_NAMES = ("Makefile", "LICENSE", ".gitignore", ".clang-format", ".ci/run")

# Put together from two lists, so that no address stands here either.
REGISTRIES = (r"\b(?:pypi|pythonhosted|npmjs|rubygems|crates|golang|nuget|maven|debian|ubuntu|conda|anaconda)"
              r"\.(?:org|io|com|net)\b")


class Rule(NamedTuple):
    pattern: str
    why: str
    prepare: Callable[[str], str]  # applied to the text of C files before searching
    everywhere: bool               # all text files, or C only
    allowed: tuple                 # places where the word is fine


def as_it_is(text):
    return text


RULES = (
    Rule(r"\b(?:secure_)?getenv\b", "options come from the command line; the environment is read in engine/cli",
         code_only, False, ("engine/cli",)),
    Rule(r"\b(?:_exit|_Exit|quick_exit|exit)\s*\(", "below engine/cli a failure is a status",
         code_only, False, ("engine/cli", "tests", "perf")),
    Rule(r"\babort\s*\(", "a bug is CHECK", code_only, False, ("engine/base/status.c", "tests", "perf")),
    Rule(r"\b(?:v?printf|puts|putchar|perror)\s*\(|\bstdout\b", "below engine/cli nothing is printed; there is the log",
         code_only, False, ("engine/cli", "tests", "perf")),
    Rule(r"\bstderr\b", "only the log and CHECK write there", code_only, False,
         ("engine/base/log.c", "engine/base/status.c", "engine/cli", "tests", "perf")),
    Rule(r"\b(?:strcpy|strcat|gets|alloca|strtok)\s*\(", "no bounds, or hidden state", code_only, False, ()),
    Rule(r"\b(?:TODO|FIXME|XXX|HACK)\b", "a debt is an issue, not a comment", as_it_is, False, ()),
    Rule(r"(?<![\w.$)}])/(?:home|root|work|Users)/[\w.]", "a path of one machine", as_it_is, True, ("tests/golden", "tests/cases")),
    Rule(REGISTRIES, "the address of a package registry", as_it_is, True, ()),
)


def is_text(name):
    return name.endswith(TEXT_SUFFIXES) or name in TEXT_NAMES


def check_file(root, name):
    raw = read_text(root, name)
    is_c = name.endswith(C_SUFFIXES)
    for rule in RULES:
        if any(is_under(name, place) for place in rule.allowed) or not (is_c or rule.everywhere):
            continue
        text = rule.prepare(raw) if is_c else raw
        for found in re.finditer(rule.pattern, text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: '{found.group().strip()}': {rule.why}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    names = [n for n in list_files(root) if is_text(n)]
    faults = [fault for name in names for fault in check_file(root, name)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
