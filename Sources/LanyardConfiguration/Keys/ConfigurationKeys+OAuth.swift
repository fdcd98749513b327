import LanyardSettings

/// The keys of `oauth2` and `github_app` identities, and of logins that have keys of their own there.
extension ConfigurationKeys {
    static let gitHubApp: [ConfigurationKey] = [
        .init("identities.*.github_app", .section, "An installation of a GitHub App."),
        .init("identities.*.github_app.app_id", .value(.text), required: true, "The app's id, or its client id."),
        .init(
            "identities.*.github_app.installation_id", .value(.text), required: true, "The installation's id, digits."),
        .init(
            "identities.*.github_app.key_file", .value(.file(.secret)), "The app's RSA key in PEM; read at each call."),
        .init(
            "identities.*.github_app.base_url", .value(.baseURL), "https://api.github.com",
            "The REST API; of GitHub Enterprise Server `https://HOST/api/v3`."),
        .init(
            "identities.*.github_app.repositories", .values(.text), "[]",
            "Names of repositories that the tokens are restricted to."),
        .init(
            "identities.*.github_app.permissions", .parameters,
            "Permissions that the tokens are restricted to: names to `read`, `write` or `admin`."),
    ]

    static let oauthLogins: [ConfigurationKey] = [
        .init(
            "users.*.login.jwt_bearer", .section,
            "OAuth 2.0: a signed assertion; one of assertion_file, key and google_key_file."),
        .init(
            "users.*.login.jwt_bearer.assertion_file", .value(.file(.secret)),
            "An assertion that another program signs; read at each login."),
        .init("users.*.login.jwt_bearer.key", .section, "A key that signs an assertion for each login."),
        .init(
            "users.*.login.jwt_bearer.key.file", .value(.file(.secret)), required: true,
            "The key in PEM, perhaps with its certificate; read at each login."),
        .init("users.*.login.jwt_bearer.key.id", .value(.text), "Its `kid`."),
        .init(
            "users.*.login.jwt_bearer.key.algorithm", .value(.choice(SigningAlgorithm.allCases.map(\.rawValue))),
            "ES256", "How it signs."),
        .init(
            "users.*.login.jwt_bearer.key.issuer", .value(.text), defaultDescription: "`client_id`",
            "`iss` of the assertions."),
        .init(
            "users.*.login.jwt_bearer.key.subject", .value(.text), defaultDescription: "the same as `iss`",
            "`sub` of the assertions: the account that logs in."),
        .init(
            "users.*.login.jwt_bearer.key.audience", .value(.text), "issuer",
            "`aud` of the assertions: `issuer`, `token_endpoint`, `endpoint` (that of the call), or a value."),
        .init(
            "users.*.login.jwt_bearer.key.lifetime", .value(.duration(.seconds(60)...(.seconds(86400)))), "330s",
            "How long an assertion lives, from 30 s before it is made."),
        .init(
            "users.*.login.jwt_bearer.key.scopes",
            .value(.choice(AssertionSettings.ScopePlace.allCases.map(\.rawValue))), "form",
            "Where the identity's scopes stand: in the form, or in the claim `scope`."),
        .init("users.*.login.jwt_bearer.key.claims", .parameters, "Further claims with text values."),
        .init(
            "users.*.login.jwt_bearer.google_key_file", .value(.file(.secret)),
            "The JSON key file of a service account of Google; read at each login."),
        .init(
            "users.*.login.jwt_bearer.google_subject", .value(.text),
            "The user that the service account acts for (domain-wide delegation)."),
        .init("users.*.login.token_exchange", .section, "OAuth 2.0: exchanges another token for an access token."),
        .init(
            "users.*.login.token_exchange.subject_token_file", .value(.file(.secret)),
            "That token; read at each login."),
        .init(
            "users.*.login.token_exchange.subject_token_type", .value(.text),
            defaultDescription: "`access_token`",
            "Its type: access_token, refresh_token, id_token, saml1, saml2, jwt, or a URI."),
        .init(
            "users.*.login.token_exchange.actor_token_file", .value(.file(.secret)),
            "The token of who acts for the subject; read at each login."),
        .init(
            "users.*.login.token_exchange.actor_token_type", .value(.text),
            defaultDescription: "`access_token`", "The type of that token."),
        .init(
            "users.*.login.token_exchange.requested_token_type", .value(.text),
            defaultDescription: "the server's choice", "The type of the token that is asked for."),
        .init(
            "users.*.login.device", .section,
            "OAuth 2.0: a user confirms on another device, with a code that the command shows."),
        .init(
            "users.*.login.authorization_code", .section,
            "OAuth 2.0: a user logs in with a browser on the machine of the command."),
        .init("users.*.login.github_app", .section, "GitHub: the installation that the identity names."),
    ]

