"""Two programs, one with the admin API on a unix socket and one with it on TCP, between the peers, and what is asked of them."""

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import tempfile
import time

from mutator import MARK
from peers import APP, HostileService, HostileUpstream, Service, Upstream
from reactor import READ, Suspension
from streams import Stream, TLSStream

ADMIN_TOKEN = MARK.decode() + "Admin-0123456789abcdef0123456789abcdef"
START_SECONDS = 60
LOG_KEPT_BYTES = 1 << 20
# Users of the good identity: those of the checks, and those that messages name.
CONTROLS, VICTIMS = ["control", "sink", "up"], ["victim1", "victim2", "victim3"]
# Users of the hostile identities.
HOSTILE, HOSTILE_TLS = ["h1", "h2", "h3", "h4"], ["t1", "t2", "t3"]
CRASH = re.compile(rb"Fatal error|AddressSanitizer|ThreadSanitizer|UndefinedBehavior|runtime error:|Illegal instruction|\*\*\* |Assertion")


def die_with_parent():
    """The kernel ends the program when this process ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def openssl(*arguments, folder):
    subprocess.run(["openssl", *arguments], cwd=folder, stdin=subprocess.DEVNULL, check=True, capture_output=True)


def make_certificates(folder):
    """An authority, and a certificate of it for servers and one for clients."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority", folder=folder)
    for name, purpose in [("server", "serverAuth"), ("client", "clientAuth")]:
        with open(f"{folder}/{name}.ext", "w", encoding="ascii") as file:
            file.write(f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={purpose}\n")
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}", folder=folder)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{name}.ext", "-out", f"{name}.pem", folder=folder)


