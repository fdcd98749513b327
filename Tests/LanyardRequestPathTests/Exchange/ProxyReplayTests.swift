import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import TestSupport
import Testing

/// Answers that mean "token refused" (http-forwarding.md 17).
@Suite struct ProxyReplayTests {
    static let refused = RawResponse.response(401, "Unauthorized", fields: [("A", "1")], body: "no")

    /// An upstream that knows only `token-2`.
    static func picky(_ configure: (inout ProxyBench.Plan) -> Void = { _ in }) throws -> ProxyBench {
        try ProxyBench(
            script: { request in
                request.message["Authorization"] == "Bearer token-2"
                    ? .response(body: "\(request.message.bodyCount)") : refused
            }, plan: configure)
    }

    static func post(_ body: String, _ fields: String = "") -> String {
        "POST /x?y HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\(fields)\r\n\(body)"
    }

    private static func replays(_ bench: ProxyBench, _ result: String) -> Int {
        bench.settle()
        return bench.count("lanyard_replays", ["result": result])
    }

    @Test(
        "a request whose body is held is sent once more with the new token, and differs in nothing else",
        arguments: [0, 1, 5_000, 16_000, 20_000, 65_536])
    func replayed(_ size: Int) async throws {
        let bench = try Self.picky()
        bench.renews(after: .milliseconds(30))
        let body = String(repeating: "b", count: size)
        let response = try await bench.ask(Self.post(body, "X: 1\r\n"), method: "POST")
        #expect(response.status == 200 && response.bodyText == "\(size)" && response["Proxy-Status"] == nil)
        let sent = bench.upstream.requests
        try #require(sent.count == 2)
        #expect(sent.map { $0["Authorization"] } == ["Bearer \(ProxyBench.token)", "Bearer token-2"])
        #expect(sent[0].headText.replacing(ProxyBench.token, with: "token-2") == sent[1].headText)
        #expect(sent[0].body == sent[1].body && sent[1].bodyCount == size)
        #expect(bench.tokens.refused == [1])
        // What may not be repeated takes a fresh connection in place of the other.
        #expect(bench.upstream.connectionCount == 2)
        #expect(bench.count("lanyard_upstream_connections", ["state": "open"]) == 1)
        #expect(bench.count("lanyard_upstream_unauthorized", ["route": "all"]) == 1)
        #expect(Self.replays(bench, "replayed") == 1)
        #expect(bench.count("lanyard_requests", ["code_class": "2xx"]) == 1)
        #expect(bench.count("lanyard_requests") == 1 && bench.count("lanyard_parked_requests") == 0)
    }

    @Test("a chunked body that has ended is held, too, however it was cut", arguments: [0, 1, 3, 9, 30_000])
    func chunked(_ size: Int) async throws {
        let bench = try Self.picky()
        bench.renews()
        let response = try await bench.talk { client in
            try client.send("PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in stride(from: 0, to: size, by: max(size / 3, 1)) {
                let piece = String(repeating: "c", count: min(max(size / 3, 1), size - start))
                try client.send("\(String(piece.utf8.count, radix: 16));x=\"y\"\r\n\(piece)\r\n")
            }
            try client.send("0\r\nT: 1\r\n\r\n")
            let response = try client.response(to: "PUT")
            // The connection is in step.
            #expect(try client.exchange("GET", "/").status == 200)
            return response
        }
        #expect(response.status == 200 && response.bodyText == "\(size)")
        let sent = bench.upstream.requests.prefix(2)
        #expect(sent.map(\.bodyCount) == [size, size] && Set(sent.map(\.bodyDigest)).count == 1)
        #expect(sent.allSatisfy { $0["Transfer-Encoding"] == "chunked" })
    }

