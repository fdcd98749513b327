import LanyardSettings
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardFoundations
@testable import LanyardRequestPath
@testable import LanyardSessionInterface
@testable import LanyardSessions

/// `GET /v1/users/{user}/token`: which token is asked for, what is logged, and why there is none.
@Suite struct TokenCallTests {
    static func shown(_ token: String, expiry: WallTime? = nil, rest: Duration? = nil) -> ShownTokens {
        ShownTokens(shownToken(token, expiry: expiry, rest: rest))
    }

    private static func shownToken(
        _ token: String, expiry: WallTime? = nil, rest: Duration? = nil
    ) -> ShownTokens.Token {
        ShownTokens.Token(Tokens.secret(token), generation: 7, expiry: expiry, rest: rest)
    }

    private static func read(_ query: String) -> AdminCall.Parsed {
        let path = Array("/v1/users/bob/token".utf8)
        return path.withUnsafeBufferPointer { path in
            Array(query.utf8).withUnsafeBufferPointer { AdminCall.read(.get, path, query: $0) }
        }
    }

    @Test(
        "the query names the token as a route does; a space between scopes is + or %20",
        arguments: [
            ("audience=orders", TokenVariant(audience: "orders")),
            (
                "resource=https%3A%2F%2Fa.example&resource=https://b.example",
                TokenVariant(resources: ["https://a.example", "https://b.example"])
            ),
            ("scope=read+write", TokenVariant(scopes: ["read", "write"])),
            ("scope=write%20read&audience=a%2Bb", TokenVariant(audience: "a+b", scopes: ["read", "write"])),
        ])
    func query(_ query: String, _ variant: TokenVariant) {
        #expect(Self.read(query) == .call(.token("bob", variant)))
    }

    @Test(
        "a query of another form is refused with the form",
        arguments: [
            "", "audience", "audience=", "audience=a&audience=b", "scope=a&scope=b", "scope=+", "user=bob", "scopes=a",
            "audience=%zz", "audience=%ff", "audience=a&", "resource=",
        ])
    func badQuery(_ query: String) {
        guard case .unreadable(.invalid(let message)) = Self.read(query) else {
            return #expect(Bool(false), "\(query): \(Self.read(query))")
        }
        #expect(message.hasPrefix("the query takes audience= once"))
    }

    @Test("each token that is given out leaves a line with user, audience and time, and none with the token")
    func issued() async throws {
        let server = try AdminServer(exposesTokens: true)
        let orders = NamedVariant("orders", TokenVariant(audience: "https://orders.example"))
        var tokens = Self.shown("plain-token", rest: .seconds(100))
        tokens.variants = [(orders, Self.shownToken("orders-token", rest: .seconds(20)))]
        server.users.replies(.success(.accessTokens(tokens)))
        let all = try await server.ask("GET", "/v1/users/bob/token").json
        #expect(all["tokens"][0]["access_token"].string == "orders-token")
        #expect(all["tokens"][0]["expires_in"].int == 18 && all["tokens"][0]["generation"].int == 7)
        server.users.replies(.success(.accessTokens(Self.shown("orders-token"))))
        _ = try await server.ask("GET", "/v1/users/bob/token?audience=https://orders.example")
        #expect(server.users.requests == ["token of bob", "token of bob for audience https://orders.example"])
        let lines = server.log.lines("token.issued")
        #expect(lines.allSatisfy { $0["caller"] == "admin" && $0["user"] == "bob" })
        #expect(lines.map { $0["audience"] } == [nil, "https://orders.example", "https://orders.example"])
        #expect(lines.map { $0["expires_in"] } == ["95", "18", nil])
        #expect(!server.log.text.contains("plain-token") && !server.log.text.contains("orders-token"))
    }

    @Test("a call without a token leaves no line of one")
    func notIssued() async throws {
        let closed = try AdminServer()
        _ = try await closed.ask("GET", "/v1/users/bob/token")
        let open = try AdminServer(exposesTokens: true)
        open.users.replies(.failure(.noToken(.loginRequired)))
        _ = try await open.ask("GET", "/v1/users/bob/token")
        #expect(closed.log.lines("token.issued").isEmpty && open.log.lines("token.issued").isEmpty)
        #expect(open.log.lines("admin.call").map { $0["result"] } == ["login-required"])
    }

    @Test(
        "without a token the problem is that of a request: status 503, its name, who must act, and when",
        arguments: [
            (.loginRequired, "login-required", "user", nil), (.loggedOut, "login-required", "operator", nil),
            (.credentialRefused(because: "it said no"), "credential-refused", "operator", nil),
            (.variantRefused(because: "no such audience"), "credential-refused", "operator", nil),
            (
                .identityUnreachable(nextAttemptAt: .now + .seconds(3600), because: "no route to host"),
                "identity-unreachable", "nobody", 3600
            ),
        ] as [(AccessToken.Refusal, String, String, Int?)])
    func noToken(_ refusal: AccessToken.Refusal, _ name: String, _ action: String, _ retryAfter: Int?) async throws {
        let server = try AdminServer(exposesTokens: true)
        server.users.replies(.failure(.noToken(refusal)))
        let response = try await server.ask("GET", "/v1/users/bob/token")
        let json = try response.json
        #expect(response.status == 503 && json["status"].int == 503)
        #expect(try AdminServer.problem(response) == name)
        #expect(json["user"].string == "bob" && json["action"].string == action, "\(response.bodyText)")
        let seconds = response["Retry-After"].flatMap { Int($0) }
        #expect((seconds == nil) == (retryAfter == nil))
        if let seconds, let retryAfter { #expect(retryAfter - 1800...retryAfter ~= seconds) }
    }

    @Test("a token that no route asks for is 404, with those that routes ask for")
    func noSuchToken() async throws {
        let server = try AdminServer(exposesTokens: true)
        server.users.replies(.failure(.noSuchToken(known: ["audience orders", "scopes read"])))
        let response = try await server.ask("GET", "/v1/users/bob/token?audience=other")
        #expect(response.status == 404)
        #expect(try AdminServer.problem(response) == "no-such-token")
        #expect(try response.json["detail"].string?.contains("routes ask for: audience orders; scopes read.") == true)
    }
}
