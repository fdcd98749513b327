"""Flow control of many streams: one that stands still stops no other, and what is discarded gives its window back."""

from frames import MAX_CONCURRENT_STREAMS, NO_ERROR, WINDOW, data
from rows import Failure, expect, row
from upstream import MIB, Gate, echo, head, ok, pattern, send

BIG_WINDOW = 1 << 30


def stream_limit(connection, most=100):
    connection.fence()
    return min(most, connection.peer.get(MAX_CONCURRENT_STREAMS, most))


@row("H19", "99 stalled downloads beside a live one")
def stalled_downloads(server):
    connection = server.connect()
    count = stream_limit(connection) - 1
    connection.gives_back = False
    connection.grant(None, BIG_WINDOW)
    path, long = server.upstream.on(send(MIB // 8)), server.upstream.on(send(MIB))
    stalled = [connection.open(connection.fields(path)) for _ in range(count)]
    connection.until("full windows", lambda: all(len(stream.body) == WINDOW for stream in stalled))
    live = connection.open(connection.fields(long))
    connection.grant(live, MIB)
    connection.response(live, 200)
    expect("streams that have got more than their window", 0, sum(len(stream.body) > WINDOW for stream in stalled))
    for stream in stalled:
        connection.grant(stream, MIB)
    for stream in stalled:
        connection.response(stream, 200)


@row("H19", "99 stalled uploads beside a live one", peer="its connection window of 65,535 bytes is full after one")
def stalled_uploads(server):
    gate = Gate(echo)
    stuck, path = server.upstream.on(gate, "narrow/r"), server.upstream.on(echo)
    connection = server.connect()
    stalled = []
    try:
        for _ in range(stream_limit(connection) - 1):
            stream = connection.open(connection.fields(stuck, method="POST"), end=False)
            stalled.append(stream)
            sent = 0
            # Until the server gives nothing more; it has to stop, as its upstream takes nothing.
            while sent < 8 * MIB:
                room = min(stream.send_window, connection.send_window, 16_384)
                if room <= 0:
                    connection.fence()
                    if min(stream.send_window, connection.send_window) <= 0:
                        break
                    continue
                connection.send_data(stream, bytes(room))
                sent += room
            if connection.send_window <= 0 < stream.send_window:
                raise Failure(f"expected a connection window for each of 100 streams, seen it full after {len(stalled)}")
        live = connection.open(connection.fields(path, ("content-length", str(MIB)), method="POST"), end=False)
        connection.write(live, pattern(0, MIB))
        connection.response(live, 200)
        expect("body", True, live.body == pattern(0, MIB))
    finally:
        gate.open()
    for stream in stalled:
        connection.cancel(stream)
    connection.get(server.path)


@row("H21", "padding gives its window back: 4,000 DATA frames of one byte and 255 of padding")
def padding(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    for number in range(4000):
        connection.until("a window", lambda: min(stream.send_window, connection.send_window) >= 257 or stream.is_over)
        connection.send_data(stream, b"x", number == 3999, padding=255)
    connection.response(stream, 200)
    expect("bytes of the body", 4000, len(stream.body))


@row("H21", "padding alone, without a byte of data, gives its window back")
def padding_alone(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    count = (2 * connection.send_window if connection.send_window < 2 * MIB else 3 * stream.send_window) // 256
    for number in range(count):
        connection.until("a window", lambda: min(stream.send_window, connection.send_window) >= 260 or stream.is_over)
        connection.send_data(stream, b"", padding=255)
        # H41 counts frames without data; a byte after each eighth shows an honest client.
        if number % 8 == 0:
            connection.send_data(stream, b"x")
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)


def full_speed(server, connection):
    """The connection's window serves an upload of 4 MiB."""
    path = server.upstream.on(ok)
    stream = connection.open(connection.fields(path, ("content-length", str(4 * MIB)), method="POST"), end=False)
    connection.write(stream, bytes(4 * MIB))
    connection.response(stream, 200)


def returned(connection, before):
    """The window has come back to at least half of what it was."""
    connection.until("the connection's window", lambda: connection.send_window * 2 >= before)


@row("H21", "900 cancelled uploads give the connection's window back; then an upload at full speed")
def cancelled_uploads(server):
    connection = server.connect()
    connection.fence()
    path, before = server.upstream.on(echo), connection.send_window
    size = max(1000, 2 * before // 900)
    for number in range(900):
        connection.until("a window", lambda: connection.send_window >= min(size, before // 2))
        stream = connection.open(connection.fields(path, method="POST"), end=False)
        for start in range(0, size, 16_000):
            left = min(size - start, 16_000, stream.send_window, connection.send_window)
            if left > 0:
                connection.send_data(stream, bytes(left))
        connection.cancel(stream)
        # DATA that crosses the reset.
        if number % 3 == 0 and connection.send_window > 100:
            connection.send_window -= 100
            connection.send(data(stream.number, bytes(100)))
    returned(connection, before)
    full_speed(server, connection)


@row("H21", "uploads that are refused at their head give the connection's window back")
def refused_uploads(server):
    connection = server.connect()
    connection.fence()
    before = connection.send_window
    size = max(1000, 2 * before // 500)
    for _ in range(500):
        connection.until("a window", lambda: connection.send_window >= min(size, before // 2))
        stream = connection.open(connection.fields(server.path, ("X-Upper", "1"), method="POST"), end=False)
        for _ in range(2):
            connection.send_data(stream, bytes(max(1, min(size // 2, stream.send_window, connection.send_window, 16_000))))
        connection.until("the refusal", lambda stream=stream: stream.is_over)
    returned(connection, before)
    full_speed(server, connection)


@row("H21", "uploads whose response came early give the connection's window back")
def early_uploads(server):
    connection = server.connect()
    connection.fence()
    before = connection.send_window
    path = server.upstream.on(lambda exchange: (exchange.send(head(413, ("Content-Length", "0"))), exchange.wait_for_end()))
    for _ in range(100):
        stream = connection.open(connection.fields(path, method="POST"), end=False)
        connection.send_data(stream, bytes(1000))
        connection.until("the end of the stream", lambda stream=stream: stream.reset is not None)
        expect("status and code", (413, NO_ERROR), (stream.status, stream.reset))
        for _ in range(4):
            connection.until("a window", lambda: connection.send_window >= 4000)
            connection.send_window -= 4000
            connection.send(data(stream.number, bytes(4000)))
    returned(connection, before)
    full_speed(server, connection)
