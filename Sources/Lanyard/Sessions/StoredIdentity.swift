/// An identity as the store names it.
package struct StoredIdentity: Equatable, Sendable, ExpressibleByStringLiteral {
    package var name: String
    /// nil: unknown, which matches any.
    package var fingerprint: IdentityFingerprint?

    package init(_ name: String, _ fingerprint: IdentityFingerprint? = nil) {
        self.name = name
        self.fingerprint = fingerprint
    }

    package init(stringLiteral name: String) { self.init(name) }

    /// Whether both may be the same service and application.
    package func matches(_ other: StoredIdentity) -> Bool {
        guard name == other.name else { return false }
        guard let fingerprint, let theirs = other.fingerprint else { return true }
        return fingerprint == theirs
    }
}

extension StoredUser {
    package var storedIdentity: StoredIdentity { StoredIdentity(identity, identityFingerprint) }

    /// Whether the user belongs to `identity`. A user of another identity is ignored, whatever its name.
    package func belongs(to identity: StoredIdentity) -> Bool { storedIdentity.matches(identity) }

    /// The revocation of this user's session if another identity's user replaces it; nil: no session.
    func evictionRevocation(at now: WallTime) -> StoredRevocation? {
        session?.refresh.map {
            StoredRevocation(identity: identity, refresh: $0, since: now, fingerprint: identityFingerprint)
        }
    }
}
