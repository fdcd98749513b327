"""The table of checks: each row is a function of the server under test that raises `Failure` with what it expected and what it saw."""

import dataclasses
import os
import typing

# Seconds that a wait may last. A server that responds at all is far quicker, so only failures take them.
PATIENCE = float(os.environ.get("PATIENCE", "20"))
# The same in a row whose failure is known.
SHORT_PATIENCE = min(2.0, PATIENCE)
ROWS = []
waits = {"seconds": PATIENCE}


def patience():
    return waits["seconds"]


class Failure(Exception):
    """What does not hold, in words."""


class Skipped(Exception):
    """What this machine lacks."""

    def __init__(self, text, tool=None):
        super().__init__(text)
        self.tool = tool


@dataclasses.dataclass
class Row:
    rule: str
    title: str
    run: typing.Callable
    name: str
    # What nghttpx does in place of the rule, where it differs with reason.
    peer: str | None
    # Settings of a server of its own, for a row that ends the server or needs other limits.
    own: dict | None
    # In the gate too.
    quick: bool = False


def row(rule, title, *, peer=None, own=None, quick=False):
    """Puts the function below into the table."""
    def add(run):
        ROWS.append(Row(rule, title, run, f"{run.__module__}/{run.__name__}", peer, own, quick))
        return run
    return add


def table(rule, cases, *, peers=None):
    """A row for each case. `cases`: names to (title, value); the function gets the server and the value."""
    def add(run):
        for name, (title, value) in cases.items():
            def bound(server, value=value):
                run(server, value)
            ROWS.append(Row(rule, title, bound, f"{run.__module__}/{run.__name__}.{name}", (peers or {}).get(name), None))
        return run
    return add


def expect(what, expected, seen):
    """Fails unless the two are equal."""
    if expected != seen:
        raise Failure(f"{what}: expected {brief(expected)}, seen {brief(seen)}")


def brief(value):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 300 else f"{text[:200]}… ({len(text)} characters)"
