"""grpcio as client and as server, with Lanyard between them."""

import concurrent.futures
import json
import os
import queue
import threading
import time

from programs import missing, quickly
from rows import Failure, expect, patience, row
from servers import free_port
from tap import Tap

# The harness starts programs by fork and exec at once.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
try:
    import grpc
except ImportError:
    grpc = None

LARGE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# Channels of a process share connections, and proxies of the environment are for others.
OWN = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


class Service:
    """A server of grpcio. A method is a function of a message or an iterator of messages, and of grpcio's context."""

    def __init__(self, server, secure=False, port=0, tapped=False, options=(), **keys):
        if not grpc:
            raise missing("grpcio")
        service = self

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                with service.lock:
                    service.seen.append(details)
                return service.methods.get(details.method.rpartition("/")[2])

        self.methods, self.seen, self.lock = {}, [], threading.Lock()
        # 300 calls at once: each has a thread.
        self.server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(300), handlers=[Handler()], options=[*LARGE, ("grpc.so_reuseport", 0), *options], **keys)
        address = f"127.0.0.1:{port}"
        if secure:
            certificate, key = (open(name, "rb").read() for name in server.certificate)
            self.port = self.server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
        else:
            self.port = self.server.add_insecure_port(address)
        self.server.start()
        self.tap = Tap(server, self.port) if tapped else None
        server.service, self.owner = self, server
        server.programs.append(self)

    def on(self, name, function, kind="unary_unary"):
        self.methods[name] = getattr(grpc, f"{kind}_rpc_method_handler")(function)

    def metadata(self, number=-1):
        return [tuple(pair) for pair in self.seen[number].invocation_metadata]

    def stop(self):
        self.server.stop(0)


def service(**options):
    """Settings of a row's own server: the route of a service whose upstream is grpcio."""
    def port(server):
        made = Service(server, **options)
        return (made.tap or made).port
    keys = (lambda server: {"upstream": f"https://localhost:{server.service.port}", "tls": {"ca_file": server.certificate[0]}}) \
        if options.get("secure") else {"protocol": "http2"}
    return {"routes": [("service", "/checks.Service", port, keys)]}


class Client:
    """A channel of grpcio."""

    def __init__(self, server, secure=False, port=None, options=(), **keys):
        if not grpc:
            raise missing("grpcio")
        options = [*LARGE, *OWN, *options]
        if secure:
            with open(server.certificate[0], "rb") as file:
                credentials = grpc.ssl_channel_credentials(file.read())
            self.channel = grpc.secure_channel(f"localhost:{server.secure}", credentials, options=options, **keys)
        else:
            self.channel = grpc.insecure_channel(f"127.0.0.1:{port or server.plain}", options=options, **keys)
        server.programs.insert(0, self)

    def call(self, name, kind="unary_unary"):
        return getattr(self.channel, kind)(name if name.startswith("/") else f"/checks.Service/{name}")

    def unary(self, name, message=b"", **options):
        return self.call(name)(message, timeout=options.pop("timeout", patience()), **options)

    def fails(self, code, name, message=b"", **options):
        """The error of a call, which has this status."""
        try:
            response = self.unary(name, message, **options)
        except grpc.RpcError as error:
            expect("status", (code, error.details()), (error.code().name, error.details()))
            return error
        raise Failure(f"expected {code}, seen a response of {len(response)} bytes")

    def stop(self):
        self.channel.close()


def echo(message, _):
    return message


