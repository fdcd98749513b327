import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface

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
}
