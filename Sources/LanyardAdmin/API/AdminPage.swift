import LanyardFoundations
import LanyardRequestPath
import LanyardSessions
import LanyardSettings

/// Which users and routes a response has: `GET /v1/users?limit=100&after=alice&state=refused`. Without a query it has all.
package struct AdminPage: Equatable, Sendable {
    /// Users and routes of one response at most.
    static let limitMax = 10_000

    private(set) var limit: Int?
    /// The last name of the page before, of users and of routes.
    private(set) var after: String?
    private(set) var afterRoute: String?
    /// A text that names contain.
    private(set) var user: String?
    private(set) var route: String?
    /// The user's state or its session's.
    private(set) var state: String?

    /// All.
    package init() {}

    /// Reads a query.
    ///
    /// - Parameter hasRoutes: the response has routes, too.
    /// - Throws: `invalid` with what is wrong and what may stand there.
    init(query: Bytes, hasRoutes: Bool) throws(AdminCall.PathError) {
        let allowed = ["limit", "after", "user", "state"] + (hasRoutes ? ["after_route", "route"] : [])
        for part in query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false) {
            let halves = String(decoding: part, as: UTF8.self).split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard halves.count == 2, allowed.contains(String(halves[0])) else {
                throw .invalid("the query takes \(allowed.map { "\($0)=" }.joined(separator: ", "))")
            }
            try set(String(halves[0]), String(halves[1]))
        }
    }

    private mutating func set(_ key: String, _ value: String) throws(AdminCall.PathError) {
        switch key {
        case "limit":
            guard value.utf8.count <= 5, let number = Int(value), 1...Self.limitMax ~= number else {
                throw .invalid("limit is a whole number from 1 to \(Self.limitMax)")
            }
            limit = number
        case "state":
            guard Self.states.contains(value) else {
                throw .invalid("state is one of \(Self.states.joined(separator: ", "))")
            }
            state = value
        default:
            guard ConfiguredName.isValid(value) else {
                throw .invalid("\(key) is a name, or a part of one: letters, digits, '.', '_' and '-', 64 at most")
            }
            switch key {
            case "after": after = value
            case "after_route": afterRoute = value
            case "user": user = value
            default: route = value
            }
        }
    }

    private static let states = UserState.allCases.map(\.rawValue) + SessionState.allCases.map(\.rawValue)

    /// What a page has of all users, or of all routes.
    struct Part<Element> {
        var shown: [Element]
        /// How many the filter lets through, on all pages together.
        var total: Int
        /// For `after` of the next page; nil: this is the last one.
        var next: String?
    }

    /// With a limit or a former page in the order of names, which stays while users are added and removed. Else in the order of `all`.
    func users(of all: [ReportedUser]) -> Part<ReportedUser> {
        let filtered = all.filter { reported in
            let status = reported.status
            return Self.contains(status.user, user)
                && (state.map { $0 == reported.userState.rawValue || $0 == status.state.rawValue } ?? true)
        }
        return part(of: filtered, after: after) { $0.status.user }
    }

    /// The same for routes.
    func routes(of all: [ProgramActivity.Route]) -> Part<ProgramActivity.Route> {
        part(of: all.filter { Self.contains($0.report.name ?? "", route) }, after: afterRoute) { $0.report.name ?? "" }
    }

    private func part<Element>(of all: [Element], after: String?, name: (Element) -> String) -> Part<Element> {
        guard limit != nil || after != nil else { return Part(shown: all, total: all.count, next: nil) }
        let sorted = all.map { (name: name($0), element: $0) }.sorted { $0.name < $1.name }
        let rest = after.map { after in sorted.drop { $0.name <= after } } ?? sorted[...]
        let shown = rest.prefix(limit ?? Self.limitMax)
        return Part(
            shown: shown.map(\.element), total: all.count, next: shown.count < rest.count ? shown.last?.name : nil)
    }

    private static func contains(_ name: String, _ part: String?) -> Bool {
        guard let part = part.map({ Array($0.utf8) }) else { return true }
        let name = Array(name.utf8)
        guard name.count >= part.count else { return false }
        return (0...name.count - part.count).contains { name[$0..<($0 + part.count)].elementsEqual(part) }
    }
}
