import LanyardSettings

/// The keys of an `oauth2` identity.
extension ConfigurationKeys {
    static let oauth: [ConfigurationKey] = [
        .init("identities.*.oauth2", .section, "A client of an OAuth 2.0 or OpenID Connect server."),
        .init(
            "identities.*.oauth2.issuer", .value(.url),
            "The issuer, as the server writes it; its metadata names the endpoints."),
        .init("identities.*.oauth2.endpoints", .section, "Endpoints in place of the metadata's."),
        .init("identities.*.oauth2.endpoints.token", .value(.url), "The token endpoint."),
        .init("identities.*.oauth2.endpoints.revocation", .value(.url), "The revocation endpoint."),
        .init("identities.*.oauth2.client_id", .value(.text), required: true, "The client."),
        .init(
            "identities.*.oauth2.client_authentication",
            .value(.choice(["auto", "none", "basic", "basic_raw", "post", "private_key_jwt", "assertion", "tls"])),
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
            "`aud` of the assertions: `issuer`, `token_endpoint`, or a value."),
        .init(
            "identities.*.oauth2.client_assertion_file", .value(.file(.secret)),
            "An assertion that another program writes, such as a projected token; read at each call."),
        .init(
            "identities.*.oauth2.client_assertion_type", .value(.text), ClientAuthentication.jwtAssertionType,
            "The type of that assertion."),
        .init("identities.*.oauth2.scopes", .values(.text), "[]", "Scopes that logins ask for."),
        .init(
            "identities.*.oauth2.params", .parameters,
            "Further form fields of token calls, such as `audience` or `resource`."),
        .init("identities.*.oauth2.token_headers", .secretFields, "Further fields of the head of token calls."),
        .init(
            "identities.*.oauth2.token_headers.*.file", .value(.file(.secret)), required: true,
            "The file with the value; read at each call."),
        .init(
            "identities.*.oauth2.rotation", .value(.choice(["none", "grace", "one_use"])), "one_use",
            "What a refresh does to the refresh token."),
        .init(
            "identities.*.oauth2.token_lifetime", .value(.duration(long)), or: ["none"], "none",
            "The lifetime of an access token whose response does not say it; then that of the JWT, or 300 s."),
        .init(
            "identities.*.oauth2.profile", .value(.choice(OAuthProfile.allCases.map(\.rawValue))), "generic",
            "Whose errors the responses have."),
    ]
}
