"""What `run` and `cost` share for HTTP/2: the scenarios, their load (h2load), and the upstream that speaks it (nghttpd)."""

import os
import re
import subprocess
from dataclasses import dataclass

import bench

# As long as a signed token: as a literal it is the largest part of a request.
TOKEN = "benchmark-" + "token" * 140
MEGABYTE = 1 << 20
# Of all bodies that are sent and received, by the end of the path.
FILES = {"0": b"ok", str(MEGABYTE): bytes(MEGABYTE), "message.grpc": b"\0\0\0\0\x5f" + b"x" * 95}
# At which ends the proxies speak HTTP/2, and arguments of nghttpd; without them the upstream is that of HTTP/1.1.
SIDES = {"http2-listener": (bench.Ends(listener=True), []),
         "http2-both": (bench.Ends(listener=True, upstream=True), ["--max-concurrent-streams=1000"]),
         "grpc": (bench.Ends(listener=True, upstream=True), ["--max-concurrent-streams=1000", "--trailer=grpc-status: 0"])}
TOOLS = ["h2load", "nghttpd"]


@dataclass(frozen=True)
class Scenario(bench.Scenario):
    """`load`: arguments of h2load. It sends no Authorization: nghttpx adds one and does not replace the client's."""

    path: str = "0"
    # Of each round of `run`.
    requests: int = 20000
    # The file of FILES that a request has as its body.
    upload: str = ""
    # Of each response; 0 for an HTTP/1.1 upstream, which sends as many bytes as the path says.
    body: int = 0


GRPC = "-c 4 -m 64 -H content-type:application/grpc -H te:trailers"
SCENARIOS = {
    "h2s1": Scenario("4 × 1 stream to HTTP/1.1", "-c 4 -m 1", "http2-listener"),
    "h2s64": Scenario("4 × 64 streams to HTTP/1.1", "-c 4 -m 64", "http2-listener"),
    "h1c64": Scenario("HTTP/1.1, 64 connections", "--h1 -c 64", "http2-listener"),
    "h2both1": Scenario("4 × 1 stream, HTTP/2 on both sides", "-c 4 -m 1", "http2-both", body=2),
    "h2both64": Scenario("4 × 64 streams, HTTP/2 on both sides", "-c 4 -m 64", "http2-both", body=2),
    "h2response-1m": Scenario("4 × 1 response of 1 MiB, both sides", "-c 4 -m 1", "http2-both", path=str(MEGABYTE),
                              requests=400, body=MEGABYTE),
    "h2upload-1m": Scenario("4 × 1 upload of 1 MiB, both sides", "-c 4 -m 1", "http2-both", requests=400,
                            upload=str(MEGABYTE), body=2),
    "h2grpc": Scenario("4 × 64 gRPC calls of 100 bytes, both sides", GRPC, "grpc", path="message.grpc",
                       upload="message.grpc", body=100),
}


def setting(side, folder, files):
    return bench.Setting(folder, files, http2=SIDES[side][0], token=TOKEN)


def make_files(folder):
    """What h2load and nghttpd read."""
    os.makedirs(f"{folder}/bodies", exist_ok=True)
    for name, content in FILES.items():
        with open(f"{folder}/bodies/{name}", "wb") as file:
            file.write(content)
    bench.write(f"{folder}/mime-types", "application/grpc grpc\n")


def start_upstream(side, setting, cpu=None):
    """Sets the port of the setting. nghttpd takes requests without the token, too."""
    ends, arguments = SIDES[side]
    make_files(setting.files)
    if not ends.upstream:
        return bench.start_upstream(setting, cpu)
    setting.upstream = bench.free_port()
    command = [bench.find("nghttpd"), "--no-tls", "-a", "127.0.0.1", "-d", f"{setting.files}/bodies",
               f"--mime-types-file={setting.files}/mime-types", *arguments, str(setting.upstream)]
    return bench.Program(command, setting.upstream, f"{setting.folder}/nghttpd.log", cpu=cpu)


def load(folder, port, name, _flag, requests, cpu=None):
    """Runs so many requests, and returns what h2load has measured. One that failed ends the run."""
    scenario = SCENARIOS[name]
    pinned = ["taskset", "-c", str(cpu)] if cpu is not None and bench.find("taskset") else []
    upload = ["-d", f"{folder}/bodies/{scenario.upload}"] if scenario.upload else []
    command = [bench.find("h2load"), "-t", "1", "-N", "60", "-n", str(requests), *scenario.load.split(), *upload,
               f"http://127.0.0.1:{port}/{scenario.path}"]
    output = subprocess.run([*pinned, *command], capture_output=True, text=True, check=False).stdout
    seconds = re.search(r"^finished in ([\d.]+)(m?)s", output, re.M)
    succeeded = re.search(r"^status codes: (\d+) 2xx", output, re.M)
    received = re.search(r"\((\d+)\) data$", output, re.M)
    # The bytes tell a response from gRPC's error, which is a 200 without a message.
    expected = requests, requests * scenario.body
    if not seconds or (int(succeeded[1]), int(received[1])) != expected:
        raise RuntimeError(f"{name}: {output[-2000:]}")
    return {"requests": requests, "errors": 0, "seconds": float(seconds[1]) / (1000 if seconds[2] else 1)}