def unary_call(server, **options):
    """Metadata, texts and bytes, of both directions; what the server gets is what the client has sent, and Lanyard's token."""
    def reverse(message, context):
        context.send_initial_metadata((("x-first", "1"), ("x-first-bin", bytes(range(256)))))
        context.set_trailing_metadata((("x-last", "2"), ("x-last-bin", b"\0\xff")))
        return message[::-1]
    server.service.on("Reverse", reverse)
    client = Client(server, **options)
    sent = (("x-text", "a b"), ("x-some-bin", b"\xff\0,"), ("authorization", "Bearer mine"))
    message, call = client.call("Reverse").with_call(b"abc", timeout=patience(), metadata=sent)
    first, last = ([tuple(pair) for pair in pairs] for pairs in (call.initial_metadata(), call.trailing_metadata()))
    expect("message", b"cba", message)
    expect("initial metadata", [("x-first", "1"), ("x-first-bin", bytes(range(256)))], [pair for pair in first if pair[0].startswith("x-")])
    expect("trailing metadata", [("x-last", "2"), ("x-last-bin", b"\0\xff")], last)
    got = server.service.metadata()
    expect("metadata at the server", list(sent[:2]), [pair for pair in got if pair[0] in ("x-text", "x-some-bin")])
    if server.name == "lanyard":
        expect("the token", [f"Bearer {server.token}"], [value for name, value in got if name == "authorization"])


@row("H12", "grpcio, unary: metadata of text and bytes, initial and trailing; the token at the server", own=service(), quick=True)
def unary(server):
    unary_call(server)


@row("H12", "the same with TLS on both sides", own=service(secure=True))
def unary_secure(server):
    unary_call(server, secure=True)


@row("H12", "grpcio, a stream from the server: 2,000 messages, and one of none", own=service())
def server_stream(server):
    server.service.on("Count", lambda message, _: (b"%d" % number for number in range(int(message))), "unary_stream")
    client = Client(server)
    for count in (2000, 0):
        seen = list(client.call("Count", "unary_stream")(b"%d" % count, timeout=patience()))
        expect("messages", (count, True), (len(seen), seen == [b"%d" % number for number in range(count)]))


@row("H12", "grpcio, a stream from the client: 2,000 messages, and one of none", own=service())
def client_stream(server):
    server.service.on("Join", lambda messages, _: b",".join(messages), "stream_unary")
    client = Client(server)
    for count in (2000, 0):
        sent = [b"%d" % number for number in range(count)]
        expect("the response", True, client.call("Join", "stream_unary")(iter(sent), timeout=patience()) == b",".join(sent))


@row("H12", "grpcio, streams both ways: 100 messages in turn, on 20 calls at once", own=service(), quick=True)
def both_streams(server):
    server.service.on("Talk", lambda messages, _: (b"echo " + message for message in messages), "stream_stream")
    client = Client(server)
    calls = []
    for _ in range(20):
        sent = queue.Queue()
        calls.append((sent, client.call("Talk", "stream_stream")(iter(sent.get, None), timeout=patience())))
    for number in range(100):
        for sent, _ in calls:
            sent.put(b"%d" % number)
        for _, received in calls:
            expect("message", b"echo %d" % number, next(received))
    for sent, received in calls:
        sent.put(None)
        expect("the rest", [], list(received))


def hanging(server):
    """A method that responds when its call has ended: (event of its begin, event of its end, seconds that it had left)."""
    began, ended, left = threading.Event(), threading.Event(), []

    def hang(_, context):
        context.add_callback(ended.set)
        left.append(context.time_remaining())
        began.set()
        ended.wait(patience())
        yield b"late"
    server.service.on("Hang", hang, "unary_stream")
    return began, ended, left


def happens(what, event):
    if not event.wait(patience()):
        raise Failure(f"expected {what}, seen nothing of it for {patience():.0f} s")


@row("H25", "grpcio, a deadline: the client's status is 4, and the server knows it and sees the end of the call", own=service(), quick=True)
def deadline(server):
    _, ended, left = hanging(server)
    client = Client(server)
    try:
        list(client.call("Hang", "unary_stream")(b"", timeout=0.5))
        raise Failure("expected DEADLINE_EXCEEDED, seen a response")
    except grpc.RpcError as error:
        expect("status", "DEADLINE_EXCEEDED", error.code().name)
    happens("the end of the call at the server", ended)
    expect("seconds left at the server are below 0.5", True, left[0] is not None and left[0] <= 0.5)


