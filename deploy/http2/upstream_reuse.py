"""Connections that serve one request after another, on both sides, and what happens while they begin and end."""

import signal

from calls import PlainCall, StreamCall, both, complete, cut, problem, served
from frames import HEADER_TABLE_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE, REFUSED_STREAM, data, frame, goaway, headers
from multiplexed import answer, echo, hold, ok
from rows import Failure, expect, patience, row, table
from upstream import MIB, pattern
from upstream_grpc import call, ended


@row("H3", "one connection of HTTP/1.1, 12 requests of many kinds one after another: each response is its own")
def plain_connection(server):
    mirror, trailing = server.h2.on(echo), server.h2.on(answer(200, [("x-kind", "t")], b"body", [("x-sum", "1")]))
    refusing = server.h2.on(lambda request: request.cancel(2))
    one = PlainCall(server, mirror, method="POST", body=b"first")
    expect("body", b"first", bytes(complete(one).body))
    for number in range(3):
        one.begin(trailing)
        expect("body", b"body", bytes(complete(one).body))
        one.begin(mirror, method="POST", body=b"%d" % number, end=False)
        one.put(b"more", True)
        expect("body", b"%dmore" % number, bytes(complete(one).body))
        one.begin(trailing, method="HEAD")
        complete(one)
        one.begin(refusing, method="POST", body=b"body")
        complete(one, 502)
    one.begin(server.path)
    expect("body", b"ok", bytes(complete(one).body))


