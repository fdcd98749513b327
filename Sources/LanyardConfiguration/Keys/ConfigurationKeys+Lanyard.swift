import LanyardSettings

/// The keys of `lanyard` identities, and of the login there.
extension ConfigurationKeys {
    static let otherLanyard: [ConfigurationKey] = [
        .init("identities.*.lanyard", .section, "Another Lanyard, whose broker hands out the tokens of its users."),
        .init(
            "identities.*.lanyard.address", .oneOrMore(.brokerAddress), required: true,
            "Its broker; a list is tried in order, and the first again after a minute."),
        .init(
            "identities.*.lanyard.capability_file", .value(.file(.secret)),
            "Secret, 32 characters or more, sent as `Lanyard-Capability`; read at each call."),
    ]

    static let otherLanyardLogin: [ConfigurationKey] = [
        .init("users.*.login.broker", .section, "Another Lanyard: one of its users."),
        .init(
            "users.*.login.broker.user", .value(.name), required: true,
            "The user there; `active` is its active user."),
    ]
}
