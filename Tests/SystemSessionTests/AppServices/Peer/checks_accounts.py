"""Accounts: custom user data, linked identities, deletion, API keys."""

import tokens
from protocol_schema import (
    check_access_token, check_created_key, check_empty_success, check_function_result, check_key, check_keys, check_link,
    check_login, check_no_content)
from world import PASSWORD, check, expect, same, setup


# Custom user data

@check("84", "what a function writes as custom data shows after a renewal, and not before")
def custom_data(world):
    _, session = world.user()
    client = world.client()
    result = check_function_result(client.call(session.access, "updateUserData", [{"colour": "blue"}]))
    same("result", result, True)
    same("user_data before", session.access_claims.get("user_data"), None)
    claims = check_access_token(world.refreshed(session))
    same("user_data after", claims.get("user_data"), {"colour": "blue"})


@check("84", "custom data is in the token of the next login, too, and never in the profile")
def custom_data_at_login(world):
    email, session = world.user()
    world.control("PUT", "/users/custom-data", {"user": email, "custom_data": {"colour": "red"}})
    again = world.session(email)
    same("user_data", again.access_claims.get("user_data"), {"colour": "red"})
    same("profile data", world.profile_of(session)["data"], {"email": email})


@check("85", "without custom data the claim is absent, also after it was cleared")
def no_custom_data(world):
    email, session = world.user()
    same("claim", "user_data" in check_access_token(world.refreshed(session)), False)
    world.control("PUT", "/users/custom-data", {"user": email, "custom_data": {"a": "b"}})
    same("claim", "user_data" in check_access_token(world.refreshed(session)), True)
    world.control("PUT", "/users/custom-data", {"user": email, "custom_data": {}})
    same("claim", "user_data" in check_access_token(world.refreshed(session)), False)


# Linking

def link(world, session, provider, members):
    """A link that must succeed; the session with the new access token."""
    session.access = check_link(world.client().login(provider, members, link=session.access), session)
    return session


@check("86", "linking an email keeps the user; the identities are in the order of their linking")
def link_email(world):
    session = world.anonymous()
    email = world.registered()
    link(world, session, "local-userpass", {"username": email, "password": PASSWORD})
    profile = world.profile_of(session)
    same("identities", [identity["provider_type"] for identity in profile["identities"]], ["anon-user", "local-userpass"])
    same("email", profile["data"].get("email"), email)
    world.refreshed(session)


@check("88", "after a link an anonymous login makes another account")
def anonymous_after_link(world):
    session = world.anonymous()
    link(world, session, "local-userpass", {"username": world.registered(), "password": PASSWORD})
    expect("user_id", world.anonymous().user_id != session.user_id, "the linked account")


@check("89", "the linked credential logs in to the account, also after a logout")
def login_with_linked(world):
    session = world.anonymous()
    email = world.registered()
    link(world, session, "local-userpass", {"username": email, "password": PASSWORD})
    check_no_content("logout response", world.client().logout(session.refresh))
    same("user_id", world.session(email).user_id, session.user_id)


@check("90", "three identities of one user, each of which logs in to it")
def three_identities(world):
    email, session = world.user()
    function = {"realmCustomAuthFuncUserId": world.word()}
    token = {"token": tokens.hs256(setup.custom_claims(world.word()), setup.HS256_KEY)}
    link(world, session, "custom-function", function)
    link(world, session, "custom-token", token)
    same("identities", [kind for kind, _ in world.identities(session)], ["local-userpass", "custom-function", "custom-token"])
    users = {world.session(email).user_id, world.login("custom-function", function).user_id, world.login("custom-token", token).user_id}
    same("user_id", users, {session.user_id})


@check("91", "linking the same credential twice changes nothing")
def link_twice(world):
    session = world.anonymous()
    members = {"username": world.registered(), "password": PASSWORD}
    link(world, session, "local-userpass", members)
    before = world.identities(session)
    link(world, session, "local-userpass", members)
    same("identities", world.identities(session), before)


@check("92", "a second email of one user is a server error, as at the real service")
def link_second_email(world):
    _, session = world.user()
    before = world.identities(session)
    response = world.client().email_login(world.registered(), PASSWORD, link=session.access)
    world.refused(response, "link second email")
    same("identities", world.identities(session), before)


