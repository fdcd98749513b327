#!/usr/bin/env bash
# h2load counts each response of HTTP/1.1 without a reason phrase as failed.
#
# Version    h2load of nghttp2-client 1.52.0-1+deb12u3 (Debian 12), with libnghttp2-14 of the same version
# Behaviour  The reason phrase of a status line may be absent (RFC 9112, section 4), and a server that has its responses from HTTP/2, which
#            has no phrase, sends `HTTP/1.1 200 ` with nothing behind the space. h2load --h1 reads such responses whole, and says "failed"
#            of each, with no status: a load test of a good server looks like one that serves nothing. With any phrase all is well.
# Lanyard    Met when its upstream spoke HTTP/2 and its client HTTP/1.1. It writes the registered phrase now (ReasonPhrase.swift).
# Seen       29 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait; rm -rf "$folder"' EXIT
cd "$folder"
for package in nghttp2-client libnghttp2-14; do
    apt-get download --quiet=2 "$package=1.52.0-1+deb12u3" 2>/dev/null || { echo "There is no $package of this version." >&2; exit 2; }
done
# What h2load links with besides.
for package in libc-ares2=1.18.1-3 libev4=1:4.33-1 libjansson4=2.14-2 libjemalloc2=5.3.0-1; do
    apt-get download --quiet=2 "$package" 2>/dev/null || { echo "There is no $package." >&2; exit 2; }
done
for file in *.deb; do dpkg -x "$file" root; done
library=$(dirname "$(find root -name 'libnghttp2.so.14' | head -n 1)")

cat >expected <<'TEXT'
200 with OK: 20 succeeded, 0 failed, 20 2xx
200 without a phrase: 0 succeeded, 20 failed, 0 2xx
TEXT

cat >server.py <<'PYTHON'
import socket, sys, threading

line = sys.argv[1].encode()


def serve(connection):
    pending = b""
    while more := connection.recv(65536):
        pending += more
        while b"\r\n\r\n" in pending:
            pending = pending.split(b"\r\n\r\n", 1)[1]
            connection.sendall(b"HTTP/1.1 " + line + b"\r\nContent-Length: 2\r\n\r\nok")


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
PYTHON

# try NAME STATUS_AND_REASON
try() {
    python3 server.py "$2" >port &
    server=$!
    for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
    LD_LIBRARY_PATH=$library root/usr/bin/h2load --h1 -n 20 -c 2 "http://127.0.0.1:$(cat port)/" >out 2>&1
    printf '%s: %s succeeded, %s failed, %s 2xx\n' "$1" "$(sed -n 's/.* \([0-9]*\) succeeded.*/\1/p' out)" \
        "$(sed -n 's/.* \([0-9]*\) failed.*/\1/p' out)" "$(sed -n 's/^status codes: \([0-9]*\) 2xx.*/\1/p' out)"
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
    rm -f port
}
{
    try "200 with OK" "200 OK"
    try "200 without a phrase" "200 "
} >seen
cat seen
diff expected seen && echo "as described"
