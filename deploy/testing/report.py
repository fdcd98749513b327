"""What a run has to say at its end."""

import datetime
import os
import re

QUARANTINE_MAX = 10
ENTRY = re.compile(r"(?P<test>\S+) \| (?P<date>\d{4}-\d{2}-\d{2}) \| (?P<reason>\S.*)")


class Report:
    def __init__(self):
        self.passed = 0
        self.failures = []
        self.slow, self.flaky, self.quarantined, self.untidy = [], [], [], []
        # (stage, seconds, CPU seconds, waiting seconds)
        self.stages = []

    def fail(self, what, *details):
        """One failure, with lines that belong to it."""
        self.failures.append("\n    ".join([what, *details]))

    def count(self, is_good, what, *details):
        if is_good:
            self.passed += 1
        else:
            self.fail(what, *details)

    def finish(self):
        """Prints the last lines and returns the exit status. A run that counted nothing has failed."""
        if not self.passed and not self.failures:
            self.fail("nothing ran")
        if self.stages:
            print(f"{'stage':<24}{'seconds':>8}{'CPU':>8}{'waiting':>8}")
            for name, *figures in self.stages:
                print(f"{name:<24}" + "".join(f"{figure:8.0f}" for figure in figures))
        for title, entries in [
            ("Untidy (deploy/tidy mends most of it):", self.untidy),
            ("In quarantine (Tests/quarantine.txt):", self.quarantined),
            ("Late beside others, passed alone with three times the patience:", [f"slow: {text}" for text in self.slow]),
            ("Wrong beside others, passed alone:", [f"flaky: {text}" for text in self.flaky]),
            ("Failed:", self.failures),
        ]:
            if entries:
                print(title)
                for entry in entries:
                    print("  " + entry)
        print(f"untidy: {len(self.untidy)}")
        print(f"quarantined: {len(self.quarantined)}")
        print(f"slow: {len(self.slow)}")
        print(f"flaky: {len(self.flaky)}")
        print(f"{self.passed} passed, {len(self.failures)} failed", flush=True)
        return 1 if self.failures else 0


def quarantine(path, report):
    """The tests in quarantine, as `Suite/function`. A list that is too long or incomplete is a failure."""
    entries = {}
    if not os.path.exists(path):
        return entries
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    for line in lines:
        match = ENTRY.fullmatch(line)
        try:
            datetime.date.fromisoformat(match["date"])
        except (TypeError, ValueError):
            report.fail(f"{path}: no name, date and first failure (`Suite/function | 2026-01-31 | text`): {line}")
            continue
        entries[match["test"]] = match["reason"]
    if len(lines) > QUARANTINE_MAX:
        report.fail(f"{path}: {len(lines)} entries, and {QUARANTINE_MAX} at most")
    return entries
