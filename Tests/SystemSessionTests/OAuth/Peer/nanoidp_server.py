"""Runs nanoidp (from PyPI) on loopback until it is ended: each refresh token works once, and a repetition ends the session.

    nanoidp_server.py --python INTERPRETER --work FOLDER [--device-lifetime SECONDS]

The first line says the port. The client is lanyard with the secret s3cret; it may name the resources of orders and stock (RFC 8707). The
users are alice, bob and carol with the password wonderland. FOLDER/refresh_token is the beginning of a session of alice.
"""

import argparse
import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

SETTINGS = """
config_version: 1
server: {host: 127.0.0.1, port: PORT}
device_flow: {code_expiry_seconds: LIFETIME}
oauth:
  issuer: "http://127.0.0.1:PORT"
  audience: api
  token_expiry_minutes: 60
  refresh_token_rotation: true
  clients:
    - {client_id: lanyard, client_secret: s3cret, allowed_resources: ["https://orders.example", "https://stock.example"]}
"""
USERS = """
config_version: 1
users:
  alice: {password: wonderland, email: alice@example.com}
  bob: {password: wonderland, email: bob@example.com}
  carol: {password: wonderland, email: carol@example.com}
"""


def begin_session(base):
    """A refresh token, as another program of the same client gets one."""
    form = {"grant_type": "password", "username": "alice", "password": "wonderland", "scope": "openid"}
    secret = base64.b64encode(b"lanyard:s3cret").decode()
    request = urllib.request.Request(
        base + "/token", urllib.parse.urlencode(form).encode(), {"Authorization": f"Basic {secret}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["refresh_token"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--device-lifetime", default="600")
    options = parser.parse_args()
    work = options.work
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    os.mkdir(f"{work}/settings")
    for name, text in {"settings": SETTINGS.replace("PORT", str(port)).replace("LIFETIME", options.device_lifetime), "users": USERS}.items():
        with open(f"{work}/settings/{name}.yaml", "w", encoding="utf-8") as file:
            file.write(text)
    # Its log on standard error has a line for each request.
    process = subprocess.Popen(
        [options.python, "-B", "-m", "nanoidp", "--config", f"{work}/settings", "--host", "127.0.0.1", "--port", str(port)], cwd=work,
        stdout=subprocess.DEVNULL, stderr=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while process.poll() is None:
        try:
            urllib.request.urlopen(base + "/.well-known/openid-configuration", timeout=60).read()
            break
        except OSError:
            time.sleep(0.05)
    with open(f"{work}/refresh_token", "w", encoding="utf-8") as file:
        file.write(begin_session(base))
    print(f"port {port}", flush=True)
    process.wait()


main()
