"""Frames where they do not belong: each ends the connection or its stream as RFC 9113 says, or is ignored, and nothing else breaks."""

import struct

from frames import (
    ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_SIZE, FRAME_SIZE_ERROR, GOAWAY, HEADERS, PADDED, PING, PRIORITISED,
    PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, data, error_name, frame, goaway, headers,
    ping, priority, reset, window_update)
from rows import Failure, expect, row, table
from upstream import Gate, echo, never

# What may happen: the connection ends, the stream ends, nothing.
CONNECTION, STREAM, IGNORED = "GOAWAY", "RST_STREAM", "nothing"


class Scene:
    """A connection in the state that a case needs."""

    def __init__(self, server):
        self.server, self.connection, self.subject = server, server.connect(), None
        self.connection.fence()

    def idle(self):
        """The number of a stream that is idle."""
        self.subject = self.connection.stream()
        return self.subject.number

    def open(self, end=False, **options):
        """A stream whose upstream is silent: half-closed with `end`."""
        path = self.server.upstream.on(never)
        self.subject = self.connection.open(self.connection.fields(path, method="POST"), end, **options)
        return self.subject.number

    def closed(self):
        """A stream that has ended on both sides."""
        self.subject = self.connection.get(self.server.path)
        return self.subject.number

    def cancelled(self):
        number = self.open()
        self.connection.cancel(self.subject)
        return number

    def block(self, path=None):
        return self.connection.encode(self.connection.fields(path or self.server.path))

    def outcome(self):
        """(what has happened, the error)."""
        connection = self.connection
        if connection.ended or not self.probe():
            connection.until("the end of the connection", connection.is_dead)
            code = next((code for _, code, _ in connection.goaways if code), None)
            return CONNECTION, code
        if self.subject and self.subject.reset is not None:
            return STREAM, self.subject.reset
        return IGNORED, None

    def probe(self):
        """Whether a GET is served behind the case."""
        stream = self.connection.open(self.connection.fields(self.server.path))
        self.connection.until("the next response, or the end of the connection", lambda: stream.is_over or self.connection.is_dead())
        return stream.is_ended and not self.connection.is_dead()


def judge(server, make, outcomes, codes):
    scene = Scene(server)
    scene.connection.send(make(scene))
    kind, code = scene.outcome()
    if kind not in outcomes or kind != IGNORED and code not in codes:
        raise Failure(f"expected {' or '.join(outcomes)} {' or '.join(map(error_name, codes))}, "
                      f"seen {kind} {error_name(code) if code is not None else scene.connection.ended or ''}")
    if kind == CONNECTION:
        scene.connection.until("the end of the connection after GOAWAY", lambda: scene.connection.ended)


def cases(codes, outcomes, entries, rule="H17", peers=None):
    """Rows of one outcome: names to (title, function of the scene that returns bytes)."""
    @table(rule, entries, peers=peers)
    def framed(server, make):
        judge(server, make, outcomes, codes)


