"""Swift Testing's event stream: which tests ran, how each ended, and whether a failure is wrong or late."""

import json
import re
import time

# Of one place in the source only so many failed expectations are shown: a loop may fail a thousand times.
ISSUES_PER_PLACE = 3
REASON_CHARACTERS = 400
# What `Patience` says of a wait that did not end, and Swift Testing of a test over its time limit.
LATE = re.compile(r"patience ran out|Time limit was exceeded")
# A program that ended by SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE or SIGSEGV, or said why it will.
CRASH = re.compile(r"\bsignal\((?:4|5|6|7|8|11)\)|Fatal error:|Program crashed|(?:Thread|Address)Sanitizer")


def place(test):
    """`Module.Suite/function()` of a test's id, which is Module.Suite/function()/File.swift:line:column."""
    return test.rsplit("/", 1)[0]


class Stream:
    """What the event stream (JSON lines) has said so far."""

    def __init__(self, path):
        self.path = path
        self.position = 0
        # By the test's id: its name, and when it began by this process's clock.
        self.names = {}
        self.running = {}
        self.finished, self.passed, self.failed, self.skipped = [], [], [], {}
        self.issues = {}
        self.ended = False

    def read(self):
        """Reads what is new. Returns the ids of the tests that have ended since the last call."""
        count = len(self.finished)
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.position)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self.position += len(line)
                    self.handle(json.loads(line))
        except FileNotFoundError:
            pass
        return self.finished[count:]

    def handle(self, record):
        payload = record.get("payload", {})
        if record.get("kind") == "test":
            if payload.get("kind") == "function":
                self.names[payload["id"]] = payload.get("displayName") or payload["name"]
            return
        test, kind = payload.get("testID"), payload.get("kind")
        texts = [message["text"] for message in payload.get("messages", [])]
        symbols = [message["symbol"] for message in payload.get("messages", [])]
        if kind == "runEnded":
            self.ended = True
        elif kind == "issueRecorded" and "fail" in symbols:
            where = payload.get("issue", {}).get("sourceLocation") or {}
            source = f"{where.get('fileID', '')}:{where.get('line', '')}: " if where else ""
            self.issues.setdefault(test, []).append((source, "\n      ".join(texts)))
        elif test in self.names:
            if kind == "testStarted":
                self.running[test] = time.monotonic()
            elif kind == "testSkipped":
                self.running.pop(test, None)
                self.skipped[test] = texts[0] if texts else ""
            elif kind == "testEnded":
                self.running.pop(test, None)
                self.finished.append(test)
                (self.failed if "fail" in symbols else self.passed).append(test)

    @property
    def remaining(self):
        """Tests that the run has not come to."""
        begun = {*self.passed, *self.failed, *self.skipped, *self.running}
        return [test for test in self.names if test not in begun]

    def shown_issues(self):
        """What failed and where, the repetitions of one place counted instead of shown."""
        places = {}
        for where, text in (issue for issues in self.issues.values() for issue in issues):
            places.setdefault(where, []).append(text)
        for where, texts in places.items():
            for text in texts[:ISSUES_PER_PLACE]:
                yield where + text
            if len(texts) > ISSUES_PER_PLACE:
                yield f"{where}{len(texts) - ISSUES_PER_PLACE} more"

    def reason(self, test):
        """The first thing that failed in a test, short."""
        where, text = next(iter(self.issues.get(test, [])), ("", ""))
        return " ".join((where + text).split())[:REASON_CHARACTERS]

    def is_late(self, test):
        """Whether nothing failed but waits that took too long."""
        issues = self.issues.get(test, [])
        return bool(issues) and all(LATE.search(text) for _, text in issues)

    def has_crash(self, test):
        """Whether a program that the test started crashed: no second run takes that back."""
        return any(CRASH.search(text) for _, text in self.issues.get(test, []))
