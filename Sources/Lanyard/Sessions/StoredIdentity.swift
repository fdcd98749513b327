/// An identity as the store names it.
package struct StoredIdentity: Equatable, Sendable, ExpressibleByStringLiteral {
    package var name: String
    /// nil: unknown, which is the same as any.
    package var mark: IdentityMark?

    package init(_ name: String, _ mark: IdentityMark? = nil) {
        self.name = name
        self.mark = mark
    }

    package init(stringLiteral name: String) { self.init(name) }

    /// Whether both may be the same service and application.
    package func matches(_ other: StoredIdentity) -> Bool {
        guard name == other.name else { return false }
        guard let mark, let theirs = other.mark else { return true }
        return mark == theirs
    }
}

extension StoredUser {
    package var home: StoredIdentity { StoredIdentity(identity, identityMark) }

    /// Another identity's user is nobody, whatever its name: its tokens are that identity's.
    package func belongs(to identity: StoredIdentity) -> Bool { home.matches(identity) }

    /// What its service is to be told when another identity's user takes its place; nil: no session.
    func eviction(at now: WallTime) -> StoredRevocation? {
        session?.refresh.map { StoredRevocation(identity: identity, refresh: $0, since: now, mark: identityMark) }
    }
}
