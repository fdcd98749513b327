"""Several requests on one upstream connection: its limits, what it refuses, and how it ends."""

from calls import KINDS, PlainCall, StreamCall, both, complete, cut, served
from frames import (
    CANCEL, ENHANCE_YOUR_CALM, HTTP_1_1_REQUIRED, MAX_CONCURRENT_STREAMS, REFUSED_STREAM, goaway)
from multiplexed import hold, ok
from rows import Failure, expect, row
from upstream import MIB, pattern


def calls(server, count, path=None, **options):
    """Calls on one client's connection."""
    path, connection = path or server.h2.on(), server.connect()
    return path, [StreamCall(server, path, connection=connection, **options) for _ in range(count)]


def arrived(server, path, count):
    server.h2.until(f"{count} requests at the upstream, seen {len(server.h2.requests(path))}", lambda: len(server.h2.requests(path)) >= count)
    return server.h2.requests(path)


def used(server):
    """Connections that carry, or carried, requests."""
    return [connection for connection in server.h2.connections if connection.requests]


@row("H19", "50 requests of a client share one upstream connection, and end in any order")
def shared(server):
    path, many = calls(server, 50)
    requests = arrived(server, path, 50)
    expect("connections", 1, len(used(server)))
    for number, request in enumerate(reversed(requests)):
        request.reply(200, [], b"%d" % number)
    for call in many:
        complete(call)


@row("H26", "before the upstream's SETTINGS at most 100 streams are open; all 120 requests are served in the end")
def before_settings(server):
    server.h2.values = None
    path, many = calls(server, 120)
    arrived(server, path, 100)
    server.h2.pause(0.5)
    for connection in used(server):
        if len(connection.requests) > 100:
            raise Failure(f"expected 100 streams at most, seen {len(connection.requests)}")
        connection.begin_late()
    while any(not call.stream.is_over for call in many):
        before = len(server.h2.requests(path))
        for request in server.h2.requests(path):
            if not request.is_closed and request.connection.acknowledges:
                request.reply(200, [], b"ok")
        server.h2.until("a response or a request", lambda before=before: all(
            call.stream.is_over for call in many) or len(server.h2.requests(path)) > before)
    for call in many:
        complete(call)


@row("H27", "MAX_CONCURRENT_STREAMS of 1: each further request has another connection")
def limit_one(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)
    served(server)
    connection = server.connect()
    path = server.h2.on()
    for number in range(1, 6):
        StreamCall(server, path, connection=connection)
        arrived(server, path, number)[-1].connection.fence()
    requests = server.h2.requests(path)
    expect("connections", 5, len({request.connection for request in requests}))
    for request in requests:
        request.reply(200, [], b"ok")
    for stream in connection.streams.values():
        connection.response(stream, 200)


@row("H27", "8 requests at once at an upstream that takes one stream and refuses the others: all are served")
def limit_one_refuses(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)

    def script(request):
        if len(request.connection.open_requests()) > 1:
            request.cancel(REFUSED_STREAM)
        else:
            ok(request)
    path, many = calls(server, 8, server.h2.on(script))
    for call in many:
        complete(call)


@row("H27", "MAX_CONCURRENT_STREAMS of 1 and connections_max of 1: requests wait for each other")
def limit_one_waits(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)
    connection = server.connect()
    path = server.h2.on(ok, "/one")
    complete(StreamCall(server, path, connection=connection))
    many = [StreamCall(server, path, connection=connection) for _ in range(5)]
    for call in many:
        expect("body", b"ok", bytes(complete(call).body))


@row("H27", "MAX_CONCURRENT_STREAMS of 0, and then of 10: requests wait, and are served")
def limit_zero(server):
    served(server)
    first = used(server)[0]
    first.change_settings((MAX_CONCURRENT_STREAMS, 0))
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 0),)
    path, (call,) = calls(server, 1)
    server.h2.pause(0.3)
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 10),)
    for connection in [connection for connection in server.h2.connections if not connection.ended]:
        connection.change_settings((MAX_CONCURRENT_STREAMS, 10))
    arrived(server, path, 1)[0].reply(200, [], b"ok")
    complete(call)


@row("H27", "an upstream that allows no stream for ever: 502, 503 or 504 within `timeouts`, and no end of connections")
def limit_zero_always(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 0),)
    served_one = StreamCall(server, server.h2.on(hold, "/short"))
    served_one.until("an end", lambda: served_one.stream.is_over or len(server.h2.requests()) > 0, 12)
    if server.h2.requests():
        # The request came before the limit: it is the upstream's to refuse.
        server.h2.requests()[0].cancel(REFUSED_STREAM)
        served_one.until("an end", lambda: served_one.stream.is_over, 12)
    if served_one.stream.status not in (502, 503, 504):
        raise Failure(f"expected 502, 503 or 504, seen {served_one.stream}")
    if len(server.h2.connections) > 5:
        raise Failure(f"expected a few connections, seen {len(server.h2.connections)}")


