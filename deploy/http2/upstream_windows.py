"""Flow control towards an HTTP/2 upstream: credit follows what the client takes, and one stream does not stop another."""

from calls import PlainCall, StreamCall, both, complete, problem, served
from frames import FLOW_CONTROL_ERROR, INITIAL_WINDOW_SIZE, WINDOW_MAX, data, window_update
from multiplexed import answer, echo, hold, ok
from rows import Failure, expect, row
from upstream import MIB, pattern

SMALL = ((INITIAL_WINDOW_SIZE, 1000),)


def pour(server, request):
    """Sends until the proxy gives no window any more. Returns how much it has taken."""
    sent = 0
    while True:
        room = min(request.send_window, request.connection.send_window, 16_384)
        if room <= 0:
            server.h2.pause(0.3)
            if min(request.send_window, request.connection.send_window) <= 0:
                return sent
            continue
        request.connection.send_data(request, bytes(room))
        sent += room
        if sent > 64 * MIB:
            raise Failure(f"expected the upstream to be stopped, seen {sent} bytes taken")


@row("H20", "a client of HTTP/2 that gives no window: Lanyard takes no more than a stream's window beyond it")
def slow_client(server):
    path = server.h2.on()
    connection = server.connect(*SMALL)
    connection.gives_back = False
    call = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    window = request.send_window
    request.respond(200)
    sent = pour(server, request)
    expect("bytes at the client", 1000, len(call.stream.body))
    if sent > 1000 + 2 * window:
        raise Failure(f"expected {1000 + 2 * window} bytes at most, seen {sent}")
    # What the client takes comes back as credit.
    connection.grant(None, 200_000)
    connection.grant(call.stream, 200_000)
    connection.until("200,000 bytes", lambda: len(call.stream.body) >= min(201_000, sent))
    server.h2.until("credit", lambda: request.send_window > 0)
    served(server)


@row("H20", "a client of HTTP/1.1 that does not read stops the upstream, and the rest follows when it reads")
def slow_plain_client(server):
    path = server.h2.on()
    call = PlainCall(server, path)
    request = server.h2.request(path)
    request.respond(200)
    call.is_paused = True
    sent = pour(server, request)
    call.is_paused = False
    request.put(b"end", True)
    expect("bytes", sent + 3, len(complete(call).body))


@row("H19", "the windows that Lanyard grants: more than 65,535 for the connection, and room for all streams")
def windows(server):
    served(server)
    connection = server.h2.connections[-1]
    connection.fence()
    if connection.send_window < 1 << 20:
        raise Failure(f"expected a window of the connection of 1 MiB or more, seen {connection.send_window}")


@row("H19", "60 stalled downloads beside a live one of 4 MiB on the same upstream connection")
def stalled_downloads(server):
    stuck, connection = server.h2.on(answer(200, [], bytes(MIB))), server.connect(*SMALL)
    connection.gives_back = False
    stalled = [StreamCall(server, stuck, connection=connection) for _ in range(60)]
    connection.until("full windows", lambda: all(len(call.stream.body) == 1000 for call in stalled))
    server.h2.pause(0.3)
    live = StreamCall(server, server.h2.on(answer(200, [], pattern(0, 4 * MIB))), connection=connection)
    connection.grant(None, 8 * MIB)
    connection.grant(live.stream, 8 * MIB)
    expect("the live one", True, complete(live).body == pattern(0, 4 * MIB))
    expect("connections", 1, len([one for one in server.h2.connections if one.requests]))
    connection.grant(None, 512 * MIB)
    for call in stalled:
        connection.grant(call.stream, 2 * MIB)
    for call in stalled:
        expect("bytes", MIB, len(complete(call).body))


