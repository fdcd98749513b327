"""Proper messages, which the doors then change: requests, calls of the admin API, responses of upstreams, hellos of TLS."""

import json

PASSWORD = "QzCanaryGood-password"
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


def requests(host):
    """Of clients, on the data listener."""
    def request(line, fields="", body=""):
        return f"{line} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n{body}".encode("latin-1")

    return [
        request("GET /sink/a?b=c"), request("HEAD /sink/head"), request("GET /victim/x%2e%2e/y;z=1?q=%00"),
        request("GET /hostile/"), request("OPTIONS *"), request(f"GET http://{host}/sink/absolute"),
        request("POST /sink/form", "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n", "a=b&c=d"),
        request("POST /sink/chunks", "Transfer-Encoding: chunked\r\nTrailer: X\r\n",
                "5;ext=1\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX: y\r\n\r\n"),
        request("PUT /sink/expect", "Expect: 100-continue\r\nContent-Length: 4\r\n", "data"),
        request("GET /sink/socket", UPGRADE, "\x81\x05hello"),
        request("GET /sink/own", "Authorization: Bearer QzCanaryClient\r\nCookie: a=b; c=d\r\nAccept: */*\r\n"),
        request("GET /sink/hops", "Connection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nVia: 1.0 a\r\nX-Forwarded-For: 1.2.3.4\r\n"),
        request("DELETE /sink/one") + request("GET /sink/two") + request("PATCH /sink/three", "Content-Length: 2\r\n", "{}"),
        request("GET /sink/" + "long/" * 200, "".join(f"X-{number}: {'v' * number}\r\n" for number in range(60))),
        request("GET /none", "Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n"),
        f"GET /sink/old HTTP/1.0\r\nHost: {host}\r\nConnection: keep-alive\r\n\r\n".encode(),
        request("CONNECT " + host), request("TRACE /sink/t", "Max-Forwards: 0\r\n"),
    ]


def admin_calls(host, fields):
    """Calls of the admin API, none of which names a user whose session the checks need."""
    def call(method, path, body=None):
        text = f"{method} /v1/{path} HTTP/1.1\r\nHost: {host}\r\n{fields}"
        data = "" if body is None else json.dumps(body)
        return (text + (f"Content-Length: {len(data)}\r\n" if data else "") + "\r\n" + data).encode()

    login = {"email_password": {"email": "victim1@example.com", "password": PASSWORD}}
    guest = {"anonymous": {}}
    mails = "identities/good/email-password/"
    return [
        call("GET", "status"), call("GET", "users"), call("GET", "users/victim1"), call("GET", "log-level"),
        call("POST", "users", {"name": "newuser", "identity": "good", "credential": guest, "activate": False}),
        call("POST", "users", {"name": "other", "identity": "good", "credential": login}),
        call("POST", "users/victim1/login", {"credential": login}), call("POST", "users/victim2/login"),
        call("POST", "users/victim3/activate"), call("POST", "users/victim1/refresh"), call("POST", "users/victim2/logout"),
        call("DELETE", "users/victim3"), call("DELETE", "users/newuser?account=delete"), call("GET", "users/victim1/token"),
        call("POST", "log-level", {"level": "debug"}), call("GET", "users/victim1/profile"), call("GET", "users/victim1/custom-data"),
        call("POST", "users/victim1/link", {"credential": {"api_key": {"key": "QzCanaryGood-key"}}}),
        call("POST", "users/victim1/link", {"credential": {"google": {"auth_code": "QzCanaryGood-code"}}}),
        call("POST", "users/victim2/login",
             {"credential": {"function": {"payload": {"username": "victim2", "n": [1, {"$date": 1}]}}}}),
        call("GET", "users/victim1/api-keys"), call("POST", "users/victim1/api-keys", {"name": "k"}),
        call("POST", "users/victim1/api-keys/k1/enable"), call("DELETE", "users/victim1/api-keys/k1"),
        call("POST", "users/victim1/functions/sum", [1, {"$numberLong": "2"}, "three"]),
        call("POST", mails + "register", {"email": "new@example.com", "password": PASSWORD}),
        call("POST", mails + "confirm", {"token": "QzCanaryGood-token", "token_id": "i"}),
        call("POST", mails + "reset-password", {"token": "QzCanaryGood-token", "token_id": "i", "password": PASSWORD}),
        call("POST", mails + "call-reset-function", {"email": "victim1@example.com", "password": PASSWORD, "arguments": [1]}),
        call("POST", mails + "send-reset-email", {"email": "victim1@example.com"}), call("POST", "reload"),
        call("GET", "status") + call("GET", "users/victim2") + call("GET", "nothing"),
    ]


