"""`scale --peers`: nginx and Envoy with as many routes and one user, beside a Lanyard of the same."""

import os
import sys
import time

import bench
import proxies
import scaling
from rounds import print_head, row

REQUESTS, REST_SECONDS = 20000, 2


class Peer(bench.Program):
    """A proxy that has responded with 200 to a request of its last route. `ready` is CPU and seconds until then."""

    def __init__(self, target, folder, tools, routes):
        self.tools, self.routes, self.began = tools, routes, time.monotonic()
        super().__init__(target.command, target.port, f"{folder}/{target.name}.log")
        tools.load(self.port, self.routes, "-n", 1)
        self.ready = {"cpu": self.cpu_seconds(), "wall": time.monotonic() - self.began}


def figures_of(tools, process, routes):
    time.sleep(REST_SECONDS)
    memory = process.memory_kb() if isinstance(process, scaling.Process) else {
        "rss_kb": process.resident(), "pss_kb": process.pss()}
    return {"ready": process.ready, **memory, "request": tools.request_cost(process, routes, REQUESTS)}


def measure_routes(tools, program, routes):
    """Figures of each proxy, one after another."""
    folder = f"{tools.folder}/peers-{routes}"
    os.mkdir(folder, 0o700)
    paths = tuple(f"/r{route}/" for route in range(routes))
    setting = bench.Setting(folder, tools.folder, upstream=tools.setting.upstream, paths=paths)
    found = {}
    for make in [proxies.nginx, proxies.envoy]:
        if target := make(setting):
            process = Peer(target, folder, tools, routes)
            try:
                found[target.name] = {"version": target.version, **figures_of(tools, process, routes)}
            finally:
                process.stop()
        else:
            print(f"{make.__name__} is not installed: left out", file=sys.stderr)
    subject = scaling.Subject(tools, program, 1, routes)
    try:
        subject.start()
        found["Lanyard"] = figures_of(tools, subject.process, routes)
    finally:
        subject.end()
    return found


def measure(tools, program, routes):
    """With one route, and with so many."""
    found = {}
    for count in dict.fromkeys([1, routes]):
        print(f"peers, {count} routes: {time.strftime('%H:%M:%S')}", file=sys.stderr)
        found[str(count)] = measure_routes(tools, program, count)
    return found


def print_table(found):
    print_head(["one user", "start: CPU · s", "RSS, PSS, MB", "a request, µs"])
    for routes, proxies_found in found.items():
        for name, of in proxies_found.items():
            print(row([f"{name}, {int(routes):,} routes", f"{of['ready']['cpu']:.3f} · {of['ready']['wall']:.2f}",
                       f"{of['rss_kb'] / 1e3:.0f}, {of['pss_kb'] / 1e3:.0f}", f"{of['request']['cpu_us']:.1f}"]))
