import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// Faults of the network below TLS: what is cut, delayed or replaced is ciphertext.
@Suite struct TLSFaultTests {
    private static let large = RawResponse.response(body: String(repeating: "0123456789", count: 10_000))

    private static func upstream() throws -> RawServer {
        try RawServer { $0.message.target == "/large" ? large : .response(body: "ok") }
    }

    /// Whole: nothing else may be taken for a response.
    private static func isWhole(_ message: RawMessage?) -> Bool {
        message?.status == 200 && message?.bodyCount == 100_000
    }

    private static func cuts() -> [FaultGate.Mode] {
        [0, 1, 5, 200, 400].flatMap { count in
            [FaultGate.Ending.close, .reset].map { FaultGate.Mode.tear(afterBytes: count, $0) }
        }
    }

    @Test("a handshake with the upstream that is cut anywhere is a 502, no request goes, and the next one is served")
    func upstreamHandshake() async throws {
        let upstream = try Self.upstream()
        let sides = try await TLSBothSides.start(before: upstream.endpoint, gated: true)
        let gate = try #require(sides.gates).upstream
        for mode in Self.cuts() + [.dropRequest(.close), .dropRequest(.reset)] {
            try gate.set(mode)
            let response = try await sides.get("/")
            #expect(response.status == 502, "\(mode): \(response.headText)")
            #expect(response["Proxy-Status"] == "lanyard; error=connection_terminated", "\(mode): \(response.headText)")
        }
        try gate.set(.garbage(Array("SSH-2.0-OpenSSH_9.2\r\n".utf8)))
        #expect(try await sides.get("/")["Proxy-Status"] == "lanyard; error=tls_protocol_error")
        #expect(upstream.requests.isEmpty)
        try gate.set(.pass)
        #expect(try await sides.get("/").status == 200)
    }

    @Test("a response that is cut anywhere is never taken for a whole one, over kept connections and new ones")
    func upstreamResponse() async throws {
        let upstream = try Self.upstream()
        let sides = try await TLSBothSides.start(before: upstream.endpoint, gated: true, rest: "shards: 1\n")
        let gate = try #require(sides.gates).upstream
        for count in [0, 1, 5, 30, 300, 17_000, 60_000] {
            for ending in [FaultGate.Ending.close, .reset] {
                try gate.set(.pass)
                #expect(try await sides.get("/").bodyText == "ok", "\(count)")
                // The connection is kept, and its next response is cut; a second attempt meets the same in its handshake or later.
                try gate.set(.tear(afterBytes: count, ending))
                let response = try? await sides.get("/large")
                #expect(!Self.isWhole(response), "\(count) \(ending)")
                if let response { #expect(response.status == 502, "\(count) \(ending): \(response.headText)") }
            }
        }
        try gate.set(.pass)
        #expect(Self.isWhole(try await sides.get("/large")))
        withExtendedLifetime(upstream) {}
    }

    @Test("byte by byte and late, on both sides at once, everything is the same")
    func slow() async throws {
        let upstream = try Self.upstream()
        let sides = try await TLSBothSides.start(before: upstream.endpoint, gated: true)
        let gates = try #require(sides.gates)
        for mode in [FaultGate.Mode.drip(.microseconds(100)), .delayResponse(.milliseconds(100))] {
            try gates.listener.set(mode)
            try gates.upstream.set(mode)
            #expect(try await sides.get("/").bodyText == "ok", "\(mode)")
        }
        #expect(upstream.requests.count == 2)
    }

    @Test("a client's connection that is cut anywhere leaves nothing behind, and others are served")
    func listener() async throws {
        let upstream = try Self.upstream()
        let sides = try await TLSBothSides.start(before: upstream.endpoint, gated: true)
        let gate = try #require(sides.gates).listener
        for mode in Self.cuts() + [.tear(afterBytes: 20_000, .reset), .tear(afterBytes: 20_000, .close)] {
            try gate.set(mode)
            let response = try? await sides.get("/large")
            #expect(!Self.isWhole(response), "\(mode)")
        }
        try gate.set(.pass)
        #expect(Self.isWhole(try await sides.get("/large")))
        for ending in [FaultGate.Ending.close, .reset] {
            // In the middle of a request, and of a response.
            let (endpoint, host) = (sides.endpoint, sides.lanyard.data)
            let (half, reading) = (try RawClient(endpoint), try RawClient(endpoint))
            try half.send("PUT / HTTP/1.1\r\nHost: \(host)\r\nContent-Length: 100\r\n\r\nabc")
            try reading.send("GET /large HTTP/1.1\r\nHost: \(host)\r\n\r\n")
            _ = try reading.read(100)
            gate.cut(ending)
            _ = try? half.readToEnd()
        }
        try await eventually("no connection is left") {
            try await sides.lanyard.metric("lanyard_client_connections") == 0
        }
        #expect(try await sides.get("/").bodyText == "ok")
        #expect(try await sides.lanyard.metric("lanyard_internal_errors_total") == 0)
        withExtendedLifetime(upstream) {}
    }
}
