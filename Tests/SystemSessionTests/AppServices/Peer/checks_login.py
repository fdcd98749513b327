"""Logging in, by every provider."""

import time
from urllib.parse import parse_qsl, urljoin, urlsplit

import ejson
import tokens
from appservices_client import AppServicesClient
from protocol_schema import check_access_token, check_login, check_profile, check_refresh_token
from wire import Request, exchange
from world import PASSWORD, Deviation, check, expect, same, setup


@check("44", "a login with a device gives a device id that is not all zeros, one without it zeros")
def device_ids(world):
    email = world.registered()
    client = world.client()
    check_login(client.email_login(email, PASSWORD), "local-userpass", has_device=True)
    check_login(client.email_login(email, PASSWORD, has_device=False), "local-userpass", has_device=False)
    check_login(client.login("anon-user"), "anon-user", has_device=True)


@check("44", "a client that tells the device id of before keeps logging in")
def device_told(world):
    email, session = world.user()
    check_login(world.client().email_login(email, PASSWORD, device_id=session.device_id), "local-userpass")


@check("47", "each anonymous login makes an account; it needs no body")
def anonymous(world):
    client = world.client()
    first = check_login(client.login("anon-user"), "anon-user")
    second = check_login(client.login("anon-user", has_body=False), "anon-user", has_device=False)
    expect("anonymous login", first.user_id != second.user_id, "the same account twice")
    profile = world.profile_of(first)
    same("identities", [identity["provider_type"] for identity in profile["identities"]], ["anon-user"])
    same("profile data", profile["data"], {})


@check("48", "a registered account logs in, and the profile has its email")
def registered(world):
    email, session = world.user()
    profile = world.profile_of(session)
    same("profile data", profile["data"].get("email"), email)
    same("type", profile["type"], "normal")
    same("identities", len(profile["identities"]), 1)


@check("49", "a wrong password is refused")
def wrong_password(world):
    world.refused(world.client().email_login(world.registered(), "wrong-horse"), "wrong password")


@check("50", "an unknown email gets what a wrong password gets")
def unknown_email(world):
    world.refused(world.client().email_login(world.email(), PASSWORD), "unknown email")


@check("51", "the same credentials twice are the same user, with a session of each login")
def twice(world):
    email, first = world.user()
    second = world.session(email)
    same("user_id", second.user_id, first.user_id)
    expect("session", second.access_claims["iss"] != first.access_claims["iss"], "one session for both")
    world.refreshed(first)
    world.refreshed(second)


@check("52", "a custom function's result is the identity's id; the same id is the same user, another id another one")
def custom_function(world):
    session = world.login("custom-function", {"user": "alice", "pin": 1234})
    same("identities", world.identities(session), [("custom-function", "alice-1")])
    identifier = world.word()
    bob = world.login("custom-function", {"realmCustomAuthFuncUserId": identifier})
    same("identities", world.identities(bob), [("custom-function", identifier)])
    again = world.login("custom-function", {"realmCustomAuthFuncUserId": identifier})
    same("user_id", again.user_id, bob.user_id)
    expect("user_id", bob.user_id != session.user_id, "two ids are one user")


@check("53", "a custom function that throws, or returns nothing, is an auth error")
def custom_function_throws(world):
    for document in ({"user": "alice", "pin": 1}, {"returnsNothing": True}):
        world.refused(world.client().login("custom-function", document), "custom function refused")


def custom_login(world, token):
    return world.client().login("custom-token", {"token": token})


@check("54", "a custom token's mapped fields are in the profile, and no others; dots nest and can be escaped")
def custom_token(world):
    subject = world.word()
    claims = setup.custom_claims(
        subject, user_data={"name": "Ann", "occupation": "smith", "age": 9}, **{"my_name.name": "Other"}, extra="not mapped")
    session = check_login(custom_login(world, tokens.hs256(claims, setup.HS256_KEY)), "custom-token")
    profile = world.profile_of(session)
    same("profile data", profile["data"], {"name": "Ann", "occupation": "smith", "anotherName": "Other"})
    same("identities", world.identities(session), [("custom-token", subject)])


