#!/usr/bin/env python3
"""Runs a test program of Swift Testing under a time limit and counts what its event stream says.

    testrun.py --name NAME --limit SECONDS --folder FOLDER [--reports GLOB] -- COMMAND...

The console output goes to FOLDER/NAME.log, one line with the counts to FOLDER/tally, failures to the terminal.
Counted as failed: each failed test, each test that still ran when the time was up, a runner that crashed or ended
badly with no failed test, a run without a test, and a sanitizer that left a report.
"""

import argparse
import glob
import json
import os
import signal
import subprocess
import sys
import time

PROGRESS_SECONDS = 60
EXCERPT_LINES = 40


class Stream:
    """What Swift Testing's event stream (JSON lines) has told so far."""

    def __init__(self, path):
        self.path = path
        self.position = 0
        self.names = {}
        self.running = {}
        self.passed, self.failed, self.skipped = [], [], []
        self.issues = []
        self.ended = False

    def read(self):
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.position)
                for line in stream:
                    if not line.endswith(b"\n"):
                        break
                    self.position += len(line)
                    self.take(json.loads(line))
        except FileNotFoundError:
            pass

    def take(self, record):
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
        elif kind == "issueRecorded" and not payload.get("issue", {}).get("isKnown"):
            where = payload.get("issue", {}).get("sourceLocation") or {}
            place = f"{where.get('fileID', '')}:{where.get('line', '')}: " if where else ""
            self.issues.append(place + "\n      ".join(texts))
        elif test in self.names:
            if kind == "testStarted":
                self.running[test] = time.monotonic()
            elif kind == "testSkipped":
                self.running.pop(test, None)
                self.skipped.append((self.names[test], texts[0] if texts else ""))
            elif kind == "testEnded":
                self.running.pop(test, None)
                (self.failed if "fail" in symbols else self.passed).append(self.names[test])


def session_members(session):
    """Processes of a session: whatever the tests started and left behind, unless it made a session of its own."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as stat:
                    fields = stat.read().rsplit(b")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != b"Z":
                yield int(entry)


def end_session(session):
    for sign, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        until = time.monotonic() + patience
        for process in session_members(session):
            try:
                os.kill(process, sign)
            except ProcessLookupError:
                pass
        while time.monotonic() < until and any(session_members(session)):
            time.sleep(0.1)


def run(command, limit, stream, log):
    """Returns the exit status, or None if the time was up."""
    started = shown = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    status = None
    try:
        while time.monotonic() - started < limit:
            try:
                status = process.wait(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                stream.read()
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                oldest = sorted(stream.running, key=stream.running.get)[:3]
                names = "; ".join(stream.names[test] for test in oldest)
                print(f"    … {int(shown - started)} s: {len(stream.passed)} passed, "
                      f"{len(stream.failed)} failed, running: {names or 'none'}", flush=True)
    finally:
        stream.read()
        end_session(process.pid)
        process.wait()
    return status


def excerpt(path):
    with open(path, "rb") as log:
        lines = log.read().decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if not line.startswith(("◇ ", "✔ ", "↳ "))]
    crash = [index for index, line in enumerate(kept) if "Fatal error" in line or "Program crashed" in line]
    first = crash[0] if crash else max(len(kept) - EXCERPT_LINES, 0)
    return kept[first:first + EXCERPT_LINES]


def main():
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--reports")
    options = parser.parse_args(sys.argv[1:split])
    plain = options.name.replace(":", "-")
    log = os.path.join(options.folder, plain + ".log")
    events = os.path.join(options.folder, plain + ".jsonl")
    for old in [events] + (glob.glob(options.reports) if options.reports else []):
        if os.path.exists(old):
            os.remove(old)

    stream = Stream(events)
    os.environ["NO_COLOR"] = "1"
    command = sys.argv[split + 1:] + ["--event-stream-output-path", events, "--event-stream-version", "0"]
    started = time.monotonic()
    status = run(command, options.limit, stream, log)
    seconds = time.monotonic() - started

    # A sanitized run is made for the sanitizer's reports: it is many times slower, and its timed tests then fail for that.
    # They are named, and counted where they run at their own speed: in the fast tier.
    late = [f"✘ {name}" for name in stream.failed] if options.reports else []
    faults = [] if options.reports else [f"✘ {name}" for name in stream.failed]
    if status is None:
        faults += [f"✘ {stream.names[test]}: still running when the {int(options.limit)} s were up"
                   for test in stream.running] or [f"✘ nothing ended within {int(options.limit)} s"]
    elif not stream.ended or (status != 0 and not stream.failed):
        faults.append(f"✘ the runner ended with status {status} on its way; tests then running: "
                      + ("; ".join(stream.names[test] for test in stream.running) or "none"))
    elif not (stream.passed or stream.failed or stream.skipped):
        faults.append("✘ no test ran")
    reports = sorted(glob.glob(options.reports)) if options.reports else []
    faults += [f"✘ a sanitizer reported: {report}" for report in reports]

    left = len(stream.names) - len(stream.passed) - len(stream.failed) - len(stream.skipped) - len(stream.running)
    print(f"    {options.name}: {len(stream.passed)} passed, {len(faults)} failed, {len(stream.skipped)} skipped"
          + (f", {left} did not run" if left > 0 else "") + f" ({seconds:.0f} s)")
    for name, reason in stream.skipped:
        print(f"    ➜ skipped: {reason or name}")
    for name in late:
        print(f"    not counted under a sanitizer: {name}")
    for fault in faults:
        print("    " + fault)
    for issue in stream.issues:
        print("      " + issue)
    if status is None or not stream.ended:
        print(f"    From {log}:")
        for line in excerpt(log):
            print("      " + line)
    for report in reports:
        with open(report, "r", errors="replace") as text:
            for line in text.read().splitlines()[:EXCERPT_LINES]:
                print("      " + line)
    with open(os.path.join(options.folder, "tally"), "a") as tally:
        tally.write(f"{len(stream.passed)} {len(faults)}\n")
        for fault in faults:
            tally.write(f"# {options.name}: {fault}\n")


main()
