import Synchronization

/// A user's index in the table of users. The request path carries it instead of a name. A user with several kinds of access
/// tokens (`TokenVariant`) has an index for each.
///
/// It stands for the user in one account space: a reload that moves the user to another identity, or takes it away, gives
/// its name the next epoch. Routes and tokens are matched by the whole index, so a route of one configuration never gets
/// a token of another configuration's account (architecture-control.md 7.9).
package struct UserIndex: Hashable, Sendable {
    /// The place in the table, from 0. The name keeps it.
    package let number: Int
    /// How often a reload has given the name another account space.
    package let epoch: UInt32

    @inlinable package init(_ number: Int, epoch: UInt32 = 0) {
        self.number = number
        self.epoch = epoch
    }

    @inlinable package static func == (left: UserIndex, right: UserIndex) -> Bool {
        left.number == right.number && left.epoch == right.epoch
    }

    /// Both have the same name and the same kind of token, whatever their account spaces.
    @inlinable package func hasName(of other: UserIndex) -> Bool { number == other.number }
}

/// Distinguishes the accounts that the users of this process have had (security.md T18).
///
/// Each change of account takes the next number. No number is used twice: neither for an account that comes back, nor
/// for a user that was removed and added again under the same name.
package struct AccountNumber: Hashable, Sendable {
    /// A user that has had no account yet.
    package static let unknown = AccountNumber(0)
    private static let latest = Atomic<UInt64>(0)

    @usableFromInline let number: UInt64

    @inlinable package init(_ number: UInt64) { self.number = number }

    @inlinable package static func == (left: AccountNumber, right: AccountNumber) -> Bool {
        left.number == right.number
    }

    /// From any thread.
    package static func next() -> AccountNumber { AccountNumber(latest.add(1, ordering: .relaxed).newValue) }
}

/// The names of all users that this process has known, each with its index. A user that has had a session keeps its place permanently, so a
/// request in progress never gets the name of a later user. A name that was only reserved for a failed login is released.
///
/// From any thread. It takes a lock, so it is not for the steady path of a request. There a user is a `UserIndex`, and only problem
/// responses need a name.
package final class UserNames: Sendable {
    private struct Entry {
        var name: String
        /// `TokenVariant.key`.
        var variant = ""
        var isReserved: Bool
        var epoch: UInt32 = 0
    }

    private struct Register {
        var entries: [Entry] = []
        var places: [String: Int] = [:]
        /// The places of further kinds of tokens, by name and `TokenVariant.key`.
        var variantPlaces: [String: [String: Int]] = [:]
        /// Indexes that were freed.
        var free: [Int] = []

        mutating func index(of name: String, isReserved: Bool) -> UserIndex {
            if let place = places[name] {
                entries[place].isReserved = entries[place].isReserved && isReserved
                return UserIndex(place, epoch: entries[place].epoch)
            }
            let place = add(name, isReserved: isReserved)
            places[name] = place
            return UserIndex(place, epoch: entries[place].epoch)
        }

        mutating func index(of name: String, variant: String) -> UserIndex {
            if let place = variantPlaces[name]?[variant] { return UserIndex(place, epoch: entries[place].epoch) }
            let place = add(name, isReserved: false)
            entries[place].variant = variant
            variantPlaces[name, default: [:]][variant] = place
            return UserIndex(place, epoch: entries[place].epoch)
        }

        private mutating func add(_ name: String, isReserved: Bool) -> Int {
            let place = free.popLast() ?? entries.count
            if place == entries.count { entries.append(Entry(name: "", isReserved: false)) }
            (entries[place].name, entries[place].isReserved) = (name, isReserved)
            return place
        }
    }

    private let register = Guarded(Register())

    /// - Parameter names: the first names, with the indexes 0, 1, …; each once.
    package init(_ names: [String] = []) {
        for name in names { _ = index(of: name) }
    }

    /// The index of this name. A new name gets an index permanently.
    package func index(of name: String) -> UserIndex { add(name).index }

    /// The same, and whether the name was unknown until now.
    package func add(_ name: String) -> (index: UserIndex, isNew: Bool) {
        register.withLock { register in
            let isNew = register.places[name] == nil
            return (register.index(of: name, isReserved: false), isNew)
        }
    }

    /// The index of the name for one kind of token. A new one gets its index permanently.
    ///
    /// - Parameter variant: `TokenVariant.key`; empty: the index of the name itself.
    package func index(of name: String, variant: String) -> UserIndex {
        variant.isEmpty ? index(of: name) : register.withLock { $0.index(of: name, variant: variant) }
    }

    /// The index is that of a further kind of token.
    package func isVariant(_ user: UserIndex) -> Bool {
        register.withLock { user.number < $0.entries.count && !$0.entries[user.number].variant.isEmpty }
    }

    /// The index of the name itself, for one of its kinds of tokens; nil: the name has none.
    package func owner(of user: UserIndex) -> UserIndex? {
        register.withLock { register in
            register.places[register.entries[user.number].name].map {
                UserIndex($0, epoch: register.entries[$0].epoch)
            }
        }
    }

    /// The present index of this name; nil: it has none.
    package func knownIndex(of name: String) -> UserIndex? {
        register.withLock { register in
            register.places[name].map { UserIndex($0, epoch: register.entries[$0].epoch) }
        }
    }

    /// The next index of this name: its user has another account space from now on, or has left. Earlier indexes of the
    /// name get no token any more, whatever kind of token they are of.
    package func renew(_ name: String) -> UserIndex {
        register.withLock { register in
            for place in (register.variantPlaces[name] ?? [:]).values { register.entries[place].epoch &+= 1 }
            let former = register.index(of: name, isReserved: false)
            register.entries[former.number].epoch &+= 1
            return register.index(of: name, isReserved: false)
        }
    }

    /// The index of a name that may never get a session. `index(of:)` then keeps the index, `release` frees it.
    package func reserveIndex(of name: String) -> UserIndex {
        register.withLock { $0.index(of: name, isReserved: true) }
    }

    /// Frees the index of a name that was only reserved. No request has received it.
    package func release(_ user: UserIndex) {
        register.withLock { register in
            guard register.entries[user.number].isReserved else { return }
            register.places[register.entries[user.number].name] = nil
            (register.entries[user.number].name, register.entries[user.number].isReserved) = ("", false)
            register.free.append(user.number)
        }
    }

    /// The number of indexes; one more than the highest.
    package var count: Int { register.withLock { $0.entries.count } }

    /// The name of a registered user.
    package subscript(user: UserIndex) -> String { register.withLock { $0.entries[user.number].name } }
}