@check("93", "a credential of another user is not linked")
def link_in_use(world):
    email, other = world.user()
    function = {"realmCustomAuthFuncUserId": world.word()}
    world.login("custom-function", function)
    session = world.anonymous()
    world.refused(world.client().email_login(email, PASSWORD, link=session.access), "link in use")
    world.refused(world.client().login("custom-function", function, link=session.access), "link in use")
    same("identities", [kind for kind, _ in world.identities(session)], ["anon-user"])
    world.refreshed(other)
    world.refreshed(session)


@check("link", "a wrong password or an unknown email is refused, and the session lives on")
def link_wrong_password(world):
    session = world.anonymous()
    for email, password in ((world.registered(), "wrong-horse"), (world.email(), PASSWORD)):
        world.refused(world.client().email_login(email, password, link=session.access), "link wrong password")
    world.refreshed(session)


@check("link", "without a token nothing is linked, and no session is made")
def link_without_token(world):
    client = world.client()
    members = {"username": world.registered(), "password": PASSWORD}
    path = f"/api/client/v2.0/app/{setup.FULL}/auth/providers/local-userpass/login?link=true"
    same("status", client.send("POST", path, client.login_body("local-userpass", members)).status, 401)


@check("95", "a bad Facebook token while linking has the code of a session that ended, and none has")
def link_facebook(world):
    session = world.anonymous()
    response = world.client().login("oauth2-facebook", {"accessToken": "unknown"}, link=session.access)
    world.refused(response, "link facebook")
    world.refreshed(session)


@check("link", "with the switch for realm-web a refused link looks like no session that ended", once=True)
def link_failures_for_web(world):
    email, _ = world.user()
    session = world.anonymous()
    client = world.client()
    same("origin", client.origin, world.base_url)
    with world.settings(web_link_failures=True):
        response = client.email_login(email, PASSWORD, link=session.access)
    body = response.json
    expect("link", body.get("error_code") != "InvalidSession" and body.get("error") != "unauthorized", f"{response}")


# Deletion

@check("97", "a deleted account is gone: no renewal, no logout, no key")
def delete(world):
    for session in (world.anonymous(), world.user()[1]):
        client = world.client()
        check_no_content("delete response", client.delete_account(session.access))
        world.refused(client.refresh(session.refresh), "refresh token dead")
        world.refused(client.logout(session.refresh), "refresh token dead")
        same("status of a second deletion", client.delete_account(session.access).status, 401)


@check("98", "after the deletion a login is refused as for an unknown email, and the email may be registered again")
def login_after_delete(world):
    email, session = world.user()
    client = world.client()
    key = check_created_key(client.create_key(session.refresh, "mine"), "mine")
    check_no_content("delete response", client.delete_account(session.access))
    world.refused(client.email_login(email, PASSWORD), "deleted account")
    world.refused(client.login("api-key", {"key": key["key"]}), "api key refused")
    check_empty_success("register response", client.register(email, PASSWORD), 201)
    expect("user_id", world.session(email).user_id != session.user_id, "the deleted account came back")


# API keys

@check("101", "a key's value comes at its creation alone; disabling, enabling and deleting show")
def keys(world):
    _, session = world.user()
    client = world.client()
    key = check_created_key(client.create_key(session.refresh, "first_key-1"), "first_key-1")
    identifier = key["_id"]
    same("disabled", check_key(client.key(session.refresh, identifier), identifier)["disabled"], False)
    same("names", [item["name"] for item in check_keys(client.keys(session.refresh))], ["first_key-1"])
    for change, state in ((client.disable_key, True), (client.disable_key, True), (client.enable_key, False), (client.enable_key, False)):
        check_no_content("api key change response", change(session.refresh, identifier))
        same("disabled", check_key(client.key(session.refresh, identifier))["disabled"], state)
    check_no_content("api key change response", client.delete_key(session.refresh, identifier))
    world.refused(client.key(session.refresh, identifier), "key unknown")
    same("list", check_keys(client.keys(session.refresh)), [])


