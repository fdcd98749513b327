"""Runs django-oidc-provider (from PyPI) on loopback until it is ended: password logins, OpenID.

The first line says the port. The client is lanyard with the secret s3cret, the user alice with the password wonder-land-1.
"""

import peer

import django_site

SETTINGS = """
SITE_URL = "http://127.0.0.1:PORT"
OIDC_TOKEN_EXPIRE = LIFETIME
OIDC_GRANT_TYPE_PASSWORD_ENABLE = True
"""
URLS = """
from django.urls import include, path
urlpatterns = [path("", include("oidc_provider.urls", namespace="oidc_provider"))]
"""
PREPARE = """
from oidc_provider.models import Client, ResponseType
call_command("creatersakey")
client = Client(name="lanyard", client_id="lanyard", client_secret="s3cret", client_type="confidential", require_consent=False,
                _scope="openid")
client.save()
client.response_types.set(ResponseType.objects.filter(value="code"))
"""


def main():
    options, port = peer.flags(), peer.free_port()
    settings = SETTINGS.replace("PORT", str(port)).replace("LIFETIME", str(options.lifetime))
    django_site.write(options.work, "oidc_provider", settings, URLS, PREPARE)
    peer.run([options.python, "-B", "run.py", f"127.0.0.1:{port}"], options.work, port, "/jwks")


main()
