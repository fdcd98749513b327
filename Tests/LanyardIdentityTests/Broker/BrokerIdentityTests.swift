import LanyardFoundations
import LanyardSessionInterface
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSettings

/// Tokens of another Lanyard, before a fake of its broker that has the documented shapes (fleet.md 2).
@Suite("Another Lanyard: tokens of its broker") struct BrokerIdentityTests {
    private typealias Address = IdentitySettings.OtherLanyard.Address

    /// An identity on a loop of its own, and its brokers.
    private final class Bench: Sendable {
        let loop: EventLoop
        let folder: TemporaryFolder
        let identity: BrokerIdentity

        init(_ addresses: [Address], capability: String? = nil, allowsPlain: Bool = false) throws {
            loop = try EventLoop(label: "test.broker")
            loop.start()
            let folder = try TemporaryFolder()
            self.folder = folder
            let file = try capability.map { try folder.write("capability", $0) }
            let lanyard = IdentitySettings.OtherLanyard(addresses: addresses, capabilityFile: file)
            var settings = IdentitySettings(name: "central", kind: .lanyard(lanyard))
            settings.allowsPlain = allowsPlain
            identity = BrokerIdentity(settings, lanyard: lanyard, version: "1.2.3", on: loop)
        }

        deinit {
            identity.stop()
            loop.stop()
        }

        func login(
            _ user: String = "alice", variant: TokenVariant = .plain, inPlaceOf refused: String? = nil
        ) async -> Result<Grant, IdentityError> {
            let credential = Credential.configured(.broker(user: user))
            let progress = CallProgress(.login, inPlaceOf: refused.map(Tokens.secret))
            return await withCheckedContinuation { done in
                if variant == .plain {
                    identity.login(credential, guarded: nil, progress: progress) { done.resume(returning: $0) }
                } else {
                    identity.fetch(variant, by: .login(credential, nil), progress: progress) {
                        done.resume(returning: $0)
                    }
                }
                loop.pass(FileSettling.settlingDelay)
            }
        }

        func error(_ user: String = "alice") async throws -> IdentityError {
            let result = await login(user)
            return try #require(throws: IdentityError.self) { try result.get() }
        }
    }

    private static func json(_ status: Int, _ body: String, _ fields: [(String, String)] = []) -> RawResponse {
        .response(status, "X", fields: [("Content-Type", "application/json")] + fields, body: body).closing
    }

    private static func token(_ token: String = "t1", generation: Int = 7, user: String = "alice") -> RawResponse {
        json(
            200,
            #"{"access_token":"\#(token)","token_type":"Bearer","user":"\#(user)","generation":\#(generation),"expires_in":1795}"#
        )
    }

    private static func problem(
        _ status: Int, _ name: String, _ fields: [(String, String)] = [], detail: String = "of the broker"
    ) -> RawResponse {
        json(status, #"{"type":"urn:lanyard:problem:\#(name)","status":\#(status),"detail":"\#(detail)"}"#, fields)
    }

    private static func address(_ server: RawServer) -> Address { .url("http://\(server.endpoint)") }

    private static func server(_ script: @escaping @Sendable (RawMessage) -> RawResponse) throws -> RawServer {
        try RawServer { script($0.message) }
    }

    // MARK: Tokens

    @Test("a login is GET /v1/token at the unix socket, as localhost, with the capability of the file")
    func unixSocket() async throws {
        let folder = try TemporaryFolder()
        let server = try RawServer(at: .unix(folder.file("broker.sock"))) { _ in Self.token() }
        let capability = String(repeating: "c", count: 40)
        let bench = try Bench([.unix(path: folder.file("broker.sock"))], capability: capability + "\n")
        let grant = try await bench.login().get()
        #expect(Tokens.text(grant.accessToken) == "t1" && grant.refreshToken == nil && grant.userID == nil)
        #expect(grant.lifetime == .seconds(1795) && grant.account == AccountFingerprint(of: ["broker", "alice"]))
        let request = try #require(server.requests.first)
        #expect(request.method == "GET" && request.target == "/v1/token?user=alice")
        #expect(request.values("Host") == ["localhost"] && request.values("User-Agent") == ["lanyard/1.2.3"])
        #expect(request.values("Lanyard-Capability") == [capability])
    }

    @Test("the life of a token counts from the response, for which the broker may have let the call wait")
    func arrival() async throws {
        let respondedAt = Guarded<Instant?>(nil)
        let server = try Self.server { _ in
            // The call waits. A loop's clock may be some milliseconds behind.
            let end = Instant.now + .milliseconds(200)
            while Instant.now < end {}
            respondedAt.withLock { $0 = end }
            return Self.token()
        }
        let bench = try Bench([Self.address(server)])
        let grant = try await bench.login().get()
        let arrivedAt = try #require(respondedAt.withLock { $0 })
        #expect(try #require(grant.requestStartedAt).instant >= arrivedAt - .milliseconds(100))
    }

    @Test("audience, resources and scopes are parameters; the refused token of a variant is reported with them")
    func variant() async throws {
        let server = try Self.server { $0.method == "POST" ? Self.json(202, "{}") : Self.token() }
        let bench = try Bench([Self.address(server)])
        let variant = TokenVariant(audience: "https://api.example.com", scopes: ["write", "read all"])
        _ = try await bench.login(variant: variant).get()
        #expect(
            server.requests.map(\.target) == [
                "/v1/token?user=alice&audience=https%3A%2F%2Fapi.example.com&scope=read+all+write"
            ])
        _ = await bench.login(variant: variant, inPlaceOf: "t1")
        let report = try #require(server.requests.first { $0.method == "POST" })
        #expect(report.target == "/v1/token/refused")
        #expect(
            report.bodyText
                == #"{"user":"alice","generation":7,"audience":"https://api.example.com","scope":"read all write"}"#)
    }

