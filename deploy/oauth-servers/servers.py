"""The servers of `deploy/check-oauth-servers`: how each is started, its client, its user, and what it does by a rule of its own."""

import os
import re
import socket
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PEER = f"{ROOT}/Tests/SystemSessionTests/OAuth/Peer"
FETCHED = f"{ROOT}/.build/peer-servers"


class Skipped(Exception):
    """This machine cannot run the server."""


class Server:
    """A server whose script says its port in its first line: `port N`."""

    name, title, script, path = "", "", "", "/userinfo"
    # What the operator does with a line that `lanyard login` shows; true: nothing more is needed. None: no login by a person.
    login = None
    flags = ()
    # Its access tokens live long: an operator has them renewed.
    forces = False
    rule = "–"
    # Its token endpoint works.
    has_tokens = True
    lifetime = 12
    route = {}
    # `tls` of the identity.
    trust = None

    def arguments(self, folder):
        """Of its script, after the interpreter and the folder."""
        return ["--python", f"{FETCHED}/{self.name}/bin/python", "--work", folder]

    def fetch(self):
        if os.path.exists(f"{FETCHED}/{self.name}/ready"):
            return
        done = subprocess.run([f"{ROOT}/deploy/peer-servers", self.name], cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise Skipped("it could not be fetched")

    def start(self, folder):
        self.fetch()
        self.folder = folder
        os.mkdir(f"{folder}/server")
        self.log = open(f"{folder}/server.log", "wb")
        self.process = subprocess.Popen(
            ["python3", "-B", "-u", self.script, *self.arguments(f"{folder}/server")], stdout=subprocess.PIPE, stderr=self.log,
            stdin=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        match = re.fullmatch(r"port (\d+)\s*", line)
        if not match:
            raise OSError(f"the server did not start: {open(f'{folder}/server.log', encoding='utf-8').read()[-600:]}")
        self.base = f"http://127.0.0.1:{match[1]}"
        self.prepare()

    def prepare(self):
        """Writes secrets for Lanyard, and sets `identity` and `user`."""

    def secret(self, name, value):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(value)
        os.chmod(path, 0o600)
        return path

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()

    def allows(self, status, body):
        """Whether the server's own rule makes a request fail so."""
        return False


def browser():
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))


def address(line):
    """The URL in a line of `lanyard login`."""
    match = re.search(r"https?://\S+", line)
    return match and match[0].rstrip(".,;)")


class Glewlwyd(Server):
    name, title, path = "glewlwyd", "glewlwyd 2.7.5", "/api/oidc/userinfo"
    script = f"{PEER}/glewlwyd_server.py"

    def arguments(self, folder):
        return ["--root", f"{FETCHED}/glewlwyd/root", "--work", folder, "--lifetime", str(self.lifetime)]

    def prepare(self):
        self.identity = {
            "issuer": f"{self.base}/api/oidc", "client_id": "lanyard", "client_secret_file": self.secret("client", "s3cret"),
            "scopes": ["openid", "api"], "rotation": "one_use"}
        self.user = {"password": {"username": "alice", "password_file": self.secret("password", "wonderland")}}


class Nanoidp(Server):
    name, title = "nanoidp", "nanoidp 3.4.0"
    script = f"{PEER}/nanoidp_server.py"
    forces = True

    def prepare(self):
        self.identity = {
            "issuer": self.base, "client_id": "lanyard", "client_secret_file": self.secret("client", "s3cret"), "scopes": ["openid"]}
        self.user = {"password": {"username": "alice", "password_file": self.secret("password", "wonderland")}}


class Authgent(Server):
    name, title, path = "authgent", "authgent-server 0.3.4", "/.well-known/jwks.json"
    script = f"{PEER}/authgent_server.py"

    def arguments(self, folder):
        return super().arguments(folder) + ["--lifetime", str(self.lifetime)]

    def prepare(self):
        values = {name: open(f"{self.folder}/server/{name}", encoding="utf-8").read() for name in ("client_id", "client_secret")}
        self.identity = {
            "issuer": self.base, "client_id": values["client_id"], "scopes": ["api"],
            "client_secret_file": self.secret("client", values["client_secret"]), "client_authentication": "post"}
        self.user = {"client_credentials": {}}


