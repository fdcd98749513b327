"""Conversations that arrive in pieces, and what is not quite a preface. A piece is sent once the server has read the one before it."""

import socket

from frames import ACK, INITIAL_WINDOW_SIZE, PREFACE, SETTINGS, data, frame, headers, ping, settings, window_update
from rows import Failure, expect, patience, row
from upstream import echo, ok, wait_until


def unread(client):
    """Bytes that the server's socket holds and the server has not read (proc_net_tcp); 0 once it has ended."""
    try:
        client.getpeername()
    except OSError:
        return 0
    local, remote = (f"0100007F:{address[1]:04X}" for address in (client.getpeername(), client.getsockname()))
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            fields = line.split()
            if fields[1:3] == [local, remote]:
                return int(fields[4].split(":")[1], 16)
    return 0


def drip(connection, text, size=1):
    """Sends piece by piece, and waits each time until the server has read it."""
    for at in range(0, len(text), size):
        connection.send(text[at:at + size])
        if connection.ended:
            return
        wait_until("the server to read a piece", lambda: connection.ended or not unread(connection.socket))


def converse(server, pieces_of):
    """A GET and an upload with trailers, byte by byte; the upload's head comes in so many frames."""
    path = server.upstream.on(echo)
    connection = server.connect(starts=False)
    connection.unacknowledged.append({})
    one, two = connection.stream(), connection.stream()
    text = PREFACE + settings([(INITIAL_WINDOW_SIZE, 65_535)]) + frame(SETTINGS, 0, b"", ACK) + ping()
    text += headers(one.number, connection.encode(connection.fields(path)))
    text += headers(two.number, connection.encode(connection.fields(path, method="POST")), end=False, pieces=pieces_of)
    text += data(two.number, b"body", padding=3) + window_update(0, 10) + data(two.number, b"end")
    text += headers(two.number, connection.encode([("x-sum", "1")]))
    connection.acknowledges = False
    drip(connection, text)
    connection.response(one, 200)
    connection.response(two, 200)
    expect("body", b"bodyend", bytes(two.body))
    expect("ACK of PING", [b"12345678"], connection.pongs)


@row("H2", "a whole conversation byte by byte: preface, SETTINGS, PING, a GET, an upload with trailers")
def bytewise(server):
    converse(server, 1)


@row("H39", "the same with a head in two frames: a torn CONTINUATION counts once",
     peer="libnghttp2 1.52 counts every read within the first 9 bytes of a CONTINUATION as a frame, and ends the connection at the ninth")
def bytewise_continuation(server):
    converse(server, 2)


@row("H2", "a conversation in pieces of 2 to 40 bytes")
def pieces(server):
    path = server.upstream.on(echo)
    for size in (2, 3, 5, 7, 9, 10, 24, 25, 33, 40):
        connection = server.connect(starts=False)
        connection.unacknowledged.append({})
        stream = connection.stream()
        text = PREFACE + settings() + headers(stream.number, connection.encode(connection.fields(path, method="POST")), end=False)
        drip(connection, text + data(stream.number, b"x" * 50, end=True), size)
        connection.response(stream, 200)
        expect("body", b"x" * 50, bytes(stream.body))


@row("H2", "the preface in two pieces, torn at each byte")
def preface_torn(server):
    for at in range(1, len(PREFACE)):
        connection = server.connect(starts=False)
        connection.unacknowledged.append({})
        drip(connection, PREFACE[:at], at)
        stream = connection.stream()
        connection.send(PREFACE[at:] + settings() + headers(stream.number, connection.encode(connection.fields(server.path))))
        connection.response(stream, 200)


@row("H2", "preface, SETTINGS and requests in one write, before the server's SETTINGS are known")
def one_write(server):
    connection = server.connect(starts=False)
    connection.unacknowledged.append({})
    streams = [connection.stream() for _ in range(20)]
    connection.send(PREFACE + settings() + b"".join(
        headers(stream.number, connection.encode(connection.fields(server.path))) for stream in streams))
    for stream in streams:
        connection.response(stream, 200)


