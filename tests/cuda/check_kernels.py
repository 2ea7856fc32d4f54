#!/usr/bin/env python3
"""What the compiler made of the CUDA kernels: registers, spills, and the instructions that speed rests on.

usage: check_kernels.py --objects DIR [--tools DIR] [--record FILE] [--update] [--selftest]
DIR holds *.cu.o and, beside each, *.cu.o.log with what ptxas -v said (make CUDA=1). The record is compared, or with
--update written. --selftest needs no objects: it shows that every rule can fail.
Prints one line per fault and a last line that counts; exits 1 if there was a fault.
"""
import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

RECORD = "perf/results/kernels.csv"
FIELDS = ("arch", "kernel", "registers", "spill_stores", "spill_loads", "stack", "shared")
MORE_REGISTERS = 1.10  # of what is recorded; ptxas moves a few from one harmless change to the next


class Rule(NamedTuple):
    pattern: str      # of the whole name
    needs: tuple      # kinds of instructions, below
    spills: str = ""  # why the kernel may spill; then the spills may not grow


# Hot: what runs in every step of a decoding model. "tensor": tensor-core products. "load16": loads of 16 bytes, which
# weights need. "async16": copies of 16 bytes to shared memory that run beside the arithmetic, which keys and values need.
PRODUCT, ATTENTION = ("tensor", "load16"), ("tensor", "async16")
PROMPT = "prompts of more than 32 rows only: all 255 registers are taken, and arithmetic hides the rest"
WIDE = "one part of eight warps each, for rounds of many queries: all 255 registers are taken"
HOT = (
    Rule(r"linear_kernel<.*>", PRODUCT),
    Rule(r"glu_kernel<.*>", PRODUCT),
    Rule(r"route_kernel<.*>", PRODUCT),
    Rule(r"moe_up_kernel<.*>", PRODUCT),
    Rule(r"moe_down(_wide)?_kernel<.*>", PRODUCT),
    # attn_plan<head size, bytes of an element, parts, keys of the call not yet stored>
    Rule(r"attention_kernel<attn_plan<128, \d, 1, false> ?>", ATTENTION, PROMPT),
    Rule(r"attention_kernel<attn_plan<128, \d, 1, true> ?>", ATTENTION, WIDE),
    Rule(r"attention_kernel<.*>", ATTENTION),
)

# An instruction line of cuobjdump -sass: offset, predicate, opcode with its suffixes.
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", re.M)
KINDS = (("tensor", re.compile(r"HMMA\.")), ("load16", re.compile(r"LDG\..*\b128\b")),
         ("async16", re.compile(r"LDGSTS\..*\b128\b")), ("local", re.compile(r"(LDL|STL)\b")))
WORDS = {"tensor": "tensor-core product (HMMA)", "load16": "16-byte load (LDG.128)",
         "async16": "16-byte asynchronous copy (LDGSTS.128)"}


# ---- what ptxas said ----

def demangle(names):
    """Names without return type and parameters."""
    if not names:
        return {}
    out = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return {name: re.sub(r"^void ", "", line).replace("> >", ">>") for name, line in zip(names, out.splitlines())}


def read_log(path):
    """Kernels of one source: a dict with the fields of the record, and the name in the object as "symbol"."""
    kernels, arch, symbol, frame = [], None, None, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            if m := re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line):
                symbol, arch = m.groups()
            elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
                frame = [int(x) for x in m.groups()]
            elif (m := re.search(r"Used (\d+) registers", line)) and symbol:
                shared = re.search(r"(\d+) bytes smem", line)
                kernels.append({"arch": arch, "symbol": symbol, "registers": int(m.group(1)), "stack": frame[0],
                                "spill_stores": frame[1], "spill_loads": frame[2],
                                "shared": int(shared.group(1)) if shared else 0})
                symbol = None
    names = demangle([k["symbol"] for k in kernels])
    for k in kernels:
        k["kernel"] = names[k["symbol"]]
    return kernels


# ---- what is in the object ----

def find_tool(name, folder):
    nvcc = shutil.which("nvcc")
    places = [shutil.which(name)]
    if nvcc:
        places.append(os.path.join(os.path.dirname(os.path.realpath(nvcc)), name))
    if folder:
        places.append(os.path.join(folder, "nvidia/cu13/bin", name))
    return next((p for p in places if p and os.access(p, os.X_OK)), None)


def count_kinds(sass):
    """Symbol -> kind -> how many such instructions."""
    counts = {}
    for part in re.split(r"^\s*Function : ", sass, flags=re.M)[1:]:
        symbol, _, body = part.partition("\n")
        codes = INSTRUCTION.findall(body)
        counts[symbol.strip()] = {kind: sum(1 for c in codes if p.match(c)) for kind, p in KINDS}
    return counts


