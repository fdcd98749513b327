#!/usr/bin/env python3
"""The program behind deploy/faults.

A patch in Tests/PlantedFaults has a head: a line `Fault: WHAT IS BROKEN` and a line `Test: SUITE/FUNCTION` for each test that finds it.
All of the tests must fail, with a wrong result: one that only runs out of time has not found the fault.

First all tests run without a fault; a test that fails then finds nothing. The debug programs are used, so a fault costs one incremental
build. Faults of one module follow one another, because what was planted and what is planted are compiled together.

A patched tree is never left behind: a second process restores the files when this one ends in whatever way, and removes the programs
that may have the fault in them. What a fault's test said is in .build/faults/NAME.log.
"""

import os
import re
import subprocess
import sys
import time

from lock import acquire
from stages import LOGS, ROOT
from trials import TEST_PROGRAM, TestRun, build_tests

PATCHES = os.path.join(ROOT, "Tests", "PlantedFaults")
FOLDER = os.path.join(ROOT, ".build", "faults")
DEBUG = os.path.join(ROOT, ".build", "debug")
# What may have a fault in it after an interruption.
PROGRAMS = [TEST_PROGRAM, os.path.join(DEBUG, "lanyard")]
SAID_CHARACTERS = 110


class Fault:
    def __init__(self, path):
        self.name = os.path.basename(path).removesuffix(".patch")
        self.path = path
        with open(path) as file:
            text = file.read()
        head = text.split("\n--- ", 1)[0]
        self.title = next(iter(re.findall(r"^Fault: (.+)$", head, re.M)), "")
        self.tests = re.findall(r"^Test: ([A-Za-z0-9]+/[A-Za-z0-9]+)$", head, re.M)
        self.files = re.findall(r"^\+\+\+ b/(.+)$", text, re.M)
        if not self.title or not self.tests or not self.files:
            sys.exit(f"{path}: a patch begins with Fault: and Test: lines")


class Restorer:
    """Keeps copies of the files that a patch changes, and restores them. A child does so when this process is killed."""

    def __init__(self):
        self.saved = {}
        reading, self.writing = os.pipe()
        self.copies = os.path.join(FOLDER, "saved")
        subprocess.run(["rm", "-rf", self.copies], check=True)
        self.child = os.fork()
        if self.child == 0:
            os.setsid()
            os.close(self.writing)
            empty = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(empty, number)
            ended_well = b"done" in read_to_end(reading)
            if not ended_well and restore_copies(self.copies):
                for program in PROGRAMS:
                    if os.path.exists(program):
                        os.unlink(program)
            os._exit(0)
        os.close(reading)

    def plant(self, fault):
        for name in fault.files:
            with open(os.path.join(ROOT, name), "rb") as file:
                content = file.read()
            copy = os.path.join(self.copies, name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            with open(copy, "wb") as file:
                file.write(content)
        return subprocess.run(["git", "apply", fault.path], cwd=ROOT, capture_output=True, text=True)

    def restore(self):
        restore_copies(self.copies)

    def end(self):
        os.write(self.writing, b"done")
        os.close(self.writing)
        os.waitpid(self.child, 0)


def read_to_end(descriptor):
    content = b""
    while True:
        piece = os.read(descriptor, 64)
        if not piece:
            return content
        content += piece


def restore_copies(folder):
    """Writes each copy back and removes it. Returns whether there was one."""
    found = False
    for base, _, names in os.walk(folder):
        for name in names:
            copy = os.path.join(base, name)
            with open(copy, "rb") as file:
                content = file.read()
            with open(os.path.join(ROOT, os.path.relpath(copy, folder)), "wb") as file:
                file.write(content)
            os.unlink(copy)
            found = True
    return found


def run_tests(tests, log):
    names = "|".join(re.escape(test) for test in tests)
    return TestRun(f"[./]({names})[(]", log, LANYARD_TEST_PRODUCTS=DEBUG)


def judge(fault, tests):
    """The verdict, whether the fault is found, and what the first test said."""
    said = ""
    for test in fault.tests:
        if test in tests.failed:
            wrong = tests.wrong(test)
            if not wrong:
                return f"NOT FOUND: {test} was late", False, next(iter(tests.failed[test]), "")
            said = said or wrong[0]
        elif test in tests.passed:
            return f"NOT FOUND: {test} passed", False, ""
        elif tests.status is None:
            return f"NOT FOUND: {test} did not end", False, ""
        elif tests.status < 0:
            said = said or f"the test program ended by signal {-tests.status}"
        else:
            return f"NOT FOUND: {test} did not run", False, ""
    return "found", True, said


def main():
    known = {fault.name: fault for fault in
             (Fault(os.path.join(PATCHES, name)) for name in sorted(os.listdir(PATCHES)) if name.endswith(".patch"))}
    arguments = sys.argv[1:]
    if arguments == ["--list"]:
        for fault in known.values():
            print(f"{fault.name:34} {', '.join(fault.tests):60} {fault.title}")
        return 0
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"No such fault: {', '.join(unknown)}", file=sys.stderr)
        return 64
    # Until the end of this process.
    held = acquire(os.path.join(LOGS, "lock"))
    if not held:
        print("0 passed, 1 failed")
        return 75
    os.makedirs(FOLDER, exist_ok=True)
    # Of a run that lost its power.
    restore_copies(os.path.join(FOLDER, "saved"))
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT, capture_output=True, text=True, check=True)
    if changed.stdout:
        print(f"The tree has uncommitted changes: commit or stash them first.\n{changed.stdout}", file=sys.stderr)
        return 64
    faults = sorted((known[name] for name in arguments or known), key=lambda fault: (fault.files[0], fault.name))
    passed_count, failures = 0, []

    control_log = os.path.join(FOLDER, "control.log")
    open(control_log, "w").close()
    started = time.monotonic()
    if not build_tests(control_log):
        print(f"The tree does not build without a fault: {control_log}\n0 passed, 1 failed")
        return 1
    tests = sorted({test for fault in faults for test in fault.tests})
    control = run_tests(tests, control_log).passed
    print(f"without a fault: {len(control)} of {len(tests)} tests pass ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{'fault':34} {'test':48} {'s':>4}  result", flush=True)
    restorer = Restorer()
    try:
        for fault in faults:
            started = time.monotonic()
            verdict, is_found, said = attempt(fault, control, restorer)
            line = f"{fault.name:34} {fault.tests[0]:48} {time.monotonic() - started:4.0f}  {verdict}"
            print(line + (f": {said[:SAID_CHARACTERS]}" if said else ""), flush=True)
            passed_count += is_found
            if not is_found:
                failures.append(fault.name)
    finally:
        restorer.restore()
    # Programs with a fault in them must not be left behind.
    if not build_tests(control_log):
        failures.append("the build after the faults")
    restorer.end()
    if failures:
        print("Failed:", *failures, sep="\n  ")
    print(f"{passed_count} passed, {len(failures)} failed")
    return 1 if failures else 0


def attempt(fault, control, restorer):
    missing = [test for test in fault.tests if test not in control]
    if missing:
        return f"NOT FOUND: {missing[0]} does not pass without the fault", False, ""
    log = os.path.join(FOLDER, fault.name + ".log")
    open(log, "w").close()
    try:
        applied = restorer.plant(fault)
        if applied.returncode != 0:
            return "NOT PLANTED: the patch does not apply", False, applied.stderr.split("\n")[0]
        if not build_tests(log):
            return f"NOT PLANTED: it does not build ({log})", False, ""
        return judge(fault, run_tests(fault.tests, log))
    finally:
        restorer.restore()


if __name__ == "__main__":
    sys.exit(main())
