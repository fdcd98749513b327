#!/usr/bin/env bash
# A form in a chunked body arrives as an empty form.
#
# Version    Django 5.2.19 as a WSGI application of gunicorn 27.0.1; beside it waitress 3.0.2 and, by ASGI, Hypercorn 0.18.0 (PyPI)
# Behaviour  The same POST twice, with Content-Length and with Transfer-Encoding: chunked. Behind gunicorn the second one has no body and
#            no form: the view runs, the response is 200, nothing is logged. gunicorn decodes the body, and Django reads as many bytes as
#            CONTENT_LENGTH says, which is not there. waitress counts the body first and sets it; ASGI needs no length.
# Lanyard    keeps the framing (http-requests.md 5.7): what a client streams without a length reaches the upstream chunked.
# Seen       28 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check Django==5.2.19 gunicorn==27.0.1 waitress==3.0.2 Hypercorn==0.18.0

cat >"$folder/expected" <<'TEXT'
gunicorn, length: 10 bytes, name=alice
gunicorn, chunked: 0 bytes, name=None
waitress, length: 10 bytes, name=alice
waitress, chunked: 10 bytes, name=alice
hypercorn, length: 10 bytes, name=alice
hypercorn, chunked: 10 bytes, name=alice
TEXT

cat >"$folder/site.py" <<'PYTHON'
from django.conf import settings

settings.configure(SECRET_KEY="only-for-this-script", ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, MIDDLEWARE=[])

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path


def show(request):
    return HttpResponse(f"{len(request.body)} bytes, name={request.POST.get('name')}")


urlpatterns = [path("", show)]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
PYTHON
mv "$folder/site.py" "$folder/chunked_site.py"

cat >"$folder/try.py" <<'PYTHON'
import http.client
import sys
import time

name, port = sys.argv[1], int(sys.argv[2])
fields = {"Content-Type": "application/x-www-form-urlencoded"}
for attempt in range(300):
    try:
        http.client.HTTPConnection("127.0.0.1", port).connect()
        break
    except OSError:
        time.sleep(0.1)
for form, body in (("length", b"name=alice"), ("chunked", iter([b"name=", b"alice"]))):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/", body, fields, encode_chunked=form == "chunked")
    print(f"{name}, {form}: {connection.getresponse().read().decode()}")
PYTHON

free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
clean() { env -i PATH="$folder/venv/bin:$PATH" HOME="$folder" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$@"; }
cd "$folder"
for name in gunicorn waitress hypercorn; do
    port=$(free_port)
    case $name in
    gunicorn) clean gunicorn -b "127.0.0.1:$port" chunked_site:wsgi >>log 2>&1 & ;;
    waitress) clean waitress-serve --listen "127.0.0.1:$port" chunked_site:wsgi >>log 2>&1 & ;;
    hypercorn) clean hypercorn -b "127.0.0.1:$port" chunked_site:asgi >>log 2>&1 & ;;
    esac
    server=$!
    clean python try.py "$name" "$port"
    kill "$server"
    wait "$server" || true
    server=
done >seen
cat seen
diff expected seen >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
