"""Limits of a request and of a connection: heads, CONTINUATION frames, fields, streams."""

from frames import (
    CANCEL, CONTINUATION, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, HEADERS, MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, PROTOCOL_ERROR,
    REFUSED_STREAM, frame, headers)
from rows import Failure, expect, row
from upstream import Gate, ok

# Where a server announces no limit: that of nghttpx, and the default of `limits.header_bytes_max`.
HEADER_BYTES, HEADER_FIELDS = 65_536, 128
ENDS = (ENHANCE_YOUR_CALM, PROTOCOL_ERROR)


def continuations(connection, path, count, size=1):
    """A head with so many CONTINUATION frames."""
    stream = connection.stream()
    block = connection.encode(connection.fields(path, ("x-long", "a" * count * size)), huffman=False)
    first = len(block) - count * size
    parts = [frame(HEADERS, stream.number, block[:first], END_STREAM)]
    for number in range(count):
        at = first + number * size
        parts.append(frame(CONTINUATION, stream.number, block[at:at + size], END_HEADERS * (number + 1 == count)))
    connection.send(*parts)
    return stream


@row("H39", "8 CONTINUATION frames are served")
def continuations_eight(server):
    connection = server.connect()
    for size in (1, 100, 1000):
        connection.response(continuations(connection, server.path, 8, size), 200)


@row("H39", "more than 8 CONTINUATION frames end the connection", peer="ends it without GOAWAY")
def continuations_nine(server):
    for count in (9, 12, 1000):
        connection = server.connect()
        continuations(connection, server.path, count)
        connection.died(*ENDS)
        server.lives()


@row("H39", "CONTINUATION frames without end, empty or full, end the connection", peer="ends it without GOAWAY")
def continuations_endless(server):
    for size in (0, 16_384):
        connection = server.connect()
        stream = connection.stream()
        connection.send(frame(HEADERS, stream.number, connection.encode(connection.fields(server.path)), END_STREAM))
        part = frame(CONTINUATION, stream.number, bytes(size)) * (1000 if not size else 10)
        for _ in range(100):
            if connection.is_dead():
                break
            connection.send(part)
        connection.died(*ENDS)
        server.lives()


def list_limit(connection):
    connection.fence()
    return connection.peer.get(MAX_HEADER_LIST_SIZE, HEADER_BYTES)


def list_size(fields):
    return sum(len(name) + len(value) + 32 for name, value in fields)


def fill(connection, path, size, piece=4000, name="x-fill"):
    """Fields whose size, as RFC 9113 6.5.2 counts it, is the given one."""
    fields = connection.fields(path)
    while (left := size - list_size(fields)) > len(name) + 32:
        length = min(piece, left - len(name) - 32)
        # What is left must be enough for another field, or nothing.
        if 0 < left - len(name) - 32 - length <= len(name) + 32:
            length -= len(name) + 33
        fields.append((name, "v" * length))
    return fields


def too_large(server, connection, fields):
    """431, or a refusal of the stream; the connection serves the next request."""
    stream = connection.open(fields)
    connection.refused(stream, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, statuses=(431,))
    connection.get(server.path)


