"""Runs django-mcp-oauth (from PyPI) on loopback until it is ended: logins in a browser with PKCE, and client credentials.

    mcpoauth_server.py --python INTERPRETER --work FOLDER [--lifetime SECONDS] --redirect URI

The first line says the port. The public client is lanyard with that redirect URI, the user alice with the password wonder-land-1, who logs
in at /login. /mcp wants a token.
"""

import peer

SETTINGS = """
import pathlib
BASE = pathlib.Path(__file__).parent
SECRET_KEY = "of-a-test"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django_mcp_oauth"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE / "idp.sqlite3",
                         "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "idp_urls"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
    "django.template.context_processors.request", "django.contrib.auth.context_processors.auth"]}}]
LOGIN_URL = "/login"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
MCP_OAUTH_ISSUER = "http://127.0.0.1:PORT"
MCP_RESOURCE_URL = "http://127.0.0.1:PORT/mcp"
MCP_OAUTH_ACCESS_TOKEN_TTL = LIFETIME
MCP_OAUTH_PRIVATE_KEY = (BASE / "key.pem").read_text()
"""
URLS = """
from django.contrib.auth import authenticate, login
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django_mcp_oauth.resource import user_from_bearer, www_authenticate
from django_mcp_oauth.urls import urlpatterns as oauth
from django_mcp_oauth.validation import TokenError

@csrf_exempt
def log_in(request):
    user = authenticate(request, username=request.POST.get("username"), password=request.POST.get("password"))
    if not user:
        return JsonResponse({}, status=403)
    login(request, user)
    return JsonResponse({"ok": True})

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
RUN = """
import json, os, sys
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
import django
os.environ["DJANGO_SETTINGS_MODULE"] = "idp_settings"
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django_mcp_oauth.models import OAuth2Client
call_command("migrate", verbosity=0)
user = get_user_model().objects.create_user("alice", password="wonder-land-1")
client = OAuth2Client(client_id="lanyard", user=user)
client.set_client_metadata({
    "client_name": "lanyard", "redirect_uris": [sys.argv[2]], "token_endpoint_auth_method": "none", "scope": "mcp",
    "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"]})
client.save()
call_command("runserver", sys.argv[1], use_reloader=False)
"""


def main():
    options, port = peer.flags(redirect=""), peer.free_port()
    from subprocess import run
    run(["openssl", "genrsa", "-out", f"{options.work}/key.pem", "2048"], check=True, capture_output=True)
    settings = SETTINGS.replace("PORT", str(port)).replace("LIFETIME", str(options.lifetime))
    for name, text in {"idp_settings": settings, "idp_urls": URLS, "run": RUN}.items():
        with open(f"{options.work}/{name}.py", "w", encoding="utf-8") as file:
            file.write(text)
    peer.run([options.python, "-B", "run.py", f"127.0.0.1:{port}", options.redirect], options.work, port, "/mcp")


main()