class Django(Server):
    name, title, path = "django", "django-oauth-toolkit 3.4.1", "/api/echo"
    script = f"{PEER}/django_server.py"
    rule = "a renewal ends the former access token"
    route = {"reauthenticate_on": [401, 403]}

    def arguments(self, folder):
        return super().arguments(folder) + ["--lifetime", str(self.lifetime)]

    def prepare(self):
        self.identity = {"endpoints": {"token": f"{self.base}/o/token/", "revocation": f"{self.base}/o/revoke_token/"}, "client_id": "app",
                         "scopes": ["api"]}
        self.user = {"password": {"username": "alice", "password_file": self.secret("password", "wonder-land-1")}}


class Canaille(Server):
    name, title, path = "canaille", "canaille 0.3.6", "/oauth/userinfo"
    script = f"{PEER}/canaille_server.py"
    forces = True

    def prepare(self):
        self.identity = {
            "endpoints": {"token": f"{self.base}/oauth/token", "revocation": f"{self.base}/oauth/revoke"}, "client_id": "lanyard",
            "client_secret_file": self.secret("client", "s3cret"), "scopes": ["openid", "profile"]}
        self.user = {"password": {"username": "alice", "password_file": self.secret("password", "wonderland")}}


class OidcProvider(Server):
    name, title = "oidcprovider", "django-oidc-provider 0.9.0"
    script = f"{HERE}/oidcprovider_server.py"
    rule = "a renewal ends the former access token; no revocation endpoint"

    def arguments(self, folder):
        return super().arguments(folder) + ["--lifetime", str(self.lifetime)]

    def prepare(self):
        self.identity = {
            "issuer": self.base, "client_id": "lanyard", "client_secret_file": self.secret("client", "s3cret"), "scopes": ["openid"]}
        self.user = {"password": {"username": "alice", "password_file": self.secret("password", "wonder-land-1")}}


class InBrowser(Server):
    """A login with authorization code: `lanyard login` shows an address, which `visit` opens as a browser does."""

    user = {"authorization_code": {}}

    def start(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.redirect_port = probe.getsockname()[1]
        self.redirect = f"http://127.0.0.1:{self.redirect_port}/callback"
        self.flags = ("--browser", "--no-browser", "--redirect-port", str(self.redirect_port))
        super().start(folder)

    def arguments(self, folder):
        return super().arguments(folder) + ["--lifetime", str(self.lifetime), "--redirect", self.redirect]

    def login(self, line, shown):
        found = address(line)
        if found:
            self.visit(browser(), found)
        return found

    def visit(self, opener, url):
        opener.open(url, timeout=60).read()


class McpOAuth(InBrowser):
    name, title, path = "mcpoauth", "django-mcp-oauth 0.1.0", "/mcp"
    script = f"{HERE}/mcpoauth_server.py"
    rule = "a renewal brings no refresh token and ends the one that was sent after 60 s: a login lives for one renewal after it"

    def prepare(self):
        self.identity = {"issuer": self.base, "client_id": "lanyard", "scopes": ["mcp"]}

    def visit(self, opener, url):
        opener.open(self.base + "/login", urllib.parse.urlencode({"username": "alice", "password": "wonder-land-1"}).encode(), timeout=60)
        with opener.open(url, timeout=60) as page:
            place, text = page.geturl(), page.read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', text)[1]
        form = {"csrfmiddlewaretoken": token, "confirm": "yes"}
        opener.open(place, urllib.parse.urlencode(form).encode(), timeout=60).read()


class Mcp(InBrowser):
    # Its issuer ends in a slash, although the application names it without one.
    name, title, path = "mcp", "mcp 2.3.0", "/resource"
    script = f"{HERE}/mcp_server.py"

    def arguments(self, folder):
        return super().arguments(folder) + ["--kind", self.name]

    def prepare(self):
        self.identity = {
            "issuer": self.base + "/", "client_id": "lanyard", "client_secret_file": self.secret("client", "s3cret"), "scopes": ["mcp"]}


class FastMcp(Mcp):
    name, title = "fastmcp", "fastmcp 4.1.6"
    rule = "a renewal ends the former access token"


class Pyop(InBrowser):
    name, title = "pyop", "pyop 3.5.0"
    script = f"{HERE}/pyop_server.py"
    rule = "an https issuer only; `offline_access` needs `prompt: consent`; no revocation endpoint"

    def prepare(self):
        self.base = self.base.replace("http://", "https://")
        authority = f"{self.folder}/server/ca.pem"
        self.trust = {"ca_file": authority}
        self.route = {"tls": {"ca_file": authority}}
        self.identity = {
            "issuer": self.base, "client_id": "lanyard", "client_secret_file": self.secret("client", "s3cret"),
            "scopes": ["openid", "offline_access"], "params": {"prompt": "consent"}}

    def visit(self, opener, url):
        context = ssl.create_default_context(cafile=self.trust["ca_file"])
        jar = urllib.request.HTTPCookieProcessor(CookieJar())
        urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), jar).open(url, timeout=60).read()


