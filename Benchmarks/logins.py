"""The kinds of `scale` with a login: users in a file store, at the emulator. First login, restart, the refresh of one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import bench
import scaling
from rounds import print_head, row

APP, CLIENT, SECRET, PASSWORD = "demo-abcde", "demo", "demo-secret", "correct-horse"
REST_SECONDS, IDLE_SECONDS = 2, 10
# Calls that write to files, and those that have the disk keep it.
WRITES = ["write", "writev", "pwrite64", "pwritev", "pwritev2"]
SYNCS = ["fsync", "fdatasync"]
# Routes of the emulator.
LOGINS = ["login", "oauth_login"]


class AppServicesUsers:
    """Users of one identity, with an email and a password file each."""

    calls = "/emulator/counts"

    def __init__(self, folder, count):
        self.count = count
        secrets = scaling.make_folder(f"{folder}/secrets")
        self.files = [scaling.write(f"{secrets}/u{user}", PASSWORD) for user in range(count)]
        seed = "".join(f"  - {{email: u{user}@example.com, password: {PASSWORD}}}\n" for user in range(count))
        self.flags = ["--seed", scaling.write(f"{folder}/seed.yaml", "users:\n" + seed)]

    def lines(self, url):
        yield f'identities: {{app: {{app_services: {{app_id: {APP}, base_url: "{url}"}}}}}}'
        yield "users:"
        for user, path in enumerate(self.files):
            login = f"{{email_password: {{email: u{user}@example.com, password_file: {path}}}}}"
            yield f"  u{user}: {{identity: app, login: {login}}}"


class ClientCredentialsUsers:
    """Users with an OAuth identity and a secret's file each."""

    flags = ["--oauth"]

    def __init__(self, folder, count):
        self.count = count
        secrets = scaling.make_folder(f"{folder}/secrets")
        self.files = [scaling.write(f"{secrets}/u{user}", SECRET) for user in range(count)]

    def lines(self, url):
        yield "identities:"
        for user, path in enumerate(self.files):
            yield (f'  i{user}: {{oauth2: {{endpoints: {{token: "{url}/oauth/token"}}, client_id: {CLIENT}, '
                   f"client_secret_file: {path}}}}}")
        yield "users:"
        for user in range(self.count):
            yield f"  u{user}: {{identity: i{user}, login: {{client_credentials: {{}}}}}}"


KINDS = {"app_services": AppServicesUsers, "client_credentials": ClientCredentialsUsers}


class UsersAt:
    """Users of a configuration whose identity service is at this address."""

    def __init__(self, users, url):
        self.users, self.url, self.count = users, url, users.count

    def lines(self):
        return self.users.lines(self.url)


class Emulator:
    def __init__(self, program, folder, flags):
        self.port = bench.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        command = scaling.as_nobody([program, "--listen", f"127.0.0.1:{self.port}", *flags])
        self.process = bench.Program(command, self.port, f"{folder}/emulator.log")

    def logins(self):
        """Calls that log a user in."""
        # No proxy of the environment is asked.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/emulator/counts", timeout=60) as response:
            routes = json.load(response)["routes"]
        return sum(of["calls"] for name, of in routes.items() if name in LOGINS)


def emulator_program(program):
    found = os.environ.get("LANYARD_EMULATOR") or os.path.join(os.path.dirname(program), "lanyard-emulator")
    return found if os.path.exists(found) else bench.fail(f"no {found}: LANYARD_EMULATOR names it")


def store_bytes(folder):
    """Of all files of the store."""
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


class Trace:
    """What a process writes below a folder, and the calls of SYNCS, while it is traced."""

    def __init__(self, pid, folder):
        self.folder, self.log = folder, f"{os.path.dirname(folder)}/strace.log"
        command = ["strace", "-f", "-qq", "-y", "-s", "0", "-e", "signal=none", "-e", "trace=" + ",".join(WRITES + SYNCS),
                   "-o", self.log, "-p", str(pid)]
        self.tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 10
        while not self.is_attached(pid):
            if self.tracer.poll() is not None or time.monotonic() > end:
                raise scaling.Failure("strace does not attach")
            time.sleep(0.01)

    @staticmethod
    def is_attached(pid):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as status:
                if "TracerPid:\t0\n" in status.read():
                    return False
        return True

    def end(self):
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.wait()
        written, syncs = 0, 0
        with open(self.log, encoding="utf-8", errors="replace") as log:
            for line in log:
                match = re.match(r"\d+ +(\w+)\(\d+<([^>]*)>.* = (\d+)$", line)
                if match and match[2].startswith(self.folder):
                    written += int(match[3]) if match[1] in WRITES else 0
                    syncs += match[1] in SYNCS
        return {"bytes": written, "syncs": syncs}


