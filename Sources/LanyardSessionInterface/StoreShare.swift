import LanyardFoundations
import LanyardSettings

/// What each identity gets of a store that all share. A service decides how long its tokens are, and how often a session of its users
/// begins and ends. So no identity may use up the room that another one needs for its next refresh token (security-defences.md, "What
/// identities share").
package enum StoreShare {
    /// Bytes of what a store holds: the text of all users, revocations and metadata.
    package static let roomBytes = 128 << 20
    /// Of them for all that is no identity's: metadata, whose number and length are limited, and the active user.
    static let commonBytes = 1 << 20
    /// For an identity that has nothing stored yet.
    static let newcomerBytes = 1 << 20

    /// The identity that a change has given more than its share; nil: each one has at most its share, or no more than before.
    ///
    /// Of n identities each has a guarantee of 1 / 2n of the room. What an identity takes beyond its guarantee must leave the guarantees of
    /// all others free. What does not grow is always allowed: a token that replaces one of the same length can be stored.
    ///
    /// - Parameters:
    ///   - contents: after the change.
    ///   - delta: the change.
    ///   - room: bytes of the text for all. One MiB of it is for what is no identity's.
    package static func overdrawn(_ contents: StoreContents, by delta: StoreDelta, room: Int = roomBytes) -> String? {
        let room = room - commonBytes
        // The guarantees take the other half at most.
        guard contents.bytesOfIdentities > room / 2 - newcomerBytes else { return nil }
        let grown = delta.growth.filter { $0.value > 0 }.keys.sorted()
        guard !grown.isEmpty else { return nil }
        let all = contents.identities
        let guarantee = room / (2 * all.count)
        let reserved = all.reduce(newcomerBytes) { $0 + max(contents.bytes(of: $1), guarantee) }
        return grown.first { contents.bytes(of: $0) > guarantee && reserved > room }
    }

    // MARK: Revocations

    /// Revocations that an identity may have beside one for each of its users: sessions that no user has any more.
    package static let spareRevocationsMax = 64
    /// Bytes of the revocations of one identity.
    package static let revocationBytesMax = 2 << 20

    /// The one that is given up first, because the revocations of an identity are more than its share; nil: they are not. Of two the one
    /// that no operator has asked for is given up first, and else the older one.
    ///
    /// - Parameters:
    ///   - revocations: of that identity, in the order in which they came.
    ///   - userCount: the identity's users.
    package static func surplus(of revocations: [StoredRevocation], userCount: Int) -> StoredRevocation? {
        let bytes = revocations.reduce(0) { $0 + $1.storedBytes }
        guard revocations.count > userCount + spareRevocationsMax || bytes > revocationBytesMax else { return nil }
        return revocations.first { !$0.isByOperator } ?? revocations.first
    }
}

extension StoreDelta {
    /// By how many bytes of the text each identity has grown.
    fileprivate var growth: [String: Int] {
        var growth: [String: Int] = [:]
        for step in steps {
            switch step.edit {
            case .user(_, let user?): growth[user.identity, default: 0] += user.storedBytes
            case .addedRevocation(let revocation): growth[revocation.identity, default: 0] += revocation.storedBytes
            case .user(_, nil), .removedRevocation, .active, .metadata: break
            }
            switch step.undoing {
            case .user(_, let user?), .removedUser(let user, _): growth[user.identity, default: 0] -= user.storedBytes
            case .removedRevocation(let revocation, _):
                growth[revocation.identity, default: 0] -= revocation.storedBytes
            case .user(_, nil), .addedRevocation, .active, .metadata: break
            }
        }
        return growth
    }
}

// The lengths of store.md's elements.

extension StoredRevocation {
    /// Bytes in the store's text.
    package var storedBytes: Int { 13 + textBytes(identity) + token.count + (fingerprint == nil ? 0 : 32) }
}

extension StoredUser {
    /// Bytes in the store's text.
    package var storedBytes: Int {
        var bytes = 10 + textBytes(name) + textBytes(identity) + (session?.storedBytes ?? 0)
        for value in [accountID, provider, refused?.code, subject].compactMap(\.self) { bytes += textBytes(value) }
        if accountSince != nil { bytes += 8 }
        if intent != nil { bytes += 11 }
        if refused != nil { bytes += 32 }
        if identityFingerprint != nil { bytes += 32 }
        if refused?.clientTries != nil { bytes += 10 }
        return bytes
    }
}

extension StoredSession {
    fileprivate var storedBytes: Int {
        var bytes = 9 + tokens.plain.storedBytes
        if let refresh { bytes += 4 + refresh.count }
        if refreshExpiry != nil { bytes += 8 }
        if !tokens.others.isEmpty { bytes += 2 }
        for (variant, token) in tokens.others { bytes += variant.storedBytes + token.storedBytes }
        if account != nil { bytes += 32 }
        if let grantedScopes { bytes += 2 + textBytes(all: grantedScopes) }
        if !blockedVariants.isEmpty { bytes += 2 + blockedVariants.count * 33 }
        return bytes
    }
}

extension StoredAccessToken {
    fileprivate var storedBytes: Int { 4 + token.count + 24 + textBytes(issuedAtBoot.boot) }
}

extension TokenVariant {
    fileprivate var storedBytes: Int {
        let named = audience.map { textBytes($0) } ?? 0
        return 5 + named + textBytes(all: resources) + textBytes(all: scopes)
    }
}

private func textBytes(_ text: String) -> Int { 2 + text.utf8.count }

private func textBytes(all texts: some Sequence<String>) -> Int { texts.reduce(0) { $0 + textBytes($1) } }
