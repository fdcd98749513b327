import TestSupport
import Testing

@testable import SystemTestSupport

/// http-requests.md 2: paths and routes.
@Suite(.serialized) struct PathRuleTests {
    /// Routes with and without a path of the upstream's, with `deny`, and a strict one.
    private static let shared = Task {
        try await HTTPBench.start { plan in
            plan.routes = """
                {name: api, match: {path: /api}, upstream: "UP/v1"},
                {name: slashed, match: {path: /slashed/}, upstream: "UP/v2/"},
                {name: root, match: {path: /root}, upstream: "UP/"},
                {name: plain, match: {path: /plain}, upstream: "UP"},
                {name: guarded, match: {path: /guarded}, upstream: "UP/g", \
                deny: [{path: /guarded/admin}, {path: /guarded/post, methods: [POST]}]},
                {name: strict, match: {path: /strict}, upstream: "UP", paths: strict},

                """
        }
    }
    private static let narrow = Task { try await HTTPBench.start { $0.path = "/only" } }
    private let bench: HTTPBench

    init() async throws {
        bench = try await Self.shared.value
        try await bench.startOver()
    }

    /// What the upstream gets for a target, or the status if that is not 200.
    private func forwarded(_ target: String) async throws -> String {
        try await bench.startOver()
        let response = try await bench.ask(HTTPBench.plain(target))
        guard response.status == 200 else { return "\(response.status)" }
        return bench.received.first?.split(separator: " ").dropFirst().first.map(String.init) ?? "nothing"
    }

    @Test("2.1 Path and query go upstream byte for byte")
    func literal() async throws {
        for target in [
            "/", "//", "//a//b", "///", "/a/./b", "/.", "/./", "/a/b/../c", "/%41%7e%2D", "/%2f%2F", "/%c3%A9", "/?",
            "/a?b=c&&d", "/?a=/../..", "/?%zz", "/;a=b;c", "/a;b/c", "/a\\b", "/%20", "/%5c", "/a%01b", "/a.b", "/...",
            "/.hidden", "/~", "/'(x)*!,:@&=+$", "/{}|^`\"<>", "/?a?b", "/%25", "/%2541", "/?%00", "/??", "/a/", "/a//",
            "/%E2%82%AC?%e2%82%ac", "/api%2f..%2fx", "/api\\..\\x",
        ] {
            #expect(try await forwarded(target) == target)
        }
    }

    @Test(
        "2.1 A route whose upstream has a path replaces just the matched prefix's literal bytes by it",
        arguments: [
            ("/api", "/v1"), ("/api/", "/v1/"), ("/api/x", "/v1/x"), ("/api//x", "/v1//x"), ("/api?q", "/v1?q"),
            ("/api/?", "/v1/?"), ("/api/x%2Fy?z=//", "/v1/x%2Fy?z=//"), ("/%61pi/x", "/v1/x"), ("/ap%69", "/v1"),
            ("/api/api", "/v1/api"), ("/api/%61pi;x", "/v1/%61pi;x"), ("/api/./x", "/v1/./x"),
            ("/api/a/../b", "/v1/a/../b"), ("/slashed/", "/v2/"), ("/slashed/x", "/v2/x"),
            ("/slashed//x", "/v2//x"), ("/slashed/?q", "/v2/?q"), ("/root", "/"), ("/root/", "/"), ("/root/x", "/x"),
            ("/root?q", "/?q"), ("/root//x", "//x"), ("/plain/x", "/plain/x"),
            ("/%70lain//x/?", "/%70lain//x/?"), ("http://localhost/api/x?y", "/v1/x?y"),
        ])
    func mapped(_ sent: String, _ expected: String) async throws {
        #expect(try await forwarded(sent) == expected)
    }

    @Test("2.2 A prefix matches whole segments only, escapes of unreserved characters being decoded")
    func segments() async throws {
        for (sent, expected) in [
            ("/api", "/v1"), ("/apix", "/apix"), ("/api.", "/api."), ("/api-x/y", "/api-x/y"), ("/ap", "/ap"),
            ("/Api", "/Api"), ("/x/api", "/x/api"), ("/%61%70%69", "/v1"), ("/%61%70%69x", "/%61%70%69x"),
            ("/guarded/administrator", "/g/administrator"), ("/guarded/Admin", "/g/Admin"),
            ("/guarded/x/admin", "/g/x/admin"), ("/guarded/post", "/g/post"), ("/guarded/%41dmin", "/g/%41dmin"),
        ] {
            #expect(try await forwarded(sent) == expected)
        }
    }

