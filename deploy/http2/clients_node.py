"""Node's `node:http2` as client, and as upstream."""

import json
import os
import re

from clients import PRIOR, curl, load
from programs import Program, upstreams
from rows import expect, row
from upstream import MIB, endless

FOLDER = os.path.dirname(os.path.abspath(__file__))


def start(server, task, *paths, secure=False):
    base = f"https://localhost:{server.secure}" if secure else f"http://{server.authority}"
    return Program(server, "node", f"{FOLDER}/node_client.mjs", base, server.certificate[0] if secure else "-", task, *paths)


def node(server, task, *paths, secure=False):
    """What the client has seen."""
    line = json.loads(start(server, task, *paths, secure=secure).finish())
    expect("GOAWAYs, protocol", (0, "h2" if secure else "h2c"), (line["goaways"], line["protocol"]))
    return line["result"]


@upstreams("H2", "Node: 60 downloads of 100 kB at once, plain and over TLS")
def streams(server, side):
    for secure in (False, True):
        seen = node(server, "many", side.sized(100_000), secure=secure)
        expect("responses", {"statuses": [200], "lengths": [100_000], "count": 60}, seen)


@upstreams("H20", "Node: three uploads of 5 MiB at once, which come back, plain and over TLS")
def uploads(server, side):
    for secure in (False, True):
        expect("responses", {"statuses": [200] * 3, "equal": [True] * 3}, node(server, "upload", side.echo(), secure=secure))


@upstreams("H12", "Node: trailers both ways, plain and over TLS", quick=True)
def trailers(server, side):
    for secure in (False, True):
        seen = node(server, "trailers", side.trailers(), secure=secure)
        expect("the response", {"status": 200, "body": "body", "trailers": {"x-sum": "5", "x-mine": "yes"}}, seen)


@upstreams("H25", "Node: 20 cancelled downloads end at the upstream, and the session serves the next request")
def cancel(server, side):
    def begin(request):
        request.respond(200)
        request.put(bytes(MIB))
    path = server.upstream.on(endless) if side.name == "http1" else server.h2.on(begin)
    expect("the ends", {"codes": [8], "count": 20, "status": 200, "body": "ok"}, node(server, "cancel", path, side.ok()))
    server.h2.until("the ends of all downloads at the upstream", lambda: [side.is_cut(path, number) for number in range(20)] == [True] * 20)


def upstream(kind):
    def port(server):
        server.node = Program(server, "node", f"{FOLDER}/node_server.mjs", kind, *server.certificate)
        text = server.node.until("its port", lambda: re.search(rb"port (\d+)", server.node.text()))
        server.node_port = int(text[1])
        return server.node_port
    keys = {"protocol": "http2"} if kind == "plain" else lambda server: {
        "upstream": f"https://localhost:{server.node_port}", "tls": {"ca_file": server.certificate[0]}}
    return {"routes": [("node", "/node", port, keys)]}


def check_upstream(server):
    """Bodies, trailers, interim responses and cancelled streams, and sessions that the upstream ends in order after 100 streams."""
    expect("upload", {"statuses": [200] * 3, "equal": [True] * 3}, node(server, "upload", "/node/echo"))
    seen = node(server, "trailers", "/node/trailers")
    expect("trailers", {"status": 200, "body": "body", "trailers": {"x-sum": "5", "x-mine": "yes"}}, seen)
    (seen,) = node(server, "plain", "/node/trailers")
    expect("interim statuses", [103], seen["interim"])
    expect("HTTP/1.1", (b"ok", "1.1 200"), curl(server, "/node/ok", "--http1.1"))
    fields, _ = curl(server, "/node/ok", PRIOR, "-D", "-")
    expect("version at the upstream", b"2.0", re.search(rb"x-version: (\S+)", fields)[1])
    if server.name == "lanyard":
        expect("token at the upstream", f"Bearer {server.token}".encode(), re.search(rb"x-authorization: (.*)\r", fields)[1])
    node(server, "cancel", "/node/endless", "/node/ok")
    server.node.until("20 aborted streams", lambda: server.node.text().count(b"aborted\n") == 20)
    before = server.node.text().count(b"session\n")
    # 32 streams at once: what a session refuses fits into the next one, so that no request is refused by three (H28).
    load(server, "/node/ok", 3000, "-c", "4", "-m", "8")
    made = server.node.text().count(b"session\n") - before
    expect("sessions for 3,000 requests are 29 or more", True, made >= 29)


@row("H29", "Node as upstream by prior knowledge: bodies, trailers, 103, cancelled streams; 3,000 requests at 100 a session",
     own=upstream("plain"))
def upstream_plain(server):
    check_upstream(server)


@row("H3", "the same over TLS, where Node chooses h2 by ALPN", own=upstream("secure"))
def upstream_secure(server):
    check_upstream(server)
