"""Requests that are refused on their stream: the upstream sees none of them, and the connection serves the next one."""

from frames import ENABLE_CONNECT_PROTOCOL, PROTOCOL_ERROR, REFUSED_STREAM, headers
from rows import expect, row, table
from upstream import ok

TWICE, MISSING, AFTER = object(), object(), object()


def refuse(server, make, *codes, statuses):
    """`make` gets the honest fields, and returns those that are sent. Huffman coding off: the bytes of a field are on the wire."""
    connection = server.connect()
    stream = connection.stream()
    fields, before = make(connection.fields(server.upstream.on(ok))), server.upstream.count
    connection.send(headers(stream.number, connection.encode(fields, huffman=False)))
    connection.refused(stream, *codes, statuses=statuses)
    connection.get(server.path)
    expect("requests at the upstream", 0, server.upstream.count - before - 1)


@table("H11", {
    "connection": ("connection: close is a stream error", ("connection", "close")),
    "connection_empty": ("an empty connection is a stream error", ("connection", "")),
    "keep_alive": ("keep-alive is a stream error", ("keep-alive", "timeout=5")),
    "proxy_connection": ("proxy-connection is a stream error", ("proxy-connection", "keep-alive")),
    "transfer_encoding": ("transfer-encoding is a stream error", ("transfer-encoding", "chunked")),
    "upgrade": ("upgrade is a stream error", ("upgrade", "h2c")),
    "te_gzip": ("te other than trailers is a stream error", ("te", "gzip")),
    "te_list": ("te: trailers, deflate is a stream error", ("te", "trailers, deflate")),
})
def hop_by_hop(server, field):
    refuse(server, lambda fields: [*fields, field], PROTOCOL_ERROR, statuses=(400,))


@table("H14", {
    "upper": ("an upper-case letter in a name", ("X-Upper", "1")),
    "upper_last": ("an upper-case last letter in a name", ("x-uppeR", "1")),
    "empty": ("an empty name", ("", "1")),
    "space": ("a space in a name", ("x name", "1")),
    "space_end": ("a space behind a name", ("x-name ", "1")),
    "colon": ("a colon in a name", ("x:name", "1")),
    "high": ("a byte from 0x80 in a name", ("x-caf\xe9", "1")),
    "control": ("a control byte in a name", ("x-\x01", "1")),
    "line": ("CRLF in a name", ("x-a: 1\r\nx-b", "1")),
    "quote": ("a separator in a name", ('x"name', "1")),
})
def names(server, field):
    refuse(server, lambda fields: [*fields, field], PROTOCOL_ERROR, statuses=(400,))


@table("H14", {
    "nul": ("NUL in a value", "a\0b"),
    "cr": ("CR in a value", "a\rb"),
    "lf": ("LF in a value", "a\nb"),
    "crlf": ("CRLF and a field in a value", "a\r\nx-injected: 1"),
    "control": ("a control byte in a value", "a\x01b"),
    "delete": ("DEL in a value", "a\x7fb"),
    "space_before": ("a space in front of a value", " a"),
    "space_behind": ("a space behind a value", "a "),
    "tab_before": ("a tab in front of a value", "\ta"),
    "tab_behind": ("a tab behind a value", "a\t"),
    "space_alone": ("a value of one space", " "),
})
def values(server, value):
    refuse(server, lambda fields: [*fields, ("x-value", value)], PROTOCOL_ERROR, statuses=(400,))


@row("H14", "CR, LF and NUL in a cookie crumb and in the last field")
def values_elsewhere(server):
    for byte in "\r\n\0":
        refuse(server, lambda fields: [*fields, ("cookie", "a=1"), ("cookie", f"b={byte}2")], PROTOCOL_ERROR, statuses=(400,))


@row("3.5", "a tab within a value passes")
def tab_within(server):
    path = server.upstream.on(ok)
    server.connect().get(path, ("x-value", "a\tb"))
    expect("x-value", ["a\tb"], server.upstream.finished(path).values("x-value"))


@table("H14", {
    "no_method": (":method is missing", (":method", MISSING)),
    "no_scheme": (":scheme is missing", (":scheme", MISSING)),
    "no_path": (":path is missing", (":path", MISSING)),
    "no_authority": (":authority and Host are missing", (":authority", MISSING)),
    "two_methods": (":method comes twice", (":method", TWICE)),
    "two_schemes": (":scheme comes twice", (":scheme", TWICE)),
    "two_paths": (":path comes twice", (":path", TWICE)),
    "two_authorities": (":authority comes twice", (":authority", TWICE)),
    "method_after": (":method stands behind a field", (":method", AFTER)),
    "path_after": (":path stands behind a field", (":path", AFTER)),
    "authority_after": (":authority stands behind a field", (":authority", AFTER)),
    "method_empty": (":method is empty", (":method", "")),
    "method_space": (":method has a space", (":method", "GET /")),
    "method_line": (":method has a line's end", (":method", "GET\r\n")),
    "scheme_empty": (":scheme is empty", (":scheme", "")),
    "scheme_bad": (":scheme has a space", (":scheme", "ht tp")),
    "scheme_line": (":scheme has a line's end", (":scheme", "http\r\nx: 1")),
    "path_empty": (":path is empty", (":path", "")),
    "path_relative": (":path does not begin with /", (":path", "relative")),
    "path_query": (":path begins with ?", (":path", "?a=1")),
    "path_star": (":path is * and the method is GET", (":path", "*")),
    "path_absolute": (":path is an absolute URL", (":path", "http://127.0.0.1/")),
    "path_space": (":path has a space", (":path", "/a b")),
    "path_smuggle": (":path has a version and a line's end", (":path", "/ HTTP/1.1\r\nx: 1\r\n\r\n")),
    "path_control": (":path has a control byte", (":path", "/a\x01")),
    "path_fragment": (":path has a fragment", (":path", "/a#b")),
    "path_high": (":path has a byte from 0x80", (":path", "/caf\xe9")),
    "path_escape": (":path has a broken escape", (":path", "/a%zz")),
    "path_nul": (":path has an escaped NUL", (":path", "/a%00")),
    "authority_empty": (":authority is empty", (":authority", "")),
    "authority_user": (":authority has userinfo", (":authority", "me@127.0.0.1")),
    "authority_path": (":authority has a path", (":authority", "127.0.0.1/x")),
    "authority_space": (":authority has a space", (":authority", "127.0.0.1 x")),
    "authority_line": (":authority has a line's end", (":authority", "127.0.0.1\r\nx: 1")),
    "unknown": ("an unknown pseudo-header field", (":unknown", "1")),
    "status": (":status in a request", (":status", "200")),
    "protocol": (":protocol without CONNECT", (":protocol", "websocket")),
    "colon": ("a pseudo-header field without a name", (":", "1")),
}, peers=dict.fromkeys(["path_fragment", "path_high", "path_escape", "path_nul"], "leaves the path to the upstream") | {
    "authority_user": "passes userinfo"})
