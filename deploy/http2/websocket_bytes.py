"""WebSocket over HTTP/2: bytes before and behind the 101, and their windows."""

import socket
import threading

from frames import INITIAL_WINDOW_SIZE, NO_ERROR
from rows import Failure, expect, row
from upstream import MIB, Gate, pattern, wait_until
from websocket import ON, agree, collect, fields, fill, mirror, pieces, receive, tunnel


@row("H7", "DATA behind the CONNECT waits for the 101", own=ON, peer="sends it at once")
def held(server):
    gate = Gate(collect)
    path = server.upstream.on(gate)
    connection = server.connect()
    stream = connection.open(fields(connection, path), end=False)
    connection.send_data(stream, b"a" * 10_000)
    connection.send_data(stream, b"b" * 10_000)
    connection.fence()
    exchange = server.upstream.exchange(path)
    connection.pump(0.3)
    exchange.peer.socket.setblocking(False)
    try:
        early = exchange.peer.socket.recv(1 << 16)
        raise Failure(f"expected nothing before the 101, seen {early[:40]!r}")
    except BlockingIOError:
        exchange.peer.socket.setblocking(True)
    expect("head", None, stream.head)
    gate.open()
    connection.until("a head", lambda: stream.head)
    connection.send_data(stream, b"c" * 10_000, end=True)
    connection.response(stream, 200)
    expect("at the upstream", b"a" * 10_000 + b"b" * 10_000 + b"c" * 10_000, bytes(server.upstream.finished(path).body))


@row("H7", "held DATA has the stream's window, which is not given back before it has left", own=ON, peer="sends it at once")
def held_window(server):
    gate = Gate(collect)
    path = server.upstream.on(gate)
    connection = server.connect()
    connection.fence()
    stream = connection.open(fields(connection, path), end=False)
    window = stream.send_window
    connection.write(stream, pattern(0, window), end=False)
    server.upstream.exchange(path)
    connection.fence()
    connection.pump(0.2)
    expect("window of the stream", 0, stream.send_window)
    connection.get(server.path)
    gate.open()
    connection.until("the window again", lambda: stream.send_window > 0)
    connection.write(stream, pattern(window, MIB - window))
    connection.response(stream, 200)
    expect("at the upstream", True, bytes(server.upstream.finished(path).body) == pattern(0, MIB))


@row("H7", "an upstream that refuses: its response and body are relayed, and no held byte reaches it or its next request", own=ON,
     peer="sends it at once")
