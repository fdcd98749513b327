"""Floods: a client that makes work without being served is ended with ENHANCE_YOUR_CALM, and an honest client beside it notices nothing."""

import select
import socket
import struct
import time

from frames import (
    ACK, ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, PREFACE, SETTINGS, WINDOW_MAX, data, frame, headers, ping,
    priority, reset, settings, window_update)
from rows import Failure, expect, row, table
from upstream import MIB, echo, never, send

# libnghttp2 1.52 and nghttpx count resets, and what waits to be sent; the rest they take.
UNCOUNTED = "does not count them"
INTERNAL = "libnghttp2 ends the connection with INTERNAL_ERROR"
CONTROL = {
    "ping": ("20,000 PING", lambda number: ping()),
    "ping_ack": ("20,000 ACKs of PING that nobody asked for", lambda number: ping(flags=ACK)),
    "settings": ("5,000 SETTINGS", lambda number: settings([(INITIAL_WINDOW_SIZE, 65_535)])),
    "settings_empty": ("5,000 empty SETTINGS", lambda number: settings()),
    "priority": ("20,000 PRIORITY", priority),
    "priority_idle": ("20,000 PRIORITY of a stream that does not exist", lambda number: priority(100_001)),
    "window": ("20,000 WINDOW_UPDATE of 1 on the connection", lambda number: window_update(0, 1)),
    "window_stream": ("20,000 WINDOW_UPDATE of 1 on a stream", lambda number: window_update(number, 1)),
    "data_empty": ("20,000 empty DATA", data),
    "data_padded": ("20,000 DATA of padding alone", lambda number: data(number, padding=0)),
    "unknown": ("20,000 unknown frames", lambda number: frame(0x77, 0, b"x")),
    "window_closed": ("20,000 WINDOW_UPDATE on a closed stream", None),
}


def flood(server, connection, parts, step=100):
    """Sends the parts until the server ends the connection. An honest client beside is served in between."""
    honest = server.connect()
    honest.get(server.path)
    count = 0
    for part in parts:
        connection.output += part
        count += 1
        if count % step == 0:
            connection.send()
            connection.pump(0)
            if connection.is_dead():
                break
        if count % (10 * step) == 0:
            honest.get(server.path)
    connection.send()
    honest.get(server.path)
    connection.died(ENHANCE_YOUR_CALM)
    honest.get(server.path)
    server.lives()
    return count


def silent(server):
    """A connection with one stream whose upstream is silent."""
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(never), method="POST"), end=False)
    connection.fence()
    return connection, stream


def requests(connection, path, count, *behind, end=True, extra=()):
    """HEADERS of new streams, each with frames behind it. `behind`: functions of the stream's number."""
    for _ in range(count):
        stream = connection.stream()
        stream.is_cancelled = True
        block = connection.encode(connection.fields(path, *extra, method="GET" if end else "POST"))
        yield headers(stream.number, block, end) + b"".join(make(stream.number) for make in behind)


@row("H40", "rapid reset: 2,000 HEADERS, each with RST_STREAM", peer=INTERNAL)
def rapid_reset(server):
    connection = server.connect()
    connection.fence()
    resident = server.resident()
    flood(server, connection, requests(connection, server.path, 2000, reset))
    if server.resident() - resident > 64 * 1024:
        raise Failure(f"expected memory to stay, seen {server.resident() - resident} KiB more")


@row("H40", "rapid reset of uploads, with DATA in front of RST_STREAM", peer=INTERNAL)
def rapid_reset_uploads(server):
    connection = server.connect()
    connection.fence()
    flood(server, connection, requests(
        connection, server.path, 2000, lambda number: data(number, b"x"), reset, end=False))


@table("H40", {
    "overflow": ("2,000 streams that the server resets for a WINDOW_UPDATE beyond 2^31 - 1",
                 (lambda number: window_update(number, WINDOW_MAX), ())),
    "malformed": ("2,000 malformed requests", (lambda number: b"", (("X-Upper", "1"),))),
    "length": ("2,000 uploads that are longer than they say",
               (lambda number: data(number, b"xx", end=True), (("content-length", "1"),))),
}, peers=dict.fromkeys(["overflow", "malformed", "length"], "counts only the client's own resets"))
def provoked(server, case):
    behind, extra = case
    connection = server.connect()
    connection.fence()

    def batches():
        for number, part in enumerate(requests(connection, server.path, 2000, behind, end=False, extra=extra)):
            yield part
            # Streams that the server has not reset yet count as open: never more of them than it permits.
            if number % 20 == 19:
                connection.send()
                connection.until("the resets", lambda: connection.is_dead() or connection.streams[max(connection.streams)].is_over)
    flood(server, connection, batches())


@table("H41", CONTROL, peers=dict.fromkeys(CONTROL, UNCOUNTED))
def control(server, make):
    connection, stream = silent(server)
    number = stream.number
    if make is None:
        number = connection.get(server.path).number
        part = window_update(number, 1)
    else:
        part = make(number)
    connection.unacknowledged += [{}] * 5000
    flood(server, connection, [part] * (5000 if part[3] == SETTINGS else 20_000))


@row("H41", "20,000 PING between requests: streams that ended long ago do not pay for them", peer=UNCOUNTED)
def control_after_streams(server):
    connection = server.connect()
    for _ in range(200):
        connection.get(server.path)
    flood(server, connection, [ping()] * 20_000)


