"""curl, nghttp and h2load as clients, nghttpd as upstream. `clients_grpc`, `clients_node` and `clients_browser` have other real ones."""

import os
import re
import tempfile

from programs import Program, run, upstreams
from rows import Failure, expect, row
from servers import free_port, listens
from upstream import MIB, echo, pattern, send

PRIOR = "--http2-prior-knowledge"
LARGE = 5 * MIB


def url(server, path, secure=False):
    return (f"https://localhost:{server.secure}" if secure else f"http://{server.authority}") + path


def curl(server, path, *arguments, secure=False, feed=None):
    """The body, and protocol and status."""
    out = run(server, "curl", "-sS", "--noproxy", "*", "--cacert", server.certificate[0], "-w", "\n%{http_version} %{http_code}",
              *arguments, url(server, path, secure), feed=feed)
    body, _, last = out.rpartition(b"\n")
    return body, last.decode()


def file_of(server, content):
    """A file with this content, which goes with the folder of the run."""
    file, name = tempfile.mkstemp(dir=server.folder)
    with open(file, "wb") as output:
        output.write(content)
    return name


@row("H2", "curl: GET, HEAD, POST and 1 MiB by prior knowledge", quick=True)
def curl_plain(server):
    expect("GET", (b"ok", "2 200"), curl(server, server.path, PRIOR))
    expect("HEAD", "2 200", curl(server, server.path, PRIOR, "--head")[1])
    expect("POST", (b"body", "2 200"), curl(server, server.upstream.on(echo), PRIOR, "--data-binary", "body"))
    body, last = curl(server, server.upstream.on(send(MIB)), PRIOR)
    expect("1 MiB", (True, "2 200"), (body == pattern(0, MIB), last))
    expect("without prior knowledge", (b"ok", "1.1 200"), curl(server, server.path, "--http1.1"))


@row("H1", "curl over TLS chooses h2 by ALPN, and HTTP/1.1 where it is told to", quick=True)
def curl_secure(server):
    expect("with h2", (b"ok", "2 200"), curl(server, server.path, secure=True))
    expect("without", (b"ok", "1.1 200"), curl(server, server.path, "--http1.1", secure=True))


@row("H1", "curl --http2 over plain HTTP, which asks for an upgrade, is served over HTTP/1.1", peer="upgrades")
def curl_upgrade(server):
    expect("GET", (b"ok", "1.1 200"), curl(server, server.path, "--http2"))


@upstreams("H20", "curl: HEAD, 5 MiB up and down, an upload of unknown length, by prior knowledge and over TLS")
def curl_bodies(server, side):
    content = pattern(0, LARGE)
    file = file_of(server, content)
    for secure, protocol in ((False, PRIOR), (True, "--http2")):
        path = side.sized(LARGE)
        expect("HEAD", "2 200", curl(server, path, protocol, "--head", secure=secure)[1])
        expect("GET", (content, "2 200"), curl(server, path, protocol, secure=secure))
        expect("POST", (content, "2 200"), curl(server, side.echo(), protocol, "--data-binary", f"@{file}", secure=secure))
        path = side.echo()
        expect("PUT", (content, "2 200"), curl(server, path, protocol, "-T", "-", secure=secure, feed=content))
        request = side.requests(path)[0]
        expect("method and content-length", ("PUT", []), (request.method, request.values("content-length")))


@upstreams("H12", "curl writes the trailers of a response behind its body", quick=True)
def curl_trailers(server, side):
    out, last = curl(server, side.trailers(), PRIOR, "-D", "-", "--data-binary", "12345")
    head, _, rest = out.partition(b"\r\n\r\n")
    expect("protocol, body and trailers", ("2 200", b"HTTP/2 200", b"bodyx-sum: 5"), (last, head.split()[0] + b" 200", rest.strip()))


# By prior knowledge curl 7.88.1 does not share a connection: 49 of 50 transfers end with status 16, at nghttpd too.
@upstreams("H19", "curl --parallel over TLS: 50 downloads of 200 kB at once on one connection")
def curl_parallel(server, side):
    path, folder = side.sized(200_000), tempfile.mkdtemp(dir=server.folder)
    out = run(server, "curl", "-sS", "--noproxy", "*", "--cacert", server.certificate[0], "--parallel", "--parallel-max", "50", "-w",
              "%{num_connects} %{http_version} %{http_code}\n", "-o", f"{folder}/#1", url(server, path + "?n=[1-50]", True))
    made = [line.split() for line in out.decode().splitlines()]
    expect("protocols and statuses", [["2", "200"]] * 50, [rest for _, *rest in made])
    expect("connections", 1, sum(int(count) for count, *_ in made))
    content = pattern(0, 200_000)
    for name in os.listdir(folder):
        with open(f"{folder}/{name}", "rb") as file:
            expect(f"transfer {name}", True, file.read() == content)
    expect("files", 50, len(os.listdir(folder)))


