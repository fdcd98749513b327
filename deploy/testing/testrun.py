#!/usr/bin/env python3
"""Runs a test program of Swift Testing and judges what its event stream says.

    testrun.py --name NAME --folder FOLDER [--standstill SECONDS] [--reports GLOB] [--quarantine FILE] [--measure] -- COMMAND...

There is no time limit. A run is red if it stands still: for 300 s no test begins, ends or reports, and the processes use no CPU. These
are seconds of granted time, as `Patience` counts them, and as many more as its factors give. The console output goes to
FOLDER/NAME.log, the event stream to FOLDER/NAME.jsonl.

A test that failed runs once more, alone, with three times the patience (LANYARD_TEST_PATIENCE). If it then passes, it is slow when
all that failed was a wait that took too long, and flaky otherwise; neither is a failure. Failures at once: a test that failed twice or
whose program crashed, a report of a sanitizer, a crash or standstill of the test program, a failure outside of any test, a run without
a test, and files or processes that a run left behind. After a crash the tests that had not begun run in a further process.

The tests make their temporary folders in one folder, which LANYARD_TEST_FOLDER and TMPDIR name. It is removed with the run, also when
that is ended from outside; after SIGKILL, by the next run. --measure runs the tests one after another and writes their CPU and waiting
seconds to FOLDER/NAME.tsv.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from events import Stream, place
from processes import STANDSTILL_SECONDS, Standstill, Usage, describe_threads, die_with_parent, end_session
from report import Report, quarantine

PATIENCE = 3
# As in Tests/TestSupport.
SANITIZER_FACTOR = 4
# How often the tests that had not begun run in a further process.
ROUNDS_MAX = 3
PROGRESS_SECONDS = 60
POLL_SECONDS, MEASURE_POLL_SECONDS = 0.5, 0.1
# Processes that end with the test program need a moment.
EXIT_GRACE_SECONDS = 5
EXCERPT_LINES = 40


class Run:
    """One process of the test program, from its start to what is to be said of it."""

    def __init__(self, command, folder, name, usage, standstill, measures=False):
        self.log = os.path.join(folder, name + ".log")
        self.usage, self.standstill, self.measures = usage, standstill, measures
        # (test, CPU seconds, waiting seconds); true only of tests that run one after another.
        self.figures, self.before = [], usage.sample()
        events = os.path.join(folder, name + ".jsonl")
        if os.path.exists(events):
            os.remove(events)
        self.stream = Stream(events)
        command = command + ["--event-stream-output-path", events, "--event-stream-version", "0"]
        temporary = make_folder(folder)
        os.environ["LANYARD_TEST_FOLDER"] = os.environ["TMPDIR"] = temporary
        self.waits, left, processes = "", [], []
        try:
            self.status, processes = self.watch(command)
            left = contents(temporary)
        finally:
            unremoved = remove_folder(temporary)
        self.is_whole = self.status is not None and self.stream.ended
        self.faults = self.judge() + unremoved
        # What is killed cannot clear up.
        if self.is_whole and left:
            self.faults.append("left behind in the temporary folder: " + "; ".join(left))
        if self.is_whole and processes:
            self.faults.append("left running: " + "; ".join(processes))

    def watch(self, command):
        """Returns the exit status, or None after a standstill, and the commands of processes that were left."""
        started = shown = time.monotonic()
        status, left = None, []
        standstill = Standstill(self.usage, self.standstill)
        with open(self.log, "wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=die_with_parent)
        try:
            while not standstill.has_come(self.stream.position):
                try:
                    status = process.wait(timeout=MEASURE_POLL_SECONDS if self.measures else POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    self.read()
                if time.monotonic() - shown > PROGRESS_SECONDS:
                    shown = time.monotonic()
                    self.show_progress(int(shown - started))
            if status is None:
                path = self.log + ".threads"
                self.waits = describe_threads(process.pid, path)
                print(f"    it stood still; what its threads waited for: {path}", flush=True)
        finally:
            self.read()
            left = end_session(process.pid, 0 if status is None else EXIT_GRACE_SECONDS)
            process.wait()
        return status, left

    def read(self):
        """Reads the stream, and notes what the tests that have ended since used."""
        now, ended = self.usage.sample(), self.stream.read()
        for test in ended:
            self.figures.append((test, *((later - former) / len(ended) for later, former in zip(now, self.before))))
        if ended:
            self.before = now

    def show_progress(self, seconds):
        stream = self.stream
        oldest = sorted(stream.running, key=stream.running.get)[:3]
        names = "; ".join(stream.names[test] for test in oldest)
        print(f"    … {seconds} s: {len(stream.passed)} passed, {len(stream.failed)} failed, "
              f"running: {names or 'none'}", flush=True)

    def judge(self):
        """What is wrong with the run as a whole, beside its failed tests."""
        stream = self.stream
        running = "; ".join(stream.names[test] for test in stream.running) or "none"
        if self.status is None:
            return [f"it stood still; running: {running}; its threads: {self.waits}"]
        if not stream.ended or self.status not in (0, 1):
            return [f"the test program crashed or ended early (status {self.status}); running: {running}"]
        strays = [test for test in stream.issues if test not in stream.failed]
        if strays:
            return [f"in no test that failed ({test}): {stream.reason(test)}" for test in strays]
        if self.status != 0 and not stream.failed:
            return [f"status {self.status}, and no test failed"]
        if not (stream.passed or stream.failed or stream.skipped):
            return ["no test ran"]
        return []

    def show(self):
        for issue in self.stream.shown_issues():
            print("      " + issue)
        if not self.is_whole:
            print(f"    From {self.log}:")
            for line in excerpt(self.log):
                print("      " + line)


def make_folder(logs):
    """Where a run has its temporary files. The name is short, because a socket's path has 107 bytes at most; other accounts, as which
    some tests run programs, may traverse it. Removes the folder of a run that was killed."""
    note = os.path.join(logs, "temporary")
    if os.path.exists(note):
        with open(note, encoding="utf-8") as file:
            former = file.read()
        if re.fullmatch(r"/tmp/lt-\w+", former):
            remove_folder(former)
    folder = tempfile.mkdtemp(prefix="lt-", dir="/tmp")
    os.chmod(folder, 0o711)
    with open(note, "w", encoding="utf-8") as file:
        file.write(folder)
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
    """Removes it, whatever the modes of the folders in it. Returns what prevents that."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                try:
                    os.chmod(path, 0o700)
                except OSError:
                    pass
    shutil.rmtree(folder, ignore_errors=True)
    return [f"cannot be removed: {folder}: {'; '.join(contents(folder))}"] if os.path.exists(folder) else []


