"""gRPC: calls pass with their trailers, and Lanyard's own errors have gRPC's form."""

from calls import PlainCall, StreamCall, both, complete, cut
from frames import REFUSED_STREAM, goaway, headers
from multiplexed import hold
from rows import Failure, expect, row, table
from upstream import Gate

CALL = [("content-type", "application/grpc"), ("te", "trailers")]
MESSAGE = b"\0\0\0\0\5hello"


def call(server, path, *fields, content_type="application/grpc", body=MESSAGE, **options):
    return StreamCall(server, path, ("content-type", content_type), ("te", "trailers"), *fields, method="POST", body=body, **options)


def ended(made, code):
    """Lanyard's own error: a head alone, with this status."""
    stream = made.stream
    made.until("an end", lambda: stream.is_over)
    if not stream.is_ended or stream.status != 200 or stream.trailers is not None or stream.body:
        raise Failure(f"expected a head alone of 200, seen {stream} {bytes(stream.body[:200])}")
    expect("content-type", ["application/grpc"], stream.values("content-type"))
    expect("grpc-status", [str(code)], stream.values("grpc-status"))
    (message,) = stream.values("grpc-message")
    if not message or any(not 0x20 <= ord(letter) <= 0x7e for letter in message) or "%" in message and not all(
            len(part) >= 2 and int(part[:2], 16) >= 0 for part in message.split("%")[1:]):
        raise Failure(f"expected a percent-encoded message, seen {message!r}")
    if "lanyard" not in "".join(stream.values("proxy-status")):
        raise Failure(f"expected proxy-status, seen {stream.values('proxy-status')}")
    return message


@row("H12", "a unary call: te and content-type reach the upstream, the message and the trailers come back")
def unary(server):
    path = server.h2.on()
    made = call(server, path)
    request = server.h2.finished(path)
    expect("fields", (["application/grpc"], ["trailers"], MESSAGE),
           (request.values("content-type"), request.values("te"), bytes(request.body)))
    request.respond(200, ("content-type", "application/grpc"))
    request.put(MESSAGE, trailers=[("grpc-status", "0"), ("grpc-message", "")])
    stream = complete(made)
    expect("body and trailers", (MESSAGE, [(b"grpc-status", b"0"), (b"grpc-message", b"")]), (bytes(stream.body), stream.trailers))


@row("H12", "messages both ways one after another, each at once, and the end from the upstream first")
def streaming(server):
    path = server.h2.on()
    made = call(server, path, body=b"", end=False)
    request = server.h2.request(path)
    request.respond(200, ("content-type", "application/grpc"))
    for number in range(1, 20):
        made.put(MESSAGE)
        server.h2.until("a message", lambda number=number: len(request.body) == number * len(MESSAGE))
        request.put(MESSAGE)
        made.until("a message", lambda number=number: len(made.stream.body) == number * len(MESSAGE))
    request.put(b"", trailers=[("grpc-status", "0")])
    expect("trailers", [(b"grpc-status", b"0")], complete(made).trailers)


@row("H12", "an error of the upstream as trailers alone passes as it is")
def trailers_only(server):
    for status in (5, 12, 14):
        path = server.h2.on(lambda request, status=status: request.respond(
            200, ("content-type", "application/grpc"), ("grpc-status", str(status)), ("grpc-message", "caf%C3%A9"), end=True))
        stream = complete(call(server, path))
        expect("fields", ([str(status)], ["caf%C3%A9"]), (stream.values("grpc-status"), stream.values("grpc-message")))


@row("H44", "no route is 12", own={"no_default": True})
def no_route(server):
    ended(call(server, "/nowhere/x"), 12)


@row("H44", "what the route refuses is 7")
def denied(server):
    ended(call(server, "/denied/secret"), 7)


@row("H44", "an authority that is not allowed is 7")
def host(server):
    connection = server.connect()
    connection.authority = "other.example"
    ended(call(server, server.h2.on(hold), connection=connection), 7)


@row("H44", "an upstream that cannot be reached is 14")
def down(server):
    ended(call(server, "/down/x"), 14)


@row("H44", "a login that is missing is 16, and says what to do", own={"signed_out": True})
def login(server):
    message = ended(call(server, "/signed-out/x"), 16)
    if "login" not in message.lower():
        raise Failure(f"expected a message of the login, seen {message}")