@row("H2", "nghttp: 20 requests on a connection, with priorities", quick=True)
def nghttp(server):
    out = run(server, "nghttp", "-ns", "-m", "20", url(server, server.path)).decode()
    expect("responses of 200", 20, sum(" 200 " in line for line in out.splitlines()))


@upstreams("H12", "nghttp: an upload with a trailer, by prior knowledge and over TLS")
def nghttp_trailer(server, side):
    file = file_of(server, pattern(0, 300_000))
    for secure in (False, True):
        path = side.trailers()
        out = run(server, "nghttp", "-v", "--no-dep", "-d", file, "--no-content-length", "-H", "te: trailers", "--trailer", "x-mine: yes",
                  url(server, path, secure)).decode("utf-8", "replace")
        seen = set(re.findall(r"\b(x-sum|x-mine): (\w+)", out.rpartition("recv HEADERS frame")[0].rpartition(":status: 200")[2]))
        expect("trailers", {("x-sum", "300000"), ("x-mine", "yes")}, seen)


def load(server, path, requests, *arguments, secure=False):
    """h2load: all requests succeed with 2xx."""
    out = run(server, "h2load", "-n", str(requests), "-t", "1", *arguments, url(server, path, secure)).decode()
    wanted = [f"{requests} succeeded, 0 failed, 0 errored, 0 timeout", f"{requests} 2xx, 0 3xx, 0 4xx, 0 5xx", "Application protocol: h2"]
    for text in wanted:
        if text not in out:
            lines = [line for line in out.splitlines() if line.startswith(("requests:", "status codes:", "Application protocol"))]
            raise Failure(f"expected {text}, seen {lines}")


@row("H19", "h2load: 3,000 requests by 10 connections with 50 streams each")
def h2load(server):
    load(server, server.path, 3000, "-c", "10", "-m", "50")


@row("H20", "h2load: 200 uploads of 64 KiB by 4 connections with 10 streams each")
def h2load_uploads(server):
    load(server, server.path, 200, "-c", "4", "-m", "10", "-d", file_of(server, bytes(65_536)))


@upstreams("H19", "h2load over TLS: 1,000 requests by 4 connections with 64 streams each")
def h2load_secure(server, side):
    load(server, side.ok(), 1000, "-c", "4", "-m", "64", secure=True)


@row("H26", "h2load: 1,000 downloads of 10 kB by 4 connections with 64 streams each, from the HTTP/2 upstream")
def h2load_streams(server):
    load(server, server.h2.on(lambda request: request.reply(200, [], pattern(0, 10_000))), 1000, "-c", "4", "-m", "64")
    for request in server.h2.requests():
        expect("method", "GET", request.method)


def nghttpd(server):
    """The port of a real upstream, whose only file is 20,000 bytes."""
    folder = tempfile.mkdtemp(dir=server.folder)
    os.mkdir(f"{folder}/daemon")
    with open(f"{folder}/daemon/file", "wb") as file:
        file.write(pattern(0, 20_000))
    port = free_port()
    program = Program(server, "nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", folder, str(port))
    program.until("a listening socket", lambda: listens(port))
    return port


@row("H26", "nghttpd as upstream, which allows 100 streams: h2load with 4 connections of 64 streams, and curl over HTTP/1.1",
     own={"routes": [("daemon", "/daemon", nghttpd, {"protocol": "http2"})]}, quick=True)
def nghttpd_upstream(server):
    content = pattern(0, 20_000)
    expect("HTTP/2", (content, "2 200"), curl(server, "/daemon/file", PRIOR))
    expect("HTTP/1.1", (content, "1.1 200"), curl(server, "/daemon/file", "--http1.1"))
    expect("HEAD", "2 200", curl(server, "/daemon/file", PRIOR, "--head")[1])
    expect("a missing file", "2 404", curl(server, "/daemon/none", PRIOR)[1])
    load(server, "/daemon/file", 2000, "-c", "4", "-m", "64")
