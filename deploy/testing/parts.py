"""The parts of `deploy/test --all`: what the gate leaves out, a row for each, and what a later run continues."""

import hashlib
import json
import os
import subprocess
import sys
import time

from report import Report
from stages import DEAR, EMULATOR_SUITES, LOGS, ROOT, http_suites, long_suites, oauth_suites

STATE = os.path.join(LOGS, "all.jsonl")
RELEASE = {"LANYARD_TEST_PRODUCTS": ".build/release"}
DEBUG = {"LANYARD_TEST_PRODUCTS": ".build/debug"}
SYSTEM = "^System[A-Za-z]*Tests[.]"


def one_shard(stages):
    """The HTTP rules with one shard, where every client shares the upstream connections of all others."""
    if stages.build_debug() and stages.build_release():
        stages.tests("one-shard", ".build", "--filter", f"^System[A-Za-z]*Tests[.]({'|'.join(http_suites())})/", "--skip", DEAR,
                     environment={**RELEASE, "LANYARD_TEST_SHARDS": "1"})


def debug_binaries(stages):
    """The system tests with the programs of the debug build, which check arithmetic, bounds and exclusive access."""
    if stages.build_debug():
        stages.tests("debug-binaries", ".build", "--filter", SYSTEM, "--skip", DEAR, environment=DEBUG)


def emulator(stages):
    """The tests of the emulator, which the gate runs when it has changed."""
    if stages.build_debug() and stages.build_release():
        stages.tests("emulator", ".build", "--filter", "|".join(EMULATOR_SUITES), "--skip", DEAR, environment=RELEASE)


def oauth(stages):
    """All suites with OAuth servers, which are real where there is one, the long ones included; one after another."""
    if stages.build_debug() and stages.build_release():
        stages.tests("oauth", ".build", "--no-parallel", "--filter", f"[./]({'|'.join(oauth_suites())})/", environment=RELEASE)


def alone(stages):
    """Suites that measure, one after another."""
    if stages.build_debug() and stages.build_release():
        stages.tests("alone", ".build", "--no-parallel", "--filter", "[./]Alone[A-Z]", environment=RELEASE)


def http2(stages):
    """HTTP/2 from outside: raw frames of honest and of hostile clients and upstreams; curl, nghttp, h2load, grpcio, Node and chromium; a
    token that changes every 2 s for a minute under load."""
    if stages.build_release():
        stages.table("http2", "deploy/check-http2", "--program", ".build/release/lanyard")


def cost(stages):
    """Instructions and system calls of a request, against Benchmarks/costs.json."""
    if stages.build_release():
        stages.program("cost", "Benchmarks/cost", "--check")


def long_suite(name):
    """How much memory and CPU is used are figures of what is deployed, not of the debug build."""
    def run(stages):
        if stages.build_debug() and stages.build_release():
            stages.tests(f"long:{name}", ".build", "--no-parallel", "--filter", f"[./]{name}/", environment=RELEASE)
    return run


def simulation(stages):
    if stages.build_release():
        stages.simulation("simulation", "--scale", "1", "--least", "1000")


def races(stages):
    if stages.build_debug() and stages.build_release():
        stages.table("races", "deploy/jitter", "--seeds", "1-20")


def mutation(stages):
    if stages.build_release():
        stages.table("mutation", "deploy/mutate")


def all_parts():
    """(name, function) of each part, the cheap ones first."""
    parts = [
        ("one-shard", one_shard),
        ("debug-binaries", debug_binaries),
        ("emulator", emulator),
        ("oauth", oauth),
        ("oauth-servers", lambda stages: stages.build_release() and stages.program("oauth-servers", "deploy/check-oauth-servers")),
        ("http2", http2),
        ("simulation", simulation),
        ("alone", alone),
        ("cost", cost),
        ("fuzz", lambda stages: stages.fuzz()),
        ("mutation", mutation),
        ("demo", lambda stages: stages.demo()),
        ("faults", lambda stages: stages.table("faults", "deploy/faults")),
        ("races", races),
        ("thread", lambda stages: stages.sanitized("thread")),
        ("address", lambda stages: stages.sanitized("address")),
        ("deployment", lambda stages: stages.deployment()),
    ]
    scripts = {"faults": "deploy/faults", "races": "deploy/jitter"}
    parts = [part for part in parts if os.path.exists(os.path.join(ROOT, scripts.get(part[0], "")))]
    rest = [name for name in long_suites() if name not in oauth_suites()]
    return parts + [(f"long:{name}", long_suite(name)) for name in rest]


def commit():
    """The commit, and a digest of what the work tree changes."""
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True).stdout

    name = git("rev-parse", "--short=12", "HEAD").decode().strip() or "unknown"
    changes = git("diff", "HEAD", "--binary")
    for path in git("ls-files", "--others", "--exclude-standard", "-z").split(b"\0"):
        if path:
            with open(os.path.join(os.fsencode(ROOT), path), "rb") as file:
                changes += path + b"\0" + file.read()
    return name + ("-" + hashlib.sha256(changes).hexdigest()[:8] if changes else "")


def saved_rows(name):
    if not os.path.exists(STATE):
        return []
    with open(STATE, encoding="utf-8") as file:
        return [row for row in map(json.loads, file) if row["commit"] == name]


def run_all(stages, report, minutes=None, resumes=False):
    """Runs the parts one by one. No part starts after `minutes`. `resumes`: those with a result do not run again."""
    name, started = commit(), time.monotonic()
    rows = saved_rows(name) if resumes else []
    with open(STATE, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    known, skipped = {row["part"] for row in rows}, []
    for part, run in all_parts():
        if part in known:
            continue
        if minutes is not None and time.monotonic() - started >= minutes * 60:
            skipped.append(part)
            continue
        row = run_part(stages, part, run, name)
        rows.append(row)
        with open(STATE, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    print(f"{'part':<32}{'commit':<22}{'result':<24}{'seconds':>8}{'CPU':>8}{'waiting':>8}")
    for row in rows:
        result = f"{row['passed']} passed, {len(row['failures'])} failed"
        print(f"{row['part']:<32}{row['commit']:<22}{result:<24}{row['seconds']:8.0f}{row['cpu']:8.0f}{row['waiting']:8.0f}")
        add(report, row)
    for part in skipped:
        print(f"{part:<32}not started: {minutes} minutes are over (deploy/test --all --resume)")


def run_part(stages, part, run, name):
    print(f"=== part {part}", flush=True)
    stages.report = own = Report()
    started, before = time.monotonic(), stages.usage.sample()
    run(stages)
    after = stages.usage.sample()
    if not own.passed and not own.failures:
        # A check that cannot be tried on this machine counts as nothing.
        print(f"    {part}: nothing could run here")
    return {
        "part": part, "commit": name, "passed": own.passed, "failures": own.failures, "slow": own.slow, "flaky": own.flaky,
        "quarantined": own.quarantined, "seconds": time.monotonic() - started, "cpu": after[0] - before[0],
        "waiting": after[1] - before[1],
    }


def add(report, row):
    report.passed += row["passed"]
    report.failures += [f"{row['part']}: {failure}" for failure in row["failures"]]
    report.slow += row["slow"]
    report.flaky += row["flaky"]
    report.quarantined += row["quarantined"]


def run_one(stages, name):
    """Returns whether there is such a part."""
    run = dict(all_parts()).get(name)
    if run is None:
        print("No such part. The parts are: " + " ".join(part for part, _ in all_parts()), file=sys.stderr)
        return False
    run(stages)
    return True
