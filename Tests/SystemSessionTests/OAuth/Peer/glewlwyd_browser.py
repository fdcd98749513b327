"""A browser at glewlwyd, in which a user logs in and consents: alice, or the one whose name follows.

    glewlwyd_browser.py device BASE CODE [USER]   confirms a user code (BASE: the address of glewlwyd)
    glewlwyd_browser.py code BASE URI [USER]      opens an authorization URI, or the address of `lanyard login` that leads to one, and
                                                  follows it to where it leads; prints the page
    glewlwyd_browser.py register BASE URI         makes this the client's redirect URI

For `code` the administrator first registers the redirect URI of the request: glewlwyd compares the port, too. A request that is pushed
names none here, and needs `register` before it is pushed.
"""

import http.cookiejar
import json
import sys
import urllib.error
import urllib.parse
import urllib.request


def opener(base, name, password, jar=None):
    made = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar() if jar is None else jar))
    call(made, "POST", base + "/api/auth/", {"username": name, "password": password})
    return made


def call(made, method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with made.open(request, timeout=60) as response:
        return response.read()


def register(base, redirect):
    admin = opener(base, "admin", "password")
    client = json.loads(call(admin, "GET", base + "/api/client/lanyard"))
    client["redirect_uri"] = [redirect]
    call(admin, "PUT", base + "/api/client/lanyard", client)


class Unfollowed(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def begun(uri, jar):
    """Where the address of `lanyard login` leads; its cookie is kept."""
    made = urllib.request.build_opener(Unfollowed(), urllib.request.HTTPCookieProcessor(jar))
    try:
        made.open(uri, timeout=60)
    except urllib.error.HTTPError as response:
        assert response.code == 303, response.code
        return response.headers["Location"]
    raise AssertionError("no redirect")


def main():
    kind, base, value = sys.argv[1:4]
    user = sys.argv[4] if len(sys.argv) > 4 else "alice"
    jar = http.cookiejar.CookieJar()
    if kind == "register":
        register(base, value)
        return
    if kind == "code":
        if "/begin/" in value:
            value = begun(value, jar)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(value).query)
        if "redirect_uri" in query:
            register(base, query["redirect_uri"][0])
    browser = opener(base, user, "wonderland", jar)
    call(browser, "PUT", base + "/api/auth/grant/lanyard", {"scope": "openid api"})
    if kind == "device":
        page = browser.open(f"{base}/api/oidc/device?code={value}&g_continue", timeout=60)
        print(page.geturl())
    else:
        # What glewlwyd's own page adds once the user has consented.
        with browser.open(value + "&g_continue", timeout=60) as page:
            print(page.status, page.read().decode())


main()