@row("H25", "grpcio, a cancelled call ends at the server, and the channel serves the next one", own=service(), quick=True)
def cancel(server):
    began, ended, _ = hanging(server)
    server.service.on("Echo", echo)
    client = Client(server)
    for _ in range(10):
        call = client.call("Hang", "unary_stream")(b"", timeout=patience())
        happens("the call at the server", began)
        call.cancel()
        happens("the end of the call at the server", ended)
        expect("status", "CANCELLED", call.code().name)
        began.clear(), ended.clear()
        expect("message", b"next", client.unary("Echo", b"next"))


@row("H19", "grpcio, 200 unary calls at once: on one channel, and on two while the server holds them all", own=service())
def calls_200(server):
    server.service.on("Echo", echo)
    barrier = threading.Barrier(200)

    def held(message, _):
        barrier.wait(patience())
        return message
    server.service.on("Held", held)
    first, second = Client(server), Client(server)
    for name, clients in (("Echo", [first]), ("Held", [first, second])):
        calls = [clients[number % len(clients)].call(name).future(b"%d" % number, timeout=patience()) for number in range(200)]
        expect("messages", [b"%d" % number for number in range(200)], [call.result() for call in calls])


@row("H12", "grpcio, each error of the server with its text and metadata: alone, and behind messages", own=service(), quick=True)
def errors(server):
    def fail(message, context):
        context.set_trailing_metadata((("x-why-bin", b"\0\1"),))
        context.abort([code for code in grpc.StatusCode if code.name == message.decode()][0], "Gr\u00fc\u00dfe: 100 %, \u4f60\n\"")

    def fail_later(message, context):
        yield from (b"one", b"two")
        fail(message, context)
    server.service.on("Fail", fail)
    server.service.on("FailLater", fail_later, "unary_stream")
    client = Client(server)
    text = "Gr\u00fc\u00dfe: 100 %, \u4f60\n\""
    codes = [code.name for code in grpc.StatusCode if code.name not in ("OK", "UNAUTHENTICATED")]
    for code in codes:
        error = client.fails(code, "Fail", code.encode())
        # Fields that a proxy adds to a head, such as date, are metadata too.
        metadata = [tuple(pair) for pair in error.trailing_metadata() if pair[0].startswith("x-")]
        expect("text and metadata", (text, [("x-why-bin", b"\0\1")]), (error.details(), metadata))
    for code in [*codes, "UNAUTHENTICATED"]:
        call, seen = client.call("FailLater", "unary_stream")(code.encode(), timeout=patience()), []
        try:
            for message in call:
                seen.append(message)
        except grpc.RpcError as error:
            expect("messages, status and text", ([b"one", b"two"], code, text), (seen, error.code().name, error.details()))
        else:
            raise Failure(f"expected {code}, seen a clean end")
    expect("a method that is not there", "UNIMPLEMENTED", client.fails("UNIMPLEMENTED", "None").code().name)


