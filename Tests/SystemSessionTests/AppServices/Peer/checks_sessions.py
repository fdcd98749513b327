"""Tokens and sessions: renewal, logout, revocation, disabled and deleted users, expiry."""

import dataclasses
import time

import tokens
from protocol_schema import REFRESH_SECONDS, check_function_result, check_login, check_no_content, check_refreshed
from world import PASSWORD, check, expect, same, setup


@check("session", "a renewal brings an access token of the same session; the refresh token stays good")
def refresh(world):
    _, session = world.user()
    first = world.refreshed(session)
    second = check_refreshed(world.client().refresh(session.refresh, body={}), session)
    for token in (session.access, first, second):
        same("status with a token", world.client().profile_of(token).status, 200)


@check("session", "an anonymous user's refresh token lives 50 years, others' 60 days, access tokens 30 minutes")
def lifetimes(world):
    # `check_login` compares the lifetimes.
    world.anonymous()
    world.user()


@check("session", "a changed lifetime holds for the sessions that are made afterwards", once=True)
def changed_lifetime(world):
    email, before = world.user()
    with world.settings(refresh_token_seconds=1800):
        after = check_login(world.client().email_login(email, PASSWORD), "local-userpass", refresh_seconds=1800)
        world.refreshed(after)
        same("lifetime of the session of before", before.refresh_claims["exp"] - before.refresh_claims["iat"], REFRESH_SECONDS)
        world.refreshed(before)


@check("65", "a call with a nonsense access token succeeds in the end: refused, renewed, repeated")
def repaired(world):
    _, session = world.user()
    broken = tokens.with_broken_signature(session.access)
    expired = tokens.with_claims(session.access, {"iat": 1, "exp": 2})
    for token in ("nonsense", "a.b.c", broken, expired):
        responses = world.client().call_repaired(dataclasses.replace(session, access=token), "sum", [1, 2])
        same("statuses", [response.status for response in responses], [401, 201, 200])
        name = "access token unparsable" if token in ("nonsense", "a.b.c") else "access token foreign"
        world.refused(responses[0], name)
        check_refreshed(responses[1], session)
        check_function_result(responses[2])


@check("session", "an expired access token is refused as expired, everywhere")
def expired_access(world):
    email, session = world.user()
    client = world.client()
    same("origin", client.origin, world.base_url)
    world.control("POST", "/tokens/expire", {"user": email})
    for response in (
        client.profile_of(session.access), client.call(session.access, "sum", [1]), client.delete_account(session.access),
        client.email_login(email, PASSWORD, link=session.access), client.register_push(session.access, "gcm", "r")):
        world.refused(response, "access token expired")
    same("status", client.profile_of(world.refreshed(session)).status, 200)


@check("session", "an access token expires after 30 minutes by the service's clock, a refresh token after 60 days", once=True)
def expiry(world):
    _, session = world.user()
    client = world.client()
    same("origin", client.origin, world.base_url)
    with world.later(1790):
        same("status before the end", client.profile_of(session.access).status, 200)
    with world.later(1810):
        world.refused(client.profile_of(session.access), "access token expired")
        check_refreshed(client.refresh(session.refresh), session, now=time.time() + 1810)
    with world.later(REFRESH_SECONDS + 10):
        world.refused(client.refresh(session.refresh), "refresh token expired")
        world.refused(client.keys(session.refresh), "refresh token expired")


@check("session", "a logout ends its session alone; access tokens that were issued before stay good")
def logout(world):
    email, session = world.user()
    other = world.session(email)
    client = world.client()
    check_no_content("logout response", client.logout(session.refresh))
    world.refused(client.refresh(session.refresh), "refresh token dead")
    world.refused(client.logout(session.refresh), "refresh token dead")
    world.refused(client.keys(session.refresh), "refresh token dead")
    same("status with the access token", client.profile_of(session.access).status, 200)
    world.refreshed(other)


