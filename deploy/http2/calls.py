"""Requests by either protocol, so that one row serves both kinds of clients."""

import socket
import struct

from channel import Channel
from frames import CANCEL, INTERNAL_ERROR, headers
from rows import ROWS, Failure, Row, brief, expect, patience


class PlainCall(Channel):
    """A connection of HTTP/1.1 with one request. Its response is read as it comes, and looks like a `Stream`."""

    def __init__(self, server, path, *fields, method="GET", body=None, end=True, length=None, expected=False):
        super().__init__(socket.create_connection(("127.0.0.1", server.plain), timeout=patience()), server.h2.channels)
        server.connections.append(self)
        server.h2.clients.append(self)
        self.secrets, self.authority, self.tunnel = server.tokens, server.authority, None
        self.begin(path, *fields, method=method, body=body, end=end, length=length, expected=expected)

    def begin(self, path, *fields, method="GET", body=None, end=True, length=None, expected=False):
        """Sends a request; a further one once the response is complete."""
        self.method = method
        self.interim, self.head, self.trailers, self.body = [], None, None, bytearray()
        self.is_ended, self.reset, self.left, self.is_chunked, self.is_cancelled = False, None, None, False, False
        self.has_length = length is not None or body is not None and end
        has_body = body is not None
        framing = [("Content-Length", length if length is not None else len(body))] if has_body and self.has_length else (
            [("Transfer-Encoding", "chunked")] if has_body else [])
        lines = [("Host", self.authority), *fields, *framing]
        self.send(f"{method} {path} HTTP/1.1\r\n".encode(), *(f"{name}: {value}\r\n".encode("latin-1") for name, value in lines), b"\r\n")
        if has_body and not expected:
            self.put(body, end)

    def put(self, body, end=False, trailers=()):
        if self.has_length:
            return self.send(body)
        self.send(b"%x\r\n%s\r\n" % (len(body), body) if body else b"")
        if end or trailers:
            self.send(b"0\r\n", *(f"{name}: {value}\r\n".encode() for name, value in trailers), b"\r\n")

    @property
    def is_over(self):
        return self.is_ended or self.reset is not None

    @property
    def status(self):
        return self.head and self.head[0]

    @property
    def stream(self):
        return self

    def values(self, name):
        return [value.decode("latin-1") for key, value in self.head[1] if key == name.encode()]

    def handle_input(self):
        for secret in self.secrets:
            if secret in self.input:
                raise Failure("the injected token reaches the client")
        while self.step():
            pass

    def step(self):
        """Reads the next part; whether there was one."""
        if self.tunnel is not None:
            self.tunnel += self.input
            self.input.clear()
            return False
        if self.head is None:
            return self.step_head()
        if self.is_ended:
            return False
        if self.is_chunked and not self.left:
            return self.step_chunk()
        piece = self.input[:self.left] if self.left is not None else self.input[:]
        self.body += piece
        del self.input[:len(piece)]
        if self.left is None:
            return False
        self.left -= len(piece)
        self.is_ended = not self.left and not self.is_chunked
        return bool(piece)

    def step_head(self):
        end = self.input.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = bytes(self.input[:end]).split(b"\r\n")
        del self.input[:end + 4]
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        head = (int(first.split(b" ")[1]), fields)
        if head[0] == 101:
            self.head, self.tunnel = head, bytearray()
        elif head[0] < 200:
            self.interim.append(head)
        else:
            self.head = head
            self.is_chunked = dict(fields).get(b"transfer-encoding") == b"chunked"
            length = dict(fields).get(b"content-length")
            self.left = int(length) if length else 0 if self.is_chunked else None
            self.is_ended = self.method == "HEAD" or head[0] in (204, 304) or self.left == 0 and not self.is_chunked
        return True

    def step_chunk(self):
        """The line of the next chunk, or the last one with trailers."""
        if self.left == 0 and self.input.startswith(b"\r\n") and self.body:
            del self.input[:2]
        line, mark, _ = bytes(self.input).partition(b"\r\n")
        if not mark:
            return False
        size = int(line.split(b";")[0], 16)
        if size:
            del self.input[:len(line) + 2]
            self.left = size
            return True
        end = self.input.find(b"\r\n\r\n")
        if end < 0:
            return False
        rows = bytes(self.input[len(line) + 2:end]).split(b"\r\n")
        fields = [(name.lower(), value.strip()) for name, _, value in (row.partition(b":") for row in rows if row)]
        self.trailers = fields or None
        del self.input[:end + 4]
        self.is_ended = True
        return False

    def handle_end(self):
        if self.head and self.left is None and not self.is_chunked and self.ended.endswith("closed the connection"):
            self.is_ended = True
        if not self.is_ended:
            self.reset = self.ended

    def cancel(self):
        """By a reset: an end alone says that no further request follows (9.4)."""
        self.is_cancelled = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def __str__(self):
        return (f"status {self.status}, {len(self.body)} bytes" if self.head else "no response") + (
            ", complete" if self.is_ended else f", {self.ended or 'open'}")


