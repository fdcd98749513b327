"""Pools with connections of both versions of HTTP: TLS upstreams that agree on one and then on the other, and refused upgrades."""

import time

from calls import PlainCall, StreamCall, complete
from frames import MAX_CONCURRENT_STREAMS
from multiplexed import hold, ok
from rows import Failure, expect, row
from upstream_grpc import MESSAGE, call, ended

UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
           ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]
# One shard: requests of all clients share a pool.
TWO = {"keys": {"shards": 1, "http2": {"ping_after": "1s", "ping_timeout": "1s"}},
       "routes": [("two", "/two", 0, lambda server: server.secure_keys(connections_max=2))]}
ONE_SHARD = {"keys": {"shards": 1}}
HTTP1, BOTH = ["http/1.1"], ["h2", "http/1.1"]


def agree(server, protocols):
    """What later connections of the TLS upstream agree on."""
    server.h2.tls.set_alpn_protocols(protocols)


def respond_plain(connection, status=200, phrase="OK"):
    """A response by HTTP/1.1; the connection stays open."""
    connection.input.clear()
    connection.send(f"HTTP/1.1 {status} {phrase}\r\nContent-Length: 2\r\n\r\nok".encode())


def greet(request):
    """Responds to a call of gRPC."""
    def respond(request):
        request.respond(200, ("content-type", "application/grpc"))
        request.put(MESSAGE, trailers=[("grpc-status", "0")])
    request.on_end(respond)


def called(server, path, **options):
    """A call of gRPC that goes over HTTP/2 and is served."""
    count = len(server.h2.requests(path))
    stream = complete(call(server, path, **options))
    expect("body and trailers", (MESSAGE, [(b"grpc-status", b"0")]), (bytes(stream.body), stream.trailers))
    expect("requests over HTTP/2", count + 1, len(server.h2.requests(path)))


def refused_upgrade(server, path):
    """An upgrade that the upstream refuses by HTTP/1.1, with 403. The connection stays open."""
    made = PlainCall(server, path, *UPGRADE)
    one = server.h2.plain_request()
    if b"\r\nupgrade: websocket\r\n" not in bytes(one.input).lower():
        raise Failure(f"expected an upgrade, seen {bytes(one.input[:200])}")
    respond_plain(one, 403, "Forbidden")
    complete(made, 403)
    expect("upgrades over HTTP/2", 0, len(server.h2.requests(path)))
    return one


def served_at_once(server, path):
    """Within less than a probe may last, and at little CPU."""
    before, made = server.cpu_ticks(), StreamCall(server, path)
    made.until("a response in less than 0.9 s", lambda: made.stream.is_over, 0.9)
    complete(made)
    server.h2.pause(1)
    if (ticks := server.cpu_ticks() - before) > 20:
        raise Failure(f"expected 20 ticks of CPU in 1 s at most, seen {ticks}")


@row("H33", "an idle connection of HTTP/2, silent beyond ping_after, beside a busy one of HTTP/1.1 that is newer: served at once", own=TWO)
def silent_older(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)
    first, path = server.h2.on(hold, "/two"), server.h2.on(ok, "/two")
    made = StreamCall(server, first)
    request = server.h2.request(first)
    request.connection.fence()
    try:
        agree(server, HTTP1)
        busy = StreamCall(server, server.h2.on(hold, "/two"))
        one = server.h2.plain_request()
        request.reply(200, [], b"ok")
        complete(made)
        server.h2.pause(1.5)
        served_at_once(server, path)
        expect("its connection is the first one", True, server.h2.requests(path)[0].connection is request.connection)
        respond_plain(one)
        complete(busy)
    finally:
        agree(server, BOTH)


def beside_plain(server):
    """A busy connection of HTTP/1.1, then one of HTTP/2 that becomes idle: the path of its requests, the busy call, and its request."""
    path = server.h2.on(ok, "/two")
    try:
        agree(server, HTTP1)
        busy = StreamCall(server, server.h2.on(hold, "/two"))
        one = server.h2.plain_request()
    finally:
        agree(server, BOTH)
    complete(StreamCall(server, path))
    return path, busy, one


@row("H33", "the same where the connection of HTTP/1.1 is the older one", own=TWO)
def silent_newer(server):
    path, busy, one = beside_plain(server)
    server.h2.pause(1.5)
    served_at_once(server, path)
    expect("connections of its requests", 1, len({request.connection for request in server.h2.requests(path)}))
    respond_plain(one)
    complete(busy)


@row("H33", "the same where the idle connection does not answer: the request is served by another one after a second", own=TWO)
def silent_dead(server):
    path, busy, one = beside_plain(server)
    old = server.h2.requests(path)[0].connection
    server.h2.pause(1.5)
    old.acknowledges, began, before = False, time.monotonic(), server.cpu_ticks()
    many = [StreamCall(server, path, method="POST", body=b"body") for _ in range(5)]
    for made in many:
        complete(made)
    if not 0.5 <= time.monotonic() - began <= 4 or server.cpu_ticks() - before > 30:
        raise Failure(f"expected a second and 30 ticks at most, seen {time.monotonic() - began:.1f} s, {server.cpu_ticks() - before} ticks")
    expect("the old connection has a further request", 1, len(old.requests))
    respond_plain(one)
    complete(busy)


