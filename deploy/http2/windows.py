"""Flow control: both sides keep to the windows. `receiving.py` fails a row that gets more than it granted."""

from frames import FLOW_CONTROL_ERROR, INITIAL_WINDOW_SIZE, PROTOCOL_ERROR, WINDOW, WINDOW_MAX, window_update
from rows import Failure, expect, row
from upstream import MIB, Gate, echo, head, never, ok, pattern, send

BIG_WINDOW = 1 << 30


def download(server, size, *values):
    """A response of this size to a client that gives windows by hand. Returns (connection, stream)."""
    connection = server.connect(*values)
    connection.gives_back = False
    return connection, connection.open(connection.fields(server.upstream.on(send(size))))


def has(connection, stream, size):
    """So much of the body has come, and no more comes."""
    connection.until(f"{size} bytes", lambda: len(stream.body) >= size or stream.is_over)
    connection.fence()
    expect("bytes of the body", size, len(stream.body))


@row("H20", "a stream window of 10 bytes is kept, and what WINDOW_UPDATE adds is used")
def small_window(server):
    connection, stream = download(server, 100, (INITIAL_WINDOW_SIZE, 10))
    has(connection, stream, 10)
    connection.grant(stream, 5)
    has(connection, stream, 15)
    connection.grant(stream, 1000)
    connection.response(stream, 200)
    expect("body", pattern(0, 100), bytes(stream.body))


@row("H20", "with a stream window of 0 the head comes and no DATA; then byte by byte")
def zero_window(server):
    connection, stream = download(server, 20, (INITIAL_WINDOW_SIZE, 0))
    connection.until("the head", lambda: stream.head)
    for size in range(20):
        has(connection, stream, size)
        connection.grant(stream, 1)
    connection.response(stream, 200)


@row("H20", "a response of length 0, one to HEAD, a 204 and a 304 need no window",
     peer="ends them with an empty DATA frame, which libnghttp2 does not send at a window of 0")
def zero_window_empty(server):
    connection = server.connect((INITIAL_WINDOW_SIZE, 0))
    connection.get(server.path, method="HEAD")
    for status in (204, 304):
        connection.get(server.upstream.on(lambda exchange, status=status: exchange.send(head(status))), status=status)
    connection.get(server.upstream.on(lambda exchange: exchange.reply(200)))


@row("H20", "the connection's window of 65,535 bytes is kept by two streams together")
def connection_window(server):
    connection, one = download(server, MIB, (INITIAL_WINDOW_SIZE, BIG_WINDOW))
    two = connection.open(connection.fields(server.upstream.on(send(MIB))))
    connection.until("65,535 bytes", lambda: len(one.body) + len(two.body) >= WINDOW)
    connection.fence()
    expect("bytes of both", WINDOW, len(one.body) + len(two.body))
    for size in (1, 1000, WINDOW):
        before = len(one.body) + len(two.body)
        connection.grant(None, size)
        connection.until(f"{size} bytes more", lambda: len(one.body) + len(two.body) >= before + size)
    connection.grant(None, 2 * MIB)
    connection.response(one, 200)
    connection.response(two, 200)
    expect("bodies", True, one.body == two.body == pattern(0, MIB))


@row("H20", "a larger INITIAL_WINDOW_SIZE in the middle of a stream is used at once")
def initial_larger(server):
    connection, stream = download(server, 1000, (INITIAL_WINDOW_SIZE, 100))
    has(connection, stream, 100)
    connection.change_settings((INITIAL_WINDOW_SIZE, 250))
    has(connection, stream, 250)
    connection.change_settings((INITIAL_WINDOW_SIZE, WINDOW))
    connection.response(stream, 200)


@row("H20", "a smaller INITIAL_WINDOW_SIZE makes a window negative; only what lifts it above 0 is used")
def initial_negative(server):
    connection, stream = download(server, 5000, (INITIAL_WINDOW_SIZE, 1000))
    has(connection, stream, 1000)
    connection.change_settings((INITIAL_WINDOW_SIZE, 100))
    expect("the window of the stream", -900, stream.receive_window)
    connection.grant(stream, 900)
    has(connection, stream, 1000)
    connection.grant(stream, 1)
    has(connection, stream, 1001)
    # A stream that begins now has 100.
    other = connection.open(connection.fields(server.upstream.on(send(200))))
    has(connection, other, 100)
    connection.grant(other, 100)
    connection.response(other, 200)
    connection.grant(stream, 5000)
    connection.response(stream, 200)
    expect("body", True, stream.body == pattern(0, 5000))


@row("H20", "INITIAL_WINDOW_SIZE of 0 in the middle stops a stream, and the former value starts it again")
def initial_zero(server):
    connection, stream = download(server, 500, (INITIAL_WINDOW_SIZE, 200))
    has(connection, stream, 200)
    connection.change_settings((INITIAL_WINDOW_SIZE, 0))
    connection.grant(stream, 200)
    has(connection, stream, 200)
    connection.change_settings((INITIAL_WINDOW_SIZE, 200))
    has(connection, stream, 400)
    connection.change_settings((INITIAL_WINDOW_SIZE, 300))
    connection.response(stream, 200)


def held(server, *values):
    """A stream whose upstream is silent. Returns (connection, stream)."""
    connection = server.connect(*values)
    return connection, connection.open(connection.fields(server.upstream.on(never)))


