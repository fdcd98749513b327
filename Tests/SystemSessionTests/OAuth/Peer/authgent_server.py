"""Runs authgent-server (from PyPI) on loopback until it is ended: token exchange (RFC 8693).

    authgent_server.py --python INTERPRETER --work FOLDER

The first line says the port. FOLDER has client_id and client_secret of a client that may exchange, and in subject and actor two access
tokens of another client.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    work = options.work
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ, "AUTHGENT_SERVER_URL": base, "AUTHGENT_DATABASE_URL": f"sqlite+aiosqlite:///{work}/idp.db",
        "AUTHGENT_SECRET_KEY": "0123456789abcdef" * 4,
    }
    program = os.path.join(os.path.dirname(options.python), "authgent-server")
    process = subprocess.Popen(
        [options.python, program, "run", "--host", "127.0.0.1", "--port", str(port)], env=environment, cwd=work,
        stdout=subprocess.DEVNULL, stderr=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())

    def post(path, body, kind):
        request = urllib.request.Request(base + path, body.encode(), {"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    while process.poll() is None:
        try:
            urllib.request.urlopen(f"{base}/.well-known/oauth-authorization-server", timeout=60).read()
            break
        except OSError:
            time.sleep(0.05)

    def register(name):
        body = {"client_name": name, "grant_types": ["client_credentials", EXCHANGE], "scope": "api"}
        return post("/register", json.dumps(body), "application/json")

    def token(client):
        form = {
            "grant_type": "client_credentials", "client_id": client["client_id"], "client_secret": client["client_secret"], "scope": "api",
        }
        return post("/token", urllib.parse.urlencode(form), "application/x-www-form-urlencoded")["access_token"]

    client, other, third = register("lanyard"), register("subject"), register("actor")
    values = {
        "client_id": client["client_id"], "client_secret": client["client_secret"], "subject": token(other), "actor": token(third),
    }
    for name, value in values.items():
        with open(f"{work}/{name}", "w", encoding="utf-8") as file:
            file.write(value)
    print(f"port {port}", flush=True)
    process.wait()


main()
