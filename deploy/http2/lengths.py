"""What a message says of its length, and what comes: nothing that is cut may look complete to either side."""

from frames import CANCEL, CONNECT_ERROR, INTERNAL_ERROR, PROTOCOL_ERROR, headers
from rows import Failure, expect, row, table
from upstream import MIB, Gate, echo, head, never, pattern

# How a stream ends whose response the upstream cut.
CUTS = (INTERNAL_ERROR, CANCEL, PROTOCOL_ERROR, CONNECT_ERROR)


def upload(server, length, script=echo):
    path = server.upstream.on(script)
    connection = server.connect()
    return path, connection, connection.open(connection.fields(path, ("content-length", str(length)), method="POST"), end=False)


def not_complete(server, path):
    """The upstream's request, if it got one, ends short of its framing."""
    for number in range(len(server.upstream.seen(path))):
        exchange = server.upstream.finished(path, number)
        if exchange.has_body:
            raise Failure(f"expected no complete request at the upstream, seen {exchange.framing} and {bytes(exchange.body[:60])}")


@row("H15", "more DATA than content-length says is a stream error")
def too_long(server):
    path, connection, stream = upload(server, 10)
    connection.send_data(stream, b"x" * 11, end=True)
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    not_complete(server, path)


@row("H15", "more DATA than content-length says, in the second frame")
def too_long_later(server):
    path, connection, stream = upload(server, 10, never)
    connection.send_data(stream, b"x" * 6)
    connection.fence()
    connection.send_data(stream, b"x" * 5)
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    server.upstream.finished(path)


@row("H15", "END_STREAM before the content-length is reached")
def too_short(server):
    path, connection, stream = upload(server, 10)
    connection.send_data(stream, b"x" * 9, end=True)
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    not_complete(server, path)


@row("H15", "an empty DATA frame with END_STREAM before the content-length is reached")
def too_short_empty(server):
    path, connection, stream = upload(server, 10)
    connection.send_data(stream, b"x" * 4)
    connection.send_data(stream, b"", end=True)
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    not_complete(server, path)


@row("H15", "a head that ends the stream with a content-length above 0")
def head_alone(server):
    connection = server.connect()
    path = server.upstream.on(echo)
    stream = connection.open(connection.fields(path, ("content-length", "5"), method="POST"))
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    not_complete(server, path)


@row("H15", "trailers before the content-length is reached")
def trailers_early(server):
    path, connection, stream = upload(server, 10)
    connection.send_data(stream, b"x" * 4)
    connection.send(headers(stream.number, connection.encode([("x-trailer", "1")])))
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    not_complete(server, path)


@row("H15", "content-length: 0 with an empty DATA frame, and leading zeros")
def zero(server):
    for value, body in (("0", b""), ("000", b""), ("004", b"body")):
        path = server.upstream.on(echo)
        connection = server.connect()
        stream = connection.open(connection.fields(path, ("content-length", value), method="POST"), end=False)
        connection.write(stream, body)
        connection.response(stream, 200)
        expect("framing", [f"content-length: {int(value)}"], [
            f"{name}: {int(text)}" for name, _, text in (one.partition(": ") for one in server.upstream.finished(path).framing)])


@row("5.8", "a cancelled upload of unknown length has no last chunk")
def cancelled_chunked(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    connection.send_data(stream, b"x" * 1000)
    server.upstream.exchange(path)
    connection.cancel(stream)
    exchange = server.upstream.finished(path)
    expect("the upstream's request is complete", False, exchange.has_body)
    connection.get(server.path)


@row("5.8", "a client that leaves in the middle of an upload: no last chunk")
def left(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    connection.send_data(stream, b"x" * 1000)
    server.upstream.exchange(path)
    connection.close()
    expect("the upstream's request is complete", False, server.upstream.finished(path).has_body)


@row("H25", "a cancelled download ends the request at the upstream")
def cancelled_download(server):
    def script(exchange):
        exchange.send(head(200), b"x" * 1000)
        exchange.wait_for_end()
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path))
    connection.until("1,000 bytes", lambda: len(stream.body) == 1000)
    connection.cancel(stream)
    server.upstream.finished(path)
    connection.get(server.path)


@row("H25", "a request that is cancelled before its response ends at the upstream")
def cancelled_waiting(server):
    path = server.upstream.on(never)
    connection = server.connect()
    stream = connection.open(connection.fields(path))
    server.upstream.exchange(path)
    connection.cancel(stream)
    server.upstream.finished(path)
    connection.get(server.path)


def cut(server, script, size):
    """A response that is not complete: what came passes, and RST_STREAM ends the stream."""
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path))
    connection.until("the end of the stream", lambda: stream.is_over or connection.is_dead())
    if stream.is_ended or stream.reset not in CUTS:
        raise Failure(f"expected RST_STREAM, seen {stream}{connection.described()}")
    if stream.head:
        expect("status", 200, stream.status)
    if not pattern(0, size).startswith(bytes(stream.body)):
        raise Failure(f"expected the first of {size} bytes, seen {len(stream.body)} others")
    connection.get(server.path)


