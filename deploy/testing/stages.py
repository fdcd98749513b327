"""The stages of a run: builds, tests, checks, simulation, fuzzing, demo, deployment. Each adds its result to the report."""

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import time

from processes import Standstill, describe_threads, die_with_parent, end_session
from report import quarantine
from testrun import run_tests

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOGS = os.path.join(ROOT, ".build/test-logs")
WIDTH = 16
PRODUCTS = ["lanyard", "lanyard-emulator", "lanyard-simulation"]
# Line numbers in reports of a sanitizer need debug information.
DEBUG_BUILD = ["-debug-info-format", "none"]
# Suites that cost much and measure (CONTRIBUTING.md): `deploy/test --all` runs them.
DEAR = "[./](Long|Alone)[A-Z]"
# Checks that are quick and need no root: of the commands' pages and completions, of HTTP/2 with real clients, the manifests, the alerts,
# the units.
QUICK_CHECKS = ["commands", "http2", "kubernetes", "prometheus", "systemd"]
FUZZ_SECONDS = 20
# The OAuth servers of the tests, a reader of QR codes, and clients of gRPC and MCP, which deploy/peer-servers gets.
PEER_SERVERS = ["glewlwyd", "nanoidp", "authgent", "django", "canaille", "qr", "grpc", "mcp"]
SUITE = re.compile(r"^[^/\n]*\b(?:struct|class|enum|actor) (\w+)", re.M)
# Suites whose subject is no part of the program: they run in the gate when these paths have changed, and in part `emulator`.
EMULATOR_SUITES = {
    "^LanyardEmulatorTests[.]": re.compile("Sources/LanyardEmulator|Tests/LanyardEmulatorTests/"),
    "[./]AppServices(Behaviour|Request|AccountRequest)Tests/": re.compile(
        r"Sources/LanyardEmulator|Sources/LanyardIdentity/AppServices/|Tests/System\w*/AppServices/"),
}
COMMITS = 10


