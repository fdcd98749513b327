"""`scale --short`: whether what one process costs grows with its users and routes, and not with their square."""

import time
from dataclasses import dataclass
from typing import Callable

import scaling

# Users and routes. The first is what a process costs anyway.
BASE, FEW, SMALLER, LARGER = 1, 60, 250, 2000
SIZES = [BASE, FEW, SMALLER, LARGER]
# A square grows by the factor of the size once more. The rest is for caches, page faults and noise.
SLACK = 3
# A request costs the same whatever the size: this is for caches alone.
REQUEST_SLACK = 2
ROUNDS = 3
REST_SECONDS, IDLE_SECONDS = 2, 5
REQUESTS = 3000


@dataclass(frozen=True)
class Check:
    name: str
    figure: Callable
    unit: str
    # In the unit: a smaller figure counts as this, so that noise fails nothing.
    floor: float
    smaller: int = SMALLER
    larger: int = LARGER
    # Whether the figure is that of the whole process, or of one request.
    grows: bool = True


CHECKS = [
    Check("start", lambda of: of["ready"]["cpu"] * 1e3, "ms of CPU", 10),
    Check("memory", lambda of: of["pss_kb"], "KB", 1000),
    Check("rest", lambda of: of["idle_percent"] * IDLE_SECONDS * 10, "ms of CPU", 10),
    Check("metrics", lambda of: of["metrics"]["cpu"] * 1e3, "ms of CPU", 5),
    Check("metrics", lambda of: of["metrics"]["bytes"] / 1e3, "KB", 10),
    Check("reload, nothing changed", lambda of: of["reload_unchanged"]["cpu"] * 1e3, "ms of CPU", 10),
    Check("reload, one route changed", lambda of: of["reload"]["cpu"] * 1e3, "ms of CPU", 10),
    Check("request", lambda of: of["request"]["cpu_us"], "µs of CPU", 20, grows=False),
    # A stop has a time limit, behind which the square of a large one is not seen.
    Check("stop", lambda of: of["stop"]["cpu"] * 1e3, "ms of CPU", 10, smaller=FEW, larger=SMALLER),
    Check("stop", lambda of: of["stop"]["cpu"] * 1e3, "ms of CPU", 10),
]


def measure(tools, program):
    """Figures by size. The processes rest at the same time."""
    subjects = []
    try:
        for size in SIZES:
            subjects.append(scaling.Subject(tools, program, size, size))
            subjects[-1].start()
        time.sleep(REST_SECONDS)
        for subject in subjects:
            subject.measure_memory()
        before = [subject.process.cpu_seconds() for subject in subjects]
        time.sleep(IDLE_SECONDS)
        for subject, seconds in zip(subjects, before):
            subject.figures["idle_percent"] = (subject.process.cpu_seconds() - seconds) / IDLE_SECONDS * 100
        for subject in subjects:
            subject.measure_page(5)
            subject.measure_reloads()
            subject.measure_requests(REQUESTS)
            subject.stop()
    finally:
        for subject in subjects:
            subject.end()
    return {subject.users: subject.figures for subject in subjects}


def verdict(rounds, check):
    """(whether the slope is right, the line that says it). Of the rounds the least counts: noise only adds CPU."""
    base, smaller, larger = (
        min(check.figure(measured[size]) for measured in rounds) for size in [BASE, check.smaller, check.larger])
    if not check.grows:
        base = 0
    grown = (larger - base) / max(smaller - base, check.floor)
    most = SLACK * check.larger / check.smaller if check.grows else REQUEST_SLACK
    return grown <= most, (
        f"{'ok    ' if grown <= most else 'FAULT '} {check.name}: {smaller:.1f} and {larger:.1f} {check.unit} for "
        f"{check.smaller} and {check.larger} users and routes, {base:.1f} without: {grown:.1f} times, at most {most:.1f}")


def run(tools, program):
    """Whether all are right. What is wrong is measured again, and then a third time."""
    measured = []
    for _ in range(ROUNDS):
        measured.append(measure(tools, program))
        verdicts = [verdict(measured, check) for check in CHECKS]
        if all(is_right for is_right, _ in verdicts):
            break
    for _, line in verdicts:
        print(line)
    failed = sum(not is_right for is_right, _ in verdicts)
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return failed == 0