@row("H19", "60 stalled uploads beside a live one of 4 MiB on the same upstream connection")
def stalled_uploads(server):
    server.h2.values = SMALL
    server.h2.greeting = window_update(0, 64 * MIB)
    stuck, connection = server.h2.on(hold), server.connect()
    for _ in range(60):
        StreamCall(server, stuck, method="POST", body=bytes(10_000), end=False, connection=connection)
    server.h2.until("60 requests", lambda: len(server.h2.requests(stuck)) == 60)
    for request in server.h2.requests(stuck):
        # No credit: the queue of these bodies stands still.
        request.is_cancelled = True
    path, body = server.h2.on(echo), pattern(0, 4 * MIB)
    live = StreamCall(server, path, method="POST", body=body, connection=connection)
    expect("the live one", True, complete(live).body == body)
    expect("connections", 1, len([one for one in server.h2.connections if one.requests]))


@row("H21", "300 cancelled downloads give the connection's window back; then 8 MiB at full speed on the same connection")
def cancelled(server):
    path, connection = server.h2.on(), server.connect()
    served(server)
    for number in range(300):
        call = StreamCall(server, path, connection=connection)
        request = server.h2.request(path, number)
        request.respond(200)
        room = min(64_000, request.send_window, request.connection.send_window)
        if room <= 0:
            raise Failure(f"expected a window, seen {request.connection.send_window} for the connection after {number} downloads")
        for at in range(0, room, 16_000):
            request.connection.send_data(request, bytes(min(16_000, room - at)))
        call.cancel()
        server.h2.until("RST_STREAM", lambda request=request: request.reset is not None)
        # DATA that crosses the reset.
        if number % 3 == 0 and request.connection.send_window > 1000:
            request.connection.send_window -= 1000
            request.connection.send(data(request.number, bytes(1000)))
    last = server.h2.on(answer(200, [], pattern(0, 8 * MIB)))
    expect("body", True, complete(StreamCall(server, last, connection=connection)).body == pattern(0, 8 * MIB))
    one = server.h2.requests(path)[0].connection
    expect("the connection of the last", True, server.h2.requests(last)[0].connection is one)
    one.fence()
    if one.send_window < 8 * MIB:
        raise Failure(f"expected a window of 8 MiB or more, seen {one.send_window}")


@row("H21", "padding of the upstream gives its window back")
def padding(server):
    path = server.h2.on()
    call = StreamCall(server, path)
    request = server.h2.request(path)
    request.respond(200)
    for number in range(4000):
        request.connection.until("a window", lambda: min(request.send_window, request.connection.send_window) >= 257)
        request.connection.send_data(request, b"x", number == 3999, padding=255)
    expect("bytes", 4000, len(complete(call).body))


