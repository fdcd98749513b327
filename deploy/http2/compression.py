"""SETTINGS and header compression: what is invalid ends the connection, and the tables of both sides stay alike."""

from frames import (
    COMPRESSION_ERROR, CONTINUATION, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, HEADER_TABLE_SIZE, HEADERS,
    INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE, PROTOCOL_ERROR, frame, headers, settings)
from rows import Failure, expect, row, table
from upstream import head, ok, send


@table("H17", {
    "push": ("ENABLE_PUSH of 2", (2, 2, PROTOCOL_ERROR)),
    "window": ("INITIAL_WINDOW_SIZE of 2^31", (INITIAL_WINDOW_SIZE, 2**31, FLOW_CONTROL_ERROR)),
    "window_max": ("INITIAL_WINDOW_SIZE of 2^32 - 1", (INITIAL_WINDOW_SIZE, 2**32 - 1, FLOW_CONTROL_ERROR)),
    "frame_small": ("MAX_FRAME_SIZE of 16,383", (MAX_FRAME_SIZE, 16_383, PROTOCOL_ERROR)),
    "frame_zero": ("MAX_FRAME_SIZE of 0", (MAX_FRAME_SIZE, 0, PROTOCOL_ERROR)),
    "frame_large": ("MAX_FRAME_SIZE of 2^24", (MAX_FRAME_SIZE, 2**24, PROTOCOL_ERROR)),
})
def invalid(server, case):
    identifier, value, code = case
    for is_first in (False, True):
        connection = server.connect(*([(identifier, value)] if is_first else []))
        if not is_first:
            connection.get(server.path)
            connection.send(settings([(identifier, value)]))
        connection.died(code)
    server.lives()


@table("H17", {
    "unknown": ("unknown settings are ignored", [(0x77, 1), (0xFFFF, 2**32 - 1), (0, 5)]),
    "empty": ("empty SETTINGS", []),
    "repeated": ("a setting that comes twice: the last one holds", [(INITIAL_WINDOW_SIZE, 2**20), (INITIAL_WINDOW_SIZE, 65_535)]),
    "table_zero": ("HEADER_TABLE_SIZE of 0: responses use no dynamic table", [(HEADER_TABLE_SIZE, 0)]),
    "table_large": ("HEADER_TABLE_SIZE of 2^32 - 1", [(HEADER_TABLE_SIZE, 2**32 - 1)]),
    "streams_zero": ("MAX_CONCURRENT_STREAMS of 0 from a client", [(MAX_CONCURRENT_STREAMS, 0)]),
    "list_small": ("MAX_HEADER_LIST_SIZE of 16,384", [(MAX_HEADER_LIST_SIZE, 16_384)]),
    "frame_large": ("MAX_FRAME_SIZE of 2^24 - 1", [(MAX_FRAME_SIZE, 2**24 - 1)]),
    "no_priorities": ("NO_RFC7540_PRIORITIES of 1", [(9, 1)]),
})
def accepted(server, values):
    connection = server.connect(*values)
    for _ in range(3):
        connection.get(server.path)
    connection.get(server.upstream.on(send(100_000)))


@row("H17", "each SETTINGS frame has its ACK, and values of a connection in use hold")
def changed(server):
    connection = server.connect()
    for size in (0, 4096, 100, 65_536, 0):
        connection.change_settings((HEADER_TABLE_SIZE, size))
        for _ in range(2):
            connection.get(server.path)
    expect("ACKs", 6, connection.acknowledgements)


@row("H37", "the server announces its limits: streams and the size of a header list", peer="announces no limit of the header list")
def announced(server):
    connection = server.connect()
    connection.fence()
    for identifier, name in ((MAX_CONCURRENT_STREAMS, "MAX_CONCURRENT_STREAMS"), (MAX_HEADER_LIST_SIZE, "MAX_HEADER_LIST_SIZE")):
        if identifier not in connection.peer:
            raise Failure(f"expected {name}, seen {connection.peer}")


