#!/usr/bin/env python3
"""A relay before an App Services server that checks every request of a client.

    protocol_recorder.py --upstream http://127.0.0.1:PORT --app APP [--shape core|web] [--plant NAME]

Prints `port N`. `GET /recorder/report` returns `{"requests": ["POST /…", …], "deviations": ["…", …]}`. With `--plant` one
deviation of `planted.REQUESTS` is made of each request that it fits, before the check: the check must find it.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from request_schema import RequestChecker
from wire import Request, Response, WireError, exchange

BODY_BYTES_MAX = 1 << 20
OWN_FIELDS = {"connection", "content-length", "transfer-encoding", "keep-alive"}


class Relay:
    """Listens at a free port of 127.0.0.1, and passes each request to the upstream.

    `alter_request` and `alter_response` change what passes. Requests are checked after they were changed.
    """

    def __init__(self, upstream, checker=None, alter_request=None, alter_response=None):
        self.upstream, self.checker = upstream, checker
        self.alter_request, self.alter_response = alter_request, alter_response
        self.requests, self.deviations = [], []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.base_url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        # The interval is how long the end may take.
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def serve(self):
        self._server.serve_forever()

    def report(self):
        with self._lock:
            return {
                "requests": [str(request) for request in self.requests],
                "deviations": [f"{request}: {deviation}" for request, deviation in self.deviations]}

    def pass_on(self, request):
        """The response for a request that came."""
        if self.alter_request:
            self.alter_request(request)
        with self._lock:
            self.requests.append(request)
            if self.checker:
                self.deviations += [(request, deviation) for deviation in self.checker.check(request)]
        forwarded = Request(
            request.method, request.target, [field for field in request.fields if field[0].lower() not in OWN_FIELDS], request.body)
        response = exchange(self.upstream, forwarded)
        if self.alter_response:
            self.alter_response(request, response)
        return response

    def _handler(relay):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def log_message(self, *_):
                pass

            def handle_any(self):
                request = Request(self.command, self.path, list(self.headers.items()), self.read_body(), self.request_version)
                if request.path == "/recorder/report":
                    response = Response(request, 200, [("Content-Type", "application/json")], json.dumps(relay.report()).encode())
                else:
                    try:
                        response = relay.pass_on(request)
                    except WireError as error:
                        response = Response(request, 502, [("Content-Type", "text/plain")], str(error).encode())
                self.write(response)

            def read_body(self):
                if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
                    return self.read_chunks()
                return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), BODY_BYTES_MAX))

            def read_chunks(self):
                body = b""
                while True:
                    count = int(self.rfile.readline().split(b";")[0], 16)
                    body += self.rfile.read(count)
                    self.rfile.readline()
                    if count == 0 or len(body) > BODY_BYTES_MAX:
                        return body

            def write(self, response):
                self.send_response_only(response.status, response.reason or None)
                for name, value in response.fields:
                    if name.lower() not in OWN_FIELDS:
                        self.send_header(name, value)
                if response.status != 204:
                    self.send_header("Content-Length", str(len(response.body)))
                self.end_headers()
                self.wfile.write(response.body)

            do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = do_HEAD = handle_any

        return Handler


def main():
    import planted

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--app", required=True)
    parser.add_argument("--shape", choices=["core", "web"], default="core")
    parser.add_argument("--plant", choices=[plant.name for plant in planted.REQUESTS])
    chosen = parser.parse_args()
    plant = next((plant for plant in planted.REQUESTS if plant.name == chosen.plant), None)
    relay = Relay(chosen.upstream, RequestChecker(chosen.app, chosen.shape), alter_request=plant.alter_request if plant else None)
    print("port", relay.port, flush=True)
    relay.serve()


if __name__ == "__main__":
    main()
