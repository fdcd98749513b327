import Testing

@testable import LanyardAdmin
@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSessions

/// Pages of users and routes.
@Suite struct AdminPageTests {
    private static func read(_ path: String, _ query: String) -> AdminCall.Parsed {
        Array(path.utf8).withUnsafeBufferPointer { path in
            Array(query.utf8).withUnsafeBufferPointer { AdminCall.read(.get, path, query: $0) }
        }
    }

    private static func page(_ query: String) throws -> AdminPage {
        guard case .call(.status(let page)) = read("/v1/status", query) else { throw Unread() }
        return page
    }

    private struct Unread: Error {}

    private static func users(_ names: [String]) -> [ReportedUser] {
        names.enumerated().map { number, name in
            let status = PlayedUsers.status(name, number, name.hasPrefix("x") ? .refused : .valid)
            return ReportedUser(status: status, userState: name == "bob" ? .active : .inactive)
        }
    }

    @Test("a page continues behind the last name of the one before, whatever was added or removed since")
    func pages() throws {
        let names = (0..<25).map { "user-\($0)" }.shuffled()
        var (seen, after): ([String], String?) = ([], nil)
        repeat {
            let query = "limit=10" + (after.map { "&after=\($0)" } ?? "")
            let part = try Self.page(query).users(of: Self.users(names))
            #expect(part.total == 25 && part.shown.count <= 10)
            seen += part.shown.map(\.status.user)
            after = part.next
        } while after != nil
        #expect(seen == names.sorted())
        // The last name of a page has gone.
        let rest = try Self.page("limit=10&after=user-20").users(of: Self.users(names.filter { $0 != "user-20" }))
        #expect(rest.shown.first?.status.user == "user-21")
        #expect(try Self.page("limit=10&after=zz").users(of: Self.users(names)).shown.isEmpty)
        #expect(try Self.page("after=user-9").users(of: Self.users(names)).shown.isEmpty)
    }

    @Test("filters by a part of the name, by the user's state and by the session's; without a page in the given order")
    func filters() throws {
        let users = Self.users(["xeno", "bob", "boxes", "alice"])
        func names(_ query: String) throws -> [String] {
            try Self.page(query).users(of: users).shown.map(\.status.user)
        }
        #expect(try names("user=bo") == ["bob", "boxes"])
        #expect(try names("user=xe&state=refused") == ["xeno"])
        #expect(try names("state=active") == ["bob"])
        #expect(try names("state=valid") == ["bob", "boxes", "alice"])
        #expect(try names("state=stale") == [])
        #expect(try Self.page("user=bo&limit=1").users(of: users).total == 2)
        let routes = ["b", "a", "ab"].map {
            ProgramActivity.Route(report: RouteReport(name: $0), recent: RouteCounts(), seconds: 60)
        }
        #expect(try Self.page("route=b").routes(of: routes).shown.map(\.report.name) == ["b", "ab"])
        let part = try Self.page("limit=2&after_route=a").routes(of: routes)
        #expect(part.shown.map(\.report.name) == ["ab", "b"] && part.next == nil && part.total == 3)
    }

    @Test(
        "what a query cannot be is told",
        arguments: [
            ("limit=0", "limit"), ("limit=10001", "limit"), ("limit=-1", "limit"), ("limit=1e3", "limit"),
            ("limit=", "limit"), ("state=well", "state"), ("user=", "user"), ("user=%61", "user"),
            ("after=a/b", "after"),
            ("limit", "query"), ("", "query"), ("page=2", "query"), ("limit=1&", "query"), ("LIMIT=1", "query"),
        ])
    func refused(_ query: String, _ word: String) {
        for path in ["/v1/status", "/v1/users"] {
            guard case .unreadable(.invalid(let message)) = Self.read(path, query) else {
                Issue.record("\(path)?\(query) was read")
                continue
            }
            #expect(message.contains(word), "\(message)")
        }
        #expect(Self.read("/v1/log-level", query) == .queryNotTaken)
    }

    @Test("only the status has routes, and a removal takes its own query")
    func others() {
        if case .call = Self.read("/v1/users", "route=a") { Issue.record("users have no routes") }
        if case .call = Self.read("/v1/users", "after_route=a") { Issue.record("users have no routes") }
        let path = Array("/v1/users/bob".utf8)
        func delete(_ query: String) -> AdminCall.Parsed {
            path.withUnsafeBufferPointer { path in
                Array(query.utf8).withUnsafeBufferPointer { AdminCall.read(.delete, path, query: $0) }
            }
        }
        #expect(
            delete("account=delete") == .call(.deleteAccount("bob")) && delete("account=keep") == .accountQueryInvalid)
    }
}
