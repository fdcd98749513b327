/// Which room of Sources/Lanyard may use which: the one direction in which the library is read.
enum RoomTable {
    /// What a room may mention of another.
    enum Permission: Equatable {
        case everything
        /// Only types whose names end in `Settings`.
        case settings
        /// These types, and those of the same room that they speak of.
        case types([String])
    }

    static let rooms: [String: [String: Permission]] = [
        "Foundations": [:],
        "Reading": ["Foundations": .everything],
        "Routing": ["Reading": .everything, "Foundations": .everything],
        "Authorizing": ["Routing": .everything, "Reading": .everything, "Foundations": .everything],
        "Forwarding": ["Reading": .everything, "Foundations": .everything],
        "Exchange": [
            "Reading": .everything, "Routing": .everything, "Authorizing": .everything, "Forwarding": .everything,
            "Foundations": .everything,
        ],
        "Listening": ["Exchange": .everything, "Reading": .everything, "Foundations": .everything],
        "Sessions": ["Foundations": .everything, "Authorizing": .types(["TokenSource", "AccessToken"])],
        "Identity": [
            "Foundations": .everything,
            "Sessions": .types(["IdentityService", "AccountService", "CredentialWatch", "TokenFeed"]),
        ],
        "Vault": ["Foundations": .everything, "Sessions": .types(["SessionStore"])],
        "Telemetry": ["Foundations": .everything],
        "Admin": [
            "Foundations": .everything, "Sessions": .everything, "Telemetry": .everything, "Reading": .everything,
            "Listening": .everything,
        ],
        "Configuration": [
            "Foundations": .everything, "Reading": .settings, "Routing": .settings, "Authorizing": .settings,
            "Forwarding": .settings, "Exchange": .settings, "Listening": .settings, "Sessions": .settings,
            "Identity": .settings, "Vault": .settings, "Telemetry": .settings, "Admin": .settings,
        ],
    ]

    /// Rooms in which no Foundation of any kind is imported; elsewhere FoundationEssentials at most.
    static let fenced: Set = [
        "Foundations", "Reading", "Listening", "Exchange", "Routing", "Authorizing", "Forwarding",
    ]

    /// Which rooms may open which door of CLanyard; every room may use Linux.
    static let doors: [String: Set<String>] = [
        "OpenSSL": ["Foundations", "Vault", "Identity"],
        "Curl": ["Identity"],
        "YAML": ["Configuration"],
    ]
}
