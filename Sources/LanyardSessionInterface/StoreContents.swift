import LanyardFoundations

/// Everything that outlives a restart: the users of this device, the active user, and the pending revocations.
///
/// A change reads and writes a `StoreSlice` of it. What the change has done is a `StoreDelta`, which can be taken back and is what a write
/// adds to the file. So a change costs the same with ten users and with ten thousand.
package struct StoreContents: Sendable {
    /// Grows with each write, so that a restored backup is noticed (security.md T14).
    package var writes: UInt64 = 0
    /// The key of each `CredentialFingerprint`: 32 random bytes, made with the store.
    package var fingerprintKey: Secret
    private var table = StoredUserTable()
    /// Who is active; nil: never chosen.
    package var active: ActiveChoice?
    private var pending = StoredRevocationList()
    /// Of authorization servers, at most `StoredMetadata.countMax`, in the order in which it was stored.
    package var metadata: [StoredMetadata] = []

    /// The user that was made active, and `active_user` at that time. The configured value applies again once it
    /// changes (architecture-control.md 5.6).
    package struct ActiveChoice: Equatable, Sendable {
        /// nil: none, after a logout.
        package var user: String?
        /// `active_user` at the time of the choice.
        package var configured: String?

        package init(user: String?, configured: String?) {
            self.user = user
            self.configured = configured
        }
    }

    package init(fingerprintKey: Secret) { self.fingerprintKey = fingerprintKey }

    /// In the order in which they were added; names are unique. Setting them costs a look at each.
    package var users: [StoredUser] {
        get { table.users }
        set { table = StoredUserTable(newValue) }
    }

    /// Sessions whose end the service has not confirmed, in the order in which they came. Setting them costs a look at each.
    package var revocations: [StoredRevocation] {
        get { pending.all }
        set { pending = StoredRevocationList(newValue) }
    }

    /// All stored users.
    package var usersByName: [String: StoredUser] { Dictionary(users.map { ($0.name, $0) }) { first, _ in first } }

    /// The stored user of that name.
    package subscript(name: String) -> StoredUser? { table[name] }

    /// Bytes of the text that hold users and revocations of the identity.
    package func bytes(of identity: String) -> Int {
        table.shares[identity, default: IdentityShare()].bytes + pending.bytes[identity, default: 0]
    }

    /// Identities that have users or revocations here.
    package var identities: Set<String> { Set(table.shares.keys).union(pending.bytes.keys) }

    /// Bytes of the text that hold users and revocations.
    package var bytesOfIdentities: Int { table.byteCount + pending.byteCount }
}

extension StoreContents: Equatable {
    package static func == (left: StoreContents, right: StoreContents) -> Bool {
        left.writes == right.writes && left.fingerprintKey == right.fingerprintKey && left.active == right.active
            && left.metadata == right.metadata && left.users == right.users && left.revocations == right.revocations
    }
}

/// Changes.
extension StoreContents {
    /// Applies `change`. On `overtaken` and `inUse` nothing has changed, and nothing is to be written.
    ///
    /// - Parameter now: the time from which a new account is known.
    package mutating func apply(_ change: StoreChange, now: WallTime) -> StoreChange.Verdict {
        merge(change, now: now).verdict
    }

    /// The same, with what it has done.
    package mutating func merge(
        _ change: StoreChange, now: WallTime
    ) -> (verdict: StoreChange.Verdict, delta: StoreDelta) {
        var slice = slice(for: change)
        let verdict = slice.apply(change, now: now)
        return (verdict, take(slice))
    }

    /// What `change` may read and write.
    package func slice(for change: StoreChange) -> StoreSlice {
        let user = change.userName.flatMap { self[$0] }
        var slice = StoreSlice(user: user, active: active, metadata: metadata)
        if case .saveSession(let name, let login, _) = change, let account = login.accountID {
            slice.holders = table.names(ofAccount: account).filter { $0 != name }.compactMap { self[$0] }
        }
        for identity in change.identitiesOfRevocations(beside: user) {
            slice.revocations[identity] = revocations.filter { $0.identity == identity }
            slice.userCounts[identity] = table.shares[identity, default: IdentityShare()].userCount
        }
        if case .removeRevocation(let token) = change {
            for revocation in revocations where revocation.token == token {
                slice.revocations[revocation.identity, default: []].append(revocation)
            }
        }
        return slice
    }

    /// Makes what a slice of these contents says.
    private mutating func take(_ slice: StoreSlice) -> StoreDelta {
        var delta = StoreDelta()
        if slice.user != slice.former, let name = slice.user?.name ?? slice.former?.name {
            make(.user(name, slice.user), &delta)
        }
        for edit in slice.revocationEdits {
            switch edit {
            case .added(let revocation): make(.addedRevocation(revocation), &delta)
            case .removed(let token):
                while let place = revocations.firstIndex(where: { $0.token == token }) {
                    make(.removedRevocation(place), &delta)
                }
            }
        }
        if slice.active != active { make(.active(slice.active), &delta) }
        if slice.metadata != metadata { make(.metadata(slice.metadata), &delta) }
        return delta
    }

    /// Replaces or adds a user, as a mark of `PATH.used` or a file does.
    package mutating func put(_ user: StoredUser) -> StoreDelta {
        var delta = StoreDelta()
        if self[user.name] != user { make(.user(user.name, user), &delta) }
        return delta
    }

    private mutating func make(_ edit: StoreDelta.Edit, _ delta: inout StoreDelta) {
        guard let undoing = make(edit) else { return }
        delta.steps.append(StoreDelta.Step(edit: edit, undoing: undoing))
    }

    /// Makes an edit that a file holds.
    ///
    /// - Returns: what takes it back; nil: it fits nothing that is here, and nothing was done.
    package mutating func make(_ edit: StoreDelta.Edit) -> StoreDelta.Undoing? {
        switch edit {
        case .user(let name, let user?):
            guard user.name == name else { return nil }
            return .user(name, table.put(user))
        case .user(let name, nil): return table.remove(name).map { .removedUser($0.user, place: $0.place) }
        case .addedRevocation(let revocation):
            pending.append(revocation)
            return .addedRevocation
        case .removedRevocation(let place):
            return pending.remove(at: place).map { .removedRevocation($0, place: place) }
        case .active(let choice):
            defer { active = choice }
            return .active(active)
        case .metadata(let all):
            defer { metadata = all }
            return .metadata(metadata)
        }
    }

    /// Takes back what a change has done. The latest one first.
    package mutating func takeBack(_ delta: StoreDelta) {
        for step in delta.steps.reversed() {
            switch step.undoing {
            case .user(_, let former?): table.put(former)
            case .user(let name, nil): table.remove(name)
            case .removedUser(let user, let place): table.insert(user, at: place)
            case .addedRevocation: pending.removeLast()
            case .removedRevocation(let revocation, let place): pending.insert(revocation, at: place)
            case .active(let choice): active = choice
            case .metadata(let all): metadata = all
            }
        }
    }
}
