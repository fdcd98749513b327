import LanyardFoundations

/// An identity as the store names it.
package struct StoredIdentity: Equatable, Sendable, ExpressibleByStringLiteral {
    /// The name in the configuration.
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
    /// The identity that the record belongs to.
    package var storedIdentity: StoredIdentity { StoredIdentity(identity, identityFingerprint) }

    /// Whether the user belongs to `identity`. A user of another identity is ignored, whatever its name.
    package func belongs(to identity: StoredIdentity) -> Bool { storedIdentity.matches(identity) }

    /// The revocation of this user's session if it is replaced; nil: no refresh token.
    package func evictionRevocation(at now: WallTime) -> StoredRevocation? {
        session?.refresh.map { revocation(of: $0, .refreshToken, at: now) }
    }

    /// The revocations of this user's session as an operator ends it: of its refresh token, or of the access tokens that a
    /// session without one has.
    ///
    /// - Parameter includesAccessTokens: the service can revoke an access token.
    package func endRevocations(at now: WallTime, includesAccessTokens: Bool) -> [StoredRevocation] {
        if let revocation = evictionRevocation(at: now) { return [revocation.byOperator] }
        guard includesAccessTokens, let tokens = session?.tokens else { return [] }
        let all = [tokens.plain] + tokens.others.sorted { $0.key < $1.key }.map(\.value)
        return all.filter { now < $0.issuedAt + $0.lifetime }
            .map { revocation(of: $0.token, .accessToken, at: now).byOperator }
    }

    private func revocation(of token: Secret, _ kind: StoredRevocation.Kind, at now: WallTime) -> StoredRevocation {
        StoredRevocation(identity: identity, token: token, kind: kind, since: now, fingerprint: identityFingerprint)
    }
}

/// A hash of the account that a session belongs to, at its identity. Two sessions of equal fingerprints have one account.
///
/// The account is what a login proves: a configured name, or issuer and subject of an ID token (security.md T18).
package struct AccountFingerprint: Hashable, Sendable {
    /// SHA-256 under a fixed key: 32 bytes. It holds no secret.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// Hashes the parts that distinguish one account from another, such as issuer and subject.
    package init(of parts: [String]) { bytes = MarkHash.bytes(of: parts, key: "lanyard account mark") }
}

/// A hash of the service that an identity's name stands for. It is stored beside the tokens of that identity. If
/// `base_url` or `app_id` changes, tokens of the old service are never sent to the new one.
package struct IdentityFingerprint: Equatable, Sendable {
    /// SHA-256 under a fixed key: 32 bytes. It holds no secret.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// Hashes the parts that distinguish one service from another, such as kind, app and address.
    package init(of parts: [String]) { bytes = MarkHash.bytes(of: parts, key: "lanyard identity mark") }
}

/// The hash of an ordered list of texts.
enum MarkHash {
    static func bytes(of parts: [String], key name: String) -> [UInt8] {
        var key = SecretBuffer()
        var text = SecretBuffer()
        key.append(name)
        // The lengths separate the parts.
        for part in parts { text.append("\(part.utf8.count) \(part) ") }
        let seal = key.seal()
        return text.withBytes { KeyedHash.sha256($0, key: seal) }
    }
}
