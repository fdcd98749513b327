"""A protected resource over https whose access tokens are bound to certificates (RFC 8705 §3).

    bound_resource.py FOLDER      FOLDER has ca.pem, server.pem and server.key

A client needs a certificate of ca.pem. The response is 200 if the token is bound to this certificate, else 401; its
body says what the token names and what the client has shown. The token's signature is not verified.
"""

import base64
import hashlib
import http.server
import json
import ssl
import sys


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


class Resource(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        shown = hashlib.sha256(self.connection.getpeercert(binary_form=True)).digest()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        named = json.loads(decoded(token.split(".")[1])).get("cnf", {}).get("x5t#S256", "")
        is_bound = decoded(named) == shown
        body = f"{named} {base64.urlsafe_b64encode(shown).decode().rstrip('=')}".encode()
        self.send_response(200 if is_bound else 401)
        if not is_bound:
            self.send_header("WWW-Authenticate", 'Bearer error="invalid_token"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    folder = sys.argv[1]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
    context.load_verify_locations(f"{folder}/ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Resource)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"port {server.server_address[1]}", flush=True)
    server.serve_forever()


main()