cases([PROTOCOL_ERROR], [CONNECTION], {
    "data_idle": ("DATA on an idle stream", lambda scene: data(scene.idle(), b"x")),
    "reset_idle": ("RST_STREAM on an idle stream", lambda scene: reset(scene.idle())),
    "window_idle": ("WINDOW_UPDATE on an idle stream", lambda scene: window_update(scene.idle(), 1)),
    "continuation_idle": ("CONTINUATION on an idle stream", lambda scene: frame(CONTINUATION, scene.idle(), scene.block(), END_HEADERS)),
    "even": ("HEADERS on a stream with an even number", lambda scene: headers(2, scene.block())),
    "data_zero": ("DATA on stream 0", lambda scene: data(0, b"x")),
    "headers_zero": ("HEADERS on stream 0", lambda scene: headers(0, scene.block())),
    "priority_zero": ("PRIORITY on stream 0", lambda scene: priority(0, 1)),
    "reset_zero": ("RST_STREAM on stream 0", lambda scene: reset(0)),
    "push_zero": ("PUSH_PROMISE on stream 0", lambda scene: frame(PUSH_PROMISE, 0, struct.pack(">I", 2) + scene.block(), END_HEADERS)),
    "continuation_zero": ("CONTINUATION on stream 0", lambda scene: frame(CONTINUATION, 0, scene.block(), END_HEADERS)),
    "settings_stream": ("SETTINGS on a stream", lambda scene: frame(SETTINGS, scene.open())),
    "settings_idle": ("SETTINGS on an idle stream", lambda scene: frame(SETTINGS, scene.idle())),
    "ping_stream": ("PING on a stream", lambda scene: ping(stream=scene.open())),
    "goaway_stream": ("GOAWAY on a stream", lambda scene: frame(GOAWAY, scene.open(), bytes(8))),
    "push": ("PUSH_PROMISE from a client", lambda scene: frame(
        PUSH_PROMISE, scene.open(), struct.pack(">I", 2) + scene.block(), END_HEADERS)),
    "continuation_alone": ("CONTINUATION behind a complete head", lambda scene: frame(
        CONTINUATION, scene.open(), scene.block(), END_HEADERS)),
    "padding_data": ("DATA whose padding is longer than the frame", lambda scene: frame(DATA, scene.open(), b"\x05abc", PADDED)),
    "padding_headers": ("HEADERS whose padding is longer than the frame", lambda scene: frame(
        HEADERS, scene.idle(), b"\xff" + scene.block(), PADDED | END_HEADERS | END_STREAM)),
    "block_data": ("DATA within a header block", lambda scene: frame(HEADERS, scene.idle(), scene.block()) + data(scene.subject.number)),
    "block_ping": ("PING within a header block", lambda scene: frame(HEADERS, scene.idle(), scene.block()) + ping()),
    "block_settings": ("SETTINGS within a header block", lambda scene: frame(HEADERS, scene.idle(), scene.block()) + frame(SETTINGS)),
    "block_window": ("WINDOW_UPDATE within a header block", lambda scene: frame(
        HEADERS, scene.idle(), scene.block()) + window_update(0, 1)),
    "block_reset": ("RST_STREAM of the same stream within a header block", lambda scene: frame(
        HEADERS, scene.idle(), scene.block()) + reset(scene.subject.number)),
    "block_headers": ("HEADERS of another stream within a header block", lambda scene: frame(
        HEADERS, scene.idle(), scene.block()) + headers(scene.idle(), scene.block())),
    "block_other": ("CONTINUATION of another stream within a header block", lambda scene: frame(
        HEADERS, scene.idle(), scene.block()[:4]) + frame(CONTINUATION, scene.idle(), scene.block()[4:], END_HEADERS)),
    "block_unknown": ("an unknown frame within a header block", lambda scene: frame(
        HEADERS, scene.idle(), scene.block()) + frame(0x77, scene.subject.number, b"x")),
})

cases([PROTOCOL_ERROR, STREAM_CLOSED], [CONNECTION], {
    "decreasing": ("HEADERS on a stream whose number is lower than that of an earlier one", lambda scene: skip(scene)),
}, peers={"decreasing": "libnghttp2 ignores it"})

