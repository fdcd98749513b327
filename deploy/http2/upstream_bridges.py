"""Messages from clients of both protocols to an HTTP/2 upstream and back."""

from calls import both, complete, cut, problem, served
from frames import CANCEL, INTERNAL_ERROR, NO_ERROR, data, headers
from multiplexed import echo, ok
from rows import Failure, expect, table
from upstream import MIB, pattern

SUM = [("x-sum", "abc"), ("x-other", "1")]
SUM_BYTES = [(b"x-sum", b"abc"), (b"x-other", b"1")]


@both("H3", "GET has no body and no DATA frame")
def get(server, kind):
    path = server.h2.on(ok)
    stream = complete(kind(server, path))
    request = server.h2.finished(path)
    expect("status and body", (200, b"ok"), (stream.status, bytes(stream.body)))
    expect("method, body and content-length", ("GET", b"", []), (request.method, bytes(request.body), request.values("content-length")))
    expect("DATA frames", 0, request.connection.count("DATA"))


@both("H15", "an upload of known length keeps its content-length")
def known(server, kind):
    path = server.h2.on(echo)
    stream = complete(kind(server, path, method="POST", body=b"hello world"))
    request = server.h2.finished(path)
    expect("content-length", ["11"], request.values("content-length"))
    expect("bodies", (b"hello world",) * 2, (bytes(request.body), bytes(stream.body)))


@both("H15", "an upload of unknown length has no content-length and no transfer-encoding")
def unknown(server, kind):
    path = server.h2.on(echo)
    call = kind(server, path, method="POST", body=b"hello ", end=False)
    server.h2.until("the first bytes", lambda: server.h2.requests(path) and server.h2.requests(path)[0].body == b"hello ")
    call.put(b"world", True)
    stream = complete(call)
    request = server.h2.finished(path)
    expect("content-length and transfer-encoding", ([], []), (request.values("content-length"), request.values("transfer-encoding")))
    expect("bodies", (b"hello world",) * 2, (bytes(request.body), bytes(stream.body)))


@both("H15", "empty bodies: of known and of unknown length, up and down")
def empty(server, kind):
    for options in ({"length": 0, "end": False}, {"end": False}):
        path = server.h2.on(echo)
        call = kind(server, path, method="POST", body=b"", **options)
        call.put(b"", True)
        stream = complete(call)
        request = server.h2.finished(path)
        expect("bodies", (b"", b""), (bytes(request.body), bytes(stream.body)))
    path = server.h2.on(lambda request: (request.respond(200), request.put(b"", True)))
    expect("body of an empty DATA frame", b"", bytes(complete(kind(server, path)).body))


@both("H12", "HEAD, 204 and 304 have no body, with and without content-length")
def without_body(server, kind):
    fields = [("content-length", "12")]
    for how in ("head", "data"):
        def script(request, how=how):
            status = int(request.path.rpartition("?")[2])
            request.respond(status, *(fields if status != 204 else []), ("etag", '"x"'), end=how == "head")
            if how == "data":
                request.put(b"", True)
        path = server.h2.on(script)
        for method, status in (("HEAD", 200), ("GET", 204), ("GET", 304)):
            stream = complete(kind(server, f"{path}?{status}", method=method), status)
            expect(f"body and etag of {method} {status}", (b"", ['"x"']), (bytes(stream.body), stream.values("etag")))
            if method == "HEAD":
                expect("content-length", ["12"], stream.values("content-length"))
    served(server)


@both("H15", "a response of unknown length, in many frames of one byte and in one")
def response_unknown(server, kind):
    def script(request):
        request.respond(200)
        request.connection.send(b"".join(data(request.number, bytes([65 + number % 26])) for number in range(200)))
        request.send_window -= 200
        request.put(b"end", True)
    expect("body", bytes(65 + number % 26 for number in range(200)) + b"end", bytes(complete(kind(server, server.h2.on(script))).body))


@both("H16", "103 passes with its fields, twice, before the final head exists")
def hints(server, kind):
    path = server.h2.on()
    call = kind(server, path)
    request = server.h2.request(path)
    for number in (1, 2):
        request.respond(103, ("link", f"</{number}>"))
        call.until("103", lambda number=number: len(call.stream.interim) == number)
    request.reply(200, [], b"ok")
    stream = complete(call)
    expect("interim", [(103, [b"</1>"]), (103, [b"</2>"])], [
        (status, [value for name, value in fields if name == b"link"]) for status, fields in stream.interim])