def read_object(cuobjdump, path, arch):
    """As count_kinds; kept beside the object until that changes."""
    kept, stat = f"{path}.{arch}.json", os.stat(path)
    stamp = [stat.st_mtime_ns, stat.st_size, [p.pattern for _, p in KINDS]]
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as f:
            old = json.load(f)
        if old["stamp"] == stamp:
            return old["counts"]
    run = subprocess.run([cuobjdump, "-sass", "-arch", arch, path], capture_output=True, text=True, check=True)
    counts = count_kinds(run.stdout)
    with open(kept, "w", encoding="utf-8") as f:
        json.dump({"stamp": stamp, "counts": counts}, f)
    return counts


# ---- judging ----

def rule_of(kernel):
    return next((r for r in HOT if re.fullmatch(r.pattern, kernel["kernel"])), None)


def judge(kernel, rule, counts, recorded):
    """Faults of one hot kernel. counts and recorded may be None: not known."""
    faults = []
    spilled = kernel["spill_stores"] + kernel["spill_loads"]
    if spilled and not rule.spills:
        faults.append(f"spills: {kernel['spill_stores']} bytes stored, {kernel['spill_loads']} loaded")
    if recorded:
        if kernel["registers"] > recorded["registers"] * MORE_REGISTERS:
            faults.append(f"{kernel['registers']} registers, recorded are {recorded['registers']}")
        before = recorded["spill_stores"] + recorded["spill_loads"]
        if rule.spills and spilled > before * MORE_REGISTERS:
            faults.append(f"spills {spilled} bytes, recorded are {before}")
    if counts is not None:
        faults += [f"has no {WORDS[kind]}" for kind in rule.needs if not counts.get(kind)]
        if counts.get("local") and not rule.spills:
            faults.append(f"touches local memory {counts['local']} times")
    return faults


def compare_lists(kernels, record):
    """Kernels that are in one list alone, of the architectures that were compiled."""
    here = {(k["arch"], k["kernel"]) for k in kernels}
    archs = {a for a, _ in here}
    known = {key for key in record if key[0] in archs}
    faults = [f"{a} {n}: is not recorded (make check-cuda UPDATE=1)" for a, n in sorted(here - known)]
    return faults + [f"{a} {n}: is recorded and not there any more (make check-cuda UPDATE=1)" for a, n in
                     sorted(known - here)]


# ---- the record ----

def ptxas_version():
    nvcc = shutil.which("nvcc")
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout if nvcc else ""
    m = re.search(r"\bV([\d.]+)", text)
    return m.group(1) if m else "unknown"


def read_record(path):
    if not os.path.exists(path):
        return None, {}
    with open(path, encoding="utf-8") as f:
        version = f.readline().removeprefix("# nvcc").strip()
        rows = list(csv.DictReader(f))
    for row in rows:
        for field in FIELDS[2:]:
            row[field] = int(row[field])
    return version, {(r["arch"], r["kernel"]): r for r in rows}


def write_record(path, kernels):
    """Architectures that were not compiled stay as they are, when they are of the same compiler."""
    version, old = read_record(path)
    archs = {k["arch"] for k in kernels}
    kernels = kernels + [r for key, r in old.items() if key[0] not in archs and version == ptxas_version()]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(f"# nvcc {ptxas_version()}\n")
        out = csv.DictWriter(f, FIELDS, extrasaction="ignore", lineterminator="\n")
        out.writeheader()
        out.writerows(sorted(kernels, key=lambda k: (int(re.sub(r"\D", "", k["arch"])), k["kernel"])))


# ---- the checks ----

def collect(folder):
    objects = sorted(n for n in os.listdir(folder) if n.endswith(".cu.o")) if os.path.isdir(folder) else []
    return {os.path.join(folder, n): read_log(os.path.join(folder, n + ".log")) for n in objects}


