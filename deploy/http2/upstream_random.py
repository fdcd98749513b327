"""Clients, streams and connections that begin and end in any order: no response is another's, and what is cut never looks complete."""

import random

from calls import KINDS, served
from frames import (
    CANCEL, INITIAL_WINDOW_SIZE, INTERNAL_ERROR, MAX_CONCURRENT_STREAMS, NO_ERROR, REFUSED_STREAM, goaway, ping, window_update)
from rows import Failure, table

STEPS, OPEN_MAX = 1200, 40


class Play:
    """One run; the same seed gives the same steps, though not the same order of arrivals."""

    def __init__(self, server, seed):
        self.server, self.random, self.number = server, random.Random(seed), 0
        self.path, self.calls, self.connection, self.uses = server.h2.on(self.begin), [], None, 0
        # Requests at the upstream that are not answered whole; bodies by the number of their request, as far as they were sent.
        self.open, self.sent, self.whole = [], {}, {}

    def begin(self, request):
        request.identity = request.values("x-number")[0]
        request.piece = 0
        self.open.append(request)
        self.sent.setdefault(request.identity, []).append(bytearray())
        request.copy = self.sent[request.identity][-1]

    def step(self):
        self.open = [request for request in self.open if not request.is_closed and not request.connection.ended]
        choice = self.random.random()
        if choice < 0.3:
            self.open_call()
        elif choice < 0.4:
            self.with_call(self.upload)
        elif choice < 0.46:
            self.with_call(lambda call: call.cancel())
        elif choice < 0.92:
            self.with_request()
        else:
            self.with_connection()
        if self.random.random() < 0.3:
            self.server.h2.pause(self.random.choice((0, 0, 0.001, 0.005)))

    def open_call(self):
        if sum(not call.stream.is_over for call, _ in self.calls) >= OPEN_MAX:
            return
        self.number += 1
        kind = KINDS[self.random.choice(("http1", "http2", "http2"))]
        options = {"method": self.random.choice(("GET", "GET", "DELETE"))}
        if self.random.random() < 0.5:
            options = {"method": "POST", "body": bytes(self.random.choice((0, 1, 1000, 60_000))), "end": self.random.random() < 0.6}
        if kind is KINDS["http2"]:
            if self.connection is None or self.connection.ended or self.uses > 60:
                self.connection, self.uses = self.server.connect((INITIAL_WINDOW_SIZE, self.random.choice((100, 65_535, 1 << 20)))), 0
            options["connection"] = self.connection
            self.uses += 1
        call = kind(self.server, self.path, ("x-number", str(self.number)), **options)
        call.is_uploading = not options.get("end", True)
        self.calls.append((call, str(self.number)))

    def with_call(self, act):
        live = [call for call, _ in self.calls if not call.stream.is_over and not call.stream.is_cancelled]
        if live:
            act(self.random.choice(live))

    def upload(self, call):
        if call.is_uploading:
            ends = self.random.random() < 0.5
            if call.stream.is_over or min(getattr(call.stream, "send_window", 1 << 20), 20_000) < 20_000:
                return
            call.put(bytes(self.random.choice((1, 100, 10_000))), ends)
            call.is_uploading = not ends

    def with_request(self):
        if not self.open:
            return
        request, choice = self.random.choice(self.open), self.random.random()
        if request.reset is not None or request.is_cancelled or request.has_responded or request.ending is not None:
            return
        if request.piece == 0 and choice < 0.15:
            request.respond(103, ("link", "</a>"))
        elif choice < 0.08 or choice < 0.15 and request.piece:
            request.cancel(self.random.choice((CANCEL, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM if not request.piece else CANCEL)))
        else:
            if request.piece == 0:
                request.respond(200, ("x-number", request.identity))
            request.piece += 1
            body = request.identity.encode().ljust(8, b".") * self.random.choice((0, 1, 1, 500, 10_000))
            ends = self.random.random() < 0.5
            request.copy += body
            if ends:
                self.whole.setdefault(request.identity, []).append(bytes(request.copy))
            request.put(body, ends, [("x-sum", "1")] if ends and self.random.random() < 0.3 else None)

    def with_connection(self):
        live = [connection for connection in self.server.h2.connections if not connection.ended and connection.protocol == "h2"]
        if not live:
            return
        connection, choice = self.random.choice(live), self.random.random()
        if choice < 0.1:
            connection.close()
        elif choice < 0.3:
            connection.send(goaway(max(0, connection.last - self.random.choice((0, 0, 2, 6)))))
        elif choice < 0.6:
            connection.change_settings((self.random.choice((MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE)),
                                        self.random.choice((1, 10, 100, 70_000))), waits=False)
        else:
            connection.send(ping(), window_update(0, 1000))
            connection.receive_window += 1000

    def check(self):
        for call, identity in self.calls:
            stream, copies = call.stream, self.sent.get(identity, [])
            if stream.status != 200:
                continue
            if stream.values("x-number") != [identity] or not any(copy.startswith(stream.body) for copy in copies):
                raise Failure(f"request {identity}: a body of another one, {bytes(stream.body[:60])}")
            if stream.is_ended and bytes(stream.body) not in self.whole.get(identity, []):
                raise Failure(f"request {identity}: {len(stream.body)} bytes look complete, {[len(copy) for copy in copies]} were sent")

    def finish(self):
        """All that is open is completed."""
        def done():
            for call, _ in self.calls:
                if not call.stream.is_over and call.is_uploading and not call.stream.is_cancelled:
                    call.is_uploading = False
                    call.put(b"", True)
            for request in [request for request in self.open if not request.is_closed]:
                if request.connection.ended or request.reset is not None or request.has_responded or request.ending is not None:
                    continue
                if request.piece == 0:
                    request.respond(200, ("x-number", request.identity))
                request.piece += 1
                self.whole.setdefault(request.identity, []).append(bytes(request.copy))
                request.put(b"", True)
            return all(call.stream.is_over or call.stream.is_cancelled for call, _ in self.calls)
        try:
            self.server.h2.until("the end of all calls", done)
        except Failure as failure:
            left = [f"{identity}: {call.stream}" for call, identity in self.calls
                    if not call.stream.is_over and not call.stream.is_cancelled]
            at_upstream = [str(request) for request in self.open if request.identity in [one.split(":")[0] for one in left]]
            raise Failure(f"{failure}; left are {left[:3]}, at the upstream {at_upstream[:3]}") from None


@table("H17", {f"seed{seed}": (f"seed {seed}: {STEPS} steps of clients, streams and connections in any order", seed)
               for seed in range(1, 9)})
def steps(server, seed):
    play = Play(server, seed)
    for _ in range(STEPS):
        play.step()
    play.finish()
    play.check()
    server.h2.values = ((INITIAL_WINDOW_SIZE, 1 << 20),)
    for connection in server.h2.connections:
        if not connection.ended:
            connection.close()
    server.h2.pause(0.1)
    served(server)