cases([FRAME_SIZE_ERROR], [CONNECTION], {
    "ping_short": ("PING of 7 bytes", lambda scene: frame(PING, 0, bytes(7))),
    "ping_long": ("PING of 9 bytes", lambda scene: frame(PING, 0, bytes(9))),
    "settings_short": ("SETTINGS of 5 bytes", lambda scene: frame(SETTINGS, 0, bytes(5))),
    "settings_ack": ("an ACK of SETTINGS with values", lambda scene: frame(SETTINGS, 0, bytes(6), ACK)),
    "reset_short": ("RST_STREAM of 3 bytes", lambda scene: frame(RST_STREAM, scene.open(), bytes(3))),
    "reset_long": ("RST_STREAM of 5 bytes", lambda scene: frame(RST_STREAM, scene.open(), bytes(5))),
    "window_short": ("WINDOW_UPDATE of 3 bytes", lambda scene: frame(WINDOW_UPDATE, 0, b"\0\0\1")),
    "window_long": ("WINDOW_UPDATE of 5 bytes", lambda scene: frame(WINDOW_UPDATE, 0, b"\0\0\0\1\0")),
    "goaway_short": ("GOAWAY of 7 bytes", lambda scene: frame(GOAWAY, 0, bytes(7))),
    "headers_large": ("HEADERS of more than SETTINGS_MAX_FRAME_SIZE", lambda scene: frame(
        HEADERS, scene.idle(), scene.block() + bytes(limit(scene)), END_HEADERS | END_STREAM)),
    "settings_large": ("SETTINGS of more than SETTINGS_MAX_FRAME_SIZE", lambda scene: frame(
        SETTINGS, 0, bytes((limit(scene) // 6 + 1) * 6))),
    "unknown_large": ("an unknown frame of more than SETTINGS_MAX_FRAME_SIZE", lambda scene: frame(0x77, 0, bytes(limit(scene) + 1))),
    "length_max": ("a frame that announces 16 MiB - 1, of which 100 bytes come", lambda scene: frame(
        DATA, scene.open(), bytes(100), length=(1 << 24) - 1)),
})

cases([FRAME_SIZE_ERROR, PROTOCOL_ERROR], [CONNECTION, STREAM], {
    "priority_short": ("PRIORITY of 4 bytes", lambda scene: frame(PRIORITY, scene.open(), bytes(4))),
    "priority_long": ("PRIORITY of 6 bytes", lambda scene: frame(PRIORITY, scene.open(), bytes(6))),
    "data_large": ("DATA of more than SETTINGS_MAX_FRAME_SIZE", lambda scene: data(scene.open(), bytes(limit(scene) + 1))),
    "data_no_padding": ("DATA with the flag PADDED and no byte", lambda scene: frame(DATA, scene.open(), b"", PADDED)),
    "headers_no_padding": ("HEADERS with the flag PADDED and no byte", lambda scene: frame(
        HEADERS, scene.idle(), b"", PADDED | END_HEADERS | END_STREAM)),
    "headers_no_priority": ("HEADERS with the flag PRIORITY and 4 bytes", lambda scene: frame(
        HEADERS, scene.idle(), bytes(4), PRIORITISED | END_HEADERS | END_STREAM)),
})

cases([STREAM_CLOSED], [CONNECTION, STREAM], {
    "data_half_closed": ("DATA behind END_STREAM", lambda scene: data(scene.open(end=True), b"x")),
    "headers_half_closed": ("HEADERS behind END_STREAM", lambda scene: headers(scene.open(end=True), scene.block())),
})

cases([STREAM_CLOSED, PROTOCOL_ERROR], [CONNECTION, STREAM, IGNORED], {
    "data_closed": ("DATA on a closed stream does no harm", lambda scene: data(scene.closed(), b"x")),
    "headers_closed": ("HEADERS on a closed stream do no harm", lambda scene: headers(scene.closed(), scene.block())),
    "data_cancelled": ("DATA behind RST_STREAM does no harm", lambda scene: data(scene.cancelled(), b"x")),
    "headers_cancelled": ("HEADERS behind RST_STREAM do no harm", lambda scene: headers(scene.cancelled(), scene.block())),
    "priority_self": ("a stream that depends on itself by PRIORITY does no harm", lambda scene: priority(
        scene.open(), scene.subject.number)),
    "headers_self": ("a stream that depends on itself in HEADERS does no harm", lambda scene: frame(
        HEADERS, scene.idle(), struct.pack(">IB", scene.subject.number, 1) + scene.block(), PRIORITISED | END_HEADERS | END_STREAM)),
    "settings_ack_unasked": ("an ACK of SETTINGS that nobody sent does no harm", lambda scene: frame(SETTINGS, 0, b"", ACK)),
})

cases([], [IGNORED], {
    "window_closed": ("WINDOW_UPDATE on a closed stream is ignored", lambda scene: window_update(scene.closed(), 1)),
    "reset_closed": ("RST_STREAM on a closed stream is ignored", lambda scene: reset(scene.closed())),
    "priority_closed": ("PRIORITY on a closed stream is ignored", lambda scene: priority(scene.closed(), 0)),
    "priority_idle": ("PRIORITY on an idle stream is ignored", lambda scene: priority(scene.connection.next_stream + 100, 0)),
    "window_cancelled": ("WINDOW_UPDATE behind RST_STREAM is ignored", lambda scene: window_update(scene.cancelled(), 1)),
    "reset_twice": ("RST_STREAM behind RST_STREAM is ignored", lambda scene: reset(scene.cancelled(), CANCEL)),
    "window_half_closed": ("WINDOW_UPDATE behind END_STREAM is used", lambda scene: window_update(scene.open(end=True), 1)),
    "ping_ack": ("an ACK of PING that nobody asked for is ignored", lambda scene: ping(flags=ACK)),
    "unknown": ("an unknown frame on stream 0 is ignored", lambda scene: frame(0x77, 0, b"unknown", 0xFF)),
    "unknown_empty": ("an unknown empty frame is ignored", lambda scene: frame(0xFF)),
    "unknown_idle": ("an unknown frame on an idle stream is ignored", lambda scene: frame(
        0x77, scene.connection.next_stream + 100, b"x")),
    "unknown_open": ("an unknown frame on an open stream is ignored", lambda scene: frame(0x77, scene.open(), b"x")),
    "altsvc": ("ALTSVC and ORIGIN from a client are ignored", lambda scene: frame(0xA, 0, b"\0\0") + frame(0xC, 0, b"")),
    "priority_update": ("PRIORITY_UPDATE is ignored or used", lambda scene: frame(
        0x10, 0, struct.pack(">I", scene.open()) + b"u=1")),
    "flags": ("unknown flags are ignored", lambda scene: frame(PING, 0, bytes(8), 0xFE) + window_update(0, 1)),
    "reserved": ("the reserved bit of a stream's number is ignored", lambda scene: frame(
        WINDOW_UPDATE, scene.open() | 1 << 31, struct.pack(">I", 1 | 1 << 31))),
})


def skip(scene):
    """Stream 5 is opened and stream 3 is not; then stream 3."""
    connection = scene.connection
    connection.get(scene.server.path)
    skipped = connection.next_stream
    connection.next_stream += 2
    connection.get(scene.server.path)
    return headers(skipped, scene.block())


def limit(scene):
    return scene.connection.peer.get(5, FRAME_SIZE)


@row("H17", "PING is acknowledged with its bytes")
def ping_answered(server):
    connection = server.connect()
    connection.send(ping(b"\0\1\2\3\xff\xfe\xfd\xfc"), ping(b"second.."))
    connection.until("two ACKs", lambda: len(connection.pongs) == 2)
    expect("payloads", [b"\0\1\2\3\xff\xfe\xfd\xfc", b"second.."], connection.pongs)


@row("H29", "GOAWAY of a client: its open streams are completed")
def goaway_of_client(server):
    gate = Gate(echo)
    connection = server.connect()
    stream = connection.open(connection.fields(server.upstream.on(gate), method="POST"), end=False)
    connection.fence()
    connection.send(goaway(0, debug=b"leaving"))
    connection.send_data(stream, b"body", end=True)
    gate.open()
    connection.response(stream, 200)
    expect("body", b"body", bytes(stream.body))


@row("H17", "a padded head with PRIORITY, in three frames")
def headers_padded(server):
    connection = server.connect()
    stream = connection.stream()
    block = connection.encode(connection.fields(server.path))
    first = b"\x07" + struct.pack(">IB", 0, 200) + block[:3] + bytes(7)
    connection.send(frame(HEADERS, stream.number, first, PADDED | PRIORITISED | END_STREAM), frame(CONTINUATION, stream.number, block[3:9]),
                    frame(CONTINUATION, stream.number, block[9:], END_HEADERS))
    connection.response(stream, 200)


@row("H17", "stream numbers may skip, up to 2^31 - 1")
def numbers(server):
    connection = server.connect()
    for number in (1, 3, 101, 65_537, 2**31 - 1):
        connection.next_stream = number
        connection.get(server.path)
