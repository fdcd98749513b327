"""Runs django-oauth-toolkit (from PyPI) on loopback until it is ended: device logins of a public client, password logins of another.

    django_server.py --python INTERPRETER --work FOLDER [--lifetime SECONDS] [--grace SECONDS]
    django_server.py --confirm BASE CODE

The first line says the port. The client is dev, the user alice with the password wonder-land-1; the endpoints are /o/token/ and
/o/device-authorization/. --confirm logs alice in as a browser does and confirms the code.
"""

import argparse
import http.cookiejar
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import django_site

SETTINGS = """
OAUTH2_PROVIDER = {
    "SCOPES": {"api": "api"}, "DEFAULT_SCOPES": ["api"], "ACCESS_TOKEN_EXPIRE_SECONDS": LIFETIME, "REFRESH_TOKEN_EXPIRE_SECONDS": 7200,
    "ROTATE_REFRESH_TOKEN": True, "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": GRACE,
    "DEVICE_FLOW_INTERVAL": 1, "OAUTH_DEVICE_VERIFICATION_URI": "BASE_URL/o/device",
    "PKCE_REQUIRED": False,
}
"""
URLS = django_site.LOG_IN + """
from django.urls import include, path
from oauth2_provider.views.generic import ProtectedResourceView

class Echo(ProtectedResourceView):
    def get(self, request, *arguments, **names):
        return JsonResponse({"sub": getattr(request.resource_owner, "username", None)})

urlpatterns = [
    path("o/", include("oauth2_provider.urls", namespace="oauth2_provider")), path("login", log_in), path("api/echo", Echo.as_view())]
"""
PREPARE = """
from oauth2_provider.models import get_application_model
get_application_model().objects.create(
    client_id="dev", name="dev", user=user, client_type="public", authorization_grant_type="urn:ietf:params:oauth:grant-type:device_code")
get_application_model().objects.create(client_id="app", name="app", user=user, client_type="public", authorization_grant_type="password")
"""


def confirm(base, code):
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def post(url, **fields):
        return browser.open(url, urllib.parse.urlencode(fields).encode(), timeout=60)

    post(base + "/login", username="alice", password="wonder-land-1")
    with post(base + "/o/device/", user_code=code) as page:
        # The form's page leads on to the page with the question.
        place = page.geturl()
    with post(place, action="accept") as page:
        print(page.status, re.sub(r"\\s+", " ", page.read().decode())[:200])


def serve(python, work, lifetime, grace):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    settings = SETTINGS.replace("BASE_URL", base).replace("LIFETIME", str(lifetime)).replace("GRACE,", f"{grace},")
    django_site.write(work, "oauth2_provider", settings, URLS, PREPARE)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "idp_settings"}
    process = subprocess.Popen(
        [python, "-B", "run.py", f"127.0.0.1:{port}"], cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    while process.poll() is None:
        try:
            urllib.request.urlopen(base + "/api/echo", timeout=60).read()
        except urllib.error.HTTPError:
            break
        except OSError:
            time.sleep(0.05)
    print(f"port {port}", flush=True)
    process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--work")
    parser.add_argument("--lifetime", type=int, default=3600, help="of access tokens, in seconds")
    parser.add_argument("--grace", type=int, default=0, help="seconds for which a spent refresh token works")
    parser.add_argument("--confirm", nargs=2)
    options = parser.parse_args()
    if options.confirm:
        confirm(*options.confirm)
    else:
        serve(options.python, options.work, options.lifetime, options.grace)


main()
