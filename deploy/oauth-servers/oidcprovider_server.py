"""Runs django-oidc-provider (from PyPI) on loopback until it is ended: password logins, OpenID.

The first line says the port. The client is lanyard with the secret s3cret, the user alice with the password wonder-land-1.
"""


import peer

SETTINGS = """
import pathlib
BASE = pathlib.Path(__file__).parent
SECRET_KEY = "of-a-test"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oidc_provider"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE / "idp.sqlite3",
                         "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "idp_urls"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
    "django.template.context_processors.request", "django.contrib.auth.context_processors.auth"]}}]
LOGIN_URL = "/login"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
SITE_URL = "http://127.0.0.1:PORT"
OIDC_TOKEN_EXPIRE = LIFETIME
OIDC_GRANT_TYPE_PASSWORD_ENABLE = True
"""
URLS = """
from django.urls import include, path
urlpatterns = [path("", include("oidc_provider.urls", namespace="oidc_provider"))]
"""
RUN = """
import os, sys
import django
os.environ["DJANGO_SETTINGS_MODULE"] = "idp_settings"
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
from oidc_provider.models import Client, ResponseType
call_command("migrate", verbosity=0)
call_command("creatersakey")
get_user_model().objects.create_user("alice", password="wonder-land-1")
client = Client(name="lanyard", client_id="lanyard", client_secret="s3cret", client_type="confidential", require_consent=False,
                _scope="openid")
client.save()
client.response_types.set(ResponseType.objects.filter(value="code"))
call_command("runserver", sys.argv[1], use_reloader=False)
"""


def main():
    options, port = peer.flags(), peer.free_port()
    settings = SETTINGS.replace("PORT", str(port)).replace("LIFETIME", str(options.lifetime))
    for name, text in {"idp_settings": settings, "idp_urls": URLS, "run": RUN}.items():
        with open(f"{options.work}/{name}.py", "w", encoding="utf-8") as file:
            file.write(text)
    peer.run([options.python, "-B", "run.py", f"127.0.0.1:{port}"], options.work, port, "/jwks")


main()
