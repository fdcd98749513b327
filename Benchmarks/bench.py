"""What `run` and `cost` share: the tools, the proxies and their configurations, and the scenarios."""

import json
import os
import re
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
START_SECONDS = 60
# The title of each scenario, and the arguments of load.c.
SCENARIOS = {
    "c1": ("1 connection", "-c 1"),
    "c16": ("16 connections", "-c 16"),
    "c64": ("64 connections", "-c 64"),
    "c256": ("256 connections", "-c 256"),
    "upload-1k": ("16 connections, uploads of 1 KiB", "-c 16 -u 1024"),
    "upload-1m": ("4 connections, uploads of 1 MiB", "-c 4 -u 1048576"),
    "response-64k": ("16 connections, responses of 64 KiB", "-c 16 -b 65536"),
    "response-1m": ("4 connections, responses of 1 MiB", "-c 4 -b 1048576"),
    "close": ("16 connections, one request each", "-c 16 -k"),
}


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
        command = [compiler, "-O2", "-o", f"{folder}/{tool}", f"{HERE}/tools/{tool}.c"]
        subprocess.run(command, check=True)


class Program:
    """A process that listens on a port."""

    def __init__(self, command, port, log, cpu=None):
        self.port, self.log = port, log
        pinned = ["taskset", "-c", str(cpu)] if cpu is not None and find("taskset") else []
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                pinned + command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        end = time.monotonic() + START_SECONDS
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

    def pss(self):
        """Kilobytes; memory that several processes map counts in parts."""
        with open(f"/proc/{self.pid}/smaps_rollup", encoding="utf-8") as rollup:
            return int(re.search(r"^Pss: +(\d+) kB$", rollup.read(), re.M)[1])

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


def c_proxy(folder, upstream):
    port = free_port()
    return Target("C proxy", [f"{folder}/proxy", str(port), str(upstream), TOKEN], port)


def nginx(folder, upstream):
    program = find("nginx")
    if not program:
        return None
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    paths = " ".join(f"{kind}_temp_path {folder}/nginx-{kind};" for kind in
                     ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    configuration = write(f"{folder}/nginx.conf", f"""
daemon off; master_process off; {user}
worker_rlimit_nofile 8192; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; {paths}
    keepalive_requests 1000000000; client_max_body_size 0;
    upstream bench {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://bench;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Connection "";
            proxy_set_header Authorization "Bearer {TOKEN}";
            # Bodies pass through: nothing waits for a whole one, nothing is written to a file.
            proxy_request_buffering off; proxy_max_temp_file_size 0;
            proxy_buffer_size 16k; proxy_buffers 16 64k; proxy_busy_buffers_size 256k;
        }}
    }}
}}
""")
    return Target("nginx", [program, "-e", "stderr", "-c", configuration], port, version_of(program, "-v"))


def haproxy(folder, upstream):
    program = find("haproxy")
    if not program:
        return None
    port = free_port()
    configuration = write(f"{folder}/haproxy.cfg", f"""
global
    maxconn 4000
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend bench
    bind 127.0.0.1:{port}
    default_backend bench
backend bench
    http-request set-header Authorization "Bearer {TOKEN}"
    server bench 127.0.0.1:{upstream} pool-max-conn 512
""")
    return Target("HAProxy", [program, "-db", "-f", configuration], port, version_of(program, "-v"))


def lanyard(folder, upstream, program, access_log):
    port = free_port()
    write(f"{folder}/token", TOKEN)
    configuration = write(f"{folder}/lanyard.yaml", f"""
listeners: [{{address: "127.0.0.1:{port}", allowed_hosts: [api.example.test, "127.0.0.1:{port}"]}}]
health: {{address: "127.0.0.1:0"}}
admin: {{address: "unix:{folder}/admin.sock"}}
identities: {{fixed: {{static: {{token_file: {folder}/token}}}}}}
users: {{bench: {{identity: fixed}}}}
routes: [{{upstream: "http://127.0.0.1:{upstream}"}}]
store: {{memory: true}}
shards: 1
log: {{access: {json.dumps(access_log)}}}
""")
    return Target("Lanyard", [program, "run", "--config", configuration], port, version_of(program, "version"))


def peers(folder, upstream):
    """Those that are installed."""
    makers = {"C proxy": c_proxy, "nginx": nginx, "HAProxy": haproxy}
    found = {name: make(folder, upstream) for name, make in makers.items()}
    for name, target in found.items():
        if target is None:
            print(f"{name} is not installed: it is left out", file=sys.stderr)
    return [target for target in found.values() if target]


def start_upstream(folder, cpu=None):
    port = free_port()
    return Program([f"{folder}/upstream", str(port), TOKEN], port, f"{folder}/upstream.log", cpu=cpu)


def load(folder, port, scenario, *arguments, cpu=None):
    """Runs the load, and returns what it has measured. A request that failed ends the run."""
    pinned = ["taskset", "-c", str(cpu)] if cpu is not None and find("taskset") else []
    command = [f"{folder}/load", *SCENARIOS[scenario][1].split(), *map(str, arguments), str(port)]
    result = subprocess.run(pinned + command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{scenario}: {result.stdout}{result.stderr[-2000:]}")
    return json.loads(result.stdout)
