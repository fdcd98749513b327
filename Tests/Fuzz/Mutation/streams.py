"""Connections of the reactor, plain and TLS, and a strict reader of HTTP/1.1 for what Lanyard sends."""

import re
import socket
import ssl
import struct

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") (/[\x21-\x7e\x80-\xff]*|\*) HTTP/1\.1")
STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-9][0-9]{2}) [\t\x20-\x7e\x80-\xff]*")
FIELD = re.compile(rb"(" + TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
HEAD_MAX, READ_MAX = 1 << 20, 1 << 16
REWRITTEN_SECONDS = 0.3
GONE = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class Deviation(Exception):
    """Lanyard has sent something that is no proper message."""


class Cut(Exception):
    """The connection ended inside a message."""


class Stream:
    """A plain connection."""

    def __init__(self, reactor, sock):
        self.reactor, self.socket = reactor, sock
        self.buffer = b""
        sock.setblocking(False)

    @staticmethod
    def connect(reactor, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.connect(address)
        return Stream(reactor, sock)

    async def receive(self):
        """The next bytes; none at the end, also after a reset."""
        while True:
            try:
                return self.socket.recv(READ_MAX)
            except BlockingIOError:
                await self.reactor.readable(self.socket)
            except GONE:
                return b""

    async def send(self, data):
        """Returns whether the peer has taken it."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.socket.send(rest):]
            except BlockingIOError:
                await self.reactor.writable(self.socket)
            except GONE:
                return False
        return True

    async def send_pieces(self, pieces):
        for index, piece in enumerate(pieces):
            if index:
                await self.reactor.sleep(0)
            if not await self.send(piece):
                return

    async def finish(self, ending):
        """Ends the sending side: `half`, or the connection: `close`, `reset`."""
        if ending == "half":
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        else:
            if ending == "reset":
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close()

    async def read_to_end(self):
        data = [self.buffer]
        while self.socket.fileno() >= 0 and (part := await self.receive()):
            data.append(part)
        self.buffer = b""
        return b"".join(data)

    def close(self):
        self.socket.close()

    # The reader.

    async def fill(self):
        part = await self.receive()
        self.buffer += part
        return bool(part)

    async def read_head(self):
        """The start line and the fields; none if the connection ends before a byte."""
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            if len(self.buffer) > HEAD_MAX:
                raise Deviation(f"a head of more than {HEAD_MAX} bytes: {self.buffer[:200]!r}")
            if not await self.fill():
                if self.buffer:
                    raise Cut()
                return None
        head, self.buffer = self.buffer[:end], self.buffer[end + 4:]
        lines = head.split(b"\r\n")
        fields = []
        for line in lines[1:]:
            match = FIELD.fullmatch(line)
            if not match:
                raise Deviation(f"a field line {line!r} in {head!r}")
            fields.append((match[1].lower(), match[2].rstrip(b" \t")))
        return lines[0], fields

    async def read_body(self, fields, until_close=False):
        lengths = [value for name, value in fields if name == b"content-length"]
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        if len(lengths) > 1 or len(codings) > 1 or lengths and codings:
            raise Deviation(f"lengths {lengths} and codings {codings}")
        if codings:
            if codings != [b"chunked"]:
                raise Deviation(f"a coding {codings}")
            return await self.read_chunks()
        if lengths:
            if not re.fullmatch(rb"\d{1,19}", lengths[0]):
                raise Deviation(f"a length {lengths[0]!r}")
            return await self.read_exactly(int(lengths[0]))
        return await self.read_to_end() if until_close else b""

    async def read_exactly(self, count):
        while len(self.buffer) < count:
            if not await self.fill():
                raise Cut()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    async def read_line(self):
        while (end := self.buffer.find(b"\r\n")) < 0:
            if len(self.buffer) > HEAD_MAX:
                raise Deviation("an endless line")
            if not await self.fill():
                raise Cut()
        line, self.buffer = self.buffer[:end], self.buffer[end + 2:]
        return line

    async def read_chunks(self):
        body = []
        while True:
            line = await self.read_line()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", line):
                raise Deviation(f"a chunk size {line!r}")
            if size := int(line, 16):
                body.append(await self.read_exactly(size))
                if await self.read_exactly(2) != b"\r\n":
                    raise Deviation("a chunk that does not end")
                continue
            while line := await self.read_line():
                if not FIELD.fullmatch(line):
                    raise Deviation(f"a trailer {line!r}")
            return b"".join(body)

    async def read_request(self):
        """Method, target, fields, body; none at the end."""
        head = await self.read_head()
        if head is None:
            return None
        match = REQUEST_LINE.fullmatch(head[0])
        if not match or [name for name, _ in head[1]].count(b"host") != 1:
            raise Deviation(f"a request {head[0]!r} with {head[1]}")
        return match[1], match[2], head[1], await self.read_body(head[1])

    async def read_response(self, method=b"GET"):
        """Status, fields, body and whether the connection may be used again; interim responses are passed over. None at the end."""
        while True:
            head = await self.read_head()
            if head is None:
                return None
            match = STATUS_LINE.fullmatch(head[0])
            if not match:
                raise Deviation(f"a status line {head[0]!r}")
            status = int(match[1])
            if status >= 200 or status == 101:
                break
        bodiless = method == b"HEAD" or status in (101, 204, 304)
        framed = any(name in (b"content-length", b"transfer-encoding") for name, _ in head[1])
        body = b"" if bodiless else await self.read_body(head[1], until_close=True)
        closes = any(name == b"connection" and b"close" in value.lower() for name, value in head[1])
        return status, head[1], body, (framed or bodiless) and not closes and status != 101


class TLSStream(Stream):
    """TLS over it. `rewrite` gets the bytes of each flight that goes out, with its number, and returns what is sent instead."""

    def __init__(self, reactor, sock, context, server_side=False, name=None, rewrite=None):
        super().__init__(reactor, sock)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=server_side, server_hostname=name)
        self.rewrite, self.flights = rewrite, 0

    async def flush(self):
        data = self.outgoing.read()
        if not data:
            return True
        if self.rewrite:
            data = self.rewrite(data, self.flights)
            self.reactor.spawn(self.end_later(), lambda _: None)
        self.flights += 1
        return await super().send(data)

    async def end_later(self):
        """Both sides may wait for the rest of a flight that was changed: it ends."""
        await self.reactor.sleep(REWRITTEN_SECONDS)
        await super().finish("half")

    async def perform(self, operation, *arguments):
        """An operation of OpenSSL to its end. Raises `ssl.SSLError`, also at the end of the connection."""
        while True:
            try:
                result = operation(*arguments)
            except ssl.SSLWantReadError:
                sent = await self.flush()
                data = await super().receive() if sent else b""
                if not data:
                    raise ssl.SSLEOFError("the connection has ended")
                self.incoming.write(data)
                continue
            except ssl.SSLError:
                await self.flush()
                raise
            await self.flush()
            return result

    async def handshake(self):
        await self.perform(self.tls.do_handshake)

    async def receive(self):
        try:
            return await self.perform(self.tls.read, READ_MAX)
        except ssl.SSLError:
            return b""

    async def send(self, data):
        try:
            await self.perform(self.tls.write, data)
            return True
        except ssl.SSLError:
            return False

    async def finish(self, ending):
        if ending == "half" and self.tls.version():
            try:
                self.tls.unwrap()
            except ssl.SSLError:
                pass
            await self.flush()
        await super().finish(ending)

    async def drain(self):
        """Reads the raw connection to its end, past what TLS still understands."""
        while self.socket.fileno() >= 0 and await super().receive():
            pass
