#!/usr/bin/env python3
"""Runs a test program of Swift Testing under a time limit and counts what its event stream says.

    testrun.py --name NAME --limit SECONDS [--standstill SECONDS] --folder FOLDER [--reports GLOB] [--again] -- COMMAND...

The console output goes to FOLDER/NAME.log, a line with the counts and one for each failure to FOLDER/tally, failures to the
terminal.
Counted as failed: each failed test, each test that still ran when the time was up, or when no test had begun or ended
for a long while, a runner that crashed or ended badly with no failed test, an expectation that failed outside of any test
that failed, a run without a test, a sanitizer that left a report, and temporary files that a whole run left behind.

With --reports the program is sanitized, hence many times slower, and so are its neighbours: a test that fails then runs once
more, alone and not beside others (FOLDER/NAME-again.log), and is counted if it fails again. With --again the same holds for any
program: a machine that nobody watches, such as CI's, may be busy with other things. One that stood still is counted at once:
that is no slowness. So is one that ran alone and took longer than the time that is left. A test that failed and then passed
alone is flaky: the tally names it with what failed first, in a line that begins with `~`.

The tests make their temporary folders in one folder, which LANYARD_TEST_FOLDER and TMPDIR name. It is removed with the run,
also when that is ended from outside.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRESS_SECONDS = 60
EXCERPT_LINES = 40
# Of one place in the source only so many failed expectations are shown: a loop may fail a thousand times.
ISSUES_PER_PLACE = 3
REASON_CHARACTERS = 400


class Stream:
    """What Swift Testing's event stream (JSON lines) has told so far."""

    def __init__(self, path):
        self.path = path
        self.position = 0
        self.names = {}
        self.running = {}
        self.passed, self.failed, self.skipped = [], [], []
        self.passed_ids, self.failed_ids = [], []
        self.seconds = {}
        self.issues = {}
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
        elif kind == "issueRecorded" and "fail" in symbols:
            where = payload.get("issue", {}).get("sourceLocation") or {}
            place = f"{where.get('fileID', '')}:{where.get('line', '')}: " if where else ""
            self.issues.setdefault(test, []).append((place, "\n      ".join(texts)))
        elif test in self.names:
            if kind == "testStarted":
                self.running[test] = time.monotonic()
            elif kind == "testSkipped":
                self.running.pop(test, None)
                self.skipped.append((self.names[test], texts[0] if texts else ""))
            elif kind == "testEnded":
                self.seconds[test] = time.monotonic() - self.running.pop(test, time.monotonic())
                (self.failed_ids if "fail" in symbols else self.passed_ids).append(test)
                (self.failed if "fail" in symbols else self.passed).append(self.names[test])

    def shown_issues(self):
        """What failed and where, the repetitions of one place counted instead of shown."""
        places = {}
        for place, text in (issue for issues in self.issues.values() for issue in issues):
            places.setdefault(place, []).append(text)
        for place, texts in places.items():
            for text in texts[:ISSUES_PER_PLACE]:
                yield place + text
            if len(texts) > ISSUES_PER_PLACE:
                yield f"{place}{len(texts) - ISSUES_PER_PLACE} more"

    def reason(self, test):
        """The first thing that failed in a test, short."""
        place, text = next(iter(self.issues.get(test, [])), ("", ""))
        return " ".join((place + text).split())[:REASON_CHARACTERS]


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


def describe_threads(session, path):
    """Writes what each thread of the session's processes waits for: of one that stands still nothing else tells the cause.

    Returns how many threads of the test program itself wait for what, for a reader who has the output only.
    """
    waits = collections.Counter()

    def text(file):
        try:
            with open(file) as source:
                return source.read().strip()
        except OSError as error:
            return f"({error.strerror})"

    with open(path, "w") as output:
        for process in session_members(session):
            print(f"{process}: {text(f'/proc/{process}/cmdline').replace(chr(0), ' ')[:200]}", file=output)
            for thread in sorted(glob.glob(f"/proc/{process}/task/*")):
                wait = text(thread + "/wchan")
                print(f"  {os.path.basename(thread)} {text(thread + '/comm')}: {wait}, "
                      f"system call {text(thread + '/syscall')}", file=output)
                if process == session:
                    waits[wait if wait != "0" else "no wait"] += 1
        output.flush()
        if shutil.which("gdb"):
            gdb = ["gdb", "-p", str(session), "-batch", "-ex", "thread apply all bt 30"]
            try:
                subprocess.run(gdb, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, timeout=120)
            except subprocess.TimeoutExpired:
                print("gdb did not end", file=output)
    print(f"    it stood still or its time was up; what its threads waited for: {path}", flush=True)
    return ", ".join(f"{count} {wait}" for wait, count in waits.most_common(8))


