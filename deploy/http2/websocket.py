"""WebSocket over HTTP/2: extended CONNECT (RFC 8441) in front of an upstream that upgrades: announcing it, and the handshake."""

import base64
import hashlib

from frames import ENABLE_CONNECT_PROTOCOL, PROTOCOL_ERROR
from rows import Failure, expect, row
from upstream import Cut, head, pattern

ON = {"listener": {"websocket_over_http2": True}}


def accept_of(exchange):
    """The reply to the key (RFC 6455 4.2.2)."""
    key = "".join(exchange.values("sec-websocket-key"))
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def agree(exchange, *fields, after=b"", reply=None):
    """The upstream's 101."""
    exchange.closes = True
    exchange.send(head(101, ("Upgrade", "websocket"), ("Connection", "Upgrade"),
                       ("Sec-WebSocket-Accept", accept_of(exchange) if reply is None else reply), *fields), after)


def pieces(exchange):
    """What comes through the tunnel, to its end."""
    try:
        while True:
            yield exchange.peer.read(1 << 16)
    except Cut as cut:
        exchange.end = str(cut)


def fill(connection, stream):
    """Sends until the window of the stream stays empty. How many bytes it took."""
    at = 0
    for _ in range(10_000):
        room = min(16_384, stream.send_window, connection.send_window)
        if room <= 0:
            connection.fence()
            connection.pump(0.2)
            if stream.send_window <= 0:
                break
            continue
        connection.send_data(stream, pattern(at, room))
        at += room
    return at


def mirror(exchange):
    """Agrees, and sends back what comes."""
    agree(exchange)
    for piece in pieces(exchange):
        exchange.body += piece
        exchange.send(piece)


def collect(exchange):
    """Agrees, and keeps what comes."""
    agree(exchange)
    for piece in pieces(exchange):
        exchange.body += piece


def fields(connection, path, *extra, protocol="websocket", drop=()):
    all_fields = [
        (":method", "CONNECT"), (":protocol", protocol), (":scheme", connection.scheme), (":path", path),
        (":authority", connection.authority), ("sec-websocket-version", "13"), *extra]
    return [field for field in all_fields if field[0] not in drop]


def tunnel(connection, path, *extra):
    """An open tunnel."""
    stream = connection.open(fields(connection, path, *extra), end=False)
    connection.until("a head", lambda: stream.head or stream.is_over)
    expect("status", 200, stream.status)
    return stream


def receive(connection, stream, count):
    connection.until(f"{count} bytes", lambda: len(stream.body) >= count or stream.is_over)
    return bytes(stream.body)