@row("H17", "a client that never acknowledges the server's SETTINGS is served at first, and ended or served later")
def never_acknowledged(server):
    connection = server.connect()
    connection.acknowledges = False
    for _ in range(10):
        connection.get(server.path)


@table("H14", {
    "index_zero": ("index 0", b"\x80"),
    "index_unknown": ("an index that no table has", b"\xff\xff\x01"),
    "index_huge": ("an index of 2^40", b"\xff\xff\xff\xff\xff\xff\x7f"),
    "integer_long": ("an integer of many octets of 0", b"\xff" + b"\x80" * 20 + b"\x01"),
    "name_index": ("the index of a name that no table has", b"\x7f\xff\x01\x01a"),
    "name_cut": ("a name that is longer than the block", b"\x40\x0aabc"),
    "value_cut": ("a value that is longer than the block", b"\x40\x01a\x0aabc"),
    "literal_cut": ("a block that ends behind the first octet of a literal", b"\x40"),
    "length_huge": ("a value that announces 2^31 bytes", b"\x40\x01a\x7f\x81\xff\xff\xff\x07"),
    "huffman_padding": ("Huffman padding of a whole octet", b"\x40\x01a\x82\x1f\xff"),
    "huffman_zero": ("Huffman padding with zeros", b"\x40\x01a\x81\x18"),
    "huffman_end": ("the Huffman symbol EOS", b"\x40\x01a\x84\xff\xff\xff\xff"),
    "table_large": ("an update of the table's size beyond the limit", b"\x3f\xe1\xff\x03\x82"),
    "table_late": ("an update of the table's size behind a field", b"\x82\x20"),
    "table_cut": ("an update of the table's size without its end", b"\x3f"),
})
def garbage(server, block):
    for prefix in (b"", b"\x82\x86"):
        if block == b"\x3f\xe1\xff\x03\x82" and prefix:
            continue
        connection = server.connect()
        connection.get(server.path)
        connection.send(headers(connection.stream().number, prefix + block))
        connection.died(COMPRESSION_ERROR)
    server.lives()


@row("H14", "a garbled block in CONTINUATION, and one in trailers")
def garbage_later(server):
    connection = server.connect()
    stream = connection.stream()
    block = connection.encode(connection.fields(server.path))
    connection.send(frame(HEADERS, stream.number, block, END_STREAM), frame(CONTINUATION, stream.number, b"\x80", END_HEADERS))
    connection.died(COMPRESSION_ERROR)
    connection = server.connect()
    stream = connection.open(connection.fields(server.path, method="POST"), end=False)
    connection.send_data(stream, b"body")
    connection.send(headers(stream.number, b"\xff\xff\xff\xff\x7f"))
    connection.died(COMPRESSION_ERROR)


@row("H14", "an empty header block is a malformed request")
def empty_block(server):
    connection = server.connect()
    stream = connection.stream()
    connection.send(headers(stream.number, b""))
    connection.refused(stream, PROTOCOL_ERROR, statuses=(400,))
    connection.get(server.path)


def in_step(server, connection, path):
    """A field that a former block has put into the table arrives from there."""
    number = len(server.upstream.seen(path))
    stream = connection.get(path, ("x-table", "from the table"))
    expect("x-table", ["from the table"], server.upstream.finished(path, number).values("x-table"))
    return stream


@row("H14", "the header table stays in step behind requests that were refused, cancelled and unknown")
def table_in_step(server):
    connection = server.connect()
    path = server.upstream.on(ok)
    # Each of these blocks puts a field into the table that the next request refers to.
    refused = [("X-Upper", "1")], [("x-value", "a\nb")], [("connection", "close")], [("te", "gzip")]
    for number, extra in enumerate(refused):
        field = (f"x-table-{number}", "from the table")
        connection.refused(connection.open(connection.fields(path, field, *extra)), PROTOCOL_ERROR, statuses=(400,))
        connection.get(path, field)
        expect(field[0], ["from the table"], server.upstream.seen(path)[-1].values(field[0]))
    cancelled = connection.open(connection.fields(path, ("x-cancelled", "1")), end=False)
    connection.cancel(cancelled)
    # HEADERS for a stream that is closed are discarded, but not their effect on the table.
    connection.send(headers(cancelled.number, connection.encode([("x-late", "late")])))
    connection.get(path, ("x-cancelled", "1"), ("x-late", "late"))
    seen = server.upstream.seen(path)[-1]
    expect("fields", (["1"], ["late"]), (seen.values("x-cancelled"), seen.values("x-late")))


