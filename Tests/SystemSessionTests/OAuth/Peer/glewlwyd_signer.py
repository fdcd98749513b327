"""Registers clients at glewlwyd that sign assertions (private_key_jwt).

    glewlwyd_signer.py BASE NAME=FILE…      BASE: the address of glewlwyd; FILE: the client's public key in PEM
"""

import http.cookiejar
import json
import sys
import urllib.request

opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(sys.argv[1] + "/api" + path, data, {"Content-Type": "application/json"}, method=method)
    with opener.open(request, timeout=60) as response:
        return response.read()


def main():
    call("POST", "/auth/", {"username": "admin", "password": "password"})
    plugin = json.loads(call("GET", "/mod/plugin/oidc"))
    # Without the first one no assertion is read; the second one is the client's property with its key.
    plugin["parameters"] |= {"request-parameter-allow": True, "client-pubkey-parameter": "pubkey"}
    call("PUT", "/mod/plugin/oidc", plugin)
    call("PUT", "/mod/plugin/oidc/reset")
    for argument in sys.argv[2:]:
        name, path = argument.split("=", 1)
        with open(path, encoding="utf-8") as file:
            key = file.read()
        call("POST", "/client/", {
            "client_id": name, "name": name, "confidential": True, "enabled": True, "pubkey": key, "scope": ["api"],
            "authorization_type": ["password", "refresh_token", "code", "device_authorization"], "redirect_uri": ["http://127.0.0.1:9/cb"],
            "token_endpoint_auth_method": ["private_key_jwt"],
        })


main()