@row("H6", "without the key extended CONNECT is not announced, and :protocol is a stream error", peer="announces it")
def refused_when_off(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    connection.fence()
    expect("ENABLE_CONNECT_PROTOCOL", 0, connection.peer.get(ENABLE_CONNECT_PROTOCOL, 0))
    connection.refused(connection.open(fields(connection, path), end=False), PROTOCOL_ERROR)
    connection.get(server.path)
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H6", "with the key it is announced in the first SETTINGS, with and without TLS", own=ON)
def announced(server):
    for connection in (server.connect(), server.connect_secure(["h2"])):
        connection.until("SETTINGS", lambda connection=connection: connection.peer)
        expect("ENABLE_CONNECT_PROTOCOL", 1, connection.peer.get(ENABLE_CONNECT_PROTOCOL))


@row("H6", "a plain CONNECT is refused as ever", own=ON)
def plain_connect(server):
    connection = server.connect()
    stream = connection.open([(":method", "CONNECT"), (":authority", connection.authority)], end=False)
    connection.refused(stream, PROTOCOL_ERROR, statuses=(405, 501, 400, 404))


@row("H6", "the upstream gets an upgrade with a key of Lanyard's, and the client a 200 without a reply to it", own=ON)
def handshake(server):
    def script(exchange):
        agree(exchange, ("Sec-WebSocket-Protocol", "chat"), ("Sec-WebSocket-Extensions", "permessage-deflate"), ("X-A", "b"),
              after=b"first")
        exchange.wait_for_end()
    path = server.upstream.on(script)
    keys = set()
    for _ in range(3):
        connection = server.connect()
        stream = tunnel(
            connection, path + "?q=1", ("sec-websocket-protocol", "chat, other"), ("sec-websocket-extensions", "permessage-deflate"),
            ("origin", f"http://{connection.authority}"), ("cookie", "a=1"), ("cookie", "c=2"), ("authorization", "Bearer own"),
            ("sec-websocket-key", "b3du"))
        expect("bytes behind the 101", b"first", receive(connection, stream, 5))
        exchange = server.upstream.seen(path)[-1]
        expect("request", ("GET", path + "?q=1", "HTTP/1.1"), (exchange.method, exchange.target, exchange.version))
        for name, values in (
                ("host", [connection.authority]), ("upgrade", ["websocket"]), ("connection", ["Upgrade"]), ("cookie", ["a=1; c=2"]),
                ("sec-websocket-version", ["13"]), ("sec-websocket-protocol", ["chat, other"]),
                ("sec-websocket-extensions", ["permessage-deflate"]), ("content-length", []), ("transfer-encoding", []),
                ("authorization", [f"Bearer {server.token}"]), (":protocol", [])):
            if server.name == "lanyard" or name not in ("authorization", "connection", "host"):
                expect(name, values, exchange.values(name))
        key = exchange.values("sec-websocket-key")
        expect("length of the key", [16], [len(base64.b64decode(each, validate=True)) for each in key])
        keys.add(key[0])
        expect("fields", {"sec-websocket-protocol": ["chat"], "sec-websocket-extensions": ["permessage-deflate"], "x-a": ["b"]},
               {name: stream.values(name) for name in ("sec-websocket-protocol", "sec-websocket-extensions", "x-a")})
        for name in ("sec-websocket-accept", "upgrade", "connection", "content-length"):
            expect(name, [], stream.values(name))
    expect("different keys", 3, len(keys))


@row("H6", "a client's names in capitals, and a route whose protocol is http2 or auto: the upgrade is HTTP/1.1",
     own=ON | {"routes": [("up2", "/up2", lambda server: server.upstream.port, {"protocol": "http2"}),
                          ("up1", "/up1", lambda server: server.upstream.port, {"protocol": "http1"})]})
def always_http1(server):
    for prefix in ("up2/r", "up1/r"):
        path = server.upstream.on(mirror, prefix)
        connection = server.connect()
        stream = connection.open(fields(connection, path, protocol="WebSocket"), end=False)
        connection.send_data(stream, b"hello")
        expect("echo", b"hello", receive(connection, stream, 5))


@row("H6", "another :protocol gets 501, and the other streams of the connection are served", own=ON,
     peer="refuses it in another way")
def other_protocol(server):
    connection = server.connect()
    path = server.upstream.on(mirror)
    live = tunnel(connection, path)
    for protocol in ("connect-udp", "webtransport", "h2c", "websocket,tcp", "tcp", ","):
        connection.response(connection.open(fields(connection, path, protocol=protocol)), 501)
        # Its stream need not be ended by the client.
        held = connection.open(fields(connection, path, protocol=protocol), end=False)
        connection.response(held, 501)
    connection.send_data(live, b"live")
    expect("echo", b"live", receive(connection, live, 4))
    expect("requests at the upstream", 1, len(server.upstream.seen(path)))


@row("15.1", "a route whose upgrades lack websocket refuses the tunnel with 501, and another method is no obstacle",
     own=ON | {"routes": [("none", "/none", lambda server: server.upstream.port, {"upgrades": []}),
                          ("tcp", "/tcp", lambda server: server.upstream.port, {"upgrades": ["tcp"]})]}, peer="has no such route")
def not_permitted(server):
    connection = server.connect()
    for prefix, protocol in (("none/r", "websocket"), ("tcp/r", "websocket"), ("tcp/r", "tcp")):
        path = server.upstream.on(mirror, prefix)
        connection.response(connection.open(fields(connection, path, protocol=protocol)), 501)
        expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H6", "malformed: no :path, :scheme or :authority, another method, an empty :protocol, two of them, content-length, connection",
     own=ON, peer="forwards some of them")
