#!/usr/bin/env bash
# A ws:// handshake goes to the proxy of https_proxy.
#
# Version    websockets 17.4, websocket-client 1.9.2, aiohttp 3.14.5 with trust_env (PyPI)
# Behaviour  The target is ws://127.0.0.1:PORT, without TLS. websockets takes https_proxy first, http_proxy only if that is not set, and
#            sends CONNECT. websocket-client takes http_proxy alone. aiohttp takes neither for ws://, though it does for http://. So with
#            both variables set three clients on one machine reach a local target in three ways, and no_proxy with a network keeps one of
#            the two that look at it away from the proxy. websocket-client adds an Origin field with the target's own origin, as no other
#            of them does.
# Lanyard    is such a target. It takes an Origin that names its own listener (http-requests.md 4.4).
# Seen       28 November 2026, the lines below: to whom each connects, and its first line
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check websockets==17.4 websocket-client==1.9.2 aiohttp==3.14.5

cat >"$folder/expected" <<'TEXT'
no variable
  websockets        target       GET
  websocket-client  target       GET with Origin: the target
  aiohttp           target       GET
http_proxy
  websockets        http_proxy   CONNECT
  websocket-client  http_proxy   CONNECT
  aiohttp           target       GET
https_proxy
  websockets        https_proxy  CONNECT
  websocket-client  target       GET with Origin: the target
  aiohttp           target       GET
http_proxy https_proxy
  websockets        https_proxy  CONNECT
  websocket-client  http_proxy   CONNECT
  aiohttp           target       GET
http_proxy https_proxy no_proxy=127.0.0.0/8
  websockets        https_proxy  CONNECT
  websocket-client  target       GET with Origin: the target
  aiohttp           target       GET
TEXT

cat >"$folder/try.py" <<'PYTHON'
import asyncio
import os
import socket
import threading

import aiohttp
import websocket
import websockets.sync.client

seen = []


def listener(name):
    """A peer that notes who was connected to, and refuses; its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            connection, _ = listening.accept()
            head = connection.recv(4096).decode()
            method = head.split()[0]
            if f"origin: http://127.0.0.1:{target}\r\n" in head.lower():
                method += " with Origin: the target"
            seen.append(f"{name:11}  {method}")
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1]


target = listener("target")
proxies = {name: listener(name) for name in ("http_proxy", "https_proxy")}
url = f"ws://127.0.0.1:{target}/"


async def with_aiohttp():
    async with aiohttp.ClientSession(trust_env=True) as session, session.ws_connect(url):
        pass


clients = {
    "websockets": lambda: websockets.sync.client.connect(url, open_timeout=10),
    "websocket-client": lambda: websocket.create_connection(url, timeout=10),
    "aiohttp": lambda: asyncio.run(with_aiohttp()),
}
for variables in ([], ["http_proxy"], ["https_proxy"], list(proxies), [*proxies, "no_proxy=127.0.0.0/8"]):
    for name in [*proxies, "no_proxy"]:
        os.environ.pop(name, None)
    for variable in variables:
        name, _, value = variable.partition("=")
        os.environ[name] = value or f"http://127.0.0.1:{proxies[name]}"
    print(*variables or ["no variable"])
    for name, connect in clients.items():
        seen.clear()
        try:
            connect()
        except (websockets.exceptions.WebSocketException, websocket.WebSocketException, aiohttp.ClientError):
            pass
        print(f"  {name:16}  {seen[0]}")
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen"
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
