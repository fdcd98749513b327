import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Users that come while requests run, and a change of the active one.
@Suite struct ProxyUserTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func token(_ text: String, of user: UserIndex) -> AccessToken.Availability {
        let secret = Array(text.utf8).withUnsafeBytes { Secret(copying: $0) }
        return .token(
            AccessToken(
                user: user, generation: 1, token: secret, waitsFrom: .never, usableUntil: .now + .seconds(600)))
    }

    private static func bearers(_ bench: ProxyBench) -> [String] {
        bench.upstream.requests.map { $0.values("Authorization").joined() }
    }

    @Test("a route may pin a user that nothing configures: 503 with its name until it comes, then its token")
    func pinnedUnknownUser() async throws {
        let bench = try ProxyBench(plan: { $0.route.user = "carol" })
        let refusal = try await bench.ask(Self.get)
        #expect(refusal.status == 503)
        #expect(try refusal.json["type"].string == "urn:lanyard:problem:login-required")
        #expect(try refusal.json["user"].string == "carol")
        #expect(bench.tokens.count == 0)
        let carol = bench.names.index(of: "carol")
        bench.path.publish(Self.token("token.of.carol", of: carol), for: carol)
        bench.settle()
        #expect(try await bench.ask(Self.get).status == 200)
        #expect(Self.bearers(bench) == ["Bearer token.of.carol"])
    }

    @Test("a user that comes at run time can be made active, and is named in problems")
    func addedUser() async throws {
        let bench = try ProxyBench()
        let dave = bench.names.index(of: "dave")
        bench.path.publish(Self.token("token.of.dave", of: dave), for: dave)
        bench.path.activate(dave)
        bench.settle()
        #expect(try await bench.ask(Self.get).status == 200)
        bench.path.publish(.none(.loginRequired), for: dave)
        bench.settle()
        #expect(try await bench.ask(Self.get).json["user"].string == "dave")
        bench.path.activate(nil)
        bench.settle()
        #expect(try await bench.ask(Self.get).json["type"].string == "urn:lanyard:problem:no-active-user")
        #expect(Self.bearers(bench) == ["Bearer token.of.dave"])
    }

    @Test("a parked request continues as the user it began with, though another has been made active since")
    func parked() async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(20)) })
        let bob = bench.names.index(of: "bob")
        async let waiting = bench.ask(Self.get)
        try await eventually("it is parked") { bench.count("lanyard_parked_requests") == 1 }
        bench.path.publish(Self.token("token.of.bob", of: bob), for: bob)
        bench.path.activate(bob)
        bench.settle()
        #expect(try await bench.ask(Self.get).status == 200)
        #expect(Self.bearers(bench) == ["Bearer token.of.bob"])
        bench.publish(generation: 1)
        #expect(try await waiting.status == 200)
        #expect(Self.bearers(bench).sorted() == ["Bearer \(ProxyBench.token)", "Bearer token.of.bob"])
    }

    @Test("a request of a session that a logout has ended is not sent again with the next session's token")
    func loggedOutMeanwhile() async throws {
        let isPublished = Milestone()
        defer { isPublished.set() }
        let bench = try ProxyBench(script: { request in
            request.message.values("Authorization") == ["Bearer \(ProxyBench.token)"]
                ? .response(401, "Unauthorized", body: "").after(isPublished, "the next session is published")
                : .response()
        })
        async let response = bench.ask(Self.get)
        try await eventually("it is on its way") { bench.upstream.requests.count == 1 }
        bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        bench.path.publish(ProxyBench.availability(2, "another.account"), for: ProxyBench.user)
        bench.settle()
        isPublished.set()
        #expect(try await response.status == 401)
        #expect(Self.bearers(bench) == ["Bearer \(ProxyBench.token)"])
        #expect(try await bench.ask(Self.get).status == 200)
    }

    private static let refusing: RawServer.Script = { request in
        request.message.values("Authorization") == ["Bearer \(ProxyBench.token)"]
            ? .response(401, "Unauthorized", body: "no") : .response()
    }
    private static let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody"

    @Test(
        "a request that left as one account is not sent again as another account of its user: its response passes, and says why",
        arguments: [false, true])
    func anotherAccount(_ isSeenUnderWay: Bool) async throws {
        let bench = try ProxyBench(script: Self.refusing, plan: { $0.publishes = false })
        bench.publish(generation: 1, account: 1)
        let path = bench.path
        bench.tokens.onRefused.withLock {
            $0 = { _ in
                let renewing = ProxyBench.availability(1, ProxyBench.token, account: 1, renewal: .inProgress)
                if isSeenUnderWay { path.publish(renewing, for: ProxyBench.user) }
                path.publish(ProxyBench.availability(2, "another.account", account: 2), for: ProxyBench.user)
            }
        }
        let response = try await bench.ask(Self.post, method: "POST")
        #expect(response.status == 401 && response.bodyText == "no")
        #expect(
            response["Proxy-Status"]
                == "lanyard; received-status=401; details=\"replay-not-possible: session replaced\"")
        #expect(Self.bearers(bench) == ["Bearer \(ProxyBench.token)"] && bench.tokens.refused == [1])
        #expect(bench.count("lanyard_replays", ["result": "session_replaced"]) == 1)
        #expect(bench.count("lanyard_parked_requests") == 0)
        #expect(try await bench.ask(Self.post, method: "POST").status == 200)
        #expect(Self.bearers(bench).last == "Bearer another.account")
    }

    @Test("a parked request has not left as an account: it continues as its user, whatever account that has by then")
    func parkedAccount() async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(20)) })
        bench.publish(generation: 1, account: 1, waitsFrom: .past)
        async let waiting = bench.ask(Self.get)
        try await eventually("it is parked") { bench.count("lanyard_parked_requests") == 1 }
        bench.publish(generation: 2, token: "another.account", account: 2)
        #expect(try await waiting.status == 200)
        #expect(Self.bearers(bench) == ["Bearer another.account"])
    }

    @Test(
        "a request whose token ends before it is sent continues as its first user, without a token if that is another account by then",
        arguments: [1, 2])
    func endedBeforeSent(_ account: UInt64) async throws {
        let isFree = Milestone()
        let bench = try ProxyBench(
            script: { request in
                if request.message.target == "/first" { isFree.wait(for: "the first request may be answered") }
                return .response()
            },
            plan: {
                $0.publishes = false
                $0.upstream.connectionsMax = 1
                $0.upstream.timeouts.connect = .seconds(7200)
                $0.upstream.timeouts.connectAll = .seconds(7200)
                $0.upstream.timeouts.responseHeader = .seconds(7200)
                $0.timeStands = true
            })
        bench.publish(generation: 1, account: 1, usableUntil: bench.now + .seconds(3600))
        async let first = bench.ask("GET /first HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try await eventually("it has the one connection") { bench.upstream.requests.count == 1 }
        async let second = bench.ask(Self.get)
        try await eventually("it waits for a connection") { bench.count("lanyard_parked_requests") == 1 }
        let bob = bench.names.index(of: "bob")
        bench.path.publish(Self.token("token.of.bob", of: bob), for: bob)
        bench.path.activate(bob)
        bench.publish(generation: 2, token: "next.of.alice", account: account)
        bench.pass(.seconds(3600))
        isFree.set()
        #expect(try await first.status == 200)
        let response = try await second
        if account == 1 {
            #expect(response.status == 200)
            #expect(Self.bearers(bench) == ["Bearer \(ProxyBench.token)", "Bearer next.of.alice"])
        } else {
            #expect(response.status == 503 && response["Retry-After"] == "1")
            #expect(try response.json["type"].string == "urn:lanyard:problem:identity-unreachable")
            #expect(try response.json["user"].string == "alice")
            #expect(Self.bearers(bench) == ["Bearer \(ProxyBench.token)"])
        }
    }

    @Test("a request whose token was refused is sent again as the user it began with")
    func replayed() async throws {
        let bench = try ProxyBench(script: { request in
            request.message.values("Authorization") == ["Bearer \(ProxyBench.token)"]
                ? .response(401, "Unauthorized", body: "") : .response()
        })
        let bob = bench.names.index(of: "bob")
        let path = bench.path
        bench.tokens.onRefused.withLock {
            $0 = { _ in
                // The switch comes between the refusal and the new token.
                path.publish(Self.token("token.of.bob", of: bob), for: bob)
                path.activate(bob)
                path.publish(ProxyBench.availability(2, "renewed.of.alice"), for: ProxyBench.user)
            }
        }
        #expect(try await bench.ask(Self.get).status == 200)
        #expect(Self.bearers(bench) == ["Bearer \(ProxyBench.token)", "Bearer renewed.of.alice"])
    }
}
