"""What the checks of this folder share: the list of files, and C text without comments and literals."""
import os
import re
import subprocess

C_SUFFIXES = (".c", ".h", ".S", ".def", ".cu", ".cuh", ".cpp")
PRUNED = {".git", "build"}


def list_files(root):
    """Paths relative to root: what git tracks or would track; without git, everything but build products."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                            capture_output=True, check=False)
    if listed.returncode == 0:
        names = {n for n in listed.stdout.decode().split("\0") if n}
        return sorted(n for n in names if os.path.isfile(os.path.join(root, n)))
    names = []
    for folder, subs, files in os.walk(root):
        subs[:] = [s for s in subs if s not in PRUNED]
        names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(names)


def read_text(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
        return f.read()


_SKIPPED = re.compile(r"""
    /\*.*?\*/                       # comment
  | //[^\n]*
  | "(?:\\.|[^"\\\n])*"             # text
  | '(?:\\.|[^'\\\n])*'             # character
""", re.X | re.S)


def code_only(text):
    """C text with comments, texts and characters blanked; lines keep their numbers."""
    return _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def without_comments(text):
    """C text with comments blanked and literals kept; lines keep their numbers."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group()) if m.group().startswith("/") else m.group()
    return _SKIPPED.sub(blank, text)


def is_under(name, entry):
    """True when the path is the entry, lies below it, or matches it as a pattern."""
    if entry == "*" or name == entry or name.startswith(entry + "/"):
        return True
    return "*" in entry and re.fullmatch(re.escape(entry).replace(r"\*", "[^/]*"), name) is not None
