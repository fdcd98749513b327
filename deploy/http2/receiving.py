"""What a connection receives: every frame is held against RFC 9113, and put where the rows find it."""

import struct

import hpack

from frames import (
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENABLE_PUSH, FRAME_SIZE, GOAWAY, HEADERS, HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE, PADDED, PING, PRIORITISED, PUSH_PROMISE, RST_STREAM, SETTINGS, TYPES, WINDOW, WINDOW_MAX, WINDOW_UPDATE, error_name,
    frame, window_update)
from rows import Failure, brief

HOP_BY_HOP = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}


class Stream:
    """What has come on a stream."""

    def __init__(self, number, send_window, receive_window):
        self.number, self.send_window, self.receive_window = number, send_window, receive_window
        # Interim heads, then the final one, each as (status, fields).
        self.interim, self.head, self.trailers = [], None, None
        self.body = bytearray()
        self.is_ended, self.reset, self.is_cancelled = False, None, False
        # Bytes whose window has not been given back.
        self.owed = 0
        # Names of fields that came as literals never indexed (RFC 7541 6.2.3).
        self.never_indexed = set()

    @property
    def is_over(self):
        return self.is_ended or self.reset is not None

    @property
    def status(self):
        return self.head and self.head[0]

    def values(self, name):
        return [value.decode("latin-1") for key, value in self.head[1] if key == name.encode()]

    def __str__(self):
        parts = [f"status {self.status}", f"{len(self.body)} bytes"] if self.head else ["no response"]
        parts += ["trailers"] if self.trailers is not None else []
        parts += ["END_STREAM"] if self.is_ended else []
        parts += [f"RST_STREAM {error_name(self.reset)}"] if self.reset is not None else []
        return f"stream {self.number}: " + ", ".join(parts)


