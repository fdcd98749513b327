/// A configured identity, for users that are added at run time.
package struct ConfiguredIdentity: Sendable {
    package enum Kind: Sendable {
        /// Lanyard logs in and renews.
        case service(any IdentityService, RefreshTokenRotation)
        /// The tokens of configured users are renewed elsewhere; no user can be added.
        case fixed
    }

    package var name: String
    package var kind: Kind

    /// Whether Lanyard logs users in there.
    var hasLogins: Bool { if case .service = kind { true } else { false } }

    package init(_ name: String, _ kind: Kind) {
        self.name = name
        self.kind = kind
    }

    /// The identity as the store names it; nil for a static one, which is not stored.
    var storedIdentity: StoredIdentity? {
        if case .service(let service, _) = kind { StoredIdentity(name, service.fingerprint) } else { nil }
    }

    var isStatic: Bool { if case .fixed = kind { true } else { false } }
}