@row("H44", "an upstream that resets the stream before its head is 14; one that refuses all streams too")
def reset(server):
    for code in (2, 8, REFUSED_STREAM):
        ended(call(server, server.h2.on(lambda request, code=code: request.cancel(code))), 14)
    ended(call(server, server.h2.on(lambda request: request.connection.send(goaway(0)))), 14)


@row("H44", "an upstream that does not respond in time is 4")
def timeout(server):
    ended(call(server, server.h2.on(hold, "/short")), 4)


@row("H45", "grpc-timeout ends Lanyard's waiting for a connection's place: 4")
def own_timeout(server):
    server.h2.values = ((3, 1),)
    connection = server.connect()
    path = server.h2.on(hold, "/one")
    call(server, path, connection=connection)
    server.h2.request(path).connection.fence()
    ended(call(server, path, ("grpc-timeout", "500m"), connection=connection), 4)


@row("H44", "a head of the upstream that is malformed is 14 or 13")
def malformed(server):
    path = server.h2.on(lambda request: request.connection.send(headers(request.number, b"\x88\x00\x0aConnection\x05close")))
    made = call(server, path)
    made.until("an end", lambda: made.stream.is_over)
    if made.stream.status != 200 or made.stream.values("grpc-status") not in (["13"], ["14"]):
        raise Failure(f"expected grpc-status 13 or 14, seen {made.stream} {made.stream.head}")


@row("H29", "the upstream's connection ends in the middle of a call: RST_STREAM, or trailers with 14")
def torn(server):
    path = server.h2.on()
    made = call(server, path)
    request = server.h2.request(path)
    request.respond(200, ("content-type", "application/grpc"))
    request.put(MESSAGE)
    made.until("the message", lambda: made.stream.body == MESSAGE)
    request.connection.close()
    made.until("an end", lambda: made.stream.is_over)
    if made.stream.trailers is None or dict(made.stream.trailers).get(b"grpc-status") != b"14":
        cut(made)


@table("H43", {
    "plain": ("application/grpc", "application/grpc"), "proto": ("application/grpc+proto", "application/grpc+proto"),
    "parameters": ("application/grpc; charset=x", "application/grpc; charset=x"), "upper": ("Application/GRPC", "Application/GRPC")})
def types(server, content_type):
    ended(call(server, "/down/x", content_type=content_type), 14)


@table("H43", {name: (f"{name} is no call: its error is a problem", name)
               for name in ("application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text", "application/grpcx",
                            "application/json", "text/application/grpc")})
def other_types(server, content_type):
    stream = complete(call(server, "/down/x", content_type=content_type), 502)
    expect("content-type", ["application/problem+json"], stream.values("content-type"))


@row("H43", "a GET with content-type application/grpc, and a call by HTTP/1.1, get a problem")
def other_requests(server):
    stream = complete(StreamCall(server, "/down/x", *CALL), 502)
    expect("content-type", ["application/problem+json"], stream.values("content-type"))
    stream = complete(PlainCall(server, "/down/x", *CALL, method="POST", body=MESSAGE), 502)
    expect("content-type", ["application/problem+json"], stream.values("content-type"))


@row("H13", "a call to an HTTP/1.1 upstream fails with a gRPC error, and nothing reaches the upstream")
def to_http1(server):
    path = server.upstream.on(Gate())
    ended(call(server, path), 14)
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H13", "application/grpc-web to an HTTP/1.1 upstream is forwarded as any request")
def web_to_http1(server):
    stream = complete(call(server, server.path, content_type="application/grpc-web+proto"))
    expect("body", b"ok", bytes(stream.body))


@both("H28", "a call that the upstream refuses is sent again, and comes back with its trailers")
def refused(server, kind):
    def script(request):
        if len(server.h2.requests(path)) == 1:
            return request.cancel(REFUSED_STREAM)
        request.respond(200, ("content-type", "application/grpc"))
        return request.put(MESSAGE, trailers=[("grpc-status", "0")])
    path = server.h2.on(script)
    stream = complete(kind(server, path, *CALL, method="POST", body=MESSAGE))
    expect("body", MESSAGE, bytes(stream.body))
