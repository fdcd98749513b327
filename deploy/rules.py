#!/usr/bin/env python3
"""Holds the table of docs/http.md against the tests.

    rules.py --fill              writes the table's column of tests anew, from the tests' sources
    rules.py --check EVENTS...   compares the table with the tests that passed in the runs whose event streams these are

A test of the built binary proves a rule if its display name begins with the rule's number. --check names on one line each rule whose test did
not pass, each test of a rule that the table does not name, and each rule without a test; it fails if there is one.
"""

import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "docs/http.md")
SOURCES = os.path.join(ROOT, "Tests/SystemTests/**/*.swift")

# What comes with later issues, and by which name the table may say so.
LATER = {}
# Wholly so: the rule has no test yet.
WITHOUT_TEST = set()

ROW = re.compile(r"^\| (\d+(?:\.\d+)?) \| (.*\S) \| (.*?) ?\|$")
NUMBER = re.compile(r"(\d+\.\d+|8) \S")


def rows():
    with open(TABLE, encoding="utf-8") as page:
        for line in page:
            match = ROW.match(line.rstrip("\n"))
            if match:
                yield match.groups()


def declared():
    """Tests whose display names begin with a rule's number, by number: Suite/function."""
    tests = {}
    for path in sorted(glob.glob(SOURCES, recursive=True)):
        with open(path, encoding="utf-8") as source:
            text = source.read()
        suite = re.search(r"^(?:@Suite.*)?\b(?:final class|struct|enum|actor) (\w+)", text, re.M)
        for match in re.finditer(r'@Test\(\s*"((?:[^"\\]|\\.)*)"', text):
            number, function = NUMBER.match(match[1]), re.search(r"\bfunc (\w+)", text[match.end():])
            if number and suite and function:
                name = f"{suite[1]}/{function[1]}"
                if name not in tests.setdefault(number[1], []):
                    tests[number[1]].append(name)
    return tests


def fill():
    tests = declared()
    with open(TABLE, encoding="utf-8") as page:
        lines = page.read().split("\n")
    for index, line in enumerate(lines):
        match = ROW.match(line)
        if match:
            number, words = match[1], match[2]
            cell = [f"`{name}`" for name in tests.pop(number, [])]
            if number in LATER:
                cell.append(LATER[number])
            lines[index] = f"| {number} | {words} | {', '.join(cell)} |"
    with open(TABLE, "w", encoding="utf-8") as page:
        page.write("\n".join(lines))
    return [f"{number}: the table has no such rule ({', '.join(names)})" for number, names in tests.items()]


def passed(streams):
    """Suite/function of every test that ended without an issue, by the number that its display name begins with."""
    tests = {}
    for path in streams:
        names, failed = {}, set()
        with open(path, "rb") as stream:
            for line in stream:
                record = json.loads(line)
                payload = record.get("payload", {})
                if record.get("kind") == "test" and payload.get("kind") == "function":
                    names[payload["id"]] = payload.get("displayName") or payload["name"]
                test, kind = payload.get("testID"), payload.get("kind")
                if kind == "testEnded" and test in names:
                    symbols = [message["symbol"] for message in payload.get("messages", [])]
                    number = NUMBER.match(names[test])
                    match = re.match(r"SystemTests\.(?:.*/)?(\w+)/(\w+)\(", test)
                    if number and match and "fail" not in symbols:
                        tests.setdefault(number[1], set()).add(f"{match[1]}/{match[2]}")
    return tests


def check(streams):
    proved, known, faults = passed(streams), declared(), []
    for number, _, cell in rows():
        names = re.findall(r"`([^`]+)`", cell)
        rest = re.sub(r"`[^`]+`|, ", "", cell)
        if rest and rest != LATER.get(number):
            faults.append(f"{number}: the table may not say \"{rest}\"")
        if not names and number not in WITHOUT_TEST:
            faults.append(f"{number}: no test")
        for name in names:
            if name not in proved.get(number, ()):
                faults.append(f"{number}: {name} did not pass in this run")
        for name in known.pop(number, []):
            if name not in names:
                faults.append(f"{number}: {name} is not in the table")
    return faults + [f"{number}: not in the table" for number in known]


def main():
    if sys.argv[1:2] == ["--fill"]:
        faults = fill()
    elif sys.argv[1:2] == ["--check"] and len(sys.argv) > 2:
        faults = check(sys.argv[2:])
    else:
        sys.exit(__doc__)
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


main()
