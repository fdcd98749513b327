"""Faults of HTTP/2 towards clients, and in its settings, that a review has found: each row fails on the program as it was before."""

from calls import PlainCall, StreamCall, complete
from frames import END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PROTOCOL_ERROR, data, frame, headers, ping
from multiplexed import echo, hold, ok
from rows import Failure, expect, row
from upstream import MIB, pattern
from upstream_grpc import MESSAGE, call
from upstream_honest import alive

SHORT = {"keys": {"limits": {"header_timeout": "1s"}}}


# Windows of other sizes

@row("H19", "http2.stream_window of 16 MiB: HTTP/2 works on both sides", own={"keys": {"http2": {"stream_window": "16MiB"}}})
def window_large(server):
    exchange_all(server, 16 * MIB)


@row("H19", "http2.streams_max of 10,000 and stream_window of 256 KiB: HTTP/2 works on both sides",
     own={"keys": {"http2": {"streams_max": 10_000, "stream_window": "256KiB"}}})
def window_product(server):
    exchange_all(server, 256 << 10)


def exchange_all(server, window):
    """Both sides announce the window, and bodies pass in both directions."""
    connection, body = server.connect(), pattern(0, 3 * MIB)
    for path in (server.h2.on(echo), server.h2.on(echo, "/tls")):
        made = StreamCall(server, path, method="POST", body=body, connection=connection)
        expect("body", True, complete(made).body == body)
        one = server.h2.requests(path)[0].connection
        expect("windows", (window, window), (connection.peer.get(INITIAL_WINDOW_SIZE), one.peer.get(INITIAL_WINDOW_SIZE)))
    complete(PlainCall(server, server.h2.on(ok)))
    complete(StreamCall(server, server.path, connection=connection))


# The end of a request of known length

@row("H12", "HTTP/2 to HTTP/2: trailers of a request of known length that come 0.3 s behind its last byte pass")
def trailers_late(server):
    path, connection = server.h2.on(echo), server.connect()
    stream = connection.open(connection.fields(path, ("content-length", "4"), ("te", "trailers"), method="POST"), end=False)
    connection.send_data(stream, b"body")
    server.h2.clients.append(connection)
    server.h2.pause(0.3)
    connection.send(headers(stream.number, connection.encode([("x-sum", "1")])))
    connection.response(stream, 200)
    request = server.h2.finished(path)
    expect("body and trailers", (b"body", [(b"x-sum", b"1")]), (bytes(request.body), request.trailers))


# Heads with a fault, and half ones

def faulty_heads(connection, path):
    """Heads that the codec itself refuses."""
    fields = connection.fields(path)
    yield "duplicate :path", [*fields, (":path", path)]
    yield "upper-case name", [*fields, ("X-Upper", "value")]
    for name in (":method", ":scheme", ":path"):
        yield f"no {name}", [field for field in fields if field[0] != name]
    yield "unknown pseudo-field", [*fields, (":other", "value")]
    yield "pseudo-field behind others", [*fields[:3], ("x-name", "value"), fields[3]]
    yield "empty :path", [*fields[:3], (":path", "")]
    yield "connection", [*fields, ("connection", "close")]


@row("H14", "a head with a fault ends its stream alone: the connection still serves behind limits.header_timeout", own=SHORT)
def faulty(server):
    connection = server.connect()
    names = [name for name, _ in faulty_heads(connection, server.path)]
    made = {}
    for name in names:
        connection = made[name] = server.connect()
        refuse(server, connection, name)
    server.h2.pause(1.7)
    for name, connection in made.items():
        expect(f"end behind the {name}", (None, []), (connection.ended, connection.goaways))
        connection.get(server.path)
        complete(StreamCall(server, server.h2.on(ok), connection=connection))


def refuse(server, connection, name):
    """Sends this faulty head."""
    fields = dict(faulty_heads(connection, server.path))[name]
    connection.refused(connection.open(fields), PROTOCOL_ERROR, statuses=(400,))


@row("H14", "heads with a fault of all kinds on one connection, between requests in progress: only their streams end", own=SHORT)
def faulty_all(server):
    connection, path = server.connect(), server.h2.on(hold)
    open_call = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    for name, _ in list(faulty_heads(connection, server.path)):
        refuse(server, connection, name)
        connection.get(server.path)
    server.h2.pause(1.7)
    request.reply(200, [], b"ok")
    complete(open_call)
    connection.get(server.path)


