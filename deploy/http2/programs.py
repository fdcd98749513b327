"""Programs of a row: real clients and real upstreams. They are served while the row waits for them, and end with it."""

import os
import shutil
import subprocess
import tempfile
import time

from multiplexed import answer as respond
from multiplexed import echo as echo_stream
from multiplexed import ok
from processes import die_with_parent
from rows import ROWS, Failure, Row, Skipped, patience
from upstream import echo, pattern, send

# Proxies of the environment are for other addresses.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and not name.startswith("LANYARD_")}


def missing(tool):
    """A row that needs it counts neither as passed nor as failed, and the end of the run names it."""
    return Skipped(f"missing tool: {tool}", tool)


class Program:
    """A process whose end wakes the row as the bytes of a socket do (`channel.turn`)."""

    output, is_paused = b"", False

    def __init__(self, server, *command, feed=None):
        """`feed`: bytes on its standard input."""
        self.server, self.name, self.ended = server, os.path.basename(command[0]), None
        if not shutil.which(command[0]):
            raise missing(self.name)
        self.files = [tempfile.TemporaryFile() for _ in range(3)]
        self.files[0].write(feed or b"")
        self.files[0].seek(0)
        self.process = subprocess.Popen(
            command, stdin=self.files[0], stdout=self.files[1], stderr=self.files[2], env=ENVIRONMENT, preexec_fn=die_with_parent,
            start_new_session=True)
        self.socket = os.pidfd_open(self.process.pid)
        server.programs.append(self)
        server.h2.clients.append(self)

    def serve(self):
        self.ended = "exit" if self.process.poll() is not None else None

    def text(self, number=1):
        """What it has written: 1 is standard output, 2 the errors."""
        return os.pread(self.files[number].fileno(), os.fstat(self.files[number].fileno()).st_size, 0)

    def described(self):
        return (self.text(2) + self.text(1)).decode("utf-8", "replace")[-400:]

    def until(self, what, ready, seconds=None):
        """Waits for something while the program runs."""
        def checked():
            value = ready()
            if not value and self.ended:
                raise Failure(f"expected {what}, seen the end of {self.name}: {self.described()}")
            return value
        return self.server.h2.until(what, checked, seconds)

    def finish(self, seconds=None):
        """Its output, once it has ended with status 0."""
        try:
            self.server.h2.until(f"the end of {self.name}", lambda: self.ended, seconds or 3 * patience())
        except Failure as failure:
            raise Failure(f"{failure}: {self.described()}") from None
        if self.process.returncode:
            raise Failure(f"{self.name} ended with {self.process.returncode}: {self.described()}")
        return self.text()

    def stop(self):
        if self.process.poll() is None:
            # With what it has started: a browser is many processes.
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.socket)
        for file in self.files:
            file.close()


def run(server, *command, feed=None, seconds=None):
    """Its output; it must end with status 0."""
    return Program(server, *command, feed=feed).finish(seconds)


class PlainSide:
    """Paths of the HTTP/1.1 upstream."""

    name = "http1"

    def __init__(self, server):
        self.server = server

    def ok(self):
        return self.server.path

    def echo(self):
        return self.server.upstream.on(echo)

    def sized(self, size):
        return self.server.upstream.on(send(size))

    def trailers(self):
        """The response's trailer x-sum has the length of the request's body, x-mine the request's trailer of that name."""
        def script(exchange):
            body = exchange.read_body()
            exchange.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            exchange.chunk(b"body")
            exchange.end_chunks(*trailers_of(body, exchange.trailers))
        return self.server.upstream.on(script)

    def requests(self, path):
        return self.server.upstream.seen(path)

    def is_cut(self, path, number=0):
        """Whether the request has ended before its response."""
        return self.requests(path)[number].is_cut


class MultiplexedSide:
    """The same of the HTTP/2 upstream."""

    name = "http2"

    def __init__(self, server):
        self.server = server

    def ok(self):
        return self.server.h2.on(ok)

    def echo(self):
        return self.server.h2.on(echo_stream)

    def sized(self, size):
        return self.server.h2.on(respond(200, [], pattern(0, size)))

    def trailers(self):
        def script(request):
            received = [(name.decode(), value.decode()) for name, value in request.trailers or ()]
            # Of unknown length: curl does not read trailers behind a known one.
            request.respond(200, ("content-type", "text/plain"))
            request.put(b"body", trailers=trailers_of(request.body, received))
        return self.server.h2.on(lambda request: request.on_end(script))

    def requests(self, path):
        return self.server.h2.requests(path)

    def is_cut(self, path, number=0):
        return self.requests(path)[number].reset is not None


def trailers_of(body, trailers):
    return [("x-sum", str(len(body)))] + [("x-mine", value) for name, value in trailers if name == "x-mine"]


def upstreams(rule, title, *, quick=False, own=None):
    """Two rows: the function gets the server and the side of the upstream, of HTTP/1.1 and of HTTP/2."""
    def add(function):
        for side, label in ((PlainSide, "HTTP/1.1"), (MultiplexedSide, "HTTP/2")):
            def bound(server, side=side):
                function(server, side(server))
            name = f"{function.__module__}/{function.__name__}.{side.name}"
            ROWS.append(Row(rule, f"{title} (upstream: {label})", bound, name, None, own, quick))
        return function
    return add


def accepted(port):
    """How many established connections this port of the machine has, of those that it has accepted."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def quickly(what, ready):
    """For a thread of the row that waits for what another one does."""
    deadline = time.monotonic() + patience()
    while not ready():
        if time.monotonic() > deadline:
            raise Failure(f"expected {what}, seen nothing of it for {patience():.0f} s")
        time.sleep(0.01)
