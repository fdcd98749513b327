"""A scripted HTTP/2 upstream of raw frames. It runs in the row's own thread, so that a row says what happens when.

Each path has a script that is called with the head of a request. A row can as well take a request and respond to it by hand. Connections
that do not begin with the preface are HTTP/1.1, whose bytes the row reads and writes. A fault of the proxy fails the row.
"""

import itertools
import os
import socket
import ssl
import time

import hpack

from channel import Channel, Endpoint, turn
from frames import (
    ACK, FRAME_SIZE, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, PREFACE, SETTINGS, TYPES, data, frame, headers, reset)
from receiving import Stream
from rows import Failure, patience


class Request(Stream):
    """A stream that the proxy has opened, and the means to respond."""

    def __init__(self, connection, number, *windows):
        super().__init__(number, *windows)
        self.connection, self.queue = connection, bytearray()
        # What follows the queue: END_STREAM, or trailers.
        self.ending, self.has_responded = None, False
        self.handle_request = None

    @property
    def method(self):
        return self.head[0]

    @property
    def path(self):
        return self.values(":path")[0]

    @property
    def is_closed(self):
        return self.reset is not None or self.is_cancelled or self.is_ended and self.has_responded

    def on_end(self, handle):
        """Calls this with the request once its end has come."""
        self.handle_request = handle
        if self.is_ended:
            handle(self)

    def respond(self, status, *fields, end=False, **options):
        """A head; `options` are those of `frames.headers`."""
        self.has_responded |= end
        block = self.connection.encode([(":status", str(status)), *fields])
        self.connection.send(headers(self.number, block, end, **options))

    def put(self, body, end=False, trailers=None):
        """Queues bytes, which leave as the windows permit."""
        self.queue += body
        self.ending = trailers or True if end or trailers else None
        self.connection.sending[self.number] = self
        self.connection.advance()

    def reply(self, status=200, fields=(), body=b"", trailers=None):
        """A response of known length, without DATA where it has no body."""
        length = [] if any(field[0] == "content-length" for field in fields) else [("content-length", str(len(body)))]
        if self.method == "HEAD" or not body and not trailers:
            return self.respond(status, *fields, *length, end=True)
        self.respond(status, *fields, *length)
        self.put(body, True, trailers)

    def cancel(self, code=8):
        self.is_cancelled, self.has_responded = True, True
        self.queue.clear()
        self.connection.send(reset(self.number, code))


class UpstreamConnection(Endpoint):
    """A connection of the proxy. `protocol` is `h2` or `http1` as soon as the first bytes say so."""

    who = "the proxy"

    def __init__(self, connected, upstream):
        super().__init__(connected, (), upstream.channels)
        self.upstream, self.protocol, self.encoder = upstream, None, hpack.Encoder()
        self.gives_back, self.acknowledges = upstream.gives_back, upstream.values is not None
        # Requests in their order, those that have something to send, frames as they came, and the highest number.
        self.requests, self.sending, self.frames, self.last = [], {}, [], 0

    def handle_input(self):
        if self.protocol is None:
            text = bytes(self.input[:len(PREFACE)])
            if self.upstream.answer is not None and text:
                self.protocol = "bytes"
                self.send(self.upstream.answer)
            elif not PREFACE.startswith(text):
                self.protocol = "http1"
            elif text == PREFACE:
                self.protocol = "h2"
                del self.input[:len(PREFACE)]
                if self.upstream.values is not None:
                    self.change_settings(*self.upstream.values, waits=False)
                self.output += self.upstream.greeting
                self.flush()
        if self.protocol == "h2":
            super().handle_input()
            self.advance()

    def begin_late(self):
        """The SETTINGS that were held back, with what the proxy's own ones are owed."""
        self.acknowledges = True
        self.change_settings(waits=False)
        self.send(frame(SETTINGS, 0, b"", ACK))

    def handle_frame(self, kind, flags, number, payload):
        self.frames.append((TYPES[kind] if kind < len(TYPES) else kind, flags, number, payload))
        super().handle_frame(kind, flags, number, payload)

    def count(self, name, number=None):
        """How many frames of this type have come."""
        return sum(frame[0] == name and number in (None, frame[2]) for frame in self.frames)

    def open_by_peer(self, kind, number):
        if kind != HEADERS or number % 2 == 0 or number <= self.last:
            raise Failure(f"the proxy sent {TYPES[kind]} on stream {number} behind stream {self.last}")
        self.last = number
        request = self.streams[number] = Request(self, number, *self.windows())
        self.requests.append(request)
        limit = self.own.get(MAX_CONCURRENT_STREAMS)
        # A stream that was opened before the limit was known is the upstream's to refuse.
        if limit is not None and len(self.open_requests()) > limit and self.acknowledgements:
            raise Failure(f"the proxy opened {len(self.open_requests())} streams where {limit} are allowed")
        return request

    def open_requests(self):
        return [request for request in self.requests if not request.is_closed]

    def handle_head(self, stream, flags, block):
        fields = self.decode(stream, block)
        if stream.head:
            self.handle_trailers(stream, flags, fields)
        else:
            self.check_head(fields)
            stream.head = (dict(fields)[b":method"].decode(), fields)
        self.end(stream, flags)
        if stream.trailers is None:
            self.upstream.begin(stream)

    def check_head(self, fields):
        names = [name for name, _ in fields]
        pseudo = [name for name in names if name.startswith(b":")]
        if sorted(pseudo) != [b":authority", b":method", b":path", b":scheme"] or pseudo != names[:4]:
            raise Failure(f"the proxy's head has the pseudo-header fields {pseudo}")
        if b"host" in names or dict(fields).get(b"te", b"trailers") != b"trailers":
            raise Failure(f"the proxy sent host or te: {fields}")

    def end(self, stream, flags):
        super().end(stream, flags)
        if stream.is_ended and stream.handle_request:
            stream.handle_request(stream)

    def advance(self):
        """Sends what is queued, a frame of each stream after another, as the windows permit."""
        moved = True
        while moved and not self.ended:
            moved = False
            for request in list(self.sending.values()):
                if request.is_cancelled or request.reset is not None:
                    del self.sending[request.number]
                    continue
                moved |= self.advance_one(request)
        self.flush()

    def advance_one(self, request):
        size = min(len(request.queue), FRAME_SIZE, request.send_window, self.send_window)
        if len(self.output) > 1 << 20:
            return False
        if size > 0:
            ends = size == len(request.queue) and request.ending is True
            self.output += data(request.number, bytes(request.queue[:size]), ends)
            del request.queue[:size]
            request.send_window, self.send_window = request.send_window - size, self.send_window - size
            self.finish(request, ends)
            return True
        if not request.queue:
            if request.ending is True:
                self.output += data(request.number, b"", True)
            elif request.ending:
                self.output += headers(request.number, self.encode(request.ending))
            self.finish(request, request.ending is not None)
        return False

    def finish(self, request, ends):
        if ends or not request.queue and request.ending is None:
            del self.sending[request.number]
        request.has_responded |= bool(ends)

    def serve(self):
        super().serve()
        if self.sending:
            self.advance()