    @Test("2.2 A filter bites on the literal path and on that with escapes of unreserved characters decoded")
    func filters() async throws {
        for path in [
            "/guarded/admin", "/guarded/admin/", "/guarded/admin/x", "/guarded/admin//x", "/guarded/admin?x",
            "/guarded/%61dmin", "/guarded/%61%64%6d%69%6E/x", "/%67uarded/admin",
        ] {
            try await bench.refuses(HTTPBench.plain(path), .denied)
        }
        try await bench.refuses("POST /guarded/post HTTP/1.1\r\nHost: localhost\r\n\r\n", .denied)
    }

    @Test(
        "2.3 A path that the obliging reader takes to another route, past a filter or out of its prefix is refused",
        arguments: [
            // Another route.
            "/api/../x", "/api/..", "/x/../api", "/x/../api/y", "/api/%2e%2e/x", "/api/..\\x", "//api",
            "/./api", "/api%2fx", "/%2561pi", "/api;x", "/x/%2e%2E/api", "/api/%252e%252e/x", "/;/api", "/x\\..\\api",
            "/api/..;/x", "/api/.%2e/x", "/api/%2E./x",
            // Past a filter.
            "/guarded/x/../admin", "/guarded//admin", "/guarded/./admin", "/guarded/admin;x", "/guarded/admin%2fx",
            "/guarded/%2561dmin", "/guarded/admin\\x", "/guarded\\admin", "/guarded%2fadmin", "/guarded/;x/admin",
            "/guarded/%2e/admin", "/guarded/%5cadmin", "/guarded/%252fadmin", "/guarded/admin%3bx",
            // Out of the prefix and the base, or above the root, though it comes back.
            "/api/../api/x", "/api/%2e%2e/api/x", "/api/x/../../api", "/..", "/../x", "/%2e%2e/x", "/a/../../b",
            "/a/..%2f..%2fb", "/..\\x", "/.%252e/x", "/%2e%2e",
            // The same for a reader that is less obliging, and sees one segment where the other sees two.
            "/api/a%5cb/../../x", "/api/a%252fb/../../x", "/api/a\\b/../../x", "/guarded/x/a%5cb/../../admin",
            "/guarded/x/a%252fb/../../admin", "/guarded/x/../admin/..;/y", "/guarded/./admin/%252e%252e/y",
            "/guarded//admin/%252e%252e/y",
            // For one that cuts parameters before it decodes, as Jetty does.
            "/guarded/;x%2fy/admin", "/guarded/;x%252fy/admin", "/guarded/;x\\y/admin", "/;x%2fy/api",
        ])
    func ambiguous(_ path: String) async throws {
        try await bench.refuses(HTTPBench.plain(path), .ambiguous)
    }

    @Test("2.3 With paths: strict every path that normalising would change is refused")
    func strict() async throws {
        for rest in [
            "//a", "/a//b", "/./a", "/a/.", "/a/../b", "/%61", "/a;b", "/;", "/a\\b", "/%2f", "/%5c", "/%2e%2e", "/%25",
        ] {
            try await bench.refuses(HTTPBench.plain("/strict\(rest)"), .ambiguous)
        }
        for target in [
            "/strict", "/strict/", "/strict/a/b.c/~d-e_f", "/strict/a?b=//../%61;c", "/strict/...", "/strict/a/",
        ] {
            #expect(try await forwarded(target) == target)
        }
    }

    @Test("2.4 A percent sign without two hex digits and %00 in the path are refused, other escapes and the query pass")
    func escapes() async throws {
        for path in [
            "/%", "/%4", "/a%", "/a%2", "/%zz", "/%4g", "/%g4", "/% 1".replacing(" ", with: "+"), "/%00", "/a%00b",
            "/%%41", "/%-1", "/api/%0", "/guarded/admin%",
        ] {
            try await bench.refuses(HTTPBench.plain(path), .malformedButFramed)
            try await bench.refuses(HTTPBench.plain(path + "?q"), .malformedButFramed)
        }
        for target in ["/%01%7f%80%ff", "/%0a%0D", "/?%", "/?%zz&%00", "/%c0%ae"] {
            #expect(try await forwarded(target) == target)
        }
    }

    @Test("2.4 Without a route the response is 404, never a redirect")
    func noRoute() async throws {
        let narrow = try await Self.narrow.value
        for path in ["/", "/on", "/onlyx", "/ONLY", "/x/only", "/?/only", "/hands"] {
            let response = try await narrow.refuses(HTTPBench.plain(path), .noRoute)
            #expect(response["Location"] == nil)
        }
        try await narrow.startOver()
        #expect(try await narrow.ask(HTTPBench.plain("/only")).status == 200)
        #expect(narrow.received == [HTTPBench.forwarded("GET /only")])
    }
}