def half(server, connection):
    """HEADERS without END_HEADERS, and nothing behind them: GOAWAY header_timeout."""
    connection.fence()
    block = connection.encode(connection.fields(server.path))
    connection.send(frame(HEADERS, connection.stream().number, block, END_STREAM))
    connection.until("an end of the connection", lambda: connection.ended, 6)
    debug = [text for _, _, text in connection.goaways]
    if not debug or b"header_timeout" not in debug[-1]:
        raise Failure(f"expected GOAWAY header_timeout, seen {connection.goaways}")


@row("8", "half a head, and nothing behind it: GOAWAY header_timeout", own=SHORT)
def half_head(server):
    half(server, server.connect())
    connection = server.connect()
    connection.get(server.path)
    half(server, connection)
    server.lives()


@row("8", "half a head behind faulty ones: the same", own=SHORT)
def half_head_behind(server):
    connection = server.connect()
    for name, _ in list(faulty_heads(connection, server.path)):
        refuse(server, connection, name)
    half(server, connection)
    server.lives()


# A PING for each DATA frame, as grpc-go estimates the capacity of the way

COUNT = 5000


def ping_for_data(endpoint):
    """The endpoint sends a PING for each DATA frame that comes."""
    handle = endpoint.handle_data

    def handle_data(stream, flags, payload):
        handle(stream, flags, payload)
        endpoint.output += ping()
    endpoint.handle_data = handle_data


def begun(server):
    """A call of gRPC in both directions."""
    path = server.h2.on()
    made = call(server, path, body=b"", end=False)
    request = server.h2.request(path)
    request.respond(200, ("content-type", "application/grpc"))
    return made, request


def finish(server, made, request):
    """The call ends in order, and so do both connections."""
    request.put(b"", trailers=[("grpc-status", "0")])
    complete(made)
    expect("GOAWAY to the client", (None, []), (made.connection.ended, made.connection.goaways))
    alive(server, request)


def up(server, made, request, each=b""):
    """Messages to the upstream, with these bytes behind each DATA frame."""
    connection = made.connection
    for number in range(COUNT // 10):
        connection.until("a window", lambda: min(made.stream.send_window, connection.send_window) >= 10 * len(MESSAGE))
        made.stream.send_window -= 10 * len(MESSAGE)
        connection.send_window -= 10 * len(MESSAGE)
        connection.send((data(made.stream.number, MESSAGE) + each) * 10)
        server.h2.until("the messages", lambda number=number: len(request.body) == (number + 1) * 10 * len(MESSAGE))


def down(server, made, request, each=b""):
    """Messages to the client, in the same way."""
    connection = request.connection
    for number in range(COUNT // 10):
        server.h2.until("a window", lambda: min(request.send_window, connection.send_window) >= 10 * len(MESSAGE))
        request.send_window -= 10 * len(MESSAGE)
        connection.send_window -= 10 * len(MESSAGE)
        connection.send((data(request.number, MESSAGE) + each) * 10)
        made.until("the messages", lambda number=number: len(made.stream.body) == (number + 1) * 10 * len(MESSAGE))


@row("H42", "an upstream sends a PING for each of 5,000 DATA frames that it receives: no GOAWAY")
def ping_received(server):
    made, request = begun(server)
    ping_for_data(request.connection)
    up(server, made, request)
    finish(server, made, request)


@row("H42", "an upstream sends a PING for each of 5,000 DATA frames that it sends: no GOAWAY")
def ping_sent(server):
    made, request = begun(server)
    down(server, made, request, ping())
    finish(server, made, request)


@row("H42", "a client sends a PING for each of 5,000 DATA frames that it receives: no GOAWAY")
def ping_client_received(server):
    made, request = begun(server)
    ping_for_data(made.connection)
    down(server, made, request)
    finish(server, made, request)


@row("H42", "a client sends a PING for each of 5,000 DATA frames that it sends: no GOAWAY")
def ping_client_sent(server):
    made, request = begun(server)
    up(server, made, request, ping())
    finish(server, made, request)


def flood(endpoint, wait):
    """PINGs alone: GOAWAY, or the end."""
    for _ in range(120):
        if endpoint.ended or endpoint.goaways:
            return
        endpoint.send(ping() * 100)
        wait()
    if not endpoint.ended and not endpoint.goaways:
        wait()
        raise Failure("expected an end for 12,000 PINGs at once, seen nothing of it")


@row("H41", "PINGs alone are limited, of an upstream and of a client, also behind 5,000 DATA frames")
def ping_alone(server):
    made, request = begun(server)
    flood(request.connection, lambda: server.h2.pause(0.005))
    made, request = begun(server)
    flood(made.connection, lambda: server.h2.pause(0.005))
    made, request = begun(server)
    down(server, made, request)
    flood(request.connection, lambda: server.h2.pause(0.005))
    made, request = begun(server)
    up(server, made, request)
    flood(made.connection, lambda: server.h2.pause(0.005))
