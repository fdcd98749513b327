"""Runs django-mcp-oauth (from PyPI) on loopback until it is ended: logins in a browser with PKCE, and client credentials.

    mcpoauth_server.py --python INTERPRETER --work FOLDER [--lifetime SECONDS] --redirect URI

The first line says the port. The public client is lanyard with that redirect URI, the user alice with the password wonder-land-1, who logs
in at /login. /mcp wants a token.
"""

import subprocess

import peer

import django_site

SETTINGS = """
MCP_OAUTH_ISSUER = "http://127.0.0.1:PORT"
MCP_RESOURCE_URL = "http://127.0.0.1:PORT/mcp"
MCP_OAUTH_ACCESS_TOKEN_TTL = LIFETIME
MCP_OAUTH_PRIVATE_KEY = (BASE / "key.pem").read_text()
"""
URLS = django_site.LOG_IN + """
from django.urls import path
from django_mcp_oauth.resource import user_from_bearer, www_authenticate
from django_mcp_oauth.urls import urlpatterns as oauth
from django_mcp_oauth.validation import TokenError

def mcp(request):
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    try:
        user, _ = user_from_bearer(token)
    except TokenError as error:
        return JsonResponse({"error": error.error}, status=401, headers={
            "WWW-Authenticate": www_authenticate(error.error, error.description)})
    return JsonResponse({"user": user.username})

urlpatterns = [*oauth, path("login", log_in), path("mcp", mcp)]
"""
PREPARE = """
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
from django_mcp_oauth.models import OAuth2Client
client = OAuth2Client(client_id="lanyard", user=user)
client.set_client_metadata({
    "client_name": "lanyard", "redirect_uris": [sys.argv[2]], "token_endpoint_auth_method": "none", "scope": "mcp",
    "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"]})
client.save()
"""


def main():
    options, port = peer.flags(redirect=""), peer.free_port()
    subprocess.run(["openssl", "genrsa", "-out", f"{options.work}/key.pem", "2048"], check=True, capture_output=True)
    settings = SETTINGS.replace("PORT", str(port)).replace("LIFETIME", str(options.lifetime))
    django_site.write(options.work, "django_mcp_oauth", settings, URLS, PREPARE)
    peer.run([options.python, "-B", "run.py", f"127.0.0.1:{port}", options.redirect], options.work, port, "/mcp")


main()