def excerpt(path):
    with open(path, "rb") as log:
        lines = log.read().decode("utf-8", "replace").splitlines()
    kept = [line for line in lines if not line.startswith(("◇ ", "✔ ", "↳ "))]
    crash = [index for index, line in enumerate(kept) if "Fatal error" in line or "Program crashed" in line]
    first = crash[0] if crash else max(len(kept) - EXCERPT_LINES, 0)
    return kept[first:first + EXCERPT_LINES]


def selecting(command, tests, known=()):
    """The command for just these tests, in place of its own filters: one filter is enough to select a test. Suites of which all known
    tests are wanted have one filter together, because each filter is compared with each test."""
    kept = [word for index, word in enumerate(command)
            if word != "--filter" and (index == 0 or command[index - 1] != "--filter")]
    wanted, suites = set(tests), {}
    for test in known or tests:
        suites.setdefault(place(test).rsplit("/", 1)[0], []).append(test)
    for suite, members in suites.items():
        chosen = [suite] if known and wanted.issuperset(members) else [place(test) for test in members if test in wanted]
        for path in chosen:
            kept += ["--filter", "^" + re.sub(r"([^\w/])", r"\\\1", path) + "/"]
    return kept


def is_quarantined(test, entries):
    """Module.Suite/function() is the entry Suite/function."""
    return re.sub(r"\(.*\)$", "", place(test)).split(".", 1)[-1] in entries


