"""A client of App Services, with the request shapes of two SDKs.

`AppServicesClient` builds each request as its profile does, sends it to the origin that the location names, and returns the response as
it came. The checks are in `protocol_schema` and `protocol_errors`.
"""

import base64
import json
from urllib.parse import quote, urlencode

import ejson
from wire import Request, Stream, exchange

PREFIX = "/api/client/v2.0"
CORE_TYPE = "application/json;charset=utf-8"
WEB_TYPE = "application/json"
CORE_DEVICE = (
    "appId", "platform", "platformVersion", "sdk", "sdkVersion", "cpuArch", "deviceName", "deviceVersion", "frameworkName",
    "frameworkVersion", "coreVersion", "bundleId")


class CoreProfile:
    """realm-core 14.14: the same fields on each request, `provider` in each login body but that of a custom function."""

    name = "core"

    def fields(self, has_body):
        return [("Content-Type", CORE_TYPE), ("Accept", "application/json")]

    def location_fields(self):
        return []

    def device(self, app_id, device_id):
        values = {
            "appId": app_id, "platform": "Linux", "platformVersion": "6.1", "sdk": "Python", "sdkVersion": "3.11", "cpuArch": "x86_64"}
        return {name: values.get(name, "") for name in CORE_DEVICE}

    def credential(self, provider, members):
        if provider == "custom-function":
            return ejson.canonical(members)
        return {**members, "provider": provider}

    def stream(self, token):
        """Further fields and the query's token of a streaming request."""
        return [], token

    def stray_token(self, token):
        return None


class WebProfile:
    """realm-web 2.0.1: a Content-Type with a body alone, no `provider`, the device of the browser."""

    name = "web"

    def fields(self, has_body):
        return [("Accept", "application/json")] + ([("Content-Type", WEB_TYPE)] if has_body else [])

    def location_fields(self):
        return [("Accept", "application/json")]

    def device(self, app_id, device_id):
        device = {"platform": "chrome", "platformVersion": "120.0", "sdkVersion": "2.0.1", "appId": "local-name", "appVersion": "1.0"}
        return {**device, "deviceId": {"$oid": device_id}} if device_id and set(device_id) != {"0"} else device

    def credential(self, provider, members):
        return members

    def stream(self, token):
        return ([("Authorization", f"Bearer {token}")] if token else []), None

    def stray_token(self, token):
        """Its calls about email and password carry the token of the user who is logged in."""
        return token


PROFILES = {profile.name: profile for profile in (CoreProfile(), WebProfile())}


