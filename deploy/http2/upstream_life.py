"""The life of upstream connections: PING, idle ones, their age, and how many requests they carry."""

import time

from calls import StreamCall, both, complete, cut, served
from multiplexed import answer, hold, ok
from rows import Failure, expect, row

QUICK = {"keys": {"http2": {"ping_after": "1s", "ping_timeout": "1s"}}}


def waiting(server, **options):
    """A call whose request has come. Returns (call, request)."""
    path = server.h2.on(hold)
    call = StreamCall(server, path, **options)
    return call, server.h2.request(path)


def held(server, connection):
    """One connection that carries requests."""
    expect("connections with requests", 1, len([one for one in server.h2.connections if one.requests]))
    expect("its end", None, connection.ended)


@row("H31", "a silent upstream with an open stream gets one PING; one that does not answer is closed, and the client gets a 502",
     own=QUICK)
def silent(server):
    began = time.monotonic()
    call, request = waiting(server, method="POST", body=b"body")
    request.connection.acknowledges = False
    call.until("an end", lambda: call.stream.is_over, 10)
    seconds = time.monotonic() - began
    cut(call, 502, 504)
    expect("PING frames", 1, request.connection.count("PING"))
    if not 1.5 <= seconds <= 6:
        raise Failure(f"expected an end after about 2 s, seen it after {seconds:.1f} s")
    server.h2.until("the end of the connection", lambda: request.connection.ended)
    served(server)


@row("H32", "an upstream that answers gets no second PING in the same silence, and its stream stays", own=QUICK)
def silent_answered(server):
    call, request = waiting(server)
    server.h2.until("PING", lambda: request.connection.count("PING"), 10)
    server.h2.pause(4)
    expect("PING frames", 1, request.connection.count("PING"))
    request.reply(200, [], b"ok")
    complete(call)


@row("H32", "DATA ends the silence: a further silence may have a further PING", own=QUICK)
def silent_again(server):
    call, request = waiting(server)
    server.h2.until("PING", lambda: request.connection.count("PING") == 1, 10)
    request.respond(200)
    request.put(b"x")
    server.h2.until("a second PING", lambda: request.connection.count("PING") == 2, 10)
    request.put(b"y", True)
    expect("body", b"xy", bytes(complete(call).body))


@row("H31", "an upstream that sends is not silent: no PING while DATA comes each half second", own=QUICK)
def speaking(server):
    call, request = waiting(server)
    request.respond(200)
    for _ in range(6):
        request.put(b"x")
        server.h2.pause(0.5)
    expect("PING frames", 0, request.connection.count("PING"))
    request.put(b"", True)
    complete(call)


@row("H32", "no PING without open streams", own=QUICK)
def idle(server):
    served(server)
    connection = server.h2.connections[-1]
    server.h2.pause(3.5)
    expect("PING frames", 0, connection.count("PING"))
    held(server, connection)


@row("H33", "a connection that was idle beyond ping_after is probed by a PING before a request, and then used", own=QUICK)
def probed(server):
    connection = server.connect()
    complete(StreamCall(server, server.h2.on(ok), connection=connection))
    one = server.h2.connections[-1]
    server.h2.pause(1.5)
    path = server.h2.on(ok)
    complete(StreamCall(server, path, connection=connection))
    request = server.h2.requests(path)[0]
    expect("the connection of the second request is the first one", True, request.connection is one)
    names = [name for name, *_ in one.frames]
    expect("PING frames in front of the second HEADERS", True, "PING" in names[:len(names) - names[::-1].index("HEADERS")])


@row("H33", "an idle connection that does not answer the probe is replaced after a second, and the POST is served", own=QUICK)
def probed_dead(server):
    connection = server.connect()
    complete(StreamCall(server, server.h2.on(ok), connection=connection))
    one = server.h2.connections[-1]
    server.h2.pause(1.5)
    one.acknowledges = False
    path, began = server.h2.on(ok), time.monotonic()
    complete(StreamCall(server, path, method="POST", body=b"body", connection=connection))
    seconds = time.monotonic() - began
    expect("the old connection", False, server.h2.requests(path)[0].connection is one)
    if not 0.5 <= seconds <= 4:
        raise Failure(f"expected a second of patience, seen {seconds:.1f} s")


