"""Upstreams that break RFC 9113: the client gets a problem or a cut response, and other requests are served."""

import struct

from calls import KINDS, PlainCall, StreamCall, both, complete, cut, problem, served
from frames import (
    ACK, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, PUSH_PROMISE, RST_STREAM,
    SETTINGS, WINDOW_MAX, WINDOW_UPDATE, data, frame, goaway, headers, ping, priority, reset, settings, window_update)
from multiplexed import hold
from rows import Failure, expect, row, table


def literal(*fields):
    """Fields as literals without indexing, whatever their names: an encoder would change some."""
    out = b""
    for name, value in fields:
        name, value = (part.encode("latin-1") if isinstance(part, str) else part for part in (name, value))
        out += b"\x00" + b"".join(length(part) + part for part in (name, value))
    return out


def length(part):
    if len(part) < 127:
        return bytes([len(part)])
    rest, out = len(part) - 127, b"\x7f"
    while rest >= 128:
        out, rest = out + bytes([rest & 127 | 128]), rest >> 7
    return out + bytes([rest])


STATUS = (":status", "200")

HEADS = {
    "connection": ("a field connection", [STATUS, ("connection", "close")]),
    "keep_alive": ("a field keep-alive", [STATUS, ("keep-alive", "timeout=5")]),
    "proxy_connection": ("a field proxy-connection", [STATUS, ("proxy-connection", "close")]),
    "transfer_encoding": ("a field transfer-encoding", [STATUS, ("transfer-encoding", "chunked")]),
    "upgrade": ("a field upgrade", [STATUS, ("upgrade", "h2c")]),
    "upper": ("a name in upper case", [STATUS, ("X-Upper", "1")]),
    "name_empty": ("an empty name", [STATUS, ("", "1")]),
    "name_space": ("a name with a space", [STATUS, ("x a", "1")]),
    "name_colon": ("a name with a colon", [STATUS, ("x:a", "1")]),
    "value_line": ("a value with CR LF", [STATUS, ("x-a", "1\r\nx-b: 2")]),
    "value_lf": ("a value with LF", [STATUS, ("x-a", "1\nx-b: 2")]),
    "value_nul": ("a value with NUL", [STATUS, ("x-a", "1\x002")]),
    "value_space": ("a value that begins with a space", [STATUS, ("x-a", " 1")]),
    "status_none": ("no :status", [("x-a", "1")]),
    "status_empty": ("an empty :status", [(":status", "")]),
    "status_text": (":status abc", [(":status", "abc")]),
    "status_short": (":status 20", [(":status", "20")]),
    "status_long": (":status 2000", [(":status", "2000")]),
    "status_signed": (":status +20", [(":status", "+20")]),
    "status_zero": (":status 000", [(":status", "000")]),
    "status_99": (":status 099", [(":status", "099")]),
    "status_switch": (":status 101", [(":status", "101")]),
    "status_line": (":status with a line's end", [(":status", "200\r\nx: y")]),
    "status_twice": (":status twice", [STATUS, STATUS]),
    "status_late": (":status behind a field", [("x-a", "1"), STATUS]),
    "pseudo_request": (":path in a response", [STATUS, (":path", "/")]),
    "pseudo_unknown": ("an unknown pseudo-header field", [STATUS, (":other", "1")]),
    "length_text": ("content-length 1x", [STATUS, ("content-length", "1x")]),
    "length_two": ("two content-lengths that differ", [STATUS, ("content-length", "1"), ("content-length", "2")]),
    "length_negative": ("content-length -1", [STATUS, ("content-length", "-1")]),
    "length_huge": ("content-length beyond 2^64", [STATUS, ("content-length", "99999999999999999999999")]),
}


@table("H14", {f"{name}.{kind}": (f"{label} to HTTP/2: {title} is a 502", (maker, fields))
               for name, (title, fields) in HEADS.items()
               for kind, (label, maker) in {"http1": ("HTTP/1.1", 0), "http2": ("HTTP/2", 1)}.items()})
def heads(server, case):
    kind, fields = list(KINDS.values())[case[0]], case[1]
    for end in (False, True):
        path = server.h2.on(lambda request, end=end: request.connection.send(
            headers(request.number, literal(*fields), end), b"" if end else data(request.number, b"x", True)))
        if end and fields[0] == STATUS and fields[1:] and fields[1][0] == "content-length":
            continue
        problem(kind(server, path, method="POST", body=b"body"))
    served(server, kind=kind)


def respond_raw(server, make):
    """A path whose response is these bytes; `make` gets the request."""
    def script(request):
        request.is_cancelled = request.has_responded = True
        request.connection.send(make(request))
    return server.h2.on(script)


