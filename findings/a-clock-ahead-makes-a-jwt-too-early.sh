#!/usr/bin/env bash
# A JWT whose `iat` is some seconds ahead of the reader's clock is refused by half of the libraries.
#
# Version    PyJWT 2.15.1, Authlib 1.9.10, joserfc 1.8.0, python-jose 3.5.0, jwcrypto 1.6.1 (PyPI), default settings
# Behaviour  The token has a good signature, `exp` in five minutes and no `nbf`. PyJWT, Authlib and joserfc refuse it as not yet valid,
#            python-jose and jwcrypto accept it. RFC 7519 gives `iat` no such meaning: it tells the age of a token, and `nbf` is the
#            claim for "not before". So an assertion of a client whose clock is 5 s ahead works at some servers, fails at others, and
#            works there a moment later. The least that is refused is 2 s: one passes at all five.
# Lanyard    signs assertions with an `iat` that lies 30 s back by the server's clock.
# Seen       28 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check PyJWT==2.15.1 Authlib==1.9.10 joserfc==1.8.0 python-jose==3.5.0 \
    jwcrypto==1.6.1

cat >"$folder/expected" <<'TEXT'
PyJWT        iat + 5: The token is not yet valid (iat)
Authlib      iat + 5: invalid_token: The token is not valid as it was issued in the future
joserfc      iat + 5: invalid_claim: The token was issued in the future
python-jose  iat + 5: accepted
jwcrypto     iat + 5: accepted
PyJWT        iat - 5: accepted
Authlib      iat - 5: accepted
joserfc      iat - 5: accepted
python-jose  iat - 5: accepted
jwcrypto     iat - 5: accepted
TEXT

cat >"$folder/try.py" <<'PYTHON'
import base64
import time

import authlib.jose
import joserfc.jwk
import joserfc.jwt
import jose.jwt
import jwcrypto.jwk
import jwcrypto.jwt
import jwt

KEY = "only-for-this-script-" + "k" * 43


def with_joserfc(token):
    claims = joserfc.jwt.decode(token, joserfc.jwk.OctKey.import_key(KEY)).claims
    joserfc.jwt.JWTClaimsRegistry().validate(claims)


def with_jwcrypto(token):
    encoded = base64.urlsafe_b64encode(KEY.encode()).rstrip(b"=").decode()
    jwcrypto.jwt.JWT(jwt=token, key=jwcrypto.jwk.JWK(kty="oct", k=encoded))


readers = {
    "PyJWT": lambda token: jwt.decode(token, KEY, ["HS256"]),
    "Authlib": lambda token: authlib.jose.jwt.decode(token, KEY).validate(),
    "joserfc": with_joserfc,
    "python-jose": lambda token: jose.jwt.decode(token, KEY, ["HS256"]),
    "jwcrypto": with_jwcrypto,
}
for distance in (5, -5):
    for name, read in readers.items():
        now = int(time.time())
        try:
            read(jwt.encode({"sub": "alice", "iat": now + distance, "exp": now + 300}, KEY, "HS256"))
            result = "accepted"
        except Exception as error:
            result = str(error)
        print(f"{name:12} iat {'+' if distance > 0 else '-'} {abs(distance)}: {result}")
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen" 2>"$folder/log" ||
    { cat "$folder/log" >&2; exit 1; }
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
