"""Time limits at an HTTP/2 upstream, and sides that stand still."""

import time

from calls import PlainCall, StreamCall, both, complete, cut, problem, served
from frames import CANCEL, ENHANCE_YOUR_CALM, HTTP_1_1_REQUIRED, INITIAL_WINDOW_SIZE, REFUSED_STREAM, goaway
from multiplexed import answer, hold, ok
from rows import Failure, expect, row
from upstream import MIB, pattern
from upstream_life import QUICK, waiting

LARGE = (INITIAL_WINDOW_SIZE, 1 << 30)


def ended_upstream(server, request, *codes):
    """The stream ends by RST_STREAM, and the connection does not."""
    server.h2.until("RST_STREAM at the upstream", lambda: request.reset is not None)
    if request.reset not in codes or request.connection.ended:
        raise Failure(f"expected RST_STREAM {codes} alone, seen {request} {request.connection.ended}")


@both("8", "no response in time: 504, CANCEL to the upstream, and its connection serves the next request")
def response_header(server, kind):
    path = server.h2.on(hold, "/short")
    made = kind(server, path, method="POST", body=b"body")
    request = server.h2.request(path)
    problem(made, 504)
    ended_upstream(server, request, CANCEL)
    served(server, server.h2.on(ok, "/short"), kind)


@both("8", "a response that stands still for response_idle is cut, and CANCEL goes to the upstream")
def response_idle(server, kind):
    path = server.h2.on(hold, "/short")
    made = kind(server, path)
    request = server.h2.request(path)
    request.respond(200)
    request.put(b"x" * 100)
    cut(made)
    expect("bytes", 100, len(made.stream.body))
    ended_upstream(server, request, CANCEL)


@row("H24", "a client that gives no window for timeouts.write is cut, and CANCEL goes to the upstream")
def client_takes_nothing(server):
    path, connection = server.h2.on(hold, "/short"), server.connect((INITIAL_WINDOW_SIZE, 1000))
    connection.gives_back = False
    made = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    request.respond(200)
    request.put(bytes(30_000))
    cut(made)
    ended_upstream(server, request, CANCEL)
    complete(StreamCall(server, server.h2.on(answer(200, [], b"x"), "/short"), connection=connection))


def slow_reader(server, each, end):
    """A client that gives `each` bytes of window every tenth of a second, until `end` says so. Returns the call and the request."""
    path, connection = server.h2.on(hold, "/short"), server.connect((INITIAL_WINDOW_SIZE, 1000))
    connection.gives_back = False
    made = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    request.respond(200)
    request.put(bytes(30_000))
    began = time.monotonic()
    while not made.stream.is_over and not end(time.monotonic() - began):
        server.h2.pause(0.1)
        connection.grant(made.stream, each)
    return made, request


@row("H24", "a client that takes 200 bytes a second is cut after timeouts.write of 1 s, and CANCEL goes to the upstream")
def client_takes_little(server):
    made, request = slow_reader(server, 20, lambda seconds: seconds > 12)
    cut(made)
    ended_upstream(server, request, CANCEL)


@row("H24", "a client that takes 4 KiB a second gets all of it, with timeouts.write of 1 s")
def client_takes_slowly(server):
    made, request = slow_reader(server, 410, lambda seconds: seconds > 3)
    expect("over", False, made.stream.is_over)
    request.put(b"", end=True)
    made.connection.grant(made.stream, 30_000)
    made.connection.until("the end", lambda: made.stream.is_over)
    expect("bytes", 30_000, len(made.stream.body))
    expect("reset", None, made.stream.reset)


@both("H24", "an upstream whose socket stands still: 504 after timeouts.write, and others are served on another connection")
def upstream_reads_nothing(server, kind):
    server.h2.values = (LARGE,)
    path, other = server.h2.on(hold, "/short"), server.h2.on(ok, "/short")
    made = kind(server, path, method="POST", body=b"x", length=64 * MIB, end=False)
    request = server.h2.request(path)
    request.connection.send(b"")
    request.connection.change_settings()
    request.connection.output += bytes.fromhex("000004080000000000") + (1 << 30).to_bytes(4, "big")
    request.connection.flush()
    request.connection.fence()
    request.connection.is_paused = True
    channel, began = made if kind is PlainCall else made.connection, time.monotonic()
    while not made.stream.is_over:
        if time.monotonic() - began > 12:
            raise Failure(f"expected 504 after 1 s of no progress, seen nothing for 12 s: {made.stream}")
        if kind is PlainCall:
            channel.output += bytes(1 << 18) if len(channel.output) < 1 << 18 else b""
        elif (room := min(made.stream.send_window, channel.send_window, 16_384)) > 0:
            channel.send_data(made.stream, bytes(room))
        server.h2.pause(0.01)
    cut(made, 504)
    served(server, other)
    request.connection.is_paused = False


