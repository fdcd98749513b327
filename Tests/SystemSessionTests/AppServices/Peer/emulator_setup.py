#!/usr/bin/env python3
"""Makes the configuration of an emulator that the checks need, in a folder, with fresh keys.

    emulator_setup.py FOLDER

Writes `seed.json` for `lanyard-emulator --seed`, keys of issuers, JWKS files, and tokens of these issuers for Lanyard's own logins.
"""

import json
import os
import sys
import time
from dataclasses import dataclass

import ejson
import tokens

# Client app ids, by what each is for.
FULL = "demo-abcde"
MAIL = "mail-bcdef"
FUNCTION = "function-cdefg"
BARE = "bare-defgh"
CASELESS = "caseless-efghi"

HS256_KEY = b"My_very_confidential_secretttttt"
GOOGLE_CLIENT = "client.apps.example"
GOOGLE_ISSUER = "https://accounts.google.com"
APPLE_CLIENT = "com.example.app"
APPLE_ISSUER = "https://appleid.apple.com"
FACEBOOK_TOKEN = "facebook-token-1"
FACEBOOK_USER = {
    "id": "2001", "name": "Fay Book", "first_name": "Fay", "last_name": "Book", "email": "fay@example.com",
    "picture": "https://pictures.example/2001.png"}
GOOGLE_USER = {"id": "1001", "name": "Gus Oogle", "email": "gus@example.com"}
BROWSER_USER = {"id": "1002", "name": "Bro Wser"}
REDIRECT = "http://localhost:3000/callback"
SERVER_KEY = "S" * 64
DISABLED_SERVER_KEY = "D" * 64
ALICE = ("alice@example.com", "correct-horse")


@dataclass
class Issuers:
    """Keys of those who issue tokens for the emulator, and one key that it does not know."""

    jwt_rs: tokens.KeyPair
    jwt_es: tokens.KeyPair
    jwt_set: tokens.KeyPair
    google: tokens.KeyPair
    apple: tokens.KeyPair
    foreign: tokens.KeyPair

    @classmethod
    def at(cls, folder):
        """Reads the keys of a folder, or makes them there."""
        pair = lambda name, kind="RS256": tokens.KeyPair(folder, name, kind)
        return cls(pair("jwt-rs"), pair("jwt-es", "ES256"), pair("jwt-set"), pair("google"), pair("apple", "ES256"), pair("foreign"))


def custom_claims(subject, **more):
    """Claims of a custom token that the full app accepts."""
    now = int(time.time())
    return {"aud": FULL, "sub": subject, "iat": now, "exp": now + 3600, **more}


def google_claims(subject, **more):
    now = int(time.time())
    return {"iss": GOOGLE_ISSUER, "aud": GOOGLE_CLIENT, "sub": subject, "iat": now, "exp": now + 3600, **more}


def apple_claims(subject, **more):
    now = int(time.time())
    return {"iss": APPLE_ISSUER, "aud": APPLE_CLIENT, "sub": subject, "iat": now, "exp": now + 3600, **more}


def configuration():
    return {"apps": [_full(), _mail(), _function(), _bare(), _caseless()]}


