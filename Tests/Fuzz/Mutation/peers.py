"""What stands around Lanyard: upstreams that respond rightly or as a message says, and identity services that do so."""

import base64
import json
import re
import socket
import ssl
import time

from mutator import MARK, record_rewriter
from streams import Cut, Stream, TLSStream

CLIENT = "/api/client/v2.0"
APP = "demo-abcde"
# Short, so that a run has renewals by themselves.
LIFETIME_SECONDS = 120
TOKEN = re.compile(MARK.decode() + r"(Good|Hostile)-([a-z0-9]+)-\d+-*$")


def encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


class Server:
    """Accepts connections, and runs `serve` for each."""

    def __init__(self, reactor, findings, context=None):
        self.reactor, self.findings, self.context = reactor, findings, context
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]
        reactor.spawn(self.accept(), self.ended, patience=None)

    async def accept(self):
        while True:
            await self.reactor.readable(self.socket)
            try:
                sock, _ = self.socket.accept()
            except OSError:
                continue
            self.reactor.spawn(self.connection(sock), self.ended, patience=None)

    def ended(self, result):
        if isinstance(result, (Cut, OSError, ssl.SSLError)):
            return
        if isinstance(result, Exception):
            self.findings.append(f"{type(self).__name__}: {result!r}")

    def rewrite(self):
        """How this connection's flights are changed; none: they are not."""
        return None

    async def connection(self, sock):
        stream = Stream(self.reactor, sock)
        try:
            if self.context:
                stream = TLSStream(self.reactor, sock, self.context, server_side=True, rewrite=self.rewrite())
                await stream.handshake()
            await self.serve(stream)
        finally:
            stream.close()


class Upstream(Server):
    """Responds with its name and the target, and checks that each request is a proper one with a token of its own user."""

    def __init__(self, reactor, findings, name, allowed, context=None):
        self.name, self.allowed = name, allowed
        super().__init__(reactor, findings, context)

    def check(self, request):
        tokens = [value for name, value in request[2] if name == b"authorization"]
        match = TOKEN.search(tokens[0].decode("latin-1")) if len(tokens) == 1 else None
        if not self.allowed(tokens, match):
            self.findings.append(f"upstream {self.name} got Authorization {tokens} with {request[:2]}")

    async def serve(self, stream):
        while (request := await stream.read_request()) is not None:
            self.check(request)
            if not await self.respond(stream, request):
                return

    async def respond(self, stream, request):
        method, target, fields, body = request
        if any(name == b"upgrade" for name, _ in fields):
            await stream.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n" + stream.buffer)
            while part := await stream.receive():
                await stream.send(part)
            return False
        text = self.name.encode() + b" " + target
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(text)
        return await stream.send(head + (b"" if method == b"HEAD" else text))


class HostileUpstream(Upstream):
    """Responds with the message whose number the target has; `/…/records/…` changes the records of its TLS."""

    def __init__(self, *arguments, **options):
        self.messages = {}
        # Of the next connections: how their flights are changed.
        self.rewrites = []
        super().__init__(*arguments, **options)

    def rewrite(self):
        return self.rewrites.pop(0) if self.rewrites else None

    async def respond(self, stream, request):
        number = request[1].rsplit(b"/", 1)[-1]
        message = self.messages.get(int(number)) if number.isdigit() else None
        if message is None:
            return await super().respond(stream, request)
        await stream.send_pieces(message.pieces)
        if message.ending != "keep":
            await stream.finish(message.ending)
            if message.ending == "half":
                await stream.read_to_end()
            return False
        return True


