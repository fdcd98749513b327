"""The responses of App Services, field by field.

Each `check_…` takes a response and raises `Deviation` for the first difference. It demands what the protocol gives: the status, the exact
Content-Type, exactly these members, their types, and what must be equal between them.
"""

import re
import time
from dataclasses import dataclass

import tokens

HEX24 = re.compile(r"[0-9a-f]{24}")
NO_DEVICE = "0" * 24
ACCESS_SECONDS = 1800
REFRESH_SECONDS = 5_184_000
ANONYMOUS_REFRESH_SECONDS = 1_576_800_000
CLOCK_SECONDS = 120
# Claims that the emulator documents beyond those of the protocol: the id of the token, and its number under rotation.
OWN_ACCESS_CLAIMS = {"jti"}
OWN_REFRESH_CLAIMS = {"jti", "serial"}
# What `data` of a profile may have as strings alone.
PROFILE_TEXTS = {"name", "email", "picture_url", "picture", "first_name", "last_name", "gender", "birthday", "min_age", "max_age"}


class Deviation(Exception):
    """A message is not what the protocol says. `topic` is the subject, such as `login response`."""

    def __init__(self, topic, what):
        super().__init__(f"{topic}: {what}")
        self.topic = topic


def expect(topic, condition, what):
    if not condition:
        raise Deviation(topic, what)


# Kinds of values: each returns what is wrong, or None.

def text(value):
    return None if isinstance(value, str) and value else f"is {value!r}, not a text"


def any_text(value):
    return None if isinstance(value, str) else f"is {value!r}, not a string"


def hex24(value):
    return None if isinstance(value, str) and HEX24.fullmatch(value) else f"is {value!r}, not 24 hex digits"


def boolean(value):
    return None if isinstance(value, bool) else f"is {value!r}, not true or false"


def null(value):
    return None if value is None else f"is {value!r}, not null"


def seconds(value):
    return None if isinstance(value, int) and not isinstance(value, bool) else f"is {value!r}, not whole seconds"


def anything(_):
    return None


def an_object(value):
    return None if isinstance(value, dict) else f"is {value!r}, not an object"


def a_list(value):
    return None if isinstance(value, list) else f"is {value!r}, not a list"


def one_of(*choices):
    return lambda value: None if value in choices else f"is {value!r}, not one of {', '.join(map(str, choices))}"


def matching(pattern):
    return lambda value: None if isinstance(value, str) and re.fullmatch(pattern, value) else f"is {value!r}, not {pattern}"


def check_members(topic, value, required, optional=None):
    """`value` is an object with each required member, and no member beyond the required and optional ones."""
    expect(topic, isinstance(value, dict), f"{value!r} is not an object")
    optional = optional or {}
    for name in required:
        expect(topic, name in value, f"member {name} is missing")
    for name, item in value.items():
        kind = required.get(name) or optional.get(name)
        expect(topic, kind is not None, f"member {name} is unknown")
        wrong = kind(item)
        expect(topic, wrong is None, f"member {name} {wrong}")


def check_status(topic, response, *statuses):
    expect(topic, response.status in statuses, f"{response} in place of {' or '.join(map(str, statuses))}")


def check_json_type(topic, response):
    """Exactly `application/json`: core reads the body of no other type."""
    found = response.values("Content-Type")
    expect(topic, found == ["application/json"], f"Content-Type is {found}, not exactly application/json")


def check_request_id(topic, response):
    found = response.value("x-appservices-request-id")
    expect(topic, found is not None and HEX24.fullmatch(found), f"x-appservices-request-id is {found!r}, not 24 hex digits")


def body_of(topic, response, *statuses):
    """The JSON of a successful response."""
    check_status(topic, response, *statuses)
    check_json_type(topic, response)
    check_request_id(topic, response)
    try:
        return response.json
    except ValueError as error:
        raise Deviation(topic, f"the body is no JSON ({error}): {response.body[:200]!r}") from None


