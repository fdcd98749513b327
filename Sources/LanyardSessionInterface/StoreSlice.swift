import LanyardFoundations

/// What one change reads and writes of the stored contents: its user, who else holds the account of a login, and the revocations of the
/// identities whose sessions it may end. A store that keeps its contents elsewhere loads this much, and writes what has changed of it.
package struct StoreSlice: Sendable {
    /// What was made of the revocations.
    package enum RevocationEdit: Equatable, Sendable {
        case added(StoredRevocation)
        /// Each one with this token.
        case removed(Secret)
    }

    /// The change's user when the slice was made; nil: the change is about none, or the store has none.
    package let former: StoredUser?
    /// The same now.
    package internal(set) var user: StoredUser?
    /// The other users with the account of a login.
    package var holders: [StoredUser] = []
    /// All of each identity that the change may concern, in the order in which they came.
    package var revocations: [String: [StoredRevocation]] = [:]
    /// Users of each of these identities, before the change.
    package var userCounts: [String: Int] = [:]
    /// What has changed of the revocations, in order.
    package private(set) var revocationEdits: [RevocationEdit] = []
    package internal(set) var active: StoreContents.ActiveChoice?
    package internal(set) var metadata: [StoredMetadata]

    package init(user: StoredUser?, active: StoreContents.ActiveChoice?, metadata: [StoredMetadata]) {
        former = user
        self.user = user
        self.active = active
        self.metadata = metadata
    }

    /// The revocations that were added.
    var added: [StoredRevocation] {
        revocationEdits.compactMap { edit in
            switch edit {
            case .added(let revocation): revocation
            case .removed: nil
            }
        }
    }

    /// Keeps what the service must be told, once.
    mutating func keep(_ revocation: StoredRevocation?) {
        guard let revocation else { return }
        let known = revocations[revocation.identity, default: []]
        guard !known.contains(where: { $0.token == revocation.token }) else { return }
        revocations[revocation.identity, default: []].append(revocation)
        revocationEdits.append(.added(revocation))
    }

    mutating func remove(_ token: Secret) {
        var isKnown = false
        for identity in revocations.keys {
            let count = revocations[identity, default: []].count
            revocations[identity, default: []].removeAll { $0.token == token }
            isKnown = isKnown || revocations[identity, default: []].count < count
        }
        if isKnown { revocationEdits.append(.removed(token)) }
    }

    /// Gives up what identities have beyond their share of revocations.
    mutating func giveUpSurplus() {
        for identity in Set(added.map(\.identity)) {
            while let surplus = StoreShare.surplus(
                of: revocations[identity, default: []], userCount: userCount(of: identity))
            {
                remove(surplus.token)
            }
        }
    }

    /// With what the change has made of its user.
    private func userCount(of identity: String) -> Int {
        let before = former?.identity == identity ? 1 : 0
        return userCounts[identity, default: 0] - before + (user?.identity == identity ? 1 : 0)
    }
}

extension StoreChange {
    /// The user that the change is about; nil: none.
    package var userName: String? {
        switch self {
        case .storeIntent(let user, _, _, _, _, _, _), .clearIntent(let user, _, _), .dropRefreshToken(let user, _),
            .saveSession(let user, _, _), .recordRefusal(let user, _, _, _), .end(let user, _), .logOut(let user, _, _),
            .beginDeletion(let user, _), .cancelDeletion(let user, _), .remove(let user, _):
            user
        case .activate, .addRevocation, .removeRevocation, .saveMetadata: nil
        }
    }

    /// The identities whose revocations the change may add to, if its user is stored as this.
    package func identitiesOfRevocations(beside user: StoredUser?) -> Set<String> {
        switch self {
        case .logOut(_, let identity, let end):
            Set(end.revocations.map(\.identity) + [user?.identity, identity.name].compactMap(\.self))
        case .remove(_, let end): Set(end.revocations.map(\.identity) + [user?.identity].compactMap(\.self))
        case .addRevocation(let revocation): [revocation.identity]
        case .storeIntent(_, let identity, _, _, _, _, _), .recordRefusal(_, let identity, _, _):
            displaced(user, by: identity)
        case .saveSession(_, let login, _): displaced(user, by: StoredIdentity(login.identity, login.fingerprint))
        case .clearIntent, .dropRefreshToken, .end, .beginDeletion, .cancelDeletion, .activate, .removeRevocation,
            .saveMetadata:
            []
        }
    }

    /// A user of another identity is replaced, and its service is to be told.
    private func displaced(_ user: StoredUser?, by identity: StoredIdentity) -> Set<String> {
        guard let user, !user.belongs(to: identity) else { return [] }
        return [user.identity]
    }

    /// The change erases tokens on purpose: no copy of them stays in the file.
    package var erasesTokens: Bool {
        switch self {
        case .logOut, .remove, .removeRevocation: true
        case .storeIntent, .clearIntent, .dropRefreshToken, .saveSession, .recordRefusal, .end, .beginDeletion,
            .cancelDeletion, .activate, .addRevocation, .saveMetadata:
            false
        }
    }
}
