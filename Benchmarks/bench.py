"""What `run` and `cost` share: the tools, processes, the scenarios of HTTP/1.1 and their load."""

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TOKEN = "benchmark-" + "token" * 8


@dataclass(frozen=True)
class Ends:
    """Where a proxy speaks TLS, or HTTP/2."""

    listener: bool = False
    upstream: bool = False


# The name of each of a run's parts, in which all proxies speak TLS at the same places.
SIDES = {"plain": Ends(), "tls-upstream": Ends(upstream=True), "tls-listener": Ends(listener=True),
         "tls-both": Ends(listener=True, upstream=True)}


@dataclass(frozen=True)
class Scenario:
    title: str
    # Arguments of load.c.
    load: str
    side: str = "plain"


SCENARIOS = {
    "c1": Scenario("1 connection", "-c 1"),
    "c16": Scenario("16 connections", "-c 16"),
    "c64": Scenario("64 connections", "-c 64"),
    "c256": Scenario("256 connections", "-c 256"),
    "rate-200": Scenario("200 requests a second", "-c 16 -r 200"),
    "upload-1k": Scenario("16 connections, uploads of 1 KiB", "-c 16 -u 1024"),
    "upload-1m": Scenario("4 connections, uploads of 1 MiB", "-c 4 -u 1048576"),
    "response-64k": Scenario("16 connections, responses of 64 KiB", "-c 16 -b 65536"),
    "response-1m": Scenario("4 connections, responses of 1 MiB", "-c 4 -b 1048576"),
    "close": Scenario("16 connections, one request each", "-c 16 -k"),
}
for side, title in [("tls-upstream", "TLS upstream"), ("tls-listener", "TLS listener"), ("tls-both", "TLS both")]:
    for name, load in [("c16", "16"), ("c64", "64"), ("close", "16, one request each")]:
        arguments = SCENARIOS[name].load + (" -t" if SIDES[side].listener else "")
        SCENARIOS[f"{side}-{name}"] = Scenario(f"{title}, {load}", arguments, side)


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_port():
    """A port that no process listens on. Asked of the kernel, because it is in a configuration before the start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write(path, text):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return path


def build_tools(folder):
    compiler = find(os.environ.get("CC", "cc")) or find("clang") or fail("no C compiler")
    for tool in ["upstream", "load", "proxy"]:
        command = [compiler, "-O2", "-o", f"{folder}/{tool}", f"{HERE}/tools/{tool}.c", "-lssl", "-lcrypto"]
        subprocess.run(command, check=True)


def make_certificate(folder):
    """A certificate of localhost, which is its own CA; False: there is no openssl."""
    program = find("openssl")
    if not program:
        return False
    subprocess.run(
        [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"], check=True, capture_output=True)
    both = ""
    for name in ["certificate", "key"]:
        with open(f"{folder}/{name}.pem", encoding="utf-8") as file:
            both += file.read()
    write(f"{folder}/both.pem", both)
    return True


class Program:
    """A process that listens on a port."""

    start_seconds_max = 60

    def __init__(self, command, port, log, cpu=None):
        self.port, self.log = port, log
        pinned = ["taskset", "-c", str(cpu)] if cpu is not None and find("taskset") else []
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                pinned + command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        end = time.monotonic() + self.start_seconds_max
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                fail(f"{command[0]} does not listen: {self.output()}")
            time.sleep(0.01)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:]

    @property
    def pid(self):
        return self.process.pid

    def cpu_seconds(self):
        """User and system time of all its threads, by the kernel's clock of the process."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self, kind):
        """Kilobytes."""
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="utf-8") as rollup:
            return int(re.search(rf"^{kind}: +(\d+) kB$", rollup.read(), re.M)[1])

    def pss(self):
        """Memory that several processes map counts in parts."""
        return self.memory("Pss")

    def resident(self):
        return self.memory("Rss")

    def stop(self):
        if self.process.poll() is None:
            # strace that ends leaves its program running.
            os.killpg(self.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Target:
    """A proxy with one thread or process for the requests."""

    name: str
    command: list
    port: int
    version: str = ""


def version_of(program, flag):
    result = subprocess.run([program, flag], capture_output=True, text=True)
    match = re.search(r"\d+\.\d+[.\d]*\S*", result.stdout + result.stderr)
    return match[0] if match else ""


@dataclass
class Setting:
    """What the proxies of a side have in common."""

    # Of their configurations.
    folder: str
    # Of the tools and the certificate.
    files: str
    tls: Ends = Ends()
    http2: Ends = Ends()
    token: str = TOKEN
    # The port, once it has started.
    upstream: int = 0
    # Of the routes that a peer has.
    paths: tuple = ("/",)


def start_upstream(setting, cpu=None):
    """Sets the port of the setting."""
    setting.upstream = free_port()
    files = [f"{setting.files}/certificate.pem", f"{setting.files}/key.pem"] if setting.tls.upstream else []
    command = [f"{setting.files}/upstream", str(setting.upstream), setting.token, *files]
    return Program(command, setting.upstream, f"{setting.folder}/upstream.log", cpu=cpu)


def start_load(folder, port, arguments, cpu=None):
    pinned = ["taskset", "-c", str(cpu)] if cpu is not None and find("taskset") else []
    return subprocess.Popen([*pinned, f"{folder}/load", *map(str, arguments), str(port)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


QUIET_SHARE = 0.05


def busy_seconds():
    """CPU time of the whole machine that was not idle, its host's share for others included."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _, _, irq, soft, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def share_of_others(since, own):
    """Of all CPUs, since `since` = (monotonic seconds, busy seconds); `own` seconds are not counted."""
    began, busy = since
    return (busy_seconds() - busy - own) / ((time.monotonic() - began) * os.cpu_count())


def wait_until_quiet():
    """Until others use less than a twentieth of the CPUs for half a second."""
    while True:
        since = time.monotonic(), busy_seconds()
        time.sleep(0.5)
        if share_of_others(since, 0) < QUIET_SHARE:
            return


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def load(folder, port, scenario, *arguments, cpu=None):
    """Runs the load, and returns what it has measured. A request that failed ends the run."""
    process = start_load(folder, port, [*SCENARIOS[scenario].load.split(), *arguments], cpu)
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{scenario}: {output}{errors[-2000:]}")
    return json.loads(output)