@row("H3", "three pipelined requests of HTTP/1.1: the responses come in order, though the upstream responds in the reverse one")
def pipelined(server):
    paths = [server.h2.on() for _ in range(3)]
    one = PlainCall(server, paths[0])
    for path in paths[1:]:
        one.send(f"GET {path} HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
    for number, path in enumerate(paths):
        server.h2.request(path).reply(200, [], b"%d" % number)
        one.until("the response", lambda: one.is_ended)
        expect("body", b"%d" % number, bytes(one.body))
        one.interim, one.head, one.body, one.is_ended, one.left = [], None, bytearray(), False, None
        one.handle_input()


@both("H12", "DATA behind a head that has no body, to HEAD, 204 and 304: no body reaches the client, and its connection stays in step")
def body_forbidden(server, kind):
    for method, status in (("HEAD", 200), ("GET", 204), ("GET", 304)):
        path = server.h2.on(lambda request, status=status: (
            request.respond(status), request.connection.send(data(request.number, b"HTTP/1.1 200 Mine\r\n\r\n", True))))
        made = kind(server, path, method=method)
        made.until("an end", lambda made=made: made.stream.is_over)
        if made.stream.is_ended and made.stream.status == status:
            expect("body", b"", bytes(made.stream.body))
        if isinstance(made, PlainCall) and not made.ended:
            made.begin(server.path)
            made.until("the next response", lambda made=made: made.is_over)
            if made.is_ended:
                expect("the next body", (200, b"ok"), (made.status, bytes(made.body)))
    served(server)


@both("16.5", "an idle connection that ends as a GET is sent: the GET is sent again; a POST gets a 502 or is served")
def stale(server, kind):
    def script(request):
        if len(server.h2.requests(path)) == 1:
            request.connection.close()
        else:
            ok(request)
    for method in ("GET", "POST"):
        served(server, kind=kind)
        path = server.h2.on(script)
        made = kind(server, path, method=method, body=b"body" if method == "POST" else None)
        made.until("an end", lambda made=made: made.stream.is_over)
        # Of another shard it may be the first request of its connection.
        if made.stream.status not in (200, 502):
            raise Failure(f"expected 200 or 502, seen {made.stream}")
    served(server)


@row("H28", "an upstream whose connections begin with GOAWAY: 502 or 503 after a few connections")
def goaway_first(server):
    server.h2.greeting = goaway(0)
    made = StreamCall(server, server.h2.on(hold), method="POST", body=b"body")
    cut(made, 502, 503)
    if len(server.h2.connections) > 10:
        raise Failure(f"expected a few connections, seen {len(server.h2.connections)}")
    server.h2.end_row()
    served(server)


@row("H27", "requests that wait for a place get one behind GOAWAY, on the next connection")
def waiting_goaway(server):
    server.h2.values = ((3, 1),)
    path, connection = server.h2.on(hold, "/one"), server.connect()
    first = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    request.connection.fence()
    others = [StreamCall(server, path, connection=connection) for _ in range(3)]
    others.pop(1).cancel()
    connection.fence()
    request.connection.send(goaway(request.number))
    request.reply(200, [], b"ok")
    complete(first)
    for number, made in enumerate(others, 1):
        server.h2.request(path, number).reply(200, [], b"ok")
        complete(made)


@row("H25", "clients leave while the TLS connection is being opened: those that stay are served")
def gone_opening(server):
    server.h2.secure.is_paused = True
    path, connection = server.h2.on(ok, "/tls"), server.connect()
    try:
        many = [StreamCall(server, path, connection=connection) for _ in range(6)]
        connection.fence()
        for number in (0, 3):
            many[number].cancel()
        connection.fence()
    finally:
        server.h2.secure.is_paused = False
    for number in (1, 2, 4, 5):
        complete(many[number])


@both("H3", "several MiB up and down over TLS")
def secure(server, kind):
    body = pattern(0, 3 * MIB)
    made = kind(server, server.h2.on(echo, "/tls"), method="POST", body=body)
    expect("body", True, complete(made).body == body)


@row("H3", "over TLS: an upstream that offers HTTP/1.1 alone, or no ALPN, is spoken to by HTTP/1.1")
def secure_http1_alone(server):
    for protocols in (["http/1.1"], []):
        server.h2.tls.set_alpn_protocols(protocols or ["x"])
        try:
            made = StreamCall(server, server.h2.on(hold, "/tls"))
            one = server.h2.plain_request()
            one.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            complete(made)
        finally:
            server.h2.tls.set_alpn_protocols(["h2", "http/1.1"])
            server.h2.end_row()


@table("H14", {"zero": ("HEADER_TABLE_SIZE of 0", 0), "small": ("HEADER_TABLE_SIZE of 100", 100),
               "large": ("HEADER_TABLE_SIZE of 2^32 - 1", 2**32 - 1)})
def table_size(server, size):
    server.h2.values = ((HEADER_TABLE_SIZE, size), (MAX_FRAME_SIZE, 2**24 - 1))
    connection, path = server.connect(), server.h2.on(ok)
    for number in range(6):
        complete(StreamCall(server, path, ("x-same", "value"), (f"x-{number}", "v" * 50), connection=connection))
    one = server.h2.requests(path)[0].connection
    if one.decoder.header_table_size > max(size, 0) and size < 4096:
        raise Failure(f"expected a table of {size} bytes at most, seen {one.decoder.header_table_size}")
    for other in (4096, 0, 200):
        one.change_settings((HEADER_TABLE_SIZE, other))
        for _ in range(2):
            complete(StreamCall(server, path, ("x-same", "value"), connection=connection))


@row("H38", "a head beyond the upstream's MAX_HEADER_LIST_SIZE is not sent: 502 with the sizes; 14 for gRPC")
def list_size(server):
    server.h2.values = ((MAX_HEADER_LIST_SIZE, 1000),)
    served(server)
    path, connection = server.h2.on(ok), server.connect()
    complete(StreamCall(server, path, connection=connection))
    stream = problem(StreamCall(server, path, ("x-long", "v" * 2000), connection=connection))
    if b"1000" not in stream.body:
        raise Failure(f"expected the limit in the problem, seen {bytes(stream.body)}")
    if "1000" not in ended(call(server, path, ("x-long", "v" * 2000), connection=connection), 14):
        raise Failure("expected the limit in grpc-message")
    expect("requests", 1, len(server.h2.requests(path)))
    complete(StreamCall(server, path, connection=connection))


@both("H20", "an upstream that takes nothing stops the client's upload, and all arrives in the end")
def backpressure(server, kind):
    server.h2.gives_back = False
    for one in server.h2.connections:
        one.gives_back = False
    path, size = server.h2.on(hold), 24 * MIB
    made = kind(server, path, method="POST", body=b"x", length=size, end=False)
    channel = made if isinstance(made, PlainCall) else made.connection
    request, sent = server.h2.request(path), 1
    still = 0
    while sent < size and still < 30:
        if isinstance(made, PlainCall):
            room = 0 if channel.output else min(65_536, size - sent)
            channel.output += bytes(room)
        else:
            room = max(0, min(made.stream.send_window, channel.send_window, 16_384, size - sent))
            if room:
                channel.send_data(made.stream, bytes(room), sent + room == size)
        sent, still = sent + room, 0 if room else still + 1
        server.h2.pause(0.02 if still else 0)
    if sent > 20 * MIB:
        raise Failure(f"expected the client to be stopped, seen {sent} bytes taken")
    server.h2.gives_back = request.connection.gives_back = True
    request.connection.give_back()
    if isinstance(made, PlainCall):
        made.send(bytes(size - sent))
    elif sent < size:
        channel.write(made.stream, bytes(size - sent))
    server.h2.until("the end of the upload", lambda: request.is_over)
    expect("bytes", size, len(request.body))
    request.reply(200, [], b"ok")
    complete(made)


@row("H36", "a reload while streams are open: they end in order, and new requests are served by new connections", own={})
def reload(server):
    path, connection = server.h2.on(), server.connect()
    many = [StreamCall(server, path, method="POST", body=b"x", end=False, connection=connection) for _ in range(3)]
    server.h2.request(path, 2)
    with open(server.token_file + ".yaml", encoding="utf-8") as file:
        text = file.read()
    with open(server.token_file + ".yaml", "w", encoding="utf-8") as file:
        file.write(text.replace('"protocol": "http2"', '"protocol": "http2", "wait_max": "9s"'))
    server.process.send_signal(signal.SIGHUP)
    server.h2.until("the reload", lambda: "reload" in server.log_text())
    server.h2.pause(0.3)
    later = server.h2.on(ok)
    complete(StreamCall(server, later, connection=connection))
    for request in server.h2.requests(path):
        request.put(b"")
    for number, made in enumerate(many):
        made.put(b"y", True)
        request = server.h2.finished(path, number)
        request.reply(200, [], bytes(request.body))
        expect("body", b"xy", bytes(complete(made).body))


@row("H30", "a reload, and then a drain, under 200 open streams of 4 connections: each call is complete, and the process ends", own={})
def reload_and_drain(server):
    path = server.h2.on()
    connections = [server.connect() for _ in range(4)]
    calls = [StreamCall(server, path, method="POST", body=b"%d" % number, end=False, connection=connections[number % 4])
             for number in range(200)]
    server.h2.until("200 requests", lambda: len(server.h2.requests(path)) == 200)
    with open(server.token_file + ".yaml", encoding="utf-8") as file:
        text = file.read()
    with open(server.token_file + ".yaml", "w", encoding="utf-8") as file:
        file.write(text.replace('"protocol": "http2"', '"protocol": "http2", "wait_max": "9s"'))
    server.process.send_signal(signal.SIGHUP)
    server.h2.until("the reload", lambda: "reload" in server.log_text())
    for call in calls[::2]:
        call.put(b"b")
    server.drain()
    for connection in connections:
        connection.until("GOAWAY", lambda connection=connection: connection.goaways)
    for call in calls:
        call.put(b"c", True)
    for number in range(200):
        request = server.h2.finished(path, number)
        request.reply(200, [], bytes(request.body))
    for number, call in enumerate(calls):
        expect("body", b"%dbc" % number if number % 2 == 0 else b"%dc" % number, bytes(complete(call).body))
    server.process.wait(timeout=patience())


@row("H3", "3,000 requests of 6 clients' connections with 40 streams each, every 7th with a body, every 13th refused once")
def many(server):
    refused = set()

    def script(request):
        number = int(request.values("x-number")[0])
        if number % 13 == 0 and number not in refused:
            refused.add(number)
            return request.cancel(REFUSED_STREAM)
        return request.on_end(lambda request: request.reply(200, [], b"%d" % number + bytes(request.body)))
    path = server.h2.on(script)
    connections, open_calls, number = [server.connect() for _ in range(6)], [], 0
    while number < 3000 or open_calls:
        while number < 3000 and len(open_calls) < 240:
            body = b"b" * number if number % 7 == 0 else None
            open_calls.append((number, body, StreamCall(
                server, path, ("x-number", str(number)), method="POST" if body is not None else "GET", body=body,
                connection=connections[number % 6])))
            number += 1
        first, body, made = open_calls.pop(0)
        expect("body", b"%d" % first + (body or b""), bytes(complete(made).body))


@row("H14", "frames of other extensions, ALTSVC and ORIGIN, are ignored")
def extensions(server):
    def script(request):
        request.connection.send(frame(0xA, 0, b"\0\1ah3=\":1\""), frame(0xC, 0, b"\0\1a"), frame(0x10, 0, b"\0\0\0\1u=1"))
        request.connection.send(headers(request.number, b"\x88", False), frame(0xA, request.number, b"\0\0h3"),
                                data(request.number, b"ok", True))
    expect("body", b"ok", bytes(complete(StreamCall(server, server.h2.on(script))).body))