@check("54", "a custom token may be signed with HS256, RS256, ES256 or a key of the key set")
def custom_token_algorithms(world):
    subject = world.word()
    claims = setup.custom_claims(subject)
    signed = [tokens.hs256(claims, setup.HS256_KEY)] + [
        pair.sign(claims) for pair in (world.issuers.jwt_rs, world.issuers.jwt_es, world.issuers.jwt_set)]
    users = {check_login(custom_login(world, token), "custom-token").user_id for token in signed}
    same("users of one subject", len(users), 1)


@check("54", "the audience may be a list that has the app id")
def custom_token_audience(world):
    claims = setup.custom_claims(world.word(), aud=["another-app", setup.FULL])
    check_login(custom_login(world, tokens.hs256(claims, setup.HS256_KEY)), "custom-token")


@check("55", "the fields of a custom token stay in the profile although the custom user data changes")
def custom_token_metadata(world):
    claims = setup.custom_claims(world.word(), user_data={"name": "Ann"})
    session = check_login(custom_login(world, tokens.hs256(claims, setup.HS256_KEY)), "custom-token")
    client = world.client()
    same("status", client.call(session.access, "updateUserData", [{"name": "Zed"}]).status, 200)
    world.refreshed(session)
    same("profile data", world.profile_of(session)["data"], {"name": "Ann"})


@check("56", "a custom token of another key, of another audience, expired, or without a subject is refused")
def custom_token_refused(world):
    good = setup.custom_claims(world.word())
    past = int(time.time()) - 600
    refused = {
        "another key": tokens.hs256(good, b"another key of the same length ..."),
        "a foreign RS256 key": world.issuers.foreign.sign(good),
        "a foreign key under a known id": world.issuers.foreign.sign(good, {"kid": world.issuers.jwt_set.kid}),
        "another audience": tokens.hs256({**good, "aud": "other-app"}, setup.HS256_KEY),
        "no audience": tokens.hs256({k: v for k, v in good.items() if k != "aud"}, setup.HS256_KEY),
        "expired": tokens.hs256({**good, "iat": past - 60, "exp": past}, setup.HS256_KEY),
        "no expiry": tokens.hs256({k: v for k, v in good.items() if k != "exp"}, setup.HS256_KEY),
        "no subject": tokens.hs256({k: v for k, v in good.items() if k != "sub"}, setup.HS256_KEY),
        "changed claims": tokens.with_claims(tokens.hs256(good, setup.HS256_KEY), {"sub": "somebody"}),
        "a public key as a secret": tokens.hs256(good, world.issuers.jwt_rs.public_pem().encode()),
        "no algorithm": ".".join(tokens.hs256(good, b"x", {"alg": "none"}).split(".")[:2]) + ".",
        "no token": "not a token",
    }
    for what, token in refused.items():
        response = custom_login(world, token)
        expect("custom token", response.status == 401, f"{what}: {response}")
        world.refused(response, "custom token refused")


@check("57", "a custom token of a known subject logs in that user and renews its profile")
def custom_token_again(world):
    subject = world.word()
    users = []
    for name in ("Ann", "Anna"):
        claims = setup.custom_claims(subject, user_data={"name": name})
        session = check_login(custom_login(world, tokens.hs256(claims, setup.HS256_KEY)), "custom-token")
        users.append(session.user_id)
        same("profile data", world.profile_of(session)["data"], {"name": name})
    same("user_id", users[1], users[0])


@check("58", "an unknown Facebook token is refused")
def facebook_refused(world):
    world.refused(world.client().login("oauth2-facebook", {"accessToken": "unknown"}), "facebook token refused")


