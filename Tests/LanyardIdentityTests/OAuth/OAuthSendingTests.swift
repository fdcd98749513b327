import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Which failures of a refresh leave its outcome unknown (refresh.md 9): those after the request was sent.
@Suite struct OAuthSendingTests {
    private static func bench(
        token endpoint: String, through proxy: IdentitySettings.Proxy = .none
    ) throws -> OAuthBench {
        try OAuthBench(proxy: proxy, settings: { client, _ in client.endpoints.token = endpoint })
    }

    /// Nothing of the call has reached a server, and the session may send the same refresh token again.
    private static func expectUnsent(_ bench: OAuthBench, _ what: String) async {
        let error = await bench.refresh().failure
        #expect(error?.verdict == .transient(retryAfter: nil), "\(what): \(String(describing: error))")
        #expect(bench.forms.isEmpty, "\(what)")
    }

    @Test("a name that does not exist, a refused connection and metadata that cannot be had: nothing was sent")
    func connection() async throws {
        await Self.expectUnsent(try Self.bench(token: "http://name.invalid/token"), "name")
        let gate = try FaultGate(before: .tcp(1), mode: .refuse)
        await Self.expectUnsent(try Self.bench(token: "http://\(gate.endpoint)/token"), "connection")
        await Self.expectUnsent(
            try OAuthBench(settings: { client, _ in client.issuer = "http://\(gate.endpoint)" }), "metadata")
    }

    @Test("a TLS handshake that the server breaks off: nothing was sent", arguments: [FaultGate.Ending.close, .reset])
    func handshake(_ ending: FaultGate.Ending) async throws {
        let gate = try FaultGate(before: .tcp(1), mode: .dropRequest(ending))
        await Self.expectUnsent(try Self.bench(token: "https://\(gate.endpoint)/token"), "\(ending)")
        #expect(gate.connectionCount > 0)
    }

    @Test("a proxy that refuses, breaks off or cannot be reached: nothing was sent")
    func proxy() async throws {
        let proxy = try RawServer { _ in .response(502, "No", body: "") }
        await Self.expectUnsent(
            try Self.bench(token: "https://localhost:1/token", through: .url("http://\(proxy.endpoint)")), "refusal")
        #expect(proxy.requests.map(\.target) == ["localhost:1"])
        let modes: [(String, FaultGate.Mode)] = [
            ("closed", .dropRequest(.close)), ("reset", .dropRequest(.reset)), ("unreachable", .refuse),
        ]
        for (what, mode) in modes {
            let gate = try FaultGate(before: .tcp(1), mode: mode)
            await Self.expectUnsent(
                try Self.bench(token: "https://localhost:1/token", through: .url("http://\(gate.endpoint)")), what)
        }
    }

    @Test(
        "a client certificate that TLS 1.3 refuses after the request was written: nothing was done, and the operator must act"
    )
    func refusedCertificate() async throws {
        let service = try await TLSService(demandsClientCertificate: true)
        let authorities = try service.content("ca.pem")
        let foreign = TestAuthority("Another").issue("")
        let cases = [
            IdentityTLSContents(authorities: authorities),
            IdentityTLSContents(
                authorities: authorities, certificate: Tokens.secret(foreign.certificate),
                key: Tokens.secret(foreign.key)),
        ]
        for tls in cases {
            let bench = try OAuthBench(
                tls: tls,
                settings: { client, _ in client.endpoints.token = "https://127.0.0.1:\(service.port)/token" })
            for _ in 0..<3 {
                let error = try #require(await bench.refresh().failure)
                #expect(error.verdict == .transient(retryAfter: nil), "\(error.message)")
                #expect(error.message.contains("client certificate"), "\(error.message)")
                #expect(error.action(canLogIn: true) == .operator)
            }
        }
    }

    @Test("a request that was sent over TLS and has no response has an unknown outcome, too")
    func lostOverTLS() async throws {
        let authority = TestAuthority()
        let gate = try FaultGate(before: .tcp(1), mode: .dropRequest(.reset))
        let relay = try TLSRelay(.server(authority.issue("IP:127.0.0.1")), before: gate.endpoint)
        let bench = try OAuthBench(
            tls: IdentityTLSContents(authorities: Tokens.secret(authority.pem)),
            settings: { client, _ in client.endpoints.token = "https://\(relay.endpoint)/token" })
        #expect(await bench.refresh().failure?.verdict == .unknownOutcome)
    }

    @Test(
        "a refresh that was sent and has no response has an unknown outcome",
        arguments: [
            FaultGate.Mode.dropRequest(.close), .dropRequest(.reset), .tear(afterBytes: 0, .close),
            .tear(afterBytes: 30, .reset),
        ])
    func lost(_ mode: FaultGate.Mode) async throws {
        let server = try RawServer { _ in OAuthBench.json(200, #"{"access_token":"a","refresh_token":"r2"}"#) }
        let gate = try FaultGate(before: server.endpoint, mode: mode)
        let bench = try Self.bench(token: "http://\(gate.endpoint)/token")
        #expect(await bench.refresh().failure?.verdict == .unknownOutcome)
        #expect(await bench.login(.clientCredentials).failure?.verdict == .transient(retryAfter: nil))
    }
}
