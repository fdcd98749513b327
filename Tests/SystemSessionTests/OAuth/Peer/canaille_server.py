"""Runs canaille (from PyPI) on loopback until it is ended: an OpenID provider with the JWT bearer grant (RFC 7523).

    canaille_server.py --python INTERPRETER --work FOLDER

The first line says the port. The client is lanyard with the secret s3cret, the user alice with the password wonderland. An assertion is
verified with the server's own key, which is in FOLDER/assertion.pem; iss is the client, sub the user, aud the token endpoint.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

PEM = """
import json, sys
from joserfc.jwk import RSAKey
print(RSAKey.import_key(json.load(open(sys.argv[1]))).as_pem(private=True).decode(), end="")
"""
CLIENT = {
    "client-id": ["lanyard"], "client-secret": ["s3cret"], "client-name": ["lanyard"], "client-uri": ["https://client.trusted.test"],
    "redirect-uris": ["https://client.trusted.test/cb"], "token-endpoint-auth-method": ["client_secret_basic"],
    "grant-types": ["password", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"], "scope": ["openid", "profile"],
}
USER = {"user-name": "alice", "password": "wonderland", "family-name": "Liddell", "emails": "alice@example.com"}


def toml(values):
    inner = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items())
    return "{" + inner + "}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    work = options.work
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = os.path.join(os.path.dirname(options.python), "canaille")
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": sys.stderr}

    def canaille(*arguments, **how):
        return subprocess.run([options.python, program, *arguments], env=environment, cwd=work, **how)

    environment = {name: value for name, value in os.environ.items() if name != "CANAILLE_CONFIG"}
    made = canaille("jwk", "create", "rsa", check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    key = json.loads(made.stdout[made.stdout.index("{"):])
    with open(f"{work}/jwk.json", "w", encoding="utf-8") as file:
        json.dump(key, file)
    pem = subprocess.run([options.python, "-c", PEM, f"{work}/jwk.json"], check=True, stdout=subprocess.PIPE).stdout
    with open(f"{work}/assertion.pem", "wb") as file:
        file.write(pem)
    with open(f"{work}/config.toml", "w", encoding="utf-8") as file:
        file.write(f"""
SECRET_KEY = "of-a-test"
SERVER_NAME = "127.0.0.1:{port}"
PREFERRED_URL_SCHEME = "http"
[CANAILLE]
DATABASE = "sql"
[CANAILLE_SQL]
DATABASE_URI = "sqlite:///{work}/idp.db"
[CANAILLE_OIDC]
REQUIRE_NONCE = false
TRUSTED_DOMAINS = [".trusted.test"]
ACTIVE_JWKS = [{toml(key)}]
""")
    environment["CANAILLE_CONFIG"] = f"{work}/config.toml"
    canaille("db", "upgrade", **quiet)
    canaille("create", "user", *(part for name, value in USER.items() for part in (f"--{name}", value)), **quiet)
    canaille("create", "client", *(part for name, values in CLIENT.items() for value in values for part in (f"--{name}", value)), **quiet)
    process = subprocess.Popen(
        [options.python, program, "run", "--bind", f"127.0.0.1:{port}"], env=environment, cwd=work, stdout=subprocess.DEVNULL,
        stderr=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/.well-known/openid-configuration", timeout=60).read()
            break
        except OSError:
            time.sleep(0.05)
    print(f"port {port}", flush=True)
    process.wait()


main()
