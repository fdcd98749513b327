"""H42: what honest upstreams, above all those of gRPC, do often hits no limit."""

from calls import StreamCall, complete
from frames import NO_ERROR, data, ping, window_update
from multiplexed import answer, echo, ok
from rows import Failure, expect, row
from upstream_grpc import CALL, MESSAGE, call, ended


def alive(server, request):
    """The connection still serves, and has said nothing of an end."""
    expect("the connection's end", (None, []), (request.connection.ended, request.connection.goaways))
    complete(StreamCall(server, server.h2.on(ok)))


@row("H42", "5,000 small messages of a stream, with a PING and a WINDOW_UPDATE for every ten")
def messages(server):
    path = server.h2.on()
    made = call(server, path, body=b"", end=False)
    request = server.h2.request(path)
    request.respond(200, ("content-type", "application/grpc"))
    for _ in range(500):
        server.h2.until("a window", lambda: min(request.send_window, request.connection.send_window) >= 10 * len(MESSAGE))
        request.send_window -= 10 * len(MESSAGE)
        request.connection.send_window -= 10 * len(MESSAGE)
        request.connection.receive_window += 100
        request.connection.send(data(request.number, MESSAGE) * 10, ping(), window_update(0, 100))
    made.until("all messages", lambda: len(made.stream.body) == 5000 * len(MESSAGE))
    request.put(b"", trailers=[("grpc-status", "0")])
    complete(made)
    alive(server, request)


@row("H42", "5,000 messages up, each with a WINDOW_UPDATE for the stream and one for the connection")
def updates(server):
    path = server.h2.on()
    made = call(server, path, body=b"", end=False)
    request = server.h2.request(path)
    for number in range(500):
        made.put(MESSAGE * 10)
        server.h2.until("the messages", lambda number=number: len(request.body) == (number + 1) * 10 * len(MESSAGE))
    made.put(b"", True)
    server.h2.finished(path)
    request.respond(200, ("content-type", "application/grpc"))
    request.put(MESSAGE, trailers=[("grpc-status", "0")])
    complete(made)
    alive(server, request)


@row("H42", "2,000 calls that the upstream ends before the client: trailers, and RST_STREAM NO_ERROR, as gRPC servers do")
def early_ends(server):
    def script(request):
        request.respond(200, ("content-type", "application/grpc"))
        request.put(b"", trailers=[("grpc-status", "0")])
        request.cancel(NO_ERROR)
    path, connection = server.h2.on(script), server.connect()
    for _ in range(2000):
        complete(call(server, path, body=MESSAGE, end=False, connection=connection))
    for connection in server.h2.connections:
        expect("GOAWAY to the upstream", [], connection.goaways)


@row("H42", "1,200 calls whose RST_STREAM NO_ERROR comes in a read of its own, behind the trailers")
def early_ends_later(server):
    def script(request):
        request.respond(200, ("content-type", "application/grpc"))
        request.put(b"", trailers=[("grpc-status", "0")])
    path, connection = server.h2.on(script), server.connect()
    for number in range(1200):
        complete(call(server, path, body=MESSAGE, end=False, connection=connection))
        server.h2.requests(path)[number].cancel(NO_ERROR)
    for connection in server.h2.connections:
        expect("GOAWAY to the upstream", [], connection.goaways)


@row("H42", "2,000 trailers-only responses and 2,000 empty bodies")
def small(server):
    alone = server.h2.on(lambda request: request.respond(200, ("content-type", "application/grpc"), ("grpc-status", "5"), end=True))
    empty = server.h2.on(lambda request: (request.respond(200), request.put(b"", True)))
    connection = server.connect()
    for _ in range(2000):
        complete(StreamCall(server, alone, *CALL, method="POST", body=MESSAGE, connection=connection))
        complete(StreamCall(server, empty, connection=connection))
    for one in server.h2.connections:
        expect("GOAWAY to the upstream", [], one.goaways)


@row("H42", "1,500 cancelled calls: the upstream's connection stays, though each is reset")
def cancels(server):
    path, connections = server.h2.on(), []
    for number in range(1500):
        if number % 200 == 0:
            connections.append(server.connect())
        made = call(server, path, body=b"", end=False, connection=connections[-1])
        request = server.h2.request(path, number)
        made.cancel()
        server.h2.until("RST_STREAM", lambda request=request: request.is_over)
    alive(server, request)


@row("H29", "GOAWAY, and the end of the connection in a call without a response: UNAVAILABLE")
def goaway_closed(server):
    path = server.h2.on()
    made = call(server, path)
    request = server.h2.finished(path)
    request.connection.send(bytes.fromhex("000008070000000000") + request.number.to_bytes(4, "big") + bytes(4))
    request.connection.fence()
    request.connection.close()
    ended(made, 14)
    if len(server.h2.requests(path)) > 1:
        raise Failure("the call was sent again, though the upstream may have processed it")


@row("H42", "a response of 20,000 DATA frames of one byte, and an upload of as many")
def bytes_alone(server):
    path = server.h2.on()
    made = StreamCall(server, path)
    request = server.h2.request(path)
    request.respond(200)
    for _ in range(200):
        server.h2.until("a window", lambda: min(request.send_window, request.connection.send_window) >= 100)
        request.send_window -= 100
        request.connection.send_window -= 100
        request.connection.send(data(request.number, b"x") * 100)
    request.put(b"", True)
    expect("bytes", 20_000, len(complete(made).body))
    made = StreamCall(server, server.h2.on(echo), method="POST", body=b"", end=False)
    made.connection.write(made.stream, b"y" * 5000, size=1)
    expect("bytes", 5000, len(complete(made).body))
    complete(StreamCall(server, server.h2.on(answer(200, [], b"z"))))
