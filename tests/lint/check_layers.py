#!/usr/bin/env python3
"""Refuses every #include that is not allowed by layers.txt.

usage: check_layers.py [ROOT]
Prints one line per fault, "file:line: ...", and exits 1 if there was one.
"""
import os
import re
import sys

from sources import C_SUFFIXES, is_under, list_files, read_text, without_comments

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.txt")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.M)


def read_table(path):
    """(layer -> entries, vendor pattern -> entries)"""
    layers, vendors = {}, {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.partition("#")[0].strip()
            if not line:
                continue
            name, _, entries = line.partition(":")
            if name.startswith("<"):
                vendors[name[1:-1]] = entries.split()
            else:
                layers[name] = entries.split()
    return layers, vendors


def layer_of(layers, name):
    """The row that a file belongs to, or None."""
    return max((row for row in layers if is_under(name, row)), key=len, default=None)


def check_own(layers, root, name, header):
    """The fault of #include "header" in file `name`, or None."""
    if not os.path.isfile(os.path.join(root, header)) or ".." in header.split("/"):
        return f'"{header}": no such file; includes are written from the repository root'
    row = layer_of(layers, name)
    if row is None:
        return f'"{header}": the file belongs to no layer of layers.txt'
    if row == "tests":
        return None
    if header.endswith("_int.h") and os.path.dirname(header) != os.path.dirname(name):
        return f'"{header}": internal to {os.path.dirname(header)}/'
    if any(is_under(header, entry) for entry in layers[row]):
        return None
    return f'"{header}": {row} may not include it (allowed: {" ".join(layers[row])})'


def check_vendor(vendors, name, header):
    """The fault of #include <header> in file `name`, or None."""
    for pattern, places in vendors.items():
        if is_under(header, pattern) and not any(is_under(name, place) for place in places):
            return f"<{header}>: only in {' '.join(places)}"
    return None


def check_file(layers, vendors, root, name):
    text = without_comments(read_text(root, name))
    for found in INCLUDE.finditer(text):
        own, vendor = found.groups()
        fault = check_own(layers, root, name, own) if own else check_vendor(vendors, name, vendor)
        if fault:
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {fault}"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    layers, vendors = read_table(TABLE)
    names = [n for n in list_files(root) if n.endswith(C_SUFFIXES)]
    faults = [fault for name in names for fault in check_file(layers, vendors, root, name)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
