"""Runs canaille (from PyPI) on loopback until it is ended: an OpenID provider with the JWT bearer grant (RFC 7523).

    canaille_server.py --python INTERPRETER --work FOLDER

The first line says the port. The client is lanyard with the secret s3cret, the user alice with the password wonderland. An assertion is
verified with the server's own key, which is in FOLDER/assertion.pem; iss is the client, sub the user, aud the token endpoint.

Everything runs in one process: each command of canaille loads all of it, which takes more than a second of CPU.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys

CLIENT = {
    "client-id": ["lanyard"], "client-secret": ["s3cret"], "client-name": ["lanyard"], "client-uri": ["https://client.trusted.test"],
    "redirect-uris": ["https://client.trusted.test/cb"], "token-endpoint-auth-method": ["client_secret_basic"],
    "grant-types": ["password", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"], "scope": ["openid", "profile"],
}
USER = {"user-name": "alice", "password": "wonderland", "family-name": "Liddell", "emails": "alice@example.com"}


def toml(values):
    inner = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in values.items())
    return "{" + inner + "}"


def write_files(work, port):
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(2048, auto_kid=True)
    with open(f"{work}/assertion.pem", "wb") as file:
        file.write(key.as_pem(private=True))
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
ACTIVE_JWKS = [{toml(key.as_dict(private=True))}]
""")


def set_up():
    from canaille.commands import cli

    user = [part for name, value in USER.items() for part in (f"--{name}", value)]
    client = [part for name, values in CLIENT.items() for value in values for part in (f"--{name}", value)]
    with contextlib.redirect_stdout(sys.stderr):
        for arguments in (["db", "upgrade"], ["create", "user", *user], ["create", "client", *client]):
            cli(arguments, standalone_mode=False)


async def serve(listener):
    from canaille.hypercorn.app import create_app
    from hypercorn.asyncio import serve as run
    from hypercorn.config import Config

    port = listener.getsockname()[1]
    config = Config()
    # hypercorn closes it.
    config.bind = [f"fd://{listener.detach()}"]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    app = create_app()
    print(f"port {port}", flush=True)
    await run(app, config, shutdown_trigger=ended.wait)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    if os.path.abspath(sys.executable) != os.path.abspath(options.python):
        os.execv(options.python, [options.python, "-B", "-P", *sys.argv])
    os.chdir(options.work)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        write_files(options.work, listener.getsockname()[1])
        os.environ["CANAILLE_CONFIG"] = f"{options.work}/config.toml"
        set_up()
        asyncio.run(serve(listener))


main()