@row("H27", "a limit that becomes smaller than what is open: no further stream, and the open ones end in order")
def limit_smaller(server):
    path, many = calls(server, 4)
    requests = arrived(server, path, 4)
    requests[0].connection.change_settings((MAX_CONCURRENT_STREAMS, 2))
    _, (further,) = calls(server, 1, path)
    server.h2.pause(0.3)
    expect("streams of the first connection", 4, len(requests[0].connection.requests))
    for request in requests:
        request.reply(200, [], b"ok")
    for call in many:
        complete(call)
    arrived(server, path, 5)[-1].reply(200, [], b"ok")
    complete(further)


@both("H28", "REFUSED_STREAM: GET and POST with a held body are sent again, once")
def refused(server, kind):
    for method, body in (("GET", None), ("POST", b"held"), ("PUT", b"x" * 20_000)):
        def script(request):
            if len(server.h2.requests(path)) == 1:
                request.cancel(REFUSED_STREAM)
            else:
                request.on_end(lambda request: request.reply(200, [], bytes(request.body) + b"yes"))
        path = server.h2.on(script)
        stream = complete(kind(server, path, method=method, body=body))
        expect(f"body of {method}", (body or b"") + b"yes", bytes(stream.body))
        expect("requests", 2, len(server.h2.requests(path)))


@both("H28", "REFUSED_STREAM beside an open stream: the request is sent again")
def refused_beside(server, kind):
    open_path = server.h2.on()
    first = kind(server, open_path)
    arrived(server, open_path, 1)
    path = server.h2.on(lambda request: request.cancel(REFUSED_STREAM) if len(server.h2.requests(path)) == 1 else ok(request))
    complete(kind(server, path, method="POST", body=b"held"))
    arrived(server, open_path, 1)[0].reply(200, [], b"ok")
    complete(first)


@both("H28", "REFUSED_STREAM after a part of an upload that is not held ends in a 502 or is sent again whole")
def refused_upload(server, kind):
    path = server.h2.on()
    body = pattern(0, MIB)
    call = kind(server, path, method="POST", body=body[:300_000], length=MIB, end=False)
    request = server.h2.request(path)
    server.h2.until("the first part", lambda: len(request.body) >= 300_000)
    request.cancel(REFUSED_STREAM)
    call.until("an end", lambda: call.stream.is_over)
    if call.stream.status not in (502, 503):
        raise Failure(f"expected 502 or 503, seen {call.stream}")
    served(server)


@both("H28", "an upstream that refuses every stream: 502 or 503 after a few tries, and no loop")
def refused_always(server, kind):
    path = server.h2.on(lambda request: request.cancel(REFUSED_STREAM))
    for method in ("GET", "POST"):
        call = kind(server, path, method=method, body=b"held" if method == "POST" else None)
        call.until("an end", lambda call=call: call.stream.is_over)
        if call.stream.status not in (502, 503):
            raise Failure(f"expected 502 or 503, seen {call.stream}")
    if not 2 <= len(server.h2.requests(path)) <= 10:
        raise Failure(f"expected 2 to 10 tries, seen {len(server.h2.requests(path))}")
    served(server)


@both("H28", "GOAWAY with a lower last number: the request is sent again on another connection, POST too")
def goaway_lower(server, kind):
    for method, body in (("GET", None), ("POST", b"held")):
        def script(request):
            if len(server.h2.requests(path)) == 1:
                request.connection.send(goaway(request.number - 2 if request.number > 1 else 0))
            else:
                request.on_end(lambda request: request.reply(200, [], bytes(request.body) + b"yes"))
        path = server.h2.on(script)
        stream = complete(kind(server, path, method=method, body=body))
        expect("body", (body or b"") + b"yes", bytes(stream.body))
        requests = server.h2.requests(path)
        expect("requests and connections", (2, 2), (len(requests), len({request.connection for request in requests})))


@both("H28", "an upstream that sends GOAWAY 0 on each connection: 502 or 503, and no loop")
def goaway_always(server, kind):
    path = server.h2.on(lambda request: request.connection.send(goaway(0)))
    call = kind(server, path, method="POST", body=b"held")
    call.until("an end", lambda: call.stream.is_over)
    if call.stream.status not in (502, 503) or len(server.h2.requests(path)) > 10:
        raise Failure(f"expected 502 or 503 after a few tries, seen {call.stream} after {len(server.h2.requests(path))}")
    served(server)


@row("H29", "after GOAWAY the open streams end in order, and new requests have another connection")
def goaway_open(server):
    path, many = calls(server, 3)
    requests = arrived(server, path, 3)
    old = requests[0].connection
    requests[0].respond(200)
    requests[0].put(b"first")
    old.send(goaway(requests[-1].number))
    old.fence()
    served(server)
    _, (later,) = calls(server, 1, path)
    fourth = arrived(server, path, 4)[-1]
    expect("the new one is on the old connection", False, fourth.connection is old)
    fourth.reply(200, [], b"ok")
    complete(later)
    requests[0].put(b"second", True)
    requests[1].reply(200, [], b"ok")
    requests[2].reply(200, [], pattern(0, MIB))
    expect("body", b"firstsecond", bytes(complete(many[0]).body))
    complete(many[1])
    expect("bytes", MIB, len(complete(many[2]).body))
    server.h2.until("the end of the old connection", lambda: old.ended)