    @Test("a body that is no longer held is not replayed; the refresh still runs", arguments: [true, false])
    func tooLarge(_ isChunked: Bool) async throws {
        for most in [0, 10, 65_536] {
            let bench = try Self.picky { $0.route.replayBodyMax = most }
            bench.renews()
            let body = String(repeating: "b", count: most + 1)
            let text =
                isChunked
                ? "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "\(String(most + 1, radix: 16))\r\n\(body)\r\n0\r\n\r\n" : Self.post(body)
            let response = try await bench.ask(text, method: "POST")
            #expect(response.status == 401 && response.bodyText == "no" && response["A"] == "1")
            #expect(
                response.values("Proxy-Status") == [
                    "lanyard; received-status=401; details=\"replay-not-possible: body too large\""
                ])
            #expect(bench.tokens.refused == [1] && bench.upstream.requests.count == 1)
            #expect(Self.replays(bench, "body_too_large") == 1)
            #expect(try await bench.ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
        }
    }

    @Test(
        "a request that meets the renewal of its token and cannot be sent again is told by the log, a few in a second")
    func unrepeatable() async throws {
        let log = LogRecorder()
        let asked = Milestone()
        let renewed = Milestone()
        let bench = try ProxyBench(
            script: { request in
                guard request.message["Authorization"] != "Bearer token-2" else { return .response() }
                asked.set()
                renewed.wait(for: "the token is renewed")
                return Self.refused
            },
            plan: {
                $0.route.replayBodyMax = 0
                $0.log = log.logger
            })
        async let response = bench.ask(Self.post("body"), method: "POST")
        try await eventually("it is asked") { asked.isSet }
        bench.publish(generation: 2, token: "token-2", renewal: .possible(from: .now + .seconds(100)))
        renewed.set()
        #expect(try await response.status == 401)
        let told = log.lines.filter { $0.contains("request.not_replayed") }
        #expect(told.count == 1 && told[0].contains("body_too_large") && told[0].contains("\"route\""), "\(told)")
        #expect(bench.tokens.refused == [])
        // Without a newer token nothing is told: the refusal may have any cause.
        let picky = try Self.picky {
            $0.route.replayBodyMax = 0
            $0.log = log.logger
        }
        picky.renews()
        #expect(try await picky.ask(Self.post("body"), method: "POST").status == 401)
        #expect(log.lines.count { $0.contains("request.not_replayed") } == 1)
    }

    @Test("a token that was renewed since is used at once, and no refresh is asked for")
    func newer() async throws {
        let asked = Milestone()
        let renewed = Milestone()
        let bench = try ProxyBench { request in
            guard request.message["Authorization"] != "Bearer token-2" else { return .response() }
            asked.set()
            renewed.wait(for: "the token is renewed")
            return Self.refused
        }
        async let response = bench.ask(Self.post("body"), method: "POST")
        try await eventually("it is asked") { asked.isSet }
        bench.publish(generation: 2, token: "token-2", renewal: .possible(from: .now + .seconds(100)))
        renewed.set()
        #expect(try await response.status == 200)
        #expect(bench.tokens.refused == [])
    }

    @Test(
        "what a new token would not mend passes untouched, and nothing is refreshed",
        arguments: [
            ("insufficient_scope", "insufficient scope"), ("invalid_request", "invalid request"),
        ])
    func scope(_ error: String, _ words: String) async throws {
        let bench = try ProxyBench { _ in
            .response(
                401, "Unauthorized",
                fields: [
                    ("WWW-Authenticate", "Basic realm=\"a, b\", Bearer error=\"\(error)\""),
                    ("Proxy-Status", "up; x=1"),
                ], body: "no")
        }
        bench.renews()
        let response = try await bench.ask(Self.post("body"), method: "POST")
        #expect(response.status == 401 && response.bodyText == "no")
        #expect(response["WWW-Authenticate"] == "Basic realm=\"a, b\", Bearer error=\"\(error)\"")
        #expect(
            response.values("Proxy-Status") == [
                "up; x=1", "lanyard; received-status=401; details=\"replay-not-possible: \(words)\"",
            ])
        #expect(bench.tokens.refused == [] && Self.replays(bench, error) == 1)
    }

    @Test(
        "a session that cannot renew leaves the response as it was, and says why at once",
        arguments: [
            (AccessToken.Renewal.impossible, "refresh failed", "refresh_failed"),
            (.elsewhere, "the same token is in the file", "same_token"),
            (.failing(until: .now + .seconds(100_000)), "refresh failed", "refresh_failed"),
            (.possible(from: .now + .seconds(100_000)), "cooldown", "cooldown"),
        ])
    func noRenewal(_ renewal: AccessToken.Renewal, _ words: String, _ result: String) async throws {
        // No renewal comes: a response that waited for one would not come, either.
        let bench = try Self.picky { $0.tokenWaitMax = .seconds(3600) }
        bench.publish(generation: 1, token: "token-1", renewal: renewal)
        let response = try await bench.ask(Self.post("body"), method: "POST")
        #expect(response.status == 401 && response.bodyText == "no" && response["Connection"] == nil)
        #expect(
            response["Proxy-Status"] == "lanyard; received-status=401; details=\"replay-not-possible: \(words)\"")
        #expect(bench.tokens.refused == [] && Self.replays(bench, result) == 1)
        // The session path counts and logs what cooldown or budget has denied.
        #expect(bench.tokens.denied.withLock { $0 } == (result == "cooldown" ? [ProxyBench.user] : []))
    }

    @Test("a refresh that fails, or a session that ends by it, passes the response on as received")
    func failed() async throws {
        let news: [AccessToken.Availability] = [
            ProxyBench.availability(1, "token-1", renewal: .possible(from: .now + .seconds(9))),
            .none(.loginRequired), .none(.identityUnreachable(nextAttemptAt: .now + .seconds(9))),
        ]
        for end in news {
            let bench = try Self.picky()
            let path = bench.path
            bench.tokens.onRefused.withLock {
                $0 = { _ in
                    path.publish(ProxyBench.availability(1, "token-1", renewal: .inProgress), for: ProxyBench.user)
                    path.publish(end, for: ProxyBench.user)
                }
            }
            let response = try await bench.ask(Self.post("body"), method: "POST")
            #expect(response.status == 401 && response.bodyText == "no")
            #expect(response["Proxy-Status"]?.hasSuffix("refresh failed\"") ?? false)
            #expect(Self.replays(bench, "refresh_failed") == 1 && bench.tokens.refused == [1])
        }
    }

    @Test("a denial that comes back from the session is a cooldown")
    func denied() async throws {
        let bench = try Self.picky()
        let path = bench.path
        bench.tokens.onRefused.withLock {
            $0 = { _ in
                let later = ProxyBench.availability(1, "token-1", renewal: .possible(from: .now + .seconds(9)))
                path.publish(later, for: ProxyBench.user)
            }
        }
        let response = try await bench.ask(Self.post("body"), method: "POST")
        #expect(response["Proxy-Status"]?.hasSuffix("cooldown\"") ?? false)
        // The session has counted its own denial.
        #expect(bench.tokens.denied.withLock { $0 } == [])
    }

    @Test("a refresh is waited for up to wait_max; then the response passes")
    func overdue() async throws {
        let time = Duration.seconds(3600)
        let bench = try Self.picky { ($0.tokenWaitMax, $0.timeStands) = (time, true) }
        async let held = bench.ask(Self.post("body"), method: "POST")
        try await eventually("its response is held") { bench.count("lanyard_parked_requests") == 1 }
        bench.pass(time - .nanoseconds(1))
        #expect(bench.count("lanyard_parked_requests") == 1)
        bench.pass(.nanoseconds(1))
        let response = try await held
        #expect(response.status == 401 && response["Proxy-Status"]?.hasSuffix("refresh failed\"") ?? false)
        #expect(bench.count("lanyard_parked_requests") == 0)
        // The connections are in step, and a token that comes later serves.
        bench.publish(generation: 2, token: "token-2")
        #expect(try await bench.ask(Self.post("body"), method: "POST").status == 200)
        #expect(bench.upstream.connectionCount == 1)
    }

    @Test("a second refusal is relayed as it is, and for 30 s nothing is refreshed for that route")
    func breaker() async throws {
        let bench = try ProxyBench { _ in Self.refused }
        bench.renews()
        let second = try await bench.ask(Self.post("body"), method: "POST")
        #expect(second.status == 401 && second["Proxy-Status"] == nil && second.bodyText == "no")
        #expect(bench.tokens.refused == [1] && bench.upstream.requests.count == 2)
        #expect(bench.count("lanyard_route_breaker_open", ["route": "all"]) == 1)
        let third = try await bench.ask(Self.post("body"), method: "POST")
        #expect(
            third["Proxy-Status"] == "lanyard; received-status=401; details=\"replay-not-possible: breaker open\"")
        #expect(bench.tokens.refused == [1] && bench.upstream.requests.count == 3)
        #expect(Self.replays(bench, "breaker") == 1 && Self.replays(bench, "replayed") == 1)
        #expect(bench.count("lanyard_upstream_unauthorized") == 3)
    }

    @Test(
        "with the client's own authorization passed on its refusal is its own; with ours the refresh runs, without replay"
    )
    func pass() async throws {
        let bench = try Self.picky { $0.route.clientAuthorization = .pass }
        bench.renews()
        let own = try await bench.ask(Self.post("body", "Authorization: Basic x\r\n"), method: "POST")
        #expect(own.status == 401 && own["Proxy-Status"]?.hasSuffix("client authorization\"") ?? false)
        #expect(bench.tokens.refused == [])
        let ours = try await bench.ask(Self.post("body"), method: "POST")
        #expect(ours.status == 401 && ours["Proxy-Status"]?.hasSuffix("client authorization\"") ?? false)
        #expect(bench.tokens.refused == [1] && bench.upstream.requests.count == 2)
    }

    @Test("the statuses are the route's")
    func statuses() async throws {
        let bench = try ProxyBench(
            script: { request in
                request.message["Authorization"] == "Bearer token-2"
                    ? .response() : .response(Int(request.message.target.dropFirst()) ?? 0, "No", body: "")
            }, plan: { $0.route.refusals.statuses = [403, 419] })
        bench.renews()
        #expect(try await bench.ask("GET /401 HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 401)
        #expect(bench.tokens.refused == [])
        #expect(try await bench.ask("GET /403 HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 200)
        #expect(bench.tokens.refused == [1])
    }

    @Test("a HEAD and a 401 without body are replayed; the connection stays in step")
    func bodiless() async throws {
        let bench = try ProxyBench { request in
            request.message["Authorization"] == "Bearer token-2" ? .response(body: "") : .response(401, "No", body: "")
        }
        bench.renews()
        try await bench.talk { client in
            try client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(try client.response(to: "HEAD").status == 200)
            #expect(try client.exchange("GET", "/").status == 200)
        }
        #expect(bench.upstream.connectionCount == 1)
    }

    @Test("however many are refused on all shards, each shard asks once and all are replayed")
    func crowd() async throws {
        let bench = try Self.picky { $0.shards = 2 }
        bench.renews(after: .milliseconds(200))
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<60 { group.addTask { try await bench.ask(Self.post("body"), method: "POST").status } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses == Array(repeating: 200, count: 60))
        #expect(bench.tokens.refused.count <= 2 && Set(bench.tokens.refused) == [1])
        #expect(bench.count("lanyard_parked_requests") == 0)
    }
}