def pseudo(server, case):
    name, value = case

    def make(fields):
        at = next((place for place, field in enumerate(fields) if field[0] == name), None)
        if at is None:
            return [(name, value), *fields]
        if value is MISSING:
            return fields[:at] + fields[at + 1:]
        if value is TWICE:
            return fields[:at] + [fields[at]] + fields[at:]
        if value is AFTER:
            return fields[:at] + fields[at + 1:] + [("x-field", "1"), fields[at]]
        return fields[:at] + [(name, value)] + fields[at + 1:]
    refuse(server, make, PROTOCOL_ERROR, statuses=(400,))


@table("5.1", {
    "empty": ("an empty content-length", [""]),
    "sign": ("content-length with a sign", ["+1"]),
    "minus": ("a negative content-length", ["-1"]),
    "list": ("content-length as a list", ["1, 1"]),
    "two": ("two equal content-length fields", ["1", "1"]),
    "different": ("two different content-length fields", ["1", "2"]),
    "hex": ("a hexadecimal content-length", ["0x1"]),
    "wrapped": ("a content-length above 2^64", ["18446744073709551617"]),
    "large": ("a content-length above 2^63 - 1", ["9223372036854775808"]),
    "word": ("content-length with a unit", ["1b"]),
})
def content_length(server, lengths):
    path = server.upstream.on(ok)
    connection = server.connect()
    stream = connection.open(connection.fields(path, *(("content-length", value) for value in lengths), method="POST"), end=False)
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)
    expect("complete requests at the upstream", [], [exchange for exchange in server.upstream.seen(path) if exchange.has_body])


@row("1.6", "a :scheme that is not the listener's is refused", peer="accepts any scheme")
def scheme_other(server):
    refuse(server, lambda fields: [(name, "ftp" if name == ":scheme" else value) for name, value in fields],
           PROTOCOL_ERROR, statuses=(400, 421))


@row("1.9", "CONNECT is refused, and no tunnel is opened", peer="passes CONNECT as a request")
def connect(server):
    refuse(server, lambda fields: [(":method", "CONNECT"), (":authority", f"127.0.0.1:{server.upstream.port}")],
           PROTOCOL_ERROR, REFUSED_STREAM, statuses=(400, 405, 421, 501))


@row("H14", "CONNECT with :scheme and :path is malformed")
def connect_malformed(server):
    refuse(server, lambda fields: [(":method", "CONNECT"), *fields[1:]], PROTOCOL_ERROR, statuses=(400, 405))


@row("H6", "extended CONNECT is not announced, and :protocol is refused", peer="has extended CONNECT, and announces it")
def connect_extended(server):
    refuse(server, lambda fields: [(":method", "CONNECT"), (":protocol", "websocket"), *fields[1:]],
           PROTOCOL_ERROR, statuses=(400, 405, 501))
    connection = server.connect()
    connection.fence()
    expect("ENABLE_CONNECT_PROTOCOL", 0, connection.peer.get(ENABLE_CONNECT_PROTOCOL, 0))


@row("1.9", "TRACE is refused with 405", peer="passes TRACE")
def trace(server):
    refuse(server, lambda fields: [(":method", "TRACE"), *fields[1:]], statuses=(405,))


@row("1.3", "a method of more than 64 bytes is refused with 501")
def method_long(server):
    refuse(server, lambda fields: [(":method", "M" * 65), *fields[1:]], statuses=(501,))


@row("1.8", "OPTIONS * gets 200 here", peer="passes it to the upstream")
def options_star(server):
    connection = server.connect()
    stream = connection.get("*", method="OPTIONS")
    expect("body", b"", bytes(stream.body))


@row("11.4", "an unknown expectation is refused with 417", peer="passes it to the upstream")
def expectation(server):
    connection = server.connect()
    stream = connection.open(connection.fields(server.path, ("expect", "something"), method="POST"), end=False)
    connection.response(stream, 417)


@row("H14", "40 malformed requests on one connection: each is refused alone")
def many(server):
    connection = server.connect()
    for number in range(40):
        field = [("X-Upper", "1"), ("connection", "close"), ("x", "a\nb"), (":late", "1")][number % 4]
        connection.refused(connection.open(connection.fields(server.path, field)), PROTOCOL_ERROR, statuses=(400,))
        if number % 8 == 0:
            connection.get(server.path)
    connection.get(server.path)