@row("H29", "GOAWAY with 2^31 - 1 first, then with the real number, as gRPC servers send it")
def goaway_twice(server):
    path, many = calls(server, 2)
    requests = arrived(server, path, 2)
    old = requests[0].connection
    old.send(goaway(2**31 - 1))
    old.fence()
    old.send(goaway(requests[0].number))
    again = arrived(server, path, 3)[-1]
    expect("connection of the third", False, again.connection is old)
    requests[0].reply(200, [], b"one")
    again.reply(200, [], b"two")
    expect("bodies", (b"one", b"two"), (bytes(complete(many[0]).body), bytes(complete(many[1]).body)))


@row("H29", "GOAWAY ENHANCE_YOUR_CALM, and the end of the connection: open streams get 502, later requests are served")
def goaway_error(server):
    path, many = calls(server, 2, method="POST", body=b"body")
    requests = arrived(server, path, 2)
    requests[0].connection.send(goaway(requests[-1].number, ENHANCE_YOUR_CALM, b"too_many_pings"))
    requests[0].connection.close()
    for call in many:
        cut(call, 502)
    served(server)


@both("H4", "HTTP_1_1_REQUIRED: repeated once by HTTP/1.1 on the same port, and later requests speak HTTP/1.1 at once",
      own={})
def http11_required(server, kind):
    path = server.h2.on(lambda request: request.cancel(HTTP_1_1_REQUIRED))
    for number, body in enumerate((b"held", None)):
        call = kind(server, path, method="POST" if body else "GET", body=body)
        connection = server.h2.plain_request(number)
        if not connection.input.startswith(b"POST " if body else b"GET "):
            raise Failure(f"expected an HTTP/1.1 request, seen {bytes(connection.input[:60])}")
        if body:
            call.until("the body", lambda connection=connection: connection.input.endswith(b"held"))
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        connection.close()
        expect("body", b"ok", bytes(complete(call).body))
    expect("requests over HTTP/2", 1, len(server.h2.requests(path)))


@row("H5", "an upgrade of an HTTP/1.1 client has an HTTP/1.1 connection of its own, and bytes pass both ways")
def upgrade(server):
    served(server)
    path = server.h2.on()
    call = PlainCall(server, path, ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                     ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="))
    connection = server.h2.plain_request()
    if b"\r\nupgrade: websocket\r\n" not in connection.input.lower() or server.token.encode() not in connection.input:
        raise Failure(f"expected the upgrade with the token, seen {bytes(connection.input[:300])}")
    connection.input.clear()
    connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
    call.until("101", lambda: call.status == 101)
    call.send(b"up")
    call.until("bytes at the upstream", lambda: connection.input == b"up")
    connection.send(b"down")
    call.until("bytes at the client", lambda: call.tunnel == b"down")
    expect("connections of HTTP/2", 1, len(used(server)))
    served(server)


@both("H25", "a client that leaves: RST_STREAM CANCEL arrives at once, and the connection serves others")
def gone(server, kind):
    for begins in (False, True):
        path = server.h2.on()
        call = kind(server, path)
        request = server.h2.request(path)
        if begins:
            request.respond(200)
            request.put(b"x" * 1000)
            call.until("the bytes", lambda call=call: len(call.stream.body) == 1000)
        call.cancel()
        server.h2.until("RST_STREAM", lambda request=request: request.reset is not None)
        expect("code", CANCEL, request.reset)
        other = server.h2.on(ok)
        complete(kind(server, other))
        if kind is StreamCall:
            expect("the connection of the next", True, server.h2.requests(other)[-1].connection in used(server))
        expect("the end of the connection", None, request.connection.ended)


@both("H25", "a client that leaves in the middle of an upload: RST_STREAM CANCEL, and never END_STREAM")
def gone_upload(server, kind):
    for options in ({}, {"length": 5000}):
        path = server.h2.on()
        call = kind(server, path, method="POST", body=b"x" * 1000, end=False, **options)
        request = server.h2.request(path)
        server.h2.until("the bytes", lambda request=request: len(request.body) == 1000)
        call.cancel()
        server.h2.until("RST_STREAM", lambda request=request: request.is_over)
        expect("code and END_STREAM", (CANCEL, False), (request.reset, request.is_ended))
    served(server)


@row("H3", "requests of HTTP/1.1 and HTTP/2 clients at once: 40 of each, with bodies in step")
def mixed(server):
    path = server.h2.on(lambda request: request.on_end(lambda request: request.reply(200, [], bytes(request.body))))
    many = [(kind(server, path, method="POST", body=pattern(number, 3000 * number % 70_000)), pattern(number, 3000 * number % 70_000))
            for number in range(40) for kind in KINDS.values()]
    for call, body in many:
        expect("body", True, complete(call).body == body)