class Service(Server):
    """An identity service of accounts that are made as they are named; the password of all is the same."""

    def __init__(self, reactor, findings, name, context=None):
        self.name, self.made = name, 0
        self.mark = MARK.decode() + name
        self.password = self.mark + "-password"
        super().__init__(reactor, findings, context)

    def token(self, account, kind, lifetime):
        self.made += 1
        now = int(time.time())
        claims = {"sub": account, "typ": kind, "n": self.made, "iat": now, "exp": now + lifetime, "user_data": {"name": account}}
        signature = f"{self.mark}-{account}-{self.made}"
        return ".".join([encoded({"alg": "HS256", "typ": "JWT"}), encoded(claims), signature + "-" * (-len(signature) % 4)])

    def access(self, account):
        return self.token(account, "access", LIFETIME_SECONDS)

    def check(self, request):
        """No secret of another service comes here, nor the token of the admin API."""
        text = repr(request)
        if any(MARK.decode() + other in text for other in {"Good", "Hostile", "Admin"} - {self.name}):
            self.findings.append(f"identity service {self.name} got a secret of another: {text[:2000]}")

    @staticmethod
    def account(fields, body):
        """Whom a call is about, by its token or its user name."""
        token = next((value.decode("latin-1") for name, value in fields if name == b"authorization"), "")
        match = TOKEN.search(token) or re.search(r'()"username" ?: ?"([a-z0-9]+)@', body.decode("latin-1"))
        return match[2] if match else "nameless"

    def respond(self, method, path, body, account):
        """(kind of the call, status, value of the JSON)."""
        last = path.split("?")[0].rsplit("/", 1)[-1]
        if last == "location":
            return "location", 200, {"deployment_model": "LOCAL", "location": "US-VA", "hostname": "", "ws_hostname": ""}
        if last == "login":
            return self.login(path, body, account)
        if path == CLIENT + "/auth/session":
            if method == "DELETE":
                return "revoke", 204, None
            return "refresh", 201, {"access_token": self.access(account)}
        if path == CLIENT + "/auth/profile":
            identities = [{"id": "i", "provider_type": "anon-user"}, {"id": "j", "provider_type": "local-userpass"}]
            return "profile", 200, {"user_id": account, "identities": identities, "data": {"name": account}, "type": "normal"}
        if "/auth/api_keys" in path:
            key = {"_id": "k1", "name": "n", "disabled": False}
            if last == "api_keys":
                return ("api-keys", 200, [key]) if method == "GET" else ("api-keys", 201, dict(key, key="shown-once"))
            return ("api-keys", 200, key) if method == "GET" else ("api-keys", 204, None)
        if last == "call" and "functions" in path:
            return "function", 200, {"sum": {"$numberInt": "3"}}
        return "other", 204 if method == "DELETE" else 200, None if method == "DELETE" else {}

    def login(self, path, body, account):
        try:
            value = json.loads(body)
            name = str(value.get("username", "guest%d" % self.made)).split("@")[0]
            is_right = "local-userpass" not in path or value.get("password") == self.password
        except (ValueError, AttributeError):
            return "login", 400, {"error": "bad body", "error_code": "BadRequest"}
        if not is_right:
            return "login", 401, {"error": "invalid username/password", "error_code": "InvalidPassword"}
        if "link=true" in path:
            return "link", 200, {"access_token": self.access(account), "user_id": account}
        name = re.sub(r"[^a-z0-9]", "", name.lower()) or "empty"
        return "login", 200, {"access_token": self.access(name), "refresh_token": self.token(name, "refresh", 5_184_000),
                              "user_id": name, "device_id": "d"}

    @staticmethod
    def written(status, value):
        body = b"" if value is None else json.dumps(value).encode()
        head = "HTTP/1.1 %d Status\r\nContent-Type: application/json\r\n" % status
        if status != 204:
            head += "Content-Length: %d\r\n" % len(body)
        return head.encode() + b"\r\n" + body

    async def serve(self, stream):
        while (request := await stream.read_request()) is not None:
            self.check(request)
            method, target, fields, body = request
            account = self.account(fields, body)
            kind, status, value = self.respond(method.decode(), target.decode("latin-1"), body, account)
            if not await self.reply(stream, kind, account, self.written(status, value)):
                return

    async def reply(self, stream, kind, account, data):
        return await stream.send(data)


class HostileService(Service):
    """Asks `make` for a message for each call; none: the healthy response is sent."""

    def __init__(self, reactor, findings, name, make, context=None):
        self.make = make
        super().__init__(reactor, findings, name, context)

    def rewrite(self):
        message = self.context and self.make("records", None, b"", self)
        return message and record_rewriter(message, [b"\0"])

    async def reply(self, stream, kind, account, data):
        message = self.make(kind, account, data, self)
        if message is None:
            return await stream.send(data)
        await stream.send_pieces(message.pieces)
        await stream.finish(message.ending)
        if message.ending == "half":
            await stream.read_to_end()
        return False