class StreamCall:
    """The same on a stream of HTTP/2: of a new connection, or of `connection`."""

    def __init__(self, server, path, *fields, method="GET", body=None, end=True, length=None, connection=None, expected=False, values=()):
        self.connection = connection or server.connect(*values)
        if self.connection not in server.h2.clients:
            server.h2.clients.append(self.connection)
        length = [("content-length", str(length if length is not None else len(body)))] if length is not None or body and end else []
        fields = [(name.lower(), *rest) for name, *rest in fields]
        self.stream = self.connection.open(self.connection.fields(path, *fields, *length, method=method), end=body is None)
        if body is not None and not expected:
            self.put(body, end)

    def put(self, body, end=False, trailers=()):
        if body or end and not trailers:
            self.connection.write(self.stream, body, end and not trailers)
        if trailers:
            self.connection.send(headers(self.stream.number, self.connection.encode(trailers)))

    def until(self, what, ready, seconds=None):
        return self.connection.until(what, ready, seconds)

    def cancel(self):
        self.connection.cancel(self.stream)


KINDS = {"http1": PlainCall, "http2": StreamCall}


def complete(call, status=200):
    """The whole response."""
    stream = call.stream
    call.until("a response", lambda: stream.is_over)
    if not stream.is_ended or stream.status != status:
        raise Failure(f"expected a complete response of {status}, seen {stream}, {brief(bytes(stream.body))}")
    return stream


def cut(call, *statuses):
    """The response does not look complete, or has one of these statuses."""
    stream = call.stream
    call.until("the end of the response", lambda: stream.is_over)
    if stream.is_ended and stream.status in statuses:
        return stream
    if stream.is_ended or isinstance(stream.reset, int) and stream.reset not in (INTERNAL_ERROR, CANCEL):
        raise Failure(f"expected a response that is cut, seen {stream}, {brief(bytes(stream.body))}")
    return stream


def problem(call, status=502):
    """Lanyard's own response."""
    stream = complete(call, status)
    if stream.values("content-type") != ["application/problem+json"]:
        raise Failure(f"expected a problem, seen {stream.head}")
    return stream


def both(rule, title, *, own=None):
    """Two rows: the function gets the server and the kind of call, of HTTP/1.1 and of HTTP/2."""
    def add(run):
        for name, kind in KINDS.items():
            def bound(server, kind=kind):
                run(server, kind)
            label = {"http1": "HTTP/1.1", "http2": "HTTP/2"}[name]
            ROWS.append(Row(rule, f"{label} to HTTP/2: {title}", bound, f"{run.__module__}/{run.__name__}.{name}", None, own))
        return run
    return add


def served(server, path=None, kind=StreamCall):
    """Another client gets its response over HTTP/2."""
    from multiplexed import ok
    expect("body", b"ok", bytes(complete(kind(server, path or server.h2.on(ok))).body))
