"""The Django project of a test server: what is the same in each of them. `write` puts it into a folder."""

SETTINGS = """
import pathlib
BASE = pathlib.Path(__file__).parent
SECRET_KEY = "of-a-test"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "APPLICATION"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE / "idp.sqlite3",
                         "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "idp_urls"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
    "django.template.context_processors.request", "django.contrib.auth.context_processors.auth"]}}]
LOGIN_URL = "/login"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""
# A login by a form, as the view `log_in`.
LOG_IN = """
from django.contrib.auth import authenticate, login
from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt

@csrf_exempt
def log_in(request):
    user = authenticate(request, username=request.POST.get("username"), password=request.POST.get("password"))
    if not user:
        return JsonResponse({}, status=403)
    login(request, user)
    return JsonResponse({"ok": True})
"""
# One process: the imports and the start of Django take a second of CPU.
BEGIN = """
import os, sys
import django
os.environ["DJANGO_SETTINGS_MODULE"] = "idp_settings"
django.setup()
from django.contrib.auth import get_user_model
from django.core.management import call_command
call_command("migrate", verbosity=0)
user = get_user_model().objects.create_user("alice", password="wonder-land-1")
"""
END = """
call_command("runserver", sys.argv[1], use_reloader=False)
"""


def write(folder, application, settings, urls, prepare):
    """The project is started by `python run.py ADDRESS:PORT …` in the folder.

    settings: added to the common ones; prepare: makes the clients, once alice is `user`.
    """
    files = {
        "idp_settings": SETTINGS.replace("APPLICATION", application) + settings, "idp_urls": urls, "run": BEGIN + prepare + END}
    for name, text in files.items():
        with open(f"{folder}/{name}.py", "w", encoding="utf-8") as file:
            file.write(text)
