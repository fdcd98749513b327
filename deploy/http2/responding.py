"""The connections and requests of the scripted HTTP/2 upstream. A fault of the proxy fails the row."""

import hpack

from channel import Endpoint
from frames import (
    ACK, FRAME_SIZE, HEADERS, MAX_CONCURRENT_STREAMS, PREFACE, RST_STREAM, SETTINGS, TYPES, WINDOW_UPDATE, data, frame, headers, reset)
from receiving import Stream
from rows import Failure


class Request(Stream):
    """A stream that the proxy has opened, and the means to respond."""

    def __init__(self, connection, number, *windows):
        super().__init__(number, *windows)
        self.connection, self.queue = connection, bytearray()
        # What follows the queue: END_STREAM, or trailers.
        self.ending, self.has_responded = None, False
        self.handle_request = None

    @property
    def method(self):
        return self.head[0]

    @property
    def path(self):
        return self.values(":path")[0]

    @property
    def is_closed(self):
        return self.reset is not None or self.is_cancelled or self.is_ended and self.has_responded

    def on_end(self, handle):
        """Calls this with the request once its end has come."""
        self.handle_request = handle
        if self.is_ended:
            handle(self)

    def respond(self, status, *fields, end=False, **options):
        """A head; `options` are those of `frames.headers`."""
        self.has_responded |= end
        block = self.connection.encode([(":status", str(status)), *fields])
        self.connection.send(headers(self.number, block, end, **options))

    def put(self, body, end=False, trailers=None):
        """Queues bytes, which leave as the windows permit."""
        self.queue += body
        self.ending = trailers or True if end or trailers else None
        self.connection.sending[self.number] = self
        self.connection.advance()

    def reply(self, status=200, fields=(), body=b"", trailers=None):
        """A response of known length, without DATA where it has no body."""
        length = [] if any(field[0] == "content-length" for field in fields) else [("content-length", str(len(body)))]
        if self.method == "HEAD" or not body and not trailers:
            return self.respond(status, *fields, *length, end=True)
        self.respond(status, *fields, *length)
        self.put(body, True, trailers)

    def cancel(self, code=8):
        self.is_cancelled, self.has_responded = True, True
        self.queue.clear()
        self.connection.send(reset(self.number, code))


class UpstreamConnection(Endpoint):
    """A connection of the proxy. `protocol` is `h2` or `http1` as soon as the first bytes say so."""

    who = "the proxy"

    def __init__(self, connected, upstream):
        super().__init__(connected, (), upstream.channels)
        self.upstream, self.protocol, self.encoder = upstream, None, hpack.Encoder()
        self.gives_back, self.acknowledges = upstream.gives_back, upstream.values is not None
        # Requests in their order, those that have something to send, frames as they came, and the highest number.
        self.requests, self.sending, self.frames, self.last = [], {}, [], 0

    def handle_input(self):
        if self.protocol is None:
            text = bytes(self.input[:len(PREFACE)])
            if self.upstream.answer is not None and text:
                self.protocol = "bytes"
                self.send(self.upstream.answer)
            elif not PREFACE.startswith(text):
                self.protocol = "http1"
            elif text == PREFACE:
                self.protocol = "h2"
                del self.input[:len(PREFACE)]
                if self.upstream.values is not None:
                    self.change_settings(*self.upstream.values, waits=False)
                self.output += self.upstream.greeting
                if self.upstream.greeting[3:4] == bytes([WINDOW_UPDATE]):
                    self.receive_window += int.from_bytes(self.upstream.greeting[9:13], "big")
                self.flush()
        if self.protocol == "h2":
            super().handle_input()
            self.advance()

    def begin_late(self):
        """The SETTINGS that were held back, with what the proxy's own ones are owed."""
        self.acknowledges = True
        self.change_settings(waits=False)
        self.send(frame(SETTINGS, 0, b"", ACK))

    def handle_frame(self, kind, flags, number, payload):
        self.frames.append((TYPES[kind] if kind < len(TYPES) else kind, flags, number, payload))
        super().handle_frame(kind, flags, number, payload)

    def count(self, name, number=None):
        """How many frames of this type have come."""
        return sum(frame[0] == name and number in (None, frame[2]) for frame in self.frames)

    def open_by_peer(self, kind, number):
        if kind == RST_STREAM and number % 2 == 0:
            # A refused promise.
            return Request(self, number, *self.windows())
        if kind != HEADERS or number % 2 == 0 or number <= self.last:
            raise Failure(f"the proxy sent {TYPES[kind]} on stream {number} behind stream {self.last}")
        self.last = number
        request = self.streams[number] = Request(self, number, *self.windows())
        self.requests.append(request)
        limit = self.own.get(MAX_CONCURRENT_STREAMS)
        # A stream that was opened before the limit was known is the upstream's to refuse.
        if limit is not None and self.acknowledgements and len(self.open_requests()) > limit:
            raise Failure(f"the proxy opened {len(self.open_requests())} streams where {limit} are allowed")
        return request

    def open_requests(self):
        return [request for request in self.requests if not request.is_closed]

    def handle_head(self, stream, flags, block):
        fields = self.decode(stream, block)
        if stream.head:
            self.handle_trailers(stream, flags, fields)
        else:
            self.check_head(fields)
            stream.head = (dict(fields)[b":method"].decode(), fields)
        self.end(stream, flags)
        if stream.trailers is None:
            self.upstream.begin(stream)

    def check_head(self, fields):
        names = [name for name, _ in fields]
        pseudo = [name for name in names if name.startswith(b":")]
        wanted = [b":authority", b":method", b":path", b":scheme"]
        if not self.upstream.demands_authority:
            # RFC 9113 8.3.1 permits host in its place.
            wanted = wanted[b":authority" not in pseudo:]
        if sorted(pseudo) != wanted or pseudo != names[:len(wanted)]:
            raise Failure(f"the proxy's head has the pseudo-header fields {pseudo}")
        if b"host" in names and self.upstream.demands_authority or dict(fields).get(b"te", b"trailers") != b"trailers":
            raise Failure(f"the proxy sent host or te: {fields}")

    def end(self, stream, flags):
        super().end(stream, flags)
        if stream.is_ended and stream.handle_request:
            stream.handle_request(stream)

    def advance(self):
        """Sends what is queued, a frame of each stream after another, as the windows permit."""
        moved = True
        while moved and not self.ended:
            moved = False
            for request in list(self.sending.values()):
                if request.is_cancelled or request.reset is not None:
                    del self.sending[request.number]
                    continue
                moved |= self.advance_one(request)
        self.flush()

    def advance_one(self, request):
        size = min(len(request.queue), FRAME_SIZE, request.send_window, self.send_window)
        if len(self.output) > 1 << 20:
            return False
        if size > 0:
            ends = size == len(request.queue) and request.ending is True
            self.output += data(request.number, bytes(request.queue[:size]), ends)
            del request.queue[:size]
            request.send_window, self.send_window = request.send_window - size, self.send_window - size
            self.finish(request, ends)
            return True
        if not request.queue:
            if request.ending is True:
                self.output += data(request.number, b"", True)
            elif request.ending:
                self.output += headers(request.number, self.encode(request.ending))
            self.finish(request, request.ending is not None)
        return False

    def finish(self, request, ends):
        if ends or not request.queue and request.ending is None:
            del self.sending[request.number]
        request.has_responded |= bool(ends)

    def serve(self):
        super().serve()
        if self.sending:
            self.advance()
