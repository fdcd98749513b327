import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// Which failures of a refresh leave its outcome unknown (refresh-outcomes.md 9): those after the request was sent.
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

    // MARK: A body that is held back

    private final class Questions: Sendable {
        private let number = Guarded(0)
        var count: Int { number.withLock { $0 } }
        func add() { number.withLock { $0 += 1 } }
    }

    /// A gate that counts how often it is asked.
    private static func gate() -> (gate: SendGate, questions: Questions) {
        let questions = Questions()
        return (SendGate { questions.add() }, questions)
    }

    /// What has come on the only connection to the token endpoint.
    private static func bytes(_ server: RawServer) -> String {
        String(decoding: server.records.first?.bytes ?? [], as: UTF8.self)
    }

    @Test(
        "the head is sent, the gate is asked once, and the body with the refresh token follows its answer",
        arguments: [false, true])
    func held(overTLS: Bool) async throws {
        let server = try RawServer { _ in OAuthBench.json(200, #"{"access_token":"a","refresh_token":"r2"}"#) }
        let authority = TestAuthority()
        let relay = try TLSRelay(.server(authority.issue("IP:127.0.0.1")), before: server.endpoint)
        let bench = try OAuthBench(
            tls: IdentityTLSContents(authorities: Tokens.secret(authority.pem)),
            settings: { client, _ in
                client.endpoints.token = overTLS ? "https://\(relay.endpoint)/token" : "http://\(server.endpoint)/token"
            })
        let (gate, questions) = Self.gate()
        async let result = bench.refresh(gate: gate)
        try await eventually("the head has come") { Self.bytes(server).hasSuffix("\r\n\r\n") }
        try await eventually("the gate is asked") { questions.count == 1 }
        #expect(gate.isAwaited && server.requests.isEmpty)
        gate.open()
        #expect(Tokens.text(try await result.get().refreshToken) == "r2")
        #expect(questions.count == 1)
        #expect(server.requests.map(\.bodyText).first?.contains("refresh_token=\(Tokens.refresh)") == true)
    }

    @Test("a refresh that is given up before its body: the refresh token is not sent")
    func givenUp() async throws {
        let server = try RawServer()
        let bench = try Self.bench(token: "http://\(server.endpoint)/token")
        let (gate, questions) = Self.gate()
        async let result = bench.refresh(gate: gate)
        try await eventually("the gate is asked") { questions.count == 1 }
        gate.cancel()
        #expect(await result.failure?.verdict == .transient(retryAfter: nil))
        try await eventually("the connection ends") { server.records.first?.ended == true }
        #expect(Self.bytes(server).hasSuffix("\r\n\r\n") && server.requests.isEmpty)
        // Given up before it is asked.
        let early = Self.gate()
        early.gate.cancel()
        #expect(await bench.refresh(gate: early.gate).failure?.verdict == .transient(retryAfter: nil))
        #expect(early.questions.count == 0 && server.requests.isEmpty)
    }

    /// What a refresh comes to whose server does something between its head and its body.
    private static func verdict(
        _ act: (RawSocket) throws -> Void
    ) async throws -> IdentityError.Verdict? {
        let listener = try RawSocket.listen(at: .tcp(0))
        defer { listener.close() }
        let bench = try bench(token: "http://127.0.0.1:\(listener.localPort)/token")
        let (gate, questions) = gate()
        async let result = bench.refresh(gate: gate)
        try await eventually("the gate is asked") { questions.count == 1 }
        let socket = try #require(listener.accept(with: nil))
        let head = String(decoding: try socket.receive(with: nil), as: UTF8.self)
        try #require(head.hasPrefix("POST /token ") && head.hasSuffix("\r\n\r\n"))
        try act(socket)
        gate.open()
        return await result.failure?.verdict
    }

    @Test(
        "a connection that the server ends while the body is held back: nothing was sent",
        arguments: [FaultGate.Ending.close, .reset])
    func endedWhileHeld(_ ending: FaultGate.Ending) async throws {
        let verdict = try await Self.verdict { socket in
            switch ending {
            case .close: socket.close()
            case .reset: socket.reset()
            }
        }
        #expect(verdict == .transient(retryAfter: nil))
    }

    @Test("a refusal that comes before the body says nothing of the refresh token")
    func earlyResponse() async throws {
        let body = #"{"error":"invalid_grant"}"#
        let fields = "Content-Type: application/json\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        let verdict = try await Self.verdict { socket in
            try socket.send(Array("HTTP/1.1 400 Bad Request\r\n\(fields)\(body)".utf8))
            // libcurl ends the transfer with the response, or the body is not given to the closed connection.
            socket.close()
        }
        #expect(verdict == .transient(retryAfter: nil))
    }
}
