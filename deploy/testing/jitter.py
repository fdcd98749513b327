#!/usr/bin/env python3
"""The program behind deploy/jitter: one run of the suites for each seed, and what failed with it."""

import argparse
import glob
import os
import re
import sys
import time

from lock import acquire
from stages import LOGS, ROOT
from trials import TestRun, build, build_tests

FOLDER = os.path.join(ROOT, ".build", "jitter")
SAID_CHARACTERS = 200
PATIENCE = 3


def seeds(text):
    first, _, last = text.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    if not numbers or numbers[0] < 1:
        raise argparse.ArgumentTypeError("a number from 1 on, or two with a hyphen")
    return numbers


def listed():
    """The pattern of the suites of the list. A name that no suite has is an error."""
    names = os.environ["JITTER_SUITES"].split()
    text = ""
    for path in glob.glob(os.path.join(ROOT, "Tests", "**", "*Tests.swift"), recursive=True):
        with open(path) as file:
            text += file.read()
    missing = [name for name in names if not re.search(rf"\b(struct|class) {name}\b", text)]
    if missing:
        sys.exit(f"deploy/jitter names suites that do not exist: {', '.join(missing)}")
    return f"[./]({'|'.join(names)})/"


def main():
    parser = argparse.ArgumentParser(prog="deploy/jitter")
    parser.add_argument("--seeds", type=seeds, default=range(1, 21))
    parser.add_argument("--filter")
    arguments = parser.parse_args()
    pattern = arguments.filter or listed()
    # Until the end of this process.
    held = acquire(os.path.join(LOGS, "lock"))
    if not held:
        print("0 passed, 1 failed")
        return 75
    os.makedirs(FOLDER, exist_ok=True)
    log = os.path.join(FOLDER, "build.log")
    open(log, "w").close()
    products = os.environ.get("LANYARD_TEST_PRODUCTS")
    built = build_tests(log)
    if not products:
        products = os.path.join(ROOT, ".build", "release")
        built = built and all(
            build(log, "-c", "release", "--product", name) for name in ("lanyard", "lanyard-emulator"))
    if not built:
        print(f"The build failed: {log}\n0 passed, 1 failed")
        return 1
    failures = 0
    for seed in arguments.seeds:
        log = os.path.join(FOLDER, f"{seed}.log")
        open(log, "w").close()
        started = time.monotonic()
        tests = TestRun(
            pattern, log, patience=PATIENCE, LANYARD_TEST_PRODUCTS=products, LANYARD_TEST_JITTER=str(seed),
            LANYARD_TEST_PATIENCE=str(PATIENCE))
        said = {test: (tests.wrong(test) + issues)[0] if issues else "" for test, issues in tests.failed.items()}
        said.update({test: "still ran at the end" for test in tests.running})
        if not said and tests.status != 0:
            said["the test program"] = "stood still" if tests.status is None else f"ended with {tests.status}"
        if not tests.passed and not said:
            said["the test program"] = "ran no test"
        print(
            f"seed {seed}: {len(tests.passed)} passed, {len(said)} failed ({time.monotonic() - started:.0f} s)",
            flush=True)
        for test, words in sorted(said.items()):
            print(f"  {test}: {words[:SAID_CHARACTERS]}", flush=True)
        failures += bool(said)
    print(f"{len(arguments.seeds) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