@check("72", "a disabled user's access token still holds, the session is dead, a login is refused; enabled, the same account is back")
def disabled(world):
    email, session = world.user()
    client = world.client()
    world.control("POST", "/users/disable", {"user": email})
    same("status with the access token", client.profile_of(session.access).status, 200)
    world.refused(client.refresh(session.refresh), "refresh token dead")
    world.refused(client.email_login(email, PASSWORD), "disabled user")
    world.control("POST", "/users/enable", {"user": email})
    same("user_id", world.session(email).user_id, session.user_id)


@check("73", "after all sessions were revoked access tokens still hold, renewals do not; a login makes a session that works")
def revoked(world):
    email, session = world.user()
    other = world.session(email)
    world.control("POST", "/sessions/revoke", {"user": email})
    client = world.client()
    same("status with the access token", client.profile_of(session.access).status, 200)
    for dead in (session, other):
        world.refused(client.refresh(dead.refresh), "refresh token dead")
    again = world.session(email)
    same("user_id", again.user_id, session.user_id)
    world.refreshed(again)


@check("74", "the same for an anonymous user, who cannot come back")
def revoked_anonymous(world):
    session = world.anonymous()
    world.control("POST", "/sessions/revoke", {"user": session.user_id})
    world.refused(world.client().refresh(session.refresh), "refresh token dead")
    expect("user_id", world.anonymous().user_id != session.user_id, "an anonymous login found the old account")


@check("76", "a refresh token with a broken signature is told as that, without a code")
def refresh_signature(world):
    _, session = world.user()
    client = world.client()
    for token in (tokens.with_broken_signature(session.refresh), tokens.with_claims(session.refresh, {"sub": "5" * 24})):
        world.refused(client.refresh(token), "refresh token signature")
        world.refused(client.logout(token), "refresh token signature")
    world.refreshed(session)


@check("77", "after a revocation a renewal fails, and a watch stream gets 403")
def revoked_stream(world):
    email, session = world.user()
    client = world.client()
    with client.open_stream(session.access, "watch", [{"database": "a", "collection": "b"}], "mongodb-atlas") as stream:
        same("status before", stream.head.status, 200)
    world.control("POST", "/sessions/revoke", {"user": email})
    world.refused(client.refresh(session.refresh), "refresh token dead")
    with client.open_stream(session.access, "watch", [{"database": "a", "collection": "b"}], "mongodb-atlas") as stream:
        world.refused(stream.rest(), "stream of a revoked user")


@check("135", "logging in after a logout is the same account")
def login_after_logout(world):
    email, session = world.user()
    check_no_content("logout response", world.client().logout(session.refresh))
    same("user_id", world.session(email).user_id, session.user_id)


@check("139", "login and logout of the same user three times in a row")
def again_and_again(world):
    email = world.registered()
    for _ in range(3):
        session = world.session(email)
        world.refreshed(session)
        check_no_content("logout response", world.client().logout(session.refresh))


@check("session", "the switches end access tokens at a logout and at a revocation", once=True)
def switches(world):
    client = world.client()
    same("origin", client.origin, world.base_url)
    with world.settings(logout_ends_access_tokens=True):
        _, session = world.user()
        check_no_content("logout response", client.logout(session.refresh))
        same("status after a logout", client.profile_of(session.access).status, 401)
    with world.settings(revoke_ends_access_tokens=True):
        email, session = world.user()
        world.control("POST", "/sessions/revoke", {"user": email})
        same("status after a revocation", client.profile_of(session.access).status, 401)


@check("session", "a session call with a token of no session, or of no form, is refused")
def refresh_nonsense(world):
    client = world.client()
    for token in ("nonsense", "a.b.c", "a.b"):
        response = client.refresh(token)
        same("status", response.status, 401)
        expect("error", isinstance(response.json.get("error"), str), f"{response}")


@check("session", "a renewal of one app's session is of that app, though the path names none")
def domains(world):
    session = world.anonymous()
    other = world.anonymous(setup.MAIL)
    expect(
        "domain", session.access_claims["baas_domain_id"] != other.access_claims["baas_domain_id"], "two apps have one domain")
    world.refreshed(other, setup.MAIL)
    world.refreshed(session)
