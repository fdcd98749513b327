"""`deploy/check-oauth-servers`: the built Lanyard at real authorization servers.

For each server: a login, requests of two clients while the access token is renewed three times, a restart, a logout, a restart
after it, and another login. A request may fail only where the server's own rule says so (`Server.rule`). The last line says
`N ok, N faults, N skipped`.
"""

import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from servers import SERVERS, Skipped

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Variables of this script are none of Lanyard's.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LANYARD_")}
BINARY = os.path.join(ROOT, os.environ.get("LANYARD_BINARIES", ".build/release"), "lanyard")
RENEWALS = 3
# No wait is judged by it: a server that responds at all is far quicker.
PATIENCE = float(os.environ.get("PATIENCE", "300"))


class Fault(Exception):
    """What does not hold, in words."""


def until(what, ready):
    end = time.monotonic() + PATIENCE
    while not (value := ready()):
        if time.monotonic() > end:
            raise Fault(f"waited in vain: {what}")
        time.sleep(0.05)
    return value


class Lanyard:
    """The program with a store, and its commands."""

    def __init__(self, folder, configuration):
        self.folder, self.file = folder, f"{folder}/lanyard.yaml"
        with open(self.file, "w", encoding="utf-8") as file:
            json.dump(configuration, file)
        with open(f"{folder}/store.key", "wb") as file:
            file.write(os.urandom(32))
        os.chmod(f"{folder}/store.key", 0o600)
        self.process, self.port, self.starts = None, None, 0

    def start(self):
        self.starts += 1
        self.log = f"{self.folder}/log.{self.starts}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BINARY, "run", "--config", self.file], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=ENVIRONMENT)
        self.port = until("Lanyard listens", self.bound)

    def bound(self):
        if self.process.poll() is not None:
            raise Fault(f"Lanyard ended: {open(self.log, encoding='utf-8').read()[-600:]}")
        for event in self.events("listening"):
            if event.get("listener") not in ("health", "admin"):
                return int(event["address"].rsplit(":", 1)[1])

    def events(self, name):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            lines = [json.loads(line) for line in log if line.startswith("{")]
        return [line for line in lines if line.get("event") == name]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=PATIENCE)

    def command(self, *arguments, is_good=True):
        done = subprocess.run(
            [BINARY, *arguments, "--config", self.file], capture_output=True, text=True, timeout=PATIENCE, check=False,
            env=ENVIRONMENT)
        if is_good and done.returncode:
            raise Fault(f"lanyard {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done

    def user(self):
        users = json.loads(self.command("status", "--json").stdout)["users"]
        return next(user for user in users if user["name"] == "alice")

    def get(self, path):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            client.request("GET", path)
            response = client.getresponse()
            return response.status, response.read()
        finally:
            client.close()


class Load:
    """Two clients that send a request after the other."""

    def __init__(self, lanyard, path):
        self.lanyard, self.path, self.ended = lanyard, path, False
        self.count, self.failures, self.lock = 0, [], threading.Lock()
        self.threads = [threading.Thread(target=self.run) for _ in range(2)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.ended:
            try:
                status, body = self.lanyard.get(self.path)
            except OSError as error:
                status, body = 0, str(error).encode()
            with self.lock:
                self.count += 1
                if status != 200:
                    self.failures.append((status, body[:200]))
            time.sleep(0.02)

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()


def log_in(server, lanyard):
    """Does what the operator does at this server; nothing where the configured login needs nobody."""
    if server.login is None:
        return
    command = subprocess.Popen(
        [BINARY, "login", "alice", *server.flags, "--config", lanyard.file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    shown = []
    try:
        for line in command.stdout:
            shown.append(line)
            if server.login(line, "".join(shown)):
                break
        shown.append(command.stdout.read())
        if command.wait(timeout=PATIENCE):
            raise Fault(f"lanyard login: {''.join(shown)}")
    finally:
        command.kill()


def renew(server, lanyard):
    """Three renewals under load: by time where the server's tokens live short, else by an operator."""
    first = lanyard.user()["generation"]
    load = Load(lanyard, server.path)
    try:
        for number in range(1, RENEWALS + 1):
            if server.forces:
                time.sleep(2)
                lanyard.command("refresh", "alice")
            until(f"renewal {number}", lambda: lanyard.user()["generation"] >= first + number)
        time.sleep(1)
    finally:
        load.end()
    return load


def expect_good(lanyard, server, when):
    status, body = lanyard.get(server.path)
    if status != 200:
        raise Fault(f"{when}: {status} {body[:300]!r}")


def check_without_tokens(server, lanyard):
    """No login is possible: nothing is forwarded, and the state says who is at fault."""
    until("a failed login", lambda: lanyard.user().get("last_error"))
    status, body = lanyard.get(server.path)
    if status != 503 or b"identity-unreachable" not in body:
        raise Fault(f"without a token: {status} {body[:300]!r}")
    load = Load(lanyard, server.path)
    load.end()
    return load, "-"


def check(server, lanyard):
    """The figures of a row."""
    lanyard.start()
    if not server.has_tokens:
        return check_without_tokens(server, lanyard)
    log_in(server, lanyard)
    until("the first token", lambda: lanyard.user()["session"] == "valid")
    expect_good(lanyard, server, "after the login")
    load = renew(server, lanyard)
    lanyard.stop()
    lanyard.start()
    expect_good(lanyard, server, "after a restart")
    if lanyard.events("session.login.succeeded"):
        raise Fault("the restart has logged in again")
    told = lanyard.command("logout", "alice", "--json").stdout
    status, body = lanyard.get(server.path)
    if status != 503 or b"login-required" not in body:
        raise Fault(f"after the logout: {status} {body[:300]!r}")
    lanyard.stop()
    lanyard.start()
    if lanyard.user()["session"] != "logged_out":
        raise Fault(f"a restart after the logout: {lanyard.user()}")
    if server.login is None:
        lanyard.command("login", "alice")
    else:
        log_in(server, lanyard)
    expect_good(lanyard, server, "after another login")
    revoked = json.loads(told).get("revoked") if told.startswith("{") else None
    return load, {True: "yes", False: "no", None: "-"}[revoked]


def run(server, keep):
    with tempfile.TemporaryDirectory(prefix="lanyard-oauth-") as folder:
        os.chmod(folder, 0o700)
        server.start(folder)
        lanyard = Lanyard(folder, {
            "listeners": [{"address": "127.0.0.1:0"}], "health": {"address": "127.0.0.1:0"},
            "admin": {"address": f"unix:{folder}/admin.sock"},
            "identities": {"corp": {"oauth2": server.identity} | ({"tls": server.trust} if server.trust else {})},
            "users": {"alice": {"identity": "corp", "login": server.user}},
            "routes": [{"upstream": server.base, "user": "alice"} | server.route],
            "store": {"path": f"{folder}/sessions", "key_file": f"{folder}/store.key"}})
        try:
            return check(server, lanyard)
        finally:
            if lanyard.process and lanyard.process.poll() is None:
                lanyard.process.kill()
                lanyard.process.wait()
            server.stop()
            if keep:
                shutil.copytree(folder, f"{keep}/{server.name}", ignore=shutil.ignore_patterns("*.sock"), dirs_exist_ok=True)


def main():
    parser = argparse.ArgumentParser(prog="deploy/check-oauth-servers")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--keep", metavar="FOLDER", help="copies the logs and files of each run to it")
    options = parser.parse_args()
    wanted = options.names
    unknown = set(wanted) - {server.name for server in SERVERS}
    if unknown:
        sys.exit(f"no such server: {', '.join(sorted(unknown))}; there are {', '.join(server.name for server in SERVERS)}")
    ok = faults = skipped = 0
    print("| server | login | requests | failed | revoked at logout | the server's own rule |\n|---|---|---|---|---|---|", flush=True)
    for server in SERVERS:
        if wanted and server.name not in wanted:
            continue
        try:
            load, revoked = run(server, options.keep)
            allowed = [one for one in load.failures if server.allows(*one)]
            if len(allowed) < len(load.failures):
                raise Fault(f"{len(load.failures)} of {load.count} requests failed: {load.failures[:3]}")
            ok += 1
            print(
                f"| {server.title} | `{next(iter(server.user))}` | {load.count} | {len(load.failures)} | {revoked} | {server.rule} |",
                flush=True)
        except Skipped as reason:
            skipped += 1
            print(f"SKIP {server.name}: {reason}", flush=True)
        except (Fault, OSError, subprocess.SubprocessError, ValueError, KeyError) as fault:
            faults += 1
            print(f"FAULT {server.name}: {fault}", flush=True)
    print(f"{ok} ok, {faults} faults, {skipped} skipped")
    sys.exit(faults > 0 or not ok)


main()