class Receiver:
    """The receiving half of an `Endpoint`. A fault of the other side, such as DATA beyond a window, raises `Failure`."""

    who = "the server"

    def __init__(self, secrets):
        self.secrets = secrets
        self.decoder = hpack.Decoder(max_header_list_size=1 << 24)
        self.block = None
        self.streams, self.peer, self.own, self.unacknowledged = {}, {}, {}, []
        self.send_window, self.receive_window, self.owed = WINDOW, WINDOW, 0
        self.gives_back, self.acknowledges = True, True
        self.goaways, self.pongs, self.pings, self.acknowledgements = [], [], [], 0

    def handle_input(self):
        at, size = 0, len(self.input)
        while size - at >= 9:
            length = int.from_bytes(self.input[at:at + 3], "big")
            if length > max(FRAME_SIZE, self.own.get(MAX_FRAME_SIZE, 0)):
                raise Failure(f"{self.who} sent a frame of {length} bytes: {brief(bytes(self.input[at:at + 60]))}")
            if size - at < 9 + length:
                break
            kind, flags, number = struct.unpack(">BBI", self.input[at + 3:at + 9])
            self.handle_frame(kind, flags, number & WINDOW_MAX, bytes(self.input[at + 9:at + 9 + length]))
            at += 9 + length
        del self.input[:at]
        if self.gives_back:
            self.give_back()

    def give_back(self):
        """Returns windows, of the connection and of each stream that is not over."""
        if self.owed:
            self.output += window_update(0, self.owed)
            self.receive_window, self.owed = self.receive_window + self.owed, 0
            for stream in self.streams.values():
                if stream.owed and not stream.is_over and not stream.is_cancelled:
                    self.output += window_update(stream.number, stream.owed)
                    stream.receive_window, stream.owed = stream.receive_window + stream.owed, 0
            self.flush()

    def grant(self, stream, size):
        """Gives a window by hand; `stream` is None for the connection's."""
        target = stream or self
        target.receive_window += size
        self.send(window_update(stream.number if stream else 0, size))

    def handle_frame(self, kind, flags, number, payload):
        if kind >= len(TYPES):
            return
        if not self.peer and (kind != SETTINGS or flags & ACK):
            raise Failure(f"{self.who}'s first frame is {TYPES[kind]}, not SETTINGS")
        if self.block is not None and (kind != CONTINUATION or number != self.block[0]):
            raise Failure(f"{self.who} sent {TYPES[kind]} within a header block")
        stream = self.streams.get(number)
        if kind in (DATA, HEADERS, RST_STREAM) and stream is None:
            stream = self.open_by_peer(kind, number)
        if kind in (DATA, HEADERS) and stream.is_over:
            raise Failure(f"{self.who} sent {TYPES[kind]} behind the end of {stream}")
        if kind == DATA:
            self.handle_data(stream, flags, payload)
        elif kind == HEADERS:
            if flags & PADDED:
                payload = payload[1:len(payload) - payload[0]]
            self.block = (number, flags, payload[5:] if flags & PRIORITISED else payload)
        elif kind == CONTINUATION:
            if self.block is None:
                raise Failure(f"{self.who} sent CONTINUATION without HEADERS")
            self.block = (number, self.block[1] | flags & END_HEADERS, self.block[2] + payload)
        elif kind == RST_STREAM:
            stream.reset = int.from_bytes(payload, "big")
        elif kind == SETTINGS:
            self.handle_settings(flags, payload)
        elif kind == PING:
            (self.pongs if flags & ACK else self.pings).append(payload)
            if not flags & ACK and self.acknowledges:
                self.output += frame(PING, 0, payload, ACK)
                self.flush()
        elif kind == GOAWAY:
            last, code = struct.unpack(">II", payload[:8])
            self.check_secrets("GOAWAY", payload)
            self.goaways.append((last & WINDOW_MAX, code, payload[8:]))
        elif kind == WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            target = self if number == 0 else stream
            if target is None or increment == 0 or target.send_window + increment > WINDOW_MAX:
                raise Failure(f"{self.who} sent WINDOW_UPDATE {increment} on stream {number}")
            target.send_window += increment
        elif kind == PUSH_PROMISE:
            raise Failure(f"{self.who} sent PUSH_PROMISE")
        if self.block is not None and self.block[1] & END_HEADERS:
            block, self.block = self.block, None
            self.handle_head(self.streams[block[0]], block[1], block[2])

    def open_by_peer(self, kind, number):
        raise Failure(f"{self.who} sent {TYPES[kind]} on stream {number}, which is idle")

    def handle_data(self, stream, flags, payload):
        size = len(payload)
        stream.receive_window -= size
        self.receive_window -= size
        if size and (stream.receive_window < 0 or self.receive_window < 0):
            raise Failure(f"{self.who} sent {size} bytes beyond a window: {stream.receive_window} of the stream, "
                          f"{self.receive_window} of the connection are left")
        stream.owed += size
        self.owed += size
        if flags & PADDED:
            payload = payload[1:size - payload[0]]
        if not stream.head:
            raise Failure(f"{self.who} sent DATA before a final head")
        if stream.trailers is not None:
            raise Failure(f"{self.who} sent DATA behind trailers")
        stream.body += payload
        self.check_secrets("DATA", payload)
        self.end(stream, flags)

    def decode(self, stream, block):
        """The fields of a block."""
        try:
            decoded = self.decoder.decode(block, raw=True)
        except hpack.HPACKError as error:
            raise Failure(f"{self.who}'s header block cannot be read: {error}") from None
        stream.never_indexed |= {bytes(field[0]).decode("latin-1") for field in decoded if not field.indexable}
        fields = [(bytes(name), bytes(value)) for name, value in decoded]
        for name, value in fields:
            self.check_secrets(name.decode("latin-1"), value)
            if name != name.lower() or name in HOP_BY_HOP:
                raise Failure(f"{self.who} sent the field {name!r}: {value!r}")
        return fields

    def handle_head(self, stream, flags, block):
        fields = self.decode(stream, block)
        pseudo = [name for name, _ in fields if name.startswith(b":")]
        if stream.head:
            self.handle_trailers(stream, flags, fields)
        else:
            if pseudo != [b":status"] or fields[0][0] != b":status":
                raise Failure(f"{self.who}'s head has the pseudo-header fields {pseudo}")
            head = (int(fields[0][1]), fields[1:])
            if head[0] >= 200:
                stream.head = head
            elif flags & END_STREAM or head[0] == 101:
                raise Failure(f"{self.who} sent {head[0]}{' with END_STREAM' * bool(flags & END_STREAM)}")
            else:
                stream.interim.append(head)
        self.end(stream, flags)

    def handle_trailers(self, stream, flags, fields):
        if any(name.startswith(b":") for name, _ in fields) or not flags & END_STREAM:
            raise Failure(f"{self.who} sent a second head on stream {stream.number}: {fields}")
        stream.trailers = fields

    def end(self, stream, flags):
        if flags & END_STREAM:
            stream.is_ended = True

    def handle_settings(self, flags, payload):
        if flags & ACK:
            if not self.unacknowledged:
                raise Failure(f"{self.who} sent an ACK of SETTINGS too many")
            self.acknowledgements += 1
            self.apply_own(self.unacknowledged.pop(0))
            return
        values = dict(struct.iter_unpack(">HI", payload))
        if values.get(ENABLE_PUSH):
            raise Failure(f"{self.who} announces ENABLE_PUSH")
        former = self.peer.get(INITIAL_WINDOW_SIZE, WINDOW)
        change = values.get(INITIAL_WINDOW_SIZE, former) - former
        for stream in self.streams.values():
            stream.send_window += change
        if HEADER_TABLE_SIZE in values:
            self.encoder.header_table_size = min(values[HEADER_TABLE_SIZE], 4096)
        # No server of interest sends it as 0: it stands for "SETTINGS have come".
        self.peer |= {0: 1} | values
        if self.acknowledges:
            self.output += frame(SETTINGS, 0, b"", ACK)
            self.flush()

    def apply_own(self, values):
        """A server may use the former windows until it acknowledges."""
        if INITIAL_WINDOW_SIZE in values:
            change = values[INITIAL_WINDOW_SIZE] - self.own.get(INITIAL_WINDOW_SIZE, WINDOW)
            for stream in self.streams.values():
                stream.receive_window += change
        if HEADER_TABLE_SIZE in values:
            self.decoder.max_allowed_table_size = values[HEADER_TABLE_SIZE]
        self.own |= values

    def check_secrets(self, where, value):
        for secret in self.secrets:
            if secret in value:
                raise Failure(f"the injected token reaches the client in {where}")
