"""WebSocket over HTTP/2: how tunnels end."""

import os
import signal
import socket
import threading

from frames import CANCEL, CONNECT_ERROR, ENABLE_CONNECT_PROTOCOL, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR, headers
from rows import Failure, expect, patience, row
from upstream import Gate, pattern, wait_until
from websocket import ON, agree, collect, fields, fill, mirror, pieces, receive, tunnel


@row("H7", "END_STREAM with the head: the upstream agrees, and reads its end", own=ON, peer="refuses it")
def ended_at_once(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    stream = connection.open(fields(connection, path))
    connection.response(stream, 200)
    expect("end at the upstream", "end", server.upstream.finished(path).end)


@row("H7", "the client's END_STREAM is an end for the upstream, whose bytes still come", own=ON, peer="passes no END_STREAM on")
def client_ends(server):
    gate = Gate(lambda exchange: exchange.send(b"late" * 1000))

    def script(exchange):
        agree(exchange)
        for piece in pieces(exchange):
            exchange.body += piece
        gate(exchange)
    path = server.upstream.on(script)
    connection = server.connect()
    stream = tunnel(connection, path)
    connection.send_data(stream, b"last", end=True)
    exchange = server.upstream.exchange(path)
    wait_until("the end at the upstream", lambda: getattr(exchange, "end", None))
    expect("at the upstream", (b"last", "end"), (bytes(exchange.body), exchange.end))
    connection.fence()
    expect("the stream", False, stream.is_over)
    gate.open()
    connection.response(stream, 200)
    expect("to the client", b"late" * 1000, bytes(stream.body))
    expect("RST_STREAM", None, stream.reset)


@row("H7", "the upstream's end is END_STREAM, and the client's bytes still pass", own=ON, peer="ends both")
def upstream_ends(server):
    def script(exchange):
        agree(exchange)
        exchange.send(b"bye")
        exchange.peer.socket.shutdown(socket.SHUT_WR)
        for piece in pieces(exchange):
            exchange.body += piece
    path = server.upstream.on(script)
    connection = server.connect()
    stream = tunnel(connection, path)
    connection.until("END_STREAM", lambda: stream.is_over)
    expect("to the client", (b"bye", True, None), (bytes(stream.body), stream.is_ended, stream.reset))
    stream.is_ended = False
    connection.write(stream, pattern(0, 300_000), end=True)
    exchange = server.upstream.finished(path)
    expect("at the upstream", (True, "end"), (bytes(exchange.body) == pattern(0, 300_000), exchange.end))
    connection.fence()
    expect("RST_STREAM", None, stream.reset)


@row("H7", "both have ended, and the upstream takes the last bytes late: it gets all of them", own=ON, peer="ends both")
def outlives_stream(server):
    gate = threading.Event()

    def script(exchange):
        agree(exchange)
        exchange.peer.socket.shutdown(socket.SHUT_WR)
        gate.wait(600)
        for piece in pieces(exchange):
            exchange.body += piece
    path = server.upstream.on(script, "narrow/r")
    connection = server.connect()
    stream = tunnel(connection, path)
    connection.until("END_STREAM", lambda: stream.is_over)
    stream.is_ended = False
    at = fill(connection, stream)
    connection.send_data(stream, b"", end=True)
    connection.fence()
    connection.get(server.path)
    gate.set()
    exchange = server.upstream.finished(path)
    expect("at the upstream", (at, True, "end"), (len(exchange.body), bytes(exchange.body) == pattern(0, at), exchange.end))
    # The connection and its places are as before.
    for _ in range(300):
        connection.get(server.path)
    tunnel(connection, server.upstream.on(mirror))


@row("H25", "the client's RST_STREAM closes the upstream's connection at once, before and behind the 101", own=ON)
def client_resets(server):
    connection = server.connect()
    for code in (CANCEL, NO_ERROR, INTERNAL_ERROR):
        path = server.upstream.on(collect)
        stream = tunnel(connection, path)
        connection.send_data(stream, b"x")
        connection.cancel(stream, code)
        exchange = server.upstream.finished(path)
        if server.name == "lanyard" and "reset" not in exchange.end:
            raise Failure(f"expected a reset at the upstream, seen {exchange.end}")
    gate = Gate(lambda exchange: None)

    def script(exchange):
        exchange.closes = True
        for _ in pieces(exchange):
            pass
    path = server.upstream.on(script)
    stream = connection.open(fields(connection, path), end=False)
    server.upstream.exchange(path)
    connection.cancel(stream)
    server.upstream.finished(path)
    gate.open()
    connection.get(server.path)


@row("H7", "the end of the client's connection ends its tunnels", own=ON)
def connection_ends(server):
    path = server.upstream.on(collect)
    connection = server.connect()
    for _ in range(5):
        tunnel(connection, path)
    connection.close()
    wait_until("the ends at the upstream", lambda: all(each.finished.is_set() for each in server.upstream.seen(path)))
    server.lives()


@row("H7", "an upstream that resets: RST_STREAM CONNECT_ERROR behind its bytes, on the stream alone", own=ON, peer="INTERNAL_ERROR")
def upstream_resets(server):
    def script(exchange):
        agree(exchange)
        exchange.peer.read(1)
        exchange.close(resets=True)
    path = server.upstream.on(script)
    connection = server.connect()
    stream = tunnel(connection, path)
    connection.send_data(stream, b"x")
    connection.refused(stream, CONNECT_ERROR)
    connection.get(server.path)


@row("H7", "an upstream that ends before the 101: 502", own=ON)
def no_response(server):
    def script(exchange):
        exchange.close()
    path = server.upstream.on(script)
    connection = server.connect()
    stream = connection.open(fields(connection, path), end=False)
    connection.send_data(stream, b"x")
    connection.response(stream, 502)
    connection.get(server.path)


@row("H7", "a second HEADERS on a tunnel is a stream error, and the upstream's end is no orderly one", own=ON, peer="ignores it")
def trailers(server):
    path = server.upstream.on(collect)
    connection = server.connect()
    stream = tunnel(connection, path)
    connection.send_data(stream, b"x")
    connection.send(headers(stream.number, connection.encode([("x-a", "b")]), True))
    connection.refused(stream, PROTOCOL_ERROR)
    exchange = server.upstream.finished(path)
    if "reset" not in exchange.end:
        raise Failure(f"expected a reset at the upstream, seen {exchange.end}")
    held = Gate(collect)
    path = server.upstream.on(held)
    stream = connection.open(fields(connection, path), end=False)
    server.upstream.exchange(path)
    connection.send(headers(stream.number, connection.encode([("x-a", "b")]), True))
    connection.refused(stream, PROTOCOL_ERROR)
    held.open()
    server.upstream.finished(path)
    connection.get(server.path)


@row("15.5", "a silent tunnel ends after timeouts.upgraded_idle, an old one after upgraded_max_age", peer="has no such keys",
     own=ON | {"routes": [("idle", "/idle", lambda server: server.upstream.port, {"timeouts": {"upgraded_idle": "1s"}}),
                          ("aged", "/aged", lambda server: server.upstream.port, {"upgraded_max_age": "1s"})]})
def times(server):
    connection = server.connect()
    for prefix in ("idle/r", "aged/r"):
        path = server.upstream.on(collect, prefix)
        stream = tunnel(connection, path)
        connection.until("the end", lambda stream=stream: stream.is_over)
        expect("END_STREAM", True, stream.is_ended)
        server.upstream.finished(path)
    connection.get(server.path)


@row("H30", "a drain waits for tunnels, which go on, and a new one is refused behind GOAWAY", own=ON, peer="passes no END_STREAM on")
def drain(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    stream = tunnel(connection, path)
    server.drain()
    connection.until("two GOAWAY", lambda: len(connection.goaways) >= 2)
    connection.send_data(stream, b"still")
    expect("echo", b"still", receive(connection, stream, 5))
    beyond = connection.open(fields(connection, path), end=False)
    connection.fence()
    expect("a later stream", None, beyond.head)
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)
    connection.until("the end of the connection", lambda: connection.ended)
    server.process.wait(timeout=patience())


@row("H6", "a reload turns it off: open tunnels go on, new ones get 501, new connections are told nothing; and on again", own=ON,
     peer="has no reload of this kind")
def reload(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    stream = tunnel(connection, path)

    def change(value):
        file = server.token_file + ".yaml"
        with open(file, encoding="utf-8") as text:
            former = text.read()
        with open(file, "w", encoding="utf-8") as text:
            text.write(former.replace('"websocket_over_http2": ' + ("true" if value == "false" else "false"),
                                      '"websocket_over_http2": ' + value))
        count = server.log_text().count('"event":"reload')
        server.process.send_signal(signal.SIGHUP)
        wait_until("the reload", lambda: server.log_text().count('"event":"reload') > count)
    change("false")
    connection.send_data(stream, b"still")
    expect("echo", b"still", receive(connection, stream, 5))
    connection.response(connection.open(fields(connection, path)), 501)
    later = server.connect()
    later.fence()
    expect("ENABLE_CONNECT_PROTOCOL", 0, later.peer.get(ENABLE_CONNECT_PROTOCOL, 0))
    change("true")
    latest = server.connect()
    other = tunnel(latest, path)
    latest.send_data(other, b"new")
    expect("echo", b"new", receive(latest, other, 3))
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)


@row("H7", "1,000 tunnels in turn, each ended in another way, leave the server as it was", own=ON, peer="passes no END_STREAM on")
def churn(server):
    path = server.upstream.on(mirror)
    connection = server.connect()
    for number in range(1000):
        stream = tunnel(connection, path)
        connection.send_data(stream, b"x" * (number % 100 + 1))
        if number % 3 == 0:
            connection.cancel(stream)
        else:
            connection.send_data(stream, b"", end=True)
            connection.response(stream, 200)
        if number % 250 == 249:
            # Resets have a budget of their own on each connection.
            connection.close()
            connection = server.connect()
    wait_until("the ends at the upstream", lambda: all(each.finished.is_set() for each in server.upstream.seen(path)))
    server.lives()


@row("H6", "over TLS, with :scheme https", own=ON, peer="passes no END_STREAM on")
def over_tls(server):
    path = server.upstream.on(mirror)
    connection = server.connect_secure(["h2"])
    stream = tunnel(connection, path)
    connection.send_data(stream, os.urandom(4) * 1000)
    receive(connection, stream, 4000)
    connection.send_data(stream, b"", end=True)
    connection.response(stream, 200)
    plain = [(":scheme", "http") if field[0] == ":scheme" else field for field in fields(connection, path)]
    connection.refused(connection.open(plain), PROTOCOL_ERROR, statuses=(400, 421))
