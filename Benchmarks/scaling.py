"""What `scale` measures of one process: a Lanyard with many users and routes, from its start to its end."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import time

import bench
import rounds

# Who runs the program when root runs the benchmark.
NOBODY = 65534
CONNECTIONS = 16
RELOAD_RATE = 500
# Of the load before and after a reload.
RELOAD_MARGIN = 0.5
WAIT_SECONDS_MAX = 300
# Not those on the way, such as reload.delayed.
RELOADED = re.compile(rb'"event":"reload\.(applied|failed)"')


class Failure(RuntimeError):
    """A request failed, or the program did not do what it was asked."""


def as_nobody(command):
    if os.geteuid() != 0:
        return command
    program = bench.find("setpriv") or bench.fail("root needs setpriv")
    return [program, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


def make_folder(path):
    """A folder of the program."""
    os.mkdir(path, 0o700)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    return path


def write(path, text):
    """A file of the program. A file that is there is replaced as a whole."""
    bench.write(path + ".new", text)
    if os.geteuid() == 0:
        os.chown(path + ".new", NOBODY, NOBODY)
    os.rename(path + ".new", path)
    return path


class StaticUsers:
    """Users of an identity each, whose tokens are in a file each."""

    def __init__(self, folder, count):
        self.count = count
        tokens = make_folder(f"{folder}/tokens")
        # The upstream knows TOKEN.N, too.
        self.files = [write(f"{tokens}/u{user}", f"{bench.TOKEN}.{user + 1}") for user in range(count)]

    def lines(self):
        yield "identities:"
        for user, path in enumerate(self.files):
            yield f"  i{user}: {{static: {{token_file: {path}}}}}"
        yield "users:"
        for user in range(self.count):
            yield f"  u{user}: {{identity: i{user}}}"


class Configuration:
    """Of so many users and routes. `settings` are further lines of it, `of_route` further members of each route."""

    def __init__(self, folder, users, routes, upstream, store="{memory: true}", settings=(), of_route=""):
        self.folder, self.users, self.routes, self.upstream = folder, users, routes, upstream
        self.port, self.health = bench.free_port(), bench.free_port()
        self.store, self.settings, self.of_route = store, settings, of_route
        self.path = f"{folder}/lanyard.yaml"
        self.changes = 0

    def write(self):
        write(self.path, "\n".join(self.lines()) + "\n")

    def change_route(self):
        """One route gets another limit than it had."""
        self.changes += 1
        self.write()

    def lines(self):
        yield f'listeners: [{{address: "127.0.0.1:{self.port}", allowed_hosts: [api.example.test]}}]'
        if not any(line.startswith("health:") for line in self.settings):
            yield f'health: {{address: "127.0.0.1:{self.health}"}}'
        yield from [f'admin: {{address: "unix:{self.folder}/admin.sock"}}', f"store: {self.store}", "shards: 1"]
        yield from ["log: {access: false}", *(line.replace("PORT", str(self.health)) for line in self.settings)]
        yield from self.users.lines()
        yield "routes:"
        # All routes have one upstream. Each user has a connection of its own, which is kept.
        more = ", connections_max: 100000" + (f", {self.of_route}" if self.of_route else "")
        for route in range(self.routes):
            limit = f", body_bytes_max: {self.changes}MiB" if self.changes and route == self.routes - 1 else ""
            yield (f'  - {{name: r{route}, match: {{path: "/r{route}/"}}, upstream: "http://127.0.0.1:{self.upstream}", '
                   f"user: u{route % self.users.count}{more}{limit}}}")


class Process(bench.Program):
    """A Lanyard that is ready. `ready` has the seconds of CPU and of the clock that it took."""

    start_seconds_max = WAIT_SECONDS_MAX

    def __init__(self, program, configuration):
        self.configuration = configuration
        self.began = time.monotonic()
        self.ready = None
        command = as_nobody([program, "run", "--config", configuration.path])
        super().__init__(command, configuration.port, f"{configuration.folder}/lanyard.log")

    def get(self, path):
        """(status, bytes) of a page of health; (0, nothing) while nothing listens."""
        client = http.client.HTTPConnection("127.0.0.1", self.configuration.health, timeout=WAIT_SECONDS_MAX)
        try:
            client.request("GET", path)
            response = client.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            client.close()

    def listens(self):
        """Whether it is ready. The page costs CPU, so a start that takes long is asked more rarely."""
        status, _ = self.get("/readyz")
        wall = time.monotonic() - self.began
        if status == 200:
            self.ready = {"cpu": self.cpu_seconds(), "wall": wall}
            return True
        time.sleep(wall / 20)
        return False

    def log_size(self):
        return os.path.getsize(self.log)

    def await_reload(self, since):
        """The line with the result of a reload, behind `since` bytes of the log."""
        end, text = time.monotonic() + WAIT_SECONDS_MAX, b""
        with open(self.log, "rb") as log:
            log.seek(since)
            while True:
                text += log.read()
                lines, _, text = text.rpartition(b"\n")
                for line in lines.split(b"\n"):
                    if RELOADED.search(line):
                        return json.loads(line)
                if self.process.poll() is not None or time.monotonic() > end:
                    raise Failure(f"no reload: {self.output()}")
                time.sleep(0.002)

    def settle(self):
        """Until it has used no more than 2 % of a CPU for 0.1 s; 3 s at most."""
        for _ in range(30):
            before = self.cpu_seconds()
            time.sleep(0.1)
            if self.cpu_seconds() - before < 0.002:
                return

    def memory_kb(self):
        return {"rss_kb": self.resident(), "pss_kb": self.pss()}

    def idle(self, seconds):
        """Percent of a CPU."""
        before, began = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / (time.monotonic() - began) * 100

    def page(self):
        """A page of metrics."""
        before, began = self.cpu_seconds(), time.monotonic()
        status, body = self.get("/metrics")
        if status != 200:
            raise Failure(f"/metrics: {status}")
        return {"cpu": self.cpu_seconds() - before, "wall": time.monotonic() - began, "bytes": len(body)}

    def await_reloaded(self, is_changed):
        """SIGHUP, and seconds until the log says its result."""
        if is_changed:
            self.configuration.change_route()
        since, began = self.log_size(), time.monotonic()
        os.kill(self.pid, signal.SIGHUP)
        line = self.await_reload(since)
        if line["event"] != "reload.applied" or bool(line["keys"]) != is_changed:
            raise Failure(f"reload: {line}")
        return time.monotonic() - began

    def reload(self, is_changed):
        """The CPU is that until the process rests, the wall that until its log says it."""
        self.settle()
        before = self.cpu_seconds()
        wall = self.await_reloaded(is_changed)
        self.settle()
        return {"cpu": self.cpu_seconds() - before, "wall": wall}

    def stop_measured(self):
        """SIGTERM, and what the process costs from there to its end."""
        self.settle()
        before, began = self.cpu_seconds(), time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        while True:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > WAIT_SECONDS_MAX:
                raise Failure("it does not stop")
            time.sleep(0.005)
        wall = time.monotonic() - began
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode != 128 + signal.SIGTERM:
            raise Failure(f"it ended with {self.process.returncode}: {self.output()}")
        return {"cpu": max(0, used.ru_utime + used.ru_stime - before), "wall": wall}


@contextlib.contextmanager
def pinned(pid, cpu):
    """All threads of a process on one CPU; None: any."""
    if cpu is None:
        yield
        return
    allowed = os.sched_getaffinity(pid)
    set_affinity(pid, {cpu})
    try:
        yield
    finally:
        set_affinity(pid, allowed)


def set_affinity(pid, cpus):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cpus)


class Bench:
    """The tools, the upstream and the CPUs of a run."""

    def __init__(self, folder):
        self.folder = folder
        os.chmod(folder, 0o755)
        bench.build_tools(folder)
        self.cpu, self.load_cpu = rounds.processors()
        self.setting = bench.Setting(folder, folder)
        self.upstream = bench.start_upstream(self.setting, self.load_cpu)

    def stop(self):
        self.upstream.stop()

    def start_load(self, port, routes, *arguments):
        arguments = ["-c", CONNECTIONS, "-p", routes, *arguments]
        return bench.start_load(self.folder, port, arguments, self.load_cpu)

    def load(self, port, routes, *arguments):
        return self.result(self.start_load(port, routes, *arguments))

    @staticmethod
    def result(load):
        output, errors = load.communicate()
        if load.returncode:
            raise Failure(f"a request failed: {output}{errors[-2000:]}")
        return json.loads(output)

    def request_cost(self, process, routes, count):
        """CPU microseconds of a request, and the latencies. Each route has had a request before."""
        with pinned(process.pid, self.cpu):
            self.load(process.port, routes, "-n", max(routes, 200))
            before = process.cpu_seconds()
            result = self.load(process.port, routes, "-n", max(count, 2 * routes))
            used = process.cpu_seconds() - before
        return {"cpu_us": used * 1e6 / result["requests"], "p99_us": result["p99_us"], "requests": result["requests"]}

    def latency(self, process, routes, seconds, reload=None):
        """The worst latency in milliseconds, of requests at a fixed rate; `reload` is called between them.

        None: they ended before it did, so the figure would not be that of a reload.
        """
        load = self.start_load(process.port, routes, "-r", RELOAD_RATE, "-s", seconds)
        try:
            time.sleep(RELOAD_MARGIN)
            if reload:
                reload()
            is_whole = not reload or load.poll() is None
        finally:
            result = self.result(load)
        return result["max_us"] / 1000 if is_whole else None


class Subject:
    """One size: its configuration, its process, and the figures so far."""

    def __init__(self, tools, program, users, routes, settings=(), of_route=""):
        self.tools, self.program, self.users, self.routes = tools, program, users, routes
        self.folder = make_folder(f"{tools.folder}/{users}x{routes}-{time.monotonic_ns()}")
        self.configuration = Configuration(self.folder, StaticUsers(self.folder, users), routes, tools.setting.upstream,
                                           settings=settings, of_route=of_route)
        self.configuration.write()
        self.process, self.figures = None, {"users": users, "routes": routes}

    @property
    def name(self):
        return f"{self.users}x{self.routes}"

    def start(self):
        self.process = Process(self.program, self.configuration)
        self.figures["ready"] = self.process.ready

    def measure_memory(self):
        self.figures.update(self.process.memory_kb())

    def measure_idle(self, seconds):
        self.figures["idle_percent"] = self.process.idle(seconds)

    def measure_page(self, count):
        self.figures["metrics"] = min((self.process.page() for _ in range(count)), key=lambda page: page["cpu"])

    def measure_requests(self, count):
        self.figures["request"] = self.tools.request_cost(self.process, self.routes, count)

    def measure_reloads(self):
        self.figures["reload_unchanged"] = self.process.reload(False)
        self.figures["reload"] = self.process.reload(True)

    def measure_latency(self):
        """While a route changes, and for the same time without."""
        seconds = 2 * RELOAD_MARGIN + 2 * self.figures["reload"]["wall"]
        for _ in range(3):
            with_reload = self.tools.latency(self.process, self.routes, seconds, lambda: self.process.await_reloaded(True))
            if with_reload is not None:
                break
            seconds *= 2
        without = self.tools.latency(self.process, self.routes, seconds)
        self.figures["latency"] = {"worst_ms": with_reload, "worst_without_ms": without}

    def stop(self):
        self.figures["stop"] = self.process.stop_measured()

    def end(self):
        """Whatever has happened. Ten thousand files go, too."""
        if self.process:
            self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
