"""The four doors at which changed messages arrive. Each makes its messages of a seed, sends them, and looks at what comes back."""

import json
import random
import re
import ssl

import messages
from bench import ADMIN_TOKEN, HOSTILE, HOSTILE_TLS, client_context
from mutator import MARK, Message, Mutator, corpus, record_rewriter, with_secrets_only, words
from streams import Cut, Deviation, Stream, TLSStream

PLAIN_SHARE = 0.05
# Where a secret may stand in what a door sends: behind the name of a member or field that is never shown.
SHOWN = rb"name|email|identity|id|token_id|level|user|username|user_id|_id|error|error_code|link|hostname|location"
IN_JSON = rb'"(?!(?:' + SHOWN + rb')")[a-zA-Z_]{1,40}"\s*:\s*"[^"\\\r\n]*?' + MARK
IN_FIELDS = rb"\n(?:Authorization|Proxy-Authorization|Cookie): [^\r\n]*?" + MARK
ORIGIN = re.compile(rb"(?i)(https?://|127\.0\.0\.1:|localhost:)[^\"\r\n]*")


class Door:
    """`width` messages are in progress at once."""
    name, width = "", 8

    def __init__(self, bench, seed, replayed=None):
        self.bench, self.reactor, self.seed = bench, bench.reactor, seed
        # The messages of a file, in place of those of the seed.
        self.replayed = replayed
        self.count, self.turn = 0, []

    def random(self, number):
        return random.Random(f"{self.seed}/{self.name}/{number}")

    def mutated(self, draw, data, place, words, others):
        mutator = Mutator(draw, words, others)
        if draw.random() >= PLAIN_SHARE:
            data = with_secrets_only(mutator.mutate(data), place)
        return mutator.pieces(data), mutator.ending()

    def note(self, message):
        self.count += 1
        self.turn.append(message)
        return message

    def take(self, count):
        """The messages of one turn: those of the file, or as many new ones."""
        if self.replayed is not None:
            taken, self.replayed = self.replayed, []
            return map(self.note, taken)
        return (self.note(self.make(self.count)) for _ in range(count))

    async def run(self, count):
        self.turn = []
        await self.reactor.each(self.width, self.take(count), self.send)

    def look(self, data, message):
        """No secret comes back."""
        if MARK in data:
            self.bench.findings.append(f"a secret in what {self.name} got for {message.kind}: {data[:2000]!r}")


class ListenerDoor(Door):
    """Clients: hellos, records of live connections, and requests, inside TLS and plain."""
    name, width = "listener", 24

    def __init__(self, bench, seed, replayed=None):
        super().__init__(bench, seed, replayed)
        self.tls_words, self.words = words("tls", "request"), words("request", "chunked", "target")
        self.base = messages.requests("localhost:PORT")
        self.inputs = corpus("request") + corpus("chunked") + corpus("target")
        self.contexts = {
            version: [client_context(bench.folder, version, certificate) for certificate in (False, True)]
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)}

    def make(self, number):
        draw = self.random(number)
        kind = draw.choices(["hello", "http", "plain", "flights", "records"], [40, 15, 30, 10, 5])[0]
        if kind == "hello":
            data = messages.client_hello(draw)
            mutator = Mutator(draw, self.tls_words, [data])
            if draw.random() < 0.7:
                data = mutator.records(data)
            if draw.random() < 0.3:
                data += mutator.records(mutator.foreign_record())
            return Message(self.name, kind, mutator.pieces(data), mutator.ending())
        if kind == "flights":
            return Message(self.name, kind, [], seed=draw.randrange(1 << 40), note=str(draw.choice([0, 1, 1, 1])))
        data = draw.choice(self.base if kind == "records" or draw.random() < 0.8 else self.inputs)
        if kind == "records":
            return Message(self.name, kind, [data], seed=draw.randrange(1 << 40), note="2")
        pieces, ending = self.mutated(draw, data, IN_FIELDS, self.words, self.base + self.inputs)
        return Message(self.name, kind, pieces, ending)

    async def send(self, message):
        program = self.bench.programs[message.seed % 2 or len(message.pieces) % 2]
        address = program.plain if message.kind == "plain" else program.mutual if message.seed % 3 == 1 else program.tls
        stream = Stream.connect(self.reactor, address)
        try:
            pieces = [piece.replace(b"localhost:PORT", b"127.0.0.1:%d" % address[1]) for piece in message.pieces]
            if message.kind in ("http", "flights", "records"):
                stream = await self.open_tls(stream, message, address == program.mutual)
                if not stream.tls.version():
                    return
            await stream.send_pieces(pieces)
            await stream.finish(message.ending)
            data = await stream.read_to_end()
        finally:
            stream.close()
        if message.kind in ("http", "plain") and data and not data.startswith(b"HTTP/1.1 "):
            self.bench.findings.append(f"the listener sent {data[:500]!r}")
        self.look(data, message)

    async def open_tls(self, raw, message, with_certificate):
        """A connection whose handshake has ended, also by a failure that the message explains."""
        version = ssl.TLSVersion.TLSv1_2 if message.seed % 5 < 2 else ssl.TLSVersion.TLSv1_3
        rewrite = record_rewriter(message, self.tls_words) if message.kind != "http" else None
        stream = TLSStream(self.reactor, raw.socket, self.contexts[version][with_certificate], name="localhost", rewrite=rewrite)
        try:
            await stream.handshake()
        except ssl.SSLError:
            if message.kind == "http":
                raise
            await Stream.finish(stream, "half")
            await stream.drain()
        return stream