@check("login", "a Facebook user's data is in the profile, with both writings of the picture")
def facebook(world):
    session = world.login("oauth2-facebook", {"accessToken": setup.FACEBOOK_TOKEN})
    data = world.profile_of(session)["data"]
    wanted = {name: setup.FACEBOOK_USER[name] for name in ("name", "first_name", "last_name", "email", "picture")}
    same("profile data", {name: data.get(name) for name in wanted}, wanted)
    same("picture_url", data.get("picture_url"), setup.FACEBOOK_USER["picture"])
    same("user_id", world.login("oauth2-facebook", {"accessToken": setup.FACEBOOK_TOKEN}).user_id, session.user_id)


@check("login", "a Google ID token logs in, and its subject is one user")
def google(world):
    subject = world.word()
    issuer = world.issuers.google
    users = {
        world.login("oauth2-google", {"id_token": issuer.sign(setup.google_claims(subject, email="g@example.com"))}).user_id
        for _ in range(2)}
    same("users of one subject", len(users), 1)


@check("login", "a Google authorization code logs in its user")
def google_code(world):
    session = world.login("oauth2-google", {"authCode": "google-code-1"})
    same("name", world.profile_of(session)["data"].get("name"), setup.GOOGLE_USER["name"])


@check("login", "an Apple ID token logs in, and its subject is one user")
def apple(world):
    subject = world.word()
    issuer = world.issuers.apple
    users = {world.login("oauth2-apple", {"id_token": issuer.sign(setup.apple_claims(subject))}).user_id for _ in range(2)}
    same("users of one subject", len(users), 1)


@check("login", "tokens of Google and Apple that are foreign, expired or for another client are refused", once=True)
def social_refused(world):
    client = world.client()
    past = int(time.time()) - 600
    for provider, issuer, claims in (
        ("oauth2-google", world.issuers.google, setup.google_claims("s")), ("oauth2-apple", world.issuers.apple, setup.apple_claims("s"))):
        kid = {"kid": issuer.kid}
        refused = [
            world.issuers.foreign.sign(claims, kid), issuer.sign({**claims, "aud": "other.client"}),
            issuer.sign({**claims, "iss": "https://issuer.example"}), issuer.sign({**claims, "exp": past}), "not a token"]
        for token in refused:
            response = client.login(provider, {"id_token": token})
            expect(provider, response.status == 401, f"{response}")
    same("status", client.login("oauth2-google", {"authCode": "unknown"}).status, 401)


def browser_result(world, url):
    """What the last redirect of a login in the browser carries behind `#`; redirects before it are followed."""
    for _ in range(5):
        if url.startswith(setup.REDIRECT):
            return dict(parse_qsl(urlsplit(url).fragment, keep_blank_values=True))
        parts = urlsplit(url)
        response = exchange(f"{parts.scheme}://{parts.netloc}", Request("GET", f"{parts.path}?{parts.query}"))
        expect("login in the browser", response.status in range(300, 400), f"{response}")
        url = urljoin(url, response.value("Location"))
    raise Deviation("login in the browser", f"no end of redirects: {url}")


@check("login", "a login in the browser ends at the page's address with the session behind #", once=True)
def browser(world):
    topic = "login in the browser"
    client = AppServicesClient(world.base_url, setup.FULL, "web")
    state = "abcdefghijkl"
    response = client.browser_login("oauth2-google", setup.REDIRECT, state)
    expect(topic, response.status in range(300, 400), f"{response}")
    found = browser_result(world, urljoin(world.base_url, response.value("Location") or ""))
    expect(topic, "_baas_error" not in found, f"{found}")
    same("_baas_state", found.get("_baas_state"), state)
    same("_baas_client_app_id", found.get("_baas_client_app_id"), setup.FULL)
    access, refresh, user, device = found["_baas_ua"].split("$")
    same("sub", (check_access_token(access)["sub"], check_refresh_token(refresh)["sub"]), (user, user))
    same("device", check_access_token(access)["baas_device_id"], device)
    guest = world.anonymous()
    response = client.browser_login("oauth2-google", setup.REDIRECT, state, link=guest.access)
    same("status of a link", response.status, 200)
    expect(topic, response.value("x-baas-location"), "x-baas-location is missing")


