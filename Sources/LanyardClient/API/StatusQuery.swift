/// Which users and routes a command asks for.
package struct StatusQuery: Equatable, Sendable {
    /// A text that names of users contain.
    package var user: String?
    /// A user's state, or its session's.
    package var state: String?
    /// A text that names of routes contain.
    package var route: String?
    /// The response has this many users, and routes, at most.
    package var limit: Int?
    /// The last user of the page before.
    package var after: String?

    package init() {}

    /// Users may be left out.
    package var choosesUsers: Bool { user != nil || state != nil || after != nil }

    /// A path with the query.
    package func path(_ path: String) -> String {
        let members = [
            ("user", user), ("state", state), ("route", route), ("limit", limit.map { "\($0)" }), ("after", after),
        ]
        let query = members.compactMap { name, value in value.map { "\(name)=\(AdminClient.segment($0))" } }
        return query.isEmpty ? path : "\(path)?\(query.joined(separator: "&"))"
    }
}
