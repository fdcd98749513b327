"""What a check works with: clients of the emulator's apps, fresh accounts, the emulator's controls."""

import contextlib
import json
import random
import string
from urllib.parse import urlencode

import emulator_setup as setup
from appservices_client import AppServicesClient
from protocol_errors import check_error
from protocol_schema import Deviation, check_login, check_profile, check_refreshed, expect
from wire import Request, exchange

PASSWORD = "correct-horse"


class World:
    """One emulator as one client profile sees it."""

    def __init__(self, base_url, profile, issuers):
        self.base_url, self.profile, self.issuers = base_url, profile, issuers
        self._random = random.Random()

    def client(self, app=setup.FULL):
        return AppServicesClient(self.base_url, app, self.profile)

    # The controls

    def control(self, method, path, body=None):
        """A control call that must succeed; its JSON, or None."""
        data = b"" if body is None else json.dumps(body).encode()
        fields = [("Content-Type", "application/json")] if data else []
        response = exchange(self.base_url, Request(method, "/emulator" + path, fields, data))
        if response.status not in range(200, 300):
            raise RuntimeError(f"control {response}")
        return response.json if response.body else None

    @contextlib.contextmanager
    def settings(self, **values):
        """Settings that hold inside, and are put back."""
        before = self.control("GET", "/settings")
        self.control("PUT", "/settings", values)
        try:
            yield
        finally:
            self.control("PUT", "/settings", {name: before[name] for name in values})

    @contextlib.contextmanager
    def fault(self, **fault):
        self.control("POST", "/faults", fault)
        try:
            yield
        finally:
            self.control("DELETE", "/faults")

    def later(self, seconds):
        """The service's clock is ahead by that much inside."""
        return self.settings(clock_offset_seconds=seconds)

    def mails(self, email, app):
        return self.control("GET", "/mails?" + urlencode({"email": email, "app": app}))

    def newest_mail(self, email, app, kind):
        found = [mail for mail in self.mails(email, app) if mail["kind"] == kind]
        expect("mail", found, f"no {kind} mail for {email}")
        return found[-1]

    # Accounts

    def word(self, count=10):
        return "".join(self._random.choices(string.ascii_lowercase + string.digits, k=count))

    def email(self, tag="user"):
        """An address of no account."""
        return f"{tag}-{self.word()}@example.com"

    def registered(self, app=setup.FULL, email=None, password=PASSWORD):
        """An account that is registered and not logged in: its email."""
        email = email or self.email()
        response = self.client(app).register(email, password)
        expect("register response", response.status == 201, f"{response}")
        return email

    def session(self, email, password=PASSWORD, app=setup.FULL, **options):
        """A login by email that must succeed."""
        return check_login(self.client(app).email_login(email, password, **options), "local-userpass")

    def user(self, app=setup.FULL):
        """A fresh account that is logged in: (email, session)."""
        email = self.registered(app)
        return email, self.session(email, app=app)

    def anonymous(self, app=setup.FULL):
        return check_login(self.client(app).login("anon-user"), "anon-user")

    def login(self, provider, members, app=setup.FULL):
        return check_login(self.client(app).login(provider, members), provider)

    def profile_of(self, session, app=setup.FULL):
        return check_profile(self.client(app).profile_of(session.access), session)

    def refreshed(self, session, app=setup.FULL, **options):
        return check_refreshed(self.client(app).refresh(session.refresh), session, **options)

    def refused(self, response, name, **values):
        """The response is the error of that name in the table."""
        return check_error(response, name, self.base_url, **values)

    def identities(self, session):
        return [(identity["provider_type"], identity["id"]) for identity in self.profile_of(session)["identities"]]


def same(topic, found, wanted):
    expect(topic, found == wanted, f"{found!r}, not {wanted!r}")


# Every check, in the order in which it is declared.
CHECKS = []


def check(label, sentence, once=False):
    """Declares a check: `label` is the number of a behaviour in docs/reference/app-services-behaviours.md 10 or a subject, `sentence` what must hold.

    A check that depends on no request shape runs `once`, with core's.
    """
    def declare(function):
        CHECKS.append((label, sentence, once, function))
        return function
    return declare


__all__ = ["CHECKS", "Deviation", "PASSWORD", "World", "check", "expect", "same", "setup"]