@row("H33", "20 requests at once behind a probe share its connection; one that is cancelled while it waits does no harm", own=QUICK)
def probed_many(server):
    connection = server.connect()
    complete(StreamCall(server, server.h2.on(ok), connection=connection))
    one = server.h2.connections[-1]
    server.h2.pause(1.5)
    one.is_paused = True
    path = server.h2.on(ok)
    many = [StreamCall(server, path, connection=connection) for _ in range(20)]
    connection.fence()
    many[0].cancel()
    many[7].cancel()
    connection.fence()
    one.is_paused = False
    for number, call in enumerate(many):
        if number not in (0, 7):
            complete(call)


@row("H33", "all requests behind a probe are cancelled, and then the probe is answered, or not", own=QUICK)
def probed_cancelled(server):
    for answers in (True, False):
        connection = server.connect()
        complete(StreamCall(server, server.h2.on(ok), connection=connection))
        one = [each for each in server.h2.connections if not each.ended][-1]
        server.h2.pause(1.5)
        one.is_paused = True
        path = server.h2.on(ok)
        call = StreamCall(server, path, connection=connection)
        connection.fence()
        call.cancel()
        connection.fence()
        one.is_paused, one.acknowledges = False, answers
        server.h2.pause(1.5)
        complete(StreamCall(server, path, connection=connection))


@row("H34", "requests_max: a connection carries so many requests, and the next one has another",
     own={"keys": {"http2": {"requests_max": 3}}})
def requests_max(server):
    connection, path = server.connect(), server.h2.on(ok)
    for _ in range(7):
        complete(StreamCall(server, path, connection=connection))
    expect("requests of the connections", [3, 3, 1], [len(one.requests) for one in server.h2.connections if one.requests])
    server.h2.until("the end of the first two", lambda: all(one.ended for one in server.h2.connections[:2]))


@row("H34", "requests_max with 10 requests at once: all are served", own={"keys": {"http2": {"requests_max": 3}}})
def requests_max_at_once(server):
    connection, path = server.connect(), server.h2.on()
    many = [StreamCall(server, path, connection=connection) for _ in range(10)]
    server.h2.until("10 requests", lambda: len(server.h2.requests(path)) == 10)
    if max(len(one.requests) for one in server.h2.connections) > 3:
        raise Failure(f"expected 3 requests at most, seen {[len(one.requests) for one in server.h2.connections]}")
    for request in server.h2.requests(path):
        request.reply(200, [], b"ok")
    for call in many:
        complete(call)


@row("H34", "max_age: an old connection takes no further request, and its open stream ends in order",
     own={"keys": {"http2": {"max_age": "1s"}}})
def max_age(server):
    connection = server.connect()
    path, open_path = server.h2.on(ok), server.h2.on()
    call = StreamCall(server, open_path, connection=connection)
    first = server.h2.request(open_path)
    server.h2.pause(1.3)
    complete(StreamCall(server, path, connection=connection))
    expect("the connection of the second is the old one", False, server.h2.requests(path)[0].connection is first.connection)
    first.reply(200, [], b"ok")
    complete(call)


@row("H34", "max_age: an old connection is closed once its last stream has ended", own={"keys": {"http2": {"max_age": "1s"}}})
def max_age_closed(server):
    call, request = waiting(server)
    server.h2.pause(1.3)
    request.reply(200, [], b"ok")
    complete(call)
    server.h2.until("the end of the old connection", lambda: request.connection.ended, 5)


@both("H30", "a drain: open requests to an HTTP/2 upstream end in order, and its connection ends with GOAWAY or FIN", own={})
def drain(server, kind):
    path = server.h2.on()
    call = kind(server, path)
    request = server.h2.request(path)
    request.respond(200)
    request.put(b"first")
    call.until("the first bytes", lambda: call.stream.body == b"first")
    server.drain()
    server.h2.pause(0.3)
    request.put(b"second", True)
    expect("body", b"firstsecond", bytes(complete(call).body))
    server.h2.until("the end of the connection", lambda: request.connection.ended)


@row("8", "20 idle upstream connections, and a stream that waits, cost no CPU", own={})
def idle_cpu(server):
    calls = [waiting(server)[0] for _ in range(10)]
    for _ in range(10):
        complete(StreamCall(server, server.h2.on(answer(200, [], b"ok"))))
    for _ in range(20):
        before = server.cpu_ticks()
        server.h2.pause(0.5)
        if server.cpu_ticks() - before <= 2:
            break
    else:
        raise Failure("expected 2 ticks of CPU in half a second at most")
    expect("calls that wait", 10, sum(not call.stream.is_over for call in calls))
