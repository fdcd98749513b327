/// The key that a word of another program's configuration stands for: the nearest meaning, where the nearest spelling would lead to a
/// key that means something else.
struct MeantKey {
    /// Unknown names: `token_url`. The case of letters, `-` and `_` do not count: `tokenUrl`.
    let names: Set<String>
    private let folded: Set<[UInt8]>
    /// The section in which they stand.
    let section: String
    /// They may stand in a section below it, too.
    let isDeep: Bool
    /// What to write, as the remedy of an error.
    let remedy: String

    private init(_ names: Set<String>, in section: String, isDeep: Bool = false, _ remedy: String) {
        (self.names, self.section, self.isDeep, self.remedy) = (names, section, isDeep, remedy)
        folded = Set(names.map { NearestName.folded($0) })
    }

    /// The remedy for a name that a section does not know; nil: nothing is known of it, and the spelling counts.
    static func remedy(for name: String, in section: String) -> String? {
        let word = NearestName.folded(String(decoding: name.utf8.prefix(64), as: UTF8.self))
        let candidates = all.filter { meant in
            meant.folded.contains(word)
                && (section == meant.section || meant.isDeep && section.hasPrefix(meant.section + "."))
        }
        // The deepest section knows most.
        if let meant = candidates.max(by: { $0.section.utf8.count < $1.section.utf8.count }) { return meant.remedy }
        // Words of OAuth have one meaning wherever they stand.
        return oauthWords.first { $0.folded.contains(word) }.map {
            $0.remedy + "; oauth2 is the kind of an identity: identities.NAME.oauth2"
        }
    }

    /// The value that a name of RFC 7591 §2 and OpenID Connect Core 9 has as `client_authentication`.
    static let clientAuthentications: [String: String] = [
        "client_secret_post": "post", "client_secret_basic": "basic", "tls_client_auth": "tls",
        "self_signed_tls_client_auth": "tls", "client_assertion": "assertion",
    ]

    private static let issuer = "write it as issuer of oauth2: the URL in front of /.well-known"
    private static let tokenOfRoute = "write it as token: {audience: ...} of the route"
    private static let authentication =
        "write it as client_authentication of oauth2: auto, none, basic, basic_raw, basic_with_id, post, private_key_jwt, assertion or tls"

    private static let all: [MeantKey] = top + routes + oauthWords + identities + users + listeners + webSocket

    private static let addressOfListener = "write it as address of a listener: listeners: [{address: HOST:PORT}]"

    private static let top = [
        MeantKey(
            ["upstream", "upstreams", "url", "target", "backend", "proxy_pass", "destination"], in: "",
            "write it as upstream of a route: routes: [{upstream: URL}]"),
        MeantKey(["listen", "bind", "port", "host", "address"], in: "", addressOfListener),
        MeantKey(
            ["audience", "aud"], in: "",
            "write it as token: {audience: ...} of a route, or as params: {audience: ...} of oauth2 below an identity"),
        MeantKey(
            ["resource", "resources"], in: "",
            "write it as token: {resource: [...]} of a route, or as params: {resource: [...]} of oauth2 below an identity"
        ),
        MeantKey(
            ["scope", "scopes"], in: "",
            "write it as a list, scopes: [...], of oauth2 below an identity, or as token: {scopes: [...]} of a route"),
        MeantKey(
            ["token", "token_file", "api_key", "api_key_file", "bearer_token"], in: "",
            "write it as static: {token_file: PATH} of an identity; the token of the admin API as admin: {token_file: PATH}"
        ),
        MeantKey(
            ["log_level", "loglevel", "level", "debug", "verbose", "verbosity"], in: "",
            "write it as log: {level: debug}"),
        MeantKey(
            ["metrics", "metrics_address", "prometheus"], in: "",
            "the health listener has them at /metrics: health: {address: HOST:PORT}"),
        MeantKey(
            ["origins", "cors", "cors_origins"], in: "",
            "write it as allowed_origins of a listener: listeners: [{address: ..., allowed_origins: [...]}]"),
        MeantKey(
            ["ca_file", "upstream_ca_file", "ca_cert", "ca_bundle", "cacert"], in: "",
            "write it as tls: {ca_file: PATH} of a route for its upstream, or of an identity for its service"),
        MeantKey(["password", "password_file"], in: "store", "write it as passphrase_file: PATH"),
        MeantKey(["bind", "listen", "port", "host"], in: "health", "write it as address: HOST:PORT"),
        MeantKey(["bind", "listen", "port", "host"], in: "admin", "write it as address: HOST:PORT"),
    ]

