/// `login:` of the configuration: the behaviour at the start.
package struct LoginSettings: Equatable, Sendable {
    package enum Offline: String, Sendable, CaseIterable {
        /// A stored access token that is still valid serves at once.
        case cached
        /// Stored tokens wait until one refresh has succeeded.
        case never
    }

    package var offline = Offline.cached
    /// Exits 77 once every configured credential is refused at the start.
    package var exitOnRefusal = false
    /// Exits 75 if no first login is possible.
    package var exitOnUnreachable = false

    package init() {}
}