def malformed(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    cases = {
        "no :path": fields(connection, path, drop=(":path",)), "no :scheme": fields(connection, path, drop=(":scheme",)),
        "no :authority": fields(connection, path, drop=(":authority",)),
        "host in its place": fields(connection, path, ("host", connection.authority), drop=(":authority",)),
        "GET": [(":method", "GET") if field[0] == ":method" else field for field in fields(connection, path)],
        "empty": fields(connection, path, protocol=""), "a space": fields(connection, path, protocol="web socket"),
        "two": [(":protocol", "websocket"), *fields(connection, path)],
        "behind a field": [*fields(connection, path, drop=(":protocol",)), (":protocol", "websocket")],
        "content-length": fields(connection, path, ("content-length", "5")),
        "content-length 0": fields(connection, path, ("content-length", "0")),
        "connection": fields(connection, path, ("connection", "upgrade")), "upgrade": fields(connection, path, ("upgrade", "websocket")),
        "another host": fields(connection, path, ("host", "evil.example")),
        "path without a slash": fields(connection, path.lstrip("/"))}
    for name, case in cases.items():
        stream = connection.open(case, end=False)
        try:
            connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
        except Failure as failure:
            raise Failure(f"{name}: {failure}") from None
    other = [(":scheme", "ftp") if field[0] == ":scheme" else field for field in fields(connection, path)]
    connection.refused(connection.open(other, end=False), PROTOCOL_ERROR, statuses=(400, 421))
    connection.get(server.path)
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("4.2", "host and origin are checked as for any request", own=ON, peer="has no such rules")
def rules(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    for extra in (("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")):
        connection.response(connection.open(fields(connection, path, extra)), 403)
    other = [(":authority", "evil.example") if field[0] == ":authority" else field for field in fields(connection, path)]
    connection.response(connection.open(other), 421)
    connection.response(connection.open(fields(connection, "/denied/secret")), 403)
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H6", "a 101 with a wrong Sec-WebSocket-Accept, none, two or another protocol: 502 and no byte of the client",
     own=ON, peer="closes the client's connection or sends 101")
def wrong_reply(server):
    def forged(*reply, upgrade="websocket"):
        def script(exchange):
            exchange.closes = True
            exchange.send(head(101, ("Upgrade", upgrade), ("Connection", "Upgrade"),
                               *(("Sec-WebSocket-Accept", each or accept_of(exchange)) for each in reply)))
            for piece in pieces(exchange):
                exchange.body += piece
        return script
    for script in (forged("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), forged(), forged(None, "x"), forged(None, upgrade="tcp")):
        connection = server.connect()
        path = server.upstream.on(script)
        stream = connection.open(fields(connection, path), end=False)
        connection.send_data(stream, b"early")
        connection.response(stream, 502)
        expect("at the upstream", b"", bytes(server.upstream.finished(path).body))
        if server.name != "lanyard":
            break


@row("H6", "a success in place of a 101 is no tunnel: 502", own=ON, peer="relays it")
def success(server):
    for status in (200, 204, 299):
        connection = server.connect()
        path = server.upstream.on(lambda exchange, status=status: exchange.reply(status, [], b"" if status == 204 else b"page"))
        connection.response(connection.open(fields(connection, path), end=False), 502)
        connection.get(server.path)


@row("17.1", "a 401 before the 101: the token is renewed, the upgrade sent again, and the held bytes follow", own=ON, peer="does no replay")
def replay(server):
    seen = []

    def script(exchange):
        seen.append(exchange.values("authorization")[0])
        if len(seen) == 1:
            server.renew_token()
            exchange.reply(401, [("WWW-Authenticate", "Bearer")], b"no")
        else:
            mirror(exchange)
    path = server.upstream.on(script)
    former = server.token
    connection = server.connect()
    stream = connection.open(fields(connection, path), end=False)
    connection.send_data(stream, b"held")
    expect("echo", b"held", receive(connection, stream, 4))
    expect("tokens", [f"Bearer {former}", f"Bearer {server.token}"], seen)