@table("H15", {
    "end": ("a response short of its content-length that ends by FIN becomes RST_STREAM", (100, 40, False)),
    "reset": ("a response short of its content-length that ends by a reset becomes RST_STREAM", (100, 40, True)),
    "large": ("1 MiB that is one byte short becomes RST_STREAM", (MIB, MIB - 1, False)),
})
def cut_length(server, case):
    announced, size, resets = case

    def script(exchange):
        exchange.send(head(200, ("Content-Length", str(announced))), pattern(0, size))
        exchange.close(resets)
    cut(server, script, size)


@table("H15", {
    "between": ("a chunked response that ends between two chunks becomes RST_STREAM", "5\r\n01234\r\n"),
    "within": ("a chunked response that ends within a chunk becomes RST_STREAM", "5\r\n012"),
    "size": ("a chunked response that ends within a chunk's size becomes RST_STREAM", "5\r\n01234\r\n1"),
    "last": ("a chunked response that ends behind its last chunk, without the empty line, becomes RST_STREAM", "5\r\n01234\r\n0\r\n"),
    "trailers": ("a chunked response that ends within its trailers becomes RST_STREAM", "5\r\n01234\r\n0\r\nX-Trailer: 1\r\n"),
    "fault": ("a chunked response with a faulty size becomes RST_STREAM", "5\r\n01234\r\nxyz\r\n"),
    "line": ("a chunked response whose chunk is longer than its size becomes RST_STREAM", "5\r\n0123456\r\n0\r\n\r\n"),
})
def cut_chunked(server, text):
    def script(exchange):
        exchange.send(head(200, ("Transfer-Encoding", "chunked")), text)
        exchange.close()
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path))
    connection.until("the end of the stream", lambda: stream.is_over or connection.is_dead())
    # A fault that is there before the head has left may become a 502.
    if stream.reset not in CUTS and stream.status not in (502,):
        raise Failure(f"expected RST_STREAM, seen {stream}{connection.described()}")
    connection.get(server.path)


@row("12.4", "a response until the end of the connection is complete with FIN")
def until_close(server):
    def script(exchange):
        exchange.send(head(200, ("X-Kind", "close")), pattern(0, 70_000))
        exchange.close()
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.get(path)
    expect("body", True, stream.body == pattern(0, 70_000))
    expect("content-length", [], stream.values("content-length"))
    connection.get(server.path)


@row("12.4", "a response until the end of the connection that is reset becomes RST_STREAM")
def until_reset(server):
    gate = Gate(lambda exchange: exchange.close(resets=True))

    def script(exchange):
        exchange.send(head(200), pattern(0, 1000))
        gate(exchange)
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path))
    connection.until("1,000 bytes", lambda: len(stream.body) == 1000)
    gate.open()
    connection.until("the end of the stream", lambda: stream.is_over or connection.is_dead())
    if stream.reset not in CUTS:
        raise Failure(f"expected RST_STREAM, seen {stream}")
    connection.get(server.path)


@row("7.3", "bytes behind a response go to no client")
def bytes_behind(server):
    def script(exchange):
        exchange.send(head(200, ("Content-Length", "2")), "okHTTP/1.1 200 Mine\r\nContent-Length: 6\r\n\r\nothers")
        exchange.wait_for_end()
    path = server.upstream.on(script)
    connection = server.connect()
    for _ in range(3):
        expect("body", b"ok", bytes(connection.get(path).body))
        expect("body of the next", b"ok", bytes(connection.get(server.path).body))


@table("13.1", {
    "none": ("an upstream that closes without a response is a 502", ""),
    "head": ("an upstream that closes within its head is a 502", "HTTP/1.1 200 OK\r\nContent-Le"),
    "rubbish": ("an upstream that does not speak HTTP is a 502", "rubbish\r\n\r\n"),
    "length": ("a response with a faulty content-length is a 502", "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n1"),
    "two": ("a response with length and coding is a 502",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    "switch": ("a 101 that nobody asked for is a 502", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
}, peers={"switch": "passes it as an interim response"})
def bad_upstream(server, text):
    def script(exchange):
        exchange.send(text)
        exchange.close()
    path = server.upstream.on(script)
    connection = server.connect()
    connection.get(path, method="POST", status=502)
    connection.get(server.path)


@row("H14", "fields of the upstream that HTTP/2 does not permit are a 502, and never reach the client", peer="drops or passes some of them")
def bad_fields(server):
    connection = server.connect()
    for field in (b"X-A: a\x00b", b"X-A : 1", b"X-A: a\rb", b": empty", b"X-A: 1\r\n folded"):
        path = server.upstream.on(lambda exchange, field=field: (
            exchange.send(b"HTTP/1.1 200 OK\r\n" + field + b"\r\nContent-Length: 0\r\n\r\n"), exchange.close()))
        connection.get(path, method="POST", status=502)
    connection.get(server.path)
