"""A scripted HTTP/2 upstream of raw frames. It runs in the row's own thread, so that a row says what happens when.

Each path has a script that is called with the head of a request. A row can as well take a request and respond to it by hand. Connections
that do not begin with the preface are HTTP/1.1, whose bytes the row reads and writes.
"""

import itertools
import socket
import ssl
import time

from channel import turn
from frames import INITIAL_WINDOW_SIZE
from responding import UpstreamConnection
from rows import Failure, patience


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
        # Lanyard sends :authority and never host (H9).
        self.demands_authority = True
        self.begin_row()

    def begin_row(self):
        # SETTINGS of new connections, or None; bytes behind them; bytes in place of HTTP/2.
        self.values, self.greeting, self.answer = ((INITIAL_WINDOW_SIZE, 1 << 20),), b"", None
        self.scripts, self.seen, self.clients, self.gives_back = {}, {}, [], True

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
        self.seen.setdefault(request.path.split("?")[0], []).append(request)
        self.scripts.get(request.path.split("?")[0], not_found)(request)

    def requests(self, path=None):
        """What has come so far, for the path or for all."""
        if path:
            return self.seen.get(path, [])
        return [request for requests in self.seen.values() for request in requests]

    def until(self, what, ready, seconds=None):
        deadline = time.monotonic() + (seconds or patience())
        while not (value := ready()):
            if time.monotonic() > deadline:
                raise Failure(f"expected {what}, seen nothing of it for {seconds or patience():.0f} s")
            # What no socket reports, such as a line of the log, is looked at again.
            turn(self.channels(), min(0.2, deadline - time.monotonic()))
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
