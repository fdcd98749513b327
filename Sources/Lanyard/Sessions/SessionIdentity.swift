/// A configured identity, as users that come at run time need it.
package struct ConfiguredIdentity: Sendable {
    package enum Kind: Sendable {
        /// Lanyard logs in and renews.
        case service(any IdentityService, RefreshTokenRotation)
        /// Somebody else brings the tokens of configured users; nobody can be added.
        case fixed
    }

    package var name: String
    package var kind: Kind

    /// Users are logged in there by Lanyard.
    var hasLogins: Bool { if case .service = kind { true } else { false } }

    package init(_ name: String, _ kind: Kind) {
        self.name = name
        self.kind = kind
    }

    /// What the store knows it by; nil for a static one, which the store knows nothing of.
    var home: StoredIdentity? {
        if case .service(let service, _) = kind { StoredIdentity(name, service.fingerprint) } else { nil }
    }

    var isStatic: Bool { if case .fixed = kind { true } else { false } }
}