    private static let routes = [
        MeantKey(["audience", "aud"], in: "routes[]", tokenOfRoute),
        MeantKey(
            ["resource", "resources", "resource_indicator"], in: "routes[]",
            "write it as token: {resource: [...]} of the route"),
        MeantKey(["scope", "scopes"], in: "routes[]", "write it as token: {scopes: [...]} of the route"),
        MeantKey(["scope"], in: "routes[].token", "write it as a list: scopes: [...]"),
        MeantKey(
            ["url", "target", "backend", "proxy_pass", "service", "destination"], in: "routes[]",
            "write it as upstream: URL of the route"),
        MeantKey(["path", "prefix", "path_prefix"], in: "routes[]", "write it as match: {path: /...} of the route"),
        MeantKey(["hosts", "hostname"], in: "routes[]", "write it as match: {hosts: [...]} of the route"),
        MeantKey(["method", "methods"], in: "routes[]", "write it as match: {methods: [...]} of the route"),
        MeantKey(["identity"], in: "routes[]", "name a user of that identity: user: NAME"),
    ]

    /// Of an identity, and of no other section.
    private static let oauthWords = [
        MeantKey(
            ["audience", "resource", "resources"], in: "identities.*", isDeep: true,
            "write it as params: {audience: ...} or params: {resource: [...]} of oauth2; of one route, as its token"),
        MeantKey(
            ["scope"], in: "identities.*", isDeep: true, "write it as a list below oauth2: scopes: [...]"),
        MeantKey(
            ["token_url", "token_uri", "token_endpoint", "access_token_url", "oauth_token_url"], in: "identities.*",
            isDeep: true,
            "write it as endpoints: {token: URL} of oauth2, or give issuer alone"),
        MeantKey(
            [
                "auth_url", "auth_uri", "auth_endpoint", "authorize_url", "authorization_url", "authorization_uri",
                "authorization_endpoint",
            ],
            in: "identities.*", isDeep: true,
            "write it as endpoints: {authorization: URL} of oauth2, or give issuer alone"),
        MeantKey(
            ["revoke_url", "revocation_url", "revocation_endpoint"], in: "identities.*", isDeep: true,
            "write it as endpoints: {revocation: URL} of oauth2, or give issuer alone"),
        MeantKey(
            ["device_url", "device_auth_url", "device_authorization_url", "device_authorization_endpoint"],
            in: "identities.*", isDeep: true,
            "write it as endpoints: {device_authorization: URL} of oauth2, or give issuer alone"),
        MeantKey(
            [
                "issuer_url", "issuer_uri", "oidc_issuer_url", "discovery_url", "discovery_endpoint", "metadata_url",
                "well_known",
            ], in: "identities.*", isDeep: true, issuer),
        MeantKey(
            ["redirect_uri", "redirect_url", "redirect_uris", "callback_url"], in: "identities.*", isDeep: true,
            "remove it: lanyard login NAME makes the redirect URI, http://127.0.0.1:PORT/callback, with --redirect-port for a fixed port"
        ),
        MeantKey(
            ["grant_type", "grant", "flow", "grant_types", "response_type", "login_type", "auth_type"],
            in: "identities.*", isDeep: true,
            "the login of a user says it: users.NAME.login: {client_credentials: {}}, {password: ...}, {device: {}} and others"
        ),
        MeantKey(Set(clientAuthentications.keys), in: "identities.*", isDeep: true, authentication),
        MeantKey(
            ["auth_method", "auth_style", "token_endpoint_auth_method", "client_auth_method", "authentication_method"],
            in: "identities.*", isDeep: true, authentication),
        MeantKey(
            ["client_secret", "client_secret_file"], in: "identities.*", isDeep: true,
            "write the secret to a file of mode 0600, and name that file as client_secret_file of oauth2"),
    ]

