"""Runs authgent-server with one addition: the access token of a refresh is for the resource that the call names (RFC 8707 section 2.2).

    python -P authgent_app.py PORT

The released server (0.3.4) reads `resource` there and ignores it. All else is as released: each refresh token works once, and the
repetition of a used one ends the session.
"""

import contextvars
import sys

import uvicorn
from authgent_server.services.jwks_service import JWKSService
from authgent_server.services.token_service import TokenService

asked = contextvars.ContextVar("asked", default=None)
refresh, sign = TokenService._handle_refresh_token, JWKSService.sign_jwt


async def refresh_for_resource(self, db, client_id, **form):
    mark = asked.set(form.get("resource"))
    try:
        return await refresh(self, db, client_id, **form)
    finally:
        asked.reset(mark)


async def sign_for_resource(self, db, claims, *arguments, **options):
    if asked.get():
        claims = {**claims, "aud": asked.get()}
    return await sign(self, db, claims, *arguments, **options)


TokenService._handle_refresh_token = refresh_for_resource
JWKSService.sign_jwt = sign_for_resource
uvicorn.run("authgent_server.app:create_app", factory=True, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