class AdminDoor(Door):
    """Calls of the admin API, on the unix socket and on TCP with its token."""
    name, width = "admin", 8

    def __init__(self, bench, seed, replayed=None):
        super().__init__(bench, seed, replayed)
        self.words = words("request", "json")
        # `TOKEN` stands for the line of the token: a value that breaks it would wait for the delay of wrong tokens.
        self.base = messages.admin_calls("HOST", "TOKEN")
        self.others = messages.admin_calls("HOST", "") + corpus("json")

    def make(self, number):
        draw = self.random(number)
        kind = draw.choice(["unix", "tcp"])
        head, _, rest = draw.choice(self.base).partition(b"TOKEN")
        line = b"" if kind == "unix" else b"Authorization: Bearer " + ADMIN_TOKEN.encode() + b"\r\n"
        mutator = Mutator(draw, self.words, self.others)
        part = draw.random()
        if part < 0.5 and rest.strip():
            # The body, with its length.
            fields, _, body = rest.partition(b"\r\n\r\n")
            body = mutator.mutate(body)
            fields = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), fields)
            rest = fields + b"\r\n\r\n" + body
        elif part < 0.9:
            head, rest = self.but_line_end(mutator, head), rest if draw.random() < 0.5 else mutator.mutate(rest)
        data = with_secrets_only(head + line + rest, IN_JSON + b"|" + IN_FIELDS)
        if b"shutdown" in data:
            data = data.replace(b"shutdown", b"shutup")
        return Message(self.name, kind, mutator.pieces(data), mutator.ending())

    @staticmethod
    def but_line_end(mutator, head):
        """Mostly with the end of its line, so that the line of the token stands by itself."""
        changed = mutator.mutate(head)
        return changed if changed.endswith(b"\r\n") else changed + b"\r\n"

    async def send(self, message):
        program = self.bench.programs[0 if message.kind == "unix" else 1]
        stream = Stream.connect(self.reactor, program.admin)
        try:
            host = program.host(program.admin).encode()
            await stream.send_pieces([piece.replace(b"HOST", host) for piece in message.pieces])
            await stream.finish(message.ending)
            data = await stream.read_to_end()
        finally:
            stream.close()
        if data and not data.startswith(b"HTTP/1.1 "):
            self.bench.findings.append(f"the admin API sent {data[:500]!r}")
        self.look(data, message)