def check_no_content(topic, response):
    check_status(topic, response, 204)
    expect(topic, response.body == b"", f"204 with a body: {response.body[:200]!r}")
    check_request_id(topic, response)


def check_empty_success(topic, response, *statuses):
    """A success whose body clients ignore: no body without a type, or an empty JSON object."""
    check_status(topic, response, *statuses)
    check_request_id(topic, response)
    if response.body or response.value("Content-Type") is not None:
        body = body_of(topic, response, *statuses)
        expect(topic, body == {}, f"the body is {body!r}, not an empty object")


# Location

def check_location(response, origin):
    """`origin` is what the client asked, such as `http://127.0.0.1:9090`."""
    topic = "location response"
    body = body_of(topic, response, 200)
    check_members(
        topic, body,
        {"deployment_model": one_of("GLOBAL", "LOCAL"), "location": matching(r"[A-Z]{2}(-[A-Z]{2,3})?"), "hostname": text,
         "ws_hostname": text},
        {"sync_route": text})
    expect(topic, body["hostname"] == origin, f"hostname is {body['hostname']}, but {origin} was asked")
    sockets = "ws" + origin.removeprefix("http")
    expect(topic, body["ws_hostname"] == sockets, f"ws_hostname is {body['ws_hostname']}, not {sockets}")
    return body


# Tokens

@dataclass
class Session:
    """What a login brought, with the claims of both tokens."""

    user_id: str
    device_id: str
    access: str
    refresh: str
    access_claims: dict
    refresh_claims: dict
    provider: str


def _claims(topic, token):
    expect(topic, isinstance(token, str), f"{token!r} is not a string")
    try:
        header, claims = tokens.parts(token)
    except (ValueError, UnicodeDecodeError) as error:
        raise Deviation(topic, f"not a JWT: {error}") from None
    expect(topic, header == {"alg": "HS256", "typ": "JWT"}, f"the header is {header}")
    return claims


def _check_twins(topic, claims, *pairs):
    for own, old in pairs:
        expect(topic, claims[own] == claims[old], f"{own} is {claims[own]!r}, {old} is {claims[old]!r}")


def _check_times(topic, claims, lifetime, now):
    if lifetime is not None:
        expect(topic, claims["exp"] - claims["iat"] == lifetime, f"exp - iat is {claims['exp'] - claims['iat']}, not {lifetime}")
    expect(topic, claims["exp"] > claims["iat"], "exp is not after iat")
    now = time.time() if now is None else now
    expect(topic, abs(claims["iat"] - now) <= CLOCK_SECONDS, f"iat is {claims['iat']}, but it is {int(now)}")


def check_access_token(token, lifetime=ACCESS_SECONDS, now=None):
    """The claims of an access token that has just been issued."""
    topic = "access token"
    claims = _claims(topic, token)
    check_members(
        topic, claims,
        {"typ": one_of("access"), "sub": hex24, "iss": text, "iat": seconds, "exp": seconds, "baas_device_id": hex24,
         "stitch_devId": hex24, "baas_domain_id": hex24, "stitch_domainId": hex24},
        {"user_data": an_object, **{name: anything for name in OWN_ACCESS_CLAIMS}})
    _check_twins(topic, claims, ("baas_device_id", "stitch_devId"), ("baas_domain_id", "stitch_domainId"))
    _check_times(topic, claims, lifetime, now)
    expect(topic, claims.get("user_data") != {}, "user_data is there though it is empty")
    return claims


