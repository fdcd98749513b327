"""A client connection that can send anything. `receiving.py` holds what the server sends against RFC 9113.

A fault of the server fails the row in which it happens, whatever the row looks at.
"""

import socket

import hpack

from channel import Endpoint
from frames import ENABLE_PUSH, PREFACE, error_name, headers
from receiving import Stream
from rows import Failure, brief, patience


class Connection(Endpoint):
    def __init__(self, address, authority, *, secrets=(), tls=None, values=(), starts=True, scheme=None, companions=tuple):
        """`secrets`: what no response may hold. `values`: the client's first SETTINGS. `starts`: whether it sends preface and SETTINGS."""
        connected = socket.create_connection(address, timeout=patience())
        super().__init__(tls.wrap_socket(connected, server_hostname="localhost") if tls else connected, secrets, companions)
        self.authority, self.scheme = authority, scheme or ("https" if tls else "http")
        self.encoder, self.next_stream = hpack.Encoder(), 1
        if starts:
            self.output += PREFACE
            # The first SETTINGS precede every stream, so they hold for each of them.
            self.own = {ENABLE_PUSH: 0} | dict(values)
            self.change_settings(*self.own.items(), waits=False)

    # Sending

    def fields(self, path, *extra, method="GET"):
        return [(":method", method), (":scheme", self.scheme), (":authority", self.authority), (":path", path), *extra]

    def stream(self):
        """A new stream that is not sent yet."""
        number, self.next_stream = self.next_stream, self.next_stream + 2
        stream = self.streams[number] = Stream(number, *self.windows())
        return stream

    def open(self, fields, end=True, **options):
        """Sends a head. `options`: those of `frames.headers`."""
        stream = self.stream()
        self.send(headers(stream.number, self.encode(fields), end, **options))
        return stream

    # Waiting

    def response(self, stream, status=None):
        """The complete response."""
        self.until(f"a response on stream {stream.number}", lambda: stream.is_over)
        if not stream.is_ended or stream.head is None or status not in (None, stream.status):
            raise Failure(f"expected {f'status {status}' if status else 'a complete response'}, seen {stream}"
                          f"{', ' + brief(bytes(stream.body)) if stream.body else ''}{self.described() if self.goaways else ''}")
        return stream

    def get(self, path, *extra, method="GET", status=200):
        return self.response(self.open(self.fields(path, *extra, method=method)), status)

    def refused(self, stream, *codes, statuses=()):
        """The stream ends with one of these errors or statuses, and the connection does not."""
        self.until("an end of the stream", lambda: stream.is_over or self.is_dead())
        wanted = " or ".join([f"RST_STREAM {error_name(code)}" for code in codes] + [f"status {status}" for status in statuses])
        if self.is_dead() or not (stream.reset in codes or stream.is_ended and stream.status in statuses):
            raise Failure(f"expected {wanted} on the stream alone, seen {self.ended or stream}{self.described()}")