@row("H20", "grpcio, messages of 5 MiB and 20 MiB up and down, and 10 of 2 MiB at once", own=service())
def large(server):
    server.service.on("Echo", echo)
    client = Client(server)
    for size in (5 << 20, 20 << 20):
        message = bytes(range(256)) * (size // 256)
        expect(f"{size} bytes", True, client.unary("Echo", message) == message)
    message = bytes(range(256)) * (8 << 10)
    calls = [client.call("Echo").future(message, timeout=patience()) for _ in range(10)]
    expect("10 at once", [True] * 10, [call.result() == message for call in calls])


@row("H12", "grpcio, messages in gzip both ways: zeros of 4 MiB are a few KiB on the wire", own=service(
    compression=grpc and grpc.Compression.Gzip))
def gzip(server):
    server.service.on("Echo", echo)
    client = Client(server, compression=grpc.Compression.Gzip)
    expect("message", True, client.unary("Echo", bytes(4 << 20)) == bytes(4 << 20))
    if server.name == "lanyard":
        quickly("the access log's line", lambda: access_lines(server))
        (line,) = access_lines(server)
        expect("bytes of the response are fewer than 20,000, protocol", (True, "h2"), (line["bytes"] < 20_000, line["protocol"]))


def access_lines(server, path="/checks.Service"):
    lines = [json.loads(line) for line in server.log_text().splitlines() if line.endswith("}") and '"event":"access"' in line]
    return [line for line in lines if line.get("path", "").startswith(path)]


@row("H29", "grpcio with max_connection_age of 400 ms: 4 clients call until 6 connections have ended; no call fails, nor a long stream",
     own=service(options=[("grpc.max_connection_age_ms", 400), ("grpc.max_connection_age_grace_ms", 20_000)]))
def connection_age(server):
    peers, done = set(), threading.Event()

    def peer(message, context):
        peers.add(context.peer())
        return message

    def tick(_, context):
        while not done.wait(0.05) and context.is_active():
            yield b"tick"
        yield b"end"
    server.service.on("Peer", peer)
    server.service.on("Tick", tick, "unary_stream")
    client = Client(server)
    stream = client.call("Tick", "unary_stream")(b"", timeout=3 * patience())
    next(stream)
    clients = [client, *(Client(server) for _ in range(3))]

    def work(client):
        count, limit = 0, time.monotonic() + patience()
        while len(peers) < 7:
            if time.monotonic() > limit:
                raise Failure(f"expected 7 connections at the server, seen {len(peers)}")
            expect("message", b"x", client.unary("Peer", b"x"))
            count += 1
        return count
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            counts = list(pool.map(work, clients))
    finally:
        done.set()
    expect("the stream's last message", b"end", list(stream)[-1])
    if min(counts) < 5:
        raise Failure(f"expected many calls of each client, seen {counts}")


KEEPALIVE = [("grpc.keepalive_time_ms", 300), ("grpc.keepalive_timeout_ms", 5000), ("grpc.keepalive_permit_without_calls", 1),
             ("grpc.http2.max_pings_without_data", 0), ("grpc.http2.min_recv_ping_interval_without_data_ms", 100),
             ("grpc.http2.max_ping_strikes", 0)]


@row("H32", "grpcio with keepalive of 300 ms at both ends: PINGs get their ACKs, with and without a call, and no connection is lost",
     own=service(options=KEEPALIVE, tapped=True))
def keepalive(server):
    server.service.on("Talk", lambda messages, _: messages, "stream_stream")
    tap, upstream = Tap(server, server.plain), server.service.tap
    client = Client(server, port=tap.port, options=[*KEEPALIVE, ("grpc.default_authority", server.authority)])
    sent = queue.Queue()
    received = client.call("Talk", "stream_stream")(iter(sent.get, None), timeout=3 * patience())

    def pings():
        return tap.counts["up", "PING"], tap.counts["down", "PING ACK"], upstream.counts["down", "PING"], upstream.counts["up", "PING ACK"]
    for message in (b"one", b"two", None):
        sent.put(message)
        if message:
            expect("message", message, next(received))
        else:
            expect("the rest", [], list(received))
        before = pings()
        quickly(f"3 PINGs more in each direction than {before}, and their ACKs",
                lambda before=before: all(now >= then + 3 for now, then in zip(pings(), before)))
    server.service.on("Echo", echo)
    expect("message", b"x", client.unary("Echo", b"x"))
    expect("connections of the client, and to the server", (1, 1), (tap.connections, upstream.connections))
    if server.name == "lanyard":
        expect("PINGs of Lanyard", (0, 0), (tap.counts["down", "PING"], upstream.counts["up", "PING"]))


@row("H44", "grpcio: 14 where the upstream is down, 7 where the route denies, each with a text; wait_for_ready changes nothing")
def own_errors(server):
    client = Client(server)
    for code, name in (("UNAVAILABLE", "/down/x"), ("PERMISSION_DENIED", "/denied/secret")):
        for _ in range(3):
            error = client.fails(code, name)
            expect("there is a text", True, len(error.details()) > 10 and "Stream removed" not in error.details())
    client.fails("UNAVAILABLE", "/down/x", wait_for_ready=True)


@row("H44", "grpcio: no route is 12", own={"no_default": True}, quick=True)
def own_no_route(server):
    client = Client(server)
    expect("there is a text", True, "route" in client.fails("UNIMPLEMENTED", "/checks.None/None").details())


@row("H44", "grpcio: a login that is missing is 16, and its text names the login", own={"signed_out": True})
def own_login(server):
    client = Client(server)
    expect("there is a text", True, "login" in client.fails("UNAUTHENTICATED", "/signed-out/x").details().lower())


@row("H13", "grpcio: a call to an HTTP/1.1 upstream is 14")
def own_http1(server):
    client = Client(server)
    client.fails("UNAVAILABLE", "/checks.Service/Plain")
    expect("requests at the upstream", False, any("/checks" in path for path in server.upstream.exchanges))


@row("H45", "grpcio: a call that the server refuses with 16 comes again with the new token; unary, and a stream from the client",
     own=service())
def replay(server):
    tokens = []

    def refuse_first(context):
        tokens.append(dict(context.invocation_metadata())["authorization"])
        if len(tokens) == 1:
            server.renew_token()
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "an old token")

    def unary(message, context):
        refuse_first(context)
        return message

    def join(messages, context):
        messages = list(messages)
        refuse_first(context)
        return b",".join(messages)
    server.service.on("Unary", unary)
    server.service.on("Join", join, "stream_unary")
    client = Client(server)
    for name, kind, sent, response in (("Unary", "unary_unary", b"held", b"held"), ("Join", "stream_unary", None, b"a,b,c")):
        old = server.token
        tokens.clear()
        expect("response", response, client.call(name, kind)(sent or iter([b"a", b"b", b"c"]), timeout=patience()))
        expect("tokens", [f"Bearer {old}", f"Bearer {server.token}"], tokens)


