"""Runs glewlwyd (Debian's package, unpacked) on loopback until it is ended: an OpenID provider with one-use refresh tokens.

    glewlwyd_server.py --root FOLDER --work FOLDER [--lifetime SECONDS] [--device-lifetime SECONDS] [--pushed] [--tls FOLDER]

--pushed: an authorization request must be pushed (RFC 9126).
--tls: https with server.pem and server.key of the folder. The client shows who it is by a certificate of ca.pem for lanyard.test,
    at addresses of its own, and its tokens are bound to that certificate (RFC 8705).

The first line says the port. The client is lanyard with the secret s3cret, the users are alice and bob with the password wonderland, the
scope is api.
"""

import argparse
import ctypes
import gzip
import http.cookiejar
import json
import os
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

FLAGS = """allow-non-oidc auth-type-code-enabled auth-type-client-enabled auth-type-password-enabled auth-type-device-enabled
    auth-type-refresh-enabled refresh-token-rolling introspection-revocation-allowed introspection-revocation-allow-target-client
    pkce-allowed jwks-show""".split()
CLIENT = {
    "client_id": "lanyard", "name": "lanyard", "confidential": True, "client_secret": "s3cret", "password": "s3cret", "enabled": True,
    "authorization_type": ["code", "password", "client_credentials", "refresh_token", "device_authorization"], "scope": ["api"],
    "redirect_uri": ["http://127.0.0.1:9/cb"], "token_endpoint_auth_method": ["client_secret_basic", "client_secret_post"],
}
CERTIFICATE_CLIENT = CLIENT | {
    "token_endpoint_auth_method": ["tls_client_auth"], "tls_client_auth_san_dns": "lanyard.test"}
USERS = [
    {"username": name, "password": "wonderland", "enabled": True, "scope": ["openid", "api", "g_profile"]} for name in ("alice", "bob")]


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """The kernel kills glewlwyd when this program ends, however it ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def origin(port, tls):
    return f"{'https' if tls else 'http'}://127.0.0.1:{port}"


class Api:
    """glewlwyd's administration."""

    def __init__(self, port, tls):
        handlers = [urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())]
        if tls:
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=f"{tls}/ca.pem")))
        self.base = f"{origin(port, tls)}/api"
        self.opener = urllib.request.build_opener(*handlers)

    def post(self, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        self.opener.open(request, timeout=60).read()

    def is_up(self):
        try:
            self.opener.open(self.base + "/config", timeout=60).read()
            return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False


def configuration(root, work, port, tls):
    modules = f"{root}/usr/lib/glewlwyd"
    values = {
        "bind_address": "127.0.0.1", "external_url": origin(port, tls), "login_url": "login.html", "api_prefix": "api",
        "static_files_path": f"{root}/usr/share/glewlwyd/webapp/", "log_mode": "console", "log_level": "WARNING",
        "session_key": "GLEWLWYD2_SESSION_ID", "admin_session_authentication": "cookie",
        "profile_session_authentication": "cookie", "admin_scope": "g_admin", "profile_scope": "g_profile",
        "user_module_path": f"{modules}/user", "client_module_path": f"{modules}/client",
        "user_auth_scheme_module_path": f"{modules}/scheme", "plugin_module_path": f"{modules}/plugin", "hash_algorithm": "SHA512",
    }
    if tls:
        values |= {
            "secure_connection_key_file": f"{tls}/server.key", "secure_connection_pem_file": f"{tls}/server.pem",
            "secure_connection_ca_file": f"{tls}/ca.pem"}
    lines = [f'{name}="{value}"' for name, value in values.items()] + [f"port={port}", "cookie_secure=0"]
    # Without keys this line, whatever its value, ends the program.
    if tls:
        lines.append("use_secure_connection=true")
    lines.append('database={ type="sqlite3"; path="%s/idp.db"; };' % work)
    path = f"{work}/glewlwyd.conf"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def start(root, work, tls):
    """The process and its port: another port if another process has taken it since."""
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu:{root}/usr/lib/aarch64-linux-gnu"}
    for _ in range(10):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = subprocess.Popen(
            [f"{root}/usr/bin/glewlwyd", f"--config-file={configuration(root, work, port, tls)}"], env=environment,
            stdout=subprocess.DEVNULL, stderr=sys.stderr, preexec_fn=die_with_parent)
        api = Api(port, tls)
        while process.poll() is None:
            if api.is_up():
                return process, port, api
            time.sleep(0.05)
    sys.exit("glewlwyd did not start")


def set_up(api, port, work, lifetime, device_lifetime, is_pushed, tls):
    api.post("/auth/", {"username": "admin", "password": "password"})
    key = open(f"{work}/key.pem", encoding="utf-8").read()
    public = open(f"{work}/public.pem", encoding="utf-8").read()
    parameters = {name: True for name in FLAGS} | {
        "iss": f"{origin(port, tls)}/api/oidc", "jwt-type": "rsa", "jwt-key-size": "256", "key": key, "cert": public,
        "access-token-duration": lifetime, "refresh-token-duration": 3600, "code-duration": 600, "refresh-token-one-use": "always",
        "device-authorization-expiration": device_lifetime, "device-authorization-interval": 2,
        "subject-type": "public", "resource-allowed": False,
    }
    if is_pushed:
        parameters |= {
            "oauth-par-allowed": True, "oauth-par-required": True, "oauth-par-duration": 90,
            "oauth-par-request_uri-prefix": "urn:ietf:params:oauth:request_uri:"}
    if tls:
        parameters |= {"client-cert-source": "TLS", "client-cert-use-endpoint-aliases": True}
    api.post("/mod/plugin/", {
        "module": "oidc", "name": "oidc", "display_name": "oidc", "enabled": True, "parameters": parameters})
    api.post("/scope/", {"name": "api", "display_name": "api", "password_required": True, "scheme": {}})
    for user in USERS:
        api.post("/user/", user)
    api.post("/client/", CERTIFICATE_CLIENT if tls else CLIENT)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--lifetime", type=int, default=20)
    parser.add_argument("--device-lifetime", type=int, default=600)
    parser.add_argument("--pushed", action="store_true")
    parser.add_argument("--tls")
    options = parser.parse_args()
    work = options.work
    with gzip.open(f"{options.root}/usr/share/doc/glewlwyd/database/init.sqlite3.sql.gz", "rt", encoding="utf-8") as script:
        database = sqlite3.connect(f"{work}/idp.db")
        database.executescript(script.read())
        database.close()
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["openssl", "genrsa", "-out", f"{work}/key.pem", "2048"], **quiet)
    subprocess.run(["openssl", "rsa", "-in", f"{work}/key.pem", "-pubout", "-out", f"{work}/public.pem"], **quiet)
    process, port, api = start(options.root, work, options.tls)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    set_up(api, port, work, options.lifetime, options.device_lifetime, options.pushed, options.tls)
    print(f"port {port}", flush=True)
    process.wait()


main()
