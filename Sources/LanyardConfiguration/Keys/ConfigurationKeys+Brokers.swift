/// `brokers`.
extension ConfigurationKeys {
    static let brokers: [ConfigurationKey] =
        [
            .init("brokers", .sections, defaultDescription: "none", "Listeners that hand out access tokens.")
        ] + ofListeners + [
            .init(
                "brokers[].serves", .values(.choice(["token", "oauth2", "gce_metadata"])), "[token]",
                "What it understands: `GET /v1/token`, `POST /oauth2/token` (RFC 6749, 8693), Google Compute Engine's metadata."
            ),
            .init(
                "brokers[].callers", .sections, required: true,
                "Who may have which tokens. Whom no row matches is refused."),
            .init(
                "brokers[].callers[].uids", .values(.integer(0...4_294_967_294)), "[]",
                "User ids at the other end of a unix socket."),
            .init(
                "brokers[].callers[].client_names", .values(.text), "[]",
                "Names (SAN) of client certificates; needs `tls.client_ca_file`."),
            .init(
                "brokers[].callers[].capability_file", .value(.file(.secret)),
                "Secret, 32 characters or more, sent as `Lanyard-Capability` or `client_secret`; read again when it changes."
            ),
            .init(
                "brokers[].callers[].users", .values(.name), required: true,
                "The users whose tokens it may have; `active` is the active user."),
            .init(
                "brokers[].callers[].audiences", .values(.text),
                defaultDescription: "the plain token, and audiences that routes name",
                "The only audiences that it may ask for, as `audience` or `resource`; not the plain token then."),
            .init(
                "brokers[].callers[].scopes", .values(.text), defaultDescription: "scopes that routes name",
                "The only scopes that it may ask for; without `scope` it gets the token of all of them."),
        ]

    /// What a broker has in common with other listeners.
    private static let ofListeners: [ConfigurationKey] = listening.filter { key in
        let others = ["allowed_origins", "websocket_over_http2"]
        return key.path.hasPrefix("listeners[].") && !others.contains(key.name)
    }.map { $0.moved(to: "brokers" + $0.path.dropFirst("listeners".utf8.count)) }
}