@row("H45", "grpcio: a refusal with 16 passes with the server's text if there is no newer token; one behind a message is not sent again",
     own=service())
def replay_refused(server):
    def refuse(_, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "never")

    def refuse_later(_, context):
        yield b"one"
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "later")
    server.service.on("Refuse", refuse)
    server.service.on("RefuseLater", refuse_later, "unary_stream")
    client = Client(server)
    expect("text", "never", client.fails("UNAUTHENTICATED", "Refuse").details())
    expect("calls at the server", 1, len(server.service.seen))
    server.service.seen.clear()
    call = client.call("RefuseLater", "unary_stream")(b"", timeout=patience())
    expect("message", b"one", next(call))
    try:
        next(call)
        raise Failure("expected UNAUTHENTICATED, seen a message")
    except grpc.RpcError as error:
        expect("status and text", ("UNAUTHENTICATED", "later"), (error.code().name, error.details()))
    expect("calls at the server", 1, len(server.service.seen))


PORT = []


def reserved(server):
    PORT[:] = [free_port()]
    return PORT[0]


@row("H35", "grpcio: 14 while the server is away, and the next call passes when it is back; three times on one channel",
     own={"routes": [("service", "/checks.Service", reserved, {"protocol": "http2"})]})
def restart(server):
    client = Client(server)
    for _ in range(3):
        client.fails("UNAVAILABLE", "Echo", b"x")
        running = Service(server, port=PORT[0])
        running.on("Echo", echo)
        expect("message", b"x", client.unary("Echo", b"x"))
        server.programs.remove(running)
        running.server.stop(0).wait(patience())


@row("H30", "grpcio: a drain lets a stream complete, and its client connects elsewhere", own=service())
def drain(server):
    done = threading.Event()

    def tick(_, context):
        while not done.wait(0.02) and context.is_active():
            yield b"tick"
        yield b"end"
    server.service.on("Tick", tick, "unary_stream")
    client = Client(server)
    stream = client.call("Tick", "unary_stream")(b"", timeout=patience())
    next(stream)
    server.drain()
    states = queue.Queue()
    client.channel.subscribe(states.put)
    # GOAWAY has come as soon as the channel has no connection.
    state = None
    while state != grpc.ChannelConnectivity.IDLE:
        state = states.get(timeout=patience())
    for _ in range(20):
        expect("message", b"tick", next(stream))
    done.set()
    expect("the last message", b"end", list(stream)[-1])
    expect("exit", True, server.process.wait(patience()) in (0, 143, -15))
