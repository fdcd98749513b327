"""The command line of deploy/test; deploy/test itself prepares the machine."""

import argparse
import os
import shutil
import sys

from lock import acquire
from module import SCRATCH, find_module, module_names, run_module
from parts import all_parts, run_all, run_one
from processes import Usage, end_with_parent, pressure
from report import Report
from stages import LOGS, Stages
from testrun import handle_signals


def options():
    parser = argparse.ArgumentParser(prog="deploy/test", add_help=False, allow_abbrev=False)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--module")
    group.add_argument("--all", action="store_true")
    group.add_argument("--part")
    group.add_argument("--list-parts", action="store_true")
    group.add_argument("--list-modules", action="store_true")
    group.add_argument("--measure", nargs="?", const=".")
    parser.add_argument("--sanitize", choices=[name for name in SCRATCH if name])
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--resume", action="store_true")
    chosen = parser.parse_args()
    if chosen.sanitize and not chosen.module:
        parser.error("--sanitize belongs to --module")
    if (chosen.minutes is not None or chosen.resume) and not chosen.all:
        parser.error("--minutes and --resume belong to --all")
    return chosen


def warn_about_machine():
    """What the machine lacks and the tests can do without."""
    if pressure() is None:
        print("/proc/pressure/cpu cannot be read: a wait for a CPU counts as waiting, and the patience of tests is six times as long.")
    if os.getuid() != 0:
        print("Not root: tests that need it are skipped and named.")
    if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free < 1 << 20:
        print("/dev/shm is full: nothing of the tests needs it.")


def main():
    chosen = options()
    if chosen.list_parts or chosen.list_modules:
        print("\n".join([name for name, _ in all_parts()] if chosen.list_parts else module_names()))
        return 0
    module = find_module(chosen.module) if chosen.module else None
    if chosen.module and not module:
        print("No such module. The modules are: " + " ".join(module_names()), file=sys.stderr)
        return 64
    held = acquire(os.path.join(LOGS, "lock"))
    if not held:
        print("0 passed, 1 failed")
        return 75
    handle_signals()
    end_with_parent()
    warn_about_machine()
    report = Report()
    stages = Stages(report, Usage())
    if module:
        run_module(stages, module, chosen.sanitize)
        return report.finish()
    with stages.peer_servers():
        if chosen.all:
            run_all(stages, report, chosen.minutes, chosen.resume)
        elif chosen.part:
            if not run_one(stages, chosen.part):
                return 64
        elif chosen.measure:
            stages.measure(chosen.measure)
        else:
            stages.gate()
    return report.finish()


sys.exit(main())
