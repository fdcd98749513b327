"""The requests of an App Services client, field by field.

`RequestChecker.check` takes a request as it was received and returns its deviations: method and path, query, the kind of token, fields,
members of the body.
"""

import base64
import json
import re
from urllib.parse import unquote

import tokens
from protocol_schema import NO_DEVICE, Deviation, a_list, an_object, any_text, anything, check_members, expect, hex24, one_of, text

APP = r"/api/client/v2\.0/app/(?P<app>[^/]+)"
PREFIX = r"/api/client/v2\.0"
USERPASS = APP + "/auth/providers/local-userpass"
ID = r"[0-9a-f]{24}"

# What every HTTP client adds by itself.
TRANSPORT_FIELDS = {"host", "content-length", "user-agent", "accept-encoding", "connection"}
# What a browser adds.
BROWSER_FIELDS = {"origin", "referer", "accept-language", "dnt"}

CREDENTIALS = {
    "anon-user": [{}],
    "local-userpass": [{"username": text, "password": text}],
    "api-key": [{"key": text}],
    "custom-token": [{"token": text}],
    "oauth2-facebook": [{"accessToken": text}],
    "oauth2-google": [{"authCode": text}, {"id_token": text}],
    "oauth2-apple": [{"id_token": text}],
}
CORE_DEVICE = {
    "appId": text, "platform": text, "platformVersion": text, "sdk": text, "sdkVersion": text, "cpuArch": any_text, "deviceName": any_text,
    "deviceVersion": any_text, "frameworkName": any_text, "frameworkVersion": any_text, "coreVersion": any_text, "bundleId": any_text}
WEB_DEVICE = {"platform": text, "platformVersion": text, "sdkVersion": text}
WEB_DEVICE_OPTIONAL = {"appId": text, "appVersion": text, "deviceId": an_object}


def an_empty_body(topic, request, members):
    expect(topic, request.body == b"", f"the body is {request.body[:100]!r}, not empty")


def an_empty_body_or_object(topic, request, members):
    expect(topic, request.body == b"" or json.loads(request.body) == {}, f"the body is {request.body[:100]!r}")


def exactly(members):
    def check(topic, request, body):
        check_members(topic, body, members)
    return check


# (name, method, path, kind of token, check of the body); a check of None is done apart.
ROUTES = [
    ("location", "GET", APP + "/location", None, an_empty_body),
    ("login", "POST", APP + r"/auth/providers/(?P<provider>[a-z0-9-]+)/login", None, None),
    ("session", "POST", PREFIX + "/auth/session", "refresh", an_empty_body_or_object),
    ("logout", "DELETE", PREFIX + "/auth/session", "refresh", an_empty_body),
    ("profile", "GET", PREFIX + "/auth/profile", "access", an_empty_body),
    ("delete", "DELETE", PREFIX + "/auth/delete", "access", an_empty_body),
    ("api key", "POST", PREFIX + "/auth/api_keys", "refresh", exactly({"name": any_text})),
    ("api key", "GET", PREFIX + f"/auth/api_keys(/{ID})?", "refresh", an_empty_body),
    ("api key", "DELETE", PREFIX + f"/auth/api_keys/{ID}", "refresh", an_empty_body),
    ("api key", "PUT", PREFIX + f"/auth/api_keys/{ID}/(enable|disable)", "refresh", an_empty_body),
    ("register", "POST", USERPASS + "/register", None, exactly({"email": any_text, "password": any_text})),
    ("confirm", "POST", USERPASS + "/confirm", None, exactly({"token": any_text, "tokenId": any_text})),
    ("confirm", "POST", USERPASS + "/confirm/(send|call)", None, exactly({"email": any_text})),
    ("reset", "POST", USERPASS + "/reset/send", None, exactly({"email": any_text})),
    ("reset", "POST", USERPASS + "/reset/call", None, exactly({"email": any_text, "password": any_text, "arguments": a_list})),
    ("reset", "POST", USERPASS + "/reset", None, exactly({"password": any_text, "token": any_text, "tokenId": any_text})),
    ("function", "POST", APP + "/functions/call", "access", None),
    ("stream", "GET", APP + "/functions/call", None, an_empty_body),
    ("push", "PUT", APP + r"/push/providers/[^/]+/registration", "access", exactly({"registrationToken": text})),
    ("push", "DELETE", APP + r"/push/providers/[^/]+/registration", "access", an_empty_body),
]