    @Test("a refused token is reported by its generation, and the next one is asked for")
    func refused() async throws {
        let isReported = Guarded(false)
        let server = try Self.server { request in
            guard request.method == "GET" else {
                isReported.withLock { $0 = true }
                return Self.json(202, "{}")
            }
            return isReported.withLock { $0 } ? Self.token("t2", generation: 8) : Self.token()
        }
        let bench = try Bench([Self.address(server)])
        _ = try await bench.login().get()
        let grant = try await bench.login(inPlaceOf: "t1").get()
        #expect(Tokens.text(grant.accessToken) == "t2")
        #expect(server.requests.map(\.method) == ["GET", "POST", "GET"])
        #expect(server.requests[1].bodyText == #"{"user":"alice","generation":7}"#)
        // The new one was not refused.
        _ = try await bench.login().get()
        #expect(server.requests.map(\.method) == ["GET", "POST", "GET", "GET"])
    }

    @Test("the generation of a token from before a restart is learned first; the report and another request follow")
    func unknownGeneration() async throws {
        let isReported = Guarded(false)
        let server = try Self.server { request in
            guard request.method == "GET" else {
                isReported.withLock { $0 = true }
                return Self.json(202, "{}")
            }
            return isReported.withLock { $0 } ? Self.token("t2", generation: 8) : Self.token()
        }
        let bench = try Bench([Self.address(server)])
        #expect(Tokens.text(try await bench.login(inPlaceOf: "t1").get().accessToken) == "t2")
        #expect(server.requests.map(\.method) == ["GET", "POST", "GET"])
    }

