"""HTTP messages as records, and one exchange on a connection of its own. Nothing here knows App Services."""

import http.client
import json
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit


class WireError(Exception):
    """No usable HTTP response came."""


class Message:
    """What requests and responses have in common; `fields` keeps order, case and repetitions."""

    def values(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def value(self, name):
        """The value of a field that comes once; None: it does not come."""
        values = self.values(name)
        return ", ".join(values) if values else None

    @property
    def json(self):
        return json.loads(self.body.decode("utf-8"))

    def without(self, name):
        """Removes a field."""
        self.fields = [(key, value) for key, value in self.fields if key.lower() != name.lower()]

    def replace(self, name, value):
        """Gives a field one value, at its place or at the end."""
        place = next((n for n, (key, _) in enumerate(self.fields) if key.lower() == name.lower()), len(self.fields))
        self.without(name)
        self.fields.insert(place, (name, value))


@dataclass
class Request(Message):
    method: str
    target: str
    fields: list = field(default_factory=list)
    body: bytes = b""
    version: str = "HTTP/1.1"

    @property
    def path(self):
        return urlsplit(self.target).path

    @property
    def query(self):
        """Pairs of the query, decoded."""
        return parse_qsl(urlsplit(self.target).query, keep_blank_values=True)

    def __str__(self):
        return f"{self.method} {self.path}"


@dataclass
class Response(Message):
    request: Request
    status: int
    fields: list = field(default_factory=list)
    body: bytes = b""
    reason: str = ""

    def __str__(self):
        return f"{self.request}: {self.status} {self.body[:300].decode('utf-8', 'replace')}"


def _send(origin, request):
    # Without a time limit: a test ends this program when its patience is exhausted.
    parts = urlsplit(origin)
    if parts.scheme != "http":
        raise WireError(f"{origin} is not http")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80)
    has_host = request.value("Host") is not None
    connection.putrequest(request.method, request.target, skip_host=has_host, skip_accept_encoding=True)
    for name, value in request.fields:
        connection.putheader(name, value)
    if request.value("Content-Length") is None and (request.body or request.method in ("POST", "PUT")):
        connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body or None)
    return connection, connection.getresponse()


def exchange(origin, request):
    """Sends a request to an origin such as `http://127.0.0.1:9090` and reads the whole response."""
    connection = None
    try:
        connection, raw = _send(origin, request)
        return Response(request, raw.status, list(raw.getheaders()), raw.read(), raw.reason)
    except (OSError, http.client.HTTPException) as error:
        raise WireError(f"{request} at {origin}: {type(error).__name__}: {error}") from error
    finally:
        if connection:
            connection.close()


class Stream:
    """An open response whose body comes in parts: server-sent events."""

    def __init__(self, origin, request):
        try:
            self._connection, self._raw = _send(origin, request)
        except (OSError, http.client.HTTPException) as error:
            raise WireError(f"{request} at {origin}: {type(error).__name__}: {error}") from error
        self.head = Response(request, self._raw.status, list(self._raw.getheaders()), b"", self._raw.reason)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.close()

    def rest(self):
        """The rest of the body as a whole response, for one that is no stream."""
        self.head.body = self._raw.read()
        return self.head

    def event(self):
        """The next event as (name, data); None: the stream has ended. Comments are passed over."""
        name, data = "message", []
        while True:
            try:
                line = self._raw.readline()
            except (OSError, http.client.HTTPException) as error:
                raise WireError(f"{self.head.request}: the stream broke off: {error}") from error
            if not line:
                return None
            line = line.decode("utf-8").rstrip("\r\n")
            if not line:
                if data:
                    return name, "\n".join(data)
                continue
            key, _, value = line.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if key == "event":
                name = value
            elif key == "data":
                data.append(value)
