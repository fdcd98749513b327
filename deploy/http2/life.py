"""The life of connections: drain, idle time, ALPN."""

import socket
import ssl
import time

from frames import (
    ACK, INITIAL_WINDOW_SIZE, NO_ERROR, PREFACE, PROTOCOL_ERROR, REFUSED_STREAM, goaway, headers, ping, settings)
from rows import Failure, expect, patience, row
from upstream import MIB, Gate, echo, never, ok, pattern, send

LAST = 2**31 - 1


@row("H30", "drain: GOAWAY with the highest number, a PING, GOAWAY with the real one; open streams end in order", own={})
def drain(server):
    gate = Gate(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(gate), method="POST"), end=False)
    connection.send_data(stream, b"first")
    connection.fence()
    server.drain()
    connection.until("two GOAWAY", lambda: len(connection.goaways) >= 2)
    expect("GOAWAY", [(LAST, NO_ERROR), (stream.number, NO_ERROR)], [(last, code) for last, code, _ in connection.goaways])
    connection.send_data(stream, b"second", end=True)
    gate.open()
    connection.response(stream, 200)
    expect("body", b"firstsecond", bytes(stream.body))
    connection.until("the end of the connection", lambda: connection.ended)
    server.process.wait(timeout=patience())


@row("H30", "drain: a request that crosses the first GOAWAY is served", own={}, peer="sends the second GOAWAY without waiting for PING")
def drain_crossing(server):
    gate = Gate()
    connection = server.connect()
    connection.acknowledges = False
    path = server.upstream.on(gate)
    held = connection.open(connection.fields(path))
    server.upstream.exchange(path)
    server.drain()
    connection.until("the first GOAWAY and a PING", lambda: connection.goaways and connection.pings)
    expect("the number in GOAWAY", LAST, connection.goaways[0][0])
    # The client has not answered the PING: the server cannot know that it has read the GOAWAY.
    crossing = connection.get(server.path)
    connection.send(ping(connection.pings[0], flags=ACK))
    connection.until("the second GOAWAY", lambda: len(connection.goaways) == 2)
    expect("the number in the second GOAWAY", crossing.number, connection.goaways[1][0])
    gate.open()
    connection.response(held, 200)


@row("H30", "drain: a stream above the last GOAWAY's number is not processed", own={})
def drain_beyond(server):
    gate = Gate()
    path = server.upstream.on(ok)
    connection = server.connect()
    held_path = server.upstream.on(gate)
    held = connection.open(connection.fields(held_path))
    server.upstream.exchange(held_path)
    server.drain()
    connection.until("two GOAWAY", lambda: len(connection.goaways) >= 2)
    beyond = connection.open(connection.fields(path))
    connection.fence()
    gate.open()
    connection.response(held, 200)
    connection.until("the end of the connection", lambda: connection.ended)
    if beyond.head or beyond.reset not in (None, REFUSED_STREAM):
        raise Failure(f"expected nothing or REFUSED_STREAM, seen {beyond}")
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H30", "drain: a connection without streams ends with GOAWAY NO_ERROR", own={})
def drain_idle(server):
    connections = [server.connect() for _ in range(3)]
    for connection in connections[1:]:
        connection.get(server.path)
    connections[0].fence()
    server.drain()
    for connection in connections:
        connection.until("the end of the connection", lambda connection=connection: connection.ended)
        if not connection.goaways or any(code for _, code, _ in connection.goaways):
            raise Failure(f"expected GOAWAY NO_ERROR, seen {connection.ended}{connection.described()}")
    server.process.wait(timeout=patience())


@row("H30", "drain in the middle of 8 downloads of 1 MiB: each is complete", own={})
def drain_downloads(server):
    gate = Gate(lambda exchange: None)
    path = server.upstream.on(send(MIB, step=lambda exchange: gate(exchange)))
    connection = server.connect()
    streams = [connection.open(connection.fields(path)) for _ in range(8)]
    connection.until("the heads", lambda: all(stream.head for stream in streams))
    server.drain()
    connection.until("GOAWAY", lambda: connection.goaways)
    gate.open()
    for stream in streams:
        connection.response(stream, 200)
        expect("body", True, stream.body == pattern(0, MIB))


@row("8", "an idle connection ends with GOAWAY NO_ERROR", own={"idle": 1}, peer="closes it without GOAWAY")
def idle(server):
    connection = server.connect()
    connection.get(server.path)
    connection.until("the end of the connection", lambda: connection.ended)
    expect("GOAWAY", [NO_ERROR], [code for _, code, _ in connection.goaways[-1:]])


@row("8", "a connection that never opens a stream ends, too", own={"idle": 1})
def idle_from_start(server):
    connection = server.connect()
    connection.until("the end of the connection", lambda: connection.ended)


@row("8", "the idle time does not end a connection with an open stream", own={"idle": 1})
def idle_with_stream(server):
    gate = Gate()
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(gate)))
    end = time.monotonic() + 3
    while time.monotonic() < end and not connection.ended:
        connection.pump(end - time.monotonic())
    gate.open()
    connection.response(stream, 200)