class Listener:
    """A port of the upstream."""

    ended, output, is_paused = None, b"", False

    def __init__(self, upstream, tls=None):
        self.upstream, self.tls = upstream, tls
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]

    def serve(self):
        while True:
            try:
                connected, _ = self.socket.accept()
            except BlockingIOError:
                return
            if self.tls:
                connected = self.tls.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
            self.upstream.connections.append(UpstreamConnection(connected, self.upstream))


class MultiplexedUpstream:
    """Ports without and with TLS. Between two rows it closes its connections, so that each row has new ones."""

    def __init__(self, certificate):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        context.set_alpn_protocols(["h2", "http/1.1"])
        self.tls, self.plain, self.secure = context, Listener(self), Listener(self, context)
        self.numbers, self.connections = itertools.count(1), []
        self.begin_row()

    def begin_row(self):
        # SETTINGS of new connections, or None; bytes behind them; bytes in place of HTTP/2.
        self.values, self.greeting, self.answer = ((INITIAL_WINDOW_SIZE, 1 << 20),), b"", None
        self.scripts, self.clients, self.gives_back = {}, [], True

    def end_row(self):
        """Ends all connections, and waits until the proxy has noticed."""
        deadline = time.monotonic() + 2
        halted = set()
        while live := [connection for connection in self.connections if not connection.ended]:
            for connection in live:
                connection.is_paused, connection.protocol = False, "ended"
                if connection not in halted:
                    halted.add(connection)
                    connection.output.clear()
                    try:
                        socket.socket.shutdown(connection.socket, socket.SHUT_WR)
                    except OSError:
                        connection.ended = "cut"
            if time.monotonic() > deadline:
                break
            try:
                turn([self.plain, self.secure, *live], 0.02)
            except Exception:  # The row is over.
                pass
        for connection in self.connections:
            connection.socket.close()
        self.connections.clear()
        self.begin_row()

    def channels(self):
        return [self.plain, self.secure, *self.connections, *self.clients]

    def on(self, script=None, prefix="/h2"):
        """A new path; without a script the row responds itself."""
        path = f"{prefix}/r{next(self.numbers)}"
        self.scripts[path] = script or hold
        return path

    def begin(self, request):
        self.scripts.get(request.path.split("?")[0], not_found)(request)

    def requests(self, path=None):
        """What has come so far for the path, in the order of the connections."""
        return [request for connection in self.connections for request in connection.requests
                if request.head and path in (None, request.path.split("?")[0])]

    def until(self, what, ready, seconds=None):
        deadline = time.monotonic() + (seconds or patience())
        while not (value := ready()):
            if time.monotonic() > deadline:
                raise Failure(f"expected {what}, seen nothing of it for {seconds or patience():.0f} s")
            turn(self.channels(), deadline - time.monotonic())
        return value

    def request(self, path, number=0):
        self.until(f"request {number + 1} for {path} at the HTTP/2 upstream", lambda: len(self.requests(path)) > number)
        return self.requests(path)[number]

    def finished(self, path, number=0):
        """The same with its end."""
        request = self.request(path, number)
        self.until("the end of the request at the upstream", lambda: request.is_over)
        return request

    def plain_request(self, number=0):
        """A connection of HTTP/1.1 whose request's head has come."""
        def found():
            return [one for one in self.connections if one.protocol == "http1" and b"\r\n\r\n" in one.input]
        self.until(f"request {number + 1} over HTTP/1.1 at the upstream", lambda: len(found()) > number)
        return found()[number]

    def pause(self, seconds):
        """Serves for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            turn(self.channels(), left)


def hold(_):
    """The row responds."""


def not_found(request):
    request.on_end(lambda request: request.reply(404))


def ok(request):
    request.on_end(lambda request: request.reply(200, [("content-type", "text/plain")], b"ok"))


def echo(request):
    request.on_end(lambda request: request.reply(200, [], bytes(request.body)))


def answer(status=200, fields=(), body=b"", trailers=None):
    """A script with this response."""
    return lambda request: request.on_end(lambda request: request.reply(status, fields, body, trailers))
