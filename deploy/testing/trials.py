"""What deploy/faults and deploy/jitter share: builds as deploy/test makes them, and runs of the test program
that are judged test by test."""

import os
import signal
import subprocess
import tempfile

from events import LATE, Stream, place
from processes import STANDSTILL_SECONDS, Standstill, Usage, die_with_parent, end_session
from stages import DEBUG_BUILD, ROOT, WIDTH

TEST_PROGRAM = os.path.join(ROOT, ".build", "debug", "lanyardPackageTests.xctest")
usage = Usage()


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def run(command, log, watched=None, patience=1, **options):
    """Runs a command in a session of its own. Returns its status; None if it stood still: a file (`watched`, else its log) did not grow,
    and it used no CPU."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            preexec_fn=die_with_parent, **options)
    standstill = Standstill(usage, STANDSTILL_SECONDS * patience)
    try:
        while not standstill.has_come(size(watched or log)):
            try:
                return process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                pass
        return None
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        end_session(process.pid)


def build(log, *arguments):
    return run(["swift", "build", *arguments], log) == 0


def build_tests(log):
    return build(log, "--build-tests", *DEBUG_BUILD)


class TestRun:
    """One run of the test program. `passed` and `running` hold tests as SUITE/FUNCTION, `failed` has what each of them said.

    `status` is None if the run stood still, and negative if a signal has ended the program.
    """

    def __init__(self, pattern, log, patience=1, **variables):
        with tempfile.TemporaryDirectory(prefix="lt-") as folder:
            # Some tests start programs as another user.
            os.chmod(folder, 0o755)
            path = os.path.join(folder, "events.jsonl")
            environment = dict(os.environ, LANYARD_TEST_FOLDER=folder, TMPDIR=folder, NO_COLOR="1", **variables)
            self.status = run(
                [TEST_PROGRAM, "--testing-library", "swift-testing", "--event-stream-output-path", path,
                 "--event-stream-version", "0", "--experimental-maximum-parallelization-width", str(WIDTH),
                 "--filter", pattern],
                log, watched=path, patience=patience, env=environment)
            stream = Stream(path)
            stream.read()
        self.passed = set(map(short, stream.passed))
        self.running = set(map(short, stream.running))
        self.failed = {
            short(test): [" ".join((where + text).split()) for where, text in stream.issues.get(test, [])]
            for test in stream.failed}

    def wrong(self, test):
        """What a failed test said, but for waits that took too long."""
        return [text for text in self.failed[test] if not LATE.search(text)]


def short(test):
    """`Suite/function` of a test's id. A nested suite is named by its last part."""
    suite, function = place(test).split("(")[0].rsplit("/", 1)
    return suite.rsplit("/", 1)[-1].rsplit(".", 1)[-1] + "/" + function