@row("8", "a preface that never comes ends by the time of a head or of an idle connection", own={"idle": 1})
def silent(server):
    for text in (b"", PREFACE[:10], PREFACE):
        connection = server.connect(starts=False)
        connection.unacknowledged.append({})
        connection.send(text)
        connection.until("the end of the connection", lambda connection=connection: connection.ended)


def chosen(server, protocols):
    """The protocol that the server chooses."""
    context = ssl.create_default_context(cafile=server.certificate[0])
    if protocols:
        context.set_alpn_protocols(protocols)
    with socket.create_connection(("127.0.0.1", server.secure), timeout=patience()) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            protocol = secure.selected_alpn_protocol()
            if protocol != "h2":
                secure.sendall(f"GET {server.path} HTTP/1.1\r\nHost: localhost:{server.secure}\r\nConnection: close\r\n\r\n".encode())
                received = secure.recv(64)
                if not received.startswith(b"HTTP/1.1 200"):
                    raise Failure(f"expected 200 over HTTP/1.1, seen {received}")
            return protocol


@row("H1", "ALPN: h2 before http/1.1 in any order, HTTP/1.1 for who offers it alone or nothing")
def alpn(server):
    for offered, expected in (
            (["h2", "http/1.1"], "h2"), (["http/1.1", "h2"], "h2"), (["h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)):
        expect(f"the protocol for {offered}", expected, chosen(server, offered))


@row("H1", "ALPN: who offers neither gets no_application_protocol, or HTTP/1.1")
def alpn_unknown(server):
    try:
        expect("the protocol", None, chosen(server, ["spdy/1"]))
    except ssl.SSLError as error:
        if "no application protocol" not in str(error).lower() and "NO_APPLICATION_PROTOCOL" not in str(error):
            raise Failure(f"expected no_application_protocol, seen {error}") from None


@row("H1", "HTTP/2 over TLS: GET, 1 MiB up and down, a malformed request")
def secure(server):
    connection = server.connect_secure(["h2"])
    connection.get(server.path)
    path = server.upstream.on(echo)
    stream = connection.open(connection.fields(path, method="POST"), end=False)
    connection.write(stream, pattern(0, MIB))
    connection.response(stream, 200)
    expect("body", True, stream.body == pattern(0, MIB))
    connection.refused(connection.open(connection.fields(server.path, ("X-Upper", "1"))), PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)


@row("H2", "a preface over TLS without ALPN reaches no upstream")
def secure_prior_knowledge(server):
    connection = server.connect_secure([], starts=False)
    before = server.upstream.count
    connection.send(PREFACE + settings() + headers(1, connection.encode(connection.fields(server.path))))
    # An HTTP/1.1 refusal is no frame: what came is looked at as bytes.
    connection.handle_input = lambda: None
    connection.until("the end of the connection", lambda: connection.ended)
    if not connection.input.startswith((b"HTTP/1.1 400", b"HTTP/1.1 505")) and connection.input:
        raise Failure(f"expected 400, 505 or the end, seen {bytes(connection.input[:100])}")
    expect("requests at the upstream", 0, server.upstream.count - before)


@row("8", "20 idle connections cost no CPU: after a request, with a stream that waits, with one that is stalled", own={})
def idle_cpu(server):
    connections = [server.connect((INITIAL_WINDOW_SIZE, 100)) for _ in range(20)]
    for number, connection in enumerate(connections):
        connection.get(server.path)
        if number % 3 == 1:
            connection.open(connection.fields(server.upstream.on(never)))
        if number % 3 == 2:
            connection.open(connection.fields(server.upstream.on(send(MIB))))
        connection.fence()
    # What was begun is done: a look that found work is not counted.
    deadline = time.monotonic() + patience()
    while True:
        before = server.cpu_ticks()
        time.sleep(0.5)
        spent = server.cpu_ticks() - before
        if spent <= 2:
            return
        if time.monotonic() > deadline:
            raise Failure(f"expected 2 ticks of CPU in half a second at most, seen {spent}")


@row("H1", "a TLS client that comes behind one that has ended by GOAWAY, or in the middle of an upload, is served")
def secure_behind_others(server):
    path = server.upstream.on(echo)
    for number in range(12):
        other = server.connect()
        other.get(server.path)
        if number % 2:
            other.send(goaway(0))
            other.until("the end of the connection", lambda other=other: other.ended)
        else:
            other.send_data(other.open(other.fields(path, method="POST"), end=False), bytes(1000))
            other.fence()
        connection = server.connect_secure(["h2"])
        for _ in range(3):
            connection.get(server.path)
            connection.fence()
        expect("GOAWAY", [], connection.goaways)


@row("H37", "a response head of 100 KiB reaches the client", peer="limits the head of a response to 64 KiB")
def long_response_head(server):
    fields = [(f"X-{number}", "v" * 4000) for number in range(25)]
    path = server.upstream.on(lambda exchange: exchange.reply(200, fields, b"ok"))
    connection = server.connect()
    stream = connection.open(connection.fields(path))
    connection.response(stream, 200)
    expect("body", b"ok", bytes(stream.body))
    expect("bytes of the fields", 100_000, sum(len(value) for name, value in stream.head[1] if name.startswith(b"x-")))
