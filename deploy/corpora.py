#!/usr/bin/env python3
"""The corpora of the fuzzing: a text file for each head, an input on each line.

  deploy/corpora.py unpack TEXT FOLDER    a file for each input, named by its hash, as libFuzzer reads them
  deploy/corpora.py pack FOLDER TEXT      the reverse; inputs are sorted, so that a change shows as lines

A byte that is not printable ASCII stands as \\n, \\r, \\t or \\xNN, a backslash as \\\\.
"""
import hashlib
import pathlib
import re
import sys

SHORT = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x5C: "\\\\"}
LONG = {text: byte for byte, text in SHORT.items()}


def escaped(data):
    return "".join(SHORT.get(b) or (chr(b) if 0x20 <= b < 0x7F else f"\\x{b:02x}") for b in data)


def unescaped(line):
    out = bytearray()
    for run in re.findall(r"\\x[0-9a-f]{2}|\\.|[^\\]+", line):
        if run.startswith("\\x"):
            out.append(int(run[2:], 16))
        elif run.startswith("\\"):
            out.append(LONG[run])
        else:
            out += run.encode("ascii")
    return bytes(out)


def unpack(text, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for line in pathlib.Path(text).read_text("ascii").split("\n")[:-1]:
        data = unescaped(line)
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def pack(folder, text):
    inputs = {path.read_bytes() for path in pathlib.Path(folder).iterdir() if path.is_file()}
    lines = sorted(escaped(data) for data in inputs)
    assert {unescaped(line) for line in lines} == inputs
    pathlib.Path(text).write_text("".join(line + "\n" for line in lines), "ascii")


if __name__ == "__main__":
    commands = {"unpack": unpack, "pack": pack}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2], sys.argv[3])
