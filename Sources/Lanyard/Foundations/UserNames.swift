/// The names of all users this process has ever known, each with the place it keeps for good: append-only, so that a request under way can
/// never be told a name that came after it.
///
/// From any thread. Behind a lock, hence not for the steady path of a request: there a user is a `UserIndex`, and a name is wanted only
/// where a problem is written.
package final class UserNames: Sendable {
    private struct Register {
        var names: [String] = []
        var places: [String: Int] = [:]
    }

    private let register = Guarded(Register())

    /// - Parameter names: the first ones, at the places 0, 1, …; each once.
    package init(_ names: [String] = []) {
        for name in names { _ = index(of: name) }
    }

    /// The user of this name, who is given the next place if nobody has borne it yet.
    package func index(of name: String) -> UserIndex {
        register.withLock { register in
            if let place = register.places[name] { return UserIndex(place) }
            let place = register.names.count
            register.names.append(name)
            register.places[name] = place
            return UserIndex(place)
        }
    }

    /// How many names there are; one more than the last user's place.
    package var count: Int { register.withLock { $0.names.count } }

    /// How a user that was registered is called.
    package subscript(user: UserIndex) -> String { register.withLock { $0.names[user.number] } }
}
