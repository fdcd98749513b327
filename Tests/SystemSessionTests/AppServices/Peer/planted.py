#!/usr/bin/env python3
"""Deviations that are planted in responses and requests, each of which the checks must find.

    planted.py --base http://127.0.0.1:PORT --folder FOLDER

A relay before the emulator changes one field of the messages that a deviation fits, while a client walks through the calls. One line for
each, `ok NAME: what was found` or `FAIL NAME: what`; the exit status is 1 if one fails. Before them the walk passes without a change.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Callable

import tokens
from emulator_setup import FULL, Issuers
from protocol_recorder import Relay
from protocol_schema import (
    Deviation, check_created_key, check_empty_success, check_function_result, check_keys, check_link, check_location, check_no_content,
    check_refreshed)
from request_schema import RequestChecker
from world import PASSWORD, World


def walk(world):
    """Calls of every kind, each with its check."""
    client = world.client()
    check_location(client.location(), world.base_url)
    email = world.email()
    check_empty_success("register response", client.register(email, PASSWORD), 201)
    session = world.session(email)
    session.access = check_refreshed(client.refresh(session.refresh), session)
    world.profile_of(session)
    check_created_key(client.create_key(session.refresh, "mine"), "mine")
    check_keys(client.keys(session.refresh))
    check_function_result(client.call(session.access, "sum", [1, 2]))
    world.refused(client.email_login(email, "wrong-horse"), "wrong password")
    world.refused(client.register(email, PASSWORD), "email taken")
    guest = world.anonymous()
    check_link(client.login("custom-function", {"realmCustomAuthFuncUserId": world.word()}, link=guest.access), guest)
    check_no_content("logout response", client.logout(session.refresh))
    world.refused(client.refresh(session.refresh), "refresh token dead")
    check_no_content("delete response", client.delete_account(guest.access))


# Planting

@dataclass
class Plant:
    """One deviation: the messages that it fits, and what it makes of them. `topic` is what the check that finds it begins with."""

    name: str
    topic: str
    fits: Callable
    alter: Callable

    def alter_request(self, request):
        if self.fits(request):
            self.alter(request)

    def alter_response(self, request, response):
        if self.fits(request, response):
            self.alter(response)


def edit(change):
    """Changes the JSON of a body in place; a body that is none stays."""
    def alter(message):
        if message.body:
            body = message.json
            result = change(body)
            message.body = json.dumps(body if result is None else result).encode()
            if message.value("Content-Length") is not None:
                message.replace("Content-Length", str(len(message.body)))
    return alter


def put(name, value):
    return edit(lambda body: body.__setitem__(name, value))


def drop(*path):
    """Removes the member that the names lead to."""
    def alter(body):
        for name in path[:-1]:
            body = body[name]
        body.pop(path[-1], None)
    return edit(alter)


def claims(member, change):
    """Changes the claims of a token of the body."""
    def alter(body):
        header, payload, signature = body[member].split(".")
        content = json.loads(tokens.decode(payload))
        change(content)
        body[member] = ".".join([header, tokens.encode(json.dumps(content).encode()), signature])
    return edit(alter)


def header_of_token(member, header):
    def alter(body):
        rest = body[member].split(".")[1:]
        body[member] = ".".join([tokens.encode(json.dumps(header).encode()), *rest])
    return edit(alter)


def field(name, value):
    return lambda message: message.replace(name, value)


def no_field(name):
    return lambda message: message.without(name)


def status(number):
    def alter(response):
        response.status = number
    return alter


def reply(ending, *statuses, method=None):
    """Responses of a path that ends so, with one of the statuses."""
    return lambda request, response: (
        request.path.endswith(ending) and response.status in statuses and method in (None, request.method))


def no_content_becomes_ok(response):
    response.status, response.body = 200, b'{"status":"ok"}'
    response.replace("Content-Type", "application/json")


LOGIN = reply("local-userpass/login", 200)
WRONG = reply("local-userpass/login", 401)
REFRESH = reply("/auth/session", 201)
PROFILE = reply("/auth/profile", 200)

RESPONSES = [
    Plant("login without device_id", "login response", LOGIN, drop("device_id")),
    Plant("login with a member more", "login response", LOGIN, put("expires_in", 1800)),
    Plant("login with a charset", "login response", LOGIN, field("Content-Type", "application/json; charset=utf-8")),
    Plant("login with a short user_id", "login response", LOGIN, edit(lambda body: body.update(user_id=body["user_id"][1:]))),
    Plant("login with the device id of no device", "login response", LOGIN, put("device_id", "0" * 24)),
    Plant("login with 201", "login response", LOGIN, status(201)),
    Plant("access token of another kind", "access token", LOGIN, claims("access_token", lambda c: c.update(typ="refresh"))),
    Plant("access token of another user", "login response", LOGIN, claims("access_token", lambda c: c.update(sub="5" * 24))),
    Plant("access token of another session", "login response", LOGIN, claims("access_token", lambda c: c.update(iss="5" * 24))),
    Plant("access token that lives a minute more", "access token", LOGIN, claims("access_token", lambda c: c.update(exp=c["exp"] + 60))),
    Plant("access token of yesterday", "access token", LOGIN,
          claims("access_token", lambda c: c.update(exp=c["exp"] - 86400, iat=c["iat"] - 86400))),
    Plant("access token with empty user_data", "access token", LOGIN, claims("access_token", lambda c: c.update(user_data={}))),
    Plant("access token whose header names another algorithm", "access token", LOGIN,
          header_of_token("access_token", {"alg": "HS512", "typ": "JWT"})),
    Plant("refresh token without the old name of its session", "refresh token", LOGIN,
          claims("refresh_token", lambda c: c.pop("stitch_id"))),
    Plant("refresh token whose two identities differ", "refresh token", LOGIN,
          claims("refresh_token", lambda c: c["stitch_ident"].update(id="other"))),
    Plant("refresh token with an issuer", "refresh token", LOGIN, claims("refresh_token", lambda c: c.update(iss=c["baas_id"]))),
    Plant("session with 200", "session response", REFRESH, status(200)),
    Plant("session with a refresh token", "session response", REFRESH, put("refresh_token", "a.b.c")),
    Plant("session for another user", "session response", REFRESH, claims("access_token", lambda c: c.update(sub="5" * 24))),
    Plant("wrong password with another code", "error: wrong password", WRONG, put("error_code", "AuthError")),
    Plant("wrong password with another text", "error: wrong password", WRONG, put("error", "invalid username/password")),
    Plant("wrong password with 403", "error: wrong password", WRONG, status(403)),
    Plant("error without a link", "error: wrong password", WRONG, drop("link")),
    Plant("error whose link names another request", "error: wrong password", WRONG,
          edit(lambda body: body.update(link=body["link"][:-24] + "5" * 24))),
    Plant("error with a charset", "error: wrong password", WRONG, field("Content-Type", "application/json;charset=utf-8")),
    Plant("error without a request id", "error: wrong password", WRONG, no_field("x-appservices-request-id")),
    Plant("dead session without a code", "error: refresh token dead", reply("/auth/session", 401), drop("error_code")),
    Plant("profile of another domain", "profile response", PROFILE, put("domain_id", "5" * 24)),
    Plant("profile without the email", "profile data", PROFILE, drop("data", "email")),
    Plant("profile whose identity has no kind", "identity of a profile", PROFILE,
          drop("identities", 0, "provider_type")),
    Plant("profile with custom data", "profile response", PROFILE, put("custom_data", {})),
    Plant("profile of another type", "profile response", PROFILE, put("type", "admin")),
    Plant("location with a slash at its end", "location response", reply("/location", 200),
          edit(lambda body: body.update(hostname=body["hostname"] + "/"))),
    Plant("location without ws_hostname", "location response", reply("/location", 200), drop("ws_hostname")),
    Plant("list of keys that shows the value", "api key list response", reply("/auth/api_keys", 200),
          edit(lambda body: [{**item, "key": "K" * 64} for item in body])),
    Plant("created key that is too short", "api key creation response", reply("/auth/api_keys", 201),
          edit(lambda body: body.update(key=body["key"][1:]))),
    Plant("registration that names the user", "register response", reply("/register", 201), lambda response: (
        setattr(response, "body", b'{"userId":"1"}'), response.replace("Content-Type", "application/json"))),
    Plant("logout with 200", "logout response", reply("/auth/session", 204), no_content_becomes_ok),
    Plant("function result as an error", "function response", reply("/functions/call", 200),
          lambda response: setattr(response, "body", b'{"error":"no"}')),
    Plant("link that brings a refresh token", "link response", reply("custom-function/login", 200), put("refresh_token", "a.b.c")),
]


def call(ending, method):
    """Requests of a method whose path ends so."""
    return lambda request: request.path.endswith(ending) and request.method == method


def retarget(old, new):
    def alter(request):
        request.target = request.target.replace(old, new)
    return alter


def other_token(claim):
    """A token whose kind is changed."""
    def alter(request):
        token = request.value("Authorization").removeprefix("Bearer ")
        request.replace("Authorization", "Bearer " + tokens.with_claims(token, {"typ": claim}))
    return alter


def method(word):
    def alter(request):
        request.method = word
    return alter


def body(data):
    def alter(request):
        request.body = data
        request.replace("Content-Length", str(len(data)))
    return alter


A_LOGIN = call("local-userpass/login", "POST")
A_REFRESH = call("/auth/session", "POST")
A_LOGOUT = call("/auth/session", "DELETE")
A_TOKEN = tokens.hs256({"typ": "access"}, b"key")

REQUESTS = [
    Plant("login without provider", "login body", A_LOGIN, drop("provider")),
    Plant("login with another provider", "login body", A_LOGIN, put("provider", "api-key")),
    Plant("login with email in place of username", "login body", A_LOGIN,
          edit(lambda body: body.update(email=body.pop("username")))),
    Plant("login with a member more", "login body", A_LOGIN, put("remember", True)),
    Plant("login with a member twice", "login body", A_LOGIN, lambda request: (
        setattr(request, "body", request.body[:-1] + b',"password":"another"}'),
        request.replace("Content-Length", str(len(request.body))))),
    Plant("login without options", "login body", A_LOGIN, drop("options")),
    Plant("device without coreVersion", "device", A_LOGIN, drop("options", "device", "coreVersion")),
    Plant("device of another app", "device", A_LOGIN, edit(lambda body: body["options"]["device"].update(appId="other"))),
    Plant("device with a number", "device", A_LOGIN, edit(lambda body: body["options"]["device"].update(platformVersion=6))),
    Plant("login with a token", "login token", A_LOGIN, field("Authorization", "Bearer " + A_TOKEN)),
    Plant("login without a charset", "login fields", A_LOGIN, field("Content-Type", "application/json")),
    Plant("login without Accept", "login fields", A_LOGIN, no_field("Accept")),
    Plant("login with a cookie", "login fields", A_LOGIN, field("Cookie", "a=b")),
    Plant("login with a query", "login query", A_LOGIN, retarget("/login", "/login?password=correct-horse")),
    Plant("session with an access token", "session token", A_REFRESH, other_token("access")),
    Plant("session without a token", "session token", A_REFRESH, no_field("Authorization")),
    Plant("session with the token twice", "session token", A_REFRESH,
          lambda request: request.fields.append(("Authorization", request.value("Authorization")))),
    Plant("session with a body", "session body", A_REFRESH, body(b'{"refresh_token":"a"}')),
    Plant("session below the app", "request path", A_REFRESH, retarget("/v2.0/", f"/v2.0/app/{FULL}/")),
    Plant("session with PUT", "request path", A_REFRESH, method("PUT")),
    Plant("logout with an access token", "logout token", A_LOGOUT, other_token("access")),
    Plant("logout with another scheme", "logout token", A_LOGOUT,
          lambda request: request.replace("Authorization", request.value("Authorization").replace("Bearer", "Token"))),
    Plant("logout without a type", "logout fields", A_LOGOUT, no_field("Content-Type")),
    Plant("location with a token", "location token", call("/location", "GET"), field("Authorization", "Bearer " + A_TOKEN)),
    Plant("location with two slashes", "request path", call("/location", "GET"), retarget("/location", "//location")),
    Plant("location of another app", "location path", call("/location", "GET"), retarget(FULL, "other-abcde")),
    Plant("profile with a refresh token", "profile token", call("/auth/profile", "GET"), other_token("refresh")),
    Plant("key with an access token", "api key token", call("/auth/api_keys", "POST"), other_token("access")),
    Plant("key list with a body", "api key body", call("/auth/api_keys", "GET"), body(b"{}")),
    Plant("function without arguments", "function body", call("/functions/call", "POST"), drop("arguments")),
    Plant("function with numbers without a type", "function body", call("/functions/call", "POST"), put("arguments", [1])),
    Plant("registration with username", "register body", call("/register", "POST"),
          edit(lambda body: body.update(username=body.pop("email")))),
]


def walked(base, issuers, **hooks):
    """Walks through a relay; returns what the client found, and the relay."""
    with Relay(base, RequestChecker(FULL), **hooks) as relay:
        try:
            walk(World(relay.base_url, "core", issuers))
            return None, relay
        except Deviation as deviation:
            return deviation, relay
        except Exception as error:  # What follows from a changed request is no matter.
            return error, relay


def judge_response(plant, base, issuers):
    """(whether it was found, what)."""
    found, _ = walked(base, issuers, alter_response=plant.alter_response)
    if isinstance(found, Deviation) and found.topic == plant.topic:
        return True, found
    return False, f"the client found {found!r}, not a deviation of {plant.topic}"


def judge_request(plant, base, issuers):
    _, relay = walked(base, issuers, alter_request=plant.alter_request)
    first = next(iter(relay.deviations), (None, None))[1]
    if first is not None and first.topic == plant.topic:
        return True, first
    return False, f"the recorder found {first!r}, not a deviation of {plant.topic}"


def run(base, folder):
    issuers = Issuers.at(folder)
    failed = 0

    def show(name, is_ok, what):
        nonlocal failed
        failed += not is_ok
        print(f"{'ok' if is_ok else 'FAIL'} {name}: {' '.join(str(what).split())[:300]}", flush=True)

    found, relay = walked(base, issuers)
    deviations = relay.report()["deviations"]
    show("nothing planted", found is None and not deviations, found or deviations or f"{len(relay.requests)} requests")
    for plant in RESPONSES:
        show(f"response, {plant.name}", *judge_response(plant, base, issuers))
    for plant in REQUESTS:
        show(f"request, {plant.name}", *judge_request(plant, base, issuers))
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True)
    parser.add_argument("--folder", required=True)
    chosen = parser.parse_args()
    sys.exit(1 if run(chosen.base, chosen.folder) else 0)


if __name__ == "__main__":
    main()
