import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Requests that come while there is no token, or one that is about to end.
@Suite struct ProxyTokenTests {
    private static let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func parked(_ bench: ProxyBench) -> Int { bench.count("lanyard_parked_requests") }

    @Test("requests without a token wait, are asked for once, and continue with what is published")
    func resumed() async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(20)) })
        let responses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<20 { group.addTask { try await bench.ask(Self.get).status } }
            try await eventually("all are parked") { Self.parked(bench) == 20 }
            #expect(bench.tokens.count == 1)
            #expect(bench.upstream.connectionCount == 0)
            bench.publish(generation: 1)
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(responses == Array(repeating: 200, count: 20))
        #expect(bench.tokens.count == 1)
        #expect(Self.parked(bench) == 0)
    }

    /// A request brings the next attempt forward to 5 s, if it is more than 10 s away.
    private static func movable(_ planned: Duration = .seconds(100), notBefore: Instant) -> AccessToken.Refusal {
        .identityUnreachable(
            nextAttemptAt: .now + planned,
            requested: .init(after: .seconds(5), notBefore: notBefore, delayMax: .seconds(10)))
    }

    @Test("a refusal that is published refuses who waits and who comes, with the problem and its Retry-After")
    func refused() async throws {
        let refusals: [(AccessToken.Refusal, String, ClosedRange<Int>?)] = [
            (.loginRequired, "login-required", nil), (.loggedOut, "login-required", nil),
            (.userUnknown(wasRemoved: false), "login-required", nil),
            (.userUnknown(wasRemoved: true), "login-required", nil),
            (.credentialRefused(because: "why"), "credential-refused", nil),
            (.clientRefused(because: "why"), "credential-refused", nil),
            (.variantRefused(because: "why"), "credential-refused", nil),
            (.tokenUnusable(because: "why"), "identity-unreachable", nil),
            (.identityUnreachable(nextAttemptAt: .now + .seconds(30)), "identity-unreachable", 20...30),
            (Self.movable(notBefore: .past), "identity-unreachable", 5...5),
            (Self.movable(notBefore: .now + .seconds(40)), "identity-unreachable", 30...40),
            (Self.movable(.seconds(9), notBefore: .past), "identity-unreachable", 1...9),
        ]
        for (refusal, name, retryAfter) in refusals {
            let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(20)) })
            async let waiting = bench.ask(Self.get)
            try await eventually("it is parked") { Self.parked(bench) == 1 }
            bench.path.publish(.none(refusal), for: ProxyBench.user)
            bench.settle()
            let responses = try await [waiting, bench.ask(Self.get)]
            for response in responses {
                #expect(response.status == 503)
                #expect(try response.json["type"].string == "urn:lanyard:problem:\(name)")
                #expect(try response.json["user"].string == "alice")
                let seconds = response["Retry-After"].flatMap(Int.init)
                #expect(retryAfter.map { $0.contains(seconds ?? -1) } ?? (seconds == nil))
            }
            #expect(bench.upstream.connectionCount == 0)
        }
    }

    @Test("a user that was logged out is the operator's; a refused token of a route is no refused login")
    func words() async throws {
        for (refusal, detail) in [
            (
                .loggedOut,
                "This user was logged out: lanyard login alice logs it in again with its configured credential."
            ),
            (
                .variantRefused(because: "token of the route orders (audience o): why"),
                "There is no access token for token of the route orders (audience o): why."
            ),
        ] as [(AccessToken.Refusal, String)] {
            let bench = try ProxyBench(plan: { $0.publishes = false })
            bench.path.publish(.none(refusal), for: ProxyBench.user)
            bench.settle()
            let problem = try await bench.ask(Self.get).json
            #expect(problem["detail"].string == detail && problem["action"].string == "operator", "\(problem)")
        }
    }

    @Test("the problem of a refused credential says who must act", arguments: ResponsibleParty.allCases)
    func responsible(_ party: ResponsibleParty) async throws {
        let bench = try ProxyBench(plan: { $0.publishes = false })
        bench.path.publish(.none(.credentialRefused(because: "why", action: party)), for: ProxyBench.user)
        bench.settle()
        let response = try await bench.ask(Self.get)
        #expect(response.status == 503)
        #expect(try response.json["action"].string == party.rawValue)
    }

    @Test(
        "what a refusal says of a file or an app stands in its detail letter by letter, whatever bytes it has",
        arguments: [
            "/run/secrets/alice does not exist", #"/a "quoted" \path"#, "/a\nb\t\u{1}\u{7f}",
            "/\u{e4}\u{1f511}\u{2028}",
        ])
    func detail(_ words: String) async throws {
        let bench = try ProxyBench(plan: { $0.publishes = false })
        bench.path.publish(.none(.credentialRefused(because: words)), for: ProxyBench.user)
        bench.settle()
        try await bench.talk { client in
            for _ in 0..<2 {
                let response = try client.exchange("GET", "/")
                #expect(response["Content-Length"] == "\(response.body.count)")
                #expect(try response.json["detail"].string == "Lanyard cannot log this user in: \(words).")
            }
        }
    }

    @Test("who has waited long enough is refused with Retry-After, and its connection continues")
    func overdue() async throws {
        let time = Duration.seconds(3600)
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax, $0.timeStands) = (false, time, true) })
        try await bench.talk { client in
            try client.send(Self.get)
            try blockUntil("it is parked") { bench.count("lanyard_parked_requests") == 1 }
            bench.pass(time - .nanoseconds(1))
            #expect(!client.hasInput)
            bench.pass(.nanoseconds(1))
            #expect(bench.count("lanyard_parked_requests") == 0)
            let response = try client.response()
            #expect(response.status == 503)
            #expect(response["Retry-After"] == "1")
            #expect(try response.json["type"].string == "urn:lanyard:problem:identity-unreachable")
            bench.publish(generation: 1)
            #expect(try client.exchange("GET", "/").status == 200)
        }
    }

    @Test("in the mandatory zone requests wait for the refresh; without one the unexpired token serves in the end")
    func zone() async throws {
        let time = Duration.seconds(3600)
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax, $0.timeStands) = (false, time, true) })
        bench.publish(generation: 1, token: "old", waitsFrom: bench.now)
        async let response = bench.ask(Self.get)
        try await eventually("it is parked") { bench.count("lanyard_parked_requests") == 1 }
        bench.pass(time - .nanoseconds(1))
        #expect(bench.count("lanyard_parked_requests") == 1)
        bench.pass(.nanoseconds(1))
        #expect(try await response.status == 200)
        #expect(bench.tokens.count == 1)
    }

    @Test("in the mandatory zone requests go with the new token as soon as it is there")
    func zoneRenewed() async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(60)) })
        bench.publish(generation: 1, token: "old", waitsFrom: .now)
        async let second = bench.ask(Self.get)
        try await eventually("it is parked") { Self.parked(bench) == 1 }
        bench.publish(generation: 2, token: "new")
        let status = try await second.status
        #expect(status == 200)
        #expect(bench.upstream.requests.map { $0["Authorization"] } == ["Bearer new"])
    }

    @Test("an expired token never goes upstream")
    func expired() async throws {
        let bench = try ProxyBench(plan: {
            ($0.publishes, $0.tokenWaitMax, $0.timeStands) = (false, .seconds(60), true)
        })
        bench.publish(generation: 1, usableUntil: bench.now + .seconds(3600))
        bench.pass(.seconds(3600))
        async let response = bench.ask(Self.get)
        try await eventually("it is parked") { Self.parked(bench) == 1 }
        bench.pass(.seconds(60))
        #expect(try await response.status == 503)
        #expect(bench.upstream.connectionCount == 0)
        #expect(bench.tokens.count == 1)
    }

    @Test("the next request carries the new token, on the connections that are there")
    func renewed() async throws {
        let bench = try ProxyBench()
        try await bench.talk { client throws in
            for generation in 1...5 {
                bench.publish(generation: UInt64(generation), token: "t\(generation)")
                #expect(try client.exchange("GET", "/").status == 200)
            }
        }
        #expect(bench.upstream.requests.map { $0["Authorization"] } == (1...5).map { "Bearer t\($0)" })
        #expect(bench.upstream.connectionCount == 1)
    }

    @Test("no active user: 503")
    func nobody() async throws {
        let bench = try ProxyBench()
        bench.path.activate(nil)
        bench.settle()
        let response = try await bench.ask(Self.get)
        #expect(response.status == 503)
        #expect(try response.json["type"].string == "urn:lanyard:problem:no-active-user")
    }

    @Test("a client that goes while it waits is forgotten")
    func gone() async throws {
        let bench = try ProxyBench(plan: { ($0.publishes, $0.tokenWaitMax) = (false, .seconds(20)) })
        let (first, second) = try (RawClient(bench.endpoint), RawClient(bench.endpoint))
        try first.send(Self.get)
        try second.send(Self.get)
        try await eventually("both wait") { Self.parked(bench) == 2 }
        first.reset()
        try await eventually("one is forgotten") { Self.parked(bench) == 1 }
        bench.publish(generation: 1)
        #expect(try second.response().status == 200)
        #expect(bench.upstream.requests.count == 1)
    }

    @Test("the requests of one user leave an eighth of the places to those of others")
    func parkedShare() async throws {
        let bench = try ProxyBench(plan: {
            ($0.publishes, $0.tokenWaitMax, $0.limits.parkedRequestsMax) = (false, .seconds(20), 16)
        })
        // Known from its first request on.
        let other = UserIndex(1)
        func park(_ count: Int, _ user: UserIndex) async throws -> [RawClient] {
            bench.path.activate(user)
            bench.settle()
            let before = Self.parked(bench)
            let clients = try (0..<count).map { _ in try RawClient(bench.endpoint) }
            for client in clients { try client.send(Self.get) }
            try await eventually("they wait") { Self.parked(bench) == before + count }
            return clients
        }
        for client in try await park(1, other) { client.close() }
        try await eventually("it is forgotten") { Self.parked(bench) == 0 }
        let many = try await park(14, ProxyBench.user)
        #expect(try await bench.ask(Self.get).status == 503)
        let few = try await park(1, other)
        #expect(try await bench.ask(Self.get).status == 503)
        #expect(Self.parked(bench) == 15)
        bench.publish(generation: 1)
        for client in many { #expect(try client.response().status == 200) }
        for client in few { client.close() }
    }

    @Test("more waiting requests than allowed are refused as overload")
    func parkedMax() async throws {
        let bench = try ProxyBench(plan: {
            ($0.publishes, $0.tokenWaitMax, $0.limits.parkedRequestsMax) = (false, .seconds(20), 2)
        })
        let waiting = try (0..<2).map { _ in try RawClient(bench.endpoint) }
        for client in waiting { try client.send(Self.get) }
        try await eventually("two wait") { Self.parked(bench) == 2 }
        let response = try await bench.ask(Self.get)
        #expect(response.status == 503)
        #expect(try response.json["type"].string == "urn:lanyard:problem:overloaded")
        #expect(response["Retry-After"] == "1")
        bench.publish(generation: 1)
        for client in waiting { #expect(try client.response().status == 200) }
    }
}