@row("H5", "an upgrade gets the slot of the silent idle connection of HTTP/2 at once", own=TWO)
def silent_upgrade(server):
    path, busy, one = beside_plain(server)
    server.h2.pause(1.5)
    upgrade = server.h2.on(hold, "/two")
    made = PlainCall(server, upgrade, *UPGRADE)
    server.h2.until("an upgrade", lambda: server.h2.plain_request(1), 3)
    respond_plain(server.h2.plain_request(1), 403, "Forbidden")
    complete(made, 403)
    expect("upgrades over HTTP/2", 0, len(server.h2.requests(upgrade)))
    respond_plain(one)
    complete(busy)


@row("H13", "an HTTP/1.1 connection that a refused upgrade has left idle: calls of gRPC still go over HTTP/2", own=ONE_SHARD)
def grpc_beside_upgrade(server):
    path, connection = server.h2.on(greet), server.connect()
    one = refused_upgrade(server, server.h2.on())
    expect("its end", None, one.ended)
    for _ in range(3):
        called(server, path, connection=connection)
    refused_upgrade(server, server.h2.on())
    called(server, path, connection=connection)
    expect("bytes on the connection of HTTP/1.1", b"", bytes(one.input))


@row("H13", "the same where connections_max is 1", own=ONE_SHARD)
def grpc_beside_upgrade_one(server):
    path, connection = server.h2.on(greet, "/one"), server.connect()
    for _ in range(3):
        refused_upgrade(server, server.h2.on(prefix="/one"))
        called(server, path, connection=connection)


@row("H13", "ordinary requests and calls of gRPC in turn beside an idle HTTP/1.1 connection: each call goes over HTTP/2", own=ONE_SHARD)
def grpc_in_turn(server):
    path, other, connection = server.h2.on(greet), server.h2.on(ok), server.connect()
    one = refused_upgrade(server, server.h2.on())
    for _ in range(4):
        made = StreamCall(server, other, connection=connection)
        made.until("an end or a request by HTTP/1.1", lambda made=made: made.stream.is_over or b"\r\n\r\n" in one.input)
        if not made.stream.is_over:
            respond_plain(one)
        complete(made)
        called(server, path, connection=connection)


@row("H3", "a TLS upstream that agrees on HTTP/1.1 for some connections and on HTTP/2 later: calls of gRPC work again without a reload",
     own=ONE_SHARD)
def agreed_later(server):
    path, connection = server.h2.on(greet, "/tls"), server.connect()
    called(server, path, connection=connection)
    try:
        agree(server, HTTP1)
        server.h2.requests(path)[0].connection.close()
        for _ in range(3):
            ended(call(server, path, connection=connection), 14)
            made = StreamCall(server, server.h2.on(hold, "/tls"), connection=connection)
            one = server.h2.plain_request()
            respond_plain(one)
            complete(made)
    finally:
        agree(server, BOTH)
    expect("bytes on the connection of HTTP/1.1", b"", bytes(one.input))
    for _ in range(3):
        called(server, path, connection=connection)


@row("H5", "upgrades in a pool with connections of both versions, idle and in use, never go over HTTP/2", own=ONE_SHARD)
def upgrades(server):
    for prefix in ("/h2", "/tls"):
        held = server.h2.on(hold, prefix)
        upgrade, connection = server.h2.on(hold, prefix), server.connect()
        refused_upgrade(server, upgrade)
        busy = call(server, held, connection=connection)
        request = server.h2.request(held)
        refused_upgrade(server, upgrade)
        request.reply(200, [], b"ok")
        complete(busy)
        refused_upgrade(server, upgrade)
        called(server, server.h2.on(greet, prefix), connection=connection)
        for one in [one for one in server.h2.connections if one.protocol == "http1"]:
            one.close()
        refused_upgrade(server, upgrade)
        expect("upgrades over HTTP/2", 0, len(server.h2.requests(upgrade)))
        called(server, server.h2.on(greet, prefix), connection=connection)
        for one in [one for one in server.h2.connections if one.protocol == "http1"]:
            one.close()


@row("H5", "an upgrade waits for a place where the one connection is a busy one of HTTP/2, and is not sent there", own=ONE_SHARD)
def upgrade_waits(server):
    held, upgrade = server.h2.on(hold, "/one"), server.h2.on(hold, "/one")
    busy = StreamCall(server, held)
    request = server.h2.request(held)
    made = PlainCall(server, upgrade, *UPGRADE)
    server.h2.pause(0.5)
    request.reply(200, [], b"ok")
    complete(busy)
    one = server.h2.plain_request()
    respond_plain(one, 403, "Forbidden")
    complete(made, 403)
    expect("upgrades over HTTP/2", 0, len(server.h2.requests(upgrade)))
    started = time.monotonic()
    called(server, server.h2.on(greet, "/one"))
    if time.monotonic() - started > 2:
        raise Failure("expected the place of the idle connection at once")
