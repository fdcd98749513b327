"""What the upstream sees of a request's fields, and the client of a response's."""

from calls import StreamCall, both, complete, served
from multiplexed import answer, ok
from rows import Failure, expect, row, table

DROPPED = ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host")


def seen(server, kind, *fields, prefix="/h2", **options):
    """The request as the upstream gets it."""
    path = server.h2.on(ok, prefix)
    complete(kind(server, path, *fields, **options))
    return server.h2.finished(path)


@both("H9", ":scheme is http, :authority as `host` says, :path the target, :method the method; there is no host")
def pseudo(server, kind):
    for prefix, authority in (("/h2", server.authority), ("/host-upstream", f"127.0.0.1:{server.h2.plain.port}"),
                              ("/host-value", "value.example:81")):
        request = seen(server, kind, prefix=prefix, method="DELETE")
        expect("pseudo-header fields", ["DELETE", "http", authority, request.path],
               [request.values(name)[0] for name in (":method", ":scheme", ":authority", ":path")])
        expect("host", [], request.values("host"))


@both("2.1", ":path passes byte for byte")
def path_kept(server, kind):
    path = server.h2.on(ok)
    complete(kind(server, path + "?a=%2F%2f&b=;c=/../&d=?e"))
    expect(":path", path + "?a=%2F%2f&b=;c=/../&d=?e", server.h2.requests()[-1].path)


@both("H3", "over TLS: the protocol by ALPN, :scheme is https")
def secure(server, kind):
    request = seen(server, kind, prefix="/tls")
    expect("the protocol", "h2", request.connection.socket.selected_alpn_protocol())
    expect(":scheme", ["https"], request.values(":scheme"))


@row("H3", "protocol: http1 offers no h2, over TLS")
def secure_http1(server):
    path = server.h2.on(ok, "/tls-http1")
    call = StreamCall(server, path)
    connection = server.h2.plain_request()
    if connection.socket.selected_alpn_protocol() not in (None, "http/1.1"):
        raise Failure(f"expected http/1.1, seen {connection.socket.selected_alpn_protocol()}")
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    complete(call)


@both("H11", "connection-specific fields, and those that Connection names, are never sent; te: trailers passes")
def hop_by_hop(server, kind):
    fields = [("x-end", "1"), ("te", "trailers")]
    if kind.__name__ == "PlainCall":
        fields += [("Connection", "x-mine, keep-alive, te"), ("X-Mine", "1"), ("Keep-Alive", "timeout=5"),
                   ("Proxy-Connection", "keep-alive")]
    request = seen(server, kind, *fields)
    expect("x-end and te", (["1"], ["trailers"]), (request.values("x-end"), request.values("te")))
    expect("fields of the connection", [], [name for name, _ in request.head[1] if name.decode() in (*DROPPED, "x-mine")])


@both("H11", "te with gzip does not reach the upstream")
def te_other(server, kind):
    if kind.__name__ == "PlainCall":
        request = seen(server, kind, ("TE", "gzip, trailers;q=0.5"), ("Connection", "TE"))
        if request.values("te") not in ([], ["trailers"]):
            raise Failure(f"expected te: trailers or none, seen {request.values('te')}")
    served(server)


@both("H10", "cookies arrive whole, as crumbs or joined")
def cookies(server, kind):
    fields = [("cookie", "a=1; b=2")] if kind.__name__ == "PlainCall" else [("cookie", "a=1"), ("x-between", "1"), ("cookie", "b=2")]
    expect("cookie", "a=1; b=2", "; ".join(seen(server, kind, *fields).values("cookie")))


@both("H18", "the credential is a literal never indexed, in the first and in later requests of a connection")
def credential(server, kind):
    for _ in range(3):
        request = seen(server, kind, ("authorization", "Bearer mine"))
        expect("authorization", [f"Bearer {server.token}"], request.values("authorization"))
        if "authorization" not in request.never_indexed:
            raise Failure(f"expected authorization never indexed, seen only {request.never_indexed}")
        table = [value for _, value in request.connection.decoder.header_table.dynamic_entries]
        if any(server.token.encode() in bytes(value) for value in table):
            raise Failure("the credential stands in the upstream's table")


@both("H18", "a field whose value is in a file is a literal never indexed, in place of the client's own")
def field_of_file(server, kind):
    for _ in range(3):
        request = seen(server, kind, ("x-key", "mine"), prefix="/set")
        expect("x-key", [server.key], request.values("x-key"))
        if not {"x-key", "x-set"} <= set(request.never_indexed):
            raise Failure(f"expected x-key and x-set never indexed, seen only {request.never_indexed}")
        table = [value for _, value in request.connection.decoder.header_table.dynamic_entries]
        if any(server.key.encode() in bytes(value) for value in table):
            raise Failure("the value stands in the upstream's table")


