"""`run --http2`: HTTP/2 and gRPC beside nginx, HAProxy, nghttpx and Envoy, and what the project aims at."""

import datetime
import json
import os
import socket
import statistics
import sys
import tempfile
import time

import bench
import http2
import measures
import proxies
import rounds

IDLE = "http2-idle"
PARTS = [*http2.SCENARIOS, IDLE]
IDLE_CONNECTIONS = 1000
IDLE_BYTES_MAX = 16 << 10
# (scenario, what Lanyard's CPU is compared with: a proxy or Lanyard's own scenario, the greatest ratio).
AIMS = [
    ("h2s1", "ch2proxy", 1.3), ("h2s1", "nginx", 0.95),
    ("h2s64", "ch2proxy", 1.2), ("h2s64", "nghttpx", 0.85), ("h2s64", "Envoy", 0.25), ("h2s64", "h1c64", 0.6),
    ("h2both64", "ch2proxy", 1.4), ("h2both64", "nghttpx", 0.8), ("h2both64", "Envoy", 0.18),
    ("h2grpc", "Envoy", 0.4), ("h2response-1m", "Envoy", 0.4), ("h2upload-1m", "Envoy", 0.4),
]


def need_tools():
    for tool in http2.TOOLS:
        if not bench.find(tool):
            print(f"SKIP   {tool} is not installed")
            sys.exit(77)


class Side(rounds.Side):
    """The scenarios in which all proxies speak HTTP/2 at the same ends."""

    catalogue = http2.SCENARIOS

    def setting_in(self, folder, files):
        return http2.setting(self.name, folder, files)

    def others(self):
        return [proxies.envoy]

    def start_upstream(self):
        return http2.start_upstream(self.name, self.setting, self.load_cpu)

    def has(self, name, scenario):
        """The peers' listeners are for HTTP/2 alone."""
        return name == "Lanyard" or "--h1" not in http2.SCENARIOS[scenario].load

    def amount(self, scenario):
        return "-n", max(256, round(http2.SCENARIOS[scenario].requests * self.chosen.seconds / 2))

    def warm_up(self, name):
        for scenario in self.scenarios:
            if self.has(name, scenario):
                return self.load(name, scenario, "-n", min(1000, http2.SCENARIOS[scenario].requests))

    def load(self, name, scenario, *arguments):
        return http2.load(self.setting.files, self.started[name].port, scenario, *arguments, cpu=self.load_cpu)


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


class IdleConnection:
    """A client that has had a response, and waits."""

    def __init__(self, port):
        authority = f"127.0.0.1:{port}".encode()
        # HPACK: GET, http, and two literals, of :path and :authority.
        fields = b"\x82\x86\x04\x02/0\x01" + bytes([len(authority)]) + authority
        self.socket, self.input = socket.create_connection(("127.0.0.1", port), 10), b""
        # END_STREAM and END_HEADERS.
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 5, 1, fields))
        status = None
        while True:
            kind, flags, stream, payload = self.receive()
            if kind == 4 and not flags & 1:
                self.socket.sendall(frame(4, 1, 0))
            if stream == 1 and kind == 1 and status is None:
                # An update of the table's size may come first; 0x88 is :status 200.
                status = payload.lstrip(b"\x20\x3f\xe1\x1f")[:1]
                if status != b"\x88":
                    raise RuntimeError(f"{IDLE}: the response is not 200: {payload!r}")
            if stream == 1 and kind in (0, 1) and flags & 1:
                return
            if kind in (3, 7):
                raise RuntimeError(f"{IDLE}: the connection or its stream has ended")

    def receive(self):
        head = self.take(9)
        return head[3], head[4], int.from_bytes(head[5:9]), self.take(int.from_bytes(head[:3]))

    def take(self, count):
        while len(self.input) < count:
            if not (more := self.socket.recv(65536)):
                raise RuntimeError(f"{IDLE}: the connection has ended")
            self.input += more
        taken, self.input = self.input[:count], self.input[count:]
        return taken


