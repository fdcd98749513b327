"""Real clients: curl, nghttp, h2load. Each is skipped where it is not installed."""

import shutil
import subprocess

from rows import Failure, Skipped, expect, patience, row
from upstream import MIB, echo, pattern, send


def run(*command, seconds=None):
    if not shutil.which(command[0]):
        raise Skipped(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds or 3 * patience(), stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"expected {command[0]} to end, seen nothing of it") from None
    if done.returncode:
        raise Failure(f"{command[0]}: {(done.stderr or done.stdout).decode('utf-8', 'replace')[-300:]}")
    return done.stdout


def curl(server, path, *arguments, secure=False):
    """The body, and protocol and status."""
    base = f"https://localhost:{server.secure}" if secure else f"http://{server.authority}"
    out = run("curl", "-sS", "--noproxy", "*", "--cacert", server.certificate[0], "-w", "\n%{http_version} %{http_code}", *arguments,
              base + path)
    body, _, last = out.rpartition(b"\n")
    return body, last.decode()


@row("H2", "curl: GET, HEAD, POST and 1 MiB by prior knowledge")
def curl_plain(server):
    prior = "--http2-prior-knowledge"
    expect("GET", (b"ok", "2 200"), curl(server, server.path, prior))
    expect("HEAD", "2 200", curl(server, server.path, prior, "--head")[1])
    expect("POST", (b"body", "2 200"), curl(server, server.upstream.on(echo), prior, "--data-binary", "body"))
    body, last = curl(server, server.upstream.on(send(MIB)), prior)
    expect("1 MiB", (True, "2 200"), (body == pattern(0, MIB), last))
    expect("without prior knowledge", (b"ok", "1.1 200"), curl(server, server.path, "--http1.1"))


@row("H1", "curl over TLS chooses h2 by ALPN, and HTTP/1.1 where it is told to")
def curl_secure(server):
    expect("with h2", (b"ok", "2 200"), curl(server, server.path, secure=True))
    expect("without", (b"ok", "1.1 200"), curl(server, server.path, "--http1.1", secure=True))


@row("H1", "curl --http2 over plain HTTP, which asks for an upgrade, is served over HTTP/1.1", peer="upgrades")
def curl_upgrade(server):
    expect("GET", (b"ok", "1.1 200"), curl(server, server.path, "--http2"))


@row("H2", "nghttp: 20 requests on a connection, with priorities")
def nghttp(server):
    out = run("nghttp", "-ns", "-m", "20", f"http://{server.authority}{server.path}").decode()
    expect("responses of 200", 20, sum(" 200 " in line for line in out.splitlines()))


@row("H19", "h2load: 3,000 requests by 10 connections with 50 streams each")
def h2load(server):
    out = run("h2load", "-n", "3000", "-c", "10", "-m", "50", "-t", "1", f"http://{server.authority}{server.path}").decode()
    if "3000 succeeded, 0 failed" not in out:
        raise Failure(f"expected 3000 succeeded, seen {[line for line in out.splitlines() if 'succeeded' in line]}")


@row("H20", "h2load: 200 uploads of 64 KiB by 4 connections with 10 streams each")
def h2load_uploads(server):
    body = server.certificate[0] + ".body"
    with open(body, "wb") as file:
        file.write(bytes(65_536))
    out = run("h2load", "-n", "200", "-c", "4", "-m", "10", "-t", "1", "-d", body, f"http://{server.authority}{server.path}").decode()
    if "200 succeeded, 0 failed" not in out:
        raise Failure(f"expected 200 succeeded, seen {[line for line in out.splitlines() if 'succeeded' in line]}")
