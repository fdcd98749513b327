import Lanyard
import TestSupport
import Testing

/// Users that come while requests run, and a change of the active one.
@Suite(.timeLimit(.minutes(1))) struct ProxyUserTests {
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
    func pinnedStranger() async throws {
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
    func newcomer() async throws {
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

    @Test("a parked request goes on as the user it began with, though another has been made active meanwhile")
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

    @Test("a request of a session that a person has ended is not sent again with the next session's token")
    func loggedOutMeanwhile() async throws {
        let bench = try ProxyBench(script: { request in
            request.message.values("Authorization") == ["Bearer \(ProxyBench.token)"]
                ? RawAnswer([.pause(.milliseconds(300))] + RawAnswer.answer(401, "Unauthorized", body: "").steps)
                : .answer()
        })
        async let answer = bench.ask(Self.get)
        try await eventually("it is on its way") { bench.upstream.requests.count == 1 }
        bench.path.publish(.none(.loginRequired), for: ProxyBench.user)
        bench.path.publish(ProxyBench.availability(2, "another.account"), for: ProxyBench.user)
        #expect(try await answer.status == 401)
        #expect(Self.bearers(bench) == ["Bearer \(ProxyBench.token)"])
        #expect(try await bench.ask(Self.get).status == 200)
    }

    @Test("a request whose token was refused is sent again as the user it began with")
    func replayed() async throws {
        let bench = try ProxyBench(script: { request in
            request.message.values("Authorization") == ["Bearer \(ProxyBench.token)"]
                ? .answer(401, "Unauthorized", body: "") : .answer()
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