    static let oauth: [ConfigurationKey] = [
        .init("identities.*.oauth2", .section, "A client of an OAuth 2.0 or OpenID Connect server."),
        .init(
            "identities.*.oauth2.issuer", .value(.url),
            "The issuer, as the server writes it; its metadata names the endpoints."),
        .init("identities.*.oauth2.endpoints", .section, "Endpoints in place of the metadata's."),
        .init("identities.*.oauth2.endpoints.token", .value(.endpoint), "The token endpoint."),
        .init("identities.*.oauth2.endpoints.revocation", .value(.endpoint), "The revocation endpoint."),
        .init(
            "identities.*.oauth2.endpoints.device_authorization", .value(.endpoint),
            "The device authorization endpoint."),
        .init("identities.*.oauth2.endpoints.authorization", .value(.endpoint), "The authorization endpoint."),
        .init(
            "identities.*.oauth2.endpoints.pushed_authorization", .value(.endpoint),
            "The endpoint for pushed authorization requests, which are then used."),
        .init("identities.*.oauth2.client_id", .value(.text), required: true, "The client."),
        .init(
            "identities.*.oauth2.client_authentication",
            .value(
                .choice([
                    "auto", "none", "basic", "basic_raw", "basic_with_id", "post", "private_key_jwt", "assertion",
                    "tls",
                ])),
            "auto",
            "How the client shows who it is; `auto` follows from the files below."),
        .init(
            "identities.*.oauth2.client_secret_file", .value(.file(.secret)), "The client's secret; read at each call."),
        .init("identities.*.oauth2.client_key", .section, "The key that signs the client's assertions."),
        .init(
            "identities.*.oauth2.client_key.file", .value(.file(.secret)), required: true,
            "The key in PEM, perhaps with its certificate; read at each call."),
        .init("identities.*.oauth2.client_key.id", .value(.text), "Its `kid`."),
        .init(
            "identities.*.oauth2.client_key.algorithm", .value(.choice(SigningAlgorithm.allCases.map(\.rawValue))),
            "ES256",
            "How it signs."),
        .init(
            "identities.*.oauth2.client_key.audience", .value(.text), "issuer",
            "`aud` of the assertions: `issuer`, `token_endpoint`, `endpoint` (that of the call), or a value."),
        .init(
            "identities.*.oauth2.client_assertion_file", .value(.file(.secret)),
            "An assertion that another program writes, such as a projected token; read at each call."),
        .init(
            "identities.*.oauth2.client_assertion_type", .value(.text), ClientAuthentication.jwtAssertionType,
            "The type of that assertion."),
        .init(
            "identities.*.oauth2.scopes", .values(.text), "[]",
            "Scopes that logins ask for. An element with blanks is several scopes."),
        .init(
            "identities.*.oauth2.params", .parameters,
            "Further form fields of token calls, such as `audience` or `resource`."),
        .init("identities.*.oauth2.token_headers", .fields, "Further fields of the head of token calls."),
        .init(
            "identities.*.oauth2.token_headers.*.file", .value(.file(.secret)), required: true,
            "The file with the value; read at each call."),
        .init(
            "identities.*.oauth2.rotation", .section, or: ["auto", "none", "one_use"], "auto",
            "What a refresh does to the refresh token. `auto` is `one_use` once a response has brought another one."),
        .init(
            "identities.*.oauth2.rotation.grace", .value(.duration(.seconds(10)...(.seconds(86400)))), required: true,
            "Each refresh brings another one, and the former one may be repeated for so long."),
        .init(
            "identities.*.oauth2.token_lifetime", .value(.duration(long)), or: ["none"], "none",
            "The lifetime of an access token whose response does not say it, or says 0; `none`: that of the JWT, or 300 s."
        ),
        .init(
            "identities.*.oauth2.refresh_lifetime", .value(.duration(long)), or: ["none"], "none",
            "How long refresh tokens live from the login, if no response says when one ends."),
        .init(
            "identities.*.oauth2.refresh_idle", .value(.duration(.seconds(60)...long.upperBound)), or: ["none"], "none",
            "How long a refresh token lives without use; it is used in time."),
        .init(
            "identities.*.oauth2.last_try", .value(.boolean), "true",
            "A refresh token that works once, and whose outcome is unknown, is sent once more before a login by hand."),
        .init(
            "identities.*.oauth2.profile", .value(.choice(OAuthProfile.allCases.map(\.rawValue))), "generic",
            "Whose errors the responses have."),
        .init(
            "identities.*.oauth2.access_tokens", .value(.choice(OAuthAccessTokens.allCases.map(\.rawValue))), "several",
            "`single`: the server ends an access token when it issues the next one of the session. Routes then have no `token`."
        ),
    ]
}