class Plain:
    """A client of bytes, without any protocol."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.plain), timeout=patience())
        server.connections.append(self.socket)

    def exchange(self, *pieces, ends=True):
        """Sends the pieces and returns all that comes until the server closes."""
        received = b""
        try:
            for piece in pieces:
                self.socket.sendall(piece)
            if ends:
                self.socket.shutdown(socket.SHUT_WR)
            while piece := self.socket.recv(1 << 16):
                received += piece
        except TimeoutError:
            raise Failure(f"expected the end of the connection, seen nothing for {patience():.0f} s behind {received[:100]}") from None
        except OSError:
            pass
        return received


@row("H2", "a preface with one wrong byte, at each place, is no request: the upstream sees nothing")
def preface_wrong(server):
    before = server.upstream.count
    for at in range(len(PREFACE)):
        wrong = PREFACE[:at] + bytes([PREFACE[at] ^ 1]) + PREFACE[at + 1:]
        received = Plain(server).exchange(wrong, settings(), ends=False)
        status = received.split(b" ")[1:2] if received.startswith(b"HTTP/1.1 ") else []
        if status and status[0] not in (b"400", b"405", b"421", b"501", b"505"):
            raise Failure(f"expected a refusal or the end, seen {received[:100]} for a wrong byte at {at}")
    expect("requests at the upstream", 0, server.upstream.count - before)
    server.lives()


@row("H2", "a preface that ends in the middle, and a client that then leaves")
def preface_cut(server):
    before = server.upstream.count
    for at in (1, 3, 14, 16, 18, 23):
        received = Plain(server).exchange(PREFACE[:at])
        if received.startswith(b"HTTP/1.1 2"):
            raise Failure(f"expected no response of an upstream, seen {received[:100]}")
    expect("requests at the upstream", 0, server.upstream.count - before)
    server.lives()


@row("H2", "a preface without SETTINGS: another frame first ends the connection")
def without_settings(server):
    for first in (ping(), window_update(0, 1), frame(0x77), headers(1, b"\x82\x86\x84")):
        connection = server.connect(starts=False)
        connection.send(PREFACE + first)
        connection.died(1)


def request_one(server, *fields, path=None):
    return (f"GET {path or server.path} HTTP/1.1\r\nHost: {server.authority}\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in fields) + "\r\n").encode()


@row("H2", "the same listener speaks HTTP/1.1")
def http1(server):
    received = Plain(server).exchange(request_one(server, ("Connection", "close")), ends=False)
    if not received.startswith(b"HTTP/1.1 200") or not received.endswith(b"ok"):
        raise Failure(f"expected 200 over HTTP/1.1, seen {received[:200]}")


@row("H2", "a preface behind an HTTP/1.1 request is refused, and no byte of it forwarded")
def preface_later(server):
    path = server.upstream.on(ok)
    received = Plain(server).exchange(request_one(server, path=path), PREFACE, settings(), ends=False)
    if not received.startswith(b"HTTP/1.1 200"):
        raise Failure(f"expected 200 over HTTP/1.1, seen {received[:200]}")
    rest = received.split(b"\r\n\r\nok", 1)[1]
    if rest and not rest.startswith((b"HTTP/1.1 400", b"HTTP/1.1 505")):
        raise Failure(f"expected 400, 505 or the end, seen {rest[:200]}")
    expect("requests at the upstream", 1, len(server.upstream.seen(path)))


@row("H1", "Upgrade: h2c is neither honoured nor forwarded", peer="honours it")
def upgrade(server):
    path = server.upstream.on(ok)
    fields = ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAAP__"), ("Connection", "Upgrade, HTTP2-Settings, close")
    received = Plain(server).exchange(request_one(server, *fields, path=path), ends=False)
    if not received.startswith(b"HTTP/1.1 200"):
        raise Failure(f"expected 200 over HTTP/1.1, seen {received[:200]}")
    exchange = server.upstream.finished(path)
    expect("Upgrade and HTTP2-Settings at the upstream", ([], []), (exchange.values("upgrade"), exchange.values("http2-settings")))


@row("H14", "cuts within a frame: a client that leaves at each byte of an upload's head and first DATA")
def left_at_each_byte(server):
    path = server.upstream.on(echo)
    sample = server.connect()
    text = headers(1, sample.encode(sample.fields(path, method="POST"), huffman=False), end=False) + data(1, b"body")
    for at in range(0, len(text), 3):
        connection = server.connect()
        connection.send(text[:at])
        connection.close()
    server.lives()
    for number in range(len(server.upstream.seen(path))):
        expect("the upstream's request is complete", False, server.upstream.finished(path, number).has_body)