@row("H20", "heads, DATA and trailers that wait for a client that does not read arrive whole and in order")
def kept(server):
    big, connection = server.h2.on(), server.connect(LARGE)
    connection.grant(None, 1 << 30)
    one = StreamCall(server, big, connection=connection)
    filler = server.h2.request(big)
    path = server.h2.on()
    two = StreamCall(server, path, ("te", "trailers"), connection=connection)
    request = server.h2.request(path)
    connection.fence()
    connection.is_paused = True
    filler.respond(200)
    filler.put(bytes(24 * MIB), True)
    server.h2.pause(1)
    for number in range(3):
        request.respond(103, ("link", f"</{number}>"))
    request.respond(200, ("x-kind", "kept"))
    request.put(pattern(0, 30_000), trailers=[("x-sum", "1")])
    server.h2.pause(0.5)
    connection.is_paused = False
    stream = complete(two)
    expect("interim, body and trailers", (3, True, [(b"x-sum", b"1")]),
           (len(stream.interim), stream.body == pattern(0, 30_000), stream.trailers))
    expect("bytes of the other", 24 * MIB, len(complete(one).body))


@row("H15", "the same with an upstream that resets the stream at the end: what came arrives, and then the reset")
def kept_reset(server):
    big, connection = server.h2.on(), server.connect(LARGE)
    connection.grant(None, 1 << 30)
    StreamCall(server, big, connection=connection)
    filler = server.h2.request(big)
    paths = [server.h2.on() for _ in range(3)]
    many = [StreamCall(server, path, connection=connection) for path in paths]
    requests = [server.h2.request(path) for path in paths]
    connection.fence()
    connection.is_paused = True
    filler.respond(200)
    filler.put(bytes(24 * MIB), True)
    server.h2.pause(1)
    requests[0].respond(200)
    requests[0].put(bytes(1000))
    requests[0].cancel(2)
    requests[1].cancel(REFUSED_STREAM)
    requests[2].respond(103)
    requests[2].cancel(CANCEL)
    server.h2.pause(0.3)
    connection.is_paused = False
    cut(many[0])
    cut(many[2], 502)
    server.h2.until("the refused one again, or its end", lambda: len(server.h2.requests(paths[1])) == 2 or many[1].stream.is_over)
    if len(server.h2.requests(paths[1])) == 2:
        server.h2.requests(paths[1])[1].reply(200, [], b"ok")
    complete(many[1])


@both("12.2", "HTTP/1.0 and HTTP/1.1 with Connection: close: a response of unknown length ends with the connection")
def close(server, kind):
    if kind is not PlainCall:
        return served(server)
    path = server.h2.on(lambda request: (request.respond(200), request.put(b"body", trailers=[("x-sum", "1")])))
    one = PlainCall(server, server.path)
    complete(one)
    one.begin(path, ("Connection", "close"))
    expect("body", b"body", bytes(complete(one).body))
    old = PlainCall(server, server.path)
    complete(old)
    old.head, old.body, old.is_ended, old.left, old.is_chunked = None, bytearray(), False, None, False
    old.send(f"GET {path} HTTP/1.0\r\nHost: {server.authority}\r\n\r\n".encode())
    stream = complete(old)
    expect("body and transfer-encoding", (b"body", []), (bytes(stream.body), stream.values("transfer-encoding")))
    return None


@row("H5", "an upgrade where connections_max is 1 and the one connection is an idle one of HTTP/2")
def upgrade_slot(server):
    served(server, server.h2.on(ok, "/one"))
    path = server.h2.on(hold, "/one")
    made = PlainCall(server, path, ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                     ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="))
    connection = server.h2.plain_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    expect("body", b"ok", bytes(complete(made).body))


@both("17.1", "a 401 with a body of 4 MiB, one that never ends, and one that is reset: the replay comes with the renewed token")
def replay_large(server, kind):
    for how in ("large", "endless", "reset"):
        def script(request, how=how):
            if len(server.h2.requests(path)) > 1:
                return request.on_end(lambda request: request.reply(200, [], bytes(request.body) + b"yes"))
            server.renew_token()
            request.respond(401, ("www-authenticate", "Bearer"))
            request.put(bytes(4 * MIB if how == "large" else 1000), how == "large")
            return request.cancel(2) if how == "reset" else None
        path = server.h2.on(script)
        made = kind(server, path, method="POST", body=b"held")
        made.until("an end", lambda made=made: made.stream.is_over)
        if made.stream.status != 200 or made.stream.body != b"heldyes":
            raise Failure(f"{how}: expected the replay's response, seen {made.stream}")


@both("H4", "HTTP_1_1_REQUIRED after a part of an upload that is not held is a 502", own={})
def http11_required_upload(server, kind):
    path = server.h2.on()
    made = kind(server, path, method="POST", body=pattern(0, 200_000), length=MIB, end=False)
    request = server.h2.request(path)
    server.h2.until("the first part", lambda: len(request.body) == 200_000)
    request.cancel(HTTP_1_1_REQUIRED)
    made.until("an end", lambda: made.stream.is_over)
    expect("status", 502, made.stream.status)


@row("H32", "GOAWAY ENHANCE_YOUR_CALM doubles the time before a PING", own=QUICK)
def calm(server):
    made, request = waiting(server)
    server.h2.until("PING", lambda: request.connection.count("PING"), 10)
    request.reply(200, [], b"ok")
    complete(made)
    request.connection.send(goaway(request.number, ENHANCE_YOUR_CALM, b"too_many_pings"))
    server.h2.until("the end of the connection", lambda: request.connection.ended)
    began = time.monotonic()
    made, request = waiting(server, connection=made.connection)
    server.h2.until("PING", lambda: request.connection.count("PING"), 10)
    if not 1.8 <= time.monotonic() - began <= 4:
        raise Failure(f"expected a PING after 2 s, seen it after {time.monotonic() - began:.1f} s")
    request.reply(200, [], b"ok")
    complete(made)