def ends(server, connection, stream, code):
    """The stream or the connection ends with this error."""
    connection.until("an end of the stream", lambda: stream.is_over or connection.is_dead())
    if connection.is_dead():
        connection.died(code)
    else:
        connection.refused(stream, code)
        connection.get(server.path)


@row("H22", "WINDOW_UPDATE beyond 2^31 - 1 on a stream ends the stream")
def overflow_stream(server):
    connection, stream = held(server)
    connection.send(window_update(stream.number, WINDOW_MAX - WINDOW), window_update(stream.number, 1))
    connection.refused(stream, FLOW_CONTROL_ERROR)
    connection.get(server.path)


@row("H22", "a window of exactly 2^31 - 1 is lawful, of the stream and of the connection")
def window_max(server):
    connection, stream = download(server, MIB)
    connection.grant(None, WINDOW_MAX - WINDOW)
    connection.grant(stream, WINDOW_MAX - WINDOW)
    connection.response(stream, 200)


@row("H22", "WINDOW_UPDATE beyond 2^31 - 1 on the connection ends the connection")
def overflow_connection(server):
    connection, _ = held(server)
    connection.send(window_update(0, WINDOW_MAX - WINDOW), window_update(0, 1))
    connection.died(FLOW_CONTROL_ERROR)


@row("H22", "an INITIAL_WINDOW_SIZE that lifts a stream's window beyond 2^31 - 1 ends the connection, or that stream")
def overflow_initial(server):
    connection, stream = held(server)
    connection.send(window_update(stream.number, WINDOW_MAX - WINDOW))
    connection.change_settings((INITIAL_WINDOW_SIZE, WINDOW + 1), waits=False)
    # RFC 9113 6.9.2 demands the former; libnghttp2 does the latter, which does no harm.
    ends(server, connection, stream, FLOW_CONTROL_ERROR)


@row("H22", "WINDOW_UPDATE of 0 on the connection ends it")
def zero_connection(server):
    connection, _ = held(server)
    connection.send(window_update(0, 0))
    connection.died(PROTOCOL_ERROR)


@row("H22", "WINDOW_UPDATE of 0 on a stream ends the stream, or the connection")
def zero_stream(server):
    connection, stream = held(server)
    connection.send(window_update(stream.number, 0))
    ends(server, connection, stream, PROTOCOL_ERROR)


@row("H20", "DATA beyond the server's window is FLOW_CONTROL_ERROR")
def exceeded(server):
    gate = Gate(echo)
    path = server.upstream.on(gate, "narrow/r")
    connection = server.connect()
    try:
        stream = connection.open(connection.fields(path, method="POST"), end=False)
        connection.fence()
        # As much as the server has granted up to then, and more.
        for _ in range(64):
            room = max(0, stream.send_window, self_window(connection)) + 16_384
            for _ in range(room // 16_384 + 1):
                connection.send_data(stream, bytes(16_384))
            if stream.is_over or connection.is_dead():
                break
        ends(server, connection, stream, FLOW_CONTROL_ERROR)
    finally:
        gate.open()


def self_window(connection):
    """Of a window of many MiB only a part is sent in a round: the stream's is the smaller one."""
    return min(connection.send_window, MIB)


@row("H22", "the windows that the server grants are not the 65,535 of old", peer="grants 65,535")
def large_windows(server):
    connection = server.connect()
    connection.fence()
    if connection.peer.get(INITIAL_WINDOW_SIZE, WINDOW) <= WINDOW or connection.send_window <= WINDOW:
        raise Failure(f"expected more than 65,535, seen {connection.peer.get(INITIAL_WINDOW_SIZE, WINDOW)} for a stream and "
                      f"{connection.send_window} for the connection")


@row("H20", "an upstream that does not read stops the client; memory stays small, and all arrives in the end")
def backpressure(server):
    gate = Gate(ok)
    path = server.upstream.on(gate, "narrow/r")
    connection = server.connect()
    try:
        stream = connection.open(connection.fields(path, method="POST"), end=False)
        sent = 0
        while sent < 32 * MIB:
            room = min(stream.send_window, connection.send_window, 16_384)
            if room <= 0:
                connection.fence()
                if min(stream.send_window, connection.send_window) <= 0:
                    break
                continue
            connection.send_data(stream, bytes(room))
            sent += room
        if sent > 8 * MIB:
            raise Failure(f"expected the client to be stopped, seen {sent} bytes taken")
    finally:
        gate.open()
    connection.write(stream, b"end")
    connection.response(stream, 200)
    expect("bytes at the upstream", sent + 3, len(server.upstream.finished(path).body))


@row("H20", "a client that gives no window stops the upstream")
def backpressure_down(server):
    size = 64 * MIB
    connection, stream = download(server, size, (INITIAL_WINDOW_SIZE, 1000))
    has(connection, stream, 1000)
    exchange_sent = len(stream.body)
    resident = server.resident()
    connection.fence()
    expect("bytes of the body", exchange_sent, len(stream.body))
    if server.resident() - resident > 32 * 1024:
        raise Failure(f"expected memory to stay, seen {server.resident() - resident} KiB more")
    connection.cancel(stream)
    connection.get(server.path)
