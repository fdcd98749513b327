"""Requests and responses as honest clients send them."""

from frames import PROTOCOL_ERROR, data, headers
from rows import Failure, expect, row
from upstream import MIB, echo, head, ok, pattern, send


def ask(server, fields, body=None, script=ok, path=None, **options):
    """A request on a new connection. Returns (connection, stream, the exchange at the upstream)."""
    path = path or server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(connection.fields(path, *fields, **options), end=body is None)
    if body is not None:
        connection.write(stream, body)
    connection.response(stream)
    return connection, stream, server.upstream.finished(path)


@row("H2", "GET by prior knowledge")
def get(server):
    _, stream, exchange = ask(server, [("user-agent", "checks"), ("accept", "*/*")])
    expect("status and body", (200, b"ok"), (stream.status, bytes(stream.body)))
    expect("request line", (exchange.method, exchange.version), ("GET", "HTTP/1.1"))
    expect("User-Agent", ["checks"], exchange.values("user-agent"))
    expect("framing", [], exchange.framing)
    expect("content-length", ["2"], stream.values("content-length"))


@row("H12", "HEAD has the length of the body and no body")
def head_request(server):
    _, stream, exchange = ask(server, [], script=lambda exchange: exchange.reply(200, [], b"twelve bytes"), method="HEAD")
    expect("method", "HEAD", exchange.method)
    expect("length and body", (["12"], b""), (stream.values("content-length"), bytes(stream.body)))


@row("H15", "POST of known length keeps its content-length")
def post_known(server):
    _, stream, exchange = ask(server, [("content-length", "11")], b"hello world", echo, method="POST")
    expect("framing", ["content-length: 11"], exchange.framing)
    expect("body", (b"hello world",) * 2, (bytes(exchange.body), bytes(stream.body)))


@row("H15", "POST of unknown length is chunked towards HTTP/1.1")
def post_unknown(server):
    _, stream, exchange = ask(server, [], b"hello world", echo, method="POST")
    expect("framing", ["transfer-encoding: chunked"], exchange.framing)
    expect("body", (b"hello world",) * 2, (bytes(exchange.body), bytes(stream.body)))
    if not exchange.raw.endswith(b"0\r\n\r\n"):
        raise Failure(f"expected a last chunk, seen {bytes(exchange.raw[-40:])}")


@row("5.5", "POST whose head ends the stream has no body, and no framing is invented")
def post_empty(server):
    _, _, exchange = ask(server, [], script=echo, method="POST")
    if exchange.framing not in ([], ["content-length: 0"]):
        raise Failure(f"expected no body, seen {exchange.framing}")


@row("H15", "an empty DATA frame with END_STREAM is an empty body")
def post_empty_data(server):
    _, stream, exchange = ask(server, [], b"", echo, method="POST")
    expect("bodies", (b"", b""), (bytes(exchange.body), bytes(stream.body)))


@row("5.6", "GET and DELETE with a body reach the upstream whole")
def get_with_body(server):
    for method in ("GET", "DELETE"):
        connection, stream, exchange = ask(server, [("content-length", "4")], b"body", echo, method=method)
        expect(f"body of {method}", (b"body",) * 2, (bytes(exchange.body), bytes(stream.body)))
        connection.get(server.path)


