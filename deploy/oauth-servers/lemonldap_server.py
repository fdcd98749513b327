"""Runs the portal of lemonldap-ng (Debian's packages) on loopback until it is ended: an OpenID provider with password logins.

The first line says the port. The client is lanyard with the secret s3cret, the user dwho with the password dwho: the portal's demo
account.
"""

import json
import os
import subprocess

import peer

PORTAL = "/usr/share/lemonldap-ng/portal"


def configuration(work, port, lifetime):
    key = subprocess.run(["openssl", "genrsa", "2048"], check=True, capture_output=True, text=True).stdout
    public = subprocess.run(["openssl", "rsa", "-pubout"], input=key, check=True, capture_output=True, text=True).stdout
    store = {"Directory": f"{work}/sessions", "LockDirectory": f"{work}/sessions/lock"}
    return {
        "cfgNum": 1, "cfgDate": 1700000000, "cfgAuthor": "test", "cfgVersion": "2.16.1",
        "domain": "127.0.0.1", "portal": f"http://127.0.0.1:{port}/", "authentication": "Demo",
        "userDB": "Same", "passwordDB": "Demo", "registerDB": "Null",
        "portalDisplayRegister": 0, "portalDisplayResetPassword": 0, "requireToken": 0,
        "securedCookie": 0, "key": "of a test of Lanyard",
        "cookieName": "lemonldap", "whatToTrace": "uid", "globalStorage": "Apache::Session::File", "globalStorageOptions": store,
        "persistentStorage": "Apache::Session::File", "persistentStorageOptions": store, "timeout": 72000,
        "demoExportedVars": {"cn": "cn", "uid": "uid", "mail": "mail"}, "locationRules": {"default": {"default": "accept"}},
        "issuerDBOpenIDConnectActivation": 1, "issuerDBOpenIDConnectPath": "^/oauth2/", "issuerDBOpenIDConnectRule": 1,
        "oidcServiceMetaDataAuthorizeURI": "authorize", "oidcServiceMetaDataTokenURI": "token",
        "oidcServiceMetaDataUserInfoURI": "userinfo", "oidcServiceMetaDataJWKSURI": "jwks", "oidcServiceMetaDataEndSessionURI": "logout",
        "oidcServiceMetaDataIntrospectionURI": "introspect", "oidcServiceMetaDataCheckSessionURI": "checksession.html",
        "oidcServiceMetaDataRegistrationURI": "register", "oidcServiceAllowAuthorizationCodeFlow": 1, "oidcServicePrivateKeySig": key,
        "oidcServicePublicKeySig": public, "oidcServiceKeyIdSig": "k1", "oidcServiceMetaDataAuthnContext": {"loa-1": 1},
        "oidcRPMetaDataExportedVars": {"lanyard": {"name": "cn"}}, "oidcRPMetaDataOptions": {"lanyard": {
            "oidcRPMetaDataOptionsClientID": "lanyard", "oidcRPMetaDataOptionsClientSecret": "s3cret",
            "oidcRPMetaDataOptionsDisplayName": "lanyard", "oidcRPMetaDataOptionsAllowPasswordGrant": 1,
            "oidcRPMetaDataOptionsRefreshToken": 1, "oidcRPMetaDataOptionsAccessTokenExpiration": lifetime,
            "oidcRPMetaDataOptionsIDTokenSignAlg": "RS256", "oidcRPMetaDataOptionsBypassConsent": 1,
            "oidcRPMetaDataOptionsRedirectUris": "http://127.0.0.1/callback"}}}


def main():
    options, port = peer.flags(), peer.free_port()
    work = options.work
    for folder in ("conf", "sessions", "sessions/lock", "cache"):
        os.makedirs(f"{work}/{folder}")
    with open(f"{work}/conf/lmConf-1.json", "w", encoding="utf-8") as file:
        json.dump(configuration(work, port, options.lifetime), file)
    with open(f"{work}/lemonldap-ng.ini", "w", encoding="utf-8") as file:
        file.write(f"""[all]
logLevel = warn
checkTime = 600
[configuration]
type = File
dirName = {work}/conf
[portal]
staticPrefix = /static
templateDir = {PORTAL}/templates
languages = en
""")
    peer.run(
        ["/usr/bin/starman", "--workers", "3", "--listen", f"127.0.0.1:{port}", f"{PORTAL}/htdocs/index.psgi"], work, port,
        "/.well-known/openid-configuration", {"LLNG_DEFAULTCONFFILE": f"{work}/lemonldap-ng.ini"})


main()
