import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("App Services: where the service is")
struct AppServicesLocationTests {
    private static let isLocation: @Sendable (String) -> Bool = { $0.hasSuffix("/location") }

    @Test("the place that location names serves all further calls")
    func otherHost() async throws {
        let other = try RawServer { _ in IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#) }
        let bench = try IdentityBench { _, path in
            Self.isLocation(path) ? IdentityBench.location("http://\(other.endpoint)/") : nil
        }
        for _ in 0..<2 { _ = try await bench.refresh().get() }
        #expect(bench.server.requests.map(\.method) == ["GET"])
        #expect(other.requests.map(\.method) == ["POST", "POST"])
    }

    @Test("an empty hostname, and a hostname alone, are enough", arguments: [#"{"hostname":""}"#, nil])
    func sparse(body: String?) async throws {
        let bench = try IdentityBench { request, path in
            guard Self.isLocation(path) else { return nil }
            return IdentityBench.json(200, body ?? #"{"hostname":"http://\#(request["Host"] ?? "")"}"#)
        }
        _ = try await bench.refresh().get()
    }

    @Test("a failure is that call's alone: the next one asks again")
    func notRemembered() async throws {
        let isDown = Guarded(true)
        let bench = try IdentityBench { _, path in
            Self.isLocation(path) && isDown.withLock { $0 } ? IdentityBench.json(500, #"{"error":"no"}"#) : nil
        }
        let error = await bench.refresh().failure
        #expect(error?.verdict == .transient(retryAfter: nil) && error?.status == 500)
        isDown.withLock { $0 = false }
        _ = try await bench.refresh().get()
        #expect(bench.server.requests.map(\.method) == ["GET", "GET", "POST"])
    }

    @Test(
        "a hostname that is no plain origin is not gone to",
        arguments: [
            "ftp://x", "http://u:p@x", "http://x/path", "http://x?q", "x", "http://", "http://x:0", "http://a b",
        ])
    func badHostname(hostname: String) async throws {
        let bench = try IdentityBench { _, path in Self.isLocation(path) ? IdentityBench.location(hostname) : nil }
        let error = await bench.refresh().failure
        #expect(error?.verdict == .transient(retryAfter: nil))
        #expect(bench.server.requests.map(\.method) == ["GET"])
    }

    @Test(
        "location answers that are none are transient",
        arguments: ["", "<html>", "[]", #"{"hostname":7}"#, #"{"hostname":null}"#, #"{"location":"X"}"#])
    func garbage(body: String) async throws {
        let bench = try IdentityBench { _, path in Self.isLocation(path) ? IdentityBench.json(200, body) : nil }
        #expect(await bench.refresh().failure?.verdict == .transient(retryAfter: nil))
        #expect(bench.server.requests.count == 1)
    }

    @Test(
        "three redirects of location are followed, relative ones too, always without Authorization",
        arguments: [301, 302, 307, 308])
    func redirects(status: Int) async throws {
        let bench = try IdentityBench { request, path in
            switch path {
            case IdentityBench.appPath + "/location":
                .response(status, "R", fields: [("Location", "/one")], body: "").closing
            case "/one":
                .response(status, "R", fields: [("Location", "http://\(request["Host"] ?? "")/two?x=1")], body: "")
                    .closing
            case "/two?x=1": .response(status, "R", fields: [("location", "three")], body: "").closing
            case "/three": IdentityBench.location("http://\(request["Host"] ?? "")")
            default: nil
            }
        }
        _ = try await bench.refresh().get()
        #expect(bench.server.requests.map(\.method) == ["GET", "GET", "GET", "GET", "POST"])
        #expect(bench.server.requests.prefix(4).allSatisfy { $0["Authorization"] == nil })
    }

    @Test("a fourth redirect, one without a place, and one to another scheme are not followed")
    func redirectsRefused() async throws {
        for location in ["/again", nil, "file:///etc/passwd", "gopher://127.0.0.1/", "http://u:p@127.0.0.1/"] {
            let bench = try IdentityBench { _, _ in
                .response(301, "R", fields: location.map { [("Location", $0)] } ?? [], body: "").closing
            }
            let error = await bench.refresh().failure
            #expect(error?.verdict == .transient(retryAfter: nil) && error?.status == 301)
            #expect(bench.server.requests.count == (location == "/again" ? 4 : 1))
        }
    }

    @Test("https never leads to http")
    func downgrade() {
        #expect(ServiceOrigin.redirect(from: "https://a.example/x", to: "http://a.example/x") == nil)
        #expect(ServiceOrigin.redirect(from: "https://a.example/x", to: "//b.example/y") == "https://b.example/y")
        #expect(ServiceOrigin.redirect(from: "http://a.example/x", to: "https://a.example/y") == "https://a.example/y")
    }

    @Test("a redirect of a call with a secret is not followed, ends no session, and has location asked again")
    func redirectedRefresh() async throws {
        let elsewhere = try RawServer { _ in .response() }
        let bench = try IdentityBench { request, _ in
            guard request.method == "POST" else { return nil }
            return .response(308, "R", fields: [("Location", "http://\(elsewhere.endpoint)/")], body: "").closing
        }
        for _ in 0..<2 {
            let error = await bench.refresh().failure
            #expect(error?.verdict == .transient(retryAfter: nil) && error?.status == 308)
        }
        #expect(elsewhere.connectionCount == 0)
        #expect(bench.server.requests.map(\.method) == ["GET", "POST", "GET", "POST"])
    }

    @Test("a place that no longer answers is asked for again, at the base URL")
    func moved() async throws {
        let other = try RawServer { _ in IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#) }
        let gate = try FaultGate(before: other.endpoint)
        let target = Guarded<RawEndpoint?>(gate.endpoint)
        let bench = try IdentityBench { _, path in
            Self.isLocation(path) ? target.withLock { $0 }.map { IdentityBench.location("http://\($0)") } : nil
        }
        _ = try await bench.refresh().get()
        try gate.set(.refuse)
        target.withLock { $0 = nil }
        #expect(await bench.refresh().failure?.verdict == .transient(retryAfter: nil))
        _ = try await bench.refresh().get()
        #expect(bench.server.requests.map(\.method) == ["GET", "GET", "POST"])
    }

    /// A service that moves: what its old place says of sessions and credentials then is not final.
    private final class Moved: Sendable {
        private final class State: Sendable {
            let hasMoved = Guarded(false)
            let target = Guarded<RawEndpoint?>(nil)
        }

        let bench: IdentityBench
        /// Knows no user once the service has moved.
        let old: RawServer
        let new: RawServer
        private let state: State

        /// - Parameter refusal: what the old place says once the service has moved.
        init(_ refusal: RawResponse) throws {
            let state = State()
            self.state = state
            let response: @Sendable (RawMessage) -> RawResponse = { request in
                switch request.method {
                case "DELETE": .response(204, "No Content")
                case _ where request.target.hasSuffix("/login"):
                    IdentityBench.json(
                        200,
                        #"{"access_token":"\#(Tokens.access())","refresh_token":"r","user_id":"u","device_id":"d"}"#)
                default: IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#)
                }
            }
            old = try RawServer { state.hasMoved.withLock { $0 } ? refusal : response($0.message) }
            new = try RawServer { response($0.message) }
            let first = old.endpoint
            bench = try IdentityBench { _, path in
                AppServicesLocationTests.isLocation(path)
                    ? IdentityBench.location("http://\(state.target.withLock { $0 } ?? first)") : nil
            }
        }

        /// From here on the old place refuses everything.
        ///
        /// - Parameter isAnnounced: location names the new place.
        func move(isAnnounced: Bool = true) {
            state.hasMoved.withLock { $0 = true }
            if isAnnounced { state.target.withLock { $0 = new.endpoint } }
        }
    }

    private static let refusals: [RawResponse] = [
        IdentityBench.json(401, #"{"error":"invalid session","error_code":"InvalidSession"}"#),
        IdentityBench.json(401, #"{"error":"unauthorized","error_code":"InvalidPassword"}"#),
        IdentityBench.json(403, #"{"error":"no","error_code":"UserDisabled"}"#),
        IdentityBench.json(404, #"{"error":"cannot find app using Client App ID 'demo-abcde'"}"#),
        .response(401, "Unauthorized"),
    ]

    @Test(
        "what a remembered place refuses for good is asked once more at the place that location names now",
        arguments: 0..<5)
    func confirmed(_ number: Int) async throws {
        let it = try Moved(Self.refusals[number])
        _ = try await it.bench.refresh().get()
        it.move()
        _ = try await it.bench.refresh().get()
        #expect(it.bench.server.requests.map(\.method) == ["GET", "GET"])
        #expect(it.old.requests.map(\.method) == ["POST", "POST"] && it.new.requests.map(\.method) == ["POST"])
    }

    @Test("the same of a login", arguments: 0..<5)
    func confirmedLogin(_ number: Int) async throws {
        let it = try Moved(Self.refusals[number])
        _ = try await it.bench.refresh().get()
        it.move()
        _ = try await it.bench.login(
            .given(.emailPassword(email: "a@x", password: Tokens.secret("p"))), guarded: nil
        ).get()
        #expect(it.old.requests.count == 2 && it.new.requests.map(\.method) == ["POST"])
    }

    @Test("a logout that a remembered place does not know is told to the place that location names now")
    func confirmedLogout() async throws {
        let it = try Moved(Self.refusals[0])
        _ = try await it.bench.refresh().get()
        it.move()
        _ = try await it.bench.revoke().get()
        #expect(it.new.requests.map(\.method) == ["DELETE"])
    }

    @Test("if location names the same place, its refusal counts, and nothing is sent twice")
    func confirmedRefusal() async throws {
        let it = try Moved(Self.refusals[0])
        _ = try await it.bench.refresh().get()
        it.move(isAnnounced: false)
        #expect(await it.bench.refresh().failure?.verdict == .sessionDead)
        #expect(it.bench.server.requests.map(\.method) == ["GET", "GET"])
        #expect(it.old.requests.map(\.method) == ["POST", "POST"] && it.new.requests.isEmpty)
    }

    @Test("while the location cannot be asked, nothing is concluded; the next call asks for it first")
    func unconfirmed() async throws {
        let isDown = Guarded(false)
        let refusal = Self.refusals[0]
        let bench = try IdentityBench { request, path in
            if Self.isLocation(path), isDown.withLock({ $0 }) { return .response(503, "Unavailable") }
            return request.method == "POST" && isDown.withLock { $0 } ? refusal : nil
        }
        _ = try await bench.refresh().get()
        isDown.withLock { $0 = true }
        let error = await bench.refresh().failure
        #expect(error?.verdict == .transient(retryAfter: nil))
        #expect(error?.message.contains("so this is not taken for final") == true, "\(error?.message ?? "")")
        isDown.withLock { $0 = false }
        _ = try await bench.refresh().get()
        #expect(bench.server.requests.map(\.method) == ["GET", "POST", "POST", "GET", "GET", "POST"])
    }

    @Test("a place that has gone, or fails, is asked for again at the next call", arguments: [404, 410, 421, 500, 503])
    func askedAgain(_ status: Int) async throws {
        let it = try Moved(.response(status, "No"))
        _ = try await it.bench.refresh().get()
        it.move()
        _ = await it.bench.refresh().failure
        _ = try await it.bench.refresh().get()
        #expect(it.new.requests.map(\.method) == ["POST"])
    }
}