def _full():
    return {
        "app_id": FULL,
        "users": [{"email": ALICE[0], "password": ALICE[1]}],
        "api_keys": [
            {"name": "ci", "key": SERVER_KEY}, {"name": "retired", "key": DISABLED_SERVER_KEY, "disabled": True}],
        "providers": {
            "anon-user": {},
            "local-userpass": {"confirmation": "automatic", "reset": "email"},
            "api-key": {},
            "custom-function": {"function": "authenticate"},
            "custom-token": {
                "keys": [
                    {"algorithm": "HS256", "secret": HS256_KEY.decode()},
                    {"algorithm": "RS256", "public_key_file": "jwt-rs.public.pem"},
                    {"algorithm": "ES256", "public_key_file": "jwt-es.public.pem"}],
                "jwks_file": "jwt.jwks",
                "metadata_fields": [
                    {"claim": "user_data.name", "field": "name", "required": False},
                    {"claim": "user_data.occupation", "field": "occupation", "required": False},
                    {"claim": "my_name\\.name", "field": "anotherName", "required": False}]},
            "oauth2-google": {
                "jwks_file": "google.jwks", "client_ids": [GOOGLE_CLIENT], "auth_codes": {"google-code-1": GOOGLE_USER},
                "browser_user": BROWSER_USER},
            "oauth2-apple": {"jwks_file": "apple.jwks", "client_ids": [APPLE_CLIENT]},
            "oauth2-facebook": {"tokens": {FACEBOOK_TOKEN: FACEBOOK_USER, "facebook-token-2": {"id": "2002", "name": "Bo Ok"}}},
        },
        "functions": {
            **{name: {"builtin": name} for name in (
                "sum", "echo", "arguments", "whoami", "updateUserData", "customData", "fail", "wait")},
            "authenticate": {"cases": [
                {"equals": {"user": "alice", "pin": 1234}, "result": {"id": "alice-1", "name": "Alice"}},
                {"has": "realmCustomAuthFuncUserId", "result_path": "realmCustomAuthFuncUserId"},
                {"has": "returnsNothing", "result": None},
                {"error": "no such user"}]},
            "greet": {"cases": [{"arguments": ["alice"], "result": "hello alice"}, {"error": "who are you"}]},
            "secret": {"private": True, "result": 1},
            "nothing": {"result": None},
            "document": {"result": {"colour": "blue", "size": 3}},
        },
        "services": {"mongodb-atlas": {
            "find": {"result": []}, "watch": {"events": [{"operationType": "insert"}, {"operationType": "delete"}], "hold_seconds": 0}}},
        "push_services": ["gcm"],
        "redirect_uris": [REDIRECT],
    }


def _mail():
    return {"app_id": MAIL, "providers": {"anon-user": {}, "local-userpass": {
        "confirmation": "email", "confirmation_url": "http://localhost/confirm", "reset": "email", "reset_url": "http://localhost/reset"}}}


def _function():
    success, pending, fail = ({"status": word} for word in ("success", "pending", "fail"))
    return {
        "app_id": FUNCTION,
        "providers": {
            "anon-user": {},
            "local-userpass": {
                "confirmation": "function", "confirmation_function": "confirm", "reset": "function", "reset_function": "reset"}},
        "functions": {
            "confirm": {"cases": [
                {"contains": {"username": "realm_tests_do_autoverify"}, "result": success},
                {"contains": {"username": "realm_verify"}, "result": success},
                {"contains": {"username": "realm_pending"}, "times": 1, "result": pending},
                {"contains": {"username": "realm_pending"}, "result": success},
                {"contains": {"username": "realm_throw"}, "error": "the function throws"},
                {"result": fail}]},
            "reset": {"cases": [
                {"contains": {"password": "realm_tests_do_reset"}, "result": success},
                {"contains": {"password": "realm_tests_do_not_reset"}, "result": pending},
                {"contains": {"password": "realm_throw"}, "error": "the function throws"},
                {"result": fail}]},
        },
    }


def _bare():
    return {"app_id": BARE, "providers": {"anon-user": {}, "api-key": {"enabled": False}}}


def _caseless():
    return {"app_id": CASELESS, "providers": {"local-userpass": {"confirmation": "automatic", "emails_case_sensitive": False}}}


def write(folder):
    """Everything that `configuration` names, and for each kind of login of Lanyard a file with its secret."""
    issuers = Issuers.at(folder)
    texts = {
        "seed.json": json.dumps(configuration(), indent=1),
        "jwt-rs.public.pem": issuers.jwt_rs.public_pem(),
        "jwt-es.public.pem": issuers.jwt_es.public_pem(),
        "jwt.jwks": tokens.key_set(issuers.jwt_set),
        "google.jwks": tokens.key_set(issuers.google),
        "apple.jwks": tokens.key_set(issuers.apple),
        "login-password": ALICE[1],
        "login-api-key": SERVER_KEY,
        "login-function": json.dumps(ejson.canonical({"realmCustomAuthFuncUserId": "lanyard-function", "count": 3})),
        "login-jwt": tokens.hs256(custom_claims("lanyard-jwt"), HS256_KEY),
        "login-facebook": FACEBOOK_TOKEN,
        "login-google": issuers.google.sign(google_claims("lanyard-google")),
        "login-google-code": "google-code-1",
        "login-apple": issuers.apple.sign(apple_claims("lanyard-apple")),
    }
    for name, text in texts.items():
        path = os.path.join(folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