@row("H37", "a head of nearly the announced size is served")
def list_below(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    size = list_limit(connection)
    fields = fill(connection, path, size - 300)
    connection.response(connection.open(fields), 200)
    seen = [value for name, value in server.upstream.finished(path).fields if name.lower() == b"x-fill"]
    expect("bytes at the upstream", sum(len(value) for name, value in fields if name == "x-fill"), sum(map(len, seen)))


@row("H37", "a head above the announced size: 431 on the stream, and the connection lives")
def list_above(server):
    connection = server.connect()
    size = list_limit(connection)
    for more in (1000, size // 2):
        too_large(server, connection, fill(connection, server.path, size + more))


@row("H37", "32 bytes count for each field: many short fields")
def list_overhead(server):
    connection = server.connect()
    size = list_limit(connection)
    too_large(server, connection, fill(connection, server.path, size + 1000, piece=1, name="x"))


@row("H37", "cookie crumbs count one by one")
def list_crumbs(server):
    connection = server.connect()
    size = list_limit(connection)
    too_large(server, connection, fill(connection, server.path, size + 1000, piece=1, name="cookie"))


@row("H37", "fields that are dropped count: a client's own authorization, look-alikes")
def list_dropped(server):
    connection = server.connect()
    size = list_limit(connection)
    too_large(server, connection, fill(connection, server.path, size + 1000, name="authorization"))


def refer(connection, path, count):
    """A small block that refers so many times to a field of 3,000 bytes in the table."""
    connection.get(path, ("x-bomb", "b" * 3000))
    stream = connection.stream()
    # The field is the newest of the table: index 62.
    connection.send(headers(stream.number, connection.encode(connection.fields(path)) + b"\xbe" * count))
    return stream


@row("H37", "a head of five times the announced size, by references to the table, ends the connection", peer="refuses the stream alone")
def list_far_above(server):
    connection = server.connect()
    size = list_limit(connection)
    refer(connection, server.path, 5 * size // 3038 + 1)
    connection.died(*ENDS)
    server.lives()


@row("H37", "16,000 references to a field of 3,000 bytes, 48 MB: refused, and memory stays")
def bomb(server):
    connection = server.connect()
    connection.get(server.path)
    resident = server.resident()
    stream = refer(connection, server.path, 16_000)
    connection.until("an end", lambda: stream.is_over or connection.is_dead())
    if stream.is_ended and stream.status != 431:
        raise Failure(f"expected 431 or an end, seen {stream}")
    server.lives()
    if server.resident() - resident > 32 * 1024:
        raise Failure(f"expected memory to stay, seen {server.resident() - resident} KiB more")


@row("8", "128 fields are served, 129 are refused on the stream", peer="has a limit of its own, 100")
def field_count(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    connection.get(path, *((f"x-{number}", "1") for number in range(HEADER_FIELDS - 4)))
    too_large(server, connection, connection.fields(server.path, *((f"x-{number}", "1") for number in range(HEADER_FIELDS + 1))))


@row("8", "1,000 fields are refused on the stream")
def field_count_far(server):
    connection = server.connect()
    too_large(server, connection, connection.fields(server.path, *((f"x-{number}", "1") for number in range(1000))))


@row("8", "a :path of more than 16 KiB is 414", peer="passes it")
def path_long(server):
    connection = server.connect()
    connection.refused(connection.open(connection.fields("/" + "p" * 17_000)), statuses=(414,))
    connection.get(server.path)


@row("8", "trailers beyond the limit are refused on the stream", peer="passes them")
def trailers_large(server):
    path = server.upstream.on(lambda exchange: exchange.reply(200, [], exchange.read_body()))
    connection = server.connect()
    size = list_limit(connection)
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode([("x-sum", "a" * 10_000)] * (size // 10_000 + 1), huffman=False)))
    connection.refused(stream, PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, statuses=(431, 400))
    connection.get(server.path)
    for exchange in server.upstream.seen(path):
        expect("the upstream's request is complete", False, exchange.has_body)


@row("H41", "streams beyond MAX_CONCURRENT_STREAMS are REFUSED_STREAM, the others are served, and so is the next one",
     peer="libnghttp2 ends the connection")
def streams(server):
    connection = server.connect()
    connection.fence()
    limit = connection.peer.get(MAX_CONCURRENT_STREAMS)
    if not limit or limit > 2000:
        raise Failure(f"expected a limit of streams, seen {limit}")
    gate = Gate()
    path = server.upstream.on(gate)
    try:
        inside = [connection.open(connection.fields(path)) for _ in range(limit)]
        connection.fence()
        beyond = [connection.open(connection.fields(path)) for _ in range(5)]
        for stream in beyond:
            connection.refused(stream, REFUSED_STREAM)
    finally:
        gate.open()
    for stream in inside:
        connection.response(stream, 200)
    expect("requests at the upstream", limit, len(server.upstream.seen(path)))
    connection.get(server.path)


@row("H40", "a stream that is cancelled makes room for the next one at once")
def streams_freed(server):
    connection = server.connect()
    connection.fence()
    limit = connection.peer.get(MAX_CONCURRENT_STREAMS, 100)
    gate = Gate()
    path = server.upstream.on(gate)
    try:
        inside = [connection.open(connection.fields(path)) for _ in range(min(limit, 200))]
        for stream in inside[:50]:
            connection.cancel(stream)
        for _ in range(50):
            connection.get(server.path)
    finally:
        gate.open()
    for stream in inside[50:]:
        connection.response(stream, 200)


@row("H42", "a body of 5,000 frames of one byte is no flood")
def small_frames(server):
    path = server.upstream.on(lambda exchange: exchange.reply(200, [], exchange.read_body()))
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    for number in range(5000):
        connection.until("a window", lambda: min(stream.send_window, connection.send_window) > 0 or stream.is_over)
        connection.send_data(stream, b"x", number == 4999)
    connection.response(stream, 200)
    expect("bytes", 5000, len(stream.body))