    private static let identities = [
        MeantKey(["server_url", "authority"], in: "identities.*", isDeep: true, issuer),
        MeantKey(
            ["private_key", "private_key_file", "private_key_jwt", "signing_key"], in: "identities.*", isDeep: true,
            "write it as client_key: {file: PATH} of oauth2"),
        MeantKey(
            ["username", "password", "password_file"], in: "identities.*", isDeep: true,
            "the login of a user has it: users.NAME.login: {password: {username: ..., password_file: PATH}}"),
        MeantKey(
            [
                "file", "path", "filename", "token_path", "api_key", "api_key_file", "key", "key_file", "secret",
                "secret_file", "bearer_token", "bearer_token_file",
            ],
            in: "identities.*.static", "write it as token_file: PATH"),
        MeantKey(
            ["token", "token_file", "api_key", "api_key_file", "bearer_token"], in: "identities.*",
            "write it as static: {token_file: PATH} of the identity"),
        MeantKey(
            ["expires_in", "token_ttl", "ttl"], in: "identities.*", isDeep: true,
            "write it as token_lifetime of oauth2, which holds where the server states none"),
    ]

    private static let users = [
        MeantKey(
            ["grant_type", "grant", "flow", "type", "method"], in: "users.*", isDeep: true,
            "write it as the key of login: {client_credentials: {}}, {password: ...}, {device: {}} and others"),
        MeantKey(
            ["redirect_uri", "redirect_url", "callback_url"], in: "users.*", isDeep: true,
            "remove it: lanyard login NAME makes the redirect URI, http://127.0.0.1:PORT/callback, with --redirect-port for a fixed port"
        ),
        MeantKey(
            ["scope", "scopes"], in: "users.*", isDeep: true,
            "write it as scopes: [...] of the identity (oauth2); of one route, as its token: {scopes: [...]}"),
        MeantKey(
            ["audience", "resource", "resources"], in: "users.*", isDeep: true,
            "write it as params of the identity (oauth2); of one route, as its token"),
        MeantKey(
            ["issuer", "subject", "audience", "key_id", "algorithm", "claims", "lifetime"],
            in: "users.*.login.jwt_bearer",
            "write it below key of jwt_bearer: key: {file: PATH, ...}"),
        MeantKey(
            ["client_id", "client_secret", "client_secret_file", "issuer", "token_url"], in: "users.*", isDeep: true,
            "write it below oauth2 of the identity of this user"),
    ]

    private static let listeners = [
        MeantKey(
            ["bind", "listen", "port", "host"], in: "listeners[]", "write it as address: HOST:PORT of the listener"),
        MeantKey(
            ["cert", "cert_file", "certificate", "key", "key_file", "certificate_file"], in: "listeners[]",
            "write it as tls: {certificate_file: PATH, key_file: PATH} of the listener"),
        MeantKey(
            ["origins", "cors", "cors_origins"], in: "listeners[]", "write it as allowed_origins: [...] of the listener"
        ),
    ]

    private static let webSocket = ["", "routes[]", "http2", "health", "admin"].map { section in
        MeantKey(
            ["websocket_over_http2", "extended_connect", "enable_connect_protocol", "allow_connect"], in: section,
            section == "health" || section == "admin"
                ? "remove it: \(section) speaks HTTP/1.1 alone"
                : "write it as websocket_over_http2 of a listener: listeners: [{address: HOST:PORT, websocket_over_http2: true}]"
        )
    }
}
