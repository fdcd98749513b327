"""What `run` measures beside the scenarios: idle connections, tokens that change under load, the start."""

import http.server
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time

import bench
import proxies

IDLE_CONNECTIONS = 1000
STARTS = 30
REST_SECONDS = 2
# A third of the life of a token is left when it is renewed: each 2 s.
TOKEN_LIFE = 3
ROTATION_SECONDS = 8
ROTATION_RATE = 1000


def start(target, setting, cpu):
    log = f"{setting.folder}/{target.name.replace(' ', '-')}.log"
    return bench.Program(target.command, target.port, log, cpu=cpu)


def open_idle(folder, target, count, load_cpu):
    """Clients that have had a response each and wait, until they are told to end."""
    clients = bench.start_load(folder, target.port, ["-c", count, "-i"], load_cpu)
    if json.loads(clients.stdout.readline() or "{}").get("errors") != 0:
        raise RuntimeError(f"idle: {target.name}: {clients.communicate()[1]}")
    return clients


def measure_idle(folder, program, cpu, load_cpu, chosen):
    """Bytes of PSS that one more idle connection of a client takes, in a fresh process of each proxy.

    The process has come to rest, and as many connections are there before: they bring the code of connections into memory.
    """
    count = IDLE_CONNECTIONS // 10 if chosen.short else IDLE_CONNECTIONS
    os.mkdir(f"{folder}/idle", 0o700)
    setting, found = bench.Setting(f"{folder}/idle", folder), {}
    upstream = bench.start_upstream(setting, load_cpu)
    try:
        for target in [*proxies.peers(setting), proxies.lanyard(setting, program)]:
            started = start(target, setting, cpu)
            try:
                time.sleep(REST_SECONDS)
                clients = [open_idle(folder, target, count, load_cpu)]
                before = started.pss()
                clients.append(open_idle(folder, target, count, load_cpu))
                found[target.name] = round((started.pss() - before) * 1024 / count)
                for each in clients:
                    each.communicate()
            finally:
                started.stop()
    finally:
        upstream.stop()
    return found


class TokenServer(http.server.ThreadingHTTPServer):
    """An OAuth server: each call gets the next token, TOKEN.1, TOKEN.2 and so on."""

    daemon_threads = True

    def __init__(self, life):
        super().__init__(("127.0.0.1", 0), TokenHandler)
        self.life, self.issued = life, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class TokenHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.issued += 1
        token = {"access_token": f"{bench.TOKEN}.{self.server.issued}", "token_type": "Bearer",
                 "expires_in": self.server.life}
        body = json.dumps(token).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Rotation:
    """A Lanyard whose tokens live so long, with an upstream and an OAuth server of its own."""

    def __init__(self, name, life, folder, program, cpu, load_cpu):
        os.mkdir(f"{folder}/{name}", 0o700)
        self.setting, self.load_cpu = bench.Setting(f"{folder}/{name}", folder), load_cpu
        self.server, self.results, self.programs = TokenServer(life), [], []
        self.programs.append(bench.start_upstream(self.setting, load_cpu))
        secret = bench.write(f"{folder}/{name}/secret", "a-client-secret")
        endpoint = f"http://127.0.0.1:{self.server.server_port}/token"
        identity = (f'{{oauth2: {{endpoints: {{token: "{endpoint}"}}, client_id: bench, '
                    f'client_secret_file: {secret}}}}}')
        target = proxies.lanyard(self.setting, program, identity=identity, login=", login: {client_credentials: {}}")
        self.programs.append(start(target, self.setting, cpu))
        bench.load(folder, target.port, "c16", "-n", 100, cpu=load_cpu)

    def measure(self, seconds):
        port = self.programs[-1].port
        arguments = ["-r", ROTATION_RATE, "-s", seconds]
        self.results.append(bench.load(self.setting.files, port, "c16", *arguments, cpu=self.load_cpu))

    def tokens_seen(self):
        """By the upstream."""
        with open(f"{self.setting.folder}/upstream.log", encoding="utf-8") as log:
            return len(re.findall(r"^token \d+$", log.read(), re.M))

    def stop(self):
        for program in self.programs:
            program.stop()
        self.server.shutdown()
        self.server.server_close()


def measure_rotation(folder, program, cpu, load_cpu, chosen):
    """Latency while tokens change every 2 s, and while they do not, at the same rate of requests."""
    seconds = 4 if chosen.short else ROTATION_SECONDS
    lives = {"steady": 3600, "rotating": TOKEN_LIFE}
    rotations = {}
    try:
        for name, life in lives.items():
            rotations[name] = Rotation(name, life, folder, program, cpu, load_cpu)
        for turn in range(chosen.rounds):
            for rotation in rotations.values():
                rotation.measure(seconds)
            print(f"round {turn + 1}: rotation", file=sys.stderr)
        seen = {name: rotation.tokens_seen() for name, rotation in rotations.items()}
        least = chosen.rounds * seconds // TOKEN_LIFE
        if seen["steady"] > 1 or seen["rotating"] < least:
            raise RuntimeError(f"rotation: the upstream saw {seen} tokens, at least {least} were to come")
    finally:
        for rotation in rotations.values():
            rotation.stop()
    rounds = {name: rotation.results for name, rotation in rotations.items()}
    ratios = [one["p99_us"] / other["p99_us"] for one, other in zip(rounds["rotating"], rounds["steady"])]
    return {"rate": ROTATION_RATE, "tokens": seen, "rounds": rounds, "ratio": round(statistics.median(ratios), 3)}


def measure_start(folder, program, _cpu, _load_cpu, chosen):
    """The script measures a start with a stored session, beside nginx."""
    binaries = os.path.dirname(program)
    if not os.path.exists(f"{binaries}/lanyard-emulator"):
        print("start: no lanyard-emulator beside the program: left out", file=sys.stderr)
        return {}
    result = subprocess.run(
        [f"{bench.ROOT}/deploy/cold-start", "--json", str(STARTS // 10 if chosen.short else STARTS)],
        env={**os.environ, "LANYARD_BINARIES": binaries}, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"start: {result.stdout}{result.stderr}")
    return json.loads(result.stdout)


PARTS = {"idle": measure_idle, "rotation": measure_rotation, "start": measure_start}


def print_tables(measured):
    for name, count in measured.get("idle", {}).items():
        print(f"{name}: {count} bytes PSS for each idle connection")
    if rotation := measured.get("rotation"):
        medians = {name: statistics.median(result["p99_us"] for result in results)
                   for name, results in rotation["rounds"].items()}
        print(f"99 % of the responses within {medians['rotating']:.0f} µs while "
              f"{rotation['tokens']['rotating']} tokens came, {medians['steady']:.0f} µs with one token: "
              f"{rotation['ratio']:.2f}")
    for name, figures in measured.get("start", {}).items():
        print(f"{name}: first 200 after {statistics.median(figures['first_200_ms']):.1f} ms, "
              f"PSS at rest {figures['pss_kb'] / 1000:.1f} MB")
