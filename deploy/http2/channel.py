"""A socket that never blocks. Who waits for something on one socket also serves its companions, so one thread plays both ends."""

import select
import socket
import ssl
import time

from frames import (
    FRAME_SIZE, INITIAL_WINDOW_SIZE, PING, WINDOW, data, error_name, frame, reset, settings)
from receiving import Receiver
from rows import Failure, patience


def turn(channels, seconds):
    """Waits for the sockets once, and handles what came."""
    live = [channel for channel in dict.fromkeys(channels) if not channel.ended and not channel.is_paused]
    poll = select.poll()
    for channel in live:
        poll.register(channel.socket, select.POLLIN | (select.POLLOUT if channel.output else 0))
    if not any(isinstance(channel.socket, ssl.SSLSocket) and channel.socket.pending() for channel in live):
        poll.poll(max(0, seconds) * 1000)
    for channel in live:
        channel.serve()


class Channel:
    """Bytes in both directions. `who` is at the other end."""

    who = "the server"

    def __init__(self, connected, companions=tuple):
        self.socket, self.companions = connected, companions
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.input, self.output, self.ended = bytearray(), bytearray(), None
        # Not read by `turn`.
        self.is_paused = False

    def close(self):
        self.socket.close()
        self.ended = self.ended or "closed by this side"

    def send(self, *parts):
        """Sends bytes. What arrives until then is read, so that two full sockets do not wait for each other."""
        self.output += b"".join(parts)
        deadline = time.monotonic() + patience()
        self.flush()
        while self.output and not self.ended:
            if time.monotonic() > deadline:
                raise Failure(f"{self.who} reads nothing for {patience():.0f} s")
            self.pump(1)

    def flush(self):
        while self.output and not self.ended:
            try:
                sent = self.socket.send(memoryview(self.output)[:1 << 18])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except OSError:
                # What the other side has sent before it closed is still to be read.
                self.output.clear()
                return
            del self.output[:sent]

    def until(self, what, ready, seconds=None):
        """Reads until something is true."""
        seconds = patience() if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while not (value := ready()):
            left = deadline - time.monotonic()
            if self.ended or left <= 0:
                raise Failure(f"expected {what}, seen {self.ended or f'nothing for {seconds:.0f} s'}{self.described()}")
            self.pump(left)
        return value

    def described(self):
        return ""

    def pump(self, seconds):
        turn([self, *self.companions()], seconds)

    def serve(self):
        """Sends and reads what is possible."""
        self.flush()
        while not self.ended:
            try:
                received = self.socket.recv(1 << 18)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                self.ended = f"the connection was cut: {error.strerror or error}"
                break
            if not received:
                self.ended = f"{self.who} closed the connection"
                break
            self.input += received
            self.handle_input()
        if self.ended:
            self.handle_end()

    def handle_end(self):
        """Nothing more comes."""


class Endpoint(Channel, Receiver):
    """One end of an HTTP/2 connection, which can send anything."""

    def __init__(self, connected, secrets, companions):
        Receiver.__init__(self, secrets)
        Channel.__init__(self, connected, companions)
        self.encoder = None

    # Sending

    def change_settings(self, *values, waits=True):
        self.unacknowledged.append(dict(values))
        if waits:
            count = self.acknowledgements + len(self.unacknowledged)
            self.send(settings(values))
            self.until("an ACK of SETTINGS", lambda: self.acknowledgements >= count)
        else:
            self.output += settings(values)
            self.flush()

    def encode(self, fields, huffman=True):
        return self.encoder.encode(
            [tuple(part.encode("latin-1") if isinstance(part, str) else part for part in field) for field in fields], huffman=huffman)

    def windows(self):
        """Those of a new stream, to send and to receive."""
        return self.peer.get(INITIAL_WINDOW_SIZE, WINDOW), self.own.get(INITIAL_WINDOW_SIZE, WINDOW)

    def write(self, stream, body, end=True, size=FRAME_SIZE):
        """Sends a body as the windows permit. Returns what was sent when the other side ended the stream."""
        at = 0
        while not stream.is_over:
            room = min(size, len(body) - at, stream.send_window, self.send_window)
            if room > 0 or at == len(body):
                piece = body[at:at + max(room, 0)]
                at += len(piece)
                self.send_data(stream, piece, end and at == len(body))
                if at == len(body):
                    break
            else:
                self.until("a window", lambda: min(stream.send_window, self.send_window) > 0 or stream.is_over)
        return at

    def send_data(self, stream, payload, end=False, padding=None):
        size = len(payload) + (0 if padding is None else padding + 1)
        stream.send_window -= size
        self.send_window -= size
        self.send(data(stream.number, payload, end, padding))

    def cancel(self, stream, code=8):
        stream.is_cancelled = True
        self.send(reset(stream.number, code))

    # Waiting

    def described(self):
        """The last that came, for the line of a failed row."""
        parts = [f"GOAWAY {error_name(code)} {debug.decode('latin-1')}".strip() for _, code, debug in self.goaways]
        parts += [str(self.streams[max(self.streams)])] if self.streams else []
        return f" ({'; '.join(parts)})" if parts else ""

    def fence(self):
        """Waits for the answer to a PING: what was sent before has been read by the other side."""
        count = len(self.pongs)
        self.send(frame(PING, 0, b"fence%03d" % (count % 1000)))
        self.until("an ACK of PING", lambda: len(self.pongs) > count)

    def is_dead(self):
        return bool(self.ended) or any(code for _, code, _ in self.goaways)

    def died(self, *codes):
        """The other side ends the connection with GOAWAY and one of these errors."""
        try:
            self.until("an end of the connection", self.is_dead)
        except Failure as failure:
            raise Failure(f"expected GOAWAY {' or '.join(map(error_name, codes))}, seen {failure}") from None
        seen = [code for _, code, _ in self.goaways if code]
        if not seen or seen[0] not in codes:
            raise Failure(f"expected GOAWAY {' or '.join(map(error_name, codes))}, seen {self.ended or 'another one'}{self.described()}")
        self.until("the end of the connection after GOAWAY", lambda: self.ended)