@row("H14", "updates of the table's size by the client: to 0, and back")
def table_updates(server):
    connection = server.connect()
    path = server.upstream.on(ok)
    for size in (4096, 0, 100, 4096, 0):
        connection.encoder.header_table_size = size
        for _ in range(2):
            in_step(server, connection, path)


@row("H14", "a head in one to eight frames")
def pieces(server):
    path = server.upstream.on(ok)
    for pieces_of in range(1, 9):
        connection = server.connect()
        connection.response(connection.open(connection.fields(path, ("x-long", "a" * 200)), pieces=pieces_of), 200)


@row("H14", "empty CONTINUATION frames in front of the last one, up to the limit")
def empty_continuation(server):
    connection = server.connect()
    stream = connection.stream()
    block = connection.encode(connection.fields(server.path))
    connection.send(frame(HEADERS, stream.number, b"", END_STREAM), frame(CONTINUATION, stream.number) * 3,
                    frame(CONTINUATION, stream.number, block, END_HEADERS))
    connection.response(stream, 200)


@row("H14", "Huffman coding and plain literals mean the same")
def huffman(server):
    path = server.upstream.on(ok)
    connection = server.connect()
    values = ["plain", "~!@#$%^&*()_+{}|:<>?", "\x80\xff\xe9", "0" * 1000, ""]
    for huffman_coded in (True, False):
        for value in values:
            stream = connection.stream()
            block = connection.encode(connection.fields(path, ("x-value", value)), huffman=huffman_coded)
            connection.send(headers(stream.number, block))
            connection.response(stream, 200)
            expect("x-value", [value], server.upstream.seen(path)[-1].values("x-value"))


@row("H14", "a response head of 40 KiB comes in CONTINUATION frames")
def response_large(server):
    values = [("X-%02d" % number, chr(97 + number % 26) * 4000) for number in range(10)]
    connection = server.connect()
    for _ in range(2):
        stream = connection.get(server.upstream.on(lambda exchange: exchange.reply(200, values, b"ok")))
        expect("fields", [(name.lower().encode(), value.encode()) for name, value in values],
               [field for field in stream.head[1] if field[0].startswith(b"x-")])


@row("H18", "neither the token nor the client's own Authorization comes back: not in any response, nor in Lanyard's own ones")
def no_token(server):
    connection = server.connect()
    own = ("authorization", "Bearer the-clients-own-secret-token")
    connection.secrets = [*server.tokens, b"the-clients-own-secret-token"]
    for method, path in (("GET", server.path), ("GET", "/nothing"), ("TRACE", server.path), ("OPTIONS", "*"), ("GET", "/%zz"),
                         ("GET", server.upstream.on(lambda exchange: exchange.close())),
                         ("GET", server.upstream.on(lambda exchange: exchange.reply(401, [("WWW-Authenticate", "Bearer")])))):
        stream = connection.open(connection.fields(path, own, method=method))
        connection.until("an end", lambda stream=stream: stream.is_over)


@row("H17", "responses of one connection refer to the table")
def response_table(server):
    connection = server.connect()
    path = server.upstream.on(lambda exchange: exchange.send(
        head(200, ("X-Long", "a-value-that-stays-the-same" * 20), ("Content-Length", "0"))))
    for _ in range(3):
        expect("x-long", ["a-value-that-stays-the-same" * 20], connection.get(path).values("x-long"))
