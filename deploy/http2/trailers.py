"""Trailers, from HTTP/2 to HTTP/1.1 chunks and back."""

from frames import INITIAL_WINDOW_SIZE, PROTOCOL_ERROR, headers, window_update
from rows import Failure, expect, row, table
from upstream import Gate, echo, head, never, ok

TE = ("te", "trailers")


def respond(server, *parts, status=200, method="GET"):
    """A chunked response whose pieces the upstream sends one after the other."""
    def script(exchange):
        exchange.read_body()
        exchange.send(head(status, ("Transfer-Encoding", "chunked"), ("Trailer", "X-Sum")))
        for part in parts:
            exchange.send(part)
    connection = server.connect()
    stream = connection.get(server.upstream.on(script), TE, method=method, status=status)
    connection.get(server.path)
    return stream


@row("H12", "trailers of a request reach an HTTP/1.1 upstream behind the last chunk")
def request(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, TE, method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode([("x-sum", "abc"), ("x-other", "1")])))
    connection.response(stream, 200)
    exchange = server.upstream.finished(path)
    expect("framing", ["transfer-encoding: chunked"], exchange.framing)
    expect("body", b"body", bytes(exchange.body))
    expect("trailers", [("x-sum", "abc"), ("x-other", "1")], exchange.trailers)


@row("H12", "trailers of a request without a body")
def request_empty(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, TE, method="POST"), end=False)
    connection.send(headers(stream.number, connection.encode([("x-sum", "abc")])))
    connection.response(stream, 200)
    expect("trailers", [("x-sum", "abc")], server.upstream.finished(path).trailers)


@row("H12", "trailers behind a body of known length are no fault, and the length holds")
def request_known(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, ("content-length", "4"), method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode([("x-sum", "abc")])))
    connection.response(stream, 200)
    exchange = server.upstream.finished(path)
    expect("body", b"body", bytes(exchange.body))
    if len(exchange.framing) != 1:
        raise Failure(f"expected one framing, seen {exchange.framing}")
    connection.get(server.path)


@row("H12", "trailers of a chunked response")
def response(server):
    stream = respond(server, "4\r\nbody\r\n", "0\r\nX-Sum: abc\r\nX-Other: 1\r\n\r\n")
    expect("body", b"body", bytes(stream.body))
    expect("trailers", [(b"x-sum", b"abc"), (b"x-other", b"1")], stream.trailers)


@row("H12", "trailers without a body")
def response_empty(server):
    stream = respond(server, "0\r\nX-Sum: abc\r\n\r\n")
    expect("body and trailers", (b"", [(b"x-sum", b"abc")]), (bytes(stream.body), stream.trailers))


@row("H12", "trailers after an error status")
def response_error(server):
    for status in (400, 404, 503):
        stream = respond(server, "2\r\nno\r\n0\r\n", "X-Sum: abc\r\n\r\n", status=status)
        expect(f"trailers of {status}", [(b"x-sum", b"abc")], stream.trailers)


@row("H12", "an empty trailer section ends the stream without trailers")
def response_none(server):
    stream = respond(server, "2\r\nok\r\n0\r\n\r\n")
    expect("trailers", None, stream.trailers)


@row("6.6", "framing, routing and credentials are no trailers of a response", peer="passes some of them")
def response_forbidden(server):
    names = ["Content-Length", "Transfer-Encoding", "Connection", "Host", "Set-Cookie", "Authorization", "Content-Type"]
    stream = respond(server, "2\r\nok\r\n0\r\n", *(f"{name}: 5\r\n" for name in names), "X-Sum: abc\r\n\r\n")
    expect("trailers", [(b"x-sum", b"abc")], stream.trailers)


@row("6.6", "framing and credentials are no trailers of a request", peer="passes authorization")
def request_forbidden(server):
    names = ["content-length", "host", "authorization", "cookie", "content-type"]
    connection = server.connect()
    for name in names:
        path = server.upstream.on(echo)
        stream = connection.open(connection.fields(path, TE, method="POST"), end=False)
        connection.send_data(stream, b"body")
        connection.send(headers(stream.number, connection.encode([(name, "5")])))
        connection.until("the end of the stream", lambda: stream.is_over or connection.is_dead())
        if stream.status != 200 and stream.reset != PROTOCOL_ERROR and stream.status != 400:
            raise Failure(f"{name}: expected a response or PROTOCOL_ERROR, seen {stream}{connection.described()}")
        seen = [trailer for exchange in server.upstream.seen(path) for trailer in exchange.trailers]
        expect("trailers at the upstream", [], seen)
    connection.get(server.path)


@table("H12", {
    "pseudo": ("a pseudo-header field in trailers is a stream error", (":path", "/x")),
    "status": (":status in trailers is a stream error", (":status", "200")),
    "upper": ("an upper-case name in trailers is a stream error", ("X-Sum", "1")),
    "connection": ("a connection-specific field in trailers is a stream error", ("connection", "close")),
    "line": ("a line's end in trailers is a stream error", ("x-sum", "a\r\nb: 1")),
})
def request_bad(server, field):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, TE, method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode([("x-first", "1"), field])))
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    for exchange in server.upstream.seen(path):
        server.upstream.finished(path)
        expect("the upstream's request is complete", False, exchange.has_body)


@row("H17", "a second head without END_STREAM is a stream error")
def without_end(server):
    path = server.upstream.on(never)
    connection = server.connect()
    stream = connection.open(connection.fields(path, TE, method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode([("x-sum", "abc")]), end=False))
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)


@row("6.5", "te: trailers is sent to the upstream with Connection: TE, once", peer="sends no Connection: TE")
def te_connection(server):
    path = server.upstream.on(ok)
    server.connect().get(path, TE)
    exchange = server.upstream.finished(path)
    expect("TE", ["trailers"], exchange.values("te"))
    expect("Connection", ["te"], [value.lower() for value in exchange.values("connection")])


@row("H12", "8 KiB of trailers in two frames")
def request_long(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, TE, method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode([("x-sum", "a" * 8192)], huffman=False), pieces=2))
    connection.response(stream, 200)
    if server.name == "lanyard":
        expect("length of the trailer", [8192], [len(value) for _, value in server.upstream.finished(path).trailers])


@row("H12", "trailers that come when the stream's window is used up reach the client behind the window")
def response_without_window(server):
    gate = Gate(lambda exchange: exchange.end_chunks(("X-Sum", "abc")))

    def script(exchange):
        exchange.send(head(200, ("Transfer-Encoding", "chunked")))
        exchange.chunk(bytes(100))
        gate(exchange)

    path = server.upstream.on(script)
    connection = server.connect((INITIAL_WINDOW_SIZE, 100))
    stream = connection.open(connection.fields(path, TE))
    connection.until("the body", lambda: len(stream.body) == 100)
    gate.open()
    server.upstream.finished(path)
    connection.fence()
    connection.send(window_update(stream.number, 1000))
    connection.response(stream, 200)
    expect("trailers", [(b"x-sum", b"abc")], stream.trailers)


@row("H11", "a 426 reaches the client without its Upgrade")
def upgrade_required(server):
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
    path = server.upstream.on(lambda exchange: exchange.reply(426, fields, b"no"))
    connection = server.connect()
    connection.response(connection.open(connection.fields(path)), 426)
    connection.get(server.path)
