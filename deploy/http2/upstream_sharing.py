"""Several requests on one upstream connection: its limits, and what it refuses."""

import time

from calls import KINDS, StreamCall, both, complete, served
from frames import MAX_CONCURRENT_STREAMS, REFUSED_STREAM
from multiplexed import hold, ok
from rows import Failure, expect, row
from upstream import MIB, pattern

# One pool knows what the upstream allows.
ONE_SHARD = {"keys": {"shards": 1}}


def calls(server, count, path=None, **options):
    """Calls on one client's connection."""
    path, connection = path or server.h2.on(), server.connect()
    return path, [StreamCall(server, path, connection=connection, **options) for _ in range(count)]


def arrived(server, path, count):
    server.h2.until(f"{count} requests at the upstream", lambda: len(server.h2.requests(path)) >= count)
    return server.h2.requests(path)


def used(server):
    """Connections that carry, or carried, requests."""
    return [connection for connection in server.h2.connections if connection.requests]


@row("H19", "50 requests of a client share one upstream connection, and end in any order")
def shared(server):
    path, many = calls(server, 50)
    requests = arrived(server, path, 50)
    expect("connections", 1, len(used(server)))
    for number, request in enumerate(reversed(requests)):
        request.reply(200, [], b"%d" % number)
    for call in many:
        complete(call)


@row("H26", "before the upstream's SETTINGS at most 100 streams are open; all 120 requests are served in the end")
def before_settings(server):
    server.h2.values = None
    path, many = calls(server, 120)
    arrived(server, path, 100)
    server.h2.pause(0.5)
    for connection in used(server):
        if len(connection.requests) > 100:
            raise Failure(f"expected 100 streams at most, seen {len(connection.requests)}")
        connection.begin_late()
    while any(not call.stream.is_over for call in many):
        before = len(server.h2.requests(path))
        for request in server.h2.requests(path):
            if not request.is_closed and request.connection.acknowledges:
                request.reply(200, [], b"ok")
        server.h2.until("a response or a request", lambda before=before: all(
            call.stream.is_over for call in many) or len(server.h2.requests(path)) > before)
    for call in many:
        complete(call)


@row("H27", "MAX_CONCURRENT_STREAMS of 1: each further request has another connection")
def limit_one(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)
    served(server)
    connection = server.connect()
    path = server.h2.on()
    for number in range(1, 6):
        StreamCall(server, path, connection=connection)
        arrived(server, path, number)[-1].connection.fence()
    requests = server.h2.requests(path)
    expect("connections", 5, len({request.connection for request in requests}))
    for request in requests:
        request.reply(200, [], b"ok")
    for stream in connection.streams.values():
        connection.response(stream, 200)


@row("H27", "8 requests at once at an upstream that takes one stream and refuses the others: all are served")
def limit_one_refuses(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)

    def script(request):
        if len(request.connection.open_requests()) > 1:
            request.cancel(REFUSED_STREAM)
        else:
            ok(request)
    path, many = calls(server, 8, server.h2.on(script))
    for call in many:
        complete(call)


@row("H27", "MAX_CONCURRENT_STREAMS of 1 and connections_max of 1: requests wait for each other")
def limit_one_waits(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 1),)
    connection = server.connect()
    path = server.h2.on(ok, "/one")
    complete(StreamCall(server, path, connection=connection))
    many = [StreamCall(server, path, connection=connection) for _ in range(5)]
    for call in many:
        expect("body", b"ok", bytes(complete(call).body))


@row("H27", "MAX_CONCURRENT_STREAMS of 0, and then of 10: requests wait, and are served")
def limit_zero(server):
    served(server)
    first = used(server)[0]
    first.change_settings((MAX_CONCURRENT_STREAMS, 0))
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 0),)
    path, (call,) = calls(server, 1)
    server.h2.pause(0.3)
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 10),)
    for connection in [connection for connection in server.h2.connections if not connection.ended]:
        connection.change_settings((MAX_CONCURRENT_STREAMS, 10))
    arrived(server, path, 1)[0].reply(200, [], b"ok")
    complete(call)


@row("H27", "an upstream that allows no stream for ever: 502, 503 or 504 within `timeouts`, and no end of connections")
def limit_zero_always(server):
    server.h2.values = ((MAX_CONCURRENT_STREAMS, 0),)
    served_one = StreamCall(server, server.h2.on(hold, "/short"))
    served_one.until("an end", lambda: served_one.stream.is_over or len(server.h2.requests()) > 0, 12)
    if server.h2.requests():
        # The request came before the limit: it is the upstream's to refuse.
        server.h2.requests()[0].cancel(REFUSED_STREAM)
        served_one.until("an end", lambda: served_one.stream.is_over, 12)
    if served_one.stream.status not in (502, 503, 504):
        raise Failure(f"expected 502, 503 or 504, seen {served_one.stream}")
    if len(server.h2.connections) > 5:
        raise Failure(f"expected a few connections, seen {len(server.h2.connections)}")


@row("H27", "a limit that becomes smaller than what is open: no further stream, and the open ones end in order")
def limit_smaller(server):
    path, many = calls(server, 4)
    requests = arrived(server, path, 4)
    requests[0].connection.change_settings((MAX_CONCURRENT_STREAMS, 2))
    _, (further,) = calls(server, 1, path)
    server.h2.pause(0.3)
    expect("streams of the first connection", 4, len(requests[0].connection.requests))
    for request in requests:
        request.reply(200, [], b"ok")
    for call in many:
        complete(call)
    arrived(server, path, 5)[-1].reply(200, [], b"ok")
    complete(further)