class IdentityDoor(Door):
    """Calls that make Lanyard ask a hostile identity service, and what that one responds."""
    name, width = "identity", 12
    CALLS = [("POST", "login"), ("POST", "login"), ("POST", "refresh"), ("POST", "refresh"), ("GET", "profile"), ("GET", "custom-data"),
             ("POST", "logout"), ("GET", "api-keys"), ("POST", "functions/sum"), ("DATA", "")]

    def __init__(self, bench, seed, replayed=None):
        super().__init__(bench, seed, replayed)
        self.words, self.others = words("json", "response"), corpus("response") + corpus("json") + corpus("chunked")
        self.tls_words = words("tls")
        self.is_hostile, self.asked = False, 0
        # The accounts whose sessions a response of this turn may have ended.
        self.refused = set()
        self.responses = {}
        if replayed is not None:
            for message in replayed:
                if message.kind != "call":
                    self.responses.setdefault(message.kind, []).append(message)
            self.replayed = [message for message in replayed if message.kind == "call"]

    def make(self, number):
        draw = self.random(number)
        method, path = draw.choice(self.CALLS)
        user = draw.choice(HOSTILE + HOSTILE_TLS)
        return Message(self.name, "call", [], seed=draw.randrange(1 << 40), note=f"{method} {user} {path}")

    def respond(self, kind, account, data, service):
        """A message for one call of Lanyard's; none: the healthy response."""
        if not self.is_hostile:
            return None
        if self.replayed is not None:
            queue = self.responses.get(kind)
            message = queue.pop(0) if queue else None
        else:
            message = self.make_response(kind, data, service)
        if message:
            self.note(message)
            # Whatever the status is: the line may have been changed to it.
            if re.search(rb"(?i)http/[^\r\n]{0,20}4\d\d", b"".join(message.pieces)):
                self.refused.add(account)
        return message

    def make_response(self, kind, data, service):
        self.asked += 1
        draw = self.random(f"response/{self.asked}")
        if kind == "records":
            if draw.random() < 0.7:
                return None
            return Message(self.name, kind, [], seed=draw.randrange(1 << 40), note=str(draw.choice([0, 0, 1, 2])))
        if draw.random() < (0.8 if kind == "location" else 0.2):
            return None
        if draw.random() < 0.25:
            data = service.written(*draw.choice(messages.service_errors()))
        mutator = Mutator(draw, self.words, self.others + [data])
        if draw.random() < 0.6:
            head, _, body = data.partition(b"\r\n\r\n")
            body = mutator.mutate(body)
            data = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head) + b"\r\n\r\n" + body
        else:
            data = mutator.mutate(data)
        # No other program of this machine is called.
        if kind == "location" or re.search(rb"(?i)location", data):
            data = ORIGIN.sub(rb"", data)
        return Message(self.name, kind, mutator.pieces(with_secrets_only(data, IN_JSON)), mutator.ending())

    async def run(self, count):
        self.is_hostile, self.refused = True, set()
        try:
            await super().run(count)
        finally:
            self.is_hostile = False

    async def send(self, message):
        method, user, path = message.note.split(" ")
        program = self.bench.programs[message.seed % 2]
        if method == "DATA":
            target = "/hostile/x" if user.startswith("h") else "/hostiletls/x"
            status, _, body, _ = await program.ask(program.plain, "GET", target)
            if status == 200 and body != b"hostile " + target.encode():
                self.bench.findings.append(f"{target} got {body!r}")
            return
        body = {} if path == "login" else [1] if "functions" in path else None
        _, _, data, _ = await program.ask(program.admin, method, f"/v1/users/{user}/{path}", body)
        self.look(data, message)


class UpstreamDoor(Door):
    """Requests, and what a hostile upstream responds; then, on the same connection, a request to another upstream."""
    name, width = "upstream", 16

    def __init__(self, bench, seed, replayed=None):
        super().__init__(bench, seed, replayed)
        self.words, self.inputs = words("response", "chunked"), corpus("response") + corpus("chunked")
        self.tls_words, self.base = words("tls"), messages.upstream_responses()
        self.sent = 0

    def make(self, number):
        draw = self.random(number)
        kind = draw.choices(["plain", "tls", "records"], [7, 2, 2])[0]
        if kind == "records":
            return Message(self.name, kind, [draw.choice(self.base)], "half", draw.randrange(1 << 40), str(draw.choice([0, 0, 1, 2])))
        data = draw.choice(self.base if draw.random() < 0.8 else self.inputs)
        pieces, ending = self.mutated(draw, data, IN_FIELDS, self.words, self.base + self.inputs)
        # The connection stays open, and may be used for the next request.
        ending = "keep" if draw.random() < 0.04 else ending
        return Message(self.name, kind, pieces, ending, draw.randrange(1 << 40))

    async def send(self, message):
        self.sent += 1
        number = self.sent
        upstream = self.bench.bad["plain" if message.kind == "plain" else "tls"]
        upstream.messages[number] = message
        if message.kind == "records":
            upstream.rewrites.append(record_rewriter(message, self.tls_words))
        program = self.bench.programs[message.seed % 2]
        target = f"/{upstream.name}/{message.kind}/{number}"
        stream = Stream.connect(self.reactor, program.plain)
        try:
            method = "POST" if message.seed % 7 == 1 else "GET"
            if message.seed % 5 == 1:
                await stream.send(messages.client_upgrade(target, program.host(program.plain)))
                await stream.finish("half")
                method = "GET"
            else:
                await stream.send(program.request(program.plain, method, target, {"a": 1} if method == "POST" else None))
            try:
                response = await stream.read_response(method.encode())
            except Cut:
                return
            if response is None:
                return
            self.look(repr(response).encode(), message)
            if not response[3] or message.seed % 5 == 1:
                return
            text = f"/control/{number}"
            await stream.send(program.request(program.plain, "GET", text))
            again = await stream.read_response()
            if again and (again[0] != 200 or again[2] != b"control " + text.encode()):
                self.bench.findings.append(f"behind a hostile response {text} got {again}")
        except Deviation as deviation:
            self.bench.findings.append(f"for {message.kind} message {number}: {deviation}")
        finally:
            stream.close()
            del upstream.messages[number]


DOORS = [ListenerDoor, AdminDoor, IdentityDoor, UpstreamDoor]
