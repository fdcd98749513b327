"""What the kernel says about processes: their CPU use, what their threads wait for, and how they are ended."""

import collections
import ctypes
import glob
import os
import resource
import shutil
import signal
import subprocess
import threading
import time

STANDSTILL_SECONDS = 300
# Of one CPU. Less than this is no work: programs that wait look at files and clocks, too.
IDLE_SHARE = 0.01
# As in Tests/TestSupport: the factor of a kernel without a pressure file, and the least share of wall time.
BLIND_FACTOR, SLOWEST_SHARE = 6, 12
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.5
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """For `preexec_fn`: the kernel kills the child when this process ends, however it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent():
    """This process gets SIGTERM when its parent ends: a killed deploy/test takes the runner with it."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def statuses():
    """(pid, parent, session, state, CPU ticks of the process and of the children that it has reaped) of each process."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stat:
                # The name is in parentheses and may hold any byte.
                fields = stat.read().rsplit(b")", 1)[1].split()
        except OSError:
            continue
        yield int(entry), int(fields[1]), int(fields[3]), fields[0], sum(map(int, fields[11:15]))


def session_members(session):
    """Processes of a session: what the tests started, unless it made a session of its own."""
    return [pid for pid, _, own, state, _ in statuses() if own == session and state != b"Z"]


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return line.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:200]
    except OSError:
        return ""


def live_ticks(root):
    """CPU ticks of the living descendants of a process."""
    children, ticks = collections.defaultdict(list), {}
    for pid, parent, _, _, used in statuses():
        children[parent].append(pid)
        ticks[pid] = used
    total, waiting = 0, list(children[root])
    while waiting:
        pid = waiting.pop()
        total += ticks[pid]
        waiting += children[pid]
    return total


def pressure():
    """Seconds in which some thread of the machine waited for a CPU (proc_pressure); nil without that file."""
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as file:
            return int(file.readline().rsplit("total=", 1)[1]) / 1e6
    except (OSError, ValueError, IndexError):
        return None


class Usage:
    """The CPU seconds of this process's descendants, and the seconds in which they waited for something other than a CPU.

    Waiting is wall time less the CPU time that they used, at most one CPU's, and less the time for which the kernel says that some
    thread waited for a CPU. Without that file the wait for a CPU counts as waiting.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.cpu = self.waiting = 0.0
        self.at, self.waited = time.monotonic(), pressure()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            time.sleep(SAMPLE_SECONDS)
            self.sample()

    def sample(self):
        """Returns (CPU seconds, waiting seconds) up to now."""
        with self.lock:
            reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
            # A process that another one reaps takes its time with it: the sum may fall.
            cpu = max(self.cpu, reaped.ru_utime + reaped.ru_stime + live_ticks(os.getpid()) / TICKS)
            now, waited = time.monotonic(), pressure()
            starved = waited - self.waited if waited is not None and self.waited is not None else 0
            self.waiting += max(0, now - self.at - (cpu - self.cpu) - starved)
            self.cpu, self.at, self.waited = cpu, now, waited
            return self.cpu, self.waiting


class Standstill:
    """Whether what this process has started stands still: for `seconds` it reports nothing and uses no CPU.

    These are seconds of granted time, as `Patience` counts them.
    """

    def __init__(self, usage, seconds=STANDSTILL_SECONDS):
        self.usage = usage
        self.seconds = seconds * (BLIND_FACTOR if pressure() is None else 1)
        self.progress = None
        self.cpu, self.waiting = usage.sample()
        self.moved = time.monotonic()

    def has_come(self, progress):
        """Asked again and again. `progress`: a value that differs after each report."""
        cpu, waiting = self.usage.sample()
        if progress != self.progress or cpu - self.cpu > IDLE_SHARE * self.seconds:
            self.progress, self.cpu, self.waiting, self.moved = progress, cpu, waiting, time.monotonic()
        return max(waiting - self.waiting, (time.monotonic() - self.moved) / SLOWEST_SHARE) >= self.seconds


def end_session(session, grace=0):
    """Ends every process of a session. Returns the commands of those that did not end by themselves within the grace."""
    until = time.monotonic() + grace
    while time.monotonic() < until and session_members(session):
        time.sleep(0.05)
    left = [command_line(pid) for pid in session_members(session)]
    for sign, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        until = time.monotonic() + patience
        for pid in session_members(session):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass
        while time.monotonic() < until and session_members(session):
            time.sleep(0.1)
    return [command for command in left if command]


def describe_threads(session, path):
    """Writes what each thread of the session's processes waits for: nothing else shows the cause of a standstill.

    Returns how many threads of the session's first process wait for what, for a reader who has the output only.
    """
    waits = collections.Counter()

    def text(file):
        try:
            with open(file, encoding="utf-8", errors="replace") as source:
                return source.read().strip()
        except OSError as error:
            return f"({error.strerror})"

    with open(path, "w", encoding="utf-8") as output:
        for process in session_members(session):
            print(f"{process}: {command_line(process)}", file=output)
            for thread in sorted(glob.glob(f"/proc/{process}/task/*")):
                wait = text(thread + "/wchan")
                print(f"  {os.path.basename(thread)} {text(thread + '/comm')}: {wait}, "
                      f"system call {text(thread + '/syscall')}", file=output)
                if process == session:
                    waits[wait if wait != "0" else "no wait"] += 1
        output.flush()
        if shutil.which("gdb"):
            gdb = ["gdb", "-p", str(session), "-batch", "-ex", "thread apply all bt 30"]
            try:
                subprocess.run(gdb, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, timeout=120)
            except subprocess.TimeoutExpired:
                print("gdb did not end", file=output)
    return ", ".join(f"{count} {wait}" for wait, count in waits.most_common(8))
