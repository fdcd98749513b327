import LanyardFoundations
import LanyardSettings

/// What each identity gets of a store that all share. A service decides how long its tokens are, and how often a session of its users
/// begins and ends. So no identity may use up the room that another one needs for its next refresh token (security-defences.md, "What
/// identities share").
package enum StoreShare {
    /// Bytes of a store's text.
    package static let roomBytes = 16 << 20
    /// Of them for all that is no identity's: metadata, whose number and length are limited, and the active user.
    static let commonBytes = 1 << 20
    /// For an identity that has nothing stored yet.
    static let newcomerBytes = 1 << 20

    /// The identity that a change has given more than its share; nil: each one has at most its share, or no more than before.
    ///
    /// Of n identities each has a guarantee of 1 / 2n of the room. What an identity takes beyond its guarantee must leave the guarantees of
    /// all others free. What does not grow is always allowed: a token that replaces one of the same length can be stored.
    ///
    /// - Parameter room: bytes of the text that are for identities.
    package static func overdrawn(
        _ contents: StoreContents, since before: StoreContents, room: Int = roomBytes - commonBytes
    ) -> String? {
        let used = bytesByIdentity(contents)
        let total = used.values.reduce(0, +)
        // The guarantees take the other half at most.
        guard total > room / 2 - newcomerBytes else { return nil }
        let former = bytesByIdentity(before)
        let guarantee = room / (2 * used.count)
        let reserved = used.values.reduce(newcomerBytes) { $0 + max($1, guarantee) }
        return used.keys.sorted().first { name in
            guard let bytes = used[name], bytes > former[name] ?? 0, bytes > guarantee else { return false }
            return reserved > room
        }
    }

    /// Bytes of the text that hold users and revocations of each identity.
    package static func bytesByIdentity(_ contents: StoreContents) -> [String: Int] {
        var bytes: [String: Int] = [:]
        for user in contents.users { bytes[user.identity, default: 0] += user.storedBytes }
        for revocation in contents.revocations { bytes[revocation.identity, default: 0] += revocation.storedBytes }
        return bytes
    }

    // MARK: Revocations

    /// Revocations that an identity may have beside one for each of its users: sessions that no user has any more.
    package static let spareRevocationsMax = 64
    /// Bytes of the revocations of one identity.
    package static let revocationBytesMax = roomBytes / 8

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

extension StoreContents {
    /// Gives up what identities have beyond their share of revocations.
    ///
    /// - Parameter known: the revocations before that many are known to fit.
    mutating func giveUpSurplus(after known: Int) {
        guard revocations.count > known else { return }
        for name in Set(revocations.dropFirst(known).map(\.identity)) {
            let userCount = users.count { $0.identity == name }
            while let surplus = StoreShare.surplus(
                of: revocations.filter { $0.identity == name }, userCount: userCount)
            {
                revocations.removeAll { $0.token == surplus.token }
            }
        }
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