def sources(pattern):
    """(path, text) of the Swift files of the tests."""
    for path in sorted(glob.glob(os.path.join(ROOT, "Tests", pattern, "**/*.swift"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            yield path, file.read()


def long_suites():
    """Names of the suites that are parts of their own, by their declarations."""
    return sorted({name for _, text in sources("*Tests") for name in SUITE.findall(text) if re.fullmatch(r"Long[A-Z]\w*Tests", name)})


def oauth_suites():
    """The suites with OAuth servers."""
    return sorted({name for _, text in sources("SystemSessionTests/OAuth") for name in SUITE.findall(text) if name.endswith("Tests")})


def http_suites():
    """The suites of the HTTP rules."""
    return sorted({name for _, text in sources("SystemHTTPTests") for name in SUITE.findall(text) if name.endswith("Tests")})


def changed_paths():
    """What the last commits and the work tree changed; of a shallow clone, what it has."""
    log = ["git", "log", "-n", str(COMMITS), "--format=", "--name-only"]
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    text = ""
    for command, cut in [(log, 0), (status, 3)]:
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        text += "\n".join(line[cut:] for line in result.stdout.splitlines()) + "\n"
    return set(text.split("\n")) - {""}


def lines(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


class Stages:
    def __init__(self, report, usage):
        self.report, self.usage = report, usage
        self.built = set()
        self.peers, self.peers_log = None, os.path.join(LOGS, "peer-servers.log")
        self.entries = quarantine(os.path.join(ROOT, "Tests/quarantine.txt"), report)

    def capture(self, command, log, limit=None):
        """Runs a program with its output in a file. Returns its status; 124 after the limit or a standstill: no output and no CPU use."""
        with open(log, "wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       start_new_session=True, preexec_fn=die_with_parent)
        started, standstill = time.monotonic(), Standstill(self.usage)
        try:
            while limit is None or time.monotonic() - started < limit:
                try:
                    return process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    if standstill.has_come(os.path.getsize(log)):
                        break
            waits = describe_threads(process.pid, log + ".threads")
            print(f"    it stood still or its time was up; its threads: {waits} ({log}.threads)", flush=True)
            return 124
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=10)
            end_session(process.pid)
            process.wait()

    @contextlib.contextmanager
    def peer_servers(self):
        """Fetches the OAuth servers beside the builds; the tests wait for it. What is there needs no network."""
        with open(self.peers_log, "wb") as output:
            self.peers = subprocess.Popen(["deploy/peer-servers", *PEER_SERVERS], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent)
        try:
            yield
        finally:
            # Its jobs are groups of the session that it leads.
            end_session(self.peers.pid)
            self.peers.wait()

    def await_peer_servers(self):
        """A server that could not be fetched is named, and the tests with it are skipped."""
        if self.peers is None or self.peers.returncode is not None:
            return
        if self.peers.poll() is None:
            print(f"    waiting for the OAuth servers ({self.peers_log})", flush=True)
        standstill = Standstill(self.usage)
        while self.peers.poll() is None:
            if standstill.has_come(os.path.getsize(self.peers_log)):
                end_session(self.peers.pid)
            time.sleep(0.2)
        if self.peers.returncode:
            found = [line for line in lines(self.peers_log) if line.startswith("deploy/peer-servers: ")]
            for line in found or ["deploy/peer-servers was ended"]:
                print(f"    {line}: the tests with it are skipped ({self.peers_log})", flush=True)

    @contextlib.contextmanager
    def stage(self, name):
        """Says what begins, and notes what it costs."""
        print(f"==> {name}", flush=True)
        started, before = time.monotonic(), self.usage.sample()
        try:
            yield
        finally:
            after = self.usage.sample()
            self.report.stages.append(
                (name, time.monotonic() - started, after[0] - before[0], after[1] - before[1]))
            print(f"    {name}: {time.monotonic() - started:.0f} s, CPU {after[0] - before[0]:.0f} s", flush=True)

    def build(self, name, *arguments):
        """Errors are shown, and end what needs the build."""
        if name in self.built:
            return True
        log = os.path.join(LOGS, f"build-{name}.log")
        with self.stage(f"build {name}"):
            is_built = self.capture(["swift", "build", *arguments], log) == 0
        if is_built:
            self.built.add(name)
            return True
        text = lines(log)
        for line in list(dict.fromkeys(line for line in text if "error:" in line or "warning:" in line))[:40] + text[-15:]:
            print("    " + line)
        self.report.fail(f"swift build {' '.join(arguments)} (all of it: {log})")
        return False

    def build_debug(self):
        # An undeclared import of another target builds in an incremental build: SwiftPM looks for it, and its exit status says so.
        return self.build("debug", "--build-tests", *DEBUG_BUILD, "--explicit-target-dependency-import-check", "error")

    def build_release(self):
        return all(self.build(f"release-{name}", "-c", "release", "--product", name) for name in PRODUCTS)

    def tests(self, name, folder, *arguments, environment=None, reports=None, width=WIDTH, program="lanyardPackageTests.xctest",
              measures=False):
        """The test program of a build folder, by itself: `swift test` has no flag for how many tests run at once."""
        self.await_peer_servers()
        command = [os.path.join(ROOT, folder, "debug", program), "--testing-library", "swift-testing",
                   "--experimental-maximum-parallelization-width", str(width), *arguments]
        saved = dict(os.environ)
        os.environ.update(environment or {})
        try:
            with self.stage(name):
                run_tests(self.report, self.usage, name, command, LOGS, reports=reports, entries=self.entries, measures=measures)
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def gate_skips(self):
        """The filters that keep out of the gate what belongs to `--all`."""
        skips = ["--skip", DEAR]
        changed = changed_paths()
        for suites, paths in EMULATOR_SUITES.items():
            if not any(map(paths.match, changed)):
                skips += ["--skip", suites]
        return skips

    def gate(self):
        for name in QUICK_CHECKS:
            self.capture([f"deploy/check-{name}", "--tools"], os.path.join(LOGS, f"tools-{name}.log"), 300)
        if not (self.build_debug() and self.build_release()):
            return
        self.tidy()
        self.tests("tests", ".build", *self.gate_skips(), environment={"LANYARD_TEST_PRODUCTS": ".build/release"})
        self.simulation("short-simulation", "--scale", "0.01", "--refreshes", "2000", "--known", "no", "--least", "1")
        self.simulation("search", "--search", "60")
        for name in QUICK_CHECKS:
            self.check(name, "--quick")
        self.program("benchmark", "Benchmarks/run", "--short")
        self.program("scale", "Benchmarks/scale", "--short")

    def measure(self, pattern):
        """CPU and waiting seconds of each test of the gate, one after another."""
        if self.build_debug() and self.build_release():
            self.tests("measure", ".build", "--filter", pattern, *self.gate_skips(),
                       environment={"LANYARD_TEST_PRODUCTS": ".build/release"}, measures=True)

    def tidy(self):
        """Prose, tables and the width of lines: said, not counted."""
        log = os.path.join(LOGS, "tidy.log")
        with self.stage("tidy"):
            code = self.capture(["deploy/tidy", "--check"], log)
        found = [line for line in lines(log) if line and not line.startswith("untidy: ")]
        self.report.untidy += found or (["deploy/tidy --check ended badly: " + log] if code not in (0, 1) else [])

    def check(self, name, *arguments):
        """A script deploy/check-NAME counts as a test, and as none if nothing of it can be tried here."""
        log = os.path.join(LOGS, f"check-{name}.log")
        what = " ".join([f"deploy/check-{name}", *arguments])
        with self.stage(f"check-{name}"):
            code = self.capture([f"deploy/check-{name}", *arguments], log)
        text = lines(log)
        if code in (0, 77):
            for line in [line for line in text if line.startswith(("SKIP", " "))] + text[-1:]:
                print("    " + line)
        else:
            first = next((index for index, line in enumerate(text) if line.startswith("FAULT")), max(len(text) - 20, 0))
            for line in text[first:first + 20]:
                print("    " + line)
        if code != 77:
            self.report.count(code == 0, f"{what} (all of it: {log})")

    def simulation(self, name, *arguments):
        """The fleet in virtual time, optimised; docs/design/simulation.md."""
        log = os.path.join(LOGS, f"{name}.log")
        command = [".build/release/lanyard-simulation", "--threads", str(os.cpu_count()), *arguments]
        with self.stage(name):
            code = self.capture(command, log)
        text = lines(log)
        for line in text[:1] if code == 0 else [line for line in text if line.startswith(("broken", "too rare"))][:40]:
            print("    " + line)
        self.report.count(code == 0, f"lanyard-simulation {' '.join(arguments)} (all of it: {log})")

    def program(self, name, *command, limit=None):
        """A program that counts as one test by its exit status; 77: as none, for this machine lacks what it needs."""
        log = os.path.join(LOGS, f"{name.replace(':', '-')}.log")
        with self.stage(name):
            code = self.capture(list(command), log, limit)
        for line in lines(log)[-40 if code else -1:]:
            print("    " + line)
        if code != 77:
            self.report.count(code == 0, f"{' '.join(command)} (status {code}; all of it: {log})")

    def table(self, name, *command):
        """A program whose last line says how many of its cases passed and failed."""
        log = os.path.join(LOGS, f"{name}.log")
        with self.stage(name):
            code = self.capture(list(command), log)
        text = lines(log)
        match = re.fullmatch(r"(\d+) passed, (\d+) failed", text[-1]) if text else None
        for line in text[-60:]:
            print("    " + line)
        self.report.passed += int(match[1]) if match else code == 0
        if code != 0 or match and match[2] != "0":
            self.report.fail(f"{' '.join(command)}: {text[-1] if text else 'no output'} (all of it: {log})")

    def sanitized(self, name):
        """Units and system tests under a sanitizer, in a build folder of its own. Texts need none."""
        folder = {"thread": ".build-tsan", "address": ".build-asan"}[name]
        if not self.build(name, "--build-tests", f"--sanitize={name}", "--scratch-path", folder):
            return
        self.sanitized_tests(name, name, folder, "--skip", DEAR, "--skip", "^SourceTextTests[.]")

    def sanitized_tests(self, name, sanitizer, folder, *arguments, **options):
        # Processes that the tests start report into files as well, as any account. Leaks are not looked for: 247 tests of sessions,
        # identities and admin ran without a report of one, and no whole run has been seen with it.
        reports = os.path.join(LOGS, "reports")
        os.makedirs(reports, exist_ok=True)
        os.chmod(reports, 0o1777)
        environment = {
            "TSAN_OPTIONS": f"suppressions={ROOT}/deploy/tsan.supp log_path={reports}/{sanitizer}:atexit_sleep_ms=0",
            "ASAN_OPTIONS": f"detect_leaks=0:log_path={reports}/{sanitizer}",
        }
        self.tests(name, folder, *arguments, environment=environment, reports=f"{reports}/{sanitizer}.*", **options)

    def demo(self):
        for mode in [["--once"], ["--all-logins"], ["--oauth", "--once"]]:
            self.program("demo" + "".join(mode).replace("--", "-"), "deploy/run", *mode, limit=900)
        log = os.path.join(LOGS, "demo-next.log")
        with self.stage("demo-next"):
            is_good = next_steps(log)
        if not is_good:
            print("\n".join("    " + line for line in lines(log)[-40:]))
        self.report.count(is_good, f"deploy/run: what it prints to do next (all of it: {log})")

    def fuzz(self):
        """A short turn of every fuzz head; each is counted as a test."""
        log = os.path.join(LOGS, "fuzz.log")
        heads = subprocess.run(["deploy/fuzz", "--list"], cwd=ROOT, capture_output=True, text=True).stdout.split()
        with self.stage("fuzz"):
            self.capture(["deploy/fuzz", str(FUZZ_SECONDS)], log)
        text = lines(log)
        print("\n".join("    " + line for line in text))
        for head in heads:
            row = next((line for line in text if line.startswith(head + " ")), f"{head} did not run")
            self.report.count(row.endswith(" none"), f"deploy/fuzz: {row}")
        for line in text if not heads else []:
            self.report.fail(f"deploy/fuzz: {line}")

    def deployment(self):
        """Packages, container, manifests, units, admin API, and the start of the packaged program. One build serves them all."""
        log, packages = os.path.join(LOGS, "package.log"), os.path.join(LOGS, "packages")
        with self.stage("package"):
            with open(log, "wb") as errors:
                built = subprocess.run(["deploy/package", "--build"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=errors, text=True)
            binaries = built.stdout.strip()
            is_packed = built.returncode == 0 and self.capture(
                ["deploy/package", "--binaries", binaries, "--output", packages], log) == 0
        if not is_packed:
            print("\n".join("    " + line for line in lines(log)[-20:]))
            self.report.fail(f"deploy/package (all of it: {log})")
            return
        os.environ.update(LANYARD_BINARIES=binaries, LANYARD_PACKAGES=packages)
        for name in ["container", "kubernetes", "systemd", "admin", "package", "release"]:
            self.check(name)
        self.program("cold-start", "deploy/cold-start", "5")


def next_steps(log):
    """deploy/run as a user would use it: the line that it prints is pasted, and the folder that it names is still there after the end."""
    with open(log, "wb") as output:
        demo = subprocess.Popen(["deploy/run"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                preexec_fn=die_with_parent)
    try:
        end = time.monotonic() + 900
        while not any("Ctrl-C stops everything" in line for line in lines(log)):
            if demo.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.2)
        text = "\n".join(lines(log))
        command = re.search(r"^    (.* status --config .*)", text, re.M)
        folder = re.search(r"^The configuration: *(.*)/lanyard\.yaml; ", text, re.M)
        if not command or not folder:
            return False
        status = subprocess.run(["bash", "-c", command[1]], cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        with open(log, "a", encoding="utf-8") as output:
            output.write(status.stdout + status.stderr)
        demo.send_signal(signal.SIGTERM)
        is_good = (demo.wait(timeout=60) in (143, -signal.SIGTERM) and status.returncode == 0
                   and re.search(r"^alice  *active  *valid", status.stdout, re.M)
                   and os.path.getsize(folder[1] + "/lanyard.yaml") > 0)
        if is_good:
            shutil.rmtree(folder[1])
        return bool(is_good)
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        if demo.poll() is None:
            demo.terminate()
            demo.wait()
