"""Faults of HTTP/2 towards upstreams that a review has found: each row fails on the program as it was before."""

import signal
import socket
import struct
import threading
import time

from calls import StreamCall, both, complete, problem, served
from frames import INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, goaway, window_update
from multiplexed import hold, ok
from rows import Failure, expect, row
from upstream import MIB, pattern, wait_until

QUICK = {"keys": {"shards": 1, "http2": {"ping_after": "1s", "ping_timeout": "1s"}}}
ONE_SHARD = {"keys": {"shards": 1}}
HELD = {"keys": {"shards": 1, "http2": {"stream_window": "1MiB"}}, "route": {"replay_body_max": "1MiB"}}


# A connection whose PING is not answered

def leave_without_reply(server):
    """R1 is silent and its PING without a reply; R2 gets its place. Both are cancelled, and the connection is idle.

    R2 begins so late that the connection is not silent for ping_after when R3 begins: it is not probed.
    """
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)
    path, connection = server.h2.on(hold, "/one"), server.connect()
    first = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    request.connection.fence()
    request.connection.acknowledges = False
    second = StreamCall(server, path, connection=connection)
    server.h2.until("PING", lambda: request.connection.pings, 5)
    asked = time.monotonic()
    server.h2.pause(0.5)
    first.cancel()
    waiter = server.h2.request(path, 1)
    expect("R2 is on the connection of R1", True, waiter.connection is request.connection)
    server.h2.pause(0.2)
    second.cancel()
    server.h2.until("RST_STREAM", lambda: waiter.reset is not None)
    server.h2.pause(max(0, asked + 1.15 - time.monotonic()))
    return connection


@row("H31", "connections_max 1, MAX_CONCURRENT_STREAMS 1: R1's PING has no reply, R2 gets its place; both are cancelled, R3 is served",
     own=QUICK)
def without_reply(server):
    connection, path = leave_without_reply(server), server.h2.on(ok, "/one")
    complete(StreamCall(server, path, method="POST", body=b"body", connection=connection))
    complete(StreamCall(server, path, connection=connection))
    server.lives()


@row("H31", "the same with ten requests at once in place of R3, one of which is cancelled", own=QUICK)
def without_reply_several(server):
    connection, path = leave_without_reply(server), server.h2.on(ok, "/one")
    many = [StreamCall(server, path, method="POST", body=b"body", connection=connection) for _ in range(10)]
    many.pop(4).cancel()
    for made in many:
        complete(made)
    complete(StreamCall(server, path, connection=connection))
    server.lives()


# Requests that leave while a connection is opened

SLOW = {"connect": "3s", "connect_all": "3s"}


class FullListener:
    """A port whose handshakes are not answered, until `serve`."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(0)
        self.port, self.fillers = self.socket.getsockname()[1], []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self.fillers.append(filler)
        time.sleep(0.05)


FULL = {}


def full_port(_):
    FULL["listener"] = FullListener()
    return FULL["listener"].port


LEAVING = {"keys": {"shards": 1}, "routes": [
    ("full", "/full", full_port, {"protocol": "http2", "connections_max": 1, "timeouts": SLOW}),
    ("secure-one", "/secure-one", 0, lambda server: server.secure_keys(connections_max=1, timeouts=SLOW))]}


def leave(server, prefix, order, connection):
    """A leader and two followers wait for one connection; all leave in this order."""
    path = server.h2.on(ok, prefix)
    many = []
    for _ in range(3):
        many.append(StreamCall(server, path, connection=connection))
        connection.fence()
    server.h2.pause(0.3)
    for number in order:
        many[number].cancel()
        connection.fence()
    return path


@row("H25", "a leader and its followers leave while a connection is opened: the next request has a connect time of its own", own=LEAVING)
def leaving_connect(server):
    connection = server.connect()
    leave(server, "/full", (0, 1, 2), connection)
    server.h2.pause(1.2)
    for _ in range(2):
        began = time.monotonic()
        problem_of(StreamCall(server, "/full/x", connection=connection), 504, 502, 503)
        if not 2.5 <= time.monotonic() - began <= 5:
            raise Failure(f"expected the connect error after 3 s, seen it after {time.monotonic() - began:.1f} s")


@row("H25", "they leave during the handshake of TLS, in any order: the next request has a connection of its own at once", own=LEAVING)
def leaving_handshake(server):
    secure = server.h2.secure
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        connection = server.connect()
        secure.is_paused = True
        try:
            path = leave(server, "/secure-one", order, connection)
            secure.serve()
            for one in server.h2.connections:
                one.is_paused = True
        finally:
            secure.is_paused = False
        made = StreamCall(server, path, connection=connection)
        made.until("a response in 1 s", lambda made=made: made.stream.is_over, 1)
        complete(made)
        server.end_connections()


def problem_of(made, *statuses):
    """Lanyard's own response with one of these statuses."""
    made.until("an end", lambda: made.stream.is_over)
    if made.stream.status not in statuses or made.stream.values("content-type") != ["application/problem+json"]:
        raise Failure(f"expected a problem of {statuses}, seen {made.stream}")


# A connection that ends as a request is sent

def reset_connection(request):
    """By TCP."""
    request.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.connection.close()


