"""The service as a whole: location, fields of responses, browsers, unknown apps, the end of life."""

from protocol_schema import check_cors, check_cors_origin, check_json_type, check_location, check_login
from wire import Request, exchange
from world import check, expect, same, setup

PREFIX = "/api/client/v2.0"
UNKNOWN = "nothing-zzzzz"
ORIGIN = "https://app.example.com"


@check("location", "names the origin that was asked, with exactly four members")
def location(world):
    check_location(world.client().location(), world.base_url)


@check("location", "is there for every app, and with a Host of another name it names that", once=True)
def location_of_host(world):
    port = world.base_url.rpartition(":")[2]
    for app in (setup.FULL, setup.MAIL, setup.FUNCTION, setup.BARE, setup.CASELESS):
        fields = [("Host", f"localhost:{port}")]
        response = exchange(world.base_url, Request("GET", f"{PREFIX}/app/{app}/location", fields))
        check_location(response, f"http://localhost:{port}")


@check("location", "behind a proxy names the origin that the forwarding fields tell", once=True)
def location_of_proxy(world):
    fields = [("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "apps.example.com")]
    response = exchange(world.base_url, Request("GET", f"{PREFIX}/app/{setup.FULL}/location", fields))
    check_location(response, "https://apps.example.com")


def app_routes(app):
    """(method, path, body) of every route below an app."""
    at = f"{PREFIX}/app/{app}"
    local = f"{at}/auth/providers/local-userpass"
    email = b'{"email":"nobody@example.com","password":"correct-horse"}'
    return [
        ("GET", f"{at}/location", b""),
        ("POST", f"{at}/auth/providers/anon-user/login", b"{}"),
        ("POST", f"{local}/login", b'{"username":"nobody@example.com","password":"correct-horse"}'),
        ("POST", f"{local}/register", email),
        ("POST", f"{local}/confirm", b'{"token":"a","tokenId":"b"}'),
        ("POST", f"{local}/confirm/send", b'{"email":"nobody@example.com"}'),
        ("POST", f"{local}/confirm/call", b'{"email":"nobody@example.com"}'),
        ("POST", f"{local}/reset/send", b'{"email":"nobody@example.com"}'),
        ("POST", f"{local}/reset/call", b'{"email":"nobody@example.com","password":"correct-horse","arguments":[]}'),
        ("POST", f"{local}/reset", b'{"password":"correct-horse","token":"a","tokenId":"b"}'),
        ("POST", f"{at}/functions/call", b'{"name":"sum","arguments":[]}'),
        ("PUT", f"{at}/push/providers/gcm/registration", b'{"registrationToken":"a"}'),
        ("DELETE", f"{at}/push/providers/gcm/registration", b""),
    ]


def token_routes():
    """(method, path, body, kind of token) of every route that is not below an app."""
    keys = f"{PREFIX}/auth/api_keys"
    one = f"{keys}/{'5' * 24}"
    return [
        ("POST", f"{PREFIX}/auth/session", b"", "refresh"), ("DELETE", f"{PREFIX}/auth/session", b"", "refresh"),
        ("GET", f"{PREFIX}/auth/profile", b"", "access"), ("DELETE", f"{PREFIX}/auth/delete", b"", "access"),
        ("POST", keys, b'{"name":"a"}', "refresh"), ("GET", keys, b"", "refresh"), ("GET", one, b"", "refresh"),
        ("DELETE", one, b"", "refresh"), ("PUT", f"{one}/enable", b"", "refresh"), ("PUT", f"{one}/disable", b"", "refresh"),
    ]


def ask(world, method, path, body, *fields):
    kind = [("Content-Type", "application/json")] if body else []
    return exchange(world.base_url, Request(method, path, [*kind, *fields], body))


@check("29", "an app id that does not exist is not found, on every route below it", once=True)
def unknown_app(world):
    for method, path, body in app_routes(UNKNOWN):
        world.refused(ask(world, method, path, body), "unknown app", app=UNKNOWN)


@check("routes", "every route below an app is there: no request to one gets a bare 404 or 405", once=True)
def routes_exist(world):
    for method, path, body in app_routes(setup.FULL):
        response = ask(world, method, path, body)
        code = response.json.get("error_code") if response.body and response.status >= 400 else "a success"
        expect("route", response.status != 405 and not (response.status == 404 and code is None), f"{response}")


@check("no token", "every route that demands a token says so without one", once=True)
def no_token(world):
    session = world.anonymous()
    functions = [
        ("POST", f"{PREFIX}/app/{setup.FULL}/functions/call", b'{"name":"sum","arguments":[]}', "access"),
        ("PUT", f"{PREFIX}/app/{setup.FULL}/push/providers/gcm/registration", b'{"registrationToken":"a"}', "access")]
    for method, path, body, kind in token_routes() + functions:
        world.refused(ask(world, method, path, body), "no authorization")
        world.refused(ask(world, method, path, body, ("Authorization", "Bearer ")), "empty bearer")
        # The token of the other kind is not the one that the route demands.
        other = session.access if kind == "refresh" else session.refresh
        response = ask(world, method, path, body, ("Authorization", f"Bearer {other}"))
        if kind == "refresh":
            world.refused(response, "access token for refresh")
        else:
            same("a refresh token for an access token", response.status, 401)
            check_json_type("a refresh token for an access token", response)


@check("browsers", "a page of another origin may send every request, and read every response", once=True)
def browsers(world):
    client = world.client()
    for method, path, *_ in app_routes(setup.FULL) + token_routes():
        check_cors(client.preflight(path, method), method)
    for method, path, body in app_routes(setup.FULL) + app_routes(UNKNOWN):
        check_cors_origin(ask(world, method, path, body, ("Origin", ORIGIN)), ORIGIN)


@check("request ids", "no two responses have the same request id", once=True)
def request_ids(world):
    ids = [world.client().location().value("x-appservices-request-id") for _ in range(20)]
    same("request ids", len(set(ids)), 20)


@check("410", "after the end of life every call of an app gets 410, and an unknown app its 404", once=True)
def gone(world):
    with world.settings(gone=True):
        for method, path, body in app_routes(setup.FULL):
            world.refused(ask(world, method, path, body), "gone")
        for method, path, body, _ in token_routes():
            world.refused(ask(world, method, path, body, ("Authorization", "Bearer a.b.c")), "gone")
        world.refused(ask(world, "GET", f"{PREFIX}/app/{UNKNOWN}/location", b""), "unknown app", app=UNKNOWN)
    check_location(world.client().location(), world.base_url)


@check("410", "after the end of life a session call of a logged-in user gets 410 too, and works again when the service is back")
def gone_session(world):
    session = world.anonymous()
    client = world.client()
    client.location()
    origin = client.origin
    with world.settings(gone=True):
        world.refused(client.refresh(session.refresh), "gone")
        world.refused(client.profile_of(session.access), "gone")
    same("origin", origin, world.base_url)
    world.refreshed(session)


@check("14", "an app in maintenance says so")
def maintenance(world):
    client = world.client()
    same("origin", client.origin, world.base_url)
    with world.fault(route="login", fault="maintenance"):
        world.refused(client.login("anon-user"), "maintenance")
    world.anonymous()


@check("429", "beyond a rate limit calls get 429, and afterwards they are served again", once=True)
def rate_limit(world):
    client = world.client()
    same("origin", client.origin, world.base_url)
    world.control("POST", "/rate-limits", {"route": "login", "calls": 1, "seconds": 60})
    try:
        check_login(client.login("anon-user"), "anon-user")
        world.refused(client.login("anon-user"), "too many requests")
    finally:
        world.control("DELETE", "/rate-limits")
    world.anonymous()