def await_logins(process, emulator, count):
    """Until the service has seen all of them: seconds of the clock, and the CPU until the process rests."""
    while (logins := emulator.logins()) < count:
        if process.process.poll() is not None or time.monotonic() - process.began > scaling.WAIT_SECONDS_MAX:
            raise scaling.Failure(f"{logins} of {count} users are logged in: {process.output()}")
        time.sleep(0.05)
    wall = time.monotonic() - process.began
    process.settle()
    if (logins := emulator.logins()) != count:
        raise scaling.Failure(f"{logins} logins of {count} users")
    return {"cpu": process.cpu_seconds(), "wall": wall, "ready": process.ready}


def refresh(program, process, user):
    """The command of an operator, which ends when the token is there and stored."""
    process.settle()
    before = process.cpu_seconds()
    command = scaling.as_nobody([program, "refresh", user, "--config", process.configuration.path])
    done = subprocess.run(command, capture_output=True, text=True, timeout=scaling.WAIT_SECONDS_MAX)
    if done.returncode:
        raise scaling.Failure(f"refresh: {done.stdout}{done.stderr}")
    process.settle()
    return process.cpu_seconds() - before


def measure_refresh(program, process, store):
    """CPU of one user's, and what another one's writes: strace adds to the CPU."""
    found = {"cpu": refresh(program, process, "u0")}
    if bench.find("strace"):
        trace = Trace(process.pid, store)
        refresh(program, process, "u1")
        found.update(trace.end())
    return found


def measure_start(process, emulator, count, store):
    figures = await_logins(process, emulator, count)
    time.sleep(REST_SECONDS)
    figures.update(process.memory_kb())
    figures["idle_percent"] = process.idle(IDLE_SECONDS)
    figures["store_bytes"] = store_bytes(store)
    return figures


def measure(tools, program, kind, count):
    print(f"{kind}, {count} users: {time.strftime('%H:%M:%S')}", file=sys.stderr)
    folder = scaling.make_folder(f"{tools.folder}/{kind}-{count}")
    store, key = scaling.make_folder(f"{folder}/store"), scaling.write(f"{folder}/store.key", os.urandom(16).hex())
    users = KINDS[kind](folder, count)
    figures, programs = {"kind": kind, "users": count}, []
    try:
        emulator = Emulator(emulator_program(program), folder, users.flags)
        programs.append(emulator.process)
        configuration = scaling.Configuration(folder, UsersAt(users, emulator.url), 1, tools.setting.upstream,
                                              store=f"{{path: {store}/sessions, key_file: {key}}}")
        configuration.write()
        for start in ["login", "restart"]:
            process = scaling.Process(program, configuration)
            programs.append(process)
            # At a restart nobody logs in again.
            figures[start] = measure_start(process, emulator, count, store)
            if start == "restart":
                figures["refresh"] = measure_refresh(program, process, store)
            figures[start]["stop"] = process.stop_measured()
    finally:
        for each in reversed(programs):
            each.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def print_table(found):
    print_head(["users", "all logged in: CPU · s", "restart: CPU · s", "RSS, MB", "at rest", "stop: CPU · s", "store, KB",
                "a refresh: CPU, bytes, syncs"])
    for of in found:
        first, again, renewed = of["login"], of["restart"], of["refresh"]
        times = [f"{each['cpu']:.2f} · {each['wall']:.1f}" for each in [first, again, again["stop"]]]
        print(row([f"{of['users']:,} {of['kind']}", *times[:2], f"{again['rss_kb'] / 1e3:.0f}", f"{again['idle_percent']:.2f} %",
                   times[2], f"{again['store_bytes'] / 1e3:,.0f}",
                   f"{renewed['cpu'] * 1e3:.0f} ms, {renewed.get('bytes', '?')}, {renewed.get('syncs', '?')}"]))
