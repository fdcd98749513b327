"""JSON Web Tokens: reading them without verifying, and signing those that foreign issuers would sign.

HS256 is made here; RS256 and ES256 are made by the command `openssl`.
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess


ALPHABET = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def encode(data):
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    if "=" in text or any(c not in ALPHABET for c in text):
        raise ValueError("not base64url without padding")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def parts(token):
    """(header, claims) of a token.

    Raises ValueError with what is wrong.
    """
    pieces = token.split(".")
    if len(pieces) != 3 or not all(pieces):
        raise ValueError(f"{len(pieces)} parts in place of three that are not empty")
    header, claims = (json.loads(decode(piece)) for piece in pieces[:2])
    decode(pieces[2])
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise ValueError("header or claims are not an object")
    return header, claims


def claims(token):
    return parts(token)[1]


def with_claims(token, changes, *, resign=None):
    """The token with changed claims; the signature stays as it was unless `resign` gives an HS256 key."""
    header, body, signature = token.split(".")
    changed = json.loads(decode(body))
    changed.update(changes)
    signed = header + "." + encode(json.dumps(changed).encode())
    if resign is not None:
        signature = encode(hmac.new(resign, signed.encode(), hashlib.sha256).digest())
    return signed + "." + signature


def with_broken_signature(token):
    head, _, signature = token.rpartition(".")
    first = "A" if signature[0] != "A" else "B"
    return head + "." + first + signature[1:]


def hs256(claims, key, header=None):
    signed = _signed({"alg": "HS256", "typ": "JWT", **(header or {})}, claims)
    return signed + "." + encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())


def _signed(header, claims):
    return ".".join(encode(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))


def _openssl(*arguments, data=None):
    done = subprocess.run(["openssl", *arguments], input=data, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout


class KeyPair:
    """A key of an issuer, made by `openssl` in a folder. `kind` is RS256 or ES256."""

    def __init__(self, folder, kid, kind="RS256"):
        self.kid, self.kind = kid, kind
        self.path = os.path.join(folder, f"{kid}.pem")
        if not os.path.exists(self.path):
            form = (["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"] if kind == "RS256"
                    else ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"])
            _openssl("genpkey", *form, "-out", self.path)

    def public_pem(self):
        return _openssl("pkey", "-in", self.path, "-pubout").decode()

    def jwk(self):
        """The public half as RFC 7517 writes it."""
        common = {"kid": self.kid, "use": "sig", "alg": self.kind}
        if self.kind == "ES256":
            point = _openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")[-64:]
            return {**common, "kty": "EC", "crv": "P-256", "x": encode(point[:32]), "y": encode(point[32:])}
        modulus = _openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().strip().split("=")[1]
        return {**common, "kty": "RSA", "n": encode(bytes.fromhex(modulus)), "e": "AQAB"}

    def sign(self, claims, header=None):
        signed = _signed({"alg": self.kind, "typ": "JWT", "kid": self.kid, **(header or {})}, claims)
        signature = _openssl("dgst", "-sha256", "-sign", self.path, data=signed.encode())
        if self.kind == "ES256":
            signature = _raw_signature(signature)
        return signed + "." + encode(signature)


def _raw_signature(der):
    """r and s of 32 bytes each (RFC 7518 section 3.4), of the two numbers that DER has."""
    place = 2
    numbers = b""
    for _ in range(2):
        count = der[place + 1]
        number = der[place + 2:place + 2 + count].lstrip(b"\0")
        numbers += number.rjust(32, b"\0")
        place += 2 + count
    return numbers


def key_set(*pairs):
    """A JWKS document."""
    return json.dumps({"keys": [pair.jwk() for pair in pairs]})
