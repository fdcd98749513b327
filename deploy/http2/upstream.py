"""A scripted HTTP/1.1 server. Each path has a function of its own, and each request is kept as the bytes that came."""

import itertools
import socket
import struct
import threading
import time

from rows import Failure, patience

MIB = 1 << 20


class Cut(Exception):
    """The connection ended within a request, or while a response was written."""


class Exchange:
    """A request, and the means to respond to it. The script runs in the thread of its connection."""

    def __init__(self, peer, head):
        self.peer, self.head = peer, head
        lines = head[:-4].split(b"\r\n")
        self.method, self.target, self.version = lines[0].decode("latin-1").split(" ", 2)
        self.fields = [(name, value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines[1:])]
        # Body without framing, and as it came.
        self.body, self.raw, self.trailers = bytearray(), bytearray(), []
        self.has_body, self.is_cut, self.closes = False, False, False
        self.finished = threading.Event()

    def values(self, name):
        """Values of a field, whatever the case of its name."""
        return [value.decode("latin-1") for key, value in self.fields if key.lower() == name.lower().encode()]

    @property
    def framing(self):
        """How the request says where its body ends."""
        names = [name for name in ("content-length", "transfer-encoding") if self.values(name)]
        return [f"{name}: {', '.join(self.values(name))}" for name in names]

    def read_body(self):
        """Reads to the end of the request; raises `Cut` where it is short of its framing."""
        for _ in self.pieces():
            pass
        return bytes(self.body)

    def pieces(self):
        """Reads piece by piece, for a script that stops in the middle."""
        if self.has_body:
            return
        if self.values("transfer-encoding"):
            while size := int(self.line().split(b";")[0], 16):
                yield from self.take(size)
                if self.line():
                    raise Failure("the upstream got a chunk without CRLF behind it")
            while line := self.line():
                name, _, value = line.partition(b":")
                self.trailers.append((name.lower().decode("latin-1"), value.strip().decode("latin-1")))
        else:
            yield from self.take(int((self.values("content-length") or ["0"])[0]))
        self.has_body = True

    def line(self):
        line = self.peer.read_line()
        self.raw += line + b"\r\n"
        return line

    def take(self, size):
        while size:
            piece = self.peer.read(min(size, 1 << 16))
            size -= len(piece)
            self.body += piece
            self.raw += piece
            yield piece

    def send(self, *parts):
        self.peer.send(b"".join(part.encode("latin-1") if isinstance(part, str) else part for part in parts))

    def reply(self, status=200, fields=(), body=b""):
        """A response of known length."""
        self.send(head(status, *fields, ("Content-Length", str(len(body)))), body if self.method != "HEAD" else b"")

    def chunk(self, data):
        self.send(f"{len(data):x}\r\n", data, "\r\n")

    def end_chunks(self, *trailers):
        self.send("0\r\n", *(f"{name}: {value}\r\n" for name, value in trailers), "\r\n")

    def close(self, resets=False):
        """Ends the connection, by FIN or by a reset."""
        self.closes = True
        if resets:
            self.peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.socket.close()

    def wait_for_end(self, seconds=None):
        """Reads and discards until the proxy has closed the connection."""
        self.closes = True
        self.peer.socket.settimeout(seconds or patience())
        try:
            while self.peer.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass


def head(status, *fields, phrase="Some"):
    return f"HTTP/1.1 {status} {phrase}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"


class Peer:
    """A connection of the proxy."""

    def __init__(self, connection):
        self.socket, self.buffer = connection, bytearray()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fill(self):
        try:
            received = self.socket.recv(1 << 16)
        except OSError as error:
            raise Cut(str(error)) from None
        if not received:
            raise Cut("end")
        self.buffer += received

    def read_head(self):
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            self.fill()
        return self.read(end + 4)

    def read_line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            self.fill()
        return self.read(end + 2)[:-2]

    def read(self, size):
        if not self.buffer:
            self.fill()
        piece = bytes(self.buffer[:size])
        del self.buffer[:size]
        return piece

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Cut(str(error)) from None


