#!/usr/bin/env bash
# Whether a request to 127.0.0.1 goes through http_proxy is decided by six readings of no_proxy.
#
# Version    requests 2.32.5, httpx 0.28.1, aiohttp 3.14.5 (trust_env), grpcio 1.85.1 (PyPI), urllib of CPython 3.11,
#            curl 7.88.1 (Debian 12)
# Behaviour  http_proxy is set, the target is http://127.0.0.1:PORT. None of them leaves loopback out by itself, grpcio's plain text
#            channel included, which then sends CONNECT. The bare address is the only entry that all of them understand. A network
#            (127.0.0.0/8) counts for requests, curl and grpcio, and is no error for the others: it matches nothing. An address with
#            a port counts for httpx and urllib alone. A leading dot makes the end of an address a suffix for all but curl. `*` is
#            everything for all but grpcio. `127.*` and `localhost` mean nothing here.
# Lanyard    is such a target. Its own calls to identity services read none of these variables unless an identity wants them.
# Seen       28 November 2026, the lines below: which of them connect to the target itself (x), or to the proxy (-)
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
command -v curl >/dev/null || { echo "curl is needed: apt-get install curl" >&2; exit 2; }
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check requests==2.32.5 urllib3==2.8.0 httpx==0.28.1 aiohttp==3.14.5 \
    grpcio==1.85.1

cat >"$folder/expected" <<'TEXT'
no_proxy          requests  httpx  urllib  aiohttp  curl  grpcio
(not set)         -         -      -       -        -     -
127.0.0.1         x         x      x       x        x     x
127.0.0.0/8       x         -      -       -        x     x
127.0.0.1:PORT    -         x      x       -        -     -
.0.0.1            x         x      x       x        -     x
*                 x         x      x       x        x     -
127.*             -         -      -       -        -     -
localhost         -         -      -       -        -     -
TEXT

cat >"$folder/try.py" <<'PYTHON'
import asyncio
import os
import socket
import subprocess
import threading
import urllib.request

import aiohttp
import grpc
import httpx
import requests

connected = []


def listener(name):
    """A peer that notes its name and responds with 200; its port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            connection, _ = listening.accept()
            connection.recv(4096)
            connected.append(name)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1]


proxy, target = listener("proxy"), listener("target")
url = f"http://127.0.0.1:{target}/"
os.environ["http_proxy"] = f"http://127.0.0.1:{proxy}"


async def with_aiohttp():
    async with aiohttp.ClientSession(trust_env=True) as session, session.get(url) as response:
        await response.read()


def with_grpcio():
    with grpc.insecure_channel(f"127.0.0.1:{target}") as channel:
        try:
            channel.unary_unary("/service/method")(b"", timeout=3)
        except grpc.RpcError:
            pass


clients = {
    "requests": lambda: requests.get(url, timeout=10),
    "httpx": lambda: httpx.get(url, timeout=10),
    "urllib": lambda: urllib.request.urlopen(url, timeout=10).read(),
    "aiohttp": lambda: asyncio.run(with_aiohttp()),
    "curl": lambda: subprocess.run(["curl", "-s", "-m", "10", url], check=True),
    "grpcio": with_grpcio,
}
print("no_proxy".ljust(18) + "  ".join(clients))
for entry in ["", "127.0.0.1", "127.0.0.0/8", "127.0.0.1:PORT", ".0.0.1", "*", "127.*", "localhost"]:
    os.environ.pop("no_proxy", None)
    if entry:
        os.environ["no_proxy"] = entry.replace("PORT", str(target))
    row = (entry or "(not set)").ljust(18)
    for name, get in clients.items():
        connected.clear()
        get()
        row += ("x" if connected[0] == "target" else "-").ljust(len(name) + 2)
    print(row.rstrip(), flush=True)
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen" 2>"$folder/log" ||
    { cat "$folder/log" >&2; exit 1; }
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
