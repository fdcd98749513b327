"""The programs under test: Lanyard, and nghttpx, which shows that the checks themselves are right."""

import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time

from connection import Connection
from multiplexed import MultiplexedUpstream
from rows import Failure, patience
from upstream import ok, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "testing"))
from processes import die_with_parent  # noqa: E402

# Variables of this script are none of Lanyard's.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LANYARD_")}


class Server:
    """A running program between clients and the upstream of this script."""

    name = ""

    def __init__(self, program, upstream, folder, options=None):
        """`options`: what the program has in place of its defaults, such as `idle` for the seconds of an idle connection."""
        self.program, self.upstream, self.folder, self.options = program, upstream, folder, options or {}
        # Every token up to now: none may reach a client.
        self.token, self.tokens = None, []
        # The value of a field of `set_headers`.
        self.key = "key-" + secrets.token_hex(24)
        self.change_token()
        self.connections, self.plain, self.secure = [], None, None
        # Clients and upstreams that a row has started.
        self.programs = []
        self.path = upstream.on(ok, "ok")
        self.log = os.path.join(folder, f"log.{time.monotonic_ns()}")
        self.certificate = self.make_certificate()
        self.h2 = MultiplexedUpstream(self.certificate)
        self.process = None
        self.start()

    def make_certificate(self):
        """A self-signed certificate for localhost."""
        certificate, key = os.path.join(self.folder, "certificate.pem"), os.path.join(self.folder, "key.pem")
        if not os.path.exists(certificate):
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                 "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
                check=True, capture_output=True)
        return certificate, key

    def change_token(self):
        self.token = "token-" + secrets.token_hex(24)
        self.tokens.append(self.token.encode())

    def run(self, *arguments):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [self.program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, preexec_fn=die_with_parent)

    def wait(self, what, ready):
        deadline = time.monotonic() + patience()
        while not (value := ready()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{self.name}: expected {what}, seen {self.log_text()[-500:]}")
            time.sleep(0.02)
        return value

    def log_text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def connect(self, *values, **options):
        """A new HTTP/2 connection with these SETTINGS, by prior knowledge."""
        connection = Connection(
            ("127.0.0.1", self.plain), self.authority, secrets=self.tokens, values=values, companions=self.h2.channels, **options)
        self.connections.append(connection)
        return connection

    def connect_secure(self, protocols, starts=True):
        """A connection with TLS that offers these protocols by ALPN."""
        context = ssl.create_default_context(cafile=self.certificate[0])
        if protocols:
            context.set_alpn_protocols(protocols)
        connection = Connection(
            ("127.0.0.1", self.secure), f"localhost:{self.secure}", secrets=self.tokens, tls=context, starts=starts)
        self.connections.append(connection)
        return connection

    @property
    def authority(self):
        return f"127.0.0.1:{self.plain}"

    def end_connections(self):
        for connection in self.connections:
            connection.close()
        self.connections.clear()
        for program in self.programs:
            program.stop()
        self.programs.clear()
        self.h2.end_row()

    def cpu_ticks(self):
        """The CPU time of its processes so far."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False).stdout.split()
        ticks = 0
        for pid in [str(self.process.pid), *children]:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
        return ticks

    def resident(self):
        """KiB of memory of the process, or of its workers."""
        children = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False).stdout.split()
        total = 0
        for pid in [str(self.process.pid), *children]:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
                total += sum(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        return total

    def lives(self):
        """The process runs, and a new connection is served."""
        if self.process.poll() is not None:
            raise Failure(f"{self.name} has ended with {self.process.returncode}: {self.log_text()[-300:]}")
        connection = self.connect()
        connection.get(self.path)
        connection.close()

    def stop(self):
        self.end_connections()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Nghttpx(Server):
    """nghttpx of nghttp2. It injects no token: the rows say where that differs."""

    name = "nghttpx"

    def start(self):
        self.plain, self.secure = free_port(), free_port()
        self.h2.demands_authority = False
        arguments = [
            f"--frontend=127.0.0.1,{self.plain};no-tls", f"--frontend=127.0.0.1,{self.secure}",
            f"--backend=127.0.0.1,{self.upstream.port}",
            f"--backend=127.0.0.1,{self.upstream.narrow_port};/narrow/", f"--backend=127.0.0.1,{self.h2.plain.port};/h2/;proto=h2",
            f"--backend=127.0.0.1,{self.h2.secure.port};/tls/;tls;proto=h2", "--insecure", "--workers=1", "--no-ocsp", "--conf=/dev/null",
            "--accesslog-file=/dev/null", "--errorlog-file=/dev/stderr", "--log-level=NOTICE"]
        # Upstreams that are programs of the row.
        for _, path, port, keys in self.options.get("routes", ()):
            if callable(port):
                arguments.append(f"--backend=127.0.0.1,{port(self)};{path}/;proto=h2" + (";tls" if callable(keys) else ""))
        if "idle" in self.options:
            idle = f"{self.options['idle']}s"
            arguments += [f"--frontend-http2-read-timeout={idle}", f"--frontend-read-timeout={idle}"]
        self.run(*arguments, *reversed(self.certificate))
        self.wait("listening sockets", lambda: listens(self.plain) and listens(self.secure))

    def drain(self):
        self.process.send_signal(signal.SIGQUIT)

    def renew_token(self):
        """Has no token."""


class Lanyard(Server):
    name = "lanyard"

    def start(self):
        self.token_file = os.path.join(self.folder, f"token.{time.monotonic_ns()}")
        self.write_token()
        limits = {"connections_max": 4096} | ({"idle_timeout": f"{self.options['idle']}s"} if "idle" in self.options else {})
        certificate, key = self.certificate
        configuration = {
            "listeners": [
                {"address": "127.0.0.1:0"},
                {"address": "127.0.0.1:0", "tls": {"certificate_file": certificate, "key_file": key}}],
            "health": "off", "admin": "off", "limits": limits, "shutdown": {"drain_max": "10s"},
            "identities": {"fixed": {"static": {"token_file": self.token_file}}},
            "users": {"robot": {"identity": "fixed"}},
            "routes": [self.route(*each) for each in (
                ("all", "/", self.upstream.port), ("narrow", "/narrow", self.upstream.narrow_port))] + self.streams()}
        if "no_default" in self.options:
            configuration["routes"][0]["match"]["path"] = self.path
        if "signed_out" in self.options:
            configuration["identities"]["other"] = {"oauth2": {"endpoints": {"token": "http://127.0.0.1:9/token"}, "client_id": "checks"}}
            configuration["users"]["absent"] = {"identity": "other"}
            configuration["routes"].append(self.route("signed-out", "/signed-out", self.h2.plain.port, protocol="http2", user="absent"))
        for listener in configuration["listeners"]:
            listener.update(self.options.get("listener", {}))
        # Keys of a row's own server, in place of these.
        keys = self.options.get("keys", {})
        configuration |= keys(self) if callable(keys) else keys
        file = self.token_file + ".yaml"
        with open(file, "w", encoding="utf-8") as output:
            json.dump(configuration, output)
        self.run("run", "--config", file)
        self.plain, self.secure = self.wait("two listeners", self.ports)
        self.wait("a response", self.is_ready)

    @staticmethod
    def route(name, path, port, **keys):
        return {"name": name, "match": {"path": path}, "upstream": f"http://127.0.0.1:{port}", "user": "robot", "host": "client"} | keys

    def streams(self):
        """Routes to the HTTP/2 upstream."""
        plain, settings = self.h2.plain.port, {"protocol": "http2"} | self.options.get("route", {})
        short = {"timeouts": {"write": "1s", "response_header": "1s", "response_idle": "1s", "connect": "1s"}}
        secure = self.secure_keys()
        return [
            self.route("h2", "/h2", plain, **settings),
            self.route("host-upstream", "/host-upstream", plain, **settings | {"host": "upstream"}),
            self.route("host-value", "/host-value", plain, **settings | {"host": {"value": "value.example:81"}}),
            self.route("short", "/short", plain, **settings | short),
            self.route("one", "/one", plain, **settings | {"connections_max": 1}),
            self.route("set", "/set", plain, **settings | {
                "set_headers": {"X-Set": "fixed", "X-Key": {"file": self.key_file()}}, "forwarded": "append"}),
            self.route("tls", "/tls", plain, **secure), self.route("tls-http1", "/tls-http1", plain, **secure, protocol="http1"),
            self.route("down", "/down", free_port(), **settings),
            self.route("denied", "/denied", plain, **settings, deny=[{"path": "/denied/secret"}]),
            # Of a row's own server.
            *(self.route(*names, port(self) if callable(port) else port, **keys(self) if callable(keys) else keys)
              for *names, port, keys in self.options.get("routes", ()))]

    def key_file(self):
        """A file with the value of a field."""
        path = self.token_file + ".key"
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(self.key + "\n")
        return path

    def secure_keys(self, **keys):
        """A route's keys for the HTTP/2 upstream with TLS."""
        return {"upstream": f"https://localhost:{self.h2.secure.port}", "tls": {"ca_file": self.certificate[0]}} | keys

    def ports(self):
        lines = [json.loads(line) for line in self.log_text().splitlines() if line.startswith("{") and line.endswith("}")]
        ports = [int(line["address"].rsplit(":", 1)[1]) for line in lines if line.get("event") == "listening"]
        return ports if len(ports) == 2 else None

    def is_ready(self):
        """Over HTTP/1.1: a program without HTTP/2 fails in the rows, not here."""
        with socket.create_connection(("127.0.0.1", self.plain), timeout=patience()) as client:
            client.sendall(f"GET {self.path} HTTP/1.1\r\nHost: {self.authority}\r\nConnection: close\r\n\r\n".encode())
            return client.recv(64).startswith(b"HTTP/1.1 200")

    def write_token(self):
        with open(self.token_file + ".new", "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(self.token)
        os.replace(self.token_file + ".new", self.token_file)

    def renew_token(self):
        """What another program does that renews a token in a file; ends when Lanyard sends the new one."""
        self.change_token()
        self.write_token()
        wait_until("the new token at the upstream", self.sends_token)

    def sends_token(self):
        return self.is_ready() and self.upstream.seen(self.path)[-1].values("authorization") == [f"Bearer {self.token}"]

    def drain(self):
        self.process.send_signal(signal.SIGTERM)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


SERVERS = {"lanyard": Lanyard, "nghttpx": Nghttpx}
