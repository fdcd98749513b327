"""Lanyard, the emulator and an API, in a folder and at ports of their own."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 60

API = """
import http.server, sys
class API(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = f"{self.path} Authorization: {self.headers['Authorization']}\\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), API).serve_forever()
"""


def free_ports(count):
    """As long as the pages' ports that stand for them, so that the columns of a table stay in line."""
    sockets = []
    for port in range(8600, 9000):
        try:
            sockets.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        if len(sockets) == count:
            break
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def until(condition, what):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {LIMIT} s")
        time.sleep(0.02)


class Programs:
    """The processes of one run. The pages' ports stand for the free ones that are used."""

    PORTS = {"lanyard": 7400, "health": 7401, "emulator": 7490, "api": 9000}

    def __init__(self, binaries):
        self.binaries = os.path.abspath(binaries)
        for name in ["lanyard", "lanyard-emulator"]:
            if not os.access(os.path.join(self.binaries, name), os.X_OK):
                raise SystemExit(f"{self.binaries}/{name} is missing: swift build -c release --product {name}")
        self.processes = []

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="lanyard-pictures-")
        self.ports = dict(zip(self.PORTS, free_ports(len(self.PORTS))))
        self.environment = {
            "PATH": f"{self.binaries}:/usr/local/bin:/usr/bin:/bin", "HOME": self.folder, "NO_COLOR": "1", "COLUMNS": "100",
            "LANYARD_CONFIG": self.file("lanyard.yaml"), "LC_ALL": "C.UTF-8",
        }
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(LIMIT)
        shutil.rmtree(self.folder)

    def file(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(self.inside(text))
        os.chmod(self.file(name), mode)

    def inside(self, text):
        """`text` of a page with the ports and the folder of this run."""
        for name, port in self.PORTS.items():
            text = text.replace(f":{port}", f":{self.ports[name]}")
        return text.replace("/run/demo", self.folder)

    def outside(self, text):
        for name, port in self.PORTS.items():
            text = text.replace(f":{self.ports[name]}", f":{port}")
        return text.replace(self.folder, "/run/demo")

    def start(self, *command, log="log"):
        with open(self.file(log), "a", encoding="utf-8") as output:
            process = subprocess.Popen(
                [self.inside(word) for word in command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output)
        self.processes.append(process)
        return process

    def shell(self, command):
        """What a command prints, as it would be with the pages' ports."""
        result = subprocess.run(
            ["bash", "-c", self.inside(command)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False)
        return self.outside(result.stdout)

    def url(self, name, path):
        return f"http://127.0.0.1:{self.ports[name]}{path}"

    def responds(self, name, path="/"):
        try:
            with urllib.request.urlopen(self.url(name, path), timeout=LIMIT) as response:
                return response.status == 200
        except urllib.error.HTTPError:
            return path == "/"
        except OSError:
            return False

    def control(self, method, path, body=None):
        """A call of the emulator's controls."""
        request = urllib.request.Request(
            self.url("emulator", "/emulator/" + path), method=method, data=json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LIMIT) as response:
            return response.read()

    def start_services(self, *emulator_flags):
        """The API, and the emulator with alice and bob."""
        for name, password in [("alice", "correct-horse"), ("bob", "better-horse")]:
            self.write(f"{name}.password", password, 0o600)
        self.write("api.py", API)
        self.start("python3", "api.py", str(self.ports["api"]))
        self.start(
            "lanyard-emulator", "--listen", "127.0.0.1:7490", "--user", "alice@example.com:alice.password", "--user",
            "bob@example.com:bob.password", *emulator_flags)
        until(lambda: self.responds("api") and self.responds("emulator"), "the API and the emulator")