def check_refresh_token(token, lifetime=REFRESH_SECONDS, now=None):
    """The claims of a refresh token that has just been issued."""
    topic = "refresh token"
    claims = _claims(topic, token)
    check_members(
        topic, claims,
        {"typ": one_of("refresh"), "sub": hex24, "iat": seconds, "exp": seconds, "baas_device_id": hex24, "stitch_devId": hex24,
         "baas_domain_id": hex24, "stitch_domainId": hex24, "baas_id": text, "stitch_id": text, "baas_identity": an_object,
         "stitch_ident": an_object, "baas_data": null, "stitch_data": null},
        {name: anything for name in OWN_REFRESH_CLAIMS})
    _check_twins(
        topic, claims, ("baas_device_id", "stitch_devId"), ("baas_domain_id", "stitch_domainId"), ("baas_id", "stitch_id"),
        ("baas_identity", "stitch_ident"))
    check_members(topic, claims["baas_identity"], {"id": text, "provider_type": text, "provider_id": text})
    _check_times(topic, claims, lifetime, now)
    return claims


def refresh_lifetime(provider):
    return ANONYMOUS_REFRESH_SECONDS if provider == "anon-user" else REFRESH_SECONDS


def check_login(response, provider, *, has_device=True, access_seconds=ACCESS_SECONDS, refresh_seconds="default", now=None):
    """The response of a login by `provider`, the last part but one of the path. A lifetime of None is not looked at."""
    topic = "login response"
    body = body_of(topic, response, 200)
    check_members(topic, body, {"access_token": text, "refresh_token": text, "user_id": hex24, "device_id": hex24})
    if refresh_seconds == "default":
        refresh_seconds = refresh_lifetime(provider)
    access = check_access_token(body["access_token"], access_seconds, now)
    refresh = check_refresh_token(body["refresh_token"], refresh_seconds, now)
    device = body["device_id"]
    expect(topic, (device != NO_DEVICE) == has_device, f"device_id is {device}, options.device was {'' if has_device else 'not '}sent")
    for name, claims in (("access", access), ("refresh", refresh)):
        expect(topic, claims["sub"] == body["user_id"], f"user_id is {body['user_id']}, sub of the {name} token {claims['sub']}")
        expect(topic, claims["baas_device_id"] == device, f"device_id is {device}, that of the {name} token {claims['baas_device_id']}")
    expect(topic, access["iss"] == refresh["baas_id"], f"iss is {access['iss']}, the session is {refresh['baas_id']}")
    expect(topic, access["baas_domain_id"] == refresh["baas_domain_id"], "the domains of both tokens differ")
    kind = refresh["baas_identity"]["provider_type"]
    expect(topic, kind == provider, f"provider_type of the login identity is {kind}, not {provider}")
    return Session(body["user_id"], device, body["access_token"], body["refresh_token"], access, refresh, provider)


def check_refreshed(response, session, *, access_seconds=ACCESS_SECONDS, now=None):
    """The response of a session call: nothing but an access token, of the same user, session, device and domain."""
    topic = "session response"
    body = body_of(topic, response, 201)
    check_members(topic, body, {"access_token": text})
    claims = check_access_token(body["access_token"], access_seconds, now)
    for name in ("sub", "iss", "baas_device_id", "baas_domain_id"):
        old = session.access_claims[name]
        expect(topic, claims[name] == old, f"{name} is {claims[name]}, was {old}")
    return body["access_token"]


def check_link(response, session, *, access_seconds=ACCESS_SECONDS, now=None):
    """The response of a link: the same user and device, and no new refresh token."""
    topic = "link response"
    body = body_of(topic, response, 200)
    check_members(topic, body, {"access_token": text, "user_id": hex24, "device_id": hex24}, {"refresh_token": null})
    expect(topic, body["user_id"] == session.user_id, f"user_id is {body['user_id']}, the token's is {session.user_id}")
    claims = check_access_token(body["access_token"], access_seconds, now)
    expect(topic, claims["sub"] == session.user_id, f"sub is {claims['sub']}, the user is {session.user_id}")
    expect(topic, body["device_id"] == claims["baas_device_id"], "device_id is not that of the token")
    return body["access_token"]


# Profile

ID_OF_OWN = r"[0-9a-f]{24}-[a-z]{24}"