@both("H16", "100-continue: the upstream's 100 reaches the client once, and then the body passes")
def continue_passed(server, kind):
    path = server.h2.on()
    call = kind(server, path, ("Expect", "100-continue"), method="POST", body=b"body", length=4, expected=True)
    request = server.h2.request(path)
    expect("expect", ["100-continue"], request.values("expect"))
    request.respond(100)
    call.until("100", lambda: call.stream.interim)
    call.put(b"body", True)
    server.h2.finished(path)
    request.reply(200, [], bytes(request.body))
    stream = complete(call)
    expect("interim and body", ([100], b"body"), ([status for status, _ in stream.interim], bytes(stream.body)))


@both("11.2", "100-continue at an upstream that sends no 100: the client gets one all the same")
def continue_own(server, kind):
    path = server.h2.on(echo)
    call = kind(server, path, ("Expect", "100-continue"), method="POST", body=b"body", length=4, expected=True)
    call.until("100", lambda: call.stream.interim)
    call.put(b"body", True)
    expect("body", b"body", bytes(complete(call).body))


@both("11.3", "100-continue: a final response in place of 100, and the body never comes")
def continue_refused(server, kind):
    path = server.h2.on(lambda request: request.reply(413, [], b"no"))
    call = kind(server, path, ("Expect", "100-continue"), method="POST", body=b"body", length=4, expected=True)
    stream = complete(call, 413)
    expect("interim and body", ([], b"no"), (stream.interim, bytes(stream.body)))
    request = server.h2.request(path)
    server.h2.until("the end of the stream", lambda: request.is_over)
    served(server)


@both("H23", "an early final response passes at once, and the upload is ended: RST_STREAM NO_ERROR or CANCEL to the upstream")
def early(server, kind):
    for status in (200, 413):
        path = server.h2.on()
        call = kind(server, path, method="POST", body=pattern(0, 1000), length=MIB, end=False)
        request = server.h2.request(path)
        server.h2.until("the first bytes", lambda request=request: len(request.body) == 1000)
        request.reply(status, [], b"no")
        expect("body", b"no", bytes(complete(call, status).body))
        server.h2.until("RST_STREAM", lambda request=request: request.is_over)
        if request.is_ended or request.reset not in (NO_ERROR, CANCEL):
            raise Failure(f"expected RST_STREAM NO_ERROR or CANCEL, seen {request}")
        expect("connections", False, request.connection.is_dead())
    served(server)


@both("H23", "an upstream that ends with RST_STREAM NO_ERROR behind a complete response has responded in order")
def early_reset(server, kind):
    for status in (200, 413):
        path = server.h2.on()
        call = kind(server, path, method="POST", body=pattern(0, 1000), length=MIB, end=False)
        request = server.h2.request(path)
        request.reply(status, [], b"no")
        request.cancel(NO_ERROR)
        expect("body", b"no", bytes(complete(call, status).body))
    path = server.h2.on()
    call = kind(server, path, method="POST", body=b"", end=False)
    request = server.h2.request(path)
    request.reply(200, [], b"x" * 70_000)
    call.until("the body", lambda: len(call.stream.body) == 70_000)
    request.cancel(NO_ERROR)
    complete(call)
    served(server)


@both("H23", "an early head passes, and the upload continues while the response lasts")
def early_head(server, kind):
    path = server.h2.on()
    call = kind(server, path, method="POST", body=b"", end=False)
    request = server.h2.request(path)
    request.respond(200)
    call.until("the head", lambda: call.stream.head)
    for number in range(1, 6):
        call.put(b"%05d" % number)
        server.h2.until("the piece", lambda number=number: len(request.body) == 5 * number)
        request.put(b"%05d" % number)
        call.until("the piece", lambda number=number: len(call.stream.body) == 5 * number)
    call.put(b"", True)
    server.h2.finished(path)
    request.put(b"", True)
    expect("body", b"0000100002000030000400005", bytes(complete(call).body))