def _object_of_unique_members(pairs):
    names = [name for name, _ in pairs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"twice: {', '.join(sorted(twice))}")
    return dict(pairs)


def parsed(topic, request):
    if not request.body:
        return None
    try:
        return json.loads(request.body.decode("utf-8"), object_pairs_hook=_object_of_unique_members)
    except ValueError as error:
        raise Deviation(topic, f"the body is no strict JSON: {error}") from None


def kind_of(topic, token):
    """`typ` of a token; foreign tokens have none."""
    try:
        return tokens.claims(token).get("typ")
    except ValueError as error:
        raise Deviation(topic, f"the token is no JWT: {error}") from None


class RequestChecker:
    """Checks the requests of one client. `shape` is the SDK whose shapes it has: `core` or `web`."""

    def __init__(self, app_id, shape="core"):
        self.app_id, self.shape = app_id, shape
        self._knows_location = False

    def check(self, request):
        """The deviations of a request, which is the next one of its client."""
        found = []
        for part in self._parts(request):
            try:
                part()
            except Deviation as deviation:
                found.append(deviation)
        return found

    def _parts(self, request):
        match = self._route(request)
        if match is None:
            def unknown():
                raise Deviation("request path", f"{request.method} {request.target} is no call of the protocol")
            return [unknown]
        (name, _, _, kind, body), groups = match
        return [
            lambda: self._check_order(name),
            lambda: self._check_app(name, groups),
            lambda: self._check_query(name, request),
            lambda: self._check_token(name, kind, request, groups),
            lambda: self._check_fields(name, request),
            lambda: self._check_body(name, body, request, groups),
        ]

    @staticmethod
    def _route(request):
        for route in ROUTES:
            match = re.fullmatch(route[2], request.path)
            if match and request.method == route[1]:
                return route, match.groupdict()
        return None

    def _check_order(self, name):
        """The location is asked for before everything else."""
        expect(f"{name} order", self._knows_location or name == "location", "comes before the location was asked for")
        self._knows_location = True

    def _check_app(self, name, groups):
        app = groups.get("app")
        expect(f"{name} path", app in (None, self.app_id), f"the app is {app}, not {self.app_id}")
        provider = groups.get("provider")
        known = {*CREDENTIALS, "custom-function"}
        expect(f"{name} path", provider is None or provider in known, f"the provider {provider} is unknown")

    def _check_query(self, name, request):
        topic = f"{name} query"
        query = request.query
        if name == "stream":
            self._check_stream_query(topic, query)
        elif name == "login":
            expect(topic, query in ([], [("link", "true")]), f"the query is {query}")
            expect(topic, not (query and "anon-user" in request.path), "anonymous credentials are never linked")
        else:
            expect(topic, "?" not in request.target, f"{request.target} has a query")

    def _check_stream_query(self, topic, query):
        names = [name for name, _ in query]
        expect(topic, names in (["baas_request"], ["baas_request", "baas_at"]), f"the query has {names}")
        values = dict(query)
        try:
            document = json.loads(base64.b64decode(unquote(values["baas_request"]), validate=True))
        except ValueError as error:
            raise Deviation(topic, f"baas_request is not base64 of JSON: {error}") from None
        check_members(topic, document, {"name": text, "arguments": a_list}, {"service": text})
        if "baas_at" in values:
            kind = kind_of(topic, values["baas_at"])
            expect(topic, kind == "access", f"baas_at is a token of kind {kind}")

    def _check_token(self, name, kind, request, groups):
        topic = f"{name} token"
        values = request.values("Authorization")
        expect(topic, len(values) <= 1, "Authorization comes twice")
        if name == "login":
            kind = "access" if ("link", "true") in request.query else None
        if kind is None:
            is_stray = self.shape == "web" and name in ("register", "confirm", "reset", "stream")
            expect(topic, not values or is_stray, "a token comes with a call that demands none")
            return
        expect(topic, values, "Authorization is missing")
        match = re.fullmatch(r"Bearer ([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)", values[0])
        expect(topic, match, f"Authorization is no bearer of a JWT: {values[0][:30]!r}")
        found = kind_of(topic, match[1])
        expect(topic, found == kind, f"the token is of kind {found}, not {kind}")

    def _check_fields(self, name, request):
        topic = f"{name} fields"
        accept, kind = request.values("Accept"), request.values("Content-Type")
        if name == "stream":
            expect(topic, accept == ["text/event-stream"], f"Accept is {accept}")
            expect(topic, not kind, f"Content-Type is {kind}")
        elif name == "location":
            # core sends no fields at all, realm-web its Accept.
            expect(topic, accept in ([], ["application/json"]), f"Accept is {accept}")
            expect(topic, not kind, f"Content-Type is {kind}")
        elif self.shape == "core":
            expect(topic, accept == ["application/json"], f"Accept is {accept}")
            expect(topic, kind == ["application/json;charset=utf-8"], f"Content-Type is {kind}")
        else:
            expect(topic, accept == ["application/json"], f"Accept is {accept}")
            wanted = ["application/json"] if request.body else []
            expect(topic, kind == wanted, f"Content-Type is {kind}, not {wanted}")
        known = TRANSPORT_FIELDS | {"accept", "content-type", "authorization"} | (BROWSER_FIELDS if self.shape == "web" else set())
        unknown = [field for field, _ in request.fields if field.lower() not in known]
        expect(topic, not unknown, f"fields {', '.join(unknown)} are unknown")
        expect(topic, len(request.values("Host")) == 1, f"Host is {request.values('Host')}")

    def _check_body(self, name, check, request, groups):
        topic = f"{name} body"
        body = parsed(topic, request)
        if name == "login":
            self._check_login_body(topic, groups["provider"], body)
        elif name == "function":
            check_members(topic, body, {"name": text, "arguments": a_list}, {"service": text})
            expect(topic, self.shape != "core" or not _bare(body["arguments"]), "arguments have numbers without a type")
        else:
            check(topic, request, body)

    def _check_login_body(self, topic, provider, body):
        expect(topic, isinstance(body, dict), f"{body!r} is not an object")
        if provider == "custom-function":
            expect(topic, "provider" not in body, "provider is told though it is a custom function")
            check_members(topic, body, {"options": an_object}, {name: anything for name in body})
            expect(topic, self.shape != "core" or not _bare(body), "the document has numbers without a type")
        else:
            own = {"options": an_object, **({"provider": one_of(provider)} if self.shape == "core" else {})}
            forms = [form for form in CREDENTIALS[provider] if set(form) <= set(body)] or CREDENTIALS[provider]
            check_members(topic, body, {**forms[0], **own})
        check_members("device", body["options"], {"device": an_object})
        self._check_device(body["options"]["device"])

    def _check_device(self, device):
        if self.shape == "core":
            check_members("device", device, CORE_DEVICE)
            expect("device", device["appId"] == self.app_id, f"appId is {device['appId']}, not {self.app_id}")
            return
        check_members("device", device, WEB_DEVICE, WEB_DEVICE_OPTIONAL)
        if "deviceId" in device:
            check_members("device", device["deviceId"], {"$oid": hex24})
            expect("device", device["deviceId"]["$oid"] != NO_DEVICE, "an id of zeros is told")


def _bare(value):
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_bare(item) for item in items)
