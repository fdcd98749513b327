#!/usr/bin/env bash
# The server says how long a call with a timeout of one second takes.
#
# Version    urllib3 2.8.0, anthropic 2.14.0, openai 3.57.0 (PyPI)
# Behaviour  503 with Retry-After to each request, and a timeout of 1 s for the call. The timeout is that of one attempt. urllib3 sleeps
#            for the whole Retry-After before each of its 3 retries, in the thread that made the call, and logs nothing at the ordinary
#            level. So does anthropic, for up to 49 days before each of its 2 retries. openai waits for up to 120 s; beyond that it makes
#            no retry at all and raises at once. So two of three clients wait for as long as the server says, and one gives up sooner
#            the longer it is asked to wait.
# Lanyard    sends Retry-After with its own 503.
# Seen       28 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check urllib3==2.8.0 anthropic==2.14.0 openai==3.57.0

cat >"$folder/expected" <<'TEXT'
urllib3, Retry-After 3: 4 requests, 9 s
anthropic, Retry-After 3: 3 requests, 6 s
openai, Retry-After 3: 3 requests, 6 s
anthropic, Retry-After 121: 1 request, still waiting after 10 s
openai, Retry-After 121: 1 request, 0 s
TEXT

cat >"$folder/try.py" <<'PYTHON'
import http.server
import threading
import time

import anthropic
import openai
import urllib3

requests, retry_after = [], "0"


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        requests.append(time.monotonic())
        self.send_response(503)
        self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
message = [{"role": "user", "content": "hello"}]


def with_urllib3():
    urllib3.PoolManager().request("GET", url, timeout=1.0)


def with_anthropic():
    anthropic.Anthropic(base_url=url, api_key="k", timeout=1.0).messages.create(model="m", max_tokens=9, messages=message)


def with_openai():
    openai.OpenAI(base_url=url, api_key="k", timeout=1.0).chat.completions.create(model="m", messages=message)


def attempt(call):
    try:
        call()
    except (anthropic.APIStatusError, openai.APIStatusError):
        pass


def show(name, call, seconds):
    global retry_after
    retry_after = str(seconds)
    requests.clear()
    started = time.monotonic()
    thread = threading.Thread(target=attempt, args=(call,), daemon=True)
    thread.start()
    thread.join(10)
    count = f"{len(requests)} request{'s' if len(requests) > 1 else ''}"
    took = "still waiting after 10 s" if thread.is_alive() else f"{int(time.monotonic() - started)} s"
    print(f"{name}, Retry-After {seconds}: {count}, {took}", flush=True)


show("urllib3", with_urllib3, 3)
show("anthropic", with_anthropic, 3)
show("openai", with_openai, 3)
show("anthropic", with_anthropic, 121)
show("openai", with_openai, 121)
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen"
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