def check(args):
    found = collect(args.objects)
    kernels = [k for some in found.values() for k in some]
    if not kernels and not shutil.which("nvcc"):
        print("skip: there is no nvcc to compile the CUDA kernels\n0 passed, 0 failed, 1 skipped")
        return 0
    if not kernels:
        print(f"{args.objects}: no objects of CUDA sources (make CUDA=1 cuda-objects)")
        return 1
    if args.update:
        write_record(args.record, kernels)
        print(f"{args.record}: {len(kernels)} kernels recorded")
    version, record = read_record(args.record)
    comparable = version == ptxas_version()
    if not comparable:
        print(f"note: {args.record} is of nvcc {version}, this is {ptxas_version()}: registers are not compared")
    cuobjdump, nvdisasm = find_tool("cuobjdump", args.tools), find_tool("nvdisasm", args.tools)
    if not cuobjdump or not nvdisasm:
        cuobjdump = None
        print("skip instructions: there is no cuobjdump, or no nvdisasm for it (of the CUDA toolkit, or the Python "
              "packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm)")
    else:
        os.environ["PATH"] += os.pathsep + os.path.dirname(os.path.abspath(nvdisasm))
    faults = compare_lists(kernels, record) if comparable else []
    hot, spilling = 0, []
    for path, some in found.items():
        counts = {a: read_object(cuobjdump, path, a) for a in {k["arch"] for k in some if rule_of(k)}} if cuobjdump else {}
        for k in some:
            rule = rule_of(k)
            if not rule:
                continue
            hot += 1
            if k["spill_stores"]:
                spilling.append(f"{k['arch']} {k['kernel']}")
            known = record.get((k["arch"], k["kernel"])) if comparable else None
            in_object = counts[k["arch"]].get(k["symbol"], {}) if cuobjdump else None
            faults += [f"{k['arch']} {k['kernel']}: {fault}" for fault in judge(k, rule, in_object, known)]
    unused = [r.pattern for r in HOT if not any(re.fullmatch(r.pattern, k["kernel"]) for k in kernels)]
    faults += [f"no kernel is named {p}" for p in unused]
    for fault in faults:
        print(fault)
    for name in spilling:
        print(f"spills, as is known: {name}")
    print(f"{len(kernels)} kernels, {hot} of them hot")
    print(f"{hot - min(hot, len(faults))} passed, {len(faults)} failed, {0 if cuobjdump else 1} skipped")
    return 1 if faults else 0


def selftest():
    """Every rule with something it has to find, and once with nothing to find."""
    sass = """
		Function : _Z1kv
        /*0000*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0010*/              @!P0 HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0020*/                   LDGSTS.E.BYPASS.LTC128B.128 [R1], desc[UR4][R2.64] ;
        /*0030*/               @P1 STL.64 [R1], R4 ;
		Function : _Z1nv
        /*0000*/                   LDG.E.64.LTC128B R4, desc[UR4][R2.64] ;
"""
    counts = count_kinds(sass)
    good, none = dict(counts["_Z1kv"], local=0), counts["_Z1nv"]
    k = {"arch": "sm_90a", "kernel": "linear_kernel<1, 1, true>", "registers": 100, "spill_stores": 0, "spill_loads": 0}
    rule = rule_of(k)
    allowed = rule_of(dict(k, kernel="attention_kernel<attn_plan<128, 2, 1, false>>"))
    spill = dict(k, spill_stores=40, spill_loads=40)
    cases = (
        ("the instructions are counted", counts["_Z1kv"] == {"tensor": 1, "load16": 1, "async16": 1, "local": 1}),
        ("a load of 8 bytes is none of 16", none == {"tensor": 0, "load16": 0, "async16": 0, "local": 0}),
        ("nothing is found where nothing is", judge(k, rule, good, k) == []),
        ("ten per cent more registers are fine", judge(dict(k, registers=110), rule, good, k) == []),
        ("more are not", len(judge(dict(k, registers=111), rule, good, k)) == 1),
        ("a hot kernel may not spill", len(judge(spill, rule, good, k)) == 1),
        ("one that may, does", judge(spill, allowed, good, spill) == []),
        ("but no more than is recorded", len(judge(dict(spill, spill_loads=60), allowed, good, spill)) == 1),
        ("local memory is found", len(judge(k, rule, dict(good, local=2), k)) == 1),
        ("a wrong table is found: tensor cores", len(judge(k, Rule(".*", ("tensor",)), none, k)) == 1),
        ("a wrong table is found: copies", len(judge(k, Rule(".*", ("async16",)), dict(good, async16=0), k)) == 1),
        ("a missing kernel is found", len(compare_lists([k], {("sm_90a", "x"): k})) == 2),
        ("another architecture is not", compare_lists([k], {("sm_90a", k["kernel"]): k, ("sm_80", "x"): k}) == []),
    )
    failed = [name for name, ok in cases if not ok]
    for name in failed:
        print(f"selftest: {name}: does not hold")
    print(f"{len(cases) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--objects")
    p.add_argument("--tools")
    p.add_argument("--record", default=RECORD)
    p.add_argument("--update", action="store_true")
    p.add_argument("--selftest", action="store_true")
    args = p.parse_args()
    return selftest() if args.selftest else check(args)


if __name__ == "__main__":
    sys.exit(main())
