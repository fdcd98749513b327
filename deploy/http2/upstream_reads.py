"""Responses whose frames Lanyard reads at once: a head waits for the first bytes of its body in the same read, and is relayed with them."""

import contextlib

from calls import StreamCall, both, complete, cut, problem
from frames import INITIAL_WINDOW_SIZE, NO_ERROR, REFUSED_STREAM, goaway
from multiplexed import hold, ok
from rows import expect, row


@contextlib.contextmanager
def one_write(connection):
    """What is sent within leaves in one write."""
    connection.send = lambda *parts: connection.output.extend(b"".join(parts))
    connection.flush = lambda: None
    try:
        yield
    finally:
        del connection.send, connection.flush
        connection.send()


def ask(server, kind, count, **options):
    """So many requests on one connection of the upstream."""
    path = server.h2.on(hold, "/one")
    connection = server.connect() if kind is StreamCall else None
    shared = {"connection": connection} if connection else {}
    calls = [kind(server, path, **shared, **options) for _ in range(count)]
    return calls, [server.h2.request(path, number) for number in range(count)]


@row("H12", "HTTP/2 to HTTP/2: heads of 20 streams, then their bodies, then their trailers")
def heads_first(server):
    calls, requests = ask(server, StreamCall, 20)
    with one_write(requests[0].connection):
        for request in requests:
            request.respond(200, ("content-type", "text/plain"))
        for number, request in enumerate(requests):
            request.put(b"body %d" % number)
        for request in requests:
            request.put(b"", trailers=[("x-end", "yes")])
    for request in requests:
        number = requests.index(request)
        expect("body", b"body %d" % number, bytes(complete(calls[number]).body))
        expect("trailers", [(b"x-end", b"yes")], calls[number].stream.trailers)


@both("H16", "two interim heads, the final one, body and trailers in one read")
def whole(server, kind):
    (made,), (request,) = ask(server, kind, 1)
    with one_write(request.connection):
        request.respond(103, ("link", "</a>"))
        request.respond(103, ("link", "</b>"))
        request.respond(200, ("content-type", "text/plain"))
        request.put(b"body", trailers=[("x-end", "yes")])
    stream = complete(made)
    expect("interim responses, status, body", ([103, 103], 200, b"body"),
           ([head[0] for head in stream.interim], stream.status, bytes(stream.body)))


@both("H12", "a head without a body in its read is relayed at once")
def head_alone(server, kind):
    (made,), (request,) = ask(server, kind, 1)
    request.respond(200, ("content-type", "text/event-stream"))
    made.until("the head", lambda: made.stream.status == 200)
    expect("body", b"", bytes(made.stream.body))
    request.put(b"data: 1\n\n", True)
    expect("body", b"data: 1\n\n", bytes(complete(made).body))


@both("H15", "a head and a reset in one read: the response is cut, or there is none")
def head_and_reset(server, kind):
    (made,), (request,) = ask(server, kind, 1)
    with one_write(request.connection):
        request.respond(200, ("content-type", "text/plain"))
        request.cancel()
    cut(made, 502)
    server.lives()


@both("H15", "a head, some bytes and a reset in one read: the response is cut")
def body_and_reset(server, kind):
    (made,), (request,) = ask(server, kind, 1)
    with one_write(request.connection):
        request.respond(200, ("content-type", "text/plain"), ("content-length", "100"))
        request.put(b"some bytes")
        request.cancel()
    cut(made, 502)
    server.lives()


@both("H29", "a head, GOAWAY and the body in one read, and the end of the connection behind them")
def goaway_between(server, kind):
    (made,), (request,) = ask(server, kind, 1)
    with one_write(request.connection):
        request.respond(200, ("content-type", "text/plain"))
        request.connection.send(goaway(request.number, NO_ERROR))
        request.put(b"body", True)
    expect("body", b"body", bytes(complete(made).body))
    expect("body of the next", b"ok", bytes(complete(kind(server, server.h2.on(ok, "/one"))).body))


@row("H20", "HTTP/2 to HTTP/2: the client's window is 0 when a head comes with its body: the head passes, the body follows the window")
def client_stalls(server):
    path = server.h2.on(hold)
    connection = server.connect((INITIAL_WINDOW_SIZE, 0))
    made = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    with one_write(request.connection):
        request.respond(200, ("content-type", "text/plain"))
        request.put(b"body", trailers=[("x-end", "yes")])
    made.until("the head", lambda: made.stream.status == 200)
    expect("body without a window", b"", bytes(made.stream.body))
    connection.change_settings((INITIAL_WINDOW_SIZE, 100))
    expect("body", b"body", bytes(complete(made).body))


@both("H45", "a 401 and its body in one read, where no other token is to be had: it is relayed whole")
def refused(server, kind):
    path = server.h2.on(hold)
    made = kind(server, path)
    request = server.h2.request(path)
    with one_write(request.connection):
        request.respond(401, ("www-authenticate", "Bearer"))
        request.put(b"refused", True)
    stream = complete(made, 401)
    expect("body", b"refused", bytes(stream.body))


@row("H28", "HTTP/2 to HTTP/2: REFUSED_STREAM behind the head of another stream in one read")
def refused_beside(server):
    (one, other), (first, second) = ask(server, StreamCall, 2)
    expect("both are on one connection", True, first.connection is second.connection)
    with one_write(first.connection):
        first.respond(200, ("content-type", "text/plain"))
        second.cancel(REFUSED_STREAM)
        first.put(b"body", True)
    done = {"first": first, "second": second}
    again = server.h2.until("the repeated request", lambda: [
        request for request in server.h2.requests(first.path) if request not in done.values()])[0]
    again.reply(200, body=b"again")
    expect("bodies", [b"again", b"body"], sorted(bytes(complete(made).body) for made in (one, other)))


@row("H26", "HTTP/2 to HTTP/2: requests wait behind what a refusal has taught; the SETTINGS of the next connection let them go")
def settings_late(server):
    (made,), (request,) = ask(server, StreamCall, 1)
    server.h2.values = None
    request.cancel(REFUSED_STREAM)
    again = server.h2.request(request.path, 1)
    others = [StreamCall(server, request.path, connection=made.connection) for _ in range(4)]
    made.connection.fence()
    expect("requests before the SETTINGS", 2, len(server.h2.requests(request.path)))
    again.connection.begin_late()
    server.h2.request(request.path, 5)
    for number in range(1, 6):
        server.h2.request(request.path, number).reply(200, body=b"ok")
    for call in (made, *others):
        expect("body", b"ok", bytes(complete(call).body))


@both("H14", "a head with a field that HTTP/2 forbids, and its body, in one read: 502")
def malformed(server, kind):
    (made,), (request,) = ask(server, kind, 1)
    with one_write(request.connection):
        request.respond(200, ("connection", "close"))
        request.put(b"body", True)
    problem(made, 502)
    server.lives()