class Upstream:
    """`port` serves every path; the proxy must send those below /narrow/ to `narrow_port`, whose connections hold few bytes in the kernel.

    So an upstream that does not read stops the proxy after about 100 KiB, and not after several MiB.
    """

    def __init__(self):
        listener, narrow = socket.create_server(("127.0.0.1", 0), backlog=1024), socket.socket()
        # The kernel of the sender sizes its buffer by the segment, which is 64 KiB on loopback otherwise.
        narrow.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.bind(("127.0.0.1", 0))
        narrow.listen(1024)
        self.port, self.narrow_port = listener.getsockname()[1], narrow.getsockname()[1]
        self.scripts, self.exchanges, self.lock = {}, {}, threading.Condition()
        self.numbers, self.count, self.faults = itertools.count(1), 0, []
        for each in (listener, narrow):
            threading.Thread(target=self.accept, args=(each,), daemon=True).start()

    def on(self, script, name="r"):
        """A new path whose requests the script gets."""
        with self.lock:
            path = f"/{name}{next(self.numbers)}"
            self.scripts[path], self.exchanges[path] = script, []
        return path

    def seen(self, path):
        """All requests of a path up to now."""
        with self.lock:
            return list(self.exchanges[path.split("?")[0]])

    def exchange(self, path, number=0):
        """A request of the path, as soon as its head is there."""
        with self.lock:
            found = self.lock.wait_for(lambda: len(self.exchanges[path.split("?")[0]]) > number, patience())
        if not found:
            raise Failure(f"expected request {number + 1} for {path} at the upstream, seen {len(self.seen(path))}")
        return self.seen(path)[number]

    def finished(self, path, number=0):
        """The same, once its script has ended."""
        exchange = self.exchange(path, number)
        if not exchange.finished.wait(patience()):
            raise Failure(f"expected the end of the request for {path} at the upstream, seen {len(exchange.body)} bytes of its body")
        return exchange

    def accept(self, listener):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.serve, args=(Peer(connection),), daemon=True).start()

    def serve(self, peer):
        try:
            while self.serve_one(peer):
                pass
        except Cut:
            pass
        except Exception as error:  # A fault of the proxy or of a script: the row that runs shows it.
            self.faults.append(f"{type(error).__name__}: {error}")
        finally:
            peer.socket.close()

    def serve_one(self, peer):
        exchange = Exchange(peer, peer.read_head())
        path = exchange.target.split("?")[0]
        with self.lock:
            script = self.scripts.get(path, not_found)
            self.count += 1
            self.exchanges.setdefault(path, []).append(exchange)
            self.lock.notify_all()
        try:
            script(exchange)
            if not exchange.closes:
                exchange.read_body()
        except Cut:
            exchange.is_cut = True
            exchange.closes = True
        finally:
            exchange.finished.set()
        return not exchange.closes


def not_found(exchange):
    exchange.read_body()
    exchange.reply(404)


def ok(exchange):
    exchange.read_body()
    exchange.reply(200, [("Content-Type", "text/plain")], b"ok")


def echo(exchange):
    exchange.reply(200, [], exchange.read_body())


def endless(exchange):
    """A script whose body has no end; `is_cut` says that the proxy has ended it."""
    exchange.read_body()
    exchange.send(head(200, ("Transfer-Encoding", "chunked")))
    try:
        while True:
            exchange.chunk(bytes(10_000))
    except Cut:
        exchange.is_cut = True
        raise


def send(size, piece=1 << 16, step=None):
    """A script that sends so many bytes of known length. `step` is called with the exchange before each piece."""
    def script(exchange):
        exchange.read_body()
        exchange.send(head(200, ("Content-Length", str(size))))
        for at in range(0, size, piece):
            if step:
                step(exchange)
            exchange.send(pattern(at, min(piece, size - at)))
    return script


def pattern(at, size):
    """Bytes that tell their place."""
    first = at // 8
    return b"".join(struct.pack(">Q", number) for number in range(first, (at + size) // 8 + 1))[at - first * 8:][:size]


def never(exchange):
    """No response: waits until the proxy ends the connection."""
    exchange.wait_for_end(600)


class Gate:
    """A script that responds when the row says so."""

    def __init__(self, script=ok):
        self.script, self.opened = script, threading.Event()

    def __call__(self, exchange):
        self.opened.wait(600)
        self.script(exchange)

    def open(self):
        self.opened.set()


def wait_until(what, ready, seconds=None):
    """For what no connection reports."""
    deadline = time.monotonic() + (seconds or patience())
    while not ready():
        if time.monotonic() > deadline:
            raise Failure(f"expected {what}, seen nothing of it for {seconds or patience():.0f} s")
        time.sleep(0.01)
