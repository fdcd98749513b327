"""A client connection that can send anything. `receiving.py` holds what the server sends against RFC 9113.

A fault of the server fails the row in which it happens, whatever the row looks at.
"""

import select
import socket
import ssl
import time

import hpack

from frames import ENABLE_PUSH, FRAME_SIZE, INITIAL_WINDOW_SIZE, PING, PREFACE, WINDOW, data, error_name, frame, headers, reset, settings
from receiving import Receiver, Stream
from rows import Failure, brief, patience


class Connection(Receiver):
    def __init__(self, address, authority, *, secrets=(), tls=None, values=(), starts=True, scheme=None):
        """`secrets`: what no response may hold. `values`: the client's first SETTINGS. `starts`: whether it sends preface and SETTINGS."""
        super().__init__(secrets)
        self.socket = socket.create_connection(address, timeout=patience())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.socket.setblocking(False)
        self.authority, self.scheme = authority, scheme or ("https" if tls else "http")
        self.encoder, self.next_stream, self.ended = hpack.Encoder(), 1, None
        if starts:
            self.output += PREFACE
            # The first SETTINGS precede every stream, so they hold for each of them.
            self.own = {ENABLE_PUSH: 0} | dict(values)
            self.change_settings(*self.own.items(), waits=False)

    def close(self):
        self.socket.close()
        self.ended = self.ended or "closed by the client"

    # Sending

    def send(self, *parts):
        """Sends bytes. What arrives until then is read, so that two full sockets do not wait for each other."""
        self.output += b"".join(parts)
        deadline = time.monotonic() + patience()
        self.flush()
        while self.output and not self.ended:
            if time.monotonic() > deadline:
                raise Failure(f"the server reads nothing for {patience():.0f} s")
            self.pump(1)

    def flush(self):
        while self.output and not self.ended:
            try:
                sent = self.socket.send(memoryview(self.output)[:1 << 18])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except OSError:
                # What the server has sent before it closed is still to be read.
                self.output.clear()
                return
            del self.output[:sent]

    def change_settings(self, *values, waits=True):
        self.unacknowledged.append(dict(values))
        if waits:
            count = self.acknowledgements + len(self.unacknowledged)
            self.send(settings(values))
            self.until("an ACK of SETTINGS", lambda: self.acknowledgements >= count)
        else:
            self.output += settings(values)
            self.flush()

    def fields(self, path, *extra, method="GET"):
        return [(":method", method), (":scheme", self.scheme), (":authority", self.authority), (":path", path), *extra]

    def encode(self, fields, huffman=True):
        return self.encoder.encode(
            [tuple(part.encode("latin-1") if isinstance(part, str) else part for part in field) for field in fields], huffman=huffman)

    def stream(self):
        """A new stream that is not sent yet."""
        number, self.next_stream = self.next_stream, self.next_stream + 2
        window = self.own.get(INITIAL_WINDOW_SIZE, WINDOW)
        stream = self.streams[number] = Stream(number, self.peer.get(INITIAL_WINDOW_SIZE, WINDOW), window)
        return stream

    def open(self, fields, end=True, **options):
        """Sends a head. `options`: those of `frames.headers`."""
        stream = self.stream()
        self.send(headers(stream.number, self.encode(fields), end, **options))
        return stream

    def write(self, stream, body, end=True, size=FRAME_SIZE):
        """Sends a body as the windows permit. Returns what was sent when the server ended the stream."""
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
        """The last that came, for the line of a failed row."""
        parts = [f"GOAWAY {error_name(code)} {debug.decode('latin-1')}".strip() for _, code, debug in self.goaways]
        parts += [str(self.streams[max(self.streams)])] if self.streams else []
        return f" ({'; '.join(parts)})" if parts else ""

    def fence(self):
        """Waits for the answer to a PING: what was sent before has been read by the server."""
        count = len(self.pongs)
        self.send(frame(PING, 0, b"fence%03d" % (count % 1000)))
        self.until("an ACK of PING", lambda: len(self.pongs) > count)

    def response(self, stream, status=None):
        """The complete response."""
        self.until(f"a response on stream {stream.number}", lambda: stream.is_over)
        if not stream.is_ended or stream.head is None or status not in (None, stream.status):
            raise Failure(f"expected {f'status {status}' if status else 'a complete response'}, seen {stream}"
                          f"{', ' + brief(bytes(stream.body)) if stream.body else ''}{self.described() if self.goaways else ''}")
        return stream

    def get(self, path, *extra, method="GET", status=200):
        return self.response(self.open(self.fields(path, *extra, method=method)), status)

    def is_dead(self):
        return bool(self.ended) or any(code for _, code, _ in self.goaways)

    def refused(self, stream, *codes, statuses=()):
        """The stream ends with one of these errors or statuses, and the connection does not."""
        self.until("an end of the stream", lambda: stream.is_over or self.is_dead())
        wanted = " or ".join([f"RST_STREAM {error_name(code)}" for code in codes] + [f"status {status}" for status in statuses])
        if self.is_dead() or not (stream.reset in codes or stream.is_ended and stream.status in statuses):
            raise Failure(f"expected {wanted} on the stream alone, seen {self.ended or stream}{self.described()}")

    def died(self, *codes):
        """The server ends the connection with GOAWAY and one of these errors."""
        try:
            self.until("an end of the connection", self.is_dead)
        except Failure as failure:
            raise Failure(f"expected GOAWAY {' or '.join(map(error_name, codes))}, seen {failure}") from None
        seen = [code for _, code, _ in self.goaways if code]
        if not seen or seen[0] not in codes:
            raise Failure(f"expected GOAWAY {' or '.join(map(error_name, codes))}, seen {self.ended or 'another one'}{self.described()}")
        self.until("the end of the connection after GOAWAY", lambda: self.ended)

    # Receiving

    def pump(self, seconds):
        """Waits for the socket once, and handles what came."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN | (select.POLLOUT if self.output else 0))
        if not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
            poll.poll(max(0, seconds) * 1000)
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
                self.ended = "the server closed the connection"
                break
            self.input += received
            self.handle_input()
