import LanyardFoundations

/// The users of a registry in their order, each once. It finds one by index, name or account without a look at the others, because each
/// change of a session asks for its user.
struct RegisteredUsers: Sendable {
    /// An account of an identity.
    private struct Account: Hashable {
        let identity: String
        let id: String
    }

    /// In their order, with a gap for each that was removed.
    private var list: [RegisteredUser?] = []
    private var places: [UserIndex: Int] = [:]
    /// Of each name the user that is not leaving; there is one at most.
    private var present: [String: UserIndex] = [:]
    /// The users that leave: few, and for a short time.
    private var departures: [UserIndex] = []
    /// The users that are known by an account, or that a login in progress has brought to it.
    private var holders: [Account: [UserIndex]] = [:]
    /// Grows with each user that is added or removed, or whose standing changes.
    private(set) var changes = 0

    init(_ users: some Sequence<RegisteredUser>) {
        for user in users { append(user) }
    }

    /// All of them, in their order.
    var all: some Sequence<RegisteredUser> { list.lazy.compactMap(\.self) }

    /// Those that leave.
    var leaving: [RegisteredUser] { departures.compactMap { self[$0] } }

    /// Whether a user of this name is there, in whatever standing.
    func contains(named name: String) -> Bool { present[name] != nil || leaving.contains { $0.name == name } }

    /// The user of this name that is not leaving.
    subscript(name: String) -> RegisteredUser? { present[name].flatMap { self[$0] } }

    /// The user of this index, in whatever standing. Setting changes it; it must be there.
    subscript(index: UserIndex) -> RegisteredUser? {
        get { places[index].flatMap { list[$0] } }
        set {
            guard let newValue, let place = places[index], let former = list[place] else { return }
            unlink(former)
            list[place] = newValue
            link(newValue)
            if newValue.standing != former.standing { changes += 1 }
        }
    }

    /// The other users of the account, in their order.
    func holders(of account: String, at identity: String, besides index: UserIndex) -> [RegisteredUser] {
        let others = holders[Account(identity: identity, id: account)]?.filter { $0 != index } ?? []
        return others.sorted { places[$0]! < places[$1]! }.compactMap { self[$0] }
    }

    /// Adds a user behind the others. Its index must be new.
    mutating func append(_ user: RegisteredUser) {
        precondition(places[user.index] == nil, "a user was added twice")
        places[user.index] = list.count
        list.append(user)
        link(user)
        changes += 1
    }

    mutating func remove(_ index: UserIndex) {
        guard let place = places.removeValue(forKey: index), let user = list[place] else { return }
        unlink(user)
        list[place] = nil
        changes += 1
        if list.count > 2 * places.count + 16 { closeGaps() }
    }

    /// Takes other users in place of all. `changes` grows, so that they are not taken for the former ones.
    mutating func replaceAll(by users: some Sequence<RegisteredUser>) {
        let former = changes
        self = RegisteredUsers(users)
        changes += former + 1
    }

    private mutating func closeGaps() {
        list.removeAll { $0 == nil }
        for (place, user) in list.enumerated() { if let user { places[user.index] = place } }
    }

    private mutating func link(_ user: RegisteredUser) {
        if user.standing == .leaving { departures.append(user.index) } else { present[user.name] = user.index }
        for account in accounts(of: user) { holders[account, default: []].append(user.index) }
    }

    private mutating func unlink(_ user: RegisteredUser) {
        if user.standing == .leaving { departures.removeAll { $0 == user.index } }
        if present[user.name] == user.index { present[user.name] = nil }
        for account in accounts(of: user) {
            holders[account]?.removeAll { $0 == user.index }
            if holders[account]?.isEmpty == true { holders[account] = nil }
        }
    }

    /// Those by which it is found: one mostly.
    private func accounts(of user: RegisteredUser) -> [Account] {
        var ids = user.accountID.map { [$0] } ?? []
        if let claimed = user.claimedAccountID, claimed != user.accountID { ids.append(claimed) }
        return ids.map { Account(identity: user.identity, id: $0) }
    }
}
