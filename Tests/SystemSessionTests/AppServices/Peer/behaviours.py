#!/usr/bin/env python3
"""Checks an emulator against the protocol of App Services, with the request shapes of core and of realm-web.

    behaviours.py --base http://127.0.0.1:PORT --folder FOLDER [--profile core|web] [--only TEXT]

FOLDER is what `emulator_setup.py` wrote, and the emulator runs with its `seed.json`. One line for each check, `ok NAME` or
`FAIL NAME: what`; the exit status is 1 if one fails. NAME begins with the number of a behaviour in
docs/reference/app-services-behaviours.md 10, or
with a subject.
"""

import argparse
import sys
import traceback

import checks_service  # noqa: F401 (each module declares its checks)
import checks_login  # noqa: F401
import checks_sessions  # noqa: F401
import checks_accounts  # noqa: F401
import checks_userpass  # noqa: F401
import checks_functions  # noqa: F401
from emulator_setup import Issuers
from world import CHECKS, Deviation, World


def one_line(text, limit=600):
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[:limit] + " …"


def outcome(function, world):
    """What fails, or None."""
    try:
        function(world)
    except Deviation as deviation:
        return str(deviation)
    except Exception as error:  # A check that breaks must not end the others.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} ({frame.name}, line {frame.lineno})"
    return None


def run(base, folder, profiles, only):
    issuers = Issuers.at(folder)
    failed = count = 0
    for profile in profiles:
        world = World(base, profile, issuers)
        for label, sentence, once, function in CHECKS:
            name = f"{label} {profile}: {sentence}"
            if once and profile != "core" or only and only not in name:
                continue
            count += 1
            what = outcome(function, world)
            failed += what is not None
            print(f"ok {name}" if what is None else f"FAIL {name}: {one_line(what)}", flush=True)
    if count == 0:
        sys.exit(f"no check is called {only}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--profile", choices=["core", "web"], action="append")
    parser.add_argument("--only")
    chosen = parser.parse_args()
    sys.exit(1 if run(chosen.base, chosen.folder, chosen.profile or ["core", "web"], chosen.only) else 0)


if __name__ == "__main__":
    main()