def refused_by_upstream(server):
    for status, body in ((403, b"forbidden"), (426, b"old"), (404, b""), (302, b""), (500, b"x" * 200_000)):
        gate = Gate(lambda exchange, status=status, body=body: exchange.reply(status, [("X-Why", "no"), ("Upgrade", "websocket")], body))
        path = server.upstream.on(gate)
        connection = server.connect()
        stream = connection.open(fields(connection, path), end=False)
        connection.send_data(stream, b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.fence()
        gate.open()
        connection.response(stream, status)
        expect("body", (body, ["no"], []), (bytes(stream.body), stream.values("x-why"), stream.values("upgrade")))
        connection.until("the end of the stream", lambda stream=stream: stream.reset is not None)
        expect("RST_STREAM", NO_ERROR, stream.reset)
        exchange = server.upstream.finished(path)
        count = server.upstream.count
        connection.get(server.path)
        expect("requests at the upstream", 1, server.upstream.count - count)
        expect("rest at the upstream", b"", bytes(exchange.peer.buffer))


@row("H7", "bytes pass both ways, in pieces of any size", own=ON, peer="passes no END_STREAM on")
def echo_tunnel(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    stream = tunnel(connection, path)
    sent = b""
    for size in (1, 2, 125, 126, 16_384, 1, 5000):
        piece = pattern(len(sent), size)
        connection.send_data(stream, piece)
        sent += piece
        expect("echo", True, receive(connection, stream, len(sent)) == sent)
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)


@row("H20", "8 MiB each way at once beside ordinary streams", own=ON, peer="passes no END_STREAM on")
def large(server):
    size = 8 * MIB
    received = []

    def script(exchange):
        agree(exchange)
        sender = threading.Thread(target=lambda: exchange.send(pattern(0, size)))
        sender.start()
        for piece in pieces(exchange):
            exchange.body += piece
        sender.join()
        exchange.peer.socket.shutdown(socket.SHUT_WR)
        received.append(bytes(exchange.body))
    path = server.upstream.on(script)
    connection = server.connect()
    stream = tunnel(connection, path)
    at = 0
    body = pattern(0, size)
    while at < size:
        room = min(16_384, size - at, stream.send_window, connection.send_window)
        if room <= 0:
            connection.until("a window", lambda: min(stream.send_window, connection.send_window) > 0 or stream.is_over)
            if stream.is_over:
                raise Failure(f"expected an open tunnel, seen {stream}")
            continue
        connection.send_data(stream, body[at:at + room], at + room == size)
        at += room
        if at % MIB == 0:
            connection.get(server.path)
    connection.response(stream, 200)
    expect("to the client", True, bytes(stream.body) == body)
    wait_until("the end at the upstream", lambda: received)
    expect("to the upstream", True, received[0] == body)


@row("H20", "a client that gives no window stops its upstream, and no other stream", own=ON)
def client_stalls(server):
    sent = []

    def script(exchange):
        agree(exchange)
        for at in range(0, 16 * MIB, 1 << 16):
            exchange.send(pattern(at, 1 << 16))
            sent.append(at)
        exchange.peer.socket.shutdown(socket.SHUT_WR)
        for _ in pieces(exchange):
            pass
    path = server.upstream.on(script)
    connection = server.connect()
    connection.gives_back = False
    connection.grant(None, 1 << 28)
    stream = tunnel(connection, path)
    connection.until("a full window", lambda: stream.receive_window == 0)
    count = -1
    while len(sent) != count:
        count = len(sent)
        connection.pump(1)
    if count >= 255:
        raise Failure("expected an upstream that waits, seen all of its bytes sent")
    connection.get(server.path)
    connection.grant(stream, 32 * MIB)
    connection.until("the end", lambda: stream.is_over)
    expect("bytes", True, bytes(stream.body) == pattern(0, 16 * MIB))


@row("H20", "an upstream that takes nothing stops its client's tunnel, and no other stream", own=ON, peer="passes no END_STREAM on")
def upstream_stalls(server):
    gate = threading.Event()

    def script(exchange):
        agree(exchange)
        gate.wait(600)
        for piece in pieces(exchange):
            exchange.body += piece
    path = server.upstream.on(script, "narrow/r")
    connection = server.connect()
    stream = tunnel(connection, path)
    at = fill(connection, stream)
    expect("window of the stream", 0, stream.send_window)
    connection.get(server.path)
    gate.set()
    connection.until("a window", lambda: stream.send_window > 0)
    connection.send_data(stream, pattern(at, 1000), end=True)
    connection.response(stream, 200)
    expect("at the upstream", True, bytes(server.upstream.finished(path).body) == pattern(0, at + 1000))


@row("H7", "50 tunnels on one connection, each with its own bytes, beside requests", own=ON, peer="passes no END_STREAM on")
def many(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    streams = [tunnel(connection, path) for _ in range(50)]
    for turn in range(3):
        for stream in streams:
            connection.send_data(stream, pattern(stream.number * 8, 1000))
        connection.get(server.path)
        for stream in streams:
            expect("echo", True, receive(connection, stream, 1000 * (turn + 1)) == pattern(stream.number * 8, 1000) * (turn + 1))
    for stream in streams[::2]:
        connection.send_data(stream, b"", end=True)
    for stream in streams[::2]:
        connection.response(stream, 200)
    for stream in streams[1::2]:
        connection.cancel(stream)
    wait_until("the ends at the upstream", lambda: all(each.finished.is_set() for each in server.upstream.seen(path)))
    connection.get(server.path)


@row("H19", "a small window: each side's bytes pass in small steps", own=ON, peer="passes no END_STREAM on")
def small_windows(server):
    path = server.upstream.on(mirror)
    connection = server.connect((INITIAL_WINDOW_SIZE, 10))
    stream = tunnel(connection, path)
    connection.send_data(stream, pattern(0, 3000), end=True)
    connection.response(stream, 200)
    expect("echo", True, bytes(stream.body) == pattern(0, 3000))
