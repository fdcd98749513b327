"""Interim responses, 100-continue, and responses that come before the request has ended."""

from frames import NO_ERROR, headers
from rows import Failure, expect, row
from upstream import MIB, Gate, head, ok, pattern

EXPECT = ("expect", "100-continue")


@row("H16", "103 passes with its fields, and more than one")
def hints(server):
    def script(exchange):
        exchange.read_body()
        exchange.send(head(103, ("Link", "</a>; rel=preload")), head(103, ("Link", "</b>; rel=preload")))
        exchange.reply(200, [], b"ok")
    connection = server.connect()
    stream = connection.get(server.upstream.on(script))
    expect("statuses", [103, 103], [status for status, _ in stream.interim])
    links = [value for _, fields in stream.interim for name, value in fields if name == b"link"]
    expect("link", [b"</a>; rel=preload", b"</b>; rel=preload"], links)
    connection.get(server.path)


@row("H16", "103 arrives before the final response exists")
def hints_at_once(server):
    gate = Gate()

    def script(exchange):
        exchange.send(head(103, ("Link", "</a>")))
        gate(exchange)
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(script)))
    connection.until("103", lambda: stream.interim)
    gate.open()
    connection.response(stream, 200)


@row("H16", "100-continue: the upstream's 100 reaches the client once, and then the body passes", peer="relays no 100")
def continue_passed(server):
    def script(exchange):
        exchange.send(head(100))
        exchange.reply(200, [], exchange.read_body())
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path, EXPECT, ("content-length", "4"), method="POST"), end=False)
    connection.until("100", lambda: stream.interim or stream.is_over)
    connection.send_data(stream, b"body", end=True)
    connection.response(stream, 200)
    expect("interim responses", [100], [status for status, _ in stream.interim])
    expect("body", b"body", bytes(stream.body))


@row("11.2", "100-continue at an upstream that sends no 100: the client gets one all the same", peer="sends no 100")
def continue_own(server):
    def script(exchange):
        exchange.reply(200, [], exchange.read_body())
    connection = server.connect()
    stream = connection.open(
        connection.fields(server.upstream.on(script), EXPECT, ("content-length", "4"), method="POST"), end=False)
    connection.until("100", lambda: stream.interim or stream.is_over)
    connection.send_data(stream, b"body", end=True)
    connection.response(stream, 200)
    expect("interim responses", [100], [status for status, _ in stream.interim])


@row("11.3", "100-continue: a final response in place of 100, and the body never comes")
def continue_refused(server):
    path = server.upstream.on(lambda exchange: (exchange.send(head(413, ("Content-Length", "2")), "no"), exchange.wait_for_end()))
    connection = server.connect()
    stream = connection.open(connection.fields(path, EXPECT, ("content-length", "4"), method="POST"), end=False)
    connection.until("the response", lambda: stream.is_over)
    expect("interim responses", [], stream.interim)
    expect("status and body", (413, b"no"), (stream.status, bytes(stream.body)))
    connection.get(server.path)


def early(server, script, status):
    """An upload whose response comes before its end. Returns (connection, stream) once the response is complete."""
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path, ("content-length", str(MIB)), method="POST"), end=False)
    connection.send_data(stream, pattern(0, 1000))
    connection.until("the response", lambda: stream.is_over)
    expect("status, body and end", (status, b"no", True), (stream.status, bytes(stream.body), stream.is_ended))
    return connection, stream


@row("H23", "an early final response is complete, and RST_STREAM NO_ERROR ends the upload")
def early_response(server):
    for status in (200, 413):
        connection, stream = early(
            server, lambda exchange, status=status: (exchange.send(head(status, ("Content-Length", "2")), "no"), exchange.wait_for_end()),
            status)
        connection.until("RST_STREAM NO_ERROR", lambda stream=stream: stream.reset is not None)
        expect("code", NO_ERROR, stream.reset)
        connection.get(server.path)


@row("H23", "DATA that is on its way when RST_STREAM NO_ERROR comes does no harm")
def early_response_data(server):
    connection, stream = early(
        server, lambda exchange: (exchange.send(head(413, ("Content-Length", "2")), "no"), exchange.wait_for_end()), 413)
    for _ in range(10):
        connection.send_data(stream, b"x" * 1000)
    connection.get(server.path)


@row("H23", "an early head is relayed at once, and the upload continues while the response lasts",
     peer="sends a request's head only with the first of its body")
def early_head(server):
    def script(exchange):
        exchange.send(head(200, ("Transfer-Encoding", "chunked")))
        for piece in exchange.pieces():
            exchange.chunk(piece)
        exchange.end_chunks()
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    connection.until("the head", lambda: stream.head or stream.is_over)
    for number in range(1, 6):
        connection.send_data(stream, b"%05d" % number)
        connection.until("the piece", lambda number=number: len(stream.body) >= number * 5 or stream.reset is not None)
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)
    expect("body", b"0000100002000030000400005", bytes(stream.body))


@row("14.1", "each piece of a response is relayed at once")
def pieces(server):
    gates = [Gate(lambda exchange: None) for _ in range(3)]

    def script(exchange):
        exchange.send(head(200, ("Transfer-Encoding", "chunked"), ("Content-Type", "text/event-stream")))
        for gate in gates:
            gate(exchange)
            exchange.chunk(b"event")
        exchange.end_chunks()
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(script)))
    connection.until("the head", lambda: stream.head)
    for number, gate in enumerate(gates):
        gate.open()
        connection.until("the event", lambda number=number: len(stream.body) == 5 * (number + 1))
    connection.response(stream, 200)


@row("11.4", "expect without a body is no reason to wait")
def expect_without_body(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    stream = connection.stream()
    connection.send(headers(stream.number, connection.encode(connection.fields(path, EXPECT, method="POST"))))
    connection.response(stream, 200)


@row("13.1", "interim responses and then the end is a 502")
def interim_alone(server):
    def script(exchange):
        exchange.send(head(103, ("Link", "</a>")))
        exchange.close()
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(script), method="POST"))
    connection.response(stream, 502)
    connection.get(server.path)


@row("8", "65 interim responses at once are a 502, and the connection serves the next request", peer="has no such limit")
def interim_flood(server):
    path = server.upstream.on(lambda exchange: (exchange.send(*[head(103)] * 200), exchange.reply(200)))
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"))
    connection.response(stream, 502)
    if len(stream.interim) > 70:
        raise Failure(f"expected at most 64 interim responses, seen {len(stream.interim)}")
    connection.get(server.path)
