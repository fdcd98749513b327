"""Runs an OpenID provider with pyop (from PyPI) on loopback until it is ended: an https issuer, logins in a browser that ask nobody.

    pyop_server.py --python INTERPRETER --work FOLDER [--lifetime SECONDS] --redirect URI

The first line says the port. FOLDER/ca.pem is the certificate's own authority. The client is lanyard with the secret s3cret.
"""

import subprocess
import sys

import peer


def main():
    options = peer.flags(redirect="")
    peer.in_interpreter(options)
    from flask import Flask, Response, jsonify, redirect, request
    from jwkest.jwk import RSAKey, rsa_load
    from pyop.authz_state import AuthorizationState
    from pyop.exceptions import BearerTokenError, InvalidAccessToken, InvalidAuthenticationRequest, InvalidClientAuthentication, OAuthError
    from pyop.provider import Provider
    from pyop.subject_identifier import HashBasedSubjectIdentifierFactory
    from pyop.userinfo import Userinfo
    from werkzeug.serving import make_server

    work = options.work
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{work}/key.pem", "-out", f"{work}/ca.pem", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    app = Flask("peer")
    listener = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=(f"{work}/ca.pem", f"{work}/key.pem"))
    base = f"https://127.0.0.1:{listener.port}"
    clients = {"lanyard": {
        "client_id": "lanyard", "client_secret": "s3cret", "redirect_uris": [options.redirect], "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_basic", "subject_type": "public"}}
    state = AuthorizationState(
        HashBasedSubjectIdentifierFactory("salt"), access_token_lifetime=options.lifetime, refresh_token_lifetime=3600)
    provider = Provider(
        RSAKey(key=rsa_load(f"{work}/key.pem"), alg="RS256", use="sig"),
        {"issuer": base, "authorization_endpoint": f"{base}/authorize", "token_endpoint": f"{base}/token",
         "userinfo_endpoint": f"{base}/userinfo", "jwks_uri": f"{base}/jwks", "response_types_supported": ["code"],
         "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["RS256"],
         "scopes_supported": ["openid", "offline_access"], "grant_types_supported": ["authorization_code", "refresh_token"]},
        state, clients, Userinfo({"alice": {"sub": "alice"}}))

    @app.get("/.well-known/openid-configuration")
    def metadata():
        return jsonify(provider.provider_configuration.to_dict())

    @app.get("/authorize")
    def authorize():
        try:
            asked = provider.parse_authentication_request(request.query_string.decode(), request.headers)
        except InvalidAuthenticationRequest as error:
            url = error.to_error_url()
            return redirect(url, 303) if url else Response(str(error), 400)
        return redirect(provider.authorize(asked, "alice").request(asked["redirect_uri"]), 303)

    @app.post("/token")
    def token():
        try:
            return jsonify(provider.handle_token_request(request.get_data().decode(), request.headers).to_dict())
        except InvalidClientAuthentication:
            return jsonify(error="invalid_client"), 401
        except OAuthError as error:
            return jsonify(error=error.oauth_error, error_description=str(error)), 400

    @app.get("/userinfo")
    def userinfo():
        try:
            return jsonify(provider.handle_userinfo_request(request.query_string.decode(), request.headers).to_dict())
        except (BearerTokenError, InvalidAccessToken) as error:
            return Response(str(error), 401, {"WWW-Authenticate": "Bearer"})

    print(f"port {listener.port}", flush=True)
    sys.stdout.flush()
    listener.serve_forever()


main()
