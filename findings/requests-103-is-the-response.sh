#!/usr/bin/env bash
# An interim response is taken for the response.
#
# Version    requests 2.32.5 and urllib3 2.8.0 (PyPI), on CPython 3.11 (its http.client); beside them httpx 0.28.1 and aiohttp 3.14.5
# Behaviour  An upstream sends 103 (Early Hints, RFC 8297) and then 200 with a body. requests and urllib3 return the 103 as the response:
#            `ok` is true, the body is empty, and the 200 is never seen. Only 100 is skipped. The others return the 200. A client must
#            be able to parse 1xx responses that it did not ask for (RFC 9110, section 15.2).
# Lanyard    relays each 1xx to HTTP/1.1 clients (http-forwarding.md 11.5), so the client decides what it makes of one.
# Seen       28 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check requests==2.32.5 urllib3==2.8.0 httpx==0.28.1 aiohttp==3.14.5

cat >"$folder/expected" <<'TEXT'
requests 103 b'' ok True
urllib3 103 b''
httpx 200 b'hello'
aiohttp 200 b'hello'
TEXT

cat >"$folder/try.py" <<'PYTHON'
import asyncio
import http.server
import threading

import aiohttp
import httpx
import requests
import urllib3


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response_only(103)
        self.send_header("Link", "</style.css>; rel=preload; as=style")
        self.end_headers()
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *arguments):
        """requests closes a connection on which the 200 is unread."""


server = Server(("127.0.0.1", 0), Upstream)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"


async def with_aiohttp():
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.read()


response = requests.get(url, timeout=10)
print("requests", response.status_code, response.content, "ok", response.ok)
response = urllib3.PoolManager().request("GET", url, timeout=10, retries=False)
print("urllib3", response.status, response.data)
response = httpx.get(url)
print("httpx", response.status_code, response.content)
print("aiohttp", *asyncio.run(with_aiohttp()))
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen"
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
