"""The errors of App Services: the shape of each, and a table of who gets which."""

import re
from dataclasses import dataclass
from typing import Optional

from protocol_schema import any_text, check_json_type, check_members, check_request_id, expect, matching, text

LINK = re.compile(r"(https?://[^/]+)/groups/[0-9a-f]{24}/apps/[0-9a-f]{24}/logs\?co_id=([0-9a-f]{24})")

# The status of each code that a response may carry.
STATUS_OF_CODE = {
    "MissingAuthReq": 401, "InvalidSession": 401, "UserAppDomainMismatch": 401, "DomainNotAllowed": 403, "ReadSizeLimitExceeded": 413,
    "InvalidParameter": 400, "MissingParameter": 400, "TwilioError": 400, "GCMError": 400, "AWSError": 400, "MongoDBError": 400,
    "ArgumentsNotAllowed": 400, "FunctionExecutionError": 400, "NoMatchingRuleFound": 403, "InternalServerError": 500,
    "AuthProviderNotFound": 404, "AuthProviderAlreadyExists": 409, "ServiceNotFound": 404, "ServiceTypeNotFound": 404,
    "ServiceAlreadyExists": 409, "ServiceCommandNotFound": 404, "ValueNotFound": 404, "ValueAlreadyExists": 409,
    "ValueDuplicateName": 409, "FunctionNotFound": 404, "FunctionAlreadyExists": 409, "FunctionDuplicateName": 409,
    "FunctionSyntaxError": 400, "FunctionInvalid": 400, "IncomingWebhookNotFound": 404, "IncomingWebhookAlreadyExists": 409,
    "IncomingWebhookDuplicateName": 409, "RuleNotFound": 404, "APIKeyNotFound": 404, "RuleAlreadyExists": 409,
    "RuleDuplicateName": 409, "AuthProviderDuplicateName": 409, "RestrictedHost": 403, "APIKeyAlreadyExists": 409,
    "IncomingWebhookAuthFailed": 401, "ExecutionTimeLimitExceeded": 400, "NotCallable": 400, "UserAlreadyConfirmed": 400,
    "UserNotFound": 404, "UserDisabled": 401, "AuthError": 401, "BadRequest": 400, "AccountNameInUse": 409, "InvalidPassword": 401,
    "SchemaValidationFailedWrite": 400, "MaintenanceInProgress": 500, "UserpassTokenInvalid": 400,
}
# Codes whose status depends on the call.
ANY_STATUS = {"HTTPError"}
# Errors that belong to no app, so that there is no log to link to.
WITHOUT_LINK = {"unknown app", "gone"}


@dataclass(frozen=True)
class Refusal:
    """What a refused call brings. `None` as code: there is none. `None` as text: any. A text may have `{…}` to fill in."""

    status: int
    code: Optional[str] = None
    text: Optional[str] = None
    # Neither code nor its absence is pinned down.
    any_code: bool = False

    def filled(self, **values):
        return Refusal(self.status, self.code, self.text.format(**values), self.any_code)


UNAUTHORIZED = "unauthorized"