@check("login", "a provider that is not enabled says so", once=True)
def not_enabled(world):
    client = world.client(setup.BARE)
    for provider, members in (
        ("local-userpass", {"username": "a@example.com", "password": PASSWORD}), ("api-key", {"key": "k" * 64}),
        ("custom-function", {"a": "b"}), ("custom-token", {"token": "a.b.c"}), ("oauth2-facebook", {"accessToken": "a"}),
        ("oauth2-google", {"authCode": "a"}), ("oauth2-apple", {"id_token": "a.b.c"})):
        world.refused(client.login(provider, members), "provider not enabled", provider=provider)
    world.anonymous(setup.BARE)


@check("login", "accounts of one app do not exist in another")
def apps_apart(world):
    email = world.registered()
    world.refused(world.client(setup.CASELESS).email_login(email, PASSWORD), "unknown email")


@check("login", "emails have upper and lower case, unless the app says otherwise")
def email_case(world):
    email = world.registered()
    world.refused(world.client().email_login(email.capitalize(), PASSWORD), "unknown email")
    email = world.registered(setup.CASELESS)
    client = world.client(setup.CASELESS)
    one, other = (check_login(client.email_login(text, PASSWORD), "local-userpass") for text in (email, email.upper()))
    same("user_id", other.user_id, one.user_id)
    world.refused(client.register(email.upper(), PASSWORD), "email taken")


@check("107", "a server key logs in as a user of its own that has its name; a disabled one is refused")
def server_keys(world):
    client = world.client()
    session = check_login(client.login("api-key", {"key": setup.SERVER_KEY}), "api-key")
    profile = check_profile(client.profile_of(session.access), session)
    same("type", profile["type"], "server")
    same("name", profile["data"].get("name"), "ci")
    same("user_id", world.login("api-key", {"key": setup.SERVER_KEY}).user_id, session.user_id)
    for key in (setup.DISABLED_SERVER_KEY, "X" * 64):
        world.refused(client.login("api-key", {"key": key}), "api key refused")


@check("59", "a bad key and a bad password are both of the family of auth errors")
def auth_family(world):
    client = world.client()
    world.refused(client.login("api-key", {"key": "X" * 64}), "api key refused")
    world.refused(client.email_login(world.email(), PASSWORD), "unknown email")


@check("login", "a custom function gets the document of the login without its options")
def custom_function_document(world):
    identifier = world.word()
    world.login("custom-function", {"realmCustomAuthFuncUserId": identifier, "n": 3})
    runs = [run for run in world.control("GET", f"/functions?app={setup.FULL}") if run["name"] == "authenticate"]
    same("argument", ejson.plain(runs[-1]["arguments"]), [{"realmCustomAuthFuncUserId": identifier, "n": 3}])


@check("login", "the former texts come with the switch, the codes stay", once=True)
def verbose_texts(world):
    client, mail = world.client(), world.client(setup.MAIL)
    same("origins", (client.origin, mail.origin), (world.base_url, world.base_url))
    email, other = world.user()[0], world.user()[1]
    pending = world.registered(setup.MAIL)
    guest = world.anonymous()
    with world.settings(verbose_texts=True):
        responses = [
            client.email_login(email, "wrong-horse"), client.login("api-key", {"key": "X" * 64}), mail.email_login(pending, PASSWORD),
            client.email_login(email, PASSWORD, link=guest.access),
            client.email_login(world.registered(), PASSWORD, link=other.access)]
        token = custom_login(world, "not a token")
    found = [(response.status, response.json.get("error_code"), response.json["error"]) for response in responses]
    same("texts", found[:4], [
        (401, "InvalidPassword", "invalid username/password"), (401, "AuthError", "invalid API key"),
        (401, "AuthError", "confirmation required"), (401, "InvalidSession", "a user already exists with the specified provider")])
    same("second email", (found[4][0], found[4][2]),
         (500, "linking a local-userpass identity is not allowed when one is already linked"))
    same("code", token.json["error_code"], "AuthError")
    expect("text", token.json["error"].startswith("invalid custom auth token: "), f"{token}")