@both("H18", "a client's own authorization never reaches the upstream, whatever it looks like")
def own_authorization(server, kind):
    for extra in ([("authorization", "Basic a"), ("authorization", "b")], [("Authorization", "x" * 900)],
                  [("proxy-authorization", "mine")]):
        request = seen(server, kind, *extra)
        expect("authorization", [f"Bearer {server.token}"], request.values("authorization"))


@row("H18", "HTTP/2 to HTTP/2: a field that the client sends never indexed stays so; other fields are indexed")
def never_indexed(server):
    path = server.h2.on(ok)
    connection = server.connect()
    for _ in range(3):
        complete(StreamCall(server, path, ("x-secret", "mine", True), ("x-open", "value"), connection=connection))
    for request in server.h2.requests(path):
        expect("x-secret", ["mine"], request.values("x-secret"))
        if "x-secret" not in request.never_indexed:
            raise Failure(f"expected x-secret never indexed, seen {request.never_indexed}")
    table = server.h2.requests(path)[0].connection.decoder.header_table.dynamic_entries
    expect("x-secret in the upstream's table", [], [value for name, value in table if bytes(name) == b"x-secret"])


@row("H18", "HTTP/2 to HTTP/2: a response field that the upstream sends never indexed stays so")
def never_indexed_response(server):
    path = server.h2.on(answer(200, [("x-secret", "mine", True), ("x-open", "value")], b"ok"))
    connection = server.connect()
    for _ in range(3):
        stream = complete(StreamCall(server, path, connection=connection))
        if "x-secret" not in stream.never_indexed or stream.values("x-open") != ["value"]:
            raise Failure(f"expected x-secret never indexed, seen {stream.never_indexed}")


@both("3.5", "fields keep their order and their lines, names are lower case, and bytes from 0x80 pass")
def fields_kept(server, kind):
    sent = [("x-one", "1"), ("x-two", "2"), ("x-one", "3"), ("x-empty", ""), ("x-high", "caf\xe9"), ("x_line", "a  b")]
    given = [("X-One" if name == "x-one" and kind.__name__ == "PlainCall" else name, value) for name, value in sent]
    fields = [(name.decode(), value.decode("latin-1")) for name, value in seen(server, kind, *given).head[1]]
    expect("fields", sent, [field for field in fields if field[0].startswith("x") and not field[0].startswith("x-forwarded")])


@both("18.1", "set_headers, X-Forwarded-For and Via in lower case")
def added(server, kind):
    request = seen(server, kind, ("X-Set", "mine"), prefix="/set")
    expect("x-set and x-forwarded-for", (["fixed"], ["127.0.0.1"]), (request.values("x-set"), request.values("x-forwarded-for")))
    if "lanyard" not in ", ".join(request.values("via")):
        raise Failure(f"expected via, seen {request.values('via')}")


@both("H14", "a head of 40 KiB reaches the upstream in CONTINUATION frames, and one comes back")
def long_head(server, kind):
    values = [(f"x-{number:02}", chr(97 + number % 26) * 4000) for number in range(10)]
    wanted = [(name.encode(), value.encode()) for name, value in values]
    path = server.h2.on(answer(200, values, b"ok"))
    stream = complete(kind(server, path, *values))
    request = server.h2.finished(path)
    expect("fields at the upstream", wanted, [field for field in request.head[1] if field[0].startswith(b"x-")])
    expect("fields at the client", wanted, [field for field in stream.head[1] if field[0].startswith(b"x-")])


@both("17.1", "a 401 is followed by one replay with the renewed token, without and with a held body")
def replay(server, kind):
    def script(request):
        def end(request):
            if len(server.h2.requests(path)) > 1:
                return request.reply(200, [], bytes(request.body) + b"yes")
            server.renew_token()
            return request.reply(401, [("www-authenticate", "Bearer")], b"no")
        request.on_end(end)
    for body in (None, b"held"):
        path = server.h2.on(script)
        stream = complete(kind(server, path, method="POST" if body else "GET", body=body))
        expect("body", (body or b"") + b"yes", bytes(stream.body))
        expect("the replay's token", [f"Bearer {server.token}"], server.h2.request(path, 1).values("authorization"))


@table("H45", {"http2": (
    "HTTP/2 to HTTP/2: a call of gRPC that is refused with grpc-status 16 in its head is sent again with the renewed token", StreamCall)})
def replay_call(server, kind):
    def script(request):
        def end(request):
            if len(server.h2.requests(path)) > 1:
                request.respond(200, ("content-type", "application/grpc"))
                return request.put(b"\0\0\0\0\1x", trailers=[("grpc-status", "0")])
            server.renew_token()
            return request.respond(200, ("content-type", "application/grpc"), ("grpc-status", "16"), end=True)
        request.on_end(end)
    path = server.h2.on(script)
    fields = [("content-type", "application/grpc"), ("te", "trailers")]
    stream = complete(kind(server, path, *fields, method="POST", body=b"\0\0\0\0\1x"))
    expect("body", b"\0\0\0\0\1x", bytes(stream.body))
    expect("the replay's token", [f"Bearer {server.token}"], server.h2.request(path, 1).values("authorization"))
