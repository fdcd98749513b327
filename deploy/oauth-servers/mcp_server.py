"""Runs the authorization server of the mcp SDK, or of fastmcp (both from PyPI), on loopback until it is ended.

    mcp_server.py --python INTERPRETER --work FOLDER [--lifetime SECONDS] --redirect URI --kind mcp|fastmcp

The first line says the port. The client is lanyard with the secret s3cret, by HTTP Basic. The authorization endpoint asks nobody. mcp: the
SDK leaves it to the application to keep tokens; this one rotates refresh tokens. fastmcp: its provider in memory. /resource wants a token.
"""

import secrets
import sys
import time

import peer


def memory_provider(base, lifetime):
    """fastmcp's own."""
    from fastmcp.server.auth.providers import in_memory
    from mcp.server.auth.settings import RevocationOptions

    in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = lifetime
    return in_memory.InMemoryOAuthProvider(base_url=base, revocation_options=RevocationOptions(enabled=True))


def own_provider(lifetime):
    """The least that the SDK asks of an application."""
    from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
    from mcp.shared.auth import OAuthToken

    class Provider:
        def __init__(self):
            self.clients, self.codes, self.refresh_tokens, self.access_tokens = {}, {}, {}, {}

        async def get_client(self, client_id):
            return self.clients.get(client_id)

        async def register_client(self, client_info):
            self.clients[client_info.client_id] = client_info

        async def authorize(self, client, params):
            code = secrets.token_urlsafe(32)
            self.codes[code] = AuthorizationCode(
                code=code, scopes=params.scopes or [], expires_at=time.time() + 60, client_id=client.client_id,
                code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
                redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource)
            return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

        async def load_authorization_code(self, client, authorization_code):
            return self.codes.get(authorization_code)

        def tokens(self, client, scopes):
            access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            self.access_tokens[access] = AccessToken(
                token=access, client_id=client.client_id, scopes=scopes, expires_at=int(time.time()) + lifetime)
            self.refresh_tokens[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
            return OAuthToken(
                access_token=access, token_type="Bearer", expires_in=lifetime, refresh_token=refresh, scope=" ".join(scopes))

        async def exchange_authorization_code(self, client, authorization_code):
            del self.codes[authorization_code.code]
            return self.tokens(client, authorization_code.scopes)

        async def load_refresh_token(self, client, refresh_token):
            return self.refresh_tokens.get(refresh_token)

        async def exchange_refresh_token(self, client, refresh_token, scopes):
            del self.refresh_tokens[refresh_token.token]
            return self.tokens(client, scopes)

        async def load_access_token(self, token):
            found = self.access_tokens.get(token)
            return found if found and found.expires_at > time.time() else None

        async def revoke_token(self, token):
            self.refresh_tokens.pop(token.token, None)
            self.access_tokens.pop(token.token, None)

    return Provider()


def main():
    options = peer.flags(redirect="", kind="mcp")
    peer.in_interpreter(options)
    # The folder of this script has no module that a package may mean.
    import uvicorn
    from mcp.server.auth.routes import create_auth_routes
    from mcp.server.auth.settings import RevocationOptions
    from mcp.shared.auth import OAuthClientInformationFull
    from pydantic import AnyHttpUrl
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    port = peer.free_port()
    base = f"http://127.0.0.1:{port}"
    provider = memory_provider(base, options.lifetime) if options.kind == "fastmcp" else own_provider(options.lifetime)
    client = OAuthClientInformationFull(
        client_id="lanyard", client_secret="s3cret", redirect_uris=[options.redirect], scope="mcp",
        token_endpoint_auth_method="client_secret_basic", grant_types=["authorization_code", "refresh_token"])
    provider.clients["lanyard"] = client

    async def resource(request):
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        found = await provider.load_access_token(token)
        return JSONResponse({"ok": bool(found)}, status_code=200 if found else 401, headers={} if found else {"WWW-Authenticate": "Bearer"})

    if options.kind == "fastmcp":
        routes = provider.get_routes(mcp_path="/mcp")
    else:
        routes = create_auth_routes(provider, AnyHttpUrl(base), revocation_options=RevocationOptions(enabled=True))

    async def ready():
        print(f"port {port}", flush=True)

    class Said(uvicorn.Server):
        async def startup(self, sockets=None):
            await super().startup(sockets=sockets)
            await ready()

    config = uvicorn.Config(Starlette(routes=[*routes, Route("/resource", resource)]), host="127.0.0.1", port=port, log_level="warning")
    Said(config).run()
    sys.exit(0)


main()