def run_tests(report, usage, name, command, folder, standstill=STANDSTILL_SECONDS, reports=None, entries=(), measures=False):
    """Runs the tests, the failed ones twice, and adds the result to the report."""
    plain = name.replace(":", "-")
    for old in glob.glob(reports) if reports else []:
        os.remove(old)
    os.environ["NO_COLOR"] = "1"
    os.environ.pop("LANYARD_TEST_PATIENCE", None)
    standstill *= SANITIZER_FACTOR if reports else 1
    started = time.monotonic()
    runs = [Run(command + (["--no-parallel"] if measures else []), folder, plain, usage, standstill, measures)]
    names = runs[0].stream.names
    while not runs[-1].is_whole and runs[-1].stream.remaining and len(runs) <= ROUNDS_MAX:
        rest = runs[-1].stream.remaining
        print(f"    {len(rest)} tests had not begun: they run in a further process", flush=True)
        runs.append(Run(selecting(command, rest, names), folder, f"{plain}-rest{len(runs)}", usage, standstill))
    streams = [run.stream for run in runs]
    passed = {test for stream in streams for test in stream.passed}
    failed = {test: stream for stream in streams for test in stream.failed}
    quarantined = [test for test in names if is_quarantined(test, entries)]
    for test in quarantined:
        passed.discard(test)
        stream = failed.pop(test, None)
        report.quarantined.append(f"{name}: {names[test]}: " + (f"failed: {stream.reason(test)}" if stream else "passed"))
    again = {test for test, stream in failed.items() if not stream.has_crash(test)}
    if again:
        print(f"    {len(again)} failed: once more, alone", flush=True)
        os.environ["LANYARD_TEST_PATIENCE"] = str(PATIENCE)
        second = Run([*selecting(command, again), "--no-parallel"], folder, plain + "-again", usage, standstill * PATIENCE)
        os.environ.pop("LANYARD_TEST_PATIENCE")
        runs.append(second)
        for test in again.intersection(second.stream.passed):
            first = failed.pop(test)
            passed.add(test)
            (report.slow if first.is_late(test) else report.flaky).append(f"{name}: {names[test]}: {first.reason(test)}")
        for test in again.intersection(second.stream.failed):
            failed[test] = second.stream
    faults = [f"{names[test]}: {stream.reason(test)}" for test, stream in failed.items()]
    faults += [fault for run in runs for fault in run.faults]
    found = sorted(glob.glob(reports)) if reports else []
    faults += [f"a sanitizer reported: {path}" for path in found]

    skipped = {test: reason for stream in streams for test, reason in stream.skipped.items()}
    remaining = len(streams[-1].remaining)
    print(f"    {name}: {len(passed)} passed, {len(faults)} failed, {len(skipped)} skipped"
          + (f", {remaining} did not run" if remaining else "") + f" ({time.monotonic() - started:.0f} s)")
    for test, reason in skipped.items():
        print(f"    ➜ skipped: {reason or names[test]}")
    for fault in faults:
        print("    ✘ " + fault)
    for run in runs:
        run.show()
    for path in found:
        with open(path, "r", errors="replace") as text:
            for line in text.read().splitlines()[:EXCERPT_LINES]:
                print("      " + line)
    if measures:
        write_figures(os.path.join(folder, plain + ".tsv"), runs[0])
    report.passed += len(passed)
    for fault in faults:
        report.fail(f"{name}: {fault}")


def write_figures(path, run):
    with open(path, "w", encoding="utf-8") as file:
        file.write("CPU\twaiting\ttest\n")
        for test, cpu, waiting in sorted(run.figures, key=lambda figure: -figure[1] - figure[2]):
            file.write(f"{cpu:.2f}\t{waiting:.2f}\t{place(test)}\n")
    print(f"    CPU {sum(figure[1] for figure in run.figures):.0f} s, waiting {sum(figure[2] for figure in run.figures):.0f} s, "
          f"each test: {path}")


def end_by_signal(number, _):
    for sign in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(sign, signal.SIG_IGN)
    sys.exit(128 + number)


def handle_signals():
    """Ended from outside, the runner still ends what it started, and clears up."""
    for sign in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(sign, end_by_signal)


def main():
    handle_signals()
    split = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--standstill", type=float, default=STANDSTILL_SECONDS)
    parser.add_argument("--reports")
    parser.add_argument("--quarantine")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args(sys.argv[1:split])
    report = Report()
    entries = quarantine(options.quarantine, report) if options.quarantine else {}
    run_tests(report, Usage(), options.name, sys.argv[split + 1:], options.folder, options.standstill, options.reports, entries,
              options.measure)
    sys.exit(report.finish())


if __name__ == "__main__":
    main()
