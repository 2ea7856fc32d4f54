#!/usr/bin/env python3
"""The manual page and the option tables name the same options.

usage: check_man.py [ROOT]
Rows of tables are found by their shape, { "name", ... OPT_...}, anywhere in engine/cli; the page is engine/cli/skiff.1.
Prints one line per fault and exits 1 if there was one.
"""
import os
import re
import sys

from sources import list_files, read_text, without_comments

PAGE = "engine/cli/skiff.1"
BUILT_IN = {"help", "version"}
# The beginning of a row of an opt table: its name, and all up to the next row.
ROW = re.compile(r'\{[\s\\]*"([a-z][\w-]*)",((?:(?!\{[\s\\]*").)*)', re.S)
SILENT = ("OPT_REFUSED", "OPT_IGNORED")  # answered with advice, or without effect: not part of the manual


def options_of_tables(root):
    names = set()
    for file in list_files(root):
        if not re.fullmatch(r"engine/cli/\w+\.[ch]", file):
            continue
        text = without_comments(read_text(root, file)).replace("\\\n", "\n")  # rows may stand in macros
        for name, rest in ROW.findall(text):
            if "OPT_" in rest and not any(word in rest for word in SILENT):
                names.add(name)
    return names


def options_of_page(root):
    if not os.path.exists(os.path.join(root, PAGE)):
        return set()
    text = read_text(root, PAGE).replace("\\-", "-")
    return set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*)", text))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    tables, page = options_of_tables(root), options_of_page(root)
    faults = [f"{PAGE}: --{name} is missing" for name in sorted(tables - page)]
    faults += [f"{PAGE}: --{name} is in no table of engine/cli" for name in sorted(page - tables - BUILT_IN)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