@row("H22", "WINDOW_UPDATE comes at half a window at the latest, and in few frames")
def updates(server):
    path = server.h2.on()
    call = StreamCall(server, path)
    request = server.h2.request(path)
    window = request.send_window
    request.respond(200)
    request.connection.send_data(request, bytes(min(window // 2 + 1, 16_384)))
    for _ in range(window // 2 // 16_384):
        request.connection.send_data(request, bytes(16_384))
    server.h2.until("WINDOW_UPDATE of the stream", lambda: request.connection.count("WINDOW_UPDATE", request.number))
    before = request.connection.count("WINDOW_UPDATE")
    request.put(bytes(4 * MIB), True)
    complete(call)
    count = request.connection.count("WINDOW_UPDATE") - before
    if count > 4 * 4 * MIB // window + 10:
        raise Failure(f"expected about {2 * 4 * MIB // window} WINDOW_UPDATE, seen {count}")


@both("H22", "an upload keeps to windows of 10 bytes, to what WINDOW_UPDATE adds, and to a smaller INITIAL_WINDOW_SIZE")
def small(server, kind):
    server.h2.values = ((INITIAL_WINDOW_SIZE, 10),)
    path = server.h2.on()
    # The first SETTINGS have to be known: until then 65,535 hold.
    served(server)
    served(server, kind=kind)
    server.h2.gives_back = False
    for connection in server.h2.connections:
        connection.gives_back = False
    call = kind(server, path, method="POST", body=pattern(0, 5000))
    request = server.h2.request(path)
    connection = request.connection
    server.h2.until("10 bytes", lambda: len(request.body) >= 10)
    connection.fence()
    if len(request.body) not in (10, 5000):
        raise Failure(f"expected 10 bytes, seen {len(request.body)}")
    if len(request.body) == 10:
        connection.grant(request, 5)
        server.h2.until("15 bytes", lambda: len(request.body) == 15)
        connection.change_settings((INITIAL_WINDOW_SIZE, 0))
        connection.grant(request, 10)
        connection.fence()
        expect("bytes with a window of 0", 15, len(request.body))
        connection.grant(request, 3)
        server.h2.until("18 bytes", lambda: len(request.body) == 18)
        connection.grant(request, 100_000)
    server.h2.until("the end", lambda: request.is_over)
    expect("body", True, request.body == pattern(0, 5000))
    request.reply(200, [], b"ok")
    complete(call)


@row("H22", "the connection's window of 65,535 bytes is kept by two uploads together")
def connection_window(server):
    path, connection = server.h2.on(), server.connect()
    served(server)
    many = [StreamCall(server, path, method="POST", body=bytes(60_000), end=False, connection=connection) for _ in range(2)]
    server.h2.request(path, 1)
    upstream = server.h2.requests(path)[0].connection
    upstream.gives_back = False
    upstream.fence()
    for call in many:
        connection.send_data(call.stream, bytes(1000), True)
    for request in server.h2.requests(path):
        request.on_end(lambda request: request.reply(200, [], b"ok"))
    upstream.gives_back = True
    upstream.give_back()
    for call in many:
        complete(call)


@both("H24", "an upstream that gives no window: 504 after timeouts.write")
def no_window(server, kind):
    server.h2.values = ((INITIAL_WINDOW_SIZE, 0),)
    served(server)
    path = server.h2.on(hold, "/short")
    served(server, server.h2.on(ok, "/short"), kind)
    call = kind(server, path, method="POST", body=bytes(5000))
    problem(call, 504)
    request = server.h2.request(path)
    server.h2.until("RST_STREAM", lambda: request.is_over)
    served(server)


@row("H22", "WINDOW_UPDATE of an upstream beyond 2^31 - 1 on a stream ends that stream with FLOW_CONTROL_ERROR; others are served")
def overflow(server):
    path, connection = server.h2.on(), server.connect()
    many = [StreamCall(server, path, method="POST", body=b"x", end=False, connection=connection) for _ in range(2)]
    first, second = server.h2.request(path, 1) and server.h2.requests(path)
    first.connection.send(window_update(first.number, WINDOW_MAX), window_update(first.number, WINDOW_MAX))
    problem(many[0])
    server.h2.until("RST_STREAM", lambda: first.is_over)
    expect("code", FLOW_CONTROL_ERROR, first.reset)
    second.reply(200, [], b"ok")
    complete(many[1])


@row("H20", "DATA of an upstream beyond the stream's window is FLOW_CONTROL_ERROR, and the client's response is cut")
def exceeded(server):
    path, connection = server.h2.on(), server.connect(*SMALL)
    connection.gives_back = False
    call = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    request.respond(200)
    pour(server, request)
    for _ in range(8):
        request.connection.send(data(request.number, bytes(16_384)))
    server.h2.until("an error", lambda: request.reset is not None or request.connection.is_dead())
    codes = [request.reset, *(code for _, code, _ in request.connection.goaways)]
    if FLOW_CONTROL_ERROR not in codes:
        raise Failure(f"expected FLOW_CONTROL_ERROR, seen {codes}")
    connection.gives_back = True
    connection.give_back()
    call.until("the end", lambda: call.stream.is_over)
    expect("a complete response", False, call.stream.is_ended)
    served(server)


@row("H25", "RST_STREAM of the upstream reaches a client that gives no window")
def reset_at_once(server):
    path, connection = server.h2.on(), server.connect(*SMALL)
    connection.gives_back = False
    call = StreamCall(server, path, connection=connection)
    request = server.h2.request(path)
    request.respond(200)
    request.put(bytes(5000))
    connection.until("the first bytes", lambda: len(call.stream.body) == 1000)
    request.cancel()
    connection.until("RST_STREAM", lambda: call.stream.reset is not None, 5)