@row("H20", "1 MiB up, in frames of many sizes, and 1 MiB down")
def large(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    body = pattern(0, MIB)
    for size in (16_384, 1_000):
        stream = connection.open(connection.fields(path, ("content-length", str(MIB)), method="POST"), end=False)
        connection.write(stream, body, size=size)
        connection.response(stream, 200)
        expect("the body that came back is the one that was sent", True, stream.body == body)


@row("H20", "8 MiB down on eight streams at once")
def large_parallel(server):
    connection = server.connect()
    path = server.upstream.on(send(MIB))
    streams = [connection.open(connection.fields(path)) for _ in range(8)]
    for stream in streams:
        connection.response(stream, 200)
        expect(f"body of stream {stream.number}", True, stream.body == pattern(0, MIB))


@row("H10", "cookie crumbs are joined by \"; \"")
def cookies(server):
    _, _, exchange = ask(server, [("cookie", "a=1"), ("x-between", "1"), ("cookie", "b=2"), ("cookie", "c=3")])
    expect("Cookie", ["a=1; b=2; c=3"], exchange.values("cookie"))


@row("H9", "exactly one Host, from :authority")
def host(server):
    _, _, exchange = ask(server, [])
    expect("Host", [server.authority], exchange.values("host"))


@row("H8", "a Host that equals :authority is one Host at the upstream")
def host_equal(server):
    _, _, exchange = ask(server, [("host", server.authority)])
    expect("Host", [server.authority], exchange.values("host"))


@row("H8", "a Host alone stands for :authority")
def host_alone(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    connection.response(connection.open(
        [(":method", "GET"), (":scheme", "http"), (":path", path), ("host", server.authority)]), 200)
    expect("Host", [server.authority], server.upstream.finished(path).values("host"))


@row("H8", "a Host that names another authority is refused on the stream", peer="sends :authority as Host, whatever Host says")
def host_different(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    stream = connection.open(connection.fields(path, ("host", "127.0.0.2:1")))
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400, 421))
    connection.get(server.path)
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("4.2", "an authority that is not allowed is refused with 421", peer="has no list of authorities")
def host_not_allowed(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    fields = [(":method", "GET"), (":scheme", "http"), (":authority", "other.example"), (":path", path)]
    connection.refused(connection.open(fields), statuses=(421,))
    connection.get(server.path)
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H11", "te: trailers reaches the upstream")
def te_trailers(server):
    _, _, exchange = ask(server, [("te", "trailers")])
    expect("TE", ["trailers"], exchange.values("te"))


@row("3.5", "fields keep their order, repeated ones their lines, and bytes from 0x80 pass")
def fields_kept(server):
    sent = [("x-one", "1"), ("x-two", "2"), ("x-one", "3"), ("x-empty", ""), ("x-high", "caf\xe9"), ("x_line", "a  b")]
    _, _, exchange = ask(server, sent)
    seen = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in exchange.fields]
    expect("fields", sent, [field for field in seen if field[0].startswith("x") and not field[0].startswith("x-forwarded")])


@row("2.1", "the path passes byte for byte")
def path_kept(server):
    path = server.upstream.on(ok) + "?a=%2F%2f&b=;c=/../&d=?e"
    _, _, exchange = ask(server, [], path=path)
    expect("target", path, exchange.target)


@row("10.3", "a client's own authorization never reaches the upstream, and Lanyard's does, once", peer="injects no token")
def authorization(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    copies = [[], [("authorization", "Bearer mine")], [("authorization", "Basic a"), ("authorization", "")], [("authorization", "x" * 900)]]
    for number, extra in enumerate(copies):
        connection.get(path, *extra)
        expect("Authorization", [f"Bearer {server.token}"], server.upstream.finished(path, number).values("authorization"))


@row("10.4", "look-alikes of fields that Lanyard owns are dropped", peer="knows no look-alikes")
def look_alikes(server):
    _, _, exchange = ask(server, [(name, "look-alike") for name in ("lanyard_capability", "x_forwarded_for", "x.forwarded_host")])
    seen = [name.decode().lower() for name, value in exchange.fields if b"look-alike" in value]
    expect("look-alikes at the upstream", [], seen)


@row("10.4", "look-alikes of framing and hop-by-hop fields are refused on the stream", peer="knows no look-alikes")
def framing_look_alikes(server):
    connection = server.connect()
    for name in ("content_length", "transfer_encoding", "keep.alive"):
        path = server.upstream.on(ok)
        connection.refused(connection.open(connection.fields(path, (name, "1"))), PROTOCOL_ERROR, statuses=(400,))
        connection.get(server.path)
        expect(f"requests at the upstream with {name}", 0, len(server.upstream.seen(path)))


@row("18.1", "Via names Lanyard and the client's version", peer="writes its own pseudonym")
def via(server):
    _, _, exchange = ask(server, [("via", "1.1 front")])
    members = ", ".join(exchange.values("via")).split(", ")
    if members[0] != "1.1 front" or not members[-1].startswith("2 lanyard") and not members[-1].startswith("2.0 lanyard"):
        raise Failure(f"expected Via: 1.1 front, 2.0 lanyard-…, seen {members}")


@row("H12", "204 and 304 have no body, and the connection serves the next request")
def without_body(server):
    connection = server.connect()
    for status in (204, 304):
        path = server.upstream.on(lambda exchange, status=status: exchange.send(head(status, ("ETag", '"x"'))))
        stream = connection.get(path, status=status)
        expect(f"{status}: body and ETag", (b"", ['"x"']), (bytes(stream.body), stream.values("etag")))
    connection.get(server.path)


@row("12.2", "any final status passes")
def statuses(server):
    connection = server.connect()
    for status in (200, 206, 299, 404, 418, 451, 500, 503, 599):
        path = server.upstream.on(lambda exchange, status=status: exchange.reply(status, [], b"x"))
        expect(f"body of {status}", b"x", bytes(connection.get(path, status=status).body))


@row("10.1", "connection-specific fields of the upstream do not reach the client")
def upstream_hop_by_hop(server):
    def script(exchange):
        exchange.send(head(200, ("Connection", "x-mine"), ("X-Mine", "1"), ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "x"),
                           ("X-Other", "1"), ("Content-Length", "0")))
    _, stream, _ = ask(server, [], script=script)
    expect("X-Other", ["1"], stream.values("x-other"))
    if server.name == "lanyard":
        expect("X-Mine, which Connection names", [], stream.values("x-mine"))


@row("H18", "set-cookie lines stay apart, and names become lower case")
def set_cookie(server):
    def script(exchange):
        exchange.reply(200, [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2, c"), ("X-UPPER", "1")], b"")
    _, stream, _ = ask(server, [], script=script)
    expect("set-cookie", ["a=1", "b=2, c"], stream.values("set-cookie"))
    expect("x-upper", ["1"], stream.values("x-upper"))


@row("17.1", "a 401 is followed by one replay with the renewed token, for GET and for a held body", peer="does no replay")
def replay(server):
    def script(exchange):
        exchange.read_body()
        if len(server.upstream.seen(exchange.target)) == 1:
            server.renew_token()
            exchange.reply(401, [("WWW-Authenticate", "Bearer")], b"no")
        else:
            exchange.reply(200, [], bytes(exchange.body) + b"yes")
    for body in (None, b"held", b""):
        path = server.upstream.on(script)
        _, stream, _ = ask(server, [], body, path=path, method="POST" if body is not None else "GET")
        expect("status and body", (200, (body or b"") + b"yes"), (stream.status, bytes(stream.body)))
        expect("the replay's token", [f"Bearer {server.token}"], server.upstream.finished(path, 1).values("authorization"))


@row("H17", "two requests whose frames are interleaved")
def interleaved(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    one = connection.open(connection.fields(path, method="POST"), end=False)
    two = connection.open(connection.fields(path, method="PUT"), end=False)
    for number in range(10):
        connection.send_data(one, b"1" * 100)
        connection.send_data(two, b"2" * 50, end=number == 9)
    connection.response(two, 200)
    connection.send_data(one, b"", end=True)
    connection.response(one, 200)
    expect("bodies", (b"1" * 1000, b"2" * 500), (bytes(one.body), bytes(two.body)))


@row("H17", "several frames, of several streams, in one write")
def one_write(server):
    path = server.upstream.on(echo)
    connection = server.connect()
    streams, frames = [], b""
    for number in range(5):
        stream = connection.stream()
        streams.append(stream)
        frames += headers(stream.number, connection.encode(connection.fields(path, method="POST")), end=False)
        frames += data(stream.number, b"%d" % number) + data(stream.number, b"", end=True)
    connection.send(frames)
    for number, stream in enumerate(streams):
        expect(f"body {number}", b"%d" % number, bytes(connection.response(stream, 200).body))