# Whole conversations that are wrong: what the connection does is up to the proxy, the client gets no complete 200.
FRAMES = {
    "data_first": ("DATA before HEADERS", lambda request: data(request.number, b"x", True)),
    "data_idle": ("DATA on a stream that is idle", lambda request: data(request.number + 2, b"x", True)),
    "data_zero": ("DATA on stream 0", lambda request: data(0, b"x")),
    "headers_zero": ("HEADERS on stream 0", lambda request: headers(0, literal(STATUS))),
    "headers_even": ("HEADERS on an even stream", lambda request: headers(2, literal(STATUS))),
    "headers_idle": ("HEADERS on an odd stream that is idle", lambda request: headers(request.number + 100, literal(STATUS))),
    "reset_idle": ("RST_STREAM on a stream that is idle", lambda request: reset(request.number + 100)),
    "reset_zero": ("RST_STREAM on stream 0", lambda request: reset(0)),
    "reset_short": ("RST_STREAM of 3 bytes", lambda request: frame(RST_STREAM, request.number, b"abc")),
    "window_idle": ("WINDOW_UPDATE on a stream that is idle", lambda request: window_update(request.number + 100, 1)),
    "window_zero": ("WINDOW_UPDATE of 0 on the connection", lambda request: window_update(0, 0)),
    "window_short": ("WINDOW_UPDATE of 3 bytes", lambda request: frame(WINDOW_UPDATE, 0, b"abc")),
    "window_overflow": ("WINDOW_UPDATE beyond 2^31 - 1 on the connection", lambda request: window_update(0, WINDOW_MAX) * 2),
    "push": ("PUSH_PROMISE", lambda request: frame(PUSH_PROMISE, request.number, struct.pack(">I", 2) + literal(
        (":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")), END_HEADERS)),
    "settings_length": ("SETTINGS of 5 bytes", lambda request: frame(SETTINGS, 0, b"12345")),
    "settings_stream": ("SETTINGS on a stream", lambda request: settings(stream=request.number)),
    "settings_ack": ("ACK of SETTINGS with bytes", lambda request: frame(SETTINGS, 0, b"123456", ACK)),
    "settings_window": ("INITIAL_WINDOW_SIZE of 2^31", lambda request: settings([(INITIAL_WINDOW_SIZE, 2**31)])),
    "settings_frame": ("MAX_FRAME_SIZE of 100", lambda request: settings([(MAX_FRAME_SIZE, 100)])),
    "ping_short": ("PING of 7 bytes", lambda request: ping(b"1234567")),
    "ping_stream": ("PING on a stream", lambda request: ping(stream=request.number)),
    "goaway_stream": ("GOAWAY on a stream", lambda request: frame(7, request.number, bytes(8))),
    "large": ("a frame of 16,385 bytes", lambda request: headers(request.number, literal(STATUS), False) + frame(
        0, request.number, bytes(16_385))),
    "huge": ("a frame that announces 2^24 - 1 bytes", lambda request: frame(0, request.number, b"x" * 100, length=2**24 - 1)),
    "continuation_alone": ("CONTINUATION without HEADERS", lambda request: frame(CONTINUATION, request.number, b"", END_HEADERS)),
    "continuation_between": ("another frame within a head", lambda request: frame(
        HEADERS, request.number, literal(STATUS), END_STREAM) + ping()),
    "padding": ("padding that is longer than its frame", lambda request: headers(
        request.number, literal(STATUS), False) + frame(0, request.number, b"\xff123", 0x8)),
    "hpack_index": ("an index that no table has", lambda request: headers(request.number, b"\xff\xff\x01")),
    "hpack_cut": ("a block that is cut", lambda request: headers(request.number, b"\x88\x40\x0aabc")),
    "hpack_huffman": ("Huffman coding with EOS", lambda request: headers(request.number, b"\x88\x40\x01a\x84\xff\xff\xff\xff")),
    "hpack_table": ("an update of the table's size beyond the limit", lambda request: headers(request.number, b"\x3f\xe1\xff\x03\x88")),
    "head_second": ("a second final head without END_STREAM", lambda request: headers(
        request.number, literal(STATUS), False) * 2),
    "interim_end": ("an interim response with END_STREAM", lambda request: headers(request.number, literal((":status", "103")))),
    "trailers_pseudo": ("trailers with :status", lambda request: headers(request.number, literal(STATUS), False) + data(
        request.number, b"x") + headers(request.number, literal(STATUS))),
    "trailers_upper": ("trailers with a name in upper case", lambda request: headers(request.number, literal(STATUS), False) + data(
        request.number, b"x") + headers(request.number, literal(("X-A", "1")))),
    "continuations": ("a head in 200 CONTINUATION frames", lambda request: frame(
        HEADERS, request.number, literal(STATUS)) + frame(CONTINUATION, request.number, literal(("x-a", "1"))) * 200 + frame(
            CONTINUATION, request.number, b"", END_HEADERS)),
    "continuations_empty": ("a head in 2,000 empty CONTINUATION frames", lambda request: frame(
        HEADERS, request.number, literal(STATUS)) + frame(CONTINUATION, request.number) * 2000),
    "head_large": ("a head of 2 MiB", lambda request: headers(
        request.number, literal(STATUS, *[(f"x-{number}", "v" * 16_000) for number in range(131)]))),
    "head_bomb": ("a head of 20,000 references to a field of 4,000 bytes", lambda request: headers(
        request.number, b"\x88\x40\x01a\x7f" + length(b"x" * 4000)[1:] + b"x" * 4000 + b"\xbe" * 15_000)),
    "fields": ("a head of 5,000 fields", lambda request: headers(request.number, literal(STATUS) + literal(("a", "")) * 5000)),
    "interims": ("300 interim responses at once", lambda request: headers(
        request.number, literal((":status", "103")), False) * 300 + headers(request.number, literal(STATUS))),
}