    @Test("the same token again after a report brings no newer one; the next call reports it once more")
    func sameToken() async throws {
        let server = try Self.server { $0.method == "GET" ? Self.token() : Self.json(202, "{}") }
        let bench = try Bench([Self.address(server)])
        _ = try await bench.login().get()
        let result = await bench.login(inPlaceOf: "t1")
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.verdict == .transient(retryAfter: nil) && error.message.contains("no newer token"))
        let reports = server.requests.count { $0.method == "POST" }
        #expect(reports == 1 && server.requests.count == 3 + BrokerIdentity.repetitions.count)
        _ = await bench.login()
        #expect(server.requests.count { $0.method == "POST" } == 2)
    }

    // MARK: Refusals

    @Test(
        "what the broker says is passed on",
        arguments: [
            (503, "login-required", "transient", IdentityError.PassedProblem.loginRequired, "alice"),
            (503, "no-active-user", "transient", .loginRequired, "activate"),
            (503, "credential-refused", "transient", .credentialRefused, "alice"),
            (503, "identity-unreachable", "transient", nil, "alice"),
            (503, "overloaded", "transient", nil, "overloaded"),
            (403, "caller-not-allowed", "client_refused", nil, "callers"),
            (400, "malformed-request", "client_refused", nil, "login.broker"),
            (404, "no-route", "transient", nil, "check address"),
        ] as [(Int, String, String, IdentityError.PassedProblem?, String)])
    func problems(
        _ status: Int, _ name: String, _ verdict: String, _ passedOn: IdentityError.PassedProblem?, _ words: String
    ) async throws {
        let server = try Self.server { _ in Self.problem(status, name, [("Retry-After", "9")]) }
        let error = try await Bench([Self.address(server)]).error()
        #expect(error.verdict.label == verdict && error.passedOn == passedOn, "\(error)")
        #expect(error.message.contains(words) && error.serviceText == "of the broker", "\(error)")
        #expect(error.isDenied == [400, 403].contains(status))
        if verdict == "transient" { #expect(error.retryAfter == .seconds(9)) }
    }

    @Test("a detail that repeats the capability is not shown")
    func echo() async throws {
        let capability = String(repeating: "Kq7", count: 12)
        let server = try Self.server { request in
            Self.problem(403, "caller-not-allowed", detail: "not \(request.values("Lanyard-Capability").first ?? "")")
        }
        let error = try await Bench([Self.address(server)], capability: capability).error()
        #expect(error.serviceText == nil && !error.operatorMessage.contains("Kq7"))
    }

    @Test(
        "a success that is none says what is wrong with it",
        arguments: [
            ("<html>", "not a JSON object"), ("[]", "not a JSON object"),
            (#"{"token_type":"Bearer"}"#, "no access_token"),
            (
                #"{"access_token":"a b","token_type":"Bearer","user":"alice","generation":1,"expires_in":9}"#,
                "no access_token"
            ),
            (#"{"access_token":"t","token_type":"MAC","user":"alice","generation":1,"expires_in":9}"#, "token_type"),
            (#"{"access_token":"t","token_type":"Bearer","user":"bob","generation":1,"expires_in":9}"#, "another user"),
            (#"{"access_token":"t","token_type":"Bearer","generation":1,"expires_in":9}"#, "there is no user"),
            (#"{"access_token":"t","token_type":"Bearer","user":"alice","expires_in":9}"#, "no generation"),
            (#"{"access_token":"t","token_type":"Bearer","user":"alice","generation":1}"#, "no expires_in"),
            (
                #"{"access_token":"t","token_type":"Bearer","user":"alice","generation":1,"expires_in":-5}"#,
                "less than 2 s"
            ),
            (
                #"{"access_token":"t","token_type":"Bearer","user":"alice","generation":1,"expires_in":1}"#,
                "less than 2 s"
            ),
        ])
    func malformed(_ body: String, _ words: String) async throws {
        let server = try Self.server { _ in Self.json(200, body) }
        let error = try await Bench([Self.address(server)]).error()
        #expect(error.verdict == .transient(retryAfter: nil) && error.message.contains(words), "\(error.message)")
        #expect(!error.message.contains("\"t\"") && !error.operatorMessage.contains("bob"))
    }

    @Test("the active user of the other Lanyard has a name of its own, which is the account")
    func activeUser() async throws {
        let server = try Self.server { _ in Self.token(user: "carol") }
        let grant = try await Bench([Self.address(server)]).login("active").get()
        #expect(grant.account == AccountFingerprint(of: ["broker", "carol"]))
    }

    @Test("a login of another kind is none of this identity")
    func foreign() async throws {
        let bench = try Bench([.unix(path: "/none")])
        let result = await withCheckedContinuation { done in
            bench.identity.login(.configured(.gitHubApp), guarded: nil) { done.resume(returning: $0) }
        }
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.isForeignKind && error.message.contains("use one of broker"))
    }

    // MARK: Addresses

    @Test(
        "no connection, a broken one, and 503 lead to the next address; a denial does not",
        arguments: ["none", "close", "503", "403"])
    func addresses(_ trouble: String) async throws {
        let first = try Self.server { _ in
            switch trouble {
            case "close": RawResponse.close
            case "503": Self.problem(503, "shutting-down")
            default: Self.problem(403, "caller-not-allowed")
            }
        }
        let second = try Self.server { _ in Self.token() }
        let bench = try Bench([
            trouble == "none" ? .unix(path: "/nonexistent/broker.sock") : Self.address(first), Self.address(second),
        ])
        let result = await bench.login()
        #expect(((try? result.get()) != nil) == (trouble != "403"))
        #expect(second.requests.count == (trouble == "403" ? 0 : 1))
        // Calls stay at the address that has responded.
        let former = first.requests.count
        _ = await bench.login()
        #expect(trouble == "403" || first.requests.count == former)
    }

    @Test("of several failures the word of a Lanyard counts, and then the first")
    func failures() async throws {
        let said = try Self.server { _ in Self.problem(503, "login-required") }
        let error = try await Bench([.unix(path: "/nonexistent/a"), Self.address(said)]).error()
        #expect(error.passedOn == .loginRequired)
        let silent = try await Bench([.unix(path: "/nonexistent/a"), .unix(path: "/nonexistent/b")]).error()
        #expect(silent.cause == .noResponse && silent.message.contains("No such file"), "\(silent.message)")
    }

    @Test("plain http goes to loopback addresses alone, and no proxy is asked for a unix socket")
    func plain() async throws {
        let error = try await Bench([.url("http://192.0.2.1:9")]).error()
        #expect(error.cause == .prohibited && error.isAlarming)
    }

    @Test("the online check connects to a unix socket")
    func connects() async throws {
        let folder = try TemporaryFolder()
        let server = try RawServer(at: .unix(folder.file("b"))) { _ in Self.token() }
        let bench = try Bench([.unix(path: folder.file("b"))])
        let result = await withCheckedContinuation { done in bench.identity.connect { done.resume(returning: $0) } }
        #expect(try result.get().address == "unix:\(folder.file("b"))")
        #expect(server.requests.isEmpty)
    }

    @Test("a logout tells the other Lanyard nothing")
    func logout() async throws {
        let server = try Self.server { _ in Self.token() }
        let bench = try Bench([Self.address(server)])
        #expect(!bench.identity.revokesAccessTokens && bench.identity.accounts == nil)
        let result = await withCheckedContinuation { done in
            bench.identity.revoke(Tokens.secret("x")) { done.resume(returning: $0) }
        }
        let error = try #require(throws: IdentityError.self) { try result.get() }
        #expect(error.isUnsupported && server.requests.isEmpty)
    }
}
