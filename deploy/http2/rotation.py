"""A token that changes every 2 s under load: no call fails, no call has a token that is too old, and no HPACK table has any.

The bytes of each head are read here, beside the decoder of `receiving`: which of the representations of RFC 7541 6 carries the token.
"""

import heapq
import random
import statistics
import time

from channel import turn
from frames import CONTINUATION, HEADERS, PADDED, PRIORITISED, TYPES
from rows import Failure, patience, row
from upstream_grpc import CALL, MESSAGE

SECONDS, EVERY, CONNECTIONS, STREAMS = 60, 2.0, 4, 64
# How long the upstream holds a call, at most: 256 calls at once make about 250 a second.
HOLD_MAX = 2.0
# docs/reference/security-defences.md, "Watched files": a file is read every 2 s without inotify, and a change counts when a second
# read 200 ms later finds the same. If the next change comes between these two reads, there is a third one.
PROMISED = 2.0 + 2 * 0.2
# For threads that wait for a CPU.
SLACK = 0.6
# RFC 7541 6.1, 6.2 and 6.3 by their first bits: (mask, bits, prefix, name).
KINDS = ((0x80, 0x80, 7, "indexed"), (0xc0, 0x40, 6, "literal with indexing"), (0xe0, 0x20, 5, "size update"),
         (0xf0, 0x10, 4, "literal never indexed"), (0xf0, 0x00, 4, "literal without indexing"))