def server_context(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
    return context


def client_context(folder, version=None, certificate=False):
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    context.set_alpn_protocols(["http/1.1"])
    if version:
        context.minimum_version = context.maximum_version = version
    if certificate:
        context.load_cert_chain(f"{folder}/client.pem", f"{folder}/client.key")
    return context


class Bench:
    """The folder, the peers and the programs. `findings` collects what any of them has seen."""

    def __init__(self, reactor, program, make):
        self.reactor, self.findings = reactor, []
        self.folder = tempfile.mkdtemp(prefix="lm-")
        make_certificates(self.folder)
        self.context = client_context(self.folder)
        served = server_context(self.folder)
        of = self.of
        self.upstreams = {name: Upstream(reactor, self.findings, name, of(name)) for name in ["control", "sink"]}
        self.upstreams["victim"] = Upstream(
            reactor, self.findings, "victim", lambda tokens, match: match and match[1] == "Good" and match[2] not in CONTROLS)
        self.upstreams["hostile"] = Upstream(
            reactor, self.findings, "hostile", lambda tokens, _: len(tokens) == 1 and MARK + b"Good" not in tokens[0])
        self.bad = {"plain": HostileUpstream(reactor, self.findings, "plain", of("up")),
                    "tls": HostileUpstream(reactor, self.findings, "tls", of("up"), context=served)}
        self.good = Service(reactor, self.findings, "Good")
        self.services = [HostileService(reactor, self.findings, "Hostile", make),
                         HostileService(reactor, self.findings, "Hostile", make, context=served)]
        self.write("good-password", self.good.password)
        self.write("hostile-password", self.services[0].password)
        self.write("admin-token", ADMIN_TOKEN)
        self.write("store-key", "0123456789abcdef0123456789abcdef")
        os.mkdir(f"{self.folder}/store", 0o700)
        self.programs = [Program(self, program, "unix", f"address: \"unix:{self.folder}/admin.sock\""),
                         Program(self, program, "tcp", f"address: \"127.0.0.1:0\", token_file: {self.folder}/admin-token")]

    @staticmethod
    def of(user):
        return lambda tokens, match: match is not None and match[1] == "Good" and match[2] == user

    def write(self, name, text):
        path = f"{self.folder}/{name}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def configuration(self, admin, name):
        folder, users = self.folder, []
        for identity, names, password in [("good", CONTROLS + VICTIMS, "good"), ("hostile", HOSTILE, "hostile"),
                                          ("hostiletls", HOSTILE_TLS, "hostile")]:
            users += [f"  {user}: {{identity: {identity}, login: {{email_password: {{email: {user}@example.com, "
                      f"password_file: {folder}/{password}-password}}}}}}" for user in names]
        port = {upstream: server.port for upstream, server in {**self.upstreams, **self.bad}.items()}
        store = f"store: {{path: {folder}/store/sessions, key_file: {folder}/store-key}}" if name == "unix" else ""
        return f"""
listeners:
  - {{address: "127.0.0.1:0"}}
  - {{address: "127.0.0.1:0", tls: {{certificate_file: {folder}/server.pem, key_file: {folder}/server.key}}}}
  - address: "127.0.0.1:0"
    tls: {{certificate_file: {folder}/server.pem, key_file: {folder}/server.key, client_ca_file: {folder}/ca.pem}}
health: {{address: "127.0.0.1:0"}}
admin: {{{admin}}}
identities:
  good: {{app_services: {{app_id: {APP}, base_url: "http://127.0.0.1:{self.good.port}"}}}}
  hostile: {{app_services: {{app_id: {APP}, base_url: "http://127.0.0.1:{self.services[0].port}"}}}}
  hostiletls:
    app_services: {{app_id: {APP}, base_url: "https://127.0.0.1:{self.services[1].port}"}}
    tls: {{ca_file: {folder}/ca.pem}}
users:
{chr(10).join(users)}
active_user: victim2
routes:
  - {{name: control, match: {{path: /control}}, user: control, upstream: "http://127.0.0.1:{port["control"]}"}}
  - {{name: sink, match: {{path: /sink}}, user: sink, upstream: "http://127.0.0.1:{port["sink"]}"}}
  - {{name: victim, match: {{path: /victim}}, user: victim1, upstream: "http://127.0.0.1:{port["victim"]}"}}
  - {{name: hostile, match: {{path: /hostile}}, user: h1, upstream: "http://127.0.0.1:{port["hostile"]}"}}
  - {{name: hostiletls, match: {{path: /hostiletls}}, user: t1, upstream: "http://127.0.0.1:{port["hostile"]}"}}
  - name: plain
    match: {{path: /plain}}
    user: up
    upstream: "http://127.0.0.1:{port["plain"]}"
    timeouts: {{response_header: 1s, response_idle: 1s}}
  - name: tls
    match: {{path: /tls}}
    user: up
    upstream: "https://127.0.0.1:{port["tls"]}"
    tls: {{ca_file: {folder}/ca.pem}}
    timeouts: {{response_header: 1s, response_idle: 1s}}
log: {{format: json}}
{store}
"""

    async def start(self):
        for program in self.programs:
            await program.start()

    async def stop(self):
        for program in self.programs:
            await program.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Program:
    """One `lanyard run`, its log, and what is asked of it."""

    def __init__(self, bench, program, name, admin):
        self.bench, self.program, self.name, self.admin_keys = bench, program, name, admin
        self.reactor = bench.reactor
        self.config = bench.write(f"{name}.yaml", bench.configuration(admin, name))
        self.process, self.output = None, -1
        # What has not been looked at, and the end of what has.
        self.written, self.last_log = bytearray(), b""

    async def start(self):
        self.output, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.process = subprocess.Popen([self.program, "run", "--config", self.config], stdin=subprocess.DEVNULL, stdout=write,
                                        stderr=write, start_new_session=True, preexec_fn=die_with_parent)
        os.close(write)
        self.reactor.spawn(self.read_log(), lambda _: None, patience=None)
        end = time.monotonic() + START_SECONDS
        while True:
            lines = [json.loads(line) for line in self.written.split(b"\n")[:-1] if line.startswith(b"{")]
            found = [(line["listener"], line["address"]) for line in lines if line.get("event") == "listening"]
            if len(found) == 5:
                break
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"lanyard does not start: {self.written.decode()}")
            await self.reactor.sleep(0.05)
        self.plain, self.tls, self.mutual = [self.place(address) for listener, address in found if listener == "data"]
        self.health = self.place(dict(found)["health"])
        self.admin = self.place(dict(found)["admin"])
        while True:
            status = (await self.ask(self.health, "GET", "/readyz"))[0]
            if status == 200:
                return
            if time.monotonic() > end:
                raise SystemExit(f"lanyard is not ready: {self.written.decode()}")
            await self.reactor.sleep(0.05)

    @staticmethod
    def place(address):
        if address.startswith("unix:"):
            return address[5:]
        host, port = address.rsplit(":", 1)
        return host, int(port)

    @staticmethod
    def host(address):
        return "lanyard" if isinstance(address, str) else "%s:%d" % address

    def request(self, address, method, target, body=None, fields=""):
        text = f"{method} {target} HTTP/1.1\r\nHost: {self.host(address)}\r\n{fields}"
        if address == self.admin and self.name == "tcp":
            text += f"Authorization: Bearer {ADMIN_TOKEN}\r\n"
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            text += f"Content-Length: {len(data)}\r\n"
        return text.encode() + b"\r\n" + (data or b"")

    async def ask(self, address, method, target, body=None, stream=None):
        """Status, fields, body and whether the connection may be used again; on a connection of its own, unless one is given."""
        own = stream or Stream.connect(self.reactor, address)
        try:
            await own.send(self.request(address, method, target, body))
            response = await own.read_response(method.encode())
        finally:
            if not stream:
                own.close()
        if response is None:
            raise ConnectionResetError(f"no response to {method} {target} of {self.name}")
        return response

    async def call(self, method, target, body=None):
        """A call of the admin API: status and the value of its JSON."""
        status, _, text, _ = await self.ask(self.admin, method, target, body)
        return status, json.loads(text) if text else None

    async def ask_tls(self, target):
        raw = Stream.connect(self.reactor, self.tls)
        try:
            stream = TLSStream(self.reactor, raw.socket, self.bench.context, name="localhost")
            await stream.handshake()
            return await self.ask(self.tls, "GET", target, stream=stream)
        finally:
            raw.close()

    async def metrics(self):
        text = (await self.ask(self.health, "GET", "/metrics"))[2].decode()
        return {name: float(value) for name, value in re.findall(r"^(\w+) ([0-9.e+]+)$", text, re.M)}

    async def read_log(self):
        """Keeps what the program writes, until `take_log`."""
        os.set_blocking(self.output, False)
        while True:
            try:
                part = os.read(self.output, 1 << 20)
            except BlockingIOError:
                await Suspension(READ, self.output)
                continue
            if not part:
                return
            self.written += part

    def take_log(self):
        """The whole lines since the last look."""
        end = self.written.rfind(b"\n") + 1
        data = bytes(self.written[:end])
        del self.written[:end]
        self.last_log = (self.last_log + data)[-LOG_KEPT_BYTES:]
        return data

    async def stop(self):
        if not self.process or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + START_SECONDS
        while self.process.poll() is None:
            if time.monotonic() > end:
                self.process.kill()
                self.process.wait()
                raise SystemExit(f"{self.name} does not end")
            await self.reactor.sleep(0.02)