def run(command, limit, standstill, stream, log):
    """Returns the exit status, or None if the time was up or nothing moved, and then what the threads waited for."""
    started = shown = moved = time.monotonic()
    position = 0
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    status, waits = None, ""
    try:
        while time.monotonic() - started < limit and time.monotonic() - moved < standstill:
            try:
                status = process.wait(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                stream.read()
            if stream.position != position:
                position, moved = stream.position, time.monotonic()
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                oldest = sorted(stream.running, key=stream.running.get)[:3]
                names = "; ".join(stream.names[test] for test in oldest)
                print(f"    … {int(shown - started)} s: {len(stream.passed)} passed, "
                      f"{len(stream.failed)} failed, running: {names or 'none'}", flush=True)
        if status is None:
            waits = describe_threads(process.pid, log + ".threads")
    finally:
        stream.read()
        end_session(process.pid)
        process.wait()
    return status, waits


def make_folder():
    """Where a run has its temporary files. The name is short, since a socket's path has 107 bytes at most; other accounts, as which
    some tests run programs, may go through."""
    folder = tempfile.mkdtemp(prefix="lt-", dir="/tmp")
    os.chmod(folder, 0o711)
    return folder


def contents(folder):
    """The names in a folder, each folder with what it holds."""
    names = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        inner = ""
        if entry.is_dir(follow_symlinks=False):
            try:
                inner = " (" + ", ".join(sorted(os.listdir(entry.path))) + ")"
            except OSError as error:
                inner = f" ({error.strerror})"
        names.append(entry.name + inner)
    return names


def remove_folder(folder):
    """Removes it, whatever the modes of the folders in it. Returns what stands against that."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                try:
                    os.chmod(path, 0o700)
                except OSError:
                    pass
    shutil.rmtree(folder, ignore_errors=True)
    return [f"✘ cannot be removed: {folder}: {'; '.join(contents(folder))}"] if os.path.exists(folder) else []


def excerpt(path):
    with open(path, "rb") as log:
        lines = log.read().decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if not line.startswith(("◇ ", "✔ ", "↳ "))]
    crash = [index for index, line in enumerate(kept) if "Fatal error" in line or "Program crashed" in line]
    first = crash[0] if crash else max(len(kept) - EXCERPT_LINES, 0)
    return kept[first:first + EXCERPT_LINES]


def selecting(command, tests):
    """The command for just these tests, without filters of its own, since one filter is enough to select a test.

    A test's id is Module.Suite/function()/File.swift:line:column.
    """
    kept = [word for index, word in enumerate(command)
            if word != "--filter" and (index == 0 or command[index - 1] != "--filter")]
    for test in tests:
        place = test.rsplit("/", 1)[0]
        kept += ["--filter", re.sub(r"([^\w/])", r"\\\1", place) + "/"]
    return kept


def judge(stream, status, seconds):
    """What a run of so many seconds has to say against itself, beside its failed tests."""
    if status is None:
        return [f"✘ {stream.names[test]}: still running after {int(seconds)} s"
                for test in stream.running] or [f"✘ nothing ended within {int(seconds)} s"]
    strays = [test for test in stream.issues if test not in stream.failed_ids and test not in stream.running]
    if strays:
        return [f"✘ in no test that failed ({test}): {stream.reason(test)}" for test in strays]
    if not stream.ended or status not in (0, 1) or (status != 0 and not stream.failed):
        return [f"✘ the runner ended with status {status} on its way; tests then running: "
                + ("; ".join(stream.names[test] for test in stream.running) or "none")]
    if not (stream.passed or stream.failed or stream.skipped):
        return ["✘ no test ran"]
    return []


class Run:
    """One run of the test program, from its start to what is to be said of it."""

    def __init__(self, command, limit, standstill, folder, name):
        self.log = os.path.join(folder, name + ".log")
        events = os.path.join(folder, name + ".jsonl")
        if os.path.exists(events):
            os.remove(events)
        self.stream = Stream(events)
        command = command + ["--event-stream-output-path", events, "--event-stream-version", "0"]
        started = time.monotonic()
        temporary = make_folder()
        os.environ["LANYARD_TEST_FOLDER"] = os.environ["TMPDIR"] = temporary
        left = []
        try:
            status, waits = run(command, limit, standstill, self.stream, self.log)
            left = contents(temporary)
        finally:
            unremoved = remove_folder(temporary)
        self.faults = judge(self.stream, status, time.monotonic() - started) + unremoved
        if status is None:
            self.faults.insert(0, f"✘ it stood still or its time was up; its threads: {waits}")
        self.is_whole = status is not None and self.stream.ended
        # Whoever is killed cannot clear up.
        if self.is_whole and left:
            self.faults.append("✘ left behind in the temporary folder: " + "; ".join(left))
        # It came to every test, though some may have stood still.
        self.was_seen_through = self.is_whole or (status is None and self.untold() == 0)

    def untold(self):
        """How many tests it never came to."""
        stream = self.stream
        return len(stream.names) - len(stream.passed) - len(stream.failed) - len(stream.skipped) - len(stream.running)


def end_by_signal(number, _):
    for sign in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(sign, signal.SIG_IGN)
    sys.exit(128 + number)


def main():
    # Ended from outside, it still ends what it started, and clears up.
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, end_by_signal)
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--limit", type=float, required=True)
    # No single case of a test takes so long, even sanitized and beside others.
    parser.add_argument("--standstill", type=float, default=300)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--reports")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args(sys.argv[1:split])
    command = sys.argv[split + 1:]
    plain = options.name.replace(":", "-")
    for old in glob.glob(options.reports) if options.reports else []:
        os.remove(old)

    os.environ["NO_COLOR"] = "1"
    started = time.monotonic()
    first = Run(command, options.limit, options.standstill, options.folder, plain)
    runs, stream = [first], first.stream
    failed, passed, forgiven = stream.failed_ids, list(stream.passed), []
    left = options.limit - (time.monotonic() - started)
    # A test that had no neighbours needs as long again; what others would take without theirs is not known.
    need = sum(stream.seconds.get(test, 0) for test in failed) if "--no-parallel" in command else 0
    wanted = (options.reports or options.again) and first.was_seen_through and bool(failed)
    if wanted and left <= need:
        print(f"    not run again, for want of time: it may take {need:.0f} s, and {max(left, 0):.0f} s are left")
    elif wanted:
        again = Run([*selecting(command, stream.failed_ids), "--no-parallel"], left, options.standstill, options.folder,
                    plain + "-again")
        runs.append(again)
        redeemed = set(again.stream.passed_ids)
        forgiven = [test for test in stream.failed_ids if test in redeemed]
        failed = [test for test in stream.failed_ids if test not in redeemed]
        passed += [stream.names[test] for test in forgiven]
    seconds = time.monotonic() - started

    faults = [f"✘ {stream.names[test]}: {runs[-1].stream.reason(test) or stream.reason(test)}" for test in failed]
    faults += [fault for each in runs for fault in each.faults]
    reports = sorted(glob.glob(options.reports)) if options.reports else []
    faults += [f"✘ a sanitizer reported: {report}" for report in reports]

    left = first.untold()
    print(f"    {options.name}: {len(passed)} passed, {len(faults)} failed, {len(stream.skipped)} skipped"
          + (f", {left} did not run" if left > 0 else "") + f" ({seconds:.0f} s)")
    for name, reason in stream.skipped:
        print(f"    ➜ skipped: {reason or name}")
    for test in forgiven:
        print(f"    failed beside others, passed alone: {stream.names[test]}")
    for fault in faults:
        print("    " + fault)
    for each in runs:
        for issue in each.stream.shown_issues():
            print("      " + issue)
        if not each.is_whole:
            print(f"    From {each.log}:")
            for line in excerpt(each.log):
                print("      " + line)
    for report in reports:
        with open(report, "r", errors="replace") as text:
            for line in text.read().splitlines()[:EXCERPT_LINES]:
                print("      " + line)
    with open(os.path.join(options.folder, "tally"), "a") as tally:
        tally.write(f"{len(passed)} {len(faults)}\n")
        for fault in faults:
            tally.write(f"# {options.name}: {fault}\n")
        for test in forgiven:
            tally.write(f"~ {options.name}: {stream.names[test]}: {stream.reason(test)}\n")


main()