def measure_idle(folder, program, chosen):
    """Resident bytes of one more idle connection in a fresh process of each proxy, as many of which are there before."""
    cpu, load_cpu = rounds.processors()
    count = IDLE_CONNECTIONS // 10 if chosen.short else IDLE_CONNECTIONS
    os.mkdir(f"{folder}/idle", 0o700)
    setting, found = http2.setting("http2-listener", f"{folder}/idle", folder), {}
    upstream = http2.start_upstream("http2-listener", setting, load_cpu)
    try:
        for target in [*proxies.peers(setting, proxies.envoy), proxies.lanyard(setting, program)]:
            started, clients = measures.start(target, setting, cpu), []
            try:
                time.sleep(measures.REST_SECONDS)
                clients += [IdleConnection(target.port) for _ in range(count)]
                before = started.resident()
                clients += [IdleConnection(target.port) for _ in range(count)]
                found[target.name] = round((started.resident() - before) * 1024 / count)
            finally:
                for client in clients:
                    client.socket.close()
                started.stop()
    finally:
        upstream.stop()
    return found


class Figures:
    """All sides of a run."""

    def __init__(self, sides, idle):
        self.sides, self.idle = sides, idle
        self.of = {scenario: side.figures[scenario] for side in sides for scenario in side.scenarios}
        self.names = list(dict.fromkeys(name for figures in self.of.values() for name in figures))

    def rounds(self, scenario, other):
        """CPU of Lanyard and of what it is compared with, in each round."""
        compared = self.of.get(other, {}).get("Lanyard") or self.of.get(scenario, {}).get(other)
        own = self.of.get(scenario, {}).get("Lanyard")
        return [(one["cpu_us"], another["cpu_us"]) for one, another in zip(own or [], compared or [])]

    def aims(self):
        """(what, ratio or None, aim) of each; the scenario of another row has its title."""
        for scenario, other, aim in AIMS:
            title = http2.SCENARIOS[other].title if other in http2.SCENARIOS else other
            ratios = [own / compared for own, compared in self.rounds(scenario, other)]
            what = f"CPU, {http2.SCENARIOS[scenario].title}, to {title}"
            yield what, statistics.median(ratios) if ratios else None, aim
        own, peer = self.idle.get("Lanyard"), self.idle.get("nghttpx")
        yield "memory of an idle connection, to 16 KiB", own / IDLE_BYTES_MAX if own else None, 1
        yield "memory of an idle connection, to nghttpx", own / peer if own and peer else None, 1

    def print(self):
        rounds.print_head(["CPU, µs per request", *self.names])
        for side in self.sides:
            for scenario in side.scenarios:
                medians = side.medians(scenario, "cpu_us")
                cells = [f"{medians[name]:.1f}" if name in medians else "" for name in self.names]
                print(rounds.row([http2.SCENARIOS[scenario].title, *cells]))
        if self.idle:
            rounds.print_head(["", *self.idle])
            print(rounds.row(["an idle connection, resident bytes", *map(str, self.idle.values())]))
        rounds.print_head(["", "ratio", "aim", ""])
        for what, ratio, aim in self.aims():
            word = "not measured" if ratio is None else "reached" if ratio <= aim else "not reached"
            print(rounds.row([what, "" if ratio is None else f"{ratio:.2f}", str(aim), word]))


def write_results(chosen, figures, load_average):
    sides = figures.sides
    found = {
        "date": datetime.date.today().isoformat(), "commit": rounds.commit(), "machine": rounds.machine(),
        "load_average": load_average, "rounds": chosen.rounds, "seconds": chosen.seconds, "access_log": chosen.access_log,
        "versions": {target.name: target.version for side in sides for target in side.targets if target.version},
        "idle": figures.idle,
        "aims": [{"what": what, "ratio": ratio and round(ratio, 3), "aim": aim} for what, ratio, aim in figures.aims()],
        "scenarios": {name: {"title": http2.SCENARIOS[name].title, "rounds": of} for name, of in figures.of.items()},
    }
    with open(os.path.join(bench.HERE, "http2.json"), "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, ensure_ascii=False)
        file.write("\n")


def run(chosen, program):
    load_average = [round(each, 1) for each in os.getloadavg()]
    with tempfile.TemporaryDirectory(prefix="lanyard-http2-") as folder:
        bench.build_tools(folder)
        sides, idle = [], {}
        for name in http2.SIDES:
            scenarios = [part for part in chosen.parts if part != IDLE and http2.SCENARIOS[part].side == name]
            if scenarios:
                sides.append(Side(name, scenarios, folder, chosen))
        try:
            for side in sides:
                side.run(program)
            if IDLE in chosen.parts:
                idle = measure_idle(folder, program, chosen)
        except RuntimeError as error:
            bench.fail(str(error))
    figures = Figures(sides, idle)
    figures.print()
    if not chosen.short:
        write_results(chosen, figures, load_average)