def upstream_responses():
    def response(line, fields="", body=""):
        return f"HTTP/1.1 {line}\r\n{fields}\r\n{body}".encode("latin-1")

    chunks = "5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n"
    return [
        response("200 OK", "Content-Length: 5\r\n", "hello"), response("204 No Content"), response("304 Not Modified", "ETag: \"a\"\r\n"),
        response("200 OK", "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n", chunks), response("200 OK", "", "until the end"),
        response("100 Continue") + response("103 Early Hints", "Link: </a>\r\n") + response("200 OK", "Content-Length: 2\r\n", "ok"),
        response("404 Not Found", "Content-Type: text/html\r\nContent-Length: 9\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n", "not found"),
        response("302 Found", "Location: http://127.0.0.1/elsewhere\r\nContent-Length: 0\r\n"),
        response("503 Busy", "Retry-After: 3\r\nContent-Length: 0\r\nConnection: close\r\n"),
        response("401 Unauthorized", "WWW-Authenticate: Bearer realm=\"a\", error=\"invalid_token\"\r\nContent-Length: 0\r\n"),
        response("101 Switching Protocols", "Connection: upgrade\r\nUpgrade: websocket\r\n", "\x81\x02hi"),
        response("200 OK", "Date: Thu, 26 Nov 2026 16:00:00 GMT\r\nVia: 1.1 x\r\nKeep-Alive: timeout=5\r\nContent-Length: 3000\r\n",
                 "x" * 3000),
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok",
        response("200 OK", "Lanyard-User: other\r\nAuthorization: Bearer a\r\nContent-Length: 1\r\n", "1")
        + response("200 OK", "Content-Length: 1\r\n", "2"),
    ]


def client_upgrade(target, host):
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{UPGRADE}\r\n".encode()


def service_errors():
    """(status, value) of an identity service that refuses or is in trouble."""
    return [
        (401, {"error": "invalid session", "error_code": "InvalidSession", "link": "http://127.0.0.1/logs?co_id=1"}),
        (401, {"error": "invalid username/password", "error_code": "InvalidPassword"}),
        (403, {"error": "no", "error_code": "UserDisabled"}),
        (404, {"error": "cannot find app using Client App ID 'demo-abcde'"}), (410, {"error": "EOL"}), (429, {"error": "slow down"}),
        (500, {"error": "internal", "error_code": "InternalServerError"}), (503, {}), (302, {}), (307, {}),
    ]


def vector(data, size):
    return len(data).to_bytes(size, "big") + data


def client_hello(random):
    """Bytes of records with a hello that a server accepts, unless the seed has changed one of its parts; their lengths fit."""
    suites = [0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0x00FF]
    extensions = [
        (0, vector(b"\0" + vector(b"localhost", 2), 2)), (10, vector(bytes.fromhex("001d00170018"), 2)), (11, vector(b"\0", 1)),
        (13, vector(bytes.fromhex("0403080404010503080505010806060102010203"), 2)), (16, vector(vector(b"http/1.1", 1), 2)),
        (22, b""), (23, b""), (35, b""), (43, vector(bytes.fromhex("03040303"), 1)), (45, vector(b"\1", 1)),
        (51, vector(bytes.fromhex("001d") + vector(random.randbytes(32), 2), 2)),
    ]
    version, session, methods = b"\3\3", random.randbytes(32), b"\0"
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        index = random.randrange(len(extensions)) if extensions else 0
        kind, body = extensions[index] if extensions else (0, b"")
        change = random.randrange(9)
        if change == 0 and extensions:
            del extensions[index]
        elif change == 1:
            extensions.insert(random.randrange(len(extensions) + 1), (kind, body))
        elif change == 2:
            random.shuffle(extensions)
        elif change == 3:
            extensions.append((random.choice([5, 17, 18, 21, 24, 27, 28, 41, 42, 44, 49, 50, 0x3374, 0xFF01, random.randrange(1 << 16)]),
                               random.randbytes(random.choice([0, 1, 2, 5, 32, 300]))))
        elif change == 4 and extensions:
            cut = random.randrange(len(body) + 1)
            extensions[index] = (kind, body[:cut] + random.randbytes(random.choice([0, 1, 4])) + body[cut + random.randrange(3):])
        elif change == 5:
            foreign = [random.randrange(1 << 16) for _ in range(random.randrange(40))]
            suites = random.sample(suites, random.randint(0, len(suites))) + foreign
        elif change == 6:
            version = random.choice([b"\3\0", b"\3\1", b"\3\4", b"\2\0", b"\xfe\xff", b"\0\0"])
        elif change == 7:
            session = random.randbytes(random.choice([0, 1, 31, 32, 33, 255]))
        else:
            methods = random.choice([b"", b"\1", b"\0\1", b"\0" * 255])
    encoded = b"".join(kind.to_bytes(2, "big") + vector(body, 2) for kind, body in extensions)
    body = (version + random.randbytes(32) + vector(session, 1) + vector(b"".join(suite.to_bytes(2, "big") for suite in suites), 2)
            + vector(methods, 1) + vector(encoded, 2))
    hello = b"\1" + vector(body, 3)
    size = random.choice([len(hello), len(hello), len(hello), 1, 16, 200])
    return b"".join(b"\x16\3\1" + vector(hello[start:start + size], 2) for start in range(0, len(hello), size))