@both("H35", "a held POST whose connection is reset behind the whole of it: it is sent once, and gets a 502", own=HELD)
def reset_read(server, kind):
    for size in (60_000, 65_000, 66_000, 80_000, 200_000, 900_000):
        for is_fresh in (True, False):
            server.end_connections()
            server.h2.values, server.h2.greeting = ((INITIAL_WINDOW_SIZE, 8 * MIB),), window_update(0, 8 * MIB)
            if not is_fresh:
                served(server)
            path = server.h2.on(lambda request: request.on_end(reset_connection))
            made = kind(server, path, method="POST", body=pattern(0, size))
            problem(made, 502)
            expect(f"sendings of {size} bytes", 1, len(server.h2.requests(path)))


@both("H35", "a held POST whose connection is reset in the middle of it, and behind its head: it is sent once, and gets a 502", own=HELD)
def reset_within(server, kind):
    for size in (60_000, 100_000, 900_000):
        for part in (0, 10_000, 50_000):
            path = server.h2.on(hold)
            made = kind(server, path, method="POST", body=pattern(0, size))
            request = server.h2.request(path)
            server.h2.until("a part", lambda request=request, part=part: len(request.body) >= part)
            reset_connection(request)
            problem(made, 502)
            expect(f"sendings of {size} bytes", 1, len(server.h2.requests(path)))


@both("H35", "a held POST that leaves in one turn, whose connection is reset as its first bytes come: it is sent once, and gets a 502",
      own=HELD)
def reset_turn(server, kind):
    for size in (100_000, 900_000):
        for part in (1000, 10_000, 60_000):
            for _ in range(4):
                server.end_connections()
                server.h2.values = ((MAX_CONCURRENT_STREAMS, 1), (INITIAL_WINDOW_SIZE, 8 * MIB))
                server.h2.greeting = window_update(0, 8 * MIB)
                first, path = server.h2.on(hold, "/one"), server.h2.on(ok, "/one")
                held = StreamCall(server, first)
                request = server.h2.request(first)
                request.connection.fence()
                made = kind(server, path, method="POST", body=pattern(0, size))
                server.h2.pause(0.05)
                one = request.connection
                one.is_paused = True
                reader = threading.Thread(target=reset_behind, args=(one.socket, part))
                reader.start()
                request.reply(200, [], b"ok")
                reader.join(5)
                one.close()
                complete(held)
                problem(made, 502)
                expect(f"further sendings of {size} bytes", 0, len(server.h2.requests(path)))


def reset_behind(connection, count):
    """Resets the connection as soon as so many bytes have come: in a thread of its own, since Lanyard's turn lasts a millisecond."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.settimeout(5)
    try:
        while count > 0 and (received := connection.recv(1 << 16)):
            count -= len(received)
    except OSError:
        pass
    connection.close()


@both("H35", "a POST comes at the same moment as the end of the idle connection, by FIN, GOAWAY with FIN, or a reset: it is served",
      own=ONE_SHARD)
def meets_end(server, kind):
    for case in MEETINGS:
        expect(f"status and sendings ({case})", (200, 1), meet(server, kind, b"body", *case))


@both("H35", "the same with 300 KB: it is served, or gets a 502 where a part was sent before the end was read, and is sent once", own=HELD)
def meets_end_large(server, kind):
    for case in MEETINGS:
        status, sendings = meet(server, kind, pattern(0, 300_000), *case)
        if sendings != 1 or status not in (200, 502) or status == 502 and case != ("FIN", True):
            raise Failure(f"expected 200 and one sending, seen {status} and {sendings} ({case})")


# How the connection ends, and whether the request is first.
MEETINGS = [(how, is_first) for how in ("FIN", "GOAWAY", "reset") for is_first in (True, False)]


def meet(server, kind, body, how, is_request_first):
    """Returns the status, and how often the request was sent; GOAWAY says that the ended connection's one was not processed."""
    server.end_connections()
    server.h2.values, server.h2.greeting = ((INITIAL_WINDOW_SIZE, 8 * MIB),), window_update(0, 8 * MIB)
    made, path = kind(server, server.h2.on(ok)), server.h2.on(ok)
    complete(made)
    connection, one = getattr(made, "connection", None), server.h2.requests()[-1].connection
    if connection:
        connection.fence()
    server.process.send_signal(signal.SIGSTOP)
    wait_until("a stopped process", lambda: is_stopped(server.process.pid))
    steps = [lambda: begin(server, made, path, connection, body), lambda: end_idle(one, how)]
    try:
        # What loopback's sockets have taken is in Lanyard's.
        later = [step() for step in (steps if is_request_first else steps[::-1])][0 if is_request_first else 1]
    finally:
        server.process.send_signal(signal.SIGCONT)
    later.until(f"a response ({how})", lambda: later.stream.is_over)
    requests = [request for request in server.h2.requests(path) if how != "GOAWAY" or request.connection is not one]
    return later.stream.status, len(requests)


def is_stopped(number):
    with open(f"/proc/{number}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def begin(server, made, path, connection, body):
    """A POST on the client's connection. Lanyard does not run: what the socket does not take waits."""
    if connection:
        return StreamCall(server, path, method="POST", body=body, connection=connection)
    made.begin(path, method="POST", body=b"", length=len(body), end=False)
    made.output += body
    made.flush()
    return made


def end_idle(one, how):
    """The upstream ends its connection."""
    if how == "GOAWAY":
        one.output += goaway(one.last)
        one.flush()
    if how == "reset":
        one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    else:
        one.socket.shutdown(socket.SHUT_WR)
