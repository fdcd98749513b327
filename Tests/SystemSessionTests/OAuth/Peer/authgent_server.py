"""Runs authgent-server (from PyPI) on loopback until it is ended: token exchange (RFC 8693), one-use refresh tokens.

    authgent_server.py --python INTERPRETER --work FOLDER [--lifetime SECONDS] [--resource]

The first line says the port. FOLDER has client_id and client_secret of a client that may exchange, in subject and actor two access tokens
of another client, and in refresh_token the beginning of a session of the client. The released server ignores `resource` in a refresh;
with --resource the access token of a refresh is for that resource (RFC 8707 section 2.2), as authgent_app.py says.
"""

import argparse
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import urllib.request

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


def begin_session(database, client):
    """A refresh token, as the server's authorization endpoint leaves one for a user who has consented."""
    token = "first-refresh-token"
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO refresh_tokens (jti, client_id, subject, scope, family_id, used, expires_at, created_at) "
            "VALUES (?, ?, 'user:alice', 'api', 'family', 0, '2100-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000')",
            (token, client))
    return token


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--lifetime", type=int, default=900)
    parser.add_argument("--resource", action="store_true")
    options = parser.parse_args()
    work = options.work
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ, "AUTHGENT_SERVER_URL": base, "AUTHGENT_DATABASE_URL": f"sqlite+aiosqlite:///{work}/idp.db",
        "AUTHGENT_SECRET_KEY": "0123456789abcdef" * 4, "AUTHGENT_ACCESS_TOKEN_TTL": str(options.lifetime),
    }
    program = [os.path.join(os.path.dirname(options.python), "authgent-server"), "run", "--host", "127.0.0.1", "--port", str(port)]
    if options.resource:
        # Without this folder among the modules: it has a script of the server's own name.
        program = ["-P", os.path.join(os.path.dirname(os.path.abspath(__file__)), "authgent_app.py"), str(port)]
    process = subprocess.Popen(
        [options.python, *program], env=environment, cwd=work, stdout=subprocess.DEVNULL, stderr=sys.stderr)
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
        body = {"client_name": name, "grant_types": ["client_credentials", "refresh_token", EXCHANGE], "scope": "api"}
        return post("/register", json.dumps(body), "application/json")

    def token(client):
        form = {
            "grant_type": "client_credentials", "client_id": client["client_id"], "client_secret": client["client_secret"], "scope": "api",
        }
        return post("/token", urllib.parse.urlencode(form), "application/x-www-form-urlencoded")["access_token"]

    client, other, third = register("lanyard"), register("subject"), register("actor")
    refresh_token = begin_session(f"{work}/idp.db", client["client_id"])
    values = {
        "refresh_token": refresh_token, "client_id": client["client_id"], "client_secret": client["client_secret"],
        "subject": token(other), "actor": token(third),
    }
    for name, value in values.items():
        with open(f"{work}/{name}", "w", encoding="utf-8") as file:
            file.write(value)
    print(f"port {port}", flush=True)
    process.wait()


main()