class Authlib(Server):
    name, title, path = "authlib", "Authlib 1.9.10", "/resource"
    script = f"{HERE}/authlib_server.py"

    def arguments(self, folder):
        return super().arguments(folder) + ["--lifetime", str(self.lifetime)]

    def prepare(self):
        self.identity = {
            "endpoints": {"token": f"{self.base}/token", "revocation": f"{self.base}/revoke"}, "client_id": "lanyard",
            "client_secret_file": self.secret("client", "s3cret"), "scopes": ["api"]}
        self.user = {"password": {"username": "alice", "password_file": self.secret("password", "wonderland")}}


class Doorkeeper(Authlib):
    name, title = "doorkeeper", "ruby-doorkeeper 5.5.0"
    script = f"{HERE}/doorkeeper_server.py"
    rule = "the former pair ends when the new access token is first used"

    def fetch(self):
        if not os.path.exists("/usr/share/rubygems-integration/all/gems/doorkeeper-5.5.0"):
            raise Skipped("install ruby-doorkeeper, ruby-activerecord and ruby-sqlite3")

    def prepare(self):
        super().prepare()
        self.identity["endpoints"] = {"token": f"{self.base}/oauth/token", "revocation": f"{self.base}/oauth/revoke"}
        self.identity["rotation"] = {"grace": "1d"}


class Lemonldap(Authlib):
    name, title, path = "lemonldap", "lemonldap-ng 2.16.1", "/oauth2/userinfo"
    script = f"{HERE}/lemonldap_server.py"
    rule = "no revocation endpoint; the refresh token lives as long as the SSO session"

    def fetch(self):
        if not os.path.exists("/usr/share/lemonldap-ng/portal/htdocs/index.psgi") or not os.path.exists("/usr/bin/starman"):
            raise Skipped("install liblemonldap-ng-portal-perl, liblemonldap-ng-handler-perl and starman")

    def prepare(self):
        self.identity = {
            "issuer": f"{self.base}/", "client_id": "lanyard", "client_secret_file": self.secret("client", "s3cret"), "scopes": ["openid"]}
        self.user = {"password": {"username": "dwho", "password_file": self.secret("password", "dwho")}}


class Moto(Authlib):
    name, title = "moto", "moto 5.2.5"
    script = f"{HERE}/moto_server.py"
    rule = "Cognito's token endpoint is 500 with HTML: no login is possible, and the state says so"
    has_tokens = False

    def arguments(self, folder):
        return Server.arguments(self, folder)

    def prepare(self):
        super().prepare()
        self.identity["endpoints"] = {"token": f"{self.base}/oauth2/token"}

    def allows(self, status, body):
        return status == 503 and b"identity-unreachable" in body


SERVERS = [
    Glewlwyd(), Nanoidp(), Authgent(), Django(), Canaille(), OidcProvider(), McpOAuth(), Mcp(), FastMcp(), Pyop(), Authlib(),
    Doorkeeper(), Lemonldap(), Moto()]