@both("H12", "trailers of a response: of unknown and of known length, without a body, behind an error status")
def trailers(server, kind):
    fields = [("te", "trailers")] + ([("Connection", "te")] if kind.__name__ == "PlainCall" else [])
    for status, length, body in ((200, [], b"body"), (503, [], b"no"), (200, [], b""), (404, [("content-length", "4")], b"body")):
        def script(request, status=status, length=length, body=body):
            request.respond(status, *length)
            request.put(body, trailers=SUM)
        stream = complete(kind(server, server.h2.on(script), *fields), status)
        expect("body", body, bytes(stream.body))
        # HTTP/1.1 has no place for trailers behind a known length.
        wanted = (None, SUM_BYTES) if length and kind.__name__ == "PlainCall" else (SUM_BYTES,)
        if stream.trailers not in wanted:
            raise Failure(f"expected trailers of {status} {length}, seen {stream.trailers}")
    served(server)


@both("H12", "trailers of a request, with and without a body")
def request_trailers(server, kind):
    for body in (b"body", b""):
        path = server.h2.on(echo)
        call = kind(server, path, method="POST", body=b"", end=False)
        if body:
            call.put(body)
        call.put(b"", True, SUM)
        complete(call)
        request = server.h2.finished(path)
        expect("body and trailers", (body, SUM_BYTES), (bytes(request.body), request.trailers))
    served(server)


@table("H12", {"http2": ("HTTP/2 to HTTP/2: trailers of a request of known length pass", None)})
def request_trailers_known(server, _):
    path = server.h2.on(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(path, ("content-length", "4"), method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, connection.encode(SUM)))
    connection.response(stream, 200)
    request = server.h2.finished(path)
    expect("body and trailers", (b"body", SUM_BYTES), (bytes(request.body), request.trailers))


@both("H20", "several MiB up and down, in step")
def large(server, kind):
    path, body = server.h2.on(echo), pattern(0, 5 * MIB)
    call = kind(server, path, method="POST", body=body)
    expect("the body that came back is the one that was sent", True, complete(call).body == body)
    path = server.h2.on(lambda request: request.reply(200, [], body))
    expect("the body that was sent down", True, complete(kind(server, path)).body == body)


@both("H15", "a body that RST_STREAM or the connection's end cuts is cut for the client: of known and of unknown length")
def torn(server, kind):
    def connection_lost(request):
        request.connection.socket.close()
        request.connection.ended = "closed"
    ends = {"INTERNAL_ERROR": lambda request: request.cancel(INTERNAL_ERROR), "CANCEL": lambda request: request.cancel(CANCEL),
            "NO_ERROR": lambda request: request.cancel(NO_ERROR), "lost": connection_lost}
    for name, end in ends.items():
        for length in ([], [("content-length", "1000")]):
            path = server.h2.on()
            call = kind(server, path)
            request = server.h2.request(path)
            request.respond(200, *length)
            request.put(pattern(0, 400))
            call.until("the first bytes", lambda call=call: len(call.stream.body) == 400)
            end(request)
            stream = cut(call)
            expect(f"bytes before {name}", 400, len(stream.body))
    served(server)


@both("H15", "a response that is cut before its head is a 502")
def torn_early(server, kind):
    for code in (INTERNAL_ERROR, CANCEL, NO_ERROR):
        path = server.h2.on(lambda request, code=code: request.cancel(code))
        problem(kind(server, path, method="POST", body=b"body"))
    served(server)


@both("H15", "content-length of the upstream that its DATA does not match: less, more, none, and with trailers")
def mismatch(server, kind):
    cases = {"less": [(b"x" * 9, True, None)], "more": [(b"x" * 11, True, None)],
             "more later": [(b"x" * 6, False, None), (b"x" * 5, False, None)], "trailers": [(b"x" * 4, True, SUM)]}
    for name, pieces in cases.items():
        def script(request, pieces=pieces):
            request.respond(200, ("content-length", "10"))
            for body, end, trailers in pieces:
                request.put(body, end, trailers)
        stream = cut(kind(server, server.h2.on(script)), 502)
        if stream.status == 200 and len(stream.body) > 10:
            raise Failure(f"{name}: expected 10 bytes at most, seen {len(stream.body)}")
    path = server.h2.on(lambda request: request.respond(200, ("content-length", "10"), end=True))
    cut(kind(server, path), 502)
    served(server)
