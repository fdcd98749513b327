/// Every key that Lanyard knows, in the order of the reference.
package enum ConfigurationKeys {
    /// Every key, in the order of the reference.
    package static let all: [ConfigurationKey] = withCredentials(
        listening + brokers + accounts + oauth + gitHubApp + otherLanyard + transport + users + routes + process)

    /// The keys directly in the section at a path.
    package static func keys(in section: String) -> [ConfigurationKey] { bySection[section] ?? [] }

    private static let bySection = Dictionary(grouping: all, by: \.section)

    /// The same without the values that may be left out: what is required, and where something may be required below.
    static func keysToRequire(in section: String) -> [ConfigurationKey] { required[section] ?? [] }

    private static let required = bySection.mapValues { keys in
        keys.filter { key in
            switch key.kind {
            case .section, .sections, .named: true
            case .value, .values, .oneOrMore, .fields, .parameters: key.isRequired
            }
        }
    }

    /// Every secret's `…_file` has a sibling `…_credential`, the name of a systemd credential.
    private static func withCredentials(_ keys: [ConfigurationKey]) -> [ConfigurationKey] {
        keys.flatMap { key -> [ConfigurationKey] in
            guard key.kind == .value(.file(.secret)), key.name.hasSuffix("_file") else { return [key] }
            let path = key.path.dropLast("_file".utf8.count) + "_credential"
            let meaning = "The same from `$CREDENTIALS_DIRECTORY` (systemd's `LoadCredential=`)."
            return [key, ConfigurationKey(String(path), .value(.credential), meaning)]
        }
    }

    static let moment = Duration.milliseconds(1)...Duration.seconds(86_400)
    static let momentOrZero = Duration.zero...Duration.seconds(86_400)
    /// What the kernel takes (tcp(7)).
    static let probing = Duration.seconds(1)...Duration.seconds(9 * 3600)
    static let long = Duration.seconds(1)...Duration.seconds(365 * 86_400)

    static let listening: [ConfigurationKey] = [
        .init("listeners", .sections, defaultDescription: "one at 127.0.0.1:7400", "Where clients connect."),
        .init(
            "listeners[].address", .value(.listenAddress), required: true,
            "What to bind; port 0 lets the kernel choose."),
        .init("listeners[].tls", .section, "TLS towards clients."),
        .init("listeners[].tls.certificate_file", .value(.file(.needed)), required: true, "Certificate chain, PEM."),
        .init("listeners[].tls.key_file", .value(.file(.needed)), required: true, "Its key, PEM."),
        .init("listeners[].tls.client_ca_file", .value(.file(.needed)), "Demands client certificates of this CA."),
        .init(
            "listeners[].tls.client_names", .values(.text), "[]",
            "Names (SAN) of client certificates that may connect; empty is any."),
        .init(
            "listeners[].protocols", .values(.choice(["http1", "http2"])),
            defaultDescription: "`[http1, http2]`; other addresses than loopback and unix without TLS `[http1]`",
            "Protocols that clients may speak: with TLS they agree by ALPN, without it HTTP/2 begins by its preface."),
        .init(
            "listeners[].websocket_over_http2", .value(.boolean), "false",
            "Announces extended CONNECT (RFC 8441) to clients of HTTP/2, and makes it an HTTP/1.1 upgrade towards the upstream."
        ),
        .init(
            "listeners[].allowed_hosts", .values(.listedHost),
            defaultDescription: "the bound address and localhost, each with the port",
            "`Host` values that a request may name; a wildcard address needs the list. Unix sockets accept any."),
        .init(
            "listeners[].allowed_origins", .values(.origin), "[]", "Origins of browsers that may ask; others get 403."),
        .init(
            "listeners[].capability_file", .value(.file(.secret)),
            "Secret of 32 characters or more that every request must carry as `Lanyard-Capability`; read again when it changes."
        ),
        .init(
            "listeners[].required_header", .value(.requiredField),
            "Field that every request must carry, with any value; such as `Lanyard-Request`."),
        .init(
            "listeners[].peers", .section,
            "Which clients may connect to a unix socket (SO_PEERCRED): those with a listed user id or group id; both lists empty is any."
        ),
        .init("listeners[].peers.uids", .values(.integer(0...4_294_967_294)), "[]", "User ids."),
        .init("listeners[].peers.gids", .values(.integer(0...4_294_967_294)), "[]", "Group ids."),
        .init(
            "listeners[].socket_mode", .value(.mode), defaultDescription: "`0600` for a unix socket",
            "Permissions of a unix socket: four digits, the first is 0."),
        .init(
            "listeners[].unsafe", .value(.boolean), "false",
            "Binds an address that other machines can reach, or a socket that every user can, without client authentication."
        ),
        .init("health", .section, or: ["off"], "Health and metrics, on a listener and connection budget of their own."),
        .init("health.address", .value(.listenAddress), or: ["off"], "127.0.0.1:7401", "What to bind."),
        .init(
            "health.allowed_hosts", .values(.authority), "[]",
            "`Host` values that a probe or scrape may name besides IP addresses and localhost. Unix sockets accept any."
        ),
        .init(
            "health.metrics_per_user", .value(.boolean), "true",
            "`/metrics` has series of each user; with `false` only sums over all users."),
        .init(
            "health.metrics_per_route", .value(.boolean), "true",
            "`/metrics` has series of each route; with `false` only sums over all routes."),
        .init("admin", .section, or: ["off"], "The admin API."),
        .init(
            "admin.address", .value(.listenAddress), or: ["off"],
            defaultDescription: "`admin.sock` in `$RUNTIME_DIRECTORY`, `/run/lanyard` or `$XDG_RUNTIME_DIR/lanyard`",
            "What to bind; a TCP address needs `token_file`."),
        .init(
            "admin.token_file", .value(.file(.secret)),
            "Bearer token that calls over TCP must carry; 32 characters or more."),
        .init("admin.expose_tokens", .value(.boolean), "false", "Whether access tokens may be asked for."),
    ]

    private static let accounts: [ConfigurationKey] = [
        .init("identities", .named, "The identity services, by name."),
        .init("identities.*.app_services", .section, "An App Services application."),
        .init("identities.*.app_services.app_id", .value(.text), required: true, "The client app id."),
        .init("identities.*.app_services.base_url", .value(.baseURL), required: true, "Where its client API is."),
        .init(
            "identities.*.app_services.rotation", .value(.choice(["none", "grace", "one_use"])), "none",
            "What a refresh does to the refresh token."),
        .init("identities.*.static", .section, "A token in a file that another program renews."),
        .init(
            "identities.*.static.token_file", .value(.file(.secret)),
            "The file's content is the token; read again when it changes."),
    ]

    private static let transport: [ConfigurationKey] = [
        .init("identities.*.tls", .section, "TLS towards the identity service."),
        .init(
            "identities.*.tls.ca_file", .value(.file(.needed)), defaultDescription: "the system's",
            "CA certificates, PEM."
        ),
        .init("identities.*.tls.certificate_file", .value(.file(.needed)), "Client certificate, PEM."),
        .init("identities.*.tls.key_file", .value(.file(.needed)), "Its key, PEM."),
        .init(
            "identities.*.proxy", .section, alone: .init(key: "url", value: .url), or: ["none", "environment"], "none",
            "Outbound proxy for identity calls."),
        .init("identities.*.proxy.url", .value(.url), required: true, "Where it is; the same as the URL alone."),
        .init(
            "identities.*.proxy.credentials_file", .value(.file(.needed)),
            "`user:password` for a proxy that asks for a login (Basic)."),
        .init(
            "identities.*.unsafe_plain", .value(.boolean), "false",
            "Sends passwords and tokens over plain http to an address that is not loopback."),
    ]

    private static let users: [ConfigurationKey] =
        logins + oauthLogins + otherLanyardLogin + [
            .init(
                "active_user", .value(.name), defaultDescription: "the first user",
                "The user whose token is sent with requests of routes without `user`.")
        ]

    private static let logins: [ConfigurationKey] = [
        .init("users", .named, "The users, by the name that routes, logs and metrics use."),
        .init("users.*.identity", .value(.name), required: true, "The identity that the user has an account at."),
        .init(
            "users.*.login", .section, defaultDescription: "an operator logs the user in",
            "The credential; one of the following."),
        .init("users.*.login.anonymous", .section, "A new anonymous account."),
        .init("users.*.login.email_password", .section, "Email address and password."),
        .init("users.*.login.email_password.email", .value(.text), required: true, "The address."),
        .init("users.*.login.email_password.password_file", .value(.file(.secret)), "The password."),
        .init("users.*.login.api_key", .section, "An API key."),
        .init("users.*.login.api_key.key_file", .value(.file(.secret)), "The key."),
        .init("users.*.login.function", .section, "A custom function."),
        .init(
            "users.*.login.function.payload_file", .value(.file(.secret)),
            "The function's argument: a JSON object without a member `options`."),
        .init("users.*.login.jwt", .section, "A custom JWT."),
        .init("users.*.login.jwt.token_file", .value(.file(.secret)), "The JWT; read again when it changes."),
        .init("users.*.login.facebook", .section, "A Facebook account."),
        .init("users.*.login.facebook.access_token_file", .value(.file(.secret)), "Facebook's access token."),
        .init("users.*.login.google", .section, "A Google account: one of the two."),
        .init("users.*.login.google.id_token_file", .value(.file(.secret)), "Google's ID token."),
        .init(
            "users.*.login.google.auth_code_file", .value(.file(.secret)),
            "Google's authorization code; works for one login."),
        .init("users.*.login.apple", .section, "An Apple account."),
        .init("users.*.login.apple.id_token_file", .value(.file(.secret)), "Apple's ID token."),
        .init(
            "users.*.login.client_credentials", .section, "OAuth 2.0: the client itself; its secret is the identity's."),
        .init("users.*.login.password", .section, "OAuth 2.0: a user's name and password."),
        .init("users.*.login.password.username", .value(.text), required: true, "The user."),
        .init("users.*.login.password.password_file", .value(.file(.secret)), "The password."),
        .init("users.*.login.refresh_token", .section, "OAuth 2.0: a refresh token from elsewhere."),
        .init(
            "users.*.login.refresh_token.token_file", .value(.file(.secret)),
            "The refresh token; it is taken once, then the store's."),
    ]
}
