"""How upstream connections and streams end: GOAWAY, HTTP_1_1_REQUIRED, upgrades, clients that leave."""

from calls import PlainCall, StreamCall, both, complete, cut, served
from frames import CANCEL, ENHANCE_YOUR_CALM, HTTP_1_1_REQUIRED, goaway
from multiplexed import ok
from rows import Failure, expect, row
from upstream import MIB, pattern
from upstream_sharing import arrived, calls, used


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