REFUSALS = {
    # Logging in
    "wrong password": Refusal(401, "InvalidPassword", UNAUTHORIZED),
    "unknown email": Refusal(401, "InvalidPassword", UNAUTHORIZED),
    "deleted account": Refusal(401, "InvalidPassword", UNAUTHORIZED),
    "pending account": Refusal(401, "AuthError", UNAUTHORIZED),
    "api key refused": Refusal(401, "AuthError", UNAUTHORIZED),
    "disabled user": Refusal(401, "UserDisabled"),
    "custom token refused": Refusal(401, "AuthError", UNAUTHORIZED),
    "facebook token refused": Refusal(401, "AuthError", UNAUTHORIZED),
    "google token refused": Refusal(401, "AuthError", UNAUTHORIZED),
    "apple token refused": Refusal(401, "AuthError", UNAUTHORIZED),
    "custom function refused": Refusal(401, "AuthError", UNAUTHORIZED),
    "provider not enabled": Refusal(401, "InvalidSession", "authentication via '{provider}' is unsupported"),
    "unknown app": Refusal(404, None, "cannot find app using Client App ID '{app}'"),
    "maintenance": Refusal(500, "MaintenanceInProgress"),
    "gone": Refusal(410, None, "Atlas App Services and Device Sync have reached EOL"),
    "too many requests": Refusal(429, any_code=True),
    # Tokens
    "access token expired": Refusal(401, "InvalidSession", "invalid session: access token expired"),
    "access token foreign": Refusal(401, "InvalidSession"),
    "access token unparsable": Refusal(401, "InvalidSession"),
    "refresh token dead": Refusal(401, "InvalidSession", "invalid session: failed to find refresh token"),
    "refresh token expired": Refusal(401, "InvalidSession"),
    "refresh token signature": Refusal(401, None, "signature is invalid"),
    "access token for refresh": Refusal(401, None, "invalid refresh token: incorrect token type"),
    "no authorization": Refusal(401, None, "must authenticate first"),
    "empty bearer": Refusal(401, None, "expected Authorization header with JWT (Bearer schema)"),
    "stream of a revoked user": Refusal(403, any_code=True),
    # Linking
    "link in use": Refusal(401, "InvalidSession", UNAUTHORIZED),
    "link wrong password": Refusal(401, "InvalidPassword", UNAUTHORIZED),
    "link facebook": Refusal(401, "InvalidSession"),
    "link second email": Refusal(500, None, UNAUTHORIZED, any_code=True),
    # API keys
    "key name": Refusal(400, "InvalidParameter", "can only contain ASCII letters, numbers, underscores, and hyphens"),
    "key name empty": Refusal(400, None, "'name' is a required string"),
    "key name taken": Refusal(409, "APIKeyAlreadyExists", "API key with name already exists"),
    "key unknown": Refusal(404, "APIKeyNotFound", "API key not found"),
    "key logged in with": Refusal(403, any_code=True),
    "key of anonymous": Refusal(403, any_code=True),
    # Email and password
    "email taken": Refusal(409, "AccountNameInUse", "name already in use"),
    "password length": Refusal(400, "BadRequest", "password must be between 6 and 128 characters"),
    "email invalid": Refusal(400, "BadRequest", "email invalid"),
    "confirmation refused": Refusal(400, "BadRequest", 'failed to confirm user "{email}"'),
    "token data": Refusal(400, "BadRequest", "invalid token data"),
    "token expired": Refusal(400, "UserpassTokenInvalid", "userpass token is expired or invalid"),
    "already confirmed": Refusal(400, "UserAlreadyConfirmed", "already confirmed"),
    "user not found": Refusal(404, "UserNotFound", "user not found"),
    "confirmation automatic": Refusal(400, None, "cannot run confirmation for {email}: automatic confirmation is enabled"),
    "reset by function": Refusal(400, None, "please use reset password via function"),
    "reset refused": Refusal(400, None, 'failed to reset password for user "{email}"'),
    # Functions and push
    "function unknown": Refusal(404, "FunctionNotFound", "function not found"),
    "function failed": Refusal(400, "FunctionExecutionError"),
    "function private": Refusal(400, "NotCallable"),
    "function time": Refusal(400, "ExecutionTimeLimitExceeded"),
    "service unknown": Refusal(404, "ServiceNotFound", "service not found: '{service}'"),
}


def check_error(response, name, origin=None, **values):
    """A response that refuses as the table says; `origin` is what the client asked, and so the host of the link."""
    topic = f"error: {name}"
    refusal = REFUSALS[name].filled(**values) if values else REFUSALS[name]
    expect(topic, response.status == refusal.status, f"{response} in place of {refusal.status}")
    body = check_error_shape(topic, response, origin, has_link=name not in WITHOUT_LINK, is_pinned=not refusal.any_code)
    code = body.get("error_code")
    if not refusal.any_code:
        expect(topic, code == refusal.code, f"error_code is {code!r}, not {refusal.code!r}: {response}")
    expect(topic, refusal.text in (None, body["error"]), f"error is {body['error']!r}, not {refusal.text!r}")
    return body


def check_error_shape(topic, response, origin=None, has_link=True, is_pinned=True):
    """Any error: its members, its code with its status if that is pinned down, and a link that has the id of the request."""
    check_json_type(topic, response)
    check_request_id(topic, response)
    try:
        body = response.json
    except ValueError as error:
        expect(topic, False, f"the body is no JSON ({error}): {response.body[:200]!r}")
    link = {"link": matching(LINK.pattern)}
    check_members(topic, body, {"error": text, **(link if has_link else {})}, {"error_code": any_text, **link})
    code = body.get("error_code")
    if code is not None and code not in ANY_STATUS:
        expect(topic, code in STATUS_OF_CODE, f"error_code {code!r} is unknown")
        wanted = STATUS_OF_CODE[code]
        expect(topic, not is_pinned or wanted == response.status, f"{code} has {wanted}, here {response.status}")
    if "link" not in body:
        return body
    host, identifier = LINK.fullmatch(body["link"]).groups()
    found = response.value("x-appservices-request-id")
    expect(topic, identifier == found, f"co_id is {identifier}, x-appservices-request-id is {found}")
    expect(topic, origin in (None, host), f"the link is of {host}, {origin} was asked")
    return body
