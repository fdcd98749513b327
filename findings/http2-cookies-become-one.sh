#!/usr/bin/env bash
# Three cookies of an HTTP/2 request are one cookie to Django.
#
# Version    Django 5.2.19 as an ASGI application of granian 2.8.9; beside it Hypercorn 0.18.0. Client: httpx 0.28.1 with h2 4.4.1 (PyPI)
# Behaviour  HTTP/2 lets a client send cookies as separate fields (RFC 9113, section 8.2.3), and browsers do. They have to be joined with
#            "; " before a context that is not HTTP/2 gets them. granian hands the fields over as they came; Django joins fields of one
#            name with a comma. The first cookie then has the others as a part of its value, and the session's cookie is missing. With
#            HTTP/1.1, with a single field, and behind Hypercorn (which joins them itself) all three are there. Each half does what its
#            own rules say.
# Lanyard    has nothing to do with it: it speaks HTTP/1.1 on both sides. Met while servers for its tests were chosen.
# Seen       28 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check Django==5.2.19 granian==2.8.9 Hypercorn==0.18.0 'httpx[http2]==0.28.1' \
    h2==4.4.1

cat >"$folder/expected" <<'TEXT'
granian, HTTP/2, three fields: {'a': '1,b=2,sessionid=3'}
granian, HTTP/2, one field: {'a': '1', 'b': '2', 'sessionid': '3'}
granian, HTTP/1.1, one field: {'a': '1', 'b': '2', 'sessionid': '3'}
hypercorn, HTTP/2, three fields: {'a': '1', 'b': '2', 'sessionid': '3'}
hypercorn, HTTP/2, one field: {'a': '1', 'b': '2', 'sessionid': '3'}
hypercorn, HTTP/1.1, one field: {'a': '1', 'b': '2', 'sessionid': '3'}
TEXT

cat >"$folder/cookie_site.py" <<'PYTHON'
from django.conf import settings

settings.configure(SECRET_KEY="only-for-this-script", ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, MIDDLEWARE=[])

from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path

urlpatterns = [path("", lambda request: HttpResponse(repr(request.COOKIES)))]
application = get_asgi_application()
PYTHON

cat >"$folder/try.py" <<'PYTHON'
import socket
import sys
import time

import httpx

name, port = sys.argv[1], int(sys.argv[2])
for attempt in range(300):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        break
    except OSError:
        time.sleep(0.1)
three = [("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "sessionid=3")]
one = [("cookie", "a=1; b=2; sessionid=3")]
for is_second, form, fields in ((True, "three fields", three), (True, "one field", one), (False, "one field", one)):
    with httpx.Client(http1=not is_second, http2=is_second) as client:
        response = client.get(f"http://127.0.0.1:{port}/", headers=fields)
        print(f"{name}, {response.http_version}, {form}: {response.text}")
PYTHON

free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
clean() { env -i PATH="$folder/venv/bin:$PATH" HOME="$folder" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 "$@"; }
cd "$folder"
for name in granian hypercorn; do
    port=$(free_port)
    case $name in
    granian) clean granian --interface asgi --host 127.0.0.1 --port "$port" cookie_site:application >>log 2>&1 & ;;
    hypercorn) clean hypercorn -b "127.0.0.1:$port" cookie_site:application >>log 2>&1 & ;;
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