def integer(block, at, prefix):
    """RFC 7541 5.1: a number, and the place behind it."""
    value, at = block[at] & (1 << prefix) - 1, at + 1
    if value < (1 << prefix) - 1:
        return value, at
    shift = 0
    while True:
        value += (block[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if not block[at - 1] & 0x80:
            return value, at


def representations(block):
    """The kind and the first byte of each field of a header block, in order."""
    at, found = 0, []
    while at < len(block):
        first = block[at]
        prefix, name = next(kind[2:] for kind in KINDS if first & kind[0] == kind[1])
        index, at = integer(block, at, prefix)
        if name == "size update":
            continue
        if name != "indexed":
            for _ in range(1 if index else 2):
                length, at = integer(block, at, 7)
                at += length
        found.append((name, first))
    if at != len(block):
        raise Failure(f"a header block of {len(block)} bytes has fields to byte {at}")
    return found


def last_block(connection):
    """The bytes of the head that has just come."""
    block = b""
    for kind, flags, _, payload in reversed(connection.frames):
        if kind == TYPES[CONTINUATION]:
            block = payload + block
        elif kind == TYPES[HEADERS]:
            if flags & PADDED:
                payload = payload[1:len(payload) - payload[0]]
            return (payload[5:] if flags & PRIORITISED else payload) + block
    raise Failure("a head without HEADERS")


def check_bytes(request):
    """The token is a literal never indexed, once, and the decoder's table has neither it nor the name. Returns the token."""
    fields = request.head[1]
    kinds = representations(last_block(request.connection))
    if len(kinds) != len(fields):
        raise Failure(f"expected {len(fields)} representations, seen {len(kinds)}")
    found = [(value, kind) for (name, value), kind in zip(fields, kinds) if name == b"authorization"]
    if len(found) != 1 or found[0][1][0] != "literal never indexed" or found[0][1][1] & 0xf0 != 0x10:
        raise Failure(f"expected authorization as one literal never indexed, seen {[kind for _, kind in found]}")
    for name, value in request.connection.decoder.header_table.dynamic_entries:
        if bytes(name) == b"authorization" or b"token-" in bytes(value):
            raise Failure(f"the decoder's table has {bytes(name)!r}")
    return found[0][0].removeprefix(b"Bearer ")


class Load:
    """Calls of gRPC on all streams of all connections. Each has its number in a field, by which the upstream knows when it began."""

    def __init__(self, server):
        self.server, self.random = server, random.Random(7541)
        self.path = server.h2.on(self.begin)
        self.connections = [server.connect() for _ in range(CONNECTIONS)]
        self.open = {connection: {} for connection in self.connections}
        self.began, self.due, self.done, self.ages, self.former, self.upstreams = [], [], 0, [], [], set()
        # When each token was replaced in the file.
        self.replaced, self.counts, self.sent = {}, {}, 0

    def call(self, connection):
        fields = connection.fields(self.path, *CALL, ("x-number", str(len(self.began))), method="POST")
        self.began.append(time.monotonic())
        stream = connection.open(fields, end=False)
        connection.send_data(stream, MESSAGE, True)
        self.open[connection][stream.number] = (stream, len(self.began) - 1)

    def begin(self, request):
        """At the upstream: the head of a call."""
        token = check_bytes(request)
        began = self.began[int(request.values("x-number")[0])]
        if token not in self.server.tokens:
            raise Failure(f"expected a token of the file, seen {token[:60]!r}")
        self.counts[token] = self.counts.get(token, 0) + 1
        self.upstreams.add(request.connection)
        age = began - self.replaced.get(token, began)
        self.ages.append(age)
        if age > PROMISED + SLACK:
            raise Failure(f"a call that began {age:.2f} s after its token was replaced has it still; {PROMISED:.1f} s are promised")
        heapq.heappush(self.due, (time.monotonic() + self.random.random() * HOLD_MAX, self.sent, request))
        self.sent += 1

    def respond(self):
        while self.due and self.due[0][0] <= time.monotonic():
            request = heapq.heappop(self.due)[2]
            request.respond(200, ("content-type", "application/grpc"))
            request.put(MESSAGE, trailers=[("grpc-status", "0")])

    def collect(self):
        """Ends of calls. Their streams are forgotten, so that the receivers do not look at them for ever."""
        for connection, calls in self.open.items():
            for number, (stream, index) in list(calls.items()):
                if not stream.is_over:
                    continue
                if not stream.is_ended or stream.status != 200 or bytes(stream.body) != MESSAGE or dict(stream.trailers or ()) != {
                        b"grpc-status": b"0"}:
                    raise Failure(f"call {index} failed: {stream}, {stream.head}, {stream.trailers}")
                del calls[number]
                self.done += 1
            if connection.goaways or connection.ended:
                raise Failure(f"expected no end of a connection, seen {connection.ended}{connection.described()}")

    def forget(self):
        for connection in [*self.connections, *self.upstreams]:
            over = [number for number, stream in connection.streams.items() if stream.is_over and getattr(stream, "is_closed", True)]
            for number in over:
                # A frame may still cross the end of its stream: it stays for one round.
                if number in getattr(connection, "forgotten", ()):
                    del connection.streams[number]
            connection.forgotten = set(over)
            if hasattr(connection, "requests"):
                connection.requests = [request for request in connection.requests if not request.is_closed]
                connection.frames = connection.frames[-2000:]

    def rotate(self):
        former = self.server.token.encode()
        self.server.change_token()
        self.server.write_token()
        self.replaced[former] = time.monotonic()

    def run(self, seconds):
        started = time.monotonic()
        rotation, sweep = started + EVERY, started + 1
        while (now := time.monotonic()) < started + seconds or any(self.open.values()):
            if now < started + seconds:
                for connection in self.connections:
                    while len(self.open[connection]) < STREAMS:
                        self.call(connection)
                if now >= rotation:
                    self.rotate()
                    rotation += EVERY
            elif now > started + seconds + patience():
                raise Failure(f"expected the end of all calls, {sum(map(len, self.open.values()))} are open")
            if now >= sweep:
                self.forget()
                sweep = now + 1
            self.respond()
            wait = min(0.1, *(due - now for due, *_ in self.due[:1]), max(0, rotation - now))
            turn([*self.server.h2.channels(), *self.connections], max(0.002, wait))
            self.collect()


def rotated(server, seconds):
    load = Load(server)
    load.run(seconds)
    stale = sorted(age for age in load.ages if age > 0)
    print(f"       {load.done} calls by {CONNECTIONS} connections with {STREAMS} streams, {len(load.replaced)} rotations, "
          f"{len(load.counts)} tokens seen, {len(load.upstreams)} connections to the upstream; of a replaced token: {len(stale)} calls, "
          f"begun up to {stale[-1] if stale else 0:.2f} s after its end, {statistics.median(stale) if stale else 0:.2f} s in the middle",
          flush=True)
    if len(load.counts) < len(load.replaced) * 3 // 4:
        raise Failure(f"expected most of {len(load.replaced)} tokens at the upstream, seen {len(load.counts)}")
    if load.done < seconds * 20:
        raise Failure(f"expected {seconds * 20} calls or more, seen {load.done}")


@row("H18", f"a token that changes every {EVERY:.0f} s under {CONNECTIONS} connections with {STREAMS} calls of gRPC each, for {SECONDS} s: "
     "no call fails, no token is too old, each is a literal never indexed, and no table has any", own={})
def minute(server):
    rotated(server, SECONDS)


@row("H18", "the same for 5 s", own={})
def short(server):
    rotated(server, 5)