@row("H42", "200 requests that are cancelled one after the other are no flood")
def cancels(server):
    path = server.upstream.on(never)
    connection = server.connect()
    for number in range(200):
        stream = connection.open(connection.fields(path))
        server.upstream.exchange(path, number)
        connection.cancel(stream)
    connection.get(server.path)


@row("H42", "500 requests, each with PING, WINDOW_UPDATE and PRIORITY around it, are no flood")
def honest_control(server):
    connection = server.connect()
    path = server.upstream.on(echo)
    for _ in range(500):
        stream = connection.stream()
        connection.send(priority(stream.number), headers(stream.number, connection.encode(connection.fields(path, method="POST")), False),
                        window_update(stream.number, 1000), ping(), window_update(0, 1000))
        connection.send_data(stream, b"body")
        connection.send_data(stream, b"", end=True)
        connection.response(stream, 200)


@row("H42", "a long download with a WINDOW_UPDATE for each KiB is no flood")
def honest_updates(server):
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(send(4 * MIB))))
    connection.gives_back = False
    given = 0
    while not stream.is_over:
        connection.until("DATA", lambda: len(stream.body) > given or stream.is_over)
        while given < len(stream.body) and not stream.is_over:
            size = min(1024, len(stream.body) - given)
            given += size
            connection.output += window_update(0, size) + window_update(stream.number, size)
            stream.receive_window += size
            connection.receive_window += size
        connection.send()
    connection.response(stream, 200)


@row("H42", "a PING each 10 messages of a stream of 1,000 small messages, as gRPC clients send them, is no flood")
def honest_messages(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, ("te", "trailers"), method="POST"), end=False)
    for number in range(1000):
        connection.send_data(stream, b"\0\0\0\0\x05hello")
        if number % 10 == 0:
            connection.fence()
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)
    expect("bytes", 10_000, len(stream.body))


class Unreading:
    """A client that sends and never reads."""

    def __init__(self, server):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", server.plain))
        self.socket.setblocking(False)
        server.connections.append(self.socket)

    def send(self, text):
        """Returns whether the server still took all of it within a second."""
        view, end = memoryview(text), time.monotonic() + 1
        while view:
            try:
                view = view[self.socket.send(view):]
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                select.select([], [self.socket], [], 0.1)
            except OSError:
                return False
        return True


def unread(server, parts, what):
    """Sends to a server whose responses nobody reads: memory stays small, and others are served."""
    server.lives()
    client, honest = Unreading(server), server.connect()
    honest.get(server.path)
    resident = server.resident()
    client.send(PREFACE + settings([(INITIAL_WINDOW_SIZE, WINDOW_MAX)]) + window_update(0, WINDOW_MAX - 65_535))
    client.send(frame(SETTINGS, 0, b"", ACK))
    for number, part in enumerate(parts(honest)):
        if not client.send(part):
            break
        if number % 20 == 0:
            honest.get(server.path)
    honest.get(server.path)
    grown = server.resident() - resident
    if grown > 48 * 1024:
        raise Failure(f"expected memory to stay, seen {grown} KiB more {what}")
    client.socket.close()
    server.lives()


@row("H24", "a client that never reads: 30 downloads of 8 MiB", own={})
def never_reads(server):
    path = server.upstream.on(send(8 * MIB))
    unread(server, lambda honest: (headers(number, block(honest, path)) for number in range(1, 61, 2)), "with 30 downloads")


@row("H41", "a client that never reads: 1,000,000 PING", own={})
def never_reads_pings(server):
    unread(server, lambda honest: [ping() * 1000] * 1000, "with PING")


@row("H41", "a client that never reads: 200,000 SETTINGS", own={})
def never_reads_settings(server):
    unread(server, lambda honest: [settings() * 1000] * 200, "with SETTINGS")


@row("H40", "a client that never reads: 20,000 requests that are reset at once", own={})
def never_reads_resets(server):
    def parts(honest):
        for first in range(1, 40_001, 200):
            yield b"".join(headers(number, block(honest, server.path)) + reset(number) for number in range(first, first + 200, 2))
    unread(server, parts, "with resets")


def block(honest, path):
    """Literals that put nothing into the table, so that each can stand alone."""
    out = b""
    for name, value in honest.fields(path):
        out += struct.pack("BB", 0, len(name)) + name.encode() + struct.pack("B", len(value)) + value.encode()
    return out


@row("H19", "a client that opens streams and sends half a head, then nothing: others are served")
def half_head(server):
    connection = server.connect()
    connection.send(frame(1, 1, connection.encode(connection.fields(server.path))[:5]))
    server.lives()


@row("H25", "a client that leaves with as many streams as it may have: each ends at the upstream")
def gone(server):
    connection = server.connect()
    connection.fence()
    path = server.upstream.on(never)
    count = min(100, connection.peer.get(MAX_CONCURRENT_STREAMS, 100))
    for _ in range(count):
        connection.open(connection.fields(path))
    for number in range(count):
        server.upstream.exchange(path, number)
    connection.close()
    for number in range(count):
        server.upstream.finished(path, number)
    server.lives()


@row("H25", "50 connections with 20 streams each that all leave at once, half of them by a reset")
def gone_many(server):
    path = server.upstream.on(never)
    connections = [server.connect() for _ in range(50)]
    for connection in connections:
        for _ in range(20):
            connection.open(connection.fields(path))
    for number in range(1000):
        server.upstream.exchange(path, number)
    for number, connection in enumerate(connections):
        if number % 2:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    for number in range(1000):
        server.upstream.finished(path, number)
    server.lives()