@both("H28", "REFUSED_STREAM: GET and POST with a held body are sent again, once")
def refused(server, kind):
    for method, body in (("GET", None), ("POST", b"held"), ("PUT", b"x" * 20_000)):
        def script(request):
            if len(server.h2.requests(path)) == 1:
                request.cancel(REFUSED_STREAM)
            else:
                request.on_end(lambda request: request.reply(200, [], bytes(request.body) + b"yes"))
        path = server.h2.on(script)
        stream = complete(kind(server, path, method=method, body=body))
        expect(f"body of {method}", (body or b"") + b"yes", bytes(stream.body))
        expect("requests", 2, len(server.h2.requests(path)))


@both("H28", "REFUSED_STREAM beside an open stream: the request is sent again")
def refused_beside(server, kind):
    open_path = server.h2.on()
    first = kind(server, open_path)
    arrived(server, open_path, 1)
    path = server.h2.on(lambda request: request.cancel(REFUSED_STREAM) if len(server.h2.requests(path)) == 1 else ok(request))
    complete(kind(server, path, method="POST", body=b"held"))
    arrived(server, open_path, 1)[0].reply(200, [], b"ok")
    complete(first)


@both("H28", "REFUSED_STREAM after a part of an upload that is not held ends in a 502 or is sent again whole")
def refused_upload(server, kind):
    path = server.h2.on()
    body = pattern(0, MIB)
    call = kind(server, path, method="POST", body=body[:300_000], length=MIB, end=False)
    request = server.h2.request(path)
    server.h2.until("the first part", lambda: len(request.body) >= 300_000)
    request.cancel(REFUSED_STREAM)
    call.until("an end", lambda: call.stream.is_over)
    if call.stream.status not in (502, 503):
        raise Failure(f"expected 502 or 503, seen {call.stream}")
    served(server)


@both("H28", "an upstream that refuses every stream: 502 or 503 after a few tries, and no loop")
def refused_always(server, kind):
    path = server.h2.on(lambda request: request.cancel(REFUSED_STREAM))
    for method in ("GET", "POST"):
        call = kind(server, path, method=method, body=b"held" if method == "POST" else None)
        call.until("an end", lambda call=call: call.stream.is_over)
        if call.stream.status not in (502, 503):
            raise Failure(f"expected 502 or 503, seen {call.stream}")
    if not 2 <= len(server.h2.requests(path)) <= 10:
        raise Failure(f"expected 2 to 10 tries, seen {len(server.h2.requests(path))}")
    served(server)


@row("H3", "requests of HTTP/1.1 and HTTP/2 clients at once: 40 of each, with bodies in step")
def mixed(server):
    path = server.h2.on(lambda request: request.on_end(lambda request: request.reply(200, [], bytes(request.body))))
    many = [(kind(server, path, method="POST", body=pattern(number, 3000 * number % 70_000)), pattern(number, 3000 * number % 70_000))
            for number in range(40) for kind in KINDS.values()]
    for call, body in many:
        expect("body", True, complete(call).body == body)


class Slow:
    """Responds after 50 ms; refuses what is above five streams of a connection."""

    def __init__(self, server, prefix="/h2"):
        self.server, self.due, self.path = server, [], server.h2.on(self.begin, prefix)
        server.h2.values = ((MAX_CONCURRENT_STREAMS, 5),)

    def begin(self, request):
        if len(request.connection.open_requests()) > 5:
            return request.cancel(REFUSED_STREAM)
        return request.on_end(lambda request: self.due.append((time.monotonic() + 0.05, request)))

    def serve(self, calls, seconds=15):
        end = time.monotonic() + seconds
        while not all(call.stream.is_over for call in calls) and time.monotonic() < end:
            self.server.h2.pause(0.005)
            now = time.monotonic()
            for at, request in [each for each in self.due if each[0] <= now]:
                self.due.remove((at, request))
                if not request.is_closed and not request.connection.ended:
                    request.reply(200, [], b"ok")
        seen = sorted(str(call.stream.status) for call in calls)
        expect("responses", {"200": len(calls)}, {status: seen.count(status) for status in seen})


def cold(server, kind, prefix="/h2", **options):
    """60 requests at once, of one client's connection of HTTP/2 or of as many of HTTP/1.1."""
    slow = Slow(server, prefix)
    if kind is StreamCall:
        options["connection"] = server.connect()
    slow.serve([kind(server, slow.path, **options) for _ in range(60)])


@both("H26", "60 GETs at once, and nothing known of the upstream, which allows 5 streams and responds after 50 ms: all are served",
      own=ONE_SHARD)
def cold_get(server, kind):
    cold(server, kind)


@both("H26", "60 POSTs at once at such an upstream: all are served", own=ONE_SHARD)
def cold_post(server, kind):
    cold(server, kind, method="POST", body=b"body")


@both("H26", "60 GETs at once at such an upstream, with connections_max 1: all are served", own=ONE_SHARD)
def cold_one(server, kind):
    cold(server, kind, "/one")


@both("H26", "60 POSTs at once over TLS at such an upstream: all are served", own=ONE_SHARD)
def cold_secure(server, kind):
    cold(server, kind, "/tls", method="POST", body=b"body")