@check("102", "no call about keys works without a user", once=True)
def keys_without_user(world):
    client = world.client()
    identifier = "5" * 24
    calls = [
        lambda token: client.send("POST", "/api/client/v2.0/auth/api_keys", {"name": "a"}, authorization=token),
        lambda token: client.send("GET", "/api/client/v2.0/auth/api_keys", authorization=token),
        lambda token: client.send("GET", f"/api/client/v2.0/auth/api_keys/{identifier}", authorization=token),
        lambda token: client.send("DELETE", f"/api/client/v2.0/auth/api_keys/{identifier}", authorization=token),
        lambda token: client.send("PUT", f"/api/client/v2.0/auth/api_keys/{identifier}/enable", authorization=token),
        lambda token: client.send("PUT", f"/api/client/v2.0/auth/api_keys/{identifier}/disable", authorization=token)]
    for call in calls:
        world.refused(call(None), "no authorization")
        world.refused(call("Bearer "), "empty bearer")


@check("103", "another user's key is unknown, and that user's list is empty")
def keys_of_another(world):
    _, session = world.user()
    _, other = world.user()
    client = world.client()
    identifier = check_created_key(client.create_key(session.refresh, "mine"), "mine")["_id"]
    for call in (client.key, client.delete_key, client.enable_key, client.disable_key):
        world.refused(call(other.refresh, identifier), "key unknown")
    same("list", check_keys(client.keys(other.refresh)), [])
    check_key(client.key(session.refresh, identifier), identifier)


@check("104", "a key's name has letters, digits, underscores and hyphens alone, and is not empty")
def key_names(world):
    _, session = world.user()
    client = world.client()
    for name in ("a%b", "a b", "ä", "a.b", "a/b"):
        world.refused(client.create_key(session.refresh, name), "key name")
    world.refused(client.create_key(session.refresh, ""), "key name empty")
    same("list", check_keys(client.keys(session.refresh)), [])


@check("105", "a name that is taken, and ids that do not exist")
def key_conflicts(world):
    _, session = world.user()
    client = world.client()
    check_created_key(client.create_key(session.refresh, "mine"), "mine")
    world.refused(client.create_key(session.refresh, "mine"), "key name taken")
    for identifier in ("5" * 24, "no-id"):
        for call in (client.key, client.delete_key, client.enable_key, client.disable_key):
            world.refused(call(session.refresh, identifier), "key unknown")
    # Another user's keys have names of their own.
    _, other = world.user()
    check_created_key(client.create_key(other.refresh, "mine"), "mine")


@check("106", "a key logs in its owner; disabled or deleted it is refused, enabled again it works")
def login_with_key(world):
    _, session = world.user()
    client = world.client()
    key = check_created_key(client.create_key(session.refresh, "login"), "login")

    def log_in():
        return client.login("api-key", {"key": key["key"]})

    same("user_id", check_login(log_in(), "api-key").user_id, session.user_id)
    client.disable_key(session.refresh, key["_id"])
    world.refused(log_in(), "api key refused")
    client.enable_key(session.refresh, key["_id"])
    same("user_id", check_login(log_in(), "api-key").user_id, session.user_id)
    client.delete_key(session.refresh, key["_id"])
    world.refused(log_in(), "api key refused")


@check("keys", "the key that one is logged in with cannot be deleted")
def delete_own_key(world):
    _, session = world.user()
    client = world.client()
    key = check_created_key(client.create_key(session.refresh, "own"), "own")
    by_key = check_login(client.login("api-key", {"key": key["key"]}), "api-key")
    world.refused(client.delete_key(by_key.refresh, key["_id"]), "key logged in with")
    check_no_content("api key change response", client.delete_key(session.refresh, key["_id"]))


@check("keys", "an anonymous user makes no keys; a linked one does")
def keys_of_anonymous(world):
    session = world.anonymous()
    client = world.client()
    world.refused(client.create_key(session.refresh, "mine"), "key of anonymous")
    link(world, session, "local-userpass", {"username": world.registered(), "password": PASSWORD})
    check_created_key(client.create_key(session.refresh, "mine"), "mine")


@check("keys", "a user has at most 20 keys")
def key_limit(world):
    _, session = world.user()
    client = world.client()
    for number in range(20):
        check_created_key(client.create_key(session.refresh, f"key{number}"), f"key{number}")
    response = client.create_key(session.refresh, "one-too-many")
    expect("key limit", response.status in range(400, 500), f"{response}")
    same("keys", len(check_keys(client.keys(session.refresh))), 20)