def check_profile(response, session):
    topic = "profile response"
    body = body_of(topic, response, 200)
    check_members(
        topic, body,
        {"user_id": hex24, "domain_id": hex24, "identities": a_list, "data": an_object, "type": one_of("normal", "server")})
    expect(topic, body["user_id"] == session.user_id, f"user_id is {body['user_id']}, the token's is {session.user_id}")
    domain = session.access_claims["baas_domain_id"]
    expect(topic, body["domain_id"] == domain, f"domain_id is {body['domain_id']}, the token's is {domain}")
    expect(topic, body["identities"], "there is no identity")
    for identity in body["identities"]:
        check_members(
            "identity of a profile", identity, {"id": text, "provider_type": text, "provider_id": text}, {"provider_data": an_object})
        if identity["provider_type"] in ("anon-user", "local-userpass"):
            wrong = matching(ID_OF_OWN)(identity["id"])
            expect("identity of a profile", wrong is None, f"id {wrong}")
        if identity["provider_type"] == "local-userpass":
            email = (identity.get("provider_data") or {}).get("email")
            expect("identity of a profile", any_text(email) is None, f"provider_data.email is {email!r}")
            expect("profile data", body["data"].get("email") == email, f"email is {body['data'].get('email')!r}, not {email}")
    for name, value in body["data"].items():
        wrong = any_text(value) if name in PROFILE_TEXTS else None
        expect("profile data", wrong is None, f"{name} {wrong}")
    pictures = (body["data"].get("picture"), body["data"].get("picture_url"))
    expect("profile data", pictures[0] == pictures[1], f"picture and picture_url are {pictures}")
    return body


# API keys

def _check_key(topic, value, has_key):
    members = {"_id": hex24, "name": matching(r"[A-Za-z0-9_-]+"), "disabled": boolean}
    check_members(topic, value, {**members, "key": matching(r"[A-Za-z0-9]{64}")} if has_key else members)


def check_created_key(response, name):
    topic = "api key creation response"
    body = body_of(topic, response, 201)
    _check_key(topic, body, has_key=True)
    expect(topic, (body["name"], body["disabled"]) == (name, False), f"{body['name']}, disabled {body['disabled']}")
    return body


def check_key(response, identifier=None):
    topic = "api key response"
    body = body_of(topic, response, 200)
    _check_key(topic, body, has_key=False)
    expect(topic, identifier in (None, body["_id"]), f"_id is {body['_id']}, {identifier} was asked for")
    return body


def check_keys(response):
    topic = "api key list response"
    body = body_of(topic, response, 200)
    expect(topic, isinstance(body, list), f"{body!r} is not a list")
    for item in body:
        _check_key(topic, item, has_key=False)
    return body


# Functions

def check_function_result(response):
    """A bare value; an object with a text as `error` would read as a failure."""
    topic = "function response"
    body = body_of(topic, response, 200)
    is_failure = isinstance(body, dict) and isinstance(body.get("error"), str)
    expect(topic, not is_failure, f"200 with an error: {body!r}")
    return body


def check_stream_head(head):
    topic = "stream response"
    check_status(topic, head, 200)
    found = head.values("Content-Type")
    expect(topic, len(found) == 1 and found[0].split(";")[0].strip() == "text/event-stream", f"Content-Type is {found}")


# Across origins

def check_cors(response, method, origin="https://app.example.com"):
    """Whether a browser's page may send `method` with a token and a JSON body."""
    topic = "CORS response"
    check_status(topic, response, 200, 204)
    check_cors_origin(response, origin)
    methods = {word.strip() for word in (response.value("Access-Control-Allow-Methods") or "").split(",")}
    expect(topic, method in methods or methods == {"*"}, f"allows {methods}, not {method}")
    fields = {word.strip().lower() for word in (response.value("Access-Control-Allow-Headers") or "").split(",")}
    missing = {"authorization", "content-type"} - fields
    expect(topic, not missing, f"does not allow {missing}")


def check_cors_origin(response, origin):
    found = response.value("Access-Control-Allow-Origin")
    expect("CORS response", found in ("*", origin), f"Access-Control-Allow-Origin is {found!r}")
