/// The names of all users this process has known, each with its place. Whoever has had a session keeps the place for good, so that a request
/// under way can never be told a name that came after it. A name that was only reserved for a login that failed is given back.
///
/// From any thread. Behind a lock, hence not for the steady path of a request: there a user is a `UserIndex`, and a name is wanted only
/// where a problem is written.
package final class UserNames: Sendable {
    private struct Entry {
        var name: String
        var isReserved: Bool
    }

    private struct Register {
        var entries: [Entry] = []
        var places: [String: Int] = [:]
        /// Places that were given back.
        var free: [Int] = []

        mutating func place(of name: String, isReserved: Bool) -> Int {
            if let place = places[name] {
                entries[place].isReserved = entries[place].isReserved && isReserved
                return place
            }
            let place = free.popLast() ?? entries.count
            if place == entries.count { entries.append(Entry(name: "", isReserved: false)) }
            entries[place] = Entry(name: name, isReserved: isReserved)
            places[name] = place
            return place
        }
    }

    private let register = Guarded(Register())

    /// - Parameter names: the first ones, at the places 0, 1, …; each once.
    package init(_ names: [String] = []) {
        for name in names { _ = index(of: name) }
    }

    /// The user of this name, who is given a place for good if nobody has borne it yet.
    package func index(of name: String) -> UserIndex {
        register.withLock { UserIndex($0.place(of: name, isReserved: false)) }
    }

    /// The user of this name, who may never come: `index(of:)` keeps the place then, `giveBack` frees it.
    package func reserveIndex(of name: String) -> UserIndex {
        register.withLock { UserIndex($0.place(of: name, isReserved: true)) }
    }

    /// Frees the place of a name that was only reserved. No request has ever been told of it.
    package func giveBack(_ user: UserIndex) {
        register.withLock { register in
            guard register.entries[user.number].isReserved else { return }
            register.places[register.entries[user.number].name] = nil
            register.entries[user.number] = Entry(name: "", isReserved: false)
            register.free.append(user.number)
        }
    }

    /// How many places there are; one more than the last user's.
    package var count: Int { register.withLock { $0.entries.count } }

    /// How a user that was registered is called.
    package subscript(user: UserIndex) -> String { register.withLock { $0.entries[user.number].name } }
}
