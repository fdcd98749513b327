import LanyardFoundations

/// What one change has done to the contents, step by step: what a write adds to the file, and what takes it back.
package struct StoreDelta: Equatable, Sendable {
    /// One thing that was changed, as a file holds it.
    package enum Edit: Equatable, Sendable {
        /// The user of this name is now this one; nil: is gone.
        case user(String, StoredUser?)
        /// At the end of the list.
        case addedRevocation(StoredRevocation)
        /// The one that was at this place of the list.
        case removedRevocation(Int)
        case active(StoreContents.ActiveChoice?)
        /// The whole list.
        case metadata([StoredMetadata])
    }

    /// What was there before.
    package enum Undoing: Equatable, Sendable {
        /// nil: the user was added.
        case user(String, StoredUser?)
        case removedUser(StoredUser, place: Int)
        case addedRevocation
        case removedRevocation(StoredRevocation, place: Int)
        case active(StoreContents.ActiveChoice?)
        case metadata([StoredMetadata])
    }

    package struct Step: Equatable, Sendable {
        package let edit: Edit
        package let undoing: Undoing

        package init(edit: Edit, undoing: Undoing) {
            self.edit = edit
            self.undoing = undoing
        }
    }

    /// In the order in which they were made.
    package internal(set) var steps: [Step] = []

    package init() {}

    /// Nothing has changed.
    package var isEmpty: Bool { steps.isEmpty }

    package static func += (left: inout StoreDelta, right: StoreDelta) { left.steps += right.steps }

    /// The changes of `left`, and then those of `right`.
    package static func + (left: StoreDelta, right: StoreDelta) -> StoreDelta {
        var both = left
        both += right
        return both
    }
}

/// What an identity has in the store.
struct IdentityShare: Equatable, Sendable {
    var userCount = 0
    /// Of the users' text.
    var bytes = 0
}

/// The stored users by name and by account, in the order in which they were added.
struct StoredUserTable: Sendable {
    private(set) var users: [StoredUser] = []
    private var places: [String: Int] = [:]
    /// Names of the users with an account of this id.
    private var accounts: [String: [String]] = [:]
    private(set) var shares: [String: IdentityShare] = [:]
    /// Bytes of all users' text.
    private(set) var byteCount = 0

    init() {}

    init(_ users: [StoredUser]) {
        self.users = users
        places.reserveCapacity(users.count)
        for (place, user) in users.enumerated() {
            places[user.name] = place
            count(user)
        }
    }

    subscript(name: String) -> StoredUser? { places[name].map { users[$0] } }

    func names(ofAccount account: String) -> [String] { accounts[account, default: []] }

    /// - Returns: the user that it replaces; nil: it was added.
    @discardableResult
    mutating func put(_ user: StoredUser) -> StoredUser? {
        guard let place = places[user.name] else {
            places[user.name] = users.count
            users.append(user)
            count(user)
            return nil
        }
        let former = users[place]
        uncount(former)
        users[place] = user
        count(user)
        return former
    }

    @discardableResult
    mutating func remove(_ name: String) -> (user: StoredUser, place: Int)? {
        guard let place = places.removeValue(forKey: name) else { return nil }
        let user = users.remove(at: place)
        uncount(user)
        for index in place..<users.count { places[users[index].name] = index }
        return (user, place)
    }

    mutating func insert(_ user: StoredUser, at place: Int) {
        users.insert(user, at: place)
        count(user)
        for index in place..<users.count { places[users[index].name] = index }
    }

    private mutating func count(_ user: StoredUser) {
        let bytes = user.storedBytes
        byteCount += bytes
        shares[user.identity, default: IdentityShare()].userCount += 1
        shares[user.identity, default: IdentityShare()].bytes += bytes
        if let account = user.accountID { accounts[account, default: []].append(user.name) }
    }

    private mutating func uncount(_ user: StoredUser) {
        let bytes = user.storedBytes
        byteCount -= bytes
        shares[user.identity]?.userCount -= 1
        shares[user.identity]?.bytes -= bytes
        if shares[user.identity]?.userCount == 0 { shares[user.identity] = nil }
        guard let account = user.accountID else { return }
        accounts[account]?.removeAll { $0 == user.name }
        if accounts[account]?.isEmpty == true { accounts[account] = nil }
    }
}

/// The stored revocations, in the order in which they came.
struct StoredRevocationList: Sendable {
    private(set) var all: [StoredRevocation] = []
    /// Bytes of the text, by identity.
    private(set) var bytes: [String: Int] = [:]
    /// Bytes of the text of all.
    private(set) var byteCount = 0

    init() {}

    init(_ all: [StoredRevocation]) { for revocation in all { append(revocation) } }

    mutating func append(_ revocation: StoredRevocation) { insert(revocation, at: all.count) }

    mutating func insert(_ revocation: StoredRevocation, at place: Int) {
        all.insert(revocation, at: place)
        byteCount += revocation.storedBytes
        bytes[revocation.identity, default: 0] += revocation.storedBytes
    }

    mutating func removeLast() { _ = remove(at: all.count - 1) }

    /// nil: there is none at this place.
    mutating func remove(at place: Int) -> StoredRevocation? {
        guard all.indices.contains(place) else { return nil }
        let revocation = all.remove(at: place)
        byteCount -= revocation.storedBytes
        bytes[revocation.identity, default: 0] -= revocation.storedBytes
        if bytes[revocation.identity] == 0 { bytes[revocation.identity] = nil }
        return revocation
    }
}
