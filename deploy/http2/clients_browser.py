"""A browser: Debian's chromium without a window, over TLS."""

import base64
import hashlib
import json
import tempfile
import urllib.parse

from clients_grpc import access_lines
from multiplexed import ok
from programs import Program, accepted, upstreams
from rows import expect, patience, row
from servers import free_port
from upstream import MIB, Gate, endless, head
from upstream import ok as ok_plain

# The page reports how its script has ended.
PAGE = """<!doctype html><title>A page</title><link rel="icon" href="data:,"><script>
const run = async () => { %s }
run().catch(error => `failed: ${error}`).then(text => fetch(`%s?${encodeURIComponent(text)}`))
</script>"""


class Page:
    """A page in the browser, which runs until the row ends."""

    def __init__(self, server, script):
        self.server, self.report = server, server.upstream.on(ok_plain)
        text = (PAGE % (script, self.report)).encode()

        def reply(exchange):
            exchange.read_body()
            exchange.reply(200, [("Content-Type", "text/html; charset=utf-8")], text)
        self.program = Program(
            server, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
            "--no-first-run", "--disable-background-networking", "--ignore-certificate-errors", "--remote-debugging-port=0",
            f"--user-data-dir={tempfile.mkdtemp(dir=server.folder)}", f"https://localhost:{server.secure}{server.upstream.on(reply)}")

    def result(self):
        seen = self.program.until("the page's report", lambda: self.server.upstream.seen(self.report), 3 * patience())
        return urllib.parse.unquote(seen[0].target.partition("?")[2])


@upstreams("H1", "chromium: a page whose script fetches 100 things at once, all of them on one connection of h2")
def resources(server, side):
    gate = Gate()
    path = server.upstream.on(gate) if side.name == "http1" else server.h2.on()
    page = Page(server, """
        const texts = await Promise.all(Array.from({length: 100}, (_, n) => fetch(`%s?n=${n}`).then(each => each.text())))
        const entries = performance.getEntriesByType("resource").filter(each => each.name.includes("%s?"))
        const protocols = [...new Set(entries.map(each => each.nextHopProtocol))]
        return [texts.filter(each => each === "ok").length, entries.length, ...protocols].join(" ")
        """ % (path, path))
    page.program.until("100 requests at once at the upstream", lambda: len(side.requests(path)) == 100, 3 * patience())
    connections = accepted(server.secure)
    gate.open()
    if side.name == "http2":
        for request in side.requests(path):
            ok(request)
    expect("responses, entries and protocol", "100 100 h2", page.result())
    expect("connections while 100 requests wait", 1, connections)
    if server.name == "lanyard":
        server.h2.until("100 lines in the access log", lambda: len(access_lines(server, path)) == 100)
        expect("protocols in the access log", {"h2"}, {line.get("protocol") for line in access_lines(server, path)})


def read_message(exchange):
    """A short WebSocket frame of a client, unmasked: its first byte and its content."""
    def take(size):
        return b"".join(exchange.peer.read(1) for _ in range(size))
    first, length = take(2)
    mask = take(4)
    return first, bytes(letter ^ mask[at % 4] for at, letter in enumerate(take(length & 127)))


def talk(exchange):
    """A WebSocket that sends one message back, and then takes part in the close (RFC 6455)."""
    accept = hashlib.sha1((exchange.values("sec-websocket-key")[0] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    fields = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(accept).decode())]
    exchange.send(head(101, *fields))
    for kind in (0x81, 0x88):
        first, content = read_message(exchange)
        expect("first byte of the frame", kind, first)
        exchange.send(bytes([kind, len(content)]), content)
    exchange.close()


def events(exchange):
    exchange.read_body()
    exchange.send(head(200, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")))
    for number in range(5):
        exchange.chunk(b"data: %d\n\n" % number)
    exchange.wait_for_end()


def with_origin(server):
    """Pages of the listener with TLS may upload (4.4)."""
    port, (certificate, key) = free_port(), server.certificate
    return {"listeners": [{"address": "127.0.0.1:0"}, {
        "address": f"127.0.0.1:{port}", "tls": {"certificate_file": certificate, "key_file": key},
        "allowed_origins": [f"https://localhost:{port}"]}]}


@row("4.4", "chromium: an upload and a WebSocket of a page whose origin is not in allowed_origins are refused", peer="has no such rule")
def origin(server):
    path = server.upstream.on(ok_plain)
    page = Page(server, """
        const upload = await fetch("%s", {method: "POST", body: "some"})
        const socket = new WebSocket(`wss://${location.host}%s`)
        return [upload.status, await new Promise(resolve => { socket.onopen = socket.onerror = event => resolve(event.type) })]
        """ % (path, path))
    expect("the upload's status, and the WebSocket", "403,error", page.result())
    expect("requests at the upstream", 0, len(server.upstream.seen(path)))


@row("H5", "chromium: an upload of 1 MiB, server-sent events, a cancelled download, a cookie, and a WebSocket, which takes HTTP/1.1",
     own={"keys": with_origin})
def page_parts(server):
    def upload(exchange):
        body = exchange.read_body()
        exchange.reply(200, [("Set-Cookie", "one=1; Path=/; Secure; HttpOnly")], f"{len(body)}".encode())

    paths = [server.upstream.on(script) for script in (upload, events, endless, talk)]
    page = Page(server, """
        const [upload, events, endless, talk] = %s
        const seen = [await fetch(upload, {method: "POST", body: new Uint8Array(%d)}).then(each => each.text())]
        seen.push(await new Promise((resolve, reject) => {
            const source = new EventSource(events), data = []
            source.onerror = () => reject(new Error("events"))
            source.onmessage = event => { data.push(event.data); if (data.length === 5) { source.close(); resolve(data.join("")) } }
        }))
        const abort = new AbortController(), reader = (await fetch(endless, {signal: abort.signal})).body.getReader()
        await reader.read(); abort.abort()
        seen.push(await new Promise((resolve, reject) => {
            const socket = new WebSocket(`wss://${location.host}${talk}`)
            socket.onopen = () => socket.send("hello")
            socket.onerror = () => reject(new Error("WebSocket"))
            socket.onmessage = event => { resolve(event.data); socket.close() }
        }))
        return seen.join(" ")
        """ % (json.dumps(paths), MIB))
    expect("what the page has seen", f"{MIB} 01234 hello", page.result())
    expect("the cookie", ["one=1"], server.upstream.seen(paths[1])[0].values("cookie"))
    server.h2.until("the end of the cancelled download", lambda: server.upstream.seen(paths[2])[0].is_cut)
    if server.name == "lanyard":
        def protocols():
            return [[line.get("protocol") for line in access_lines(server, path)] for path in paths]
        server.h2.until("the access log's lines", lambda: all(protocols()))
        expect("protocols in the access log", [["h2"], ["h2"], ["h2"], [None]], protocols())
