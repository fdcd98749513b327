#!/usr/bin/env python3
"""Holds the tables of rules in the pages against the tests' sources.

    rules.py --fill     writes each table's column of tests anew
    rules.py --check    names each row whose tests differ, each rule without a test, and each test whose rule the table lacks

A test proves a rule if its display name begins with the rule's number. That it passes is for the run of the tests to say.
"""

import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Table:
    def __init__(self, page, row, folders, name):
        self.page = page
        self.path = os.path.join(ROOT, page)
        self.row = re.compile(row)
        self.folders = folders
        # The number in a test's display name.
        self.name = re.compile(name)

    def declared(self):
        """Suite/function of the tests by the number of their rule."""
        tests = {}
        paths = [path for folder in self.folders for path in glob.glob(os.path.join(ROOT, "Tests", folder, "**/*.swift"), recursive=True)]
        for path in sorted(paths, key=os.path.basename):
            with open(path, encoding="utf-8") as source:
                text = source.read()
            suites = [(match.start(), match[1]) for match in
                      re.finditer(r"^(?:@Suite.*)?\b(?:final class|struct|enum|actor) (\w+)", text, re.M)]
            for match in re.finditer(r'@Test\(\s*"((?:[^"\\]|\\.)*)"', text):
                number, function = self.name.match(match[1]), re.search(r"\bfunc (\w+)", text[match.end():])
                suite = [name for start, name in suites if start < match.start()]
                if number and suite and function:
                    name = f"{suite[-1]}/{function[1]}"
                    if name not in tests.setdefault(number[1], []):
                        tests[number[1]].append(name)
        return tests

    def lines(self):
        with open(self.path, encoding="utf-8") as page:
            return page.read().split("\n")

    def fill(self):
        tests, lines = self.declared(), self.lines()
        for index, line in enumerate(lines):
            match = self.row.match(line)
            if match:
                proved, listed = tests.get(match[1], []), re.findall(r"`([^`]+)`", match[3])
                # What is there keeps its place.
                names = [name for name in listed if name in proved] + [name for name in proved if name not in listed]
                cell = ", ".join(f"`{name}`" for name in names)
                lines[index] = f"| {match[1]} | {match[2]} | {cell} |"
        with open(self.path, "w", encoding="utf-8") as page:
            page.write("\n".join(lines))

    def faults(self):
        tests = self.declared()
        rows = [match for match in map(self.row.match, self.lines()) if match]
        for match in rows:
            listed, proved = re.findall(r"`([^`]+)`", match[3]), tests.pop(match[1], [])
            if not proved:
                yield f"{self.page}: rule {match[1]} has no test"
            for name in sorted(set(proved) - set(listed)):
                yield f"{self.page}: rule {match[1]} lacks {name}"
            for name in sorted(set(listed) - set(proved)):
                yield f"{self.page}: rule {match[1]} names {name}, which has not its number"
        for number, names in tests.items():
            yield f"{self.page}: no rule {number} ({', '.join(names)})"


TABLES = [
    Table("docs/reference/http-tests.md", r"^\| (\d+\.\d+|8) \| (.*\S) \| (.*?) ?\|$", ["System*Tests"], r"(\d+\.\d+|8) \S"),
    Table("docs/reference/refresh-tests.md", r"^\| (\d{1,2}) \| (.*\S) \| (.*?) ?\|$", ["LanyardSessionsTests", "SessionPathTests"],
          r"Rule (\d+): "),
]


def main():
    if sys.argv[1:] == ["--fill"]:
        for table in TABLES:
            table.fill()
    elif sys.argv[1:] == ["--check"]:
        faults = [fault for table in TABLES for fault in table.faults()]
        print("".join(fault + "\n" for fault in faults), end="")
        sys.exit(1 if faults else 0)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