class AppServicesClient:
    """One app at one base URL. It keeps the origin that the location named, and no user."""

    def __init__(self, base_url, app_id, profile="core"):
        self.base_url, self.app_id, self.profile = base_url.rstrip("/"), app_id, PROFILES[profile]
        self._origin = None

    @property
    def _app(self):
        return f"{PREFIX}/app/{quote(self.app_id)}"

    @property
    def origin(self):
        """Where calls go; asks for the location the first time."""
        if self._origin is None:
            response = self.location()
            if response.status != 200:
                raise RuntimeError(f"location: {response}")
            self._origin = response.json["hostname"] or self.base_url
        return self._origin

    def location(self):
        return exchange(self.base_url, Request("GET", self._app + "/location", self.profile.location_fields()))

    def send(self, method, path, body=None, token=None, authorization=None):
        """One request; `path` is below the origin, `body` what JSON is made of or None for an empty one."""
        data = b"" if body is None else json.dumps(body).encode()
        fields = list(self.profile.fields(bool(data)))
        if token is not None:
            authorization = f"Bearer {token}"
        if authorization is not None:
            fields.append(("Authorization", authorization))
        return exchange(self.origin, Request(method, path, fields, data))

    # Logging in

    def login_body(self, provider, members, device_id=None, has_device=True):
        body = self.profile.credential(provider, members)
        return {**body, "options": {"device": self.profile.device(self.app_id, device_id)}} if has_device else body

    def login(self, provider, members=None, *, link=None, device_id=None, has_device=True, has_body=True):
        """`link` is the access token of the user that the credential is linked to."""
        body = self.login_body(provider, members or {}, device_id, has_device) if has_body else None
        query = "?link=true" if link is not None else ""
        return self.send("POST", f"{self._app}/auth/providers/{provider}/login{query}", body, link)

    def email_login(self, email, password, **options):
        return self.login("local-userpass", {"username": email, "password": password}, **options)

    def browser_login(self, provider, redirect, state, link=None):
        """The first request of a login in the browser; realm-web alone has it."""
        device = base64.b64encode(json.dumps(self.profile.device(self.app_id, None)).encode())
        query = {"redirect": redirect, "state": state, "device": device}
        if link is not None:
            query.update(link="true", providerRedirectHeader="true")
        return self.send("GET", f"{self._app}/auth/providers/{provider}/login?{urlencode(query)}", token=link)

    # Sessions

    def refresh(self, token, body=None):
        return self.send("POST", PREFIX + "/auth/session", body, token)

    def logout(self, token):
        return self.send("DELETE", PREFIX + "/auth/session", None, token)

    # The account

    def profile_of(self, token):
        return self.send("GET", PREFIX + "/auth/profile", None, token)

    def delete_account(self, token):
        return self.send("DELETE", PREFIX + "/auth/delete", None, token)

    # API keys of a user, all with the refresh token

    def create_key(self, token, name):
        return self.send("POST", PREFIX + "/auth/api_keys", {"name": name}, token)

    def keys(self, token):
        return self.send("GET", PREFIX + "/auth/api_keys", None, token)

    def key(self, token, identifier):
        return self.send("GET", f"{PREFIX}/auth/api_keys/{identifier}", None, token)

    def delete_key(self, token, identifier):
        return self.send("DELETE", f"{PREFIX}/auth/api_keys/{identifier}", None, token)

    def enable_key(self, token, identifier):
        return self.send("PUT", f"{PREFIX}/auth/api_keys/{identifier}/enable", None, token)

    def disable_key(self, token, identifier):
        return self.send("PUT", f"{PREFIX}/auth/api_keys/{identifier}/disable", None, token)

    # Email and password

    def _userpass(self, path, body, stray=None):
        return self.send("POST", f"{self._app}/auth/providers/local-userpass/{path}", body, self.profile.stray_token(stray))

    def register(self, email, password, stray=None):
        return self._userpass("register", {"email": email, "password": password}, stray)

    def confirm(self, token, identifier, stray=None):
        return self._userpass("confirm", {"token": token, "tokenId": identifier}, stray)

    def send_confirmation(self, email, stray=None):
        return self._userpass("confirm/send", {"email": email}, stray)

    def call_confirmation(self, email, stray=None):
        return self._userpass("confirm/call", {"email": email}, stray)

    def send_reset(self, email, stray=None):
        return self._userpass("reset/send", {"email": email}, stray)

    def call_reset(self, email, password, arguments=(), stray=None):
        body = {"email": email, "password": password, "arguments": ejson.canonical(list(arguments))}
        return self._userpass("reset/call", body, stray)

    def reset(self, password, token, identifier, stray=None):
        return self._userpass("reset", {"password": password, "token": token, "tokenId": identifier}, stray)

    # Functions

    @staticmethod
    def call_document(name, arguments, service=None):
        document = {"name": name, "arguments": ejson.canonical(list(arguments))}
        return document if service is None else {**document, "service": service}

    def call(self, token, name, arguments=(), service=None):
        return self.send("POST", self._app + "/functions/call", self.call_document(name, arguments, service), token)

    def call_repaired(self, session, name, arguments=()):
        """A call that renews the access token once if it is refused, as every SDK does.

        Returns the responses in their order: of the call, of the renewal, of the second call.
        """
        responses = [self.call(session.access, name, arguments)]
        if responses[0].status == 401:
            responses.append(self.refresh(session.refresh))
            if responses[1].status in range(200, 300):
                responses.append(self.call(responses[1].json["access_token"], name, arguments))
        return responses

    def open_stream(self, token, name, arguments=(), service=None):
        text = json.dumps(self.call_document(name, arguments, service)).encode()
        fields, parameter = self.profile.stream(token)
        query = "baas_request=" + quote(base64.b64encode(text), safe="")
        if parameter:
            query += "&baas_at=" + parameter
        fields = [("Accept", "text/event-stream"), *fields]
        return Stream(self.origin, Request("GET", f"{self._app}/functions/call?{query}", fields))

    # Push

    def register_push(self, token, service, registration):
        path = f"{self._app}/push/providers/{service}/registration"
        return self.send("PUT", path, {"registrationToken": registration}, token)

    def deregister_push(self, token, service):
        return self.send("DELETE", f"{self._app}/push/providers/{service}/registration", None, token)

    # Browsers

    def preflight(self, path, method, origin="https://app.example.com"):
        """The question that a browser asks before it lets a page send `method` with a token."""
        fields = [("Origin", origin), ("Access-Control-Request-Method", method),
                  ("Access-Control-Request-Headers", "authorization,content-type")]
        return exchange(self.origin, Request("OPTIONS", path, fields))