@table("H14", {name: (f"HTTP/2 to HTTP/2: {title}: no complete 200, and other requests are served", make)
               for name, (title, make) in FRAMES.items()})
def frames(server, make):
    path = respond_raw(server, make)
    cut(StreamCall(server, path, method="POST", body=b"body"), 502)
    served(server)


@row("H14", "HTTP/1.1 to HTTP/2: the same: no complete 200, and other requests are served")
def frames_plain(server):
    for title, make in FRAMES.values():
        try:
            cut(PlainCall(server, respond_raw(server, make), method="POST", body=b"body"), 502)
        except Failure as failure:
            raise Failure(f"{title}: {failure}") from None
        server.h2.end_row()
    served(server)


BYTES = {
    "http1": ("an HTTP/1.1 response", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    "rubbish": ("rubbish", b"\xff" * 1000),
    "preface": ("a client's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings()),
    "ping_first": ("PING before SETTINGS", ping()),
    "ack_first": ("an ACK before SETTINGS", frame(SETTINGS, 0, b"", ACK)),
    "goaway_first": ("GOAWAY PROTOCOL_ERROR behind SETTINGS", settings() + goaway(0, 1, b"no")),
    "zeros": ("zeros", bytes(1000)),
    "ssh": ("an SSH banner", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
}


@table("H3", {name: (f"an upstream that sends {title} is a 502, to clients of both kinds", text) for name, (title, text) in BYTES.items()})
def no_http2(server, text):
    server.h2.answer = text
    path = server.h2.on(hold)
    for kind in KINDS.values():
        for method in ("GET", "POST"):
            problem(kind(server, path, method=method, body=b"body" if method == "POST" else None))
    server.h2.end_row()
    served(server)


@both("13.1", "an upstream that closes before its SETTINGS, or nobody who listens, is a 502")
def silent(server, kind):
    problem(kind(server, "/down/x"))
    server.h2.answer = b""
    call = kind(server, server.h2.on(hold), method="POST", body=b"body")
    server.h2.until("the preface", lambda: any(connection.protocol for connection in server.h2.connections))
    for connection in server.h2.connections:
        connection.close()
    server.h2.answer = None
    call.until("an end", lambda: call.stream.is_over)
    if call.stream.status not in (502, 404, 200):
        raise Failure(f"expected a 502, seen {call.stream}")
    served(server)


FLOODS = {
    "ping": ("PING", ping()),
    "settings": ("SETTINGS", settings()),
    "window": ("WINDOW_UPDATE of 1", window_update(0, 1)),
    "priority": ("PRIORITY", priority(1)),
    "unknown": ("unknown frames", frame(0x77, 0, b"x")),
}


@table("H41", {name: (f"100,000 {title} frames end the upstream's connection; the client gets a 502, others are served", text)
               for name, (title, text) in FLOODS.items()})
def floods(server, text):
    path = server.h2.on(hold)
    call = StreamCall(server, path, method="POST", body=b"body")
    connection = server.h2.request(path).connection
    for _ in range(100):
        if connection.ended:
            break
        connection.unacknowledged += [{}] * 1000 * (text == settings())
        connection.send(text * 1000)
    cut(call, 502)
    served(server)


@row("H41", "100,000 empty DATA frames of a response end the stream or the connection")
def floods_empty(server):
    path = server.h2.on(hold)
    call = StreamCall(server, path)
    request = server.h2.request(path)
    request.respond(200)
    for _ in range(100):
        if request.connection.ended:
            break
        request.connection.send(data(request.number, b"") * 1000)
    cut(call, 502)
    served(server)


@row("H17", "a frame behind END_STREAM of a response does no harm to other streams' clients")
def behind_end(server):
    path = server.h2.on(lambda request: (request.reply(200, [], b"ok"), request.connection.send(data(request.number, b"more"))))
    call = StreamCall(server, path)
    expect("body", b"ok", bytes(complete(call).body))
    served(server)


@row("H17", "unknown frames, settings and flags, padding and priorities in a response are ignored")
def ignored(server):
    def script(request):
        block = literal(STATUS, ("content-length", "4"))
        request.connection.send(
            frame(0x77, 0, b"x"), frame(0x77, request.number, b"y"), settings([(0x77, 1)]), priority(request.number),
            frame(HEADERS, request.number, bytes([5]) + struct.pack(">IB", 0, 3) + block + bytes(5), 0x2C | 0x40),
            data(request.number, b"bo", padding=200), data(request.number, b"", padding=0), data(request.number, b"dy", True, padding=3))
        request.connection.unacknowledged.append({})
        request.has_responded = True
    path = server.h2.on(script)
    expect("body", b"body", bytes(complete(StreamCall(server, path)).body))
    served(server)
