#!/usr/bin/env bash
# curl that speaks HTTP/2 at once cannot use its connection for a second request.
#
# Version    curl and libcurl4 7.88.1-10+deb12u15 (Debian 12). Server: Hypercorn 0.18.0 with h2 4.4.1 (PyPI)
# Behaviour  With --http2-prior-knowledge the first request succeeds. The second one of the same command, for another URL of the server or
#            for the place that a redirect names, is to go over the same connection (RFC 9113, section 9.1), and fails before it is sent:
#            "Error in the HTTP2 framing layer", exit status 16. The server sees one request, and no error. HTTP/1.1 serves both, and so
#            does HTTP/2 with a command for each URL.
# Lanyard    Met in its tests of HTTP/2 clients. It behaves as the server here, and so does nghttpx 1.52.
# Seen       29 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait; rm -rf "$folder"' EXIT
cd "$folder"
for package in curl libcurl4; do
    apt-get download --quiet=2 "$package=7.88.1-10+deb12u15" 2>/dev/null || { echo "There is no $package of this version." >&2; exit 2; }
done
for file in *.deb; do dpkg -x "$file" root; done
library=$(dirname "$(find root -name 'libcurl.so.4' | head -n 1)")
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check Hypercorn==0.18.0 h2==4.4.1

cat >expected <<'TEXT'
HTTP/2, two URLs: 200, 000; exit status 16; the server saw /a
HTTP/2, a redirect: 302; exit status 16; the server saw /moved
HTTP/1.1, two URLs: 200, 200; exit status 0; the server saw /a /b
HTTP/1.1, a redirect: 200; exit status 0; the server saw /moved /a
TEXT

cat >site.py <<'PYTHON'
async def application(scope, receive, send):
    if scope["type"] != "http":
        return
    with open("seen", "a") as file:
        file.write(f" {scope['path']}")
    moved = scope["path"] == "/moved"
    fields = [(b"location", b"/a")] if moved else []
    await send({"type": "http.response.start", "status": 302 if moved else 200, "headers": fields})
    await send({"type": "http.response.body", "body": b"text"})
PYTHON
mv site.py plain_site.py
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
venv/bin/hypercorn --bind "127.0.0.1:$port" plain_site:application >server.log 2>&1 &
server=$!
for _ in $(seq 300); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
done

# try NAME CURL_ARGUMENTS...
try() {
    name=$1
    shift
    : >seen
    status=0
    LD_LIBRARY_PATH=$library root/usr/bin/curl --silent --noproxy '*' -w '%{http_code}\n' "$@" -o /dev/null >codes 2>/dev/null || status=$?
    printf '%s: %s; exit status %s; the server saw%s\n' "$name" "$(paste -sd, codes | sed 's/,/, /g')" "$status" "$(cat seen)"
}
url=http://127.0.0.1:$port
{
    try "HTTP/2, two URLs" --http2-prior-knowledge "$url/a" "$url/b" -o /dev/null
    try "HTTP/2, a redirect" --http2-prior-knowledge -L "$url/moved"
    try "HTTP/1.1, two URLs" --http1.1 "$url/a" "$url/b" -o /dev/null
    try "HTTP/1.1, a redirect" --http1.1 -L "$url/moved"
} >output
cat output
diff expected output && echo "as described"
